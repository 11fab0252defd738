"""The HTML report: whole in itself, well-formed, safe, and readable in a browser."""

from __future__ import annotations

import re
from html import unescape

import numpy as np
import pytest

from colabel import compare
from colabel.models import JointClassifier, LabelClassifier
from colabel.report import comparison_html
from colabel.report.comparison_page import zoomed
from colabel.tables import TableRequest, load_table
from tests.report.browser import Browser, find_browser
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
    return compare(data, models=["br", "ctbn"], cv=3)


@pytest.fixture(scope="module")
def report(found):
    return comparison_html(found)


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
    assert report.count('class="edge more" fill') == 1
    assert f"{edge['nats']:.3f}"[1:] in text
    for loss in ("subset (now)", "hamming", "f1", "thresholds"):
        assert loss in text


def test_nothing_is_fitted_while_it_is_drawn(found, report, monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("a report draws")

    monkeypatch.setattr(LabelClassifier, "fit", refuse)
    monkeypatch.setattr(JointClassifier, "joint", refuse)
    assert comparison_html(found) == report


def test_class_variables_have_their_graph_as_a_table(tmp_path, rng):
    size = rng.normal(size=60)
    lines = [f"{x:.3f},{'abc'[int(x > 0) + int(x > 1)]},{int(x > 0)}" for x in size]
    file = tmp_path / "t.csv"
    file.write_text("\n".join(["size,grade,big", *lines]) + "\n")
    data = load_table(TableRequest(file, ["grade", "big"]))
    found = compare(data, models=["ctbn"], cv=3)
    page = comparison_html(found)
    assert 'class="edge ' not in page
    for edge in found.graph["edges"]:
        assert f'<td data-key="{edge["nats"]!r}">{edge["nats"]:.3f}'.replace(">0.", ">.") in page


def test_of_a_model_without_a_graph_it_is_said_so(data):
    """Also where it stands behind features, which have no graph either."""
    found = compare(data, models=["forest+br"], cv=2)
    text = " ".join(Page(comparison_html(found)).text.split())
    assert "ForestFeatures + BinaryRelevance finds no two labels that depend on each" in text
    assert "Take ForestFeatures + BinaryRelevance --model forest+br" in text


def test_names_are_text(report):
    assert "&lt;b&gt;a&lt;/b&gt;" in report
    assert "<b>a</b>" not in report
    assert "a &amp; b &lt;c&gt;.csv: which model?" in report


def test_every_light_and_paper(report):
    for part in ("prefers-color-scheme: dark", "@media print", "max-width: 44rem", "viewport"):
        assert part in report


@pytest.mark.skipif(find_browser() is None, reason="no Chromium or Chrome on this machine")
def test_fits_phone_and_desktop_and_lets_labels_be_chosen(report, tmp_path):
    """Nothing is wider than the page, but tables that scroll by themselves."""
    file = tmp_path / "report.html"
    file.write_text(report, encoding="utf-8")
    with Browser(find_browser(), tmp_path / "profile") as browser:
        for width in (390, 1280):
            browser.show(width)
            browser.open(file)
            assert browser.evaluate("document.documentElement.scrollWidth") <= width
            size = "parseFloat(getComputedStyle(t).fontSize) * t.getScreenCTM().a"
            letters = browser.evaluate(
                "[...document.querySelectorAll('.node text')]"
                f".filter(t => t.getClientRects().length).map(t => {size})"
            )
            assert len(letters) == 2
            assert min(letters) >= 11
        browser.evaluate("document.querySelector('.node').focus()")
        assert "when" in browser.evaluate("document.querySelector('.panel').innerText")
        assert browser.complaints == []
        assert set(browser.requests) <= set(browser.opened)


def test_the_scale_shows_what_differs():
    """The seven best differ by a few per cent; far worse ones are left off the scale."""
    means = [0.83, 0.825, 0.82, 0.81, 0.805, 0.80, 0.45, 0.20]
    low, high = zoomed(means, [0.005] * len(means))
    assert 0.75 < low < 0.80
    assert 0.83 < high < 0.85
    low, high = zoomed([-m for m in means], [0.0] * len(means))  # less is better
    assert -0.80 < high < -0.75
    assert zoomed([0.5], [0.0])[0] < 0.5 < zoomed([0.5], [0.0])[1]
