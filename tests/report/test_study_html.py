"""The report on studies: what is in it, that it keeps to itself, that names cannot break it."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from dataclasses import replace
from importlib import resources

import numpy as np
import pytest

from colabel.experiments import Figure, Results, edge_profiles
from colabel.experiments.claims import Claim
from colabel.experiments.plan import DataPlan, MethodPlan, Protocol
from colabel.experiments.remarks import Remark
from colabel.report import (
    StudyFigure,
    alpha_profile_svg,
    profile_figures,
    study_report_html,
    write_study_report,
)
from colabel.report._html.markup import Html, tag
from colabel.report._study.ranks import TOO_FEW
from tests.report.html_page import Page
from tests.report.studies import (
    make_cell,
    make_graph,
    make_plan,
    make_results,
    make_rows,
    make_tree,
)

HOSTILE = '</script><script>window.hacked = 1</script><img src=x onerror="window.hacked=1">\'&'


@pytest.fixture(scope="module")
def results() -> Results:
    return make_results(4, 4)


@pytest.fixture(scope="module")
def page(results) -> Page:
    return Page(study_report_html([results]))


# ------------------------------------------------------------------------------------ structure


def test_page_is_well_formed_and_every_study_is_in_it(results):
    other = replace(results, plan=replace(results.plan, name="second", title="Second"))
    page = Page(study_report_html([results, other]))
    assert page.open == []
    for title in (results.plan.title, "Second", "Measures", "Claims", "Against print", "Speed"):
        assert title in page.text
    assert page.count("main", id="main") == 1
    assert page.count("a", href="#main") == 1
    assert page.count("html", lang="en") == 1


@pytest.mark.parametrize("n_studies", [1, 2])
def test_headings_are_in_order(results, n_studies):
    page = Page(study_report_html([results] * n_studies))
    levels = [int(name[1]) for name, _ in page.elements if re.fullmatch("h[1-6]", name)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(two <= one + 1 for one, two in itertools.pairwise(levels))


def test_ids_are_unique_and_links_lead_somewhere(results):
    page = Page(study_report_html([results, results]))
    ids = Counter(has["id"] for _, has in page.elements if "id" in has)
    assert max(ids.values()) == 1
    links = {has["href"][1:] for name, has in page.elements if name == "a"}
    assert links <= set(ids)


def test_every_table_has_a_caption_and_heads_that_sort(page):
    tables = page.count("table")
    assert tables > 8
    assert page.count("caption") == tables
    assert page.count("thead") == tables
    assert page.count("th", scope="col") == page.count("button", type="button")
    assert page.count("div", **{"class": "scroll", "tabindex": "0"}) >= tables


def test_a_whole_report_of_a_study_that_was_never_run():
    empty = Results(make_plan(2, 2), (), missing=40)
    page = Page(study_report_html([empty]))
    assert "40 cells have no result yet" in page.text
    assert page.text.count("10 of 10") == 4
    assert "Not measured yet." in page.text
    assert "Nothing has been timed yet" in page.text
    assert TOO_FEW in page.text


def test_nothing_to_report_is_refused():
    with pytest.raises(ValueError, match="give at least one study"):
        study_report_html([])


def test_one_method_one_split_one_data_set():
    plan = make_plan(1, 1, splits=1)
    text = study_report_html([Results(plan, make_rows(plan))])
    body = text[text.index("<tbody>") : text.index("</tbody>")]
    assert "±" not in body
    assert "wins/ties/losses" not in text


def test_file_is_written_whole(results, tmp_path):
    path = tmp_path / "study.html"
    path.write_text("before")
    with pytest.raises(ValueError, match="is no SVG"):
        write_study_report([results], path, figures=[("Broken", "<svg", "")])
    assert path.read_text() == "before"
    write_study_report([results], str(path))
    assert path.read_text(encoding="utf-8") == study_report_html([results])
    assert [file.name for file in tmp_path.iterdir()] == ["study.html"]


def test_report_is_deterministic():
    assert study_report_html([make_results(3, 3)]) == study_report_html([make_results(3, 3)])


# --------------------------------------------------------------------------- keeps to itself


def test_nothing_is_fetched(results):
    text = study_report_html([results], figures=[("A", profile(), "")])
    page = Page(text)
    fetching = {"src", "srcset", "poster", "data", "action", "background"}
    assert not [has for _, has in page.elements if fetching & set(has)]
    assert page.count("link") == page.count("iframe") == page.count("img") == 0
    hrefs = [value for _, has in page.elements for name, value in has.items() if "href" in name]
    assert all(href.startswith("#") for href in hrefs)
    without_names = re.sub(r'xmlns(:\w+)?="[^"]*"', "", text)
    assert not re.search(r"https?://|//[a-z]+\.|@import|url\((?!#)", without_names)


def test_policy_forbids_the_network_and_allows_only_our_script(page):
    policy = next(
        has["content"] for _, has in page.elements if has.get("http-equiv", "").startswith("Cont")
    )
    assert "default-src 'none'" in policy
    assert re.search(r"script-src 'sha256-[A-Za-z0-9+/]{43}='", policy)
    scripts = [has for name, has in page.elements if name == "script"]
    assert sum("type" not in has for has in scripts) == 1  # the others are data


def test_hostile_names_stay_text():
    rows = make_rows(make_plan(2, 2))
    swap = {"emotions": HOSTILE, "CML": HOSTILE + "2"}
    plan = make_plan(
        2,
        2,
        title=HOSTILE,
        description=HOSTILE,
        figures=(Figure("1", "exact_match", HOSTILE, HOSTILE + "2", 0.99),),
        claims=(Claim(HOSTILE, "CTBN", (HOSTILE + "2",), ("exact_match",), (HOSTILE,)),),
        remarks={HOSTILE: Remark(HOSTILE, "data", HOSTILE), "other": Remark(HOSTILE)},
    )
    plan = replace(
        plan,
        datasets=(DataPlan(HOSTILE, Protocol()), plan.datasets[1]),
        methods=(
            MethodPlan(HOSTILE + "2", {"model": HOSTILE}, (HOSTILE,), without={"scene": HOSTILE}),
            plan.methods[1],
        ),
    )
    rows = tuple(
        row._replace(
            dataset=swap.get(row.dataset, row.dataset),
            method=swap.get(row.method, row.method),
            versions=HOSTILE,
        )
        for row in rows
    )
    labels = [HOSTILE, "</svg>", "\udc80 lone", "b", "c", "d", "e"]
    graphs = tuple(
        (make_cell(plan, HOSTILE, HOSTILE), graph)
        for graph in (make_tree(labels), make_graph(labels, 0.9))
    )
    failures = ((make_cell(plan, HOSTILE, HOSTILE, 0, "kfold"), HOSTILE),)
    plain = Page(study_report_html([make_results(2, 2)]))
    hostile = Page(study_report_html([Results(plan, rows, graphs, failures, 1)]))
    assert hostile.open == []
    assert hostile.count("img") == plain.count("img") == 0
    assert hostile.count("script") == 1 + len(graphs)
    assert not [has for _, has in hostile.elements if any(name.startswith("on") for name in has)]


def test_odd_names_can_be_written(tmp_path):
    results = make_results(1, 2)
    graph = make_tree(["\udc80", "\x00", "", " \n ", "日本語", "x" * 500])
    odd = replace(results, graphs=((make_cell(results.plan, "\udcff", "a"), graph),))
    write_study_report([odd], tmp_path / "odd.html")
    assert "日本語" in (tmp_path / "odd.html").read_text(encoding="utf-8")


def test_tags_escape_what_is_not_markup():
    assert tag("p", "<b>", Html("<i>"), title='"') == '<p title="&quot;">&lt;b&gt;<i></p>'


# ----------------------------------------------------------------------------------- the figures


def profile() -> str:
    return alpha_profile_svg(
        [[0.5, 0.4], [0.7, 0.1], [0.8, 0.0]], [(0, 1), (1, 2)], ["<a>", "b", "c"]
    )


def test_figures_join_their_study_or_stand_at_the_end(results):
    other = replace(results, plan=replace(results.plan, name="second"))
    figures = [("Loose", profile(), "At the end."), StudyFigure("Own", profile(), "", "made-up")]
    html = study_report_html([results, other], figures=figures)
    assert html.index('id="s0-figures"') < html.index('id="s1"') < html.index('id="figures"')
    assert html.count("&lt;a&gt; – b") == 2


def test_figures_of_matplotlib_keep_their_paper(results):
    svg = (
        '<?xml version="1.0"?>\n<!DOCTYPE svg>\n<svg xmlns="http://www.w3.org/2000/svg"><g/></svg>'
    )
    html = study_report_html([results], figures=[("Paper", svg, "")])
    assert '<figure class="plate">' in html
    assert "<?xml" not in html


@pytest.mark.parametrize(
    ("svg", "message"),
    [
        ("<p>text</p>", "is no SVG"),
        ("<svg><g></svg>", "is no SVG"),
        ("<svg><script>1</script></svg>", "has a <script>"),
        ('<svg onload="1"/>', "runs a script on load"),
        ('<svg><image href="http://x/y.png"/></svg>', "outside of it"),
        ('<svg><a href="javascript:1"/></svg>', "outside of it"),
    ],
)
def test_figures_that_do_not_keep_to_themselves_are_refused(results, svg, message):
    with pytest.raises(ValueError, match=message):
        study_report_html([results], figures=[("Bad", svg, "")])


def test_profile_names_the_edges_that_stay():
    svg = profile()
    assert "b – c" not in svg
    assert "1 absent" in svg
    assert profile() == svg  # nothing in it depends on when or where it was drawn
    with pytest.raises(ValueError, match="one column for each edge"):
        alpha_profile_svg(np.ones((3, 2)), [(0, 1)], ["a", "b"])
    with pytest.raises(ValueError, match="there are 2 names"):
        alpha_profile_svg(np.ones((3, 1)), [(0, 2)], ["a", "b"])


def test_profiles_of_the_synthetic_problems():
    plan = make_plan(1, 2, name="synthetic")
    crf = MethodPlan("MLCRF", {"model": "PairwiseCRF", "C": 1.0, "ridge": 1.0, "group": 40.0})
    synthetic = [DataPlan(name, Protocol("draws", 1)) for name in ("SD1", "SD2")]
    chains = MethodPlan("CC", {"model": "ClassifierChain"})
    plan = replace(plan, datasets=(*plan.datasets, *synthetic), methods=(chains, crf))
    figures = profile_figures(edge_profiles(plan))
    assert [figure.title[:3] for figure in figures] == ["SD1", "SD2"]
    assert {figure.study for figure in figures} == {"synthetic"}
    assert ["y1 – y2" in figure.svg for figure in figures] == [False, True]
    assert "In truth there is no edge." in figures[0].caption
    assert edge_profiles(replace(plan, methods=(chains,))) == []


# --------------------------------------------------------------------------------------- colours


def luminance(colour: str) -> float:
    digits = colour.lstrip("#")
    digits = "".join(2 * d for d in digits) if len(digits) == 3 else digits
    channels = np.array([int(digits[i : i + 2], 16) for i in (0, 2, 4)]) / 255
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_text_has_enough_contrast(scheme):
    """At least 4.5 : 1, the level AA of the Web Content Accessibility Guidelines."""
    css = resources.files("colabel.report").joinpath("assets/report.css").read_text("utf-8")
    block = re.findall(r":root \{(.*?)\}", css, re.DOTALL)[scheme]
    colours = dict(re.findall(r"--(\w+): (#[0-9a-f]+)", block))
    assert len(colours) >= 7
    for background in ("page", "faint"):
        for name in set(colours) - {"page", "faint", "line"}:
            light, dark = sorted(map(luminance, (colours[name], colours[background])))[::-1]
            assert (light + 0.05) / (dark + 0.05) >= 4.5, (name, background)
