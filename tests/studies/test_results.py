"""Tables, marks, ranks and claims from rows made by hand."""

from __future__ import annotations

import dataclasses
import io
import itertools
import math

import numpy as np
import pytest
from msgspec import Struct, structs
from rich.console import Console

from studies.plan import Claim, Figure, Remark, load_plan
from studies.results import Results
from studies.store import Row
from studies.study_markdown import results_markdown
from studies.study_text import claim_sentence, legend, study_tables

TEXT = """
title = "By hand"
description = "Two data sets."
reference = "A"
measures = ["exact_match", "log_loss_sum_per_fold"]
datasets = [{ name = "one" }, { name = "two" }]
[protocol]
splits = 5
[methods.A]
model = "CTBN"
[methods.B]
model = "BinaryRelevance"
"""
MATCH = {
    ("one", "A"): [0.8, 0.82, 0.78, 0.8, 0.8],
    ("one", "B"): [0.6, 0.61, 0.59, 0.6, 0.6],
    ("two", "A"): [0.5, 0.6, 0.4, 0.5, 0.5],
    ("two", "B"): [0.52, 0.57, 0.42, 0.49, 0.5],
}


def replace(record, **fields):
    changed = structs.replace if isinstance(record, Struct) else dataclasses.replace
    return changed(record, **fields)


def row(dataset, method, split, measure, value):
    return Row(
        dataset,
        method,
        "kfold",
        split,
        measure,
        value,
        "done",
        "",
        1.0 + split,
        0.1,
        99.0,
        90,
        10,
        "{}",
    )


@pytest.fixture
def results(write_plan):
    plan = load_plan(write_plan(TEXT))
    figures = (
        Figure("2", "exact_match", "one", "A", 0.9),
        Figure("2", "exact_match", "one", "B", 0.5),
        Figure("3", "log_loss_sum_per_fold", "one", "A", 10.0),
    )
    claim = Claim("A beats B", "A", ("B",), ("exact_match",), ("one", "two", "three"))
    rows = [
        row(dataset, method, split, "exact_match", value)
        for (dataset, method), values in MATCH.items()
        for split, value in enumerate(values)
    ]
    for (dataset, method), split in itertools.product(MATCH, range(5)):
        loss = math.nan if method == "B" else 20.0 + split
        rows.append(row(dataset, method, split, "log_loss_sum_per_fold", loss))
    plan = replace(
        plan, figures=figures, claims=(claim,), remarks={"one/A": Remark("A reason.", "data")}
    )
    return Results(plan, tuple(rows))


def test_entries(results):
    table = results.table("exact_match")
    best = table["one", "A"]
    assert best.mean == pytest.approx(0.8)
    assert best.error == pytest.approx(np.std(MATCH["one", "A"], ddof=1) / math.sqrt(5))
    assert (best.splits, best.published, best.best) == (5, 0.9, True)
    assert best.gap == pytest.approx(-0.1 / best.error)
    assert not table["one", "B"].best
    assert table["one", "B"].gap > 0  # better than print
    losses = results.table("log_loss_sum_per_fold")
    assert losses["one", "A"].gap < 0  # a higher loss is worse
    assert ("one", "B") not in losses  # not defined for B


def test_marks_and_counts(results):
    comparison = results.comparison("exact_match", "one", "B")
    assert comparison.mark == "+"
    assert comparison.paired.difference == pytest.approx(0.2)
    assert comparison.corrected.p_value > comparison.paired.p_value
    assert results.comparison("exact_match", "two", "B").mark == ""
    assert results.comparison("exact_match", "one", "A") is None
    assert results.win_tie_loss("exact_match", "B") == (1, 1, 0)


def test_claims(results):
    verdicts = results.verdicts(results.plan.claims[0])
    assert [v.holds for v in verdicts] == ["yes", "no", "not measured"]


def test_figures_below_and_above_print(results):
    below = [found[:3] for found in results.below_print()]
    assert below == [("exact_match", "one", "A"), ("log_loss_sum_per_fold", "one", "A")]
    assert [found[:3] for found in results.above_print()] == [("exact_match", "one", "B")]
    assert results.below_print(limit=1e9) == results.above_print(limit=1e9) == []


def test_claims_of_speed(results):
    slow = [r._replace(learn_seconds=6.0) if r.method == "B" else r for r in results.rows]
    claim = Claim("A is 2 times as fast", "A", ("B",), (), ("one", "two", "three"), faster=2.0)
    results = replace(results, rows=tuple(slow))
    verdicts = results.verdicts(claim)
    # other implementations on other machines: no verdict, whatever the ratio is
    assert [(v.holds, v.difference) for v in verdicts[:2]] == [("not comparable", 2.0)] * 2
    assert verdicts[2].holds == "not measured"
    assert claim_sentence(claim, verdicts) == (
        "“A is 2 times as fast”: of 3 comparisons, not comparable in 2, not measured in 1. Other "
        "implementations on other machines were timed. Times as fast here: 2 (one, B), 2 (two, B)."
    )


