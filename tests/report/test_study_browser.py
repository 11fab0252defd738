"""The report in a real browser: sorting, label graphs, phone and desktop, light and dark."""

from __future__ import annotations

from dataclasses import replace

import pytest

from colabel.report import write_study_report
from tests.report.browser import Browser, find_browser
from tests.report.studies import make_cell, make_graph, make_results, make_tree

BROWSER = find_browser()
pytestmark = pytest.mark.skipif(
    BROWSER is None, reason="no Chromium or Chrome on this machine (apt install chromium)"
)
HOSTILE = "<script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>"
TABLE = "#s0-exact_match table.measures"


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    results = make_results(4, 9)
    labels = ["calm", HOSTILE, "quiet", "sad", "angry", "happy", "amazed"]
    graphs = (
        (make_cell(results.plan, "emotions", "CTBN"), make_tree(labels)),
        (make_cell(results.plan, "emotions", "CML"), make_graph(labels, 0.6)),
        (make_cell(results.plan, "enron", "CML"), make_graph([f"y{i}" for i in range(53)], 0.1)),
        (make_cell(results.plan, "enron", "CTBN"), make_tree([f"label {i}" for i in range(53)])),
    )
    path = tmp_path_factory.mktemp("report") / "study.html"
    write_study_report([replace(results, graphs=graphs)], path)
    return path


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    try:
        started = Browser(BROWSER, tmp_path_factory.mktemp("profile"))
    except (RuntimeError, OSError) as error:
        pytest.skip(f"{BROWSER} does not start: {error}")
    with started:
        yield started


@pytest.fixture(autouse=True)
def quiet(browser):
    """After every test: no complaint, nothing asked for but the files themselves."""
    browser.requests.clear()
    browser.complaints.clear()
    yield
    browser.evaluate("1")  # what is still under way arrives before the answer
    assert browser.complaints == []
    assert set(browser.requests) <= set(browser.opened)
    assert browser.evaluate("window.hacked") is None


def column(browser, number: int, table: str = TABLE) -> list[str]:
    cells = f"[...document.querySelectorAll('{table} tbody tr')].map(r => r.cells[{number}]"
    return browser.evaluate(f"{cells}.innerText)" if not number else f"{cells}.dataset.key)")


def sorting(browser, number: int) -> str | None:
    head = f"document.querySelectorAll('{TABLE} thead th')[{number}]"
    return browser.evaluate(f"{head}.getAttribute('aria-sort')")


def test_sorting_by_click(browser, report):
    browser.show(1280)
    browser.open(report)
    before = column(browser, 0)
    browser.click(f"{TABLE} thead th:nth-child(3) button")
    assert sorting(browser, 2) == "descending"
    values = [float(key) for key in column(browser, 2)]
    assert values == sorted(values, reverse=True)
    browser.click(f"{TABLE} thead th:nth-child(3) button")
    assert sorting(browser, 2) == "ascending"
    assert [float(key) for key in column(browser, 2)] == sorted(values)
    browser.click(f"{TABLE} thead th:nth-child(3) button")
    assert sorting(browser, 2) is None
    assert column(browser, 0) == before


def test_sorting_by_keyboard(browser, report):
    browser.show(390)
    browser.open(report)
    browser.evaluate(f"document.querySelector('{TABLE} thead button').focus()")
    browser.press("Enter")
    assert sorting(browser, 0) == "ascending"
    names = column(browser, 0)
    assert names == sorted(names)
    browser.press("Tab")
    browser.press("Enter")
    assert sorting(browser, 0) is None
    assert sorting(browser, 1) == "descending"
    foot = browser.evaluate(f"document.querySelector('{TABLE} tfoot th').innerText")
    assert "wins" in foot  # stays below


def test_missing_entries_come_last(browser, tmp_path):
    results = make_results(4, 2)
    rows = tuple(r for r in results.rows if (r.dataset, r.method) != ("scene", "CML"))
    path = tmp_path / "gaps.html"
    write_study_report([replace(results, rows=rows, graphs=())], path)
    browser.open(path)
    for _ in range(2):
        browser.click(f"{TABLE} thead th:nth-child(2) button")
        assert column(browser, 0)[-1] == "scene"


def test_skip_link_comes_first(browser, report):
    browser.show(1280)
    browser.open(report)
    browser.press("Tab")
    assert browser.evaluate("document.activeElement.className") == "skip"
    assert browser.evaluate("document.activeElement.getBoundingClientRect().left") >= 0
    browser.press("Enter")
    assert browser.evaluate("document.activeElement.id") == "main"


@pytest.mark.parametrize("graph", [0, 1])
def test_pointing_at_a_label_tells_its_neighbours(browser, report, graph):
    browser.show(1280)
    browser.open(report)
    figure = f"#s0-graph{graph}"
    browser.point(f'{figure} .node[data-label="1"]')
    panel = browser.evaluate(f"document.querySelector('{figure} .panel').innerText")
    assert HOSTILE in panel
    assert "when off" in panel
    mine = browser.evaluate(f"document.querySelectorAll('{figure} .edge.mine').length")
    listed = browser.evaluate(f"document.querySelectorAll('{figure} .panel li').length")
    assert mine == listed > 0
    browser.point("h1")
    panel = browser.evaluate(f"document.querySelector('{figure} .panel').innerText")
    assert "Choose a label" in panel


