"""The parts of the report on studies: numbers are those of the results, drawings hold them all."""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from colabel.experiments import Figure, Results
from colabel.experiments.characteristics import Characteristics
from colabel.experiments.claims import Claim
from colabel.experiments.plan import DataPlan, Protocol
from colabel.experiments.record import counts, table_order
from colabel.experiments.remarks import Remark
from colabel.report import study_report_html
from colabel.report._html.graph_layout import circle_order, lay_out
from colabel.report._study.claims import claims_section
from colabel.report._study.differences import characteristics_table, differences_section
from colabel.report._study.measures import measure_table, measures_legend
from colabel.report._study.overview import overview_section
from colabel.report._study.protocol import protocol_section, state_section
from colabel.report._study.ranks import TOO_FEW, diagram, ranks_section
from colabel.report._study.speed import Point, panel, speed_section
from tests.report.html_page import Page
from tests.report.studies import (
    make_cell,
    make_graph,
    make_plan,
    make_results,
    make_rows,
    make_tree,
)


@pytest.fixture(scope="module")
def results() -> Results:
    return make_results(4, 4)


# ------------------------------------------------------------------------------------- measures


def rows_of(results: Results, measure: str) -> dict[str, list[str]]:
    """Cells of a measure's table as text, by data set."""
    html = measure_table(results, measure)
    body = html[html.index("<tbody>") : html.index("</tbody>")]
    found = {}
    for row in re.findall("<tr>(.*?)</tr>", body, re.DOTALL):
        cells = [Page(cell).text for cell in re.findall("<t[hd].*?</t[hd]>", row, re.DOTALL)]
        found[cells[0]] = cells[1:]
    return found


def test_entries_marks_and_published_figures_are_those_of_the_results(results):
    entries = results.table("exact_match")
    written = rows_of(results, "exact_match")
    _, columns = table_order(results, "exact_match")
    for (dataset, method), entry in entries.items():
        cell = written[dataset][columns.index(method)]
        assert f"{entry.mean:.3f}"[1:] in cell
        assert f"± {f'{entry.error:.3f}'[1:]}" in cell
        assert ("best" in cell) == entry.best
        comparison = results.comparison("exact_match", dataset, method)
        mark = comparison.mark if comparison else ""
        assert ("significantly better" in cell) == (mark == "+")
        assert ("significantly worse" in cell) == (mark == "-")
        if entry.published is not None:
            gap = f"{abs(entry.gap):.1f}"
            assert f"published {f'{entry.published:.3f}'[1:]} (" in cell
            assert gap in cell


def test_wins_and_ranks_are_below_the_table(results):
    html = measure_table(results, "exact_match")
    foot = Page(html[html.index("<tfoot>") : html.index("</tfoot>")]).text
    for method in results.methods[:-1]:
        assert "/".join(map(str, results.win_tie_loss("exact_match", method))) in foot
    ranking = results.ranking("exact_match")
    assert f"{ranking.ranks[0]:.2f}" in foot


def test_legend_explains_what_occurs(results):
    assert "published figure" in measures_legend(results)
    bare = replace(results, plan=replace(results.plan, figures=()))
    assert "published figure" not in measures_legend(bare)
    assert "not measured" not in measures_legend(bare)
    lacking = replace(bare, rows=tuple(row for row in bare.rows if row.method != "IBLR"))
    assert "not measured" in measures_legend(lacking)


def test_missing_entries_have_no_sort_key():
    plan = make_plan(2, 2)
    rows = tuple(r for r in make_rows(plan) if (r.dataset, r.method) != ("scene", "CML"))
    html = measure_table(Results(plan, rows), "exact_match")
    assert html.count("data-key") == 3 + 1  # of p-values there is one, on emotions
    assert '<td class="none">–</td>' in html


def test_means_over_fewer_splits_say_so(results):
    rows = tuple(
        r for r in results.rows if (r.dataset, r.method) != ("scene", "CML") or r.split < 4
    )
    written = rows_of(replace(results, rows=rows), "exact_match")
    _, columns = table_order(results, "exact_match")
    assert "4 of 10 splits" in written["scene"][columns.index("CML")]
    assert sum("splits" in cell for cells in written.values() for cell in cells) == 1


