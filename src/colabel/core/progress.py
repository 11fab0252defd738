"""A progress bar for long work, shown on standard error and only when asked for."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Advance = Callable[[], None]


def _ignore() -> None:
    return None


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
    from rich.console import Console
    from rich.progress import (
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    of_all = "" if total is None else f" of {total:,}"
    columns = [
        SpinnerColumn(),
        TextColumn("{task.description}: {task.completed:,}" + of_all + " rows"),
        TextColumn("{task.fields[speed]}"),
        TimeElapsedColumn(),
    ]
    if total is not None:
        columns += [TextColumn("left:"), TimeRemainingColumn()]
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(description, total=total, speed="")
        started, n_done = time.monotonic(), 0

        def count(n_rows: int) -> None:
            nonlocal n_done
            n_done += n_rows
            speed = n_done / max(time.monotonic() - started, 1e-9)
            progress.update(task, advance=n_rows, speed=f"{speed:,.0f} rows a second")

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
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}: pass {task.fields[number]:,}{task.fields[speed]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(description, total=None, number=0, speed="")
        started, n_passes, n_done, n_pending = time.monotonic(), 0, 0, 0

        def count(n_rows: int) -> None:
            nonlocal n_passes, n_done, n_pending
            n_passes, n_done, n_pending = n_passes + 1, n_done + n_pending, n_rows
            speed = n_done / max(time.monotonic() - started, 1e-9)
            said = f", {speed:,.0f} rows a second" if n_done else ""
            progress.update(task, number=n_passes, speed=said)

        yield count


@contextmanager
def progress_bar(description: str, total: int, *, shown: bool) -> Iterator[Advance]:
    """Give a function to be called after each of `total` steps.

    Examples
    --------
    >>> with progress_bar("fitting", 2, shown=False) as advance:
    ...     advance()
    """
    if not shown:
        yield _ignore
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(description, total=total)
        yield lambda: progress.advance(task)
