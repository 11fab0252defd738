"""`colabel demo`: the table, the tree, the picture, the one row, and how it fails."""

from __future__ import annotations

import re
import sys

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from colabel.cli import app
from colabel.datasets import load_digit_traits

pytest.importorskip("matplotlib")
runner = CliRunner()


def run(*arguments: object) -> Result:
    return runner.invoke(app, ["demo", *map(str, arguments)], env={"COLUMNS": "100"})


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    """A short run and the folder it wrote to."""
    folder = tmp_path_factory.mktemp("demo") / "new" / "folder"
    return run("--quick", "--cv", 3, "--output", folder), folder


def means_of(text: str, model: str) -> list[str]:
    """What the table has of a model."""
    line = next(line for line in text.splitlines() if line.startswith(model))
    return line.split()[1:]


def test_labels_that_go_together_pay(quick):
    result, _ = quick
    assert result.exit_code == 0, result.output
    alone, tree = (means_of(result.stdout, name) for name in ("BinaryRelevance", "CTBN"))
    exact = [float(own[0].partition("±")[0]) for own in (alone, tree)]
    loss = [float(own[1].partition("±")[0]) for own in (alone, tree)]
    assert len(alone) == len(tree) == 6  # measures
    assert exact[1] > exact[0] + 0.1
    assert loss[1] < loss[0] - 0.3
    text = " ".join(result.stdout.split())
    found = re.search(r"labels right in (\d+), BinaryRelevance in (\d+):", text)
    assert int(found[1]) == pytest.approx(100 * exact[1], abs=0.56)
    assert int(found[2]) == pytest.approx(100 * exact[0], abs=0.56)
    assert "it has learned which labels go together." in text


def test_tree_is_printed_with_all_labels(quick):
    lines = quick[0].stdout.splitlines()
    drawn = {match[1] for line in lines if (match := re.match(r"[│ ]*[├└]── (\w+) +\d", line))}
    names = set(load_digit_traits().label_names)
    assert drawn < names
    assert any(line in names - drawn for line in lines)  # the root


def test_picture_is_a_png(quick):
    from matplotlib import image

    result, folder = quick
    picture = folder / "label_tree.png"
    assert str(picture) in result.stdout
    assert [file.name for file in folder.iterdir()] == ["label_tree.png"]
    pixels = image.imread(picture)
    assert pixels.shape[0] > 100
    assert np.ptp(pixels[..., :3]) > 0.5


def test_one_row_is_shown_whose_labels_are_not_the_most_probable_ones(quick):
    text = " ".join(quick[0].stdout.split())
    assert "One image that CTBN had not seen" in text
    assert "Chosen one by one, the labels would be" in text
    assert "together their probability is only" in text
    assert "If one label were known" in text


def test_output_is_plain_when_nobody_watches(quick):
    result, _ = quick
    assert "\x1b" not in result.output
    assert "━" not in result.output  # no progress bar


def test_without_matplotlib_the_same_text_but_no_picture(quick, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    result = run("--quick", "--cv", 3, "--output", tmp_path)
    assert result.exit_code == 0, result.output
    assert "pip install matplotlib" in result.stdout
    assert not list(tmp_path.iterdir())
    tree = re.compile(r"The label tree.*?(?=\n\n(?:The|No) picture)", re.DOTALL)
    assert tree.search(result.stdout)[0] == tree.search(quick[0].stdout)[0]
    assert result.stdout.partition("One image")[2] == quick[0].stdout.partition("One image")[2]


# ------------------------------------------------------------------------------------- failures


def is_one_sentence(text: str) -> bool:
    return text.startswith("Error: ") and text.endswith(".\n") and text.count("\n") == 1


@pytest.mark.parametrize("folds", [-1, 0, 1, 601])
def test_impossible_folds(tmp_path, folds):
    result = run("--quick", "--cv", folds, "--output", tmp_path)
    assert result.exit_code == 2
    assert is_one_sentence(result.output)
    assert f"600 rows into {folds} folds: choose between 2 and 600" in result.output


def test_output_that_is_a_file(tmp_path):
    file = tmp_path / "taken"
    file.touch()
    for folder in (file, file / "below"):
        result = run("--output", folder)
        assert result.exit_code == 2
        assert is_one_sentence(result.output)
        assert f"The folder {folder} is a file" in result.output


def test_picture_that_cannot_be_written(tmp_path):
    (tmp_path / "label_tree.png").mkdir()
    result = run("--quick", "--cv", 2, "--output", tmp_path)
    assert result.exit_code == 2
    assert "label_tree.png" in result.output.splitlines()[-1]


@pytest.mark.parametrize("arguments", [("--seed", "-1"), ("--cv", "many"), ("--speed", "9")])
def test_wrong_options(arguments):
    result = run(*arguments)
    assert result.exit_code == 2
    assert arguments[0] in result.output
    assert "Traceback" not in result.output
