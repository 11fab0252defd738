"""Fill a store: each method on each set in a process of one thread, its CPU seconds limited."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from benchmarks._common import ROOT
from benchmarks.peers.methods import METHODS
from benchmarks.peers.store import N_FOLDS, SEED, Cell, FoldedData, Record, Store

Kind = tuple[str, str]
"""A data set and a method."""

# Smaller ones first: what is there early says whether the rest is worth its time.
SETS = (
    "solar_flare",
    "emotions",
    "image",
    "scene",
    "yeast",
    "water_quality",
    "medical",
    "enron",
)
_POOLS = ("OMP", "OPENBLAS", "MKL", "NUMBA")
ONE_THREAD = {"LOKY_MAX_CPU_COUNT": "1", **{f"{pool}_NUM_THREADS": "1" for pool in _POOLS}}
BOOMER_PYTHON = ROOT / ".venv-boomer" / "bin" / "python"


@dataclass(frozen=True)
class Limits:
    """CPU seconds that a cell may take: one of a library of others, and one of colabel."""

    peers: float
    ours: float

    def of(self, kind: Kind) -> float:
        """The limit of a method's cells."""
        return self.ours if METHODS[kind[1]].ours else self.peers


def write_data(store: Store, dataset: str, data_home: Path) -> None:
    """Put rows, codes and folds of a set into the store, if they are not there."""
    path = store.data_path(dataset)
    if path.exists():
        return
    from colabel.labels import LabelSpace
    from studies.datasets import kfold, load

    data = load(dataset, data_home=data_home)
    space, codes = LabelSpace.infer(data.Y, list(data.label_names))
    fold = np.zeros(len(codes), dtype=np.intp)
    for number, (_, test) in enumerate(kfold(len(codes), N_FOLDS, SEED)):
        fold[test] = number
    FoldedData(data.X, codes, space.cardinalities, fold).write(path)


@dataclass
class Progress:
    """Counts cells and says how long the rest may take, from cells of the same kind."""

    left: dict[Kind, int]
    n_jobs: int
    seconds: dict[Kind, list[float]] = field(default_factory=lambda: defaultdict(list))
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._n_cells = sum(self.left.values())

    def done(self, record: Record, seconds: float) -> None:
        """Note a cell that ran, and say so."""
        kind = record.cell[:2]
        with self.lock:
            self.seconds[kind].append(seconds)
            self.left[kind] -= 1
            print(
                f"{self._n_cells - sum(self.left.values())}/{self._n_cells}"
                f" {record.cell.dataset}, {record.cell.method}, fold {record.cell.fold}:"
                f" {record.message or record.status}, {seconds:.1f} s;"
                f" about {self.minutes_left():.0f} min left",
                flush=True,
            )

    def expect(self, kind: Kind, n_cells: int) -> None:
        """Note how many cells of a kind are still to run."""
        with self.lock:
            self.left[kind] = n_cells

    def minutes_left(self) -> float:
        """Cells left times the mean seconds of their kind, or of all kinds where none has run."""
        means = {kind: float(np.mean(times)) for kind, times in self.seconds.items()}
        usual = float(np.mean(list(means.values())))
        rest = sum(n_cells * means.get(kind, usual) for kind, n_cells in self.left.items())
        return rest / self.n_jobs / 60


def cells_to_run(store: Store, kind: Kind, n_folds: int, limit: float, again: bool) -> list[Cell]:
    """Cells of a kind that a store lacks; none if the method met a limit as large as this one."""
    cells = [Cell(*kind, fold) for fold in range(n_folds)]
    if again:
        return cells
    records = [store.read(cell) for cell in cells]
    if any(r.status == "limit" and r.limit >= limit for r in records if r is not None):
        return []
    return [c for c, r in zip(cells, records, strict=True) if r is None or r.status != "done"]


