"""Running the cells of a plan that have no result yet."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import joblib
from joblib.externals.loky.process_executor import (  # type: ignore[import-untyped]
    TerminatedWorkerError,
)

from studies.build import BuildError, build, build_steps
from studies.cells import Cell, expand
from studies.evaluate import Outcome, evaluate
from studies.plan import Plan, PlanError
from studies.store import Store

Watch = Callable[[Cell, Outcome], None]


class Summary(NamedTuple):
    """How many cells a plan has, had a result before, were run now, and of those failed."""

    total: int
    before: int
    run: int
    failed: int


def check(plan: Plan) -> None:
    """Make every estimator of a plan once, so that a mistake shows before hours of work."""
    for method in plan.methods:
        try:
            for own in ({}, *map(method.settings_on, method.on)):
                build_steps(own.pop("steps", method.steps))
                build({**method.model, **own})
        except BuildError as error:
            raise PlanError(f"Method {method.name!r}: {error}") from error
    for data in plan.datasets:
        try:
            build_steps(data.steps or ())
        except BuildError as error:
            raise PlanError(f"Data set {data.name!r}: {error}") from error


@dataclass(frozen=True)
class Runner:
    """Runs cells over joblib, and saves each as soon as it is finished.

    Parameters
    ----------
    store : Store
    n_jobs : int
        Processes; with one, cells run in this process.
    data_home : str or None
        Folder of the data sets, see `colabel.datasets.load`.
    retry : bool
        Whether cells that failed are run again.
    work : callable
        From a cell and the folder of the data sets to its outcome.
    """

    store: Store
    n_jobs: int = 1
    data_home: str | None = None
    retry: bool = False
    work: Callable[[Cell, str | None], Outcome] = evaluate

    def missing(self, cells: Sequence[Cell]) -> list[Cell]:
        """Return the cells that have to be run; equal ones once."""
        known = self.store.finished()
        kept = {key for key, status in known.items() if status == "done" or not self.retry}
        return list({cell.key: cell for cell in cells if cell.key not in kept}.values())

    def run(self, plan: Plan, watch: Watch = lambda cell, outcome: None) -> Summary:
        """Run what is missing; `watch` is called after every cell is saved."""
        check(plan)
        cells = expand(plan)
        todo = self.missing(cells)
        failed = 0

        def save(cell: Cell, outcome: Outcome) -> None:
            nonlocal failed
            self.store.save(cell, outcome)
            failed += outcome.status == "failed"
            watch(cell, outcome)

        self._run(todo, save)
        return Summary(len(cells), len({c.key for c in cells}) - len(todo), len(todo), failed)

    def _run(self, todo: Sequence[Cell], save: Watch) -> None:
        left = {cell.key: cell for cell in todo}
        try:
            for cell, outcome in self._outcomes(todo):
                del left[cell.key]
                save(cell, outcome)
        except TerminatedWorkerError:
            # Some cell took its process with it (memory, most often). Which one shows when each
            # of the rest has a pool of its own.
            for cell in list(left.values()):
                save(cell, self._alone(cell))

    def _outcomes(self, cells: Sequence[Cell]) -> Iterator[tuple[Cell, Outcome]]:
        pool: Any = joblib.Parallel(
            n_jobs=self.n_jobs, return_as="generator_unordered", pre_dispatch="2*n_jobs"
        )
        calls = (joblib.delayed(_work)(self.work, cell, self.data_home) for cell in cells)
        yield from pool(calls)

    def _alone(self, cell: Cell) -> Outcome:
        try:
            # Two processes, or joblib would run the cell in this one.
            with joblib.parallel_config(backend="loky", n_jobs=2):
                call = joblib.delayed(_work)(self.work, cell, self.data_home)
                found = joblib.Parallel()([call])
            outcome: Outcome = found[0][1]
            return outcome
        except TerminatedWorkerError:
            reason = "The process was killed, most likely because the machine ran out of memory."
            return Outcome("failed", error=reason)


def _work(
    work: Callable[[Cell, str | None], Outcome], cell: Cell, data_home: str | None
) -> tuple[Cell, Outcome]:
    return cell, work(cell, data_home)