# ---------------------------------------------------------------------------------------- ranks


def test_diagram_shows_every_rank_at_its_place():
    ranking = make_results(10, 9).ranking("exact_match")
    svg = diagram(ranking, "exact match")
    assert svg.count('class="bar"') == len(ranking.groups)
    # Lines go down from the axis where the ranks are, on a common scale.
    ticks = [float(x) for x in re.findall(r'<text x="([\d.]+)" y="33"', svg)]
    assert len(ticks) == 9
    step = (ticks[-1] - ticks[0]) / 8
    starts = [float(x) for x in re.findall(r'd="M([\d.]+) 42.0V', svg)]
    np.testing.assert_allclose(
        sorted(starts), ticks[0] + step * (np.sort(ranking.ranks) - 1), atol=0.06
    )
    width = float(re.search(r'viewBox="0 0 (\d+) ', svg).group(1))
    assert ticks[0] + ticks[-1] == pytest.approx(width, abs=1.0)  # the axis is in the middle
    for name, rank in zip(ranking.methods, ranking.ranks, strict=True):
        assert f"{name} {rank:.2f}" in svg


def test_ranks_come_with_their_tests(results):
    ranking = results.ranking("exact_match")
    text = Page(ranks_section(results, "exact_match")).text
    assert f"critical difference of {ranking.critical_difference:.2f}" in text
    assert "Friedman" in text
    assert "over 4 data sets" in text
    assert "With only 4 data sets" in text
    assert "With only" not in ranks_section(make_results(6, 3), "exact_match")


def test_too_few_data_sets_give_a_sentence():
    text = ranks_section(make_results(1, 3), "exact_match")
    assert TOO_FEW in text
    assert "<svg" not in text


# ---------------------------------------------------------------------------------------- speed


def test_every_method_is_a_labelled_point_in_every_panel(results):
    html = speed_section(results)
    assert html.count("<svg") == len(results.datasets)
    assert html.count("<circle") == len(results.datasets) * len(results.methods)
    assert html.count('class="name"') == html.count("<circle")


def test_frontier_joins_what_no_other_beats():
    points = [Point("a", 1, 0.5), Point("b", 2, 0.4), Point("c", 3, 0.7), Point("d", 9, 0.7)]
    svg = panel("data", points, "exact_match", (1.0, 9.0))
    frontier = re.search('<path d="([^"]*)" class="frontier"', svg).group(1)
    dots = dict(zip("abcd", dots_of(svg), strict=True))
    ends = [tuple(map(float, pair.split())) for pair in frontier[1:].split("L")]
    np.testing.assert_allclose(ends, [dots["a"], dots["c"]], atol=0.06)
    lower = panel("data", points, "log_loss_sum_per_fold", (1.0, 9.0))
    assert len(re.search('d="([^"]*)" class="frontier"', lower).group(1).split("L")) == 2


def dots_of(svg: str) -> list[tuple[float, float]]:
    found = re.findall(r'<circle cx="([\d.]+)" cy="([\d.]+)"', svg)
    return [(float(x), float(y)) for x, y in found]


def test_one_method_has_a_table_of_times_alone():
    html = speed_section(make_results(3, 1, claims=(), remarks={}))
    assert "<svg" not in html
    assert "Run times" in html


def test_equal_times_and_values_can_be_drawn():
    points = [Point("a", 0.001, 0.0), Point("b", 0.001, 0.0)]
    svg = panel("data", points, "exact_match", (0.001, 0.001))
    assert "nan" not in svg
    assert len(dots_of(svg)) == 2


# --------------------------------------------------------------------------- claims, print, state


def test_verdicts_are_shown_and_counted(results):
    claim = results.plan.claims[0]
    found = Counter(verdict.holds for verdict in results.verdicts(claim))
    html = claims_section(results, "h4")
    for holds in ("yes", "better", "no"):
        assert html.count(f'class="holds-{holds}"') == found[holds]
    said = Page(html).text
    assert f"Holds significantly in {found['yes']} of {sum(found.values())} comparisons" in said


