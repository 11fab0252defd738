"""Progress of long work on standard error, deadlines for it, and tables for a terminal."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table

Advance = Callable[[], None]

_DEADLINE: ContextVar[float] = ContextVar("deadline", default=math.inf)


@contextmanager
def deadline(at: float) -> Iterator[None]:
    """Let loops that call `check_deadline` stop as soon as `time.monotonic()` is past `at`.

    Examples
    --------
    >>> with deadline(0.0):
    ...     check_deadline()
    Traceback (most recent call last):
        ...
    TimeoutError: The time limit is over.
    """
    token = _DEADLINE.set(min(at, _DEADLINE.get()))
    try:
        yield
    finally:
        _DEADLINE.reset(token)


def check_deadline() -> None:
    """Raise TimeoutError after the deadline, if there is one."""
    if time.monotonic() > _DEADLINE.get():
        raise TimeoutError("The time limit is over.")


@contextmanager
def _showing(
    description: str, text: str, *more: str, total: int | None = None, **fields: Any
) -> Iterator[Callable[..., None]]:
    """Show a line on standard error; give a function that changes what it says."""
    from rich import progress
    from rich.console import Console

    kinds = [getattr(progress, name)() for name in more]
    columns = (progress.SpinnerColumn(), progress.TextColumn(text), *kinds)
    with progress.Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task(description, total=total, **fields)
        yield lambda **changes: shown.update(task, **changes)


@contextmanager
def row_counter(
    description: str, *, shown: bool, of_passes: bool = False
) -> Iterator[Callable[[int], None]]:
    """Give a function to be called with the number of rows done since the last call.

    With `of_passes` it is to be called before every pass over the rows, with the number of its
    rows. How many passes there will be is not known: they end when the solver has converged.

    Examples
    --------
    >>> with row_counter("predicting", shown=False) as count:
    ...     count(1000)
    """
    if not shown:
        yield lambda n_rows: None
        return
    text = "{task.description}: {task.fields[said]}"
    begin = "pass 0" if of_passes else "0 rows"
    with _showing(description, text, "TimeElapsedColumn", said=begin) as update:
        started, n_calls, n_done, n_pending = time.monotonic(), 0, 0, 0

        def count(n_rows: int) -> None:
            nonlocal n_calls, n_done, n_pending
            n_calls, n_done = n_calls + 1, n_done + (n_pending if of_passes else n_rows)
            n_pending = n_rows
            speed = n_done / max(time.monotonic() - started, 1e-9)
            what = f"pass {n_calls:,}" if of_passes else f"{n_done:,} rows"
            update(said=what + (f", {speed:,.0f} rows a second" if n_done else ""))

        yield count


pass_counter = partial(row_counter, of_passes=True)


@contextmanager
def progress_bar(description: str, total: int, *, shown: bool) -> Iterator[Advance]:
    """Give a function to be called after each of `total` steps; it also checks the `deadline`.

    Examples
    --------
    >>> with progress_bar("fitting", 2, shown=False) as advance:
    ...     advance()
    """
    if not shown:
        yield check_deadline
        return
    columns = ("BarColumn", "MofNCompleteColumn", "TimeElapsedColumn")
    with _showing(description, "{task.description}", *columns, total=total) as update:

        def advance() -> None:
            update(advance=1)
            check_deadline()

        yield advance


def columns(*titles: str) -> Table:
    """Return an empty table; ">" before a title is a column of numbers."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for title in titles:
        table.add_column(title.lstrip(">"), justify="right" if title[:1] == ">" else "left")
    return table
