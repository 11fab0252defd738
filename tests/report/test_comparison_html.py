"""The HTML report: whole in itself, well-formed, safe, and readable in a browser."""

from __future__ import annotations

import re
import subprocess
from html.parser import HTMLParser

import numpy as np
import pytest

from colabel.experiments.comparing import ComparisonRequest, compare
from colabel.report import comparison_html
from colabel.tables import TableRequest, load_table, summarise
from tests.report.browser import find_browser

VOID = {"meta", "br"}


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    Y = (X @ [[2, 1], [0, 2]] + rng.normal(size=(60, 2)) > 0).astype(int)
    file = tmp_path_factory.mktemp("report") / "a & b <c>.csv"
    lines = [f"{u:.3f},{v:.3f},{a},{b}" for (u, v), (a, b) in zip(X, Y, strict=True)]
    file.write_text("u,<script>alert(1)</script>,<b>a</b>,b\n" + "\n".join(lines) + "\n")
    data = load_table(TableRequest(file, ["<b>a</b>", "b"]))
    found = compare(data, ComparisonRequest(["br", "ctbn"], 3))
    return comparison_html(summarise(data), found)


class Checker(HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.tags, self.attributes = [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_well_formed_and_whole(report):
    checker = Checker()
    checker.feed(report)
    assert checker.open == []
    # nothing is fetched and nothing runs
    assert not {"script", "link", "img", "iframe", "object"} & set(checker.tags)
    assert not {"src", "href", "onclick", "onload"} & {name for name, _ in checker.attributes}
    assert not re.search(r"https?://|url\(|@import", report)
    assert "default-src 'none'" in report


def test_names_are_text(report):
    assert "&lt;b&gt;a&lt;/b&gt;" in report
    assert "<b>a</b>" not in report
    assert "a &amp; b &lt;c&gt;.csv: which model?" in report


def test_every_light_and_paper(report):
    for part in ("prefers-color-scheme: dark", "@media print", "max-width: 34rem", "viewport"):
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
