"""Figures beside print, marks, claims and causes, by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from msgspec import structs

from studies.judging import broken, differences, papers
from studies.plan import Claim, Figure, Remark, load_plan
from studies.record import Measured, measured, read_record, update, write_record
from studies.report import claim_sentence, paper_page, study_section, verdicts_page
from studies.results import NARROW, WIDE, Results
from studies.statistics import corrected_t, holm
from studies.store import Row

TEXT = """
title = "By hand"
paper = "A paper"
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
CLAIM = Claim("A beats B", "A", ("B",), ("exact_match",), ("one", "two"))


def rows(values=MATCH):
    return [
        Row(d, m, "kfold", split, "exact_match", v, "done", "", 1.0 + split, 0.1, 80, 20, "{}")
        for (d, m), own in values.items()
        for split, v in enumerate(own)
    ]


@pytest.fixture
def study(write_plan):
    def make(*figures, values=MATCH, **plan):
        own = structs.replace(load_plan(write_plan(TEXT)), figures=figures, **plan)
        return Results(own, measured(rows(values), "today"))

    return make


def printed(value, dataset="one", method="A", **more):
    return Figure("2", "exact_match", dataset, method, value, **more)


def error(values):
    return np.std(values, ddof=1) / math.sqrt(len(values))


@pytest.mark.parametrize(
    ("errors", "kind"), [(1.0, "agree"), (1.5, "doubt"), (-2.7, "doubt"), (2.9, "far")]
)
def test_two_limits(study, errors, kind):
    value = 0.8 - errors * error(MATCH["one", "A"])
    results = study(printed(value))
    assert results.compared["exact_match", "one", "A"] == pytest.approx(errors)
    assert pytest.approx(2 * math.sqrt(2)) == WIDE == 2 * NARROW
    found = differences(results, {})
    assert len(found) == (kind != "agree")
    assert [own.far for own in found] == ([kind == "far"] if found else [])
    counts = papers({"x": results})[0].counts
    assert (counts.agree, counts.doubtful, counts.differ) == tuple(
        int(kind == name) for name in ("agree", "doubt", "far")
    )


def test_an_error_in_print_counts_as_much_as_ours(study):
    own = error(MATCH["one", "A"])
    results = study(printed(0.7, deviation=3 * own * math.sqrt(5)))
    rms = math.sqrt((own**2 + (3 * own) ** 2) / 2)
    assert results.compared["exact_match", "one", "A"] == pytest.approx(0.1 / rms)


def test_a_cause_stands_only_where_cells_bring_the_figure_to_print(study):
    remark = Remark("Scaled otherwise.", study="scaled")
    results = study(printed(0.7), remarks={"one": remark})
    far = {("one", "A"): [0.79, 0.8, 0.8, 0.81, 0.8]}
    near = {("one", "A"): [0.69, 0.7, 0.71, 0.7, 0.7]}
    for values, kind in ((near, "convention"), (far, "")):
        (own,) = differences(results, {"scaled": study(values=values)})
        assert own.kind == kind
        assert own.tested.cell == "scaled/one/A/exact_match"
    (own,) = differences(results, {})
    assert (own.kind, own.tested.found) == ("", None)
    # a figure that hardly moves does not earn it by a large error alone
    loose = {("one", "A"): [0.4, 0.8, 0.9, 1.0, 0.8]}
    (own,) = differences(results, {"scaled": study(values=loose)})
    assert own.kind == ""


def test_marks_and_wins(study):
    results = study(printed(0.8), printed(0.6, method="B", mark="+"))
    assert [results.mark("exact_match", d, "B") for d in ("one", "two")] == ["+", ""]
    assert results.win_tie_loss("exact_match", "B") == (1, 1, 0)
    assert results.printed_win_tie_loss("exact_match", "B") == (1, 0, 0)
    assert results.printed_win_tie_loss("exact_match", "A") is None
    # where the splits are not kept, marks are those of the record
    place = ("exact_match", "one", "B")
    bare = {**results.figures, place: Measured(0.6, 0.01, 5, "+")}
    assert Results(results.plan, bare).mark(*place) == "+"
    bare[place] = Measured(0.6, 0.01, 5)
    assert Results(results.plan, bare).mark(*place) == ""


def test_claims(study):
    results = study()
    one, two = results.verdicts(CLAIM)
    assert (one.holds, two.holds) == ("yes", "no")
    raw = [corrected_t(MATCH[d, "A"], MATCH[d, "B"], 1 / 4).p_value for d in ("one", "two")]
    assert [one.corrected, two.corrected] == pytest.approx(holm(raw).tolist())
    assert claim_sentence(CLAIM, [one, two]).endswith("1 hold, 1 do not hold; 1 of 2 strictly.")
    level = Claim("high", "A", (), ("exact_match",), ("one", "two"), above=0.6)
    assert [v.holds for v in results.verdicts(level)] == ["yes", "no"]
    speed = Claim("fast", "A", ("B",), (), ("one",), faster=2)
    assert results.verdicts(speed)[0].holds == "not comparable"
    assert results.verdicts(speed)[0].difference == pytest.approx(1.0)
    missing = structs.replace(CLAIM, datasets=("three",))
    assert results.verdicts(missing)[0].holds == "not measured"


