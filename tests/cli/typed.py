"""Commands as they are typed, and what they write."""

from __future__ import annotations

import csv

from typer.testing import CliRunner, Result

from colabel.cli import app


def run(*arguments: object, code: int = 0) -> Result:
    """Run a command that ends with an exit code, on a terminal of 80 columns."""
    result = CliRunner().invoke(app, [*map(str, arguments)], env={"COLUMNS": "80"})
    assert result.exit_code == code, result.output
    return result


def said(text: str) -> str:
    """Return what was printed, without the breaks of its lines."""
    return " ".join(text.split())


def read(file) -> list[dict[str, str]]:
    """Return the lines of a CSV file."""
    with file.open(newline="") as text:
        return list(csv.DictReader(text))
