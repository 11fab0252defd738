"""Cells of one method on one set: `python -m benchmarks.peers.cell STORE SET METHOD LIMIT FOLD...`.

Nothing but the standard library, NumPy, SciPy and scikit-learn is needed beside the method, so that
libraries which do not get along with ours can run in an environment of their own.
"""

from __future__ import annotations

import contextlib
import os
import resource
import sys
import time
import warnings
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np

from benchmarks.peers.learners import Learner
from benchmarks.peers.methods import METHODS, Method
from benchmarks.peers.store import Cell, FoldedData, Record, Store
from colabel.core.arrays import Indices

PACKAGES = (
    "colabel",
    "scikit-learn",
    "xgboost-cpu",
    "lightgbm",
    "catboost",
    "mlrl-boomer",
    "numpy",
    "numba",
)
# BOOMER 0.12 was seen to end with a corrupted heap as a fitted model was freed: none is freed here.
_kept: list[Learner] = []
_warm: set[str] = set()
# What a compiled model is shown before its time is taken.
_WARM_UP_ROWS, _WARM_UP_LABELS = 60, 12


def cpu_seconds() -> float:
    """CPU seconds of this process so far: all threads, and children that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def run_cell(cell: Cell, method: Method, data: FoldedData, limit: float) -> Record:
    """Fit and ask a method; raises what it raises, and the process ends at the limit."""
    train = np.flatnonzero(data.fold != cell.fold)
    test = np.flatnonzero(data.fold == cell.fold)
    try:
        learner = method.build(data.cardinalities)
    except (ImportError, AttributeError) as error:
        return Record(cell, "absent", str(error), limit=limit)
    if method.ours and method.name not in _warm:
        _warm_up(method, data, train)
        _warm.add(method.name)
    if method.environment == "boomer":
        _kept.append(learner)
    _end_after(limit)
    started, wall_started = cpu_seconds(), time.perf_counter()
    answers = _fitted(learner, data, train).answer(data.X[test])
    subset = answers.subset()
    used, wall = cpu_seconds() - started, time.perf_counter() - wall_started
    log_prob, zero = answers.log_prob(data.codes[test])
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return Record(
        cell,
        "done",
        rows=test,
        subset=subset,
        hamming=answers.hamming(),
        f1=answers.f1(),
        micro_f1=answers.micro_f1(),
        macro_f1=answers.macro_f1(),
        log_prob=log_prob,
        zero=zero,
        cpu_seconds=used,
        wall_seconds=wall,
        peak_mb=largest / (2**20 if sys.platform == "darwin" else 2**10),  # bytes there
        limit=limit,
        versions=_versions(),
    )


def _fitted(learner: Learner, data: FoldedData, train: Indices) -> Learner:
    learner.fit(data.X[train], data.codes[train])
    return learner


def _warm_up(method: Method, data: FoldedData, train: Indices) -> None:
    """Let kernels be compiled or loaded, on a few rows, as `held_out.learn` does."""
    some = np.linspace(0, len(train) - 1, min(_WARM_UP_ROWS, len(train))).astype(np.intp)
    X, codes = data.X[train[some]], data.codes[train[some], :_WARM_UP_LABELS]
    # What goes wrong with so few rows and labels says nothing of all of them.
    with warnings.catch_warnings(), contextlib.suppress(Exception):
        warnings.simplefilter("ignore")
        learner = method.build(data.cardinalities[:_WARM_UP_LABELS])
        learner.fit(X, codes)
        learner.answer(X).subset()


def _end_after(limit: float) -> None:
    """Have the system end this process after so many more CPU seconds (SIGXCPU)."""
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    soft = int(np.ceil(time.process_time() + limit))
    resource.setrlimit(resource.RLIMIT_CPU, (soft, hard))


def _versions() -> dict[str, str]:
    found = {}
    for name in PACKAGES:
        with contextlib.suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def main(arguments: list[str]) -> None:
    """Run the cells that the arguments name, and write a record of each."""
    folder, dataset, name, limit = arguments[:4]
    store, method = Store(Path(folder)), METHODS[name]
    data = FoldedData.read(store.data_path(dataset))
    warnings.simplefilter("ignore")
    for fold in map(int, arguments[4:]):
        cell = Cell(dataset, name, fold)
        try:
            record = run_cell(cell, method, data, float(limit))
        except Exception as error:
            said = " ".join(str(error).split())[:300]
            record = Record(cell, "failed", f"{type(error).__name__}: {said}", limit=float(limit))
        store.write(record)
        print(f"cell {fold}", flush=True)
        if record.status == "absent":
            return


if __name__ == "__main__":
    main(sys.argv[1:])
    os._exit(0)  # nothing is freed: see _kept
