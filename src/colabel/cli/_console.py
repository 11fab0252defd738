"""What the commands share: where they print, and how they stop."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn, TextIO

import typer
from rich.console import Console
from rich.markup import escape

# Exit codes; `colabel --help` lists them.
INTERNAL = 1  # a fault of colabel
WRONG_USE = 2  # a command, file, column or value that cannot work
MODEL_REFUSED = 3  # a model file that is damaged, too new, not safe, or not there; or results
INTERRUPTED = 130


def silence(stream: TextIO) -> None:
    """Let nothing that is still written to a stream reach the reader, who has gone."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


class _Console(Console):
    """Goes on in silence when nobody reads any more, as behind `head`."""

    def on_broken_pipe(self) -> None:
        self.quiet = True
        silence(sys.stderr if self.stderr else sys.stdout)


def output() -> Console:
    """Give the console for results: plain text unless standard output is a terminal."""
    return _Console(highlight=False)


def messages() -> Console:
    """Give the console for what is said beside the results, on standard error."""
    return _Console(stderr=True, highlight=False)


def stderr_is_terminal() -> bool:
    """Whether somebody is watching standard error, where progress is shown."""
    return messages().is_terminal


@contextmanager
def working(what: str, *, shown: bool) -> Iterator[None]:
    """Show on a terminal that work is going on, and at what."""
    console = messages()
    if not (shown and console.is_terminal):
        yield
        return
    with console.status(escape(what)):
        yield


def note(sentence: str) -> None:
    """Say on standard error what may be of interest."""
    messages().print(f"[bold]Note:[/bold] {escape(sentence)}", soft_wrap=True)


def fail(sentence: str, code: int = 1) -> NoReturn:
    """Say on standard error what was wrong, on one line, and stop with an exit code."""
    messages().print(f"[bold red]Error:[/bold red] {escape(sentence)}", soft_wrap=True)
    raise typer.Exit(code)
