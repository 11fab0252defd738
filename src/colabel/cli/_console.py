"""What the commands share: where they print, and how they stop."""

from __future__ import annotations

from typing import NoReturn

import typer
from rich.console import Console
from rich.markup import escape

WRONG_USE = 2  # exit code of a command called in a way that cannot work


def output() -> Console:
    """Give the console for results: plain text unless standard output is a terminal."""
    return Console(highlight=False)


def stderr_is_terminal() -> bool:
    """Whether somebody is watching standard error, where progress is shown."""
    return Console(stderr=True).is_terminal


def fail(sentence: str, code: int = 1) -> NoReturn:
    """Say on standard error what was wrong, on one line, and stop with an exit code."""
    console = Console(stderr=True, highlight=False)
    console.print(f"[bold red]Error:[/bold red] {escape(sentence)}", soft_wrap=True)
    raise typer.Exit(code)
