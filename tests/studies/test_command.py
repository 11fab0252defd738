"""`python -m studies`, as typed."""

from __future__ import annotations

import csv
import shutil
import sys

import pytest
from typer.testing import CliRunner

from studies.__main__ import app, main
from studies.record import FILE
from studies.report import ROOT
from tests.studies.conftest import PLAN

SMALL = PLAN.replace("splits = 3", "splits = 2")


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


def test_export(folder):
    assert call(folder, "export", "-o", str(folder / "rows.csv")).exit_code == 0
    rows = list(csv.DictReader((folder / "rows.csv").open()))
    assert len(rows) == 8
    assert {row["method"] for row in rows} == {"BR", "CTBN"}


def test_the_report_is_written_from_the_record(tmp_path):
    """RESULTS.md and the pages of the papers, without cells and without data."""
    (tmp_path / "studies").mkdir()
    shutil.copy(FILE, tmp_path / "studies")
    done = CliRunner().invoke(
        app, ["report", "-s", str(tmp_path / "none.sqlite"), "--root", str(tmp_path)]
    )
    assert done.exit_code == 0, done.output
    page = (tmp_path / "RESULTS.md").read_text(encoding="utf-8")
    assert page == (ROOT / "RESULTS.md").read_text(encoding="utf-8"), "python -m studies report"
    assert len(page.splitlines()) <= 120
    tables = {file.name for file in (tmp_path / "docs" / "results").glob("*.md")}
    assert tables == {file.name for file in (ROOT / "docs" / "results").glob("*.md")}
    assert {"mlcrf.md", "ctbn.md", "cdn.md", "lds_mixture.md"} <= tables
    sight = "docs/results/in_sight_of_test_folds.md"
    assert (tmp_path / sight).read_text("utf-8") == (ROOT / sight).read_text("utf-8")


def test_wrong_use_is_a_sentence(folder, tmp_path, monkeypatch, capsys):
    for arguments, said in (
        (["run", str(tmp_path / "no.toml")], "There is no plan"),
        (["show", str(folder / "plan.toml"), "-s", str(tmp_path / "none.sqlite")], "no results in"),
        (["run", str(folder / "plan.toml"), "--method", "X"], "no method 'X'"),
        (["export", "plan.toml", "-s", "no.sqlite", "-o", "rows.csv"], "no results in"),
    ):
        monkeypatch.chdir(folder)
        monkeypatch.setattr(sys, "argv", ["studies", *arguments])
        with pytest.raises(SystemExit) as stopped:
            main()
        assert stopped.value.code == 2
        said_so = capsys.readouterr().err
        assert said_so.startswith("Error: ")
        assert said in said_so
    assert not (tmp_path / "none.sqlite").exists()
