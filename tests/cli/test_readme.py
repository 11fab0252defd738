"""What the README shows is what happens: its Python runs, its outputs are real, its links lead."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from colabel.cli import app
from tests.fenced import Block, blocks, run_page

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_blocks_are_found():
    page = "```python\nprint(1)\n```\n\n```text\n1\n```\n\n```console\nls\n```\n"
    assert blocks(page) == [Block(2, "print(1)\n", "1\n")]
    assert len(blocks(README)) >= 4


def test_python_runs_and_prints_what_is_shown():
    run_page(ROOT / "README.md")


def typed_in(line: str) -> str:
    """What a line of commands prints: ours in this process, others by the shell."""
    words = shlex.split(line, comments=True)
    if words[0] == "colabel":
        done = CliRunner().invoke(app, words[1:])
        assert done.exit_code == 0, done.output
    else:
        done = subprocess.run(["bash", "-ec", line], capture_output=True, text=True, check=True)
    return done.stdout


def test_commands_of_a_table_that_does_not_fit(tmp_path, monkeypatch):
    pytest.importorskip("dask")
    section = README.split("## When the table does not fit")[1].split("\n## ")[0]
    (typed,) = re.findall(r"```console\n(.*?)```", section, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    printed = "".join(typed_in(line) for line in typed.splitlines())
    assert "1,797 rows, 61 features, 4 labels" in printed
    answers = [file.read_text().count("\n") - 1 for file in (tmp_path / "answers").glob("*.csv")]
    assert sum(answers) == 1797


def test_pictures_are_there():
    pictures = re.findall(r"!\[[^]]*\]\(([^)]+)\)", README)
    assert pictures
    for picture in pictures:
        assert (ROOT / picture).read_bytes().startswith(b"\x89PNG")


def test_every_model_of_the_table_exists():
    import colabel

    section = README.split("## Models")[1].split("\n## ")[0]
    names = re.findall(r"^\| `(\w+)`", section, re.MULTILINE)
    assert names
    assert all(hasattr(colabel, name) for name in names)


def test_every_call_of_the_joint_table_exists():
    from colabel import Joint

    section = README.split("## What a `Joint` answers")[1].split("\n## ")[0]
    names = set(re.findall(r"`joint\.(\w+)\(", section))
    assert len(names) >= 6
    assert all(callable(getattr(Joint, name)) for name in names)
