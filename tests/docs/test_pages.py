"""The documentation is true: its Python runs, its tables are right, and no export is missing."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import get_origin

import numpy as np
import pytest
from sklearn.base import BaseEstimator

import colabel
from colabel.datasets import load_digit_traits
from tests.fenced import blocks, run_page

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted(
    page
    for page in (*DOCS.glob("*.md"), *DOCS.glob("guide/*.md"))
    if blocks(page.read_text(encoding="utf-8"))
)
ROOMS = (
    "models",
    "joint",
    "labels",
    "decide",
    "metrics",
    "model_selection",
    "datasets",
    "preprocess",
    "comparing",
    "report",
)
MODELS = [
    name
    for name in colabel.__all__
    if isinstance(getattr(colabel, name), type)
    and issubclass(getattr(colabel, name), BaseEstimator)
    and hasattr(getattr(colabel, name), "predict")
]


def test_pages_with_code_are_found():
    assert {page.stem for page in PAGES} >= {"index", "start", "decisions", "migrating", "adding"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_python_runs_and_prints_what_is_shown(page):
    run_page(page)


def test_reference_lists_what_is_exported():
    """Callables; constants and names of types are left to the pages."""
    text = (DOCS / "api" / "index.rst").read_text(encoding="utf-8")
    listed = set(re.findall(r"^   ([A-Za-z][\w.]*)$", text, re.MULTILINE))
    exported = {n for n in colabel.__all__ if callable(getattr(colabel, n))} - {"decide"}
    for room in ROOMS:
        module = import_module(f"colabel.{room}")
        for name in module.__all__:
            value = getattr(module, name)
            elsewhere = name in exported and getattr(colabel, name) is value
            if callable(value) and get_origin(value) is None and not elsewhere:
                exported.add(f"{room}.{name}")
    assert listed == exported


def test_the_picture_shows_the_models_of_its_page():
    page = (DOCS / "guide" / "nonlinear.md").read_text(encoding="utf-8")
    picture = (DOCS / "images" / "regions.svg").read_text(encoding="utf-8")
    named = set(re.findall(r'^    "(.+)": ', page, re.MULTILINE)) - {"MixtureOfTrees"}
    shown = re.findall(r">([^<>\n]*(?:CTBN|Joint)[^<>\n]*)</text>", picture)
    assert {title.replace("\N{NO-BREAK SPACE}", " ") for title in shown} == named


def test_every_model_has_a_section_and_a_sketch():
    text = (DOCS / "guide" / "models.md").read_text(encoding="utf-8")
    sections = dict(re.findall(r"^### (\w+)\n(.*?)(?=^##)", text, re.MULTILINE | re.DOTALL))
    assert sorted(sections) == sorted(MODELS)
    for name, section in sections.items():
        assert "**Pick it**" in section, name
        # the probabilistic chain shares the picture of the chain above it
        assert "{sketch}" in section or name == "ProbabilisticClassifierChain", name


def _rows_of_what_each_takes() -> dict[str, list[str]]:
    text = (DOCS / "guide" / "models.md").read_text(encoding="utf-8")
    table = text.split("## What each one takes")[1].split("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("| `")]
    return {row[0].strip("`"): row[1:] for row in rows}


def _make(name: str) -> BaseEstimator:
    quick = {
        "C": 0.01,
        "ridge": 1.0,
        "group": 0.1,
        "smoothing": 1.0,
        "alphas": 10.0,
        "logistic_C": 0.01,
        "n_sweeps": 20,
        "n_trees": 2,
        "gate_C": 0.1,
        "n_estimators": 10,
        "random_state": 0,
    }
    model = getattr(colabel, name)
    if name == "JointStack":
        members = [colabel.BinaryRelevance(C=0.01), colabel.CTBN(C=0.01, random_state=0)]
        return model(members, cv=2, random_state=0)
    if name == "ThresholdedClassifier":
        return model(colabel.BinaryRelevance(C=0.01))
    if name == "RuledClassifier":
        return model(colabel.CTBN(C=0.01, random_state=0))
    if name == "ConformalSets":
        return model(colabel.CTBN(C=0.01, random_state=0), random_state=0)
    names = model().get_params()
    return model(**{key: value for key, value in quick.items() if key in names})


def _accepts(name: str, X, y, **options) -> str:
    try:
        _make(name).fit(X, y, **options)
    except (TypeError, ValueError):
        return "no"
    return "yes"


def test_table_of_what_each_takes_lists_every_model():
    assert sorted(_rows_of_what_each_takes()) == sorted(MODELS)


@pytest.mark.parametrize("name", MODELS)
def test_table_of_what_each_takes_is_true(name):
    family, missing, values, weights, any_classifier = _rows_of_what_each_takes()[name]
    data = load_digit_traits()
    X, Y = data.X[:80], data.Y[:80, :4]
    holes = np.where(np.arange(Y.size).reshape(Y.shape) % 11 == 0, np.nan, Y)
    several = np.column_stack([Y[:, 0] + Y[:, 3], Y[:, 1:3]])
    model = _make(name).fit(X, Y)
    if family == "–":
        assert not hasattr(model, "joint")
    elif family != "its model's":
        assert f"`{type(model.joint(X[:2])).__name__}`" in family.split(" or ")
    if missing != "its model's":
        assert _accepts(name, X, holes) == missing
        assert _accepts(name, X, Y, sample_weight=np.linspace(0.5, 1.5, len(X))) == weights
    assert _accepts(name, X, several) == values
    # what stands inside these is a model with a joint, no classifier
    around = name in ("ConformalSets", "RuledClassifier")
    takes_any = "estimator" in model.get_params() and not around
    assert takes_any == (any_classifier == "yes")