def test_claims_of_speed_say_how_many_times(results):
    method, *over = results.methods
    claim = Claim("Fast", method, tuple(over), (), tuple(results.datasets), faster=2.0)
    timed = replace(results, plan=replace(results.plan, claims=(claim,)))
    found = Counter(verdict.holds for verdict in timed.verdicts(claim))
    page = Page(claims_section(timed, "h4"))
    assert page.text.count("times as fast") == sum(found.values()) + 1  # and in the legend
    assert f"Not comparable, in any of {sum(found.values())} comparisons." in page.text


def test_claims_that_were_not_measured_say_so(results):
    empty = replace(results, rows=())
    assert "Not measured yet, in any of 24 comparisons." in claims_section(empty, "h4")
    some = replace(results, rows=tuple(r for r in results.rows if r.dataset != "scene"))
    assert "Not measured: 6." in claims_section(some, "h4")


def test_differences_have_their_causes():
    results = make_results(1, 3)
    plan = replace(
        results.plan,
        figures=(
            Figure("1", "exact_match", "emotions", "IBLR", 2.0),
            Figure("1", "exact_match", "emotions", "CML", 2.0),
            Figure("1", "exact_match", "emotions", "CTBN", 0.0),
        ),
        remarks={
            "emotions": Remark("Of all."),
            "emotions/CML": Remark("Of CML.", "data", "Seen."),
            "scene": Remark("Of none."),
        },
    )
    html = differences_section(replace(results, plan=plan))
    text = Page(html).text
    assert "Of 3 figures, 2 fall short of print by more than 2 standard errors (2 by more" in text
    assert "and 1 exceeds it by as much (1)." in text
    rows = html.split("<tr>")
    said = {"IBLR": "open Of all. –", "CML": "other data Of CML. Seen.", "CTBN": "open Of all. –"}
    for method, cause in said.items():
        (row,) = [row for row in rows if f"emotions, {method}, exact match" in row]
        assert Page("<tr>" + row.split("</tr>")[0] + "</tr>").text.strip().endswith(cause)
    assert "Other remarks: scene Of none." in text
    fine = replace(plan, figures=plan.figures[-1:], remarks={})
    text = Page(differences_section(replace(results, plan=fine))).text
    assert "Of 1 figure, none falls short" in text
    assert "emarks" not in text


def test_print_decides_the_order_and_its_marks_stand_beside():
    plan = make_plan(3, 3, ("exact_match",))
    first, second, third = (data.name for data in plan.datasets)
    figures = (
        Figure("2", "exact_match", second, "CML", 0.5, "+"),
        Figure("2", "exact_match", second, "IBLR", 0.5, "-"),
        Figure("2", "exact_match", first, "CML", 0.5, ""),
    )
    results = Results(replace(plan, figures=figures), make_rows(plan))
    assert table_order(results, "exact_match") == ([second, first, third], ["CML", "IBLR", "CTBN"])
    page = Page(measure_table(results, "exact_match"))
    assert page.text.index(second) < page.text.index(first) < page.text.index(third)
    assert "in print 1/1/0 0/0/1 –" in page.text
    assert re.search(r"Of 3 marks of significance in print \d are measured too", page.text)


def test_sizes_of_data_sets_beside_print():
    plan = make_plan(2, 2)
    data = replace(plan.datasets[0], printed={"rows": 594.0, "labels": 6.0})
    plan = replace(plan, datasets=(data, plan.datasets[1]))
    found = Results(plan, (), characteristics={data.name: Characteristics(593, 72, 6, 1.868, 27)})
    assert "emotions 593 594 6 6" in Page(characteristics_table(found)).text
    assert characteristics_table(Results(plan, ())) is None


