"""Answers about the rows of a table on their way to a file or to the screen."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from colabel.cli._console import messages, output

if TYPE_CHECKING:
    from colabel.tables.answers import Answers


def answer_file(given: Path | None) -> Path | None:
    """The file that is meant, None for the screen; "-" is the screen too."""
    return None if given is None or str(given) == "-" else given


def write_answers(
    found: Iterable[Answers], target: Path | None, count: Callable[[int], None]
) -> int:
    """Write answers to a file, or to the screen; return of how many rows."""
    from colabel.tables import answers_written

    n_rows = 0
    with answers_written(target) as write:
        for answers in found:
            write(answers)
            n_rows += answers.n_rows
            count(answers.n_rows)
    return n_rows


def say(sentence: str, target: Path | None) -> None:
    """Say what was done: beside the answers if these go to a file, away from them if not."""
    console = messages() if target is None else output()
    console.print(sentence, soft_wrap=True, markup=False)
