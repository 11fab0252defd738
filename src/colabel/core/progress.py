"""Progress of long work on standard error, deadlines for it, and tables for a terminal."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table

Advance = Callable[[], None]

_DEADLINE: ContextVar[float] = ContextVar("deadline", default=math.inf)


@contextmanager
def deadline(at: float) -> Iterator[None]:
    """Let loops inside that call `check_deadline` end once `time.monotonic()` is past `at`.

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
def row_counter(description: str, *, shown: bool) -> Iterator[Callable[[int], None]]:
    """Give a function to be called with the number of rows done since the last call.

    Examples
    --------
    >>> with row_counter("predicting", shown=False) as count:
    ...     count(1000)
    """
    if not shown:
        yield lambda n_rows: None
        return
    text = "{task.description}: {task.completed:,} rows{task.fields[speed]}"
    with _showing(description, text, "TimeElapsedColumn", speed="") as update:
        started, n_done = time.monotonic(), 0

        def count(n_rows: int) -> None:
            nonlocal n_done
            n_done += n_rows
            speed = n_done / max(time.monotonic() - started, 1e-9)
            update(advance=n_rows, speed=f", {speed:,.0f} rows a second")

        yield count


@contextmanager
def pass_counter(description: str, *, shown: bool) -> Iterator[Callable[[int], None]]:
    """Give a function to be called before every pass over the rows, with the number of its rows.

    How many passes there will be is not known: they end when the solver has converged.

    Examples
    --------
    >>> with pass_counter("learning", shown=False) as count:
    ...     count(1000)
    """
    if not shown:
        yield lambda n_rows: None
        return
    text = "{task.description}: pass {task.fields[said]}"
    with _showing(description, text, "TimeElapsedColumn", said="0") as update:
        started, n_passes, n_done, n_pending = time.monotonic(), 0, 0, 0

        def count(n_rows: int) -> None:
            nonlocal n_passes, n_done, n_pending
            n_passes, n_done, n_pending = n_passes + 1, n_done + n_pending, n_rows
            speed = n_done / max(time.monotonic() - started, 1e-9)
            update(said=f"{n_passes:,}" + (f", {speed:,.0f} rows a second" if n_done else ""))

        yield count


@contextmanager
def progress_bar(description: str, total: int, *, shown: bool) -> Iterator[Advance]:
    """Give a function to be called after each of `total` steps; see `deadline`, too.

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
