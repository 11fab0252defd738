"""Counts against print: every figure once, in one place, by two limits."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from colabel.datasets import load_digit_traits
from colabel.experiments import Figure, Results, load_plan
from colabel.experiments.characteristics import Characteristics, measured
from colabel.experiments.claims import Claim
from colabel.experiments.record import (
    counts,
    differences,
    judging,
    marks_alike,
    other_remarks,
    printed_win_tie_loss,
    table_title,
)
from colabel.experiments.remarks import KINDS, Remark
from colabel.report.study_markdown import paper_numbers, paper_sentence, results_markdown
from tests.experiments.test_results import MATCH, TEXT, row

ERROR = np.std(MATCH["one", "A"], ddof=1) / math.sqrt(5)  # of A on one, whose mean is .8


def study(write_plan, *figures: Figure, **parts) -> Results:
    plan = replace(load_plan(write_plan(TEXT)), figures=figures, **parts)
    rows = [
        row(dataset, method, split, "exact_match", value)
        for (dataset, method), values in MATCH.items()
        for split, value in enumerate(values)
    ]
    return Results(plan, tuple(rows))


def printed(value: float, method: str = "A", dataset: str = "one", **parts) -> Figure:
    return Figure("2", "exact_match", dataset, method, value, **parts)


@pytest.mark.parametrize(
    ("errors", "worse", "better", "agree"),
    [
        (1.9, (0, 0), (0, 0), 1),
        (2.5, (1, 0), (0, 0), 1),  # differs from ours, not from print with an error like ours
        (2.9, (1, 1), (0, 0), 0),
        (-2.5, (0, 0), (1, 0), 1),
        (-2.9, (0, 0), (1, 1), 0),
    ],
)
def test_two_limits(write_plan, errors, worse, better, agree):
    found = counts(study(write_plan, printed(0.8 + errors * ERROR)))
    assert (found.worse, found.better, found.agree) == (worse, better, agree)
    assert found.kinds["open"] == 1 - agree


def test_every_figure_has_one_place(write_plan):
    results = study(
        write_plan,
        printed(0.8),  # agrees
        printed(0.1, "B"),  # a convention
        printed(0.9, "A", "two"),  # open: no remark
        printed(0.5, "B", "moon"),  # left out
        Figure("3", "log_loss_sum_per_fold", "one", "A", 9.0),  # not measured
        remarks={"one/B": Remark("why", "convention", "seen"), "two/B": Remark("unused")},
        left_out={"moon": "not to be had"},
    )
    found = counts(results)
    assert (found.printed, found.compared, found.agree, found.missing) == (5, 3, 1, 1)
    assert {kind: n for kind, n in found.kinds.items() if n} == {
        "convention": 1,
        "open": 1,
        "data": 1,
    }
    numbers = paper_numbers(found)
    assert numbers[0] == sum(numbers[1 : 3 + len(KINDS)])
    assert paper_sentence(found) == (
        "of 5 printed figures 1 agree, the others do not (1 convention, 1 other data, 1 open, "
        "1 not measured)"
    )
    assert [(d.method, d.remark.kind, d.disagrees) for d in differences(results)] == [
        ("B", "convention", True),
        ("A", "open", True),
    ]
    assert list(other_remarks(results)) == ["two/B"]


def test_claims_of_speed_are_counted_apart(write_plan):
    faster = Claim("fast", "A", ("B",), (), ("one", "two"), faster=3.0)
    better = Claim("good", "A", ("B",), ("exact_match",), ("one", "two"))
    found = counts(study(write_plan, claims=(faster, better)))
    assert found.verdicts == {"not comparable": 2, "yes": 1, "no": 1}


def test_a_paper_is_judged_as_its_authors_ran_it(write_plan):
    ours = study(write_plan, printed(0.8), paper="P", title="ours")
    theirs = study(write_plan, printed(0.8), paper="P", title="theirs", as_run=True)
    alone = study(write_plan, printed(0.8), title="alone")
    silent = study(write_plan, title="nothing in print")
    for order in ([ours, theirs, alone, silent], [silent, alone, theirs, ours]):
        judges = judging(order)
        assert {name: r.plan.title for name, r in judges.items()} == {
            "P": "theirs",
            "alone": "alone",
        }
    text = results_markdown([ours, theirs, alone, silent])
    assert text.count("\n- **P**, as its authors ran it: ") == text.count("\n| P |") == 1
    assert text.index("- **P**") < text.index("## ours")
    assert "\n- " not in results_markdown([silent]).split("## ")[0]


def test_printed_wins_and_marks(write_plan):
    figures = (printed(0.8), printed(0.6, "B", mark="+"), printed(0.5, "B", "two", mark="-"))
    results = study(write_plan, *figures)
    assert printed_win_tie_loss(results.plan, "exact_match", "B") == (1, 0, 1)
    assert printed_win_tie_loss(results.plan, "exact_match", "A") is None  # the reference
    assert marks_alike(results, "exact_match") == (1, 2)  # + is measured on one, nothing on two
    counted = replace(results.plan, win_tie_loss={("exact_match", "B"): (9, 1, 0)})
    assert printed_win_tie_loss(counted, "exact_match", "B") == (9, 1, 0)
    text = results_markdown([replace(results, plan=counted)])
    assert "| win/tie/loss |  | 1/1/0 |\n| win/tie/loss in print |  | 9/1/0 |" in text
    assert "(.600 +)" in text
    assert "Of 2 marks of significance in print 1 are measured too." in text


def test_titles_of_tables_are_the_papers(write_plan):
    assert table_title(study(write_plan), "exact_match") == "Exact match"
    assert table_title(study(write_plan, printed(0.8)), "exact_match") == "Table 2: exact match"
    slides = printed(0.8)._replace(table="slides")
    assert table_title(study(write_plan, slides), "exact_match") == "Slides: exact match"


def test_sizes_of_the_bundled_data(write_plan):
    text = TEXT.replace('{ name = "one" }', '{ name = "digit_traits", printed = { rows = 1797 } }')
    found = measured(load_plan(write_plan(text)))
    data = load_digit_traits()
    assert list(found) == ["digit_traits"]  # of the other nothing is printed
    sizes = found["digit_traits"]
    assert sizes[:3] == (*data.X.shape, data.Y.shape[1])
    assert sizes.cardinality == pytest.approx(data.Y.sum(axis=1).mean())
    assert sizes.distinct == len({tuple(y) for y in data.Y.tolist()})
    text = text.replace('"digit_traits"', '"no_such_data"')
    assert measured(load_plan(write_plan(text)), "/nowhere") == {}
    results = replace(
        study(write_plan), characteristics={"one": Characteristics(10, 2, 3, 1.23456, 4)}
    )
    one = replace(results.plan.datasets[0], printed={"rows": 11.0, "cardinality": 1.2})
    plan = replace(results.plan, datasets=(one, results.plan.datasets[1]))
    assert "| one | 10 (11) | 1.235 (1.2) |" in results_markdown([replace(results, plan=plan)])
