"""The page on cost has a line for every model, and the benchmark writes it."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("resource")  # of Unix, as benchmarks are

from benchmarks.cold import models
from benchmarks.cost import SETTINGS, lines_of, with_lines

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "cost.md"


def test_every_model_has_a_line():
    lines = lines_of(PAGE.read_text(encoding="utf-8"))
    assert set(lines) == set(models())
    assert {len(line.split("|")) for line in lines.values()} == {len(SETTINGS) + 5}


def test_lines_are_replaced_and_added_in_order():
    text = PAGE.read_text(encoding="utf-8")
    changed = with_lines(text, {"CDN": "| CDN | new |", "Joiner": "| Joiner | 1 |"})
    lines = lines_of(changed)
    assert list(lines) == sorted([*lines_of(text), "Joiner"])
    assert lines["CDN"] == "| CDN | new |"
    back = with_lines(changed, {"CDN": lines_of(text)["CDN"]}).replace("| Joiner | 1 |\n", "")
    assert back.split("\n## ")[1:] == text.split("\n## ")[1:]
