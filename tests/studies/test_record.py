"""Counts against print: every figure once, in one place, by two limits."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from msgspec import Struct, structs

from colabel.datasets import load_digit_traits
from studies.characteristics import Characteristics, measured
from studies.plan import KINDS, Claim, Figure, Remark, load_plan
from studies.record import (
    Paper,
    broken_claims,
    counts,
    differences,
    judging,
    marks_alike,
    other_remarks,
    papers,
    printed_win_tie_loss,
    table_title,
)
from studies.results import Results
from studies.study_markdown import results_markdown
from studies.study_papers import paper_numbers, paper_sentence
from tests.studies.test_results import MATCH, TEXT, row

ERROR = np.std(MATCH["one", "A"], ddof=1) / math.sqrt(5)  # of A on one, whose mean is .8


def replace(record, **fields):
    changed = structs.replace if isinstance(record, Struct) else dataclasses.replace
    return changed(record, **fields)


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
    assert paper_sentence(Paper(results, found, {})) == (
        "of 5 printed figures 1 agree, the others do not (1 convention, 1 other data, 1 open, "
        "1 not measured)"
    )
    assert [(d.method, d.remark.kind, d.disagrees) for d in differences(results)] == [
        ("B", "convention", True),
        ("A", "open", True),
    ]
    assert list(other_remarks(results)) == ["two/B"]


@pytest.mark.parametrize("deviation", [0.0, 0.5, 3.0])
def test_an_error_in_print_counts_as_much_as_ours(write_plan, deviation):
    """Beyond `BOTH` the difference is more than twice its own standard error."""
    spread = deviation * ERROR * math.sqrt(5)  # five splits
    both = ERROR * math.hypot(1.0, deviation)
    for errors, agree in ((1.99, 1), (2.01, 0)):
        figure = printed(0.8 + errors * both, deviation=spread)
        assert counts(study(write_plan, figure)).agree == agree


def claim(text: str, over: str = "B", **parts) -> Claim:
    return Claim(text, "A", (over,), ("exact_match",), ("one", "two"), **parts)


def test_claims_of_a_paper_are_counted_once_and_by_cause(write_plan):
    """A beats B on one, and not on two."""
    why = {"two/B": Remark("folds", "convention", "seen"), "A": Remark("not asked for")}
    judge = study(write_plan, paper="P", as_run=True, claims=(claim("good"),), remarks=why)
    again = study(write_plan, paper="P", claims=(claim("good"), claim("new")))
    other = study(write_plan, paper="Q", claims=(claim("good"),))
    found = papers([again, judge, other])
    assert list(found) == ["P", "Q"]
    assert found["P"].judge is judge
    assert found["P"].counts.verdicts == {"yes": 2, "no": 2}
    assert found["P"].causes == {"convention": 1, "open": 1}
    assert paper_sentence(found["P"]) == (
        "no printed figure is known; of 4 comparisons that its claims make 2 hold, 2 do not hold "
        "(1 convention, 1 open)"
    )
    assert [(b.verdict.dataset, b.remark.cause) for b in broken_claims(judge)] == [("two", "folds")]
    assert list(other_remarks(judge)) == ["A"]  # the nearer remark explains what does not hold
    text = results_markdown([judge])
    assert "| two, A over B, exact match | " in text
    assert "| convention | folds | seen |" in text


def test_what_does_not_hold_in_print_needs_no_other_reason(write_plan):
    for own, other, cause in ((0.5, 0.5, "Not so in print either."), (0.6, 0.5, "folds")):
        results = study(
            write_plan,
            printed(own, "A", "two"),
            printed(other, "B", "two"),
            claims=(claim("good"),),
            remarks={"two/B": Remark("folds", "convention")},
        )
        assert [found.remark.cause for found in broken_claims(results)] == [cause]


def test_a_study_with_figures_judges_before_one_with_claims_alone(write_plan):
    claims = study(write_plan, paper="P", claims=(claim("graphs"),), title="claims")
    figures = study(write_plan, printed(0.8), paper="P", title="figures")
    assert judging([claims, figures])["P"] is figures


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


def test_cells_that_studies_share_are_paid_once(write_plan):
    one = replace(study(write_plan, title="one"), spent={"a": 60.0, "b": 120.0})
    two = replace(study(write_plan, title="two"), spent={"b": 120.0, "c": 60.0})
    text = results_markdown([one, two])
    for line in ("| one | 2 | 3 | 2 | 3 |", "| two | 2 | 3 | 1 | 1 |", "| all | 3 | 4 | 3 | 4 |"):
        assert f"\n{line}" in text


def test_splits_that_are_not_run_are_said(write_plan):
    results = study(write_plan)
    (one, two), (a, b) = results.plan.datasets, results.plan.methods
    few = replace(b, on={"two": {"first": 2}}, without={"one": "no time"})
    plan = replace(results.plan, datasets=(replace(one, first=3), two), methods=(a, few))
    text = results_markdown([replace(results, plan=plan)])
    assert "one: the first 3 splits of " in text
    assert "B on one: not run: no time. B on two: the first 2 splits." in text


def test_printed_wins_and_marks(write_plan):
    figures = (printed(0.8), printed(0.6, "B", mark="+"), printed(0.5, "B", "two", mark="-"))
    results = study(write_plan, *figures)
    assert printed_win_tie_loss(results.plan, "exact_match", "B") == (1, 0, 1)
    assert printed_win_tie_loss(results.plan, "exact_match", "A") is None  # the reference
    assert marks_alike(results, "exact_match") == (1, 2)  # + is measured on one, nothing on two
    counted = replace(results.plan, win_tie_loss={"exact_match": {"B": (9, 1, 0)}})
    assert printed_win_tie_loss(counted, "exact_match", "B") == (9, 1, 0)
    text = results_markdown([replace(results, plan=counted)])
    assert "| win/tie/loss |  | 1/1/0 |\n| win/tie/loss in print |  | 9/1/0 |" in text
    assert "(.600 +)" in text
    assert "Of 2 marks of significance in print 1 are measured too." in text


def test_titles_of_tables_are_the_papers(write_plan):
    assert table_title(study(write_plan), "exact_match") == "Exact match"
    assert table_title(study(write_plan, printed(0.8)), "exact_match") == "Table 2: exact match"
    slides = replace(printed(0.8), table="slides")
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
