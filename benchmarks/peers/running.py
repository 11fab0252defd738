"""Fill a store: every cell in a process of its own, of one thread, with a limit on CPU seconds."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from benchmarks._common import ROOT
from benchmarks.peers.methods import METHODS
from benchmarks.peers.store import N_FOLDS, SEED, Cell, FoldedData, Record, Store

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


def write_data(store: Store, dataset: str, data_home: Path) -> None:
    """Put rows, codes and folds of a set into the store, if they are not there."""
    path = store.data_path(dataset)
    if path.exists():
        return
    from colabel.datasets import kfold, load
    from colabel.labels import LabelSpace

    data = load(dataset, data_home=data_home)
    space, codes = LabelSpace.infer(data.Y, list(data.label_names))
    fold = np.zeros(len(codes), dtype=np.intp)
    for number, (_, test) in enumerate(kfold(len(codes), N_FOLDS, SEED)):
        fold[test] = number
    FoldedData(data.X, codes, space.cardinalities, fold).write(path)


@dataclass
class Progress:
    """Counts cells and says how long the rest may take, from cells of the same kind."""

    n_cells: int
    n_jobs: int
    n_done: int = 0
    seconds: dict[tuple[str, str], list[float]] = field(default_factory=lambda: defaultdict(list))
    left: dict[tuple[str, str], int] = field(default_factory=lambda: defaultdict(int))
    lock: threading.Lock = field(default_factory=threading.Lock)

    def done(self, record: Record, seconds: float) -> None:
        """Note a cell that ran."""
        kind = record.cell[:2]
        with self.lock:
            self.seconds[kind].append(seconds)
            self._pass(kind, 1)
            said = record.status if record.status == "done" else record.message or record.status
            print(
                f"{self.n_done}/{self.n_cells} {record.cell.dataset}, {record.cell.method},"
                f" fold {record.cell.fold}: {said}, {seconds:.1f} s;"
                f" about {self._minutes_left():.0f} min left",
                flush=True,
            )

    def skip(self, kind: tuple[str, str], n_cells: int) -> None:
        """Note cells that need not run."""
        with self.lock:
            self._pass(kind, n_cells)

    def _pass(self, kind: tuple[str, str], n_cells: int) -> None:
        self.left[kind] -= n_cells
        self.n_done += n_cells

    def _minutes_left(self) -> float:
        means = {kind: float(np.mean(times)) for kind, times in self.seconds.items()}
        usual = float(np.mean(list(means.values())))
        rest = sum(max(n, 0) * means.get(kind, usual) for kind, n in self.left.items())
        return rest / self.n_jobs / 60


def finished(record: Record | None, limit: float) -> bool:
    """Whether a cell need not run (again) under a limit."""
    if record is None:
        return False
    return record.status == "done" or (record.status == "limit" and record.limit >= limit)


def run(
    store: Store,
    sets: Sequence[str],
    methods: Sequence[str],
    n_folds: int,
    limit: float,
    n_jobs: int,
    again: bool,
) -> None:
    """Run the cells that are not in the store; a method that meets the limit is not asked again."""
    kinds = [(dataset, method) for dataset in sets for method in methods]
    progress = Progress(len(kinds) * n_folds, n_jobs)
    progress.left.update(dict.fromkeys(kinds, n_folds))

    def one(kind: tuple[str, str]) -> None:
        for fold in range(n_folds):
            cell = Cell(*kind, fold)
            record = None if again else store.read(cell)
            if finished(record, limit):
                progress.skip(kind, 1)
            else:
                started = time.perf_counter()
                record = run_in_process(store, cell, limit)
                progress.done(record, time.perf_counter() - started)
            if record is not None and record.status in ("limit", "absent"):
                progress.skip(kind, n_folds - fold - 1)
                return

    with ThreadPoolExecutor(n_jobs) as pool:
        _results(pool.map(one, kinds))


def _results(outcomes: Iterable[None]) -> None:
    for _ in outcomes:
        """Raise here what a worker raised."""


def run_in_process(store: Store, cell: Cell, limit: float) -> Record:
    """Run one cell and return its record, which is in the store then."""
    python = BOOMER_PYTHON if METHODS[cell.method].environment == "boomer" else sys.executable
    if not Path(python).exists():
        where = Path(python).relative_to(ROOT).parts[0]
        return _noted(store, Record(cell, "absent", f"there is no {where}", limit=limit))
    paths = [str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, **ONE_THREAD, "PYTHONPATH": os.pathsep.join(paths)}
    command = [str(python), "-m", "benchmarks.peers.cell", str(store.folder.resolve())]
    command += [cell.dataset, cell.method, str(cell.fold), str(limit)]
    store.path(cell).unlink(missing_ok=True)
    try:
        # A busy machine gives a process fewer CPU seconds than pass; one that sleeps uses none.
        ended = subprocess.run(
            command,
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=10 * limit + 120,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return _noted(store, Record(cell, "limit", f"> {limit:g} s", limit=limit))
    record = store.read(cell)
    if record is not None:
        return record
    if ended.returncode == -signal.SIGXCPU:
        return _noted(store, Record(cell, "limit", f"> {limit:g} s", limit=limit))
    lines = ended.stderr.strip().splitlines() or [f"ended with {ended.returncode}"]
    return _noted(store, Record(cell, "failed", lines[-1][:300], limit=limit))


def _noted(store: Store, record: Record) -> Record:
    store.write(record)
    return record
