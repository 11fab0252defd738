"""The commands that the pages show still print what the pages show."""

from __future__ import annotations

import re
import runpy
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from colabel.cli import app
from tests.fenced import assert_same_output

DOCS = Path(__file__).parents[2] / "docs"
TRANSCRIPT = runpy.run_path(str(DOCS / "transcript.py"))
# seconds, and rows per second, differ each time
CLOCK = re.compile(r"[\d.,]+(?= s\b| rows per second)|\d+(?= kB)")
SLOW = ("colabel compare",)


def plain(command: str) -> bool:
    """Whether a command is colabel's alone: no pipe, no second command."""
    return command.startswith("colabel ") and not set("|;") & set(command)


def test_commands_and_outputs_are_found():
    block = "$ colabel x\nfirst\n\nthird\n$ ls | head\n"
    found = TRANSCRIPT["commands"](block)
    assert found == [("colabel x", "first\n\nthird\n"), ("ls | head", "")]


def test_page_shows_every_command_of_ones_own_table():
    typed = [command for command, _ in TRANSCRIPT["commands_of"](DOCS / "guide/command_line.md")]
    for name in ("compare", "fit", "predict", "ask", "explain", "datasets export"):
        assert any(command.startswith(f"colabel {name}") for command in typed), name


def test_commands_print_what_is_shown(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", str(TRANSCRIPT["COLUMNS"]))
    checked = 0
    for command, shown in TRANSCRIPT["commands_of"](DOCS / "guide/command_line.md"):
        if not plain(command) or command.startswith(SLOW):
            continue
        result = CliRunner().invoke(app, shlex.split(command)[1:])
        assert result.exit_code == 0, (command, result.output)
        printed = "\n".join(line.rstrip() for line in result.output.splitlines())
        assert_same_output(CLOCK.sub("0", shown), CLOCK.sub("0", printed))
        checked += 1
    assert checked >= 5


@pytest.mark.parametrize("page", TRANSCRIPT["PAGES"], ids=lambda page: page.stem)
def test_every_shown_command_has_help(page):
    """Options that are typed exist: also for the commands that are too slow to run here."""
    for command, _ in TRANSCRIPT["commands_of"](page):
        if not plain(command):
            continue
        words = shlex.split(command)[1:]
        names = words[:2] if words[0] == "datasets" else words[:1]
        printed = CliRunner().invoke(app, [*names, "--help"], env={"COLUMNS": "200"}).output
        for option in (word for word in words if word.startswith("--")):
            assert option in printed, (command, option)
