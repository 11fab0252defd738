"""Python in Markdown: what a page shows is what happens."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import NamedTuple

import pytest

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


def assert_same_output(shown: str, real: str) -> None:
    """Words are the same; numbers differ by no more than a last digit."""
    assert NUMBER.sub("#", real).split() == NUMBER.sub("#", shown).split(), real
    # the last digit may differ between processors
    numbers = [float(number) for number in NUMBER.findall(shown)]
    assert [float(number) for number in NUMBER.findall(real)] == pytest.approx(numbers, abs=0.011)


def run_page(page: Path) -> None:
    """Run the Python of a page from top to bottom, and compare what it prints."""
    namespace: dict[str, object] = {}
    for block in blocks(page.read_text(encoding="utf-8")):
        printed = io.StringIO()
        # blank lines in front, so that a traceback names the line of the page
        code = compile("\n" * (block.line - 1) + block.code, str(page), "exec")
        with contextlib.redirect_stdout(printed):
            exec(code, namespace)
        assert_same_output(block.output or "", printed.getvalue())
