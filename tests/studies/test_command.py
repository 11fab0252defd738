"""`python -m studies`, as typed."""

from __future__ import annotations

import csv
import os
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from studies.__main__ import app
from tests.studies.conftest import PLAN

SMALL = PLAN.replace("splits = 3", "splits = 2").replace('graphs = ["CTBN"]\n', "")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")
    (folder / "plan.toml").write_text(SMALL)
    result = call(folder, "run", "-j", "1")
    assert result.exit_code == 0, result.output
    assert "4 cells: 0 had results, 4 were run, 0 of them failed" in result.output
    return folder


def call(folder, command, *options):
    arguments = [command, str(folder / "plan.toml"), "-s", str(folder / "s.sqlite")]
    return CliRunner().invoke(app, [*arguments, *options])


def test_running_again_does_nothing(folder):
    result = call(folder, "run", "-j", "1")
    assert "4 had results, 0 were run" in result.output


def test_show(folder):
    result = call(folder, "show")
    assert result.exit_code == 0
    assert "Exact match" in result.output
    assert "digit_traits" in result.output


def test_names_that_look_like_markup_are_shown(folder):
    """A method called [/CTBN] was a fault of rich's."""
    text = SMALL.replace('"CTBN"\nmeasures', '"[/CTBN]"\nmeasures')
    named = text.replace("[methods.CTBN]", '[methods."[/CTBN]"]')
    assert named.count("[/CTBN]") == 2
    (folder / "plan.toml").write_text(named.replace('"Small"', '"[/title]"'))
    shown, written = call(folder, "show"), call(folder, "export", "-o", str(folder / "x[y].csv"))
    (folder / "plan.toml").write_text(SMALL)
    assert shown.exit_code == written.exit_code == 0, shown.output
    assert "[/title]" in shown.output
    assert shown.output.count("[/CTBN]") == 2  # in two tables
    assert "x[y].csv" in written.output


def test_show_says_what_is_missing(folder):
    (folder / "plan.toml").write_text(SMALL.replace("splits = 2", "splits = 4", 1))
    result = call(folder, "show")
    (folder / "plan.toml").write_text(SMALL)
    assert "4 cells have no result yet" in result.output


def test_export(folder):
    pd = pytest.importorskip("pandas")
    assert call(folder, "export", "-o", str(folder / "rows.csv")).exit_code == 0
    assert call(folder, "export", "-o", str(folder / "rows.parquet")).exit_code == 0
    rows = list(csv.DictReader((folder / "rows.csv").open()))
    assert len(rows) == 8
    frame = pd.read_parquet(folder / "rows.parquet")
    assert [float(row["value"]) for row in rows] == frame["value"].tolist()


def test_reports(folder):
    assert call(folder, "report", "-o", str(folder / "r.md")).exit_code == 0
    assert "## Small" in (folder / "r.md").read_text()


def test_a_report_of_an_unfinished_study_says_so(folder):
    (folder / "plan.toml").write_text(SMALL.replace("splits = 2", "splits = 4", 1))
    result = call(folder, "report", "-o", str(folder / "part.md"))
    (folder / "plan.toml").write_text(SMALL)
    assert "4 cells of plan have no result yet" in result.output


def test_wrong_use_is_a_sentence(folder, tmp_path):
    for arguments, said in (
        (["run", str(tmp_path / "no.toml")], "There is no plan"),
        (["show", str(folder / "plan.toml"), "-s", str(tmp_path / "none.sqlite")], "no results in"),
        (["run", str(folder / "plan.toml"), "--method", "X"], "no method 'X'"),
        (
            ["export", str(folder / "plan.toml"), "-s", "s.sqlite", "-o", "rows.xlsx"],
            "neither .csv nor .parquet",
        ),
    ):
        done = subprocess.run(
            [sys.executable, "-m", "studies", *arguments],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 2
        assert done.stderr.startswith("Error: ")
        assert said in done.stderr
    assert not (tmp_path / "none.sqlite").exists()