def test_claims_of_a_level(results):
    claim = Claim("A is above", "A", (), ("exact_match",), ("one", "two", "three"), above=0.45)
    verdicts = results.verdicts(claim)
    # .8 and .5 with standard errors of .006 and .032
    assert [v.holds for v in verdicts] == ["yes", "better", "not measured"]
    higher = replace(claim, above=0.9)
    assert results.verdicts(higher)[0].holds == "no"
    said = claim_sentence(higher, results.verdicts(higher))
    assert "It does not hold on one (exact match), two (exact match)." in said


def test_ranking_and_seconds(results):
    assert results.ranking("exact_match").methods == ("A", "B")
    assert results.ranking("log_loss_sum_per_fold") is None
    assert results.seconds()["one", "A"] == 3.0


def test_few_splits_and_quick_forms_are_told_and_have_no_marks(results):
    few = replace(results, rows=tuple(r for r in results.rows if r.split < 4))
    assert few.comparison("exact_match", "one", "B").paired.p_value < 0.05
    assert few.comparison("exact_match", "one", "B").mark == ""
    assert few.win_tie_loss("exact_match", "B") == (0, 2, 0)
    assert next(v.holds for v in few.verdicts(few.plan.claims[0])) == "better"
    assert "no marks" in legend(few)
    assert "no marks" not in legend(results)
    quick = replace(few, plan=replace(few.plan, name="by-hand-quick"))
    assert "no figure to quote" in results_markdown([quick])


def test_markdown(results):
    text = results_markdown([results])
    # data sets down, methods across, as the papers print them
    assert "### Table 2: exact match" in text
    assert "| data set | A | B |" in text
    assert "| one | **.800 ± .006** (.900) | .600 ± .003 + (.500) |" in text
    assert "| two | **.500 ± .032** | **.500 ± .024** |" in text
    assert "| win/tie/loss |  | 1/1/0 |" in text
    assert (
        "| one, A, exact match | .800 ± .006 | .900 | -15.8 | other data | A reason. |  |\n"
        "| one, A, log-loss a fold | 22.0 ± .7 | 10.0 | -17.0 | other data | 〃 |  |\n"
        "| one, B, exact match | .600 ± .003 | .500 | +31.6 | open | No reason was found. |  |"
    ) in text
    assert (
        "“A beats B”: of 3 comparisons, holds in 1, does not hold in 1, not measured in 1" in text
    )
    assert "| one | 3.00 | 3.00 |" in text


def test_markdown_has_the_remarks_on_what_agrees_too(results):
    assert "### Remarks" not in results_markdown([results])
    remarks = {**results.plan.remarks, "two/B": Remark("Of B on two.")}
    plan = replace(results.plan, remarks=remarks, claims=())  # none that does not hold there
    assert "### Remarks\n\n- two/B: Of B on two.\n" in results_markdown(
        [replace(results, plan=plan)]
    )


def test_terminal_tables(results):
    first, second = study_tables(results)
    assert [str(column.header) for column in first.columns] == ["method", "one", "two"]
    assert first.row_count == second.row_count == 2


def test_wide_tables_are_cut_between_data_sets(results):
    parts = list(study_tables(results, width=40))
    assert [[str(c.header) for c in part.columns] for part in parts[:2]] == [
        ["method", "one"],
        ["method", "two"],
    ]
    assert [str(part.title) for part in parts[:2]] == ["Exact match", "Exact match, continued"]
    for part in parts:
        console = Console(width=40, file=io.StringIO())
        console.print(part)
        printed = console.file.getvalue().splitlines()
        assert sum(line.startswith("│") for line in printed) == 2  # no cell is broken in two
    assert len(list(study_tables(results, width=10))) == 4  # one data set at the least
    assert len(list(study_tables(results, width=200))) == 2


def test_tables_tell_means_of_fewer_splits(results):
    fewer = [r for r in results.rows if (r.dataset, r.method, r.split) != ("two", "B", 3)]
    assert "[4 of 5 splits]" in results_markdown([replace(results, rows=tuple(fewer))])
    assert "splits]" not in results_markdown([results])


def test_methods_with_fewer_splits_are_not_ranked(results):
    fewer = [r for r in results.rows if (r.dataset, r.method, r.split) != ("two", "B", 3)]
    assert Results(results.plan, tuple(fewer)).ranking("exact_match") is None


def test_some_of_a_plan_keeps_its_claims_about_them(results):
    (claim,) = results.plan.only(["one"]).claims
    assert (claim.over, claim.datasets) == (("B",), ("one",))
    assert results.plan.only(methods=["B"]).claims == ()


def test_the_legend_speaks_of_print_only_where_there_is_some(results):
    assert "printed figure" in legend(results)
    assert "printed" not in legend(Results(replace(results.plan, figures=()), results.rows))
