"""What a person sees while a study runs: cells done, running and failed, and the time left."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import joblib
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from colabel.experiments import Cell, Outcome, Plan, Runner, expand
from colabel.experiments.runner import Watch


@contextmanager
def watch_cells(runner: Runner, plan: Plan, *, shown: bool, lines: bool) -> Iterator[Watch]:
    """Give a function to be called after every cell.

    Parameters
    ----------
    runner : Runner
    plan : Plan
    shown : bool
        Whether there is a terminal for a live display.
    lines : bool
        Whether to print a line for every cell where there is none.
    """
    total = len(runner.missing(expand(plan)))
    if not shown:
        yield _Lines(total) if lines else _nothing
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("cells, {task.fields[running]} running, {task.fields[failed]} failed,"),
        TimeRemainingColumn(),
        TextColumn("left"),
    )
    at_once = int(joblib.effective_n_jobs(runner.n_jobs))
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(plan.name, total=total, failed=0, running=min(at_once, total))
        failed = done = 0

        def watch(cell: Cell, outcome: Outcome) -> None:
            nonlocal failed, done
            done += 1
            failed += outcome.status == "failed"
            progress.update(
                task,
                advance=1,
                failed=failed,
                running=min(at_once, total - done),
                description=f"{plan.name}: {cell.dataset}, {cell.method}",
            )

        yield watch


class _Lines:
    """One line a cell on standard error, for logs."""

    def __init__(self, total: int) -> None:
        self.total, self.done = total, 0

    def __call__(self, cell: Cell, outcome: Outcome) -> None:
        self.done += 1
        what = outcome.error if outcome.status == "failed" else f"{outcome.learn_seconds:.1f} s"
        place = f"[{self.done}/{self.total}] {cell.dataset}, {cell.method}, split {cell.split}"
        sys.stderr.write(f"{place}: {what}\n")


def _nothing(cell: Cell, outcome: Outcome) -> None:
    return None
