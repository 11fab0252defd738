"""The full search for a tree's arcs on a GPU: all ordered pairs, a third of the rows held out.

C = .1, one regression for every value of every parent and every other label. Seconds are those of
a warm process, from rows in the host's memory to all arc scores; the first run, in which kernels
are compiled, is given beside them. Arc scores are compared with those of the compiled kernels on
the processor at the same tolerance, for all parents or some; both also with the processor's at a
tolerance of 1e-4, since the default one leaves more than single precision does. The rate counts the
multiplications and additions of the products as done, over the seconds of the whole search; the
device's own TF32 product is given for comparison.

Usage: python -m benchmarks.gpu [bibtex 983] [--device cuda] [--tol 1e-2 1e-3] [--parents 6]
                                [--rows 16105] [--sparse] [--profile]

With `--sparse`, rows stay sparse on the device, as they do where a dense matrix would not fit it.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks._common import parser, print_table
from benchmarks.screening import draw
from colabel.core.arrays import Array, is_sparse
from colabel.learn.conditional import (
    Folds,
    GainOver,
    HeldOutScores,
    Learning,
    RowGroup,
    TrainingData,
    random_folds,
)
from colabel.learn.glm.device import DeviceRows, solver
from colabel.learn.glm.device.objective import SparseRows
from colabel.learn.linear import LinearLearner
from colabel.models.ctbn import search_arcs
from studies.datasets import load

MIN_ROWS, CONVERGED = 10, 1e-4


class Timed(NamedTuple):
    """Arc scores (d, d), seconds, and floating-point operations of the products."""

    scores: Array
    seconds: float
    operations: float


class Counter:
    """Counts the operations of all products of rows on a device."""

    def __init__(self) -> None:
        self.total = 0.0
        for kind in (DeviceRows, SparseRows):
            for name in ("scores", "pulled"):
                setattr(kind, name, self._counted(getattr(kind, name)))

    def _counted(self, product: Any) -> Any:
        def counted(rows: Any, factor: Any) -> Any:
            dense = isinstance(rows, DeviceRows)
            numbers = rows.rows.numel() if dense else rows.rows.values().numel()
            self.total += 2.0 * factor.shape[1] * numbers
            return product(rows, factor)

        return counted


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


def search(data: TrainingData, folds: Folds, tol: float, device: str, count: Counter) -> Timed:
    """Score all arcs."""
    count.total = 0.0
    synchronise(device)
    start = time.perf_counter()
    learning = learner(tol, device).on(data)
    found = search_arcs(learning, folds, MIN_ROWS, None, data.n_labels - 1)
    seconds = time.perf_counter() - start
    return Timed(found.gains + found.alone, seconds, count.total)


def some_arcs(data: TrainingData, folds: Folds, tol: float, parents: Any) -> Timed:
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
    return Timed(scores, time.perf_counter() - start, 0.0)


def synchronise(device: str) -> None:
    """Wait for the device."""
    import torch

    if device.startswith("cuda"):
        torch.cuda.synchronize()


def own_rate(device: str, size: int) -> float:
    """TFLOP/s of the device's TF32 product of two square matrices."""
    import torch

    torch.set_float32_matmul_precision("high")
    left, right = (torch.randn((size, size), device=device) for _ in range(2))
    seconds = []
    for _ in range(8):
        synchronise(device)
        start = time.perf_counter()
        left @ right
        synchronise(device)
        seconds.append(time.perf_counter() - start)
    torch.set_float32_matmul_precision("highest")
    return float(2 * size**3 / np.median(seconds[3:]) / 1e12)


def profiled(data: TrainingData, folds: Folds, tol: float, device: str, count: Counter) -> None:
    """Print where a search spends its time."""
    import cProfile
    import pstats

    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as kernels:
        search(data, folds, tol, device, count)
    order = "self_cuda_time_total" if device.startswith("cuda") else "self_cpu_time_total"
    print(kernels.key_averages().table(sort_by=order, row_limit=22, max_name_column_width=60))
    host = cProfile.Profile()
    host.runcall(search, data, folds, tol, device, count)
    pstats.Stats(host).sort_stats("cumulative").print_stats(28)


def main() -> None:
    """Run what is asked for."""
    options = parser(__doc__)
    options.add_argument("names", nargs="*", default=["bibtex", "983"])
    options.add_argument("--device", default="cuda")
    options.add_argument("--tol", type=float, nargs="+", default=[1e-2, 1e-3])
    options.add_argument("--parents", type=int, default=6, help="parents to compare; 0 for all")
    options.add_argument("--rows", type=int, default=16105)
    options.add_argument("--sparse", action="store_true", help="keep rows sparse on the device")
    options.add_argument("--profile", action="store_true")
    given = options.parse_args()
    import torch

    if given.sparse:
        vars(solver).update(dense_fits=lambda *_: False)

    on_gpu = given.device.startswith("cuda")
    name = torch.cuda.get_device_name() if on_gpu else "torch on the processor"
    rate = own_rate(given.device, 8192 if on_gpu else 512)
    print(f"{name}, torch {torch.__version__}; its own TF32 product: {rate:.0f} TFLOP/s\n")
    count = Counter()
    table = []
    for source in given.names:
        data = read(source, given.data, given.rows)
        folds = random_folds(data, 1 / 3, 0)
        n_parents = given.parents or data.n_labels
        parents = np.linspace(0, data.n_labels - 1, n_parents).astype(int)
        converged = some_arcs(data, folds, CONVERGED, parents).scores
        for tol in given.tol:
            cold, *warm = (search(data, folds, tol, given.device, count) for _ in range(3))
            if given.profile:
                profiled(data, folds, tol, given.device, count)
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
                    f"{best.operations / best.seconds / 1e12:.0f}",
                    f"{ours.seconds:.1f} ({n_parents} parents)",
                    *away,
                ]
            )
            print(table[-1], flush=True)
    header = ["rows", "regressions", "tol", "first s", "warm s", "TFLOP/s", "processor s"]
    print_table([*header, "arcs differ by", "from converged", "processor's"], table)


if __name__ == "__main__":
    main()