def run(
    store: Store,
    sets: Sequence[str],
    methods: Sequence[str],
    n_folds: int,
    limits: Limits,
    n_jobs: int,
    again: bool,
) -> None:
    """Run the cells that are not in the store, each method on each set in a process of its own."""
    kinds = [(dataset, method) for dataset in sets for method in methods]
    work = {kind: cells_to_run(store, kind, n_folds, limits.of(kind), again) for kind in kinds}
    progress = Progress({kind: len(cells) for kind, cells in work.items()}, n_jobs)

    def one(kind: Kind) -> None:
        cells = work[kind]
        while cells:
            cells = run_in_process(store, cells, limits.of(kind), progress.done)
        progress.expect(kind, 0)

    with ThreadPoolExecutor(n_jobs) as pool:
        for _ in pool.map(one, kinds):
            """Raise here what a worker raised."""


def run_in_process(
    store: Store,
    cells: Sequence[Cell],
    limit: float,
    done: Callable[[Record, float], None],
    *,
    boomer_python: Path = BOOMER_PYTHON,
    watched: Callable[[float], Watch] | None = None,
) -> list[Cell]:
    """Run folds of one method on one set, until all are done or one of them ends the process.

    Parameters
    ----------
    boomer_python : Path
        The interpreter of BOOMER's own environment.
    watched : callable, optional
        From the seconds to wait for a line of a process to what runs it, by default `Watch`.

    Returns
    -------
    left : list of Cell
        What another process may try: the folds after one that brought the process down.
    """
    dataset, method, _ = cells[0]
    boomer = METHODS[method].environment == "boomer"
    python = boomer_python if boomer else Path(sys.executable)
    if not python.exists():
        absent = Record(cells[0], "absent", f"there is no {python.parts[-3]}", limit=limit)
        _note(store, absent, 0.0, done)
        return []
    for cell in cells:
        store.path(cell).unlink(missing_ok=True)
    command = [str(python), "-m", "benchmarks.peers.cell", str(store.folder.resolve())]
    command += [dataset, method, str(limit), *(str(cell.fold) for cell in cells)]
    # A busy machine gives a process fewer CPU seconds than pass; one that sleeps uses none.
    watch = (watched or Watch)(10 * limit + 120)
    code, last_words = watch.run(command, lambda seconds: _tell(store, cells, seconds, done))
    unknown = [cell for cell in cells if store.read(cell) is None]
    if not unknown or code in (0, -signal.SIGINT):  # all done, absent, or stopped from outside
        return []
    if code == -signal.SIGXCPU or watch.impatient:
        met = Record(unknown[0], "limit", f"> {limit:g} s", limit=limit)
        _note(store, met, watch.seconds(), done)
        return []
    fell = Record(unknown[0], "failed", last_words or f"ended with {code}", limit=limit)
    _note(store, fell, watch.seconds(), done)
    return unknown[1:]


class Watch:
    """Runs a process that prints a line for each cell, and ends it if none comes for too long."""

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._started = time.perf_counter()
        self.impatient = False

    def seconds(self) -> float:
        """Since the last line."""
        return time.perf_counter() - self._started

    def run(self, command: Sequence[str], heard: Callable[[float], None]) -> tuple[int, str]:
        """Return the exit code and the last line that is not about a cell."""
        paths = [str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")]
        environment = {**os.environ, **ONE_THREAD, "PYTHONPATH": os.pathsep.join(paths)}
        self._started, last = time.perf_counter(), ""
        with subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process:
            timer = self._timer(process)
            assert process.stdout is not None
            for line in process.stdout:
                if line.startswith("cell "):
                    timer.cancel()
                    heard(self.seconds())
                    self._started, timer = time.perf_counter(), self._timer(process)
                else:
                    last = line.strip() or last
            code = process.wait()
            timer.cancel()
        return code, last[:300]

    def _timer(self, process: subprocess.Popen[str]) -> threading.Timer:
        def end() -> None:
            self.impatient = True
            process.kill()

        timer = threading.Timer(self._patience, end)
        timer.daemon = True
        timer.start()
        return timer


def _tell(
    store: Store, cells: Sequence[Cell], seconds: float, done: Callable[[Record, float], None]
) -> None:
    """Tell of the latest record: cells are run in their order."""
    latest = [record for record in map(store.read, cells) if record is not None][-1]
    done(latest, seconds)


def _note(
    store: Store, record: Record, seconds: float, done: Callable[[Record, float], None]
) -> None:
    store.write(record)
    done(record, seconds)