def test_panel_gives_probabilities_of_the_neighbour(browser, report):
    browser.open(report)
    graph = make_tree(["calm", HOSTILE, "quiet", "sad", "angry", "happy", "amazed"])
    edge = max(
        (e for e in graph["edges"] if e["from"] == 0),
        key=lambda e: abs(e["given_on"] - e["given_off"]),
    )
    browser.point('#s0-graph0 .node[data-label="0"]')
    said = browser.evaluate("document.querySelector('#s0-graph0 .panel li').innerText")
    on, off = (f"{edge[key]:.2f}".removeprefix("0") for key in ("given_on", "given_off"))
    assert said.split("\n") == [
        graph["labels"][edge["to"]],
        f"{on} when calm is on, {off} when off",
    ]


def test_answers_are_in_view_on_a_phone(browser, report):
    browser.show(390, 700)
    browser.open(report)
    figure = "#s0-graph3"
    browser.click(f'{figure} .narrow .node[data-label="5"]')
    box = f"document.querySelector('{figure} .panel').getBoundingClientRect()"
    assert 0 < browser.evaluate(f"{box}.top") < browser.evaluate(f"{box}.bottom") <= 700
    assert "label 5" in browser.evaluate(f"document.querySelector('{figure} .panel').innerText")


@pytest.mark.parametrize("width", [320, 390, 1280])
def test_label_graphs_never_scroll_sideways_on_a_phone(browser, report, width):
    browser.show(width)
    browser.open(report)
    shown = (
        "[...document.querySelectorAll('.graph svg')].filter(s => s.getBoundingClientRect().width)"
    )
    assert browser.evaluate(f"{shown}.length") == 4  # each graph once
    if width <= 390:
        assert browser.evaluate(f"{shown}.every(s => s.getBoundingClientRect().right <= {width})")
        small = f"{shown}.map(s => s.getBoundingClientRect().width / s.viewBox.baseVal.width)"
        assert browser.evaluate(f"Math.min(...{small})") > 0.8  # names can be read
    else:
        assert browser.evaluate(f"{shown}.every(s => !s.closest('.narrow'))")


def test_labels_by_keyboard(browser, report):
    browser.show(1280)
    browser.open(report)
    figure = "#s0-graph2"
    stops = f"document.querySelectorAll('{figure} .wide [tabindex=\"0\"].node').length"
    assert browser.evaluate(stops) == 1  # one stop for all labels, arrows within
    chosen = f"document.querySelector('{figure} [aria-selected=true]')?.dataset.label"
    focused = "document.activeElement.dataset.label"
    browser.evaluate(f"document.querySelector('{figure} .node').focus()")
    first = browser.evaluate(focused)
    browser.press("ArrowDown")
    second = browser.evaluate(focused)
    assert second != first
    assert browser.evaluate(chosen) == second
    browser.press("ArrowUp")
    assert browser.evaluate(focused) == first
    browser.press("End")
    last = browser.evaluate(focused)
    browser.press("ArrowRight")
    assert browser.evaluate(focused) == first != last
    browser.press("Escape")
    assert browser.evaluate(chosen) is None
    assert browser.evaluate(stops) == 1


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_page_fits_the_window_in_both_schemes(browser, report, width, scheme):
    browser.show(width, scheme=scheme)
    browser.open(report)
    assert browser.evaluate("document.documentElement.scrollWidth") == width
    page = browser.evaluate("getComputedStyle(document.body).backgroundColor")
    assert page == {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 24, 30)"}[scheme]
    # The names of the data sets stay while the table scrolls.
    wrapper = f"document.querySelector('{TABLE}').parentElement"
    head = f"document.querySelector('{TABLE} tbody th').getBoundingClientRect().left"
    before = browser.evaluate(head)
    browser.evaluate(f"{wrapper}.scrollLeft = 100")
    assert browser.evaluate(head) == before
    assert (browser.evaluate(f"{wrapper}.scrollLeft") > 0) == (width == 390)


def test_everything_is_open_in_print(browser, report, tmp_path):
    browser.show(1280)
    browser.open(report)
    browser.evaluate(
        "window.seen = 0; addEventListener('beforeprint', () => {"
        "window.seen = document.querySelectorAll('details:not([open])').length + 1; })"
    )
    browser.print_to(tmp_path / "study.pdf")
    assert (tmp_path / "study.pdf").read_bytes().startswith(b"%PDF")
    assert browser.evaluate("window.seen") == 1  # asked, and none was closed
    assert browser.evaluate("document.querySelectorAll('details[open]').length") == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_names_fit_their_boxes(browser, report, scheme):
    browser.show(1280, scheme=scheme)
    browser.open(report)
    overflow = browser.evaluate(
        "[...document.querySelectorAll('.node rect')].filter(r => {"
        "const t = r.parentElement.querySelector('text').getBBox(), b = r.getBBox();"
        "return t.x < b.x || t.x + t.width > b.x + b.width; }).length"
    )
    assert overflow == 0
