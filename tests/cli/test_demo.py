"""`colabel demo`: the table, the tree, the picture, the one row, and how it fails."""

from __future__ import annotations

import os
import re
import sys

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from colabel.cli import app
from colabel.cli._one_row import show_one_row
from colabel.comparing.held_out import HeldOut
from colabel.datasets import load_digit_traits
from colabel.joint import Independent
from colabel.labels import LabelSpace

pytest.importorskip("matplotlib")
runner = CliRunner()


def run(*arguments: object) -> Result:
    return runner.invoke(app, ["demo", *map(str, arguments)], env={"COLUMNS": "100"})


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    """A short run and the folder it wrote to."""
    folder = tmp_path_factory.mktemp("demo") / "new" / "folder"
    return run("--quick", "--folds", 3, "--output", folder), folder


@pytest.fixture
def few_rows(monkeypatch):
    """Let --quick use fewer rows still, where the figures do not matter."""
    monkeypatch.setattr(sys.modules["colabel.cli.demo"], "_QUICK_ROWS", 150)


def means_of(text: str, measure: str) -> list[float]:
    """Means of the two models for a measure, read from the table."""
    line = next(line for line in text.splitlines() if line.strip().startswith(measure))
    return [float(mean) for mean in re.findall(r"(\d+\.\d+) ±", line)]


def test_table_has_every_measure_for_both_models(quick):
    result, _ = quick
    assert result.exit_code == 0, result.output
    assert "BinaryRelevance" in result.stdout
    for measure in ("exact match", "joint log-loss", "Hamming", "micro F1", "macro F1", "seconds"):
        assert len(means_of(result.stdout, measure)) == 2


def test_labels_that_go_together_pay(quick):
    alone, tree = means_of(quick[0].stdout, "exact match")
    assert tree > alone + 0.1
    alone, tree = means_of(quick[0].stdout, "joint log-loss")
    assert tree < alone - 0.3


def test_the_sentence_has_the_numbers_of_the_table(quick):
    text = " ".join(quick[0].stdout.split())
    alone, tree = (float(value) for value in means_of(quick[0].stdout, "exact match"))
    found = re.search(r"labels right in (\d+), BinaryRelevance in (\d+),", text)
    assert found is not None
    assert int(found[1]) == pytest.approx(100 * tree, abs=0.56)
    assert int(found[2]) == pytest.approx(100 * alone, abs=0.56)
    assert "CTBN has learned which labels go together." in text


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


def test_one_row_is_shown_with_evidence(quick):
    text = " ".join(quick[0].stdout.split())
    assert "One image that CTBN had not seen" in text
    assert re.search(r"P given \w+ = [01]", text)
    found = re.search(r"probability goes from (\d\.\d\d) to (\d\.\d\d)", text)
    assert found is not None
    assert float(found[2]) > float(found[1])


def test_output_is_plain_when_nobody_watches(quick):
    result, _ = quick
    assert "\x1b" not in result.output
    assert "━" not in result.output  # no progress bar


def test_same_seed_same_text(tmp_path, few_rows):
    one, again = (run("--quick", "--folds", 2, "--output", tmp_path / name) for name in "ab")
    pattern = re.compile(r"^\s*(seconds|The picture).*$", re.MULTILINE)
    assert "150 images" in one.stdout
    assert pattern.sub("", again.stdout) == pattern.sub("", one.stdout)


def test_without_matplotlib_it_goes_on(tmp_path, monkeypatch, few_rows):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    result = run("--quick", "--folds", 2, "--output", tmp_path)
    assert result.exit_code == 0, result.output
    assert "pip install matplotlib" in result.stdout
    assert "One image that CTBN had not seen" in result.stdout
    assert not list(tmp_path.iterdir())


# ------------------------------------------------------------------------------------- failures


def is_one_sentence(text: str) -> bool:
    return text.startswith("Error: ") and text.endswith(".\n") and text.count("\n") == 1


@pytest.mark.parametrize("folds", [-1, 0, 1, 601])
def test_impossible_folds(tmp_path, folds):
    result = run("--quick", "--folds", folds, "--output", tmp_path)
    assert result.exit_code == 2
    assert is_one_sentence(result.output)
    assert f"600 rows into {folds} folds: choose between 2 and 600" in result.output


def test_output_that_is_a_file(tmp_path):
    file = tmp_path / "taken"
    file.touch()
    result = run("--output", file)
    assert result.exit_code == 1
    assert is_one_sentence(result.output)
    assert f"{file} cannot be made (it is a file)" in result.output
    assert is_one_sentence(run("--output", file / "below").output)


def test_output_that_cannot_be_written(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda _, mode: not mode & os.W_OK)  # root may do anything
    result = run("--output", tmp_path)
    assert result.exit_code == 1
    assert is_one_sentence(result.output)
    assert "cannot be written to" in result.output


def test_picture_that_cannot_be_written(tmp_path, few_rows):
    (tmp_path / "label_tree.png").mkdir()
    result = run("--quick", "--folds", 2, "--output", tmp_path)
    assert result.exit_code == 1
    assert "label_tree.png cannot be written" in result.output


@pytest.mark.parametrize("arguments", [("--seed", "-1"), ("--folds", "many"), ("--speed", "9")])
def test_wrong_options(arguments):
    result = run(*arguments)
    assert result.exit_code == 2
    assert arguments[0] in result.output
    assert "Traceback" not in result.output


# -------------------------------------------------------------------------------- no such row


def test_without_a_row_where_the_answers_differ_the_least_certain_is_shown(capsys):
    from rich.console import Console

    data = load_digit_traits()
    zero_one = np.array([0, 1])
    space = LabelSpace(data.label_names, (zero_one,) * data.n_labels, "matrix")
    sure = np.array([0.9, 0.6, 0.8])  # independent labels: the mode is made of the marginals
    log_prob = np.log(np.stack([1 - sure, sure], axis=1))
    joint = Independent(space, [log_prob] * data.n_labels)
    rows, codes = np.array([4, 7, 9]), joint.mode_codes()
    held_out = HeldOut(rows, space, data.Y[rows], codes, joint=joint)
    show_one_row(Console(width=100), data, [held_out])
    text = capsys.readouterr().out
    assert "(row 7, a 7)" in text
    assert "the image the model is least sure about" in text
