"""The page on cost has a line for every model, and the benchmark writes it."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("resource")  # of Unix, as benchmarks are

from benchmarks.cold import models
from benchmarks.cost import SETTINGS, lines_of, with_lines

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "cost.md"
# The page says so: who measures them takes them from here and from there.
NOT_MEASURED = {"ConformalSets", "JointForest", "JointStack", "MixtureOfTrees"}


def test_every_model_has_a_line_or_the_page_says_that_it_has_none():
    text = PAGE.read_text(encoding="utf-8")
    lines = lines_of(text)
    assert set(lines) == set(models()) - NOT_MEASURED
    assert {len(line.split("|")) for line in lines.values()} == {len(SETTINGS) + 5}
    before, said, _ = " ".join(text.split()).partition(" have not been measured")
    names = before.rpartition(". ")[2].split() if said else []
    assert {name.strip("`,") for name in names if name != "and"} == NOT_MEASURED


def test_lines_are_replaced_and_added_in_order():
    text = PAGE.read_text(encoding="utf-8")
    changed = with_lines(text, {"CDN": "| CDN | new |", "JointForest": "| JointForest | 1 |"})
    lines = lines_of(changed)
    assert list(lines) == sorted([*lines_of(text), "JointForest"])
    assert lines["CDN"] == "| CDN | new |"
    assert (
        with_lines(changed, {"CDN": lines_of(text)["CDN"]})
        .replace("| JointForest | 1 |\n", "")
        .split("\n## ")[1:]
        == text.split("\n## ")[1:]
    )
