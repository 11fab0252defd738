"""What the commands share: where they print, and how they stop."""

from __future__ import annotations

from typing import NoReturn

import typer
from rich.console import Console
from rich.markup import escape

# Exit codes; `colabel --help` lists them.
INTERNAL = 1  # a fault of colabel
WRONG_USE = 2  # a command, file, column or value that cannot work
MODEL_REFUSED = 3  # a model file that is damaged, too new, not safe, or not there
INTERRUPTED = 130


def output() -> Console:
    """Give the console for results: plain text unless standard output is a terminal."""
    return Console(highlight=False)


def stderr_is_terminal() -> bool:
    """Whether somebody is watching standard error, where progress is shown."""
    return Console(stderr=True).is_terminal


def note(sentence: str) -> None:
    """Say on standard error what may be of interest."""
    console = Console(stderr=True, highlight=False)
    console.print(f"[bold]Note:[/bold] {escape(sentence)}", soft_wrap=True)


def fail(sentence: str, code: int = 1) -> NoReturn:
    """Say on standard error what was wrong, on one line, and stop with an exit code."""
    console = Console(stderr=True, highlight=False)
    console.print(f"[bold red]Error:[/bold red] {escape(sentence)}", soft_wrap=True)
    raise typer.Exit(code)
