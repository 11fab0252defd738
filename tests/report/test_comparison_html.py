"""The HTML report: whole in itself, well-formed, safe, and readable in a browser."""

from __future__ import annotations

import re
import subprocess
from html import unescape

import numpy as np
import pytest

from colabel.comparing import ComparisonRequest, run_comparison
from colabel.models import JointClassifier, LabelClassifier
from colabel.report import comparison_html
from colabel.tables import TableRequest, load_table, summarise
from tests.report.browser import find_browser
from tests.report.html_page import Page


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    Y = (X @ [[2, 0], [0, 0]] + rng.normal(size=(60, 2)) > 0).astype(int)
    Y[:, 1] = np.where(rng.random(60) < 0.9, Y[:, 0], Y[:, 1])  # a tree has an arc to show
    file = tmp_path_factory.mktemp("report") / "a & b <c>.csv"
    lines = [f"{u:.3f},{v:.3f},{a},{b}" for (u, v), (a, b) in zip(X, Y, strict=True)]
    file.write_text("u,<script>alert(1)</script>,<b>a</b>,b\n" + "\n".join(lines) + "\n")
    return load_table(TableRequest(file, ["<b>a</b>", "b"]))


@pytest.fixture(scope="module")
def found(data):
    return run_comparison(data, ComparisonRequest(["br", "ctbn"], 3))


@pytest.fixture(scope="module")
def summary(data):
    return summarise(data)


@pytest.fixture(scope="module")
def report(summary, found):
    return comparison_html(summary, found)


def test_well_formed_and_whole(report):
    page = Page(report)
    assert page.open == []
    names = {name for name, _ in page.elements}
    attributes = {name for _, own in page.elements for name in own}
    # nothing is fetched, and no script but the one that the policy names by its digest runs
    assert not {"link", "img", "iframe", "object"} & names
    assert not {"src", "onclick", "onload"} & attributes
    assert all(own["href"].startswith("#") for _, own in page.elements if "href" in own)
    assert not re.search(r"https?://(?!www\.w3\.org)|url\(|@import", report)
    assert "default-src 'none'; script-src 'sha256-" in unescape(report)


def test_what_it_says_is_in_the_record(report, found):
    text = " ".join(Page(report).text.split())
    assert found.reason in text
    for result in found.results.values():
        assert result.title in text
        assert f"{result.mean('exact_match'):.3f}" in text
    (edge,) = found.graph["edges"]
    assert report.count('class="edge ') == 2  # in the drawing for screens, and that for phones
    assert f"{edge['nats']:.3f}"[1:] in text
    for loss in ("subset (now)", "hamming", "f1", "thresholds"):
        assert loss in text


def test_nothing_is_fitted_while_it_is_drawn(found, summary, report, monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("a report draws")

    monkeypatch.setattr(LabelClassifier, "fit", refuse)
    monkeypatch.setattr(JointClassifier, "joint", refuse)
    assert comparison_html(summary, found) == report


def test_class_variables_have_their_graph_as_a_table(tmp_path, rng):
    size = rng.normal(size=60)
    lines = [f"{x:.3f},{'abc'[int(x > 0) + int(x > 1)]},{int(x > 0)}" for x in size]
    file = tmp_path / "t.csv"
    file.write_text("\n".join(["size,grade,big", *lines]) + "\n")
    data = load_table(TableRequest(file, ["grade", "big"]))
    found = run_comparison(data, ComparisonRequest(["ctbn"], 3))
    page = comparison_html(summarise(data), found)
    assert 'class="edge ' not in page
    for edge in found.graph["edges"]:
        assert f'<td data-key="{edge["nats"]!r}">{edge["nats"]:.3f}'.replace(">0.", ">.") in page


def test_of_a_model_without_a_graph_it_is_said_so(data, summary):
    """Also where it stands behind features, which have no graph either."""
    found = run_comparison(data, ComparisonRequest(["forest+br"], 2))
    text = " ".join(Page(comparison_html(summary, found)).text.split())
    assert "ForestFeatures + BinaryRelevance finds no two labels that say anything of" in text
    assert "Take ForestFeatures + BinaryRelevance --model forest+br" in text


def test_names_are_text(report):
    assert "&lt;b&gt;a&lt;/b&gt;" in report
    assert "<b>a</b>" not in report
    assert "a &amp; b &lt;c&gt;.csv: which model?" in report


def test_every_light_and_paper(report):
    for part in ("prefers-color-scheme: dark", "@media print", "max-width: 44rem", "viewport"):
        assert part in report


def test_the_same_comparison_gives_the_same_report(report):
    assert "BinaryRelevance" in report
    assert "CTBN" in report
    assert re.search(r"Take (CTBN|BinaryRelevance)", report)


CHROMIUM = find_browser()


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium")
@pytest.mark.parametrize("width", [390, 1200])
def test_fits_the_width_of_the_screen(report, tmp_path, width):
    """In the browser nothing is wider than the page, but tables that scroll by themselves."""
    (tmp_path / "report.html").write_text(report.replace("default-src 'none';", ""))
    # a frame, because a window cannot be as narrow as a phone; its answer is its title
    frame = (
        f'<iframe id="f" style="width:{width}px;height:900px;border:0" src="report.html"></iframe>'
        "<script>f.onload = () => { const d = f.contentDocument.documentElement;"
        "document.body.dataset.answer = d.scrollWidth + '/' + d.clientWidth; }</script>"
    )
    (tmp_path / "frame.html").write_text(f"<!doctype html><body>{frame}</body>")
    finished = subprocess.run(
        [
            CHROMIUM,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--allow-file-access-from-files",
            "--virtual-time-budget=5000",
            f"--user-data-dir={tmp_path / 'profile'}",
            "--dump-dom",
            (tmp_path / "frame.html").as_uri(),
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    answer = re.search(r'data-answer="(\d+)/(\d+)"', finished.stdout)
    if answer is None:
        pytest.skip(f"Chromium does not run here: {finished.stderr[-200:]}")
    assert width - 20 <= int(answer[2]) <= width  # but for the scroll bar
    assert int(answer[1]) <= int(answer[2])
