"""What a person sees while models are compared: which is at work, the time left, those done."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from colabel.comparing import Progress


class _Watch:
    """Prints a line for each model that is done, and moves a bar where there is one."""

    def __init__(self, bar: Any, *, lines: bool) -> None:
        self.bar, self.lines = bar, lines
        self.last: Progress | None = None
        self.told: set[str] = set()
        self.task = None if bar is None else bar.add_task("", total=None, at_work="", left="")

    def __call__(self, progress: Progress) -> None:
        self.last = progress
        for name in progress.finished if self.lines else ():
            if name not in self.told:
                self.told.add(name)
                line = progress.line(name)
                if self.bar is None:
                    sys.stderr.write(f"{line}\n")
                else:
                    self.bar.console.print(line, markup=False, highlight=False)
        if self.bar is not None:
            self.bar.update(
                self.task,
                completed=progress.n_done,
                total=progress.n_parts,
                at_work=_at_work(progress),
                left=_left(progress.seconds_left),
            )

    def stop(self) -> None:
        """Take the bar away."""
        if self.bar is not None:
            self.bar.stop()


def _at_work(progress: Progress) -> str:
    if progress.at_work is None:
        return "what was learned"
    name, fold = progress.at_work
    return f"{name}, fold {fold + 1} of {progress.n_folds}"


def _left(seconds: float) -> str:
    """Write the time left.

    >>> _left(float("nan")), _left(8.0), _left(192.0)
    ('', 'about 10 s left', 'about 3 min left')
    """
    if not seconds > 0:
        return ""
    if seconds < 90:
        return f"about {max(1, round(seconds / 10)) * 10} s left"
    return f"about {round(seconds / 60)} min left"


@contextmanager
def watch_comparison(*, bar: bool, lines: bool) -> Iterator[_Watch]:
    """Give what is to be called with every `Progress`.

    Parameters
    ----------
    bar : bool
        Whether there is a terminal for a live display.
    lines : bool
        Whether to print a line on standard error for each model that is done.
    """
    if not bar:
        yield _Watch(None, lines=lines)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("{task.fields[at_work]}", style="bold"),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}"),
    )
    with Bar(*columns, console=Console(stderr=True), transient=True) as shown:
        yield _Watch(shown, lines=lines)