@pytest.mark.parametrize(
    ("margin", "one", "two"),
    [
        ({"equal": 0.03}, "no", "yes"),
        ({"equal": 0.005}, "no", "undecided"),
        ({"at_least": 0.001}, "yes", "undecided"),
        ({"at_least": 0.1}, "yes", "yes"),
    ],
)
def test_claims_that_there_is_no_difference(study, margin, one, two):
    """Two one-sided tests: surely within the margin, surely not, or undecided."""
    apart = np.array(MATCH["two", "A"]) - np.array(MATCH["two", "B"])
    assert abs(apart.mean()) < 0.005
    claim = structs.replace(CLAIM, **margin)
    assert [v.holds for v in study().verdicts(claim)] == [one, two]


def test_growth_is_the_slope_of_logarithms(write_plan):
    text = TEXT.replace('"one"', '"one:2"').replace('"two"', '"one:8"')
    plan = load_plan(write_plan(text.replace("log_loss_sum_per_fold", "cpu_seconds")))
    means = {"one:2": 3.0, "one:8": 3.0 * 4**1.5}
    figures = {("cpu_seconds", d, "A"): Measured(own, 0.1, 3) for d, own in means.items()}
    for power, holds in ((2.0, "yes"), (1.3, "yes"), (1.0, "no")):
        claim = Claim("slow", "A", (), ("cpu_seconds",), ("one:2", "one:8"), growth=power)
        (found,) = Results(plan, figures).verdicts(claim)
        assert (found.holds, found.dataset) == (holds, "one:2 to one:8")
        assert found.difference == pytest.approx(1.5)
        assert claim_sentence(claim, [found]).endswith("by the power 1.50 here.")
    assert Results(plan, {}).verdicts(claim)[0].holds == "not measured"


def test_figures_are_shown_as_shares_of_the_largest_too(study):
    lines = study_section(study(normalised=("exact_match",)), {})
    start = lines.index("### Exact match, divided by the largest of the data set")
    assert lines[start + 4 : start + 7] == [
        "| one | 1.000 | .750 |",
        "| two | 1.000 | 1.000 |",
        "| mean | 1.000 | .875 |",
    ]


def test_some_studies_stand_on_the_page_of_verdicts(study):
    page = verdicts_page({"x": study(front=("exact_match",))})
    assert "## By hand" in page
    assert "| one, B | .600 ± .003 + |" in page
    assert "## By hand" not in verdicts_page({"x": study()})


def test_all_cells_take_so_many_minutes(study):
    page = verdicts_page({"x": study()})
    # the median of the splits is 3 s: four methods on data sets, five splits each
    assert "about 1 minutes of learning by the stored seconds." in page
    assert "10 cells were never run" in verdicts_page(
        {"x": study(values={k: v for k, v in MATCH.items() if k[0] == "one"})}
    )


def test_what_does_not_hold_in_print_either_says_so(study):
    results = study(printed(0.5, "two"), printed(0.55, "two", "B"), claims=(CLAIM,))
    (lost,) = broken(results, {}, CLAIM)
    assert lost.kind == "print"
    assert lost.why == "not so in print either: 0.5 against 0.55"
    (lost,) = broken(study(claims=(CLAIM,)), {}, CLAIM)
    assert lost.kind == ""


def test_the_record_keeps_what_was_run(study, tmp_path):
    results = study()
    record = {}
    assert update(record, results.plan, rows()) == 4
    marked = {results.plan.name: {("exact_match", "one", "B"): Measured(0.6, 0.01, 5, "+")}}
    update(marked, results.plan, rows())  # the mark stays, for a reference without splits
    assert marked[results.plan.name]["exact_match", "one", "B"].mark == "+"
    partly = {("one", "A"): MATCH["one", "A"][:3]}
    assert update({}, results.plan, rows(partly)) == 0  # all splits, or none
    write_record(record, tmp_path / "r.csv")
    again = read_record(tmp_path / "r.csv")
    assert again == {results.plan.name: record[results.plan.name]}
    place = ("exact_match", "one", "B")
    lost = {"x": {place: Measured(0.6, 0.01, 5, "+", 2.0, "2026-11-16")}}
    write_record(lost, tmp_path / "r.csv")
    assert read_record(tmp_path / "r.csv") == lost


def test_pages(study):
    figures = (printed(0.7, mark="+"), printed(0.9, "two"))
    studies = {"x": study(*figures, claims=(CLAIM,), as_run=True)}
    (paper,) = papers(studies)
    page = paper_page(paper, studies)
    assert "| one | **.800 ± .006** (.700 +) | .600 ± .003 + |" in page
    assert "not reproduced" in page
    assert "A over B, exact match" in page
    verdicts = verdicts_page(studies)
    assert "| [A paper](docs/results/a_paper.md) | 2 | 0 | 0 | 0 | 2 |" in verdicts
    assert "one, A, exact match: .800 ± .006 (print .700)" in verdicts
    bare = "\n".join(study_section(Results(study().plan, {}), {}))
    assert "No figure of this study has been measured yet." in bare
