"""`colabel demo`: the table, the tree, the picture, the one row, and how it fails."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from colabel.cli import app
from colabel.datasets import load_digit_traits

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
    shown = [means_of(result.stdout, name) for name in ("br", "ctbn", "mlknn", "forest")]
    exact, loss = ([float(own[k].partition("±")[0]) for own in shown] for k in (0, 1))
    assert {len(own) for own in shown} == {6}  # measures
    assert exact[1] > exact[0] + 0.1
    assert exact[3] == max(exact)
    assert loss[3] == min(loss)
    text = " ".join(result.stdout.split())
    found = re.search(r"labels right in (\d+)\..*gets (\d+): it.*gets (\d+); .*get (\d+)\.", text)
    said = [int(found[k]) for k in (1, 2, 4, 3)]
    np.testing.assert_allclose(said, [100 * one for one in exact], atol=0.56)


def test_tree_is_printed_with_all_labels(quick):
    lines = quick[0].stdout.splitlines()
    drawn = {match[1] for line in lines if (match := re.match(r"[│ ]*[├└]── (\w+) +\d", line))}
    names = set(load_digit_traits().label_names)
    assert drawn < names
    assert any(line in names - drawn for line in lines)  # the root


def test_the_picture_names_all_labels(quick):
    result, folder = quick
    picture = folder / "label_tree.svg"
    assert str(picture) in result.stdout
    assert [file.name for file in folder.iterdir()] == ["label_tree.svg"]
    names = {
        own.text for own in ElementTree.parse(picture).iter("{http://www.w3.org/2000/svg}title")
    }
    assert names == set(load_digit_traits().label_names)


def test_one_row_is_shown_whose_labels_are_not_the_most_probable_ones(quick):
    text = " ".join(quick[0].stdout.split())
    assert "One image that ctbn had not seen" in text
    assert "Chosen one by one, the labels would be" in text
    assert "together their probability is only" in text
    assert "If one label were known" in text


def test_output_is_plain_when_nobody_watches(quick):
    result, _ = quick
    assert "\x1b" not in result.output
    assert "━" not in result.output  # no progress bar


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
    (tmp_path / "label_tree.svg").mkdir()
    result = run("--quick", "--cv", 2, "--output", tmp_path)
    assert result.exit_code == 2
    assert "label_tree.svg" in result.output.splitlines()[-1]


@pytest.mark.parametrize("arguments", [("--seed", "-1"), ("--cv", "many"), ("--speed", "9")])
def test_wrong_options(arguments):
    result = run(*arguments)
    assert result.exit_code == 2
    assert arguments[0] in result.output
    assert "Traceback" not in result.output
