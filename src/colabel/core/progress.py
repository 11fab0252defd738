"""What a terminal shows: tables, and progress of long work on standard error."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from rich.table import Table

Advance = Callable[[], None]


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
    description: str, *, shown: bool, total: int | None = None
) -> Iterator[Callable[[int], None]]:
    """Give a function to be called with the number of rows done since the last call.

    With the `total` number of rows the time left is shown too.

    Examples
    --------
    >>> with row_counter("predicting", shown=False) as count:
    ...     count(1000)
    """
    if not shown:
        yield lambda n_rows: None
        return
    text = "{task.description}: {task.completed:,}" + ("" if total is None else f" of {total:,}")
    left = () if total is None else ("TimeRemainingColumn",)
    text += " rows{task.fields[speed]}"
    with _showing(description, text, "TimeElapsedColumn", *left, total=total, speed="") as update:
        started, n_done = time.monotonic(), 0

        def count(n_rows: int) -> None:
            nonlocal n_done
            n_done += n_rows
            speed = n_done / max(time.monotonic() - started, 1e-9)
            update(advance=n_rows, speed=f", {speed:,.0f} rows a second")

        yield count


class Rehearsal(NamedTuple):
    """When each pass of a like computation began, and when all were done, in seconds."""

    began: tuple[float, ...]
    total: float

    def left(self, n_passes: int, elapsed: float) -> float | None:
        """Seconds that are left when pass `n_passes` begins; None where that cannot be said.

        Examples
        --------
        >>> Rehearsal((0.0, 1.0, 2.0), 4.0).left(3, 100.0)
        100.0
        """
        if n_passes > len(self.began) or self.began[n_passes - 1] <= 0.0:
            return None
        return elapsed * (self.total / self.began[n_passes - 1] - 1.0)


@contextmanager
def pass_counter(
    description: str, *, shown: bool, rehearsal: Rehearsal | None = None
) -> Iterator[Callable[[int], None]]:
    """Give a function to be called before every pass over the rows, with the number of its rows.

    How many passes there will be is not known: they end when the solver has converged. A
    rehearsal tells about how many, and so the time left.

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
            elapsed = time.monotonic() - started
            update(said=_of_pass(n_passes, n_done, elapsed, rehearsal))

        yield count


def _of_pass(n_passes: int, n_done: int, elapsed: float, rehearsal: Rehearsal | None) -> str:
    """Say which pass begins, how fast rows were done, and how long it will take."""
    said = f"{n_passes:,}"
    if rehearsal is not None and n_passes <= len(rehearsal.began):
        said += f" of about {len(rehearsal.began):,}"
    if n_done:
        said += f", {n_done / max(elapsed, 1e-9):,.0f} rows a second"
    left = None if rehearsal is None else rehearsal.left(n_passes, elapsed)
    if left is not None:
        said += f", about {timedelta(seconds=round(left))} left"
    return said


@contextmanager
def progress_bar(description: str, total: int, *, shown: bool) -> Iterator[Advance]:
    """Give a function to be called after each of `total` steps.

    Examples
    --------
    >>> with progress_bar("fitting", 2, shown=False) as advance:
    ...     advance()
    """
    if not shown:
        yield lambda: None
        return
    columns = ("BarColumn", "MofNCompleteColumn", "TimeElapsedColumn")
    with _showing(description, "{task.description}", *columns, total=total) as update:
        yield lambda: update(advance=1)


def columns(*titles: str) -> Table:
    """Return an empty table; ">" before a title is a column of numbers."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for title in titles:
        table.add_column(title.lstrip(">"), justify="right" if title[:1] == ">" else "left")
    return table