def test_papers_come_first_and_are_judged_as_their_authors_ran_them():
    ours = make_results(2, 3, paper="A paper", title="Ours")
    theirs = make_results(2, 3, paper="A paper", title="Theirs", as_run=True)
    theirs = replace(theirs, rows=tuple(r for r in theirs.rows if r.dataset == "emotions"))
    html = study_report_html([ours, theirs])
    assert html.index('id="papers"') < html.index('id="s0"')
    text = Page(overview_section([ours, theirs])).text
    assert text.count("A paper") == 2  # a sentence and a row
    assert f"of {counts(theirs).printed} printed figures" in text
    assert f"{counts(theirs).missing} not measured" in text
    assert 'id="papers"' not in study_report_html([ours])


def test_failures_missing_splits_and_versions():
    plan = make_plan(2, 2)
    rows = make_rows(plan)
    rows = tuple(r for r in rows if (r.dataset, r.method, r.split) != ("scene", "CML", 4))
    rows = (*rows[:3], *(r._replace(versions='{"colabel": "0.2"}') for r in rows[3:]))
    failures = tuple(
        (make_cell(plan, "scene", "CTBN", split, "kfold"), "KeyError: x") for split in (1, 5)
    )
    text = Page(state_section(Results(plan, rows, (), failures, 1))).text
    assert "1 cell has no result yet." in text
    assert "scene 1 of 10 –" in text
    assert "2 cells failed." in text
    assert "scene CTBN 1, 5 KeyError: x" in text
    assert "colabel 0.2 (38 cells)" in text
    whole = Page(state_section(Results(plan, rows))).text
    assert "Every cell of the plan has been run. No cell failed." in whole


def test_protocols_are_said_in_words():
    plan = make_plan(2, 2)
    assert "2 methods on 2 data sets: 10-fold cross-validation, seed 0." in protocol_section(
        Results(plan, ())
    )
    draws = DataPlan("SD1", Protocol("draws", 20, 5))
    mixed = Page(
        protocol_section(Results(replace(plan, datasets=(*plan.datasets, draws)), ()))
    ).text
    assert "emotions and scene: 10-fold cross-validation, seed 0" in mixed
    assert "SD1: 20 new draws of a synthetic problem, learned whole, seed 5" in mixed
    assert "CTBN (reference)" in mixed


# --------------------------------------------------------------------------------------- graphs


def test_graphs_are_drawn_listed_and_described(results):
    html = study_report_html([results])
    data = re.findall('<script type="application/json">(.*?)</script>', html)
    assert len(data) == len(results.graphs)
    for (_, graph), text in zip(results.graphs, data, strict=True):
        told = json.loads(text)
        assert told["labels"] == graph["labels"]
        assert len(told["edges"]) == len(graph["edges"])
    edges = sum(len(graph["edges"]) for _, graph in results.graphs)
    narrow = html.count('class="narrow"')  # of a wide graph there is a second drawing, for phones
    assert 0 < narrow < len(results.graphs)
    assert edges < html.count('class="edge ') < 2 * edges
    for _, graph in results.graphs:
        for label in graph["labels"]:
            assert f'aria-label="{label}, probability' in html


def test_edges_show_sign_and_strength():
    graph = make_tree(["a", "b", "c"])
    graph["edges"] = [
        {"from": 0, "to": 1, "given_on": 0.9, "given_off": 0.1, "back_on": 0, "back_off": 0},
        {"from": 0, "to": 2, "given_on": 0.2, "given_off": 0.3, "back_on": 0, "back_off": np.nan},
    ]
    plan = make_plan(1, 1)
    html = study_report_html([Results(plan, (), ((make_cell(plan, "x", "y"), graph),))])
    strong, weak = (
        float(re.search(rf'class="edge {kind}" stroke-width="([\d.]+)"', html).group(1))
        for kind in ("more", "less")
    )
    assert strong > 2 * weak
    assert "[0,2,0.2,0.3,0.0,null]" in html


