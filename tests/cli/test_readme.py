"""What the README shows is what happens: its Python runs, its outputs are real, its links lead."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
NUMBER = re.compile(r"\d+\.\d*")


class Block(NamedTuple):
    line: int
    code: str
    output: str | None  # of a ```text block that follows


def blocks(text: str) -> list[Block]:
    """Fenced Python with the output shown below it, in the order of the page."""
    found: list[Block] = []
    for match in re.finditer(r"^```(\w+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        language, body = match.groups()
        if language == "python":
            found.append(Block(text.count("\n", 0, match.start()) + 2, body, None))
        elif language == "text":
            assert found, "a text block needs a python block before it"
            assert found[-1].output is None, "two outputs for the same code"
            found[-1] = found[-1]._replace(output=body)
    return found


def test_blocks_are_found():
    page = "```python\nprint(1)\n```\n\n```text\n1\n```\n\n```console\nls\n```\n"
    assert blocks(page) == [Block(2, "print(1)\n", "1\n")]
    assert len(blocks(README)) >= 4


def test_python_runs_and_prints_what_is_shown():
    namespace: dict[str, object] = {}
    for block in blocks(README):
        printed = io.StringIO()
        # blank lines in front, so that a traceback names the line of the README
        code = compile("\n" * (block.line - 1) + block.code, "README.md", "exec")
        with contextlib.redirect_stdout(printed):
            exec(code, namespace)
        shown, real = block.output or "", printed.getvalue()
        assert NUMBER.sub("#", real).split() == NUMBER.sub("#", shown).split(), real
        # the last digit may differ between processors
        numbers = [float(number) for number in NUMBER.findall(shown)]
        assert [float(number) for number in NUMBER.findall(real)] == pytest.approx(
            numbers, abs=0.011
        )


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
