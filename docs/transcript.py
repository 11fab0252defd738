"""Type the commands of a page again, and put what they print into it.

In a page, a block of the language `console` is commands after a dollar sign, and what each printed.
`make transcript` brings the pages below up to date; tests/docs/test_transcript.py checks them.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

DOCS = Path(__file__).parent
PAGES = (DOCS / "guide" / "command_line.md",)
COLUMNS = 100
_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Typed(NamedTuple):
    """A command and what it printed."""

    command: str
    printed: str


def commands(block: str) -> list[Typed]:
    """Return the commands of a block with their outputs."""
    found: list[Typed] = []
    for line in block.splitlines():
        if line.startswith("$ "):
            found.append(Typed(line[2:], ""))
        else:
            found[-1] = found[-1]._replace(printed=f"{found[-1].printed}{line}\n")
    return found


def commands_of(page: Path) -> list[Typed]:
    """Return the commands of a page in their order."""
    text = page.read_text(encoding="utf-8")
    return [typed for block in _BLOCK.findall(text) for typed in commands(block)]


def run(command: str, folder: Path) -> str:
    """Run a command line in a folder; return what it prints, errors included."""
    environment = {
        **os.environ,
        "COLUMNS": str(COLUMNS),
        "NO_COLOR": "1",
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
        "PYTHONPATH": f"{DOCS.parent / 'src'}{os.pathsep}{DOCS.parent}",
    }
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return "\n".join(line.rstrip() for line in done.stdout.splitlines()) + "\n" * bool(done.stdout)


def type_again(page: Path) -> str:
    """Return the text of a page with new outputs."""
    with tempfile.TemporaryDirectory() as folder:

        def renewed(match: re.Match[str]) -> str:
            block = ""
            for typed in commands(match.group(1)):
                sys.stderr.write(f"{typed.command}\n")
                block += f"$ {typed.command}\n{run(typed.command, Path(folder))}"
            return f"```console\n{block}```"

        return _BLOCK.sub(renewed, page.read_text(encoding="utf-8"))


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(type_again(page), encoding="utf-8")
