"""Fits on a GPU: the full search for a tree's arcs, and default fits of several models.

The full search scores all ordered pairs of labels, with a third of the rows held out: C = .1, one
regression for every value of every parent and every other label. Seconds are those of a warm
process, from rows in the host's memory to all arc scores; the first run is given beside them. Arc
scores are compared with those of the compiled kernels on the processor at the same tolerance, for
all parents or some; both also with the processor's at a tolerance of 1e-4, since the default one
leaves more than single precision does. Then come models with default settings, on the device and
on all cores.

Usage: python -m benchmarks.gpu [bibtex 983] [--device cuda] [--tol 1e-2 1e-3] [--parents 6]
                                [--rows 16105] [--sparse] [--models]

With `--sparse`, rows stay sparse on the device, as they do where a dense matrix would not fit it.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks._common import parser, print_table
from benchmarks.screening import draw
from colabel import CTBN, BinaryRelevance, ProbabilisticClassifierChain
from colabel.core.arrays import Array, Indices, is_sparse
from colabel.learn import device_rows
from colabel.learn.conditional import (
    Folds,
    GainOver,
    HeldOutScores,
    Learning,
    RowGroup,
    TrainingData,
    random_folds,
)
from colabel.learn.linear import LinearLearner
from colabel.models.ctbn import search_arcs
from studies.datasets import load

MIN_ROWS, CONVERGED = 10, 1e-4


class Timed(NamedTuple):
    """Arc scores (d, d) and seconds."""

    scores: Array
    seconds: float


def read(source: str, folder: Path, n_rows: int) -> TrainingData:
    """A data set, or planted labels where the source is their number."""
    if source.isdigit():
        X, Y = draw(n_rows, int(source), 0)
    else:
        data = load(source, data_home=folder)
        X, Y = data.X, data.Y
    codes = np.asarray(Y.toarray() if is_sparse(Y) else Y, dtype=np.int32)
    return TrainingData(X, codes, (2,) * codes.shape[1])


def learner(tol: float, device: str | None) -> LinearLearner:
    """Regressions with C = .1."""
    return LinearLearner(np.array([0.1]), tol, 1000, None, False, device)


def search(data: TrainingData, folds: Folds, tol: float, device: str) -> Timed:
    """Score all arcs."""
    start = time.perf_counter()
    learning = learner(tol, device).on(data)
    found = search_arcs(learning, folds, MIN_ROWS, None, data.n_labels - 1)
    seconds = time.perf_counter() - start
    return Timed(found.gains + found.alone, seconds)


def some_arcs(data: TrainingData, folds: Folds, tol: float, parents: Indices) -> Timed:
    """Score the arcs from some parents by the compiled kernels."""

    def keep_all(_: RowGroup, scores: HeldOutScores) -> HeldOutScores:
        return scores

    start = time.perf_counter()
    learning: Learning = learner(tol, None).on(data)
    every = RowGroup(None, np.arange(data.n_labels))
    (alone,) = learning.cross_validate([every], folds, keep_all, "", keep=True)
    own = [np.flatnonzero(data.codes[:, j] == value) for j in parents for value in (0, 1)]
    used = [at for at, rows in enumerate(own) if len(rows) >= MIN_ROWS]
    targets = [np.flatnonzero(np.arange(data.n_labels) != parents[at // 2]) for at in used]
    groups = [RowGroup(own[at], labels) for at, labels in zip(used, targets, strict=True)]
    gain = GainOver(alone.log_prob, data.row_weights)
    found = learning.cross_validate(groups, folds, gain, "", start=alone.path)
    scores = np.tile(alone.log_prob.sum(axis=1), (len(parents), 1))
    for at, group, arcs in zip(used, groups, found, strict=True):
        scores[at // 2, group.targets] += arcs.gains
    return Timed(scores, time.perf_counter() - start)


def default_fits(data: TrainingData, device: str) -> list[list[str]]:
    """Seconds of default fits on the device, the second of two, and on all cores."""
    rows = []
    for kind in (BinaryRelevance, CTBN, ProbabilisticClassifierChain):
        seconds = []
        for place in (device, device, None):
            start = time.perf_counter()
            kind(device=place, random_state=0).fit(data.X, data.codes)
            seconds.append(time.perf_counter() - start)
        _, warm, cores = seconds
        rows.append([kind.__name__, *(f"{s:.1f}" for s in seconds), f"{cores / warm:.1f}"])
        print(rows[-1], flush=True)
    return rows


def main() -> None:
    """Run what is asked for."""
    options = parser(__doc__)
    options.add_argument("names", nargs="*", default=["bibtex", "983"])
    options.add_argument("--device", default="cuda")
    options.add_argument("--tol", type=float, nargs="+", default=[1e-2, 1e-3])
    options.add_argument("--parents", type=int, default=6, help="parents to compare; 0 for all")
    options.add_argument("--rows", type=int, default=16105)
    options.add_argument("--sparse", action="store_true", help="keep rows sparse on the device")
    options.add_argument("--models", action="store_true", help="default fits of models alone")
    given = options.parse_args()
    import torch

    if given.sparse:
        vars(device_rows).update(device_for_rows=lambda *_: (given.device, False))
    on_gpu = given.device.startswith("cuda")
    print(torch.cuda.get_device_name() if on_gpu else "torch on the processor", torch.__version__)
    table = []
    for source in given.names:
        data = read(source, given.data, given.rows)
        if given.models:
            fits = default_fits(data, given.device)
            print_table([f"{source}, default", "first s", "warm s", "cores s", "ratio"], fits)
            continue
        folds = random_folds(data, 1 / 3, 0)
        n_parents = given.parents or data.n_labels
        parents = np.linspace(0, data.n_labels - 1, n_parents).astype(int)
        converged = some_arcs(data, folds, CONVERGED, parents).scores
        for tol in given.tol:
            cold, *warm = (search(data, folds, tol, given.device) for _ in range(3))
            best = min(warm, key=lambda run: run.seconds)
            ours = some_arcs(data, folds, tol, parents)
            theirs = best.scores[parents]
            pairs = ((theirs, ours.scores), (theirs, converged), (ours.scores, converged))
            away = [f"{np.abs(one / other - 1.0).max():.1e}" for one, other in pairs]
            table.append(
                [
                    f"{source}, {data.n_rows:,} x {data.X.shape[1]:,}",
                    f"{2 * data.n_labels**2:,}",
                    f"{tol:g}",
                    f"{cold.seconds:.1f}",
                    f"{best.seconds:.2f}",
                    f"{ours.seconds:.1f} ({n_parents} parents)",
                    *away,
                ]
            )
            print(table[-1], flush=True)
    if table:
        header = ["rows", "regressions", "tol", "first s", "warm s", "processor s"]
        print_table([*header, "arcs differ by", "from converged", "processor's"], table)


if __name__ == "__main__":
    main()