@pytest.mark.parametrize("n_labels", [1, 2, 6, 14, 53, 150])
@pytest.mark.parametrize("reach", [2, 100])
def test_boxes_of_a_tree_do_not_overlap(n_labels, reach):
    graph = make_tree([f"label number {i}" for i in range(n_labels)], n_labels, reach)
    layout = lay_out(graph)
    assert layout.kind in ("layers", "outline")
    boxes = [(n.x - n.width / 2, n.y - 12, n.x + n.width / 2, n.y + 12) for n in layout.nodes]
    for one, two in itertools.combinations(boxes, 2):
        assert one[2] <= two[0] or two[2] <= one[0] or one[3] <= two[1] or two[3] <= one[1]
    assert all(b[0] >= 0 and b[2] <= layout.width and b[3] <= layout.height for b in boxes)
    assert sorted(layout.order) == list(range(n_labels))
    assert len(layout.paths) == n_labels - 1


def test_wide_trees_become_outlines():
    names = [f"a rather long label {i}" for i in range(12)]
    assert lay_out(make_tree(names, reach=1)).kind == "outline"
    assert lay_out(make_tree(names[:3], reach=1)).kind == "layers"


@pytest.mark.parametrize("n_labels", [1, 2, 14, 53])
@pytest.mark.parametrize("name", ["y{}", "a label with a rather long name, number {}"])
@pytest.mark.parametrize("make", [make_graph, make_tree, lambda names: make_tree(names, reach=1)])
def test_narrow_drawings_fit_a_phone(n_labels, name, make):
    graph = make([name.format(i) for i in range(n_labels)])
    layout = lay_out(graph, narrow=True)
    assert layout.kind in ("outline", "arcs")
    assert layout.width <= 356
    lines = sorted(node.y for node in layout.nodes)
    assert all(two - one >= 28 for one, two in itertools.pairwise(lines))
    for node in layout.nodes:
        assert 0 <= node.x - node.width / 2 < node.x + node.width / 2 <= layout.width
    assert len(layout.paths) == len(graph["edges"])
    assert sorted(layout.order) == list(range(n_labels))


def test_a_tree_too_deep_to_be_indented_on_a_phone_has_arcs():
    deep = make_tree([f"y{i}" for i in range(40)], reach=1)
    assert lay_out(deep, narrow=True).kind == "arcs"
    assert lay_out(make_tree(["a", "b", "c"]), narrow=True).kind == "outline"


@pytest.mark.parametrize("n_labels", [1, 5, 12, 13, 53])
def test_labels_on_a_circle_are_apart_and_inside(n_labels):
    layout = lay_out(make_graph([f"y{i}" for i in range(n_labels)]))
    assert layout.kind == "circle"
    places = np.array([(node.x, node.y) for node in layout.nodes])
    assert (places > 0).all()
    assert (places < [layout.width, layout.height]).all()
    for one, two in itertools.combinations(places, 2):
        assert np.hypot(*(one - two)) > 14


def test_directed_graphs_that_are_no_trees_go_on_a_circle():
    two_parents = make_tree(["a", "b", "c"])
    for edge, (start, end) in zip(two_parents["edges"], [(0, 2), (1, 2)], strict=True):
        edge["from"], edge["to"] = start, end
    assert lay_out(two_parents).kind == "circle"
    cycle = make_tree(["a", "b", "c"])
    for edge, (start, end) in zip(cycle["edges"], [(0, 1), (1, 0)], strict=True):
        edge["from"], edge["to"] = start, end
    assert lay_out(cycle).kind == "circle"


def test_strong_neighbours_are_neighbours_on_the_circle():
    rng = np.random.default_rng(0)
    for _ in range(20):
        ends = [(i, j) for i in range(9) for j in range(i) if rng.random() < 0.5]
        strengths = rng.random(len(ends)).tolist()
        order = circle_order(9, ends, strengths)
        assert sorted(order) == list(range(9))
        i, j = ends[int(np.argmax(strengths))]
        assert abs(order.index(i) - order.index(j)) == 1


def test_of_very_many_edges_the_strongest_are_drawn_and_all_listed():
    graph = make_graph([f"y{i}" for i in range(60)], 0.5)
    plan = make_plan(1, 1)
    html = study_report_html([Results(plan, (), ((make_cell(plan, "x", "y"), graph),))])
    assert html.count('class="edge ') == 2 * 200  # for desktops and for phones
    assert f"{len(graph['edges']) - 200:,} more are in the table" in html
    assert f"All {len(graph['edges']):,} edges as a table" in html
