"""What a model is in one line is said by its docstring, and the same everywhere else."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest
from sklearn.base import BaseEstimator
from typer.testing import CliRunner

import colabel
from colabel.cli import app
from colabel.tables.model_names import MODEL_NAMES

ROOT = Path(__file__).parents[2]
MODELS = [
    name
    for name in colabel.__all__
    if inspect.isclass(getattr(colabel, name))
    and issubclass(getattr(colabel, name), BaseEstimator)
    and hasattr(getattr(colabel, name), "predict")
]


def description(kind):
    """The first line of a docstring: what a model is."""
    return kind.__doc__.strip().partition("\n")[0]


@pytest.mark.parametrize("name", MODELS)
def test_it_is_a_short_sentence(name):
    said = description(getattr(colabel, name))
    assert said.endswith(".")
    assert 20 < len(said) < 95
    assert said.count(". ") == 0
    assert not re.search(r"\[\d\]_|[`|]", said), "it stands in tables and on the command line"


def test_the_table_of_papers():
    guide = (ROOT / "docs" / "guide" / "models.md").read_text(encoding="utf-8")
    section = guide.split("## Papers")[1]
    table = dict(re.findall(r"^\| `(\w+)` \| ([^|]*) \|", section.split("\n## ")[0], re.MULTILINE))
    around = {"ThresholdedClassifier", "ConformalSets", "RuledClassifier"}
    assert set(table) == set(MODELS) - around
    told = {name: description(getattr(colabel, name)).rstrip(".") for name in table}
    assert table == told, "write into the table what the docstrings say first"


def test_the_command_line():
    shown = CliRunner().invoke(app, ["models"], env={"COLUMNS": "400"})
    assert shown.exit_code == 0, shown.output
    lines = [" ".join(line.split()) for line in shown.output.splitlines()]
    for name, kind in MODEL_NAMES.items():
        place = next(n for n, line in enumerate(lines) if line.startswith(f"{name} "))
        assert lines[place].startswith(f"{name} {description(kind)}")
        assert lines[place + 1].split()[0] == kind.__name__


def test_captions_of_sketches_are_not_written_by_hand():
    guide = (ROOT / "docs" / "guide" / "models.md").read_text(encoding="utf-8")
    sketches = re.findall(r"^```\{sketch\} (\S+) (\w+)\n(.*?)```", guide, re.MULTILINE | re.DOTALL)
    assert {model for _, model, _ in sketches} == set(MODELS) - {"ProbabilisticClassifierChain"}
    assert [content for *_, content in sketches] == [""] * len(sketches)
