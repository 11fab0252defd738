"""Answers about the rows of a table on their way to a file, to the screen or to another program."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from colabel.cli._console import messages, output, stderr_is_terminal
from colabel.core.progress import columns, row_counter

if TYPE_CHECKING:
    from colabel.tables.answers import Answers

SCREEN = "the screen: the first rows, or CSV for another program"
_SHOWN = 20  # rows on a screen


def answer_file(given: Path | None) -> Path | None:
    """The file that is meant, None for standard output; "-" is that too."""
    return None if given is None or str(given) == "-" else given


@contextmanager
def counting(what: str, target: Path | None, *, quiet: bool) -> Iterator[Callable[[int], None]]:
    """Show how many rows are answered, but not between answers that are on the screen, too."""
    shown = stderr_is_terminal() and not quiet and not (target is None and sys.stdout.isatty())
    with row_counter(what, shown=shown) as count:
        yield count


def write_answers(
    found: Iterable[Answers],
    target: Path | None,
    count: Callable[[int], None],
    labels: Sequence[str] = (),
    formulas: bool = False,
) -> int:
    """Write answers as CSV or Parquet; on a terminal the first of them, for people to read.

    `labels` are columns of zeros and ones, which people read as a set. Returns of how many rows.
    """
    from colabel.tables import answers_written

    if target is None and sys.stdout.isatty():
        return _show(found, labels)
    n_rows = 0
    with answers_written(target, safe=not formulas) as write:
        for answers in found:
            write(answers)
            n_rows += answers.n_rows
            count(answers.n_rows)
    return n_rows


def _show(found: Iterable[Answers], labels: Sequence[str]) -> int:
    """Print the first rows as a table; it has as many columns as the screen has room for."""
    names: list[str] = []
    rows: list[tuple[str, ...]] = []
    more = False
    for answers in found:
        names = list(answers.columns)
        rows += answers.rows()[: _SHOWN + 1 - len(rows)]
        more = len(rows) > _SHOWN
        if more:
            break
    rows = rows[:_SHOWN]
    if labels and set(labels) <= set(names):
        at = [names.index(name) for name in labels]
        rest = [k for k in range(len(names)) if k not in at]
        sets = [", ".join(names[k] for k in at if row[k] == "1") or "no label" for row in rows]
        before = sum(k < at[0] for k in rest)
        kept = [[*(row[k] for k in rest)] for row in rows]
        rows = [(*row[:before], own, *row[before:]) for row, own in zip(kept, sets, strict=True)]
        names = [*(names[k] for k in rest[:before]), "labels", *(names[k] for k in rest[before:])]
    console = output()
    widths = [max(map(len, own)) + 1 for own in zip(names, *rows, strict=True)]
    fits = max(1, sum(sum(widths[: k + 1]) <= console.width for k in range(len(widths))))
    table = columns(*names[:fits])
    for row in rows:
        table.add_row(*row[:fits])
    console.print(table)
    left_out = [f"{len(names) - fits} more columns"] if fits < len(names) else []
    left_out += ["more rows"] if more else []
    if left_out:
        say = f"There are {' and '.join(left_out)}: -o out.csv writes everything."
        messages().print(say, markup=False)
    return len(rows)


def say(sentence: str, target: Path | None) -> None:
    """Say what was done: beside the answers if these go to a file, away from them if not."""
    console = messages() if target is None else output()
    console.print(sentence, soft_wrap=True, markup=False)
