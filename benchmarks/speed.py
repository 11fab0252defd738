"""CTBN against the same search written as a loop over scikit-learn's LogisticRegression.

Both sides score the same arcs on the same folds at the same C and tolerance, find the best
tree and refit it on all rows. The loop is what a careful user would write: each pair model is
one call of `fit` on the rows with that parent value.

scikit-learn ends its fits by its own rule, we by ours, which is the stricter one for rare labels.

Usage: python -m benchmarks.speed [--data DIR] [--sets yeast enron] [--folds 5] [--C 1.0]
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from benchmarks._common import machine, parser, print_table
from colabel import CTBN
from colabel.learn.conditional import Folds, TrainingData, random_folds
from colabel.learn.structure.screening import maximum_branching
from studies.datasets import load

Array = NDArray[Any]

# liblinear also penalises the intercept, and so solves another problem; it is timed all the same.
SOLVERS = {
    "yeast": ("lbfgs", "newton-cholesky", "newton-cg", "liblinear"),
    "enron": ("lbfgs", "liblinear"),
}
TOLERANCE = 1e-4


class LoopedCTBN:
    """The structure search as a loop over scikit-learn fits."""

    def __init__(self, C: float, solver: str, folds: Folds) -> None:
        self.model = LogisticRegression(C=C, solver=solver, tol=TOLERANCE, max_iter=1000)
        self.folds = folds
        self.n_fits = 0

    def _fit(self, X: Any, y: Array, share: float) -> Callable[[Any], Array]:
        """Fit one model; return its log-probabilities (n, 2).

        A constant target gets a frequency smoothed towards its `share` of ones in all rows.
        """
        ones, size = y.sum(), len(y)
        if ones in (0, size):
            positive = (ones + 2 * share) / (size + 2)
            constant = np.log([1 - positive, positive])
            return lambda rows: np.tile(constant, (rows.shape[0], 1))
        self.n_fits += 1
        model = LogisticRegression(**self.model.get_params()).fit(X, y)
        return lambda rows: np.asarray(model.predict_log_proba(rows))

    def _held_out(self, X: Any, y: Array, of_row: Array, share: float) -> float:
        total = 0.0
        for fold in range(self.folds.n_folds):
            held = np.flatnonzero(of_row == fold)
            train = np.flatnonzero(of_row != fold)
            if not len(held) or not len(train):
                continue
            log_prob = self._fit(X[train], y[train], share)(X[held])
            total += float(log_prob[np.arange(len(held)), y[held]].sum())
        return total

    def fit(self, X: Any, Y: Array) -> LoopedCTBN:
        """Search and refit."""
        n_labels = Y.shape[1]
        of_row = self.folds.of_row
        share = (Y.sum(axis=0) + 1) / (len(Y) + 2)
        alone = np.array([self._held_out(X, Y[:, i], of_row, share[i]) for i in range(n_labels)])
        self.edge_scores_ = np.zeros((n_labels, n_labels))
        for parent in range(n_labels):
            for value in (0, 1):
                rows = np.flatnonzero(Y[:, parent] == value)
                for child in range(n_labels):
                    if child != parent:
                        self.edge_scores_[parent, child] += self._held_out(
                            X[rows], Y[rows, child], of_row[rows], share[child]
                        )
        np.fill_diagonal(self.edge_scores_, alone)
        self.tree_ = maximum_branching(self.edge_scores_, alone)
        for child, parent in enumerate(self.tree_):
            groups = [np.arange(len(Y))] if parent < 0 else _by_value(Y[:, parent])
            for rows in groups:
                self._fit(X[rows], Y[rows, child], share[child])
        return self


def _by_value(column: Array) -> list[Array]:
    return [np.flatnonzero(column == value) for value in (0, 1)]


def _timed(work: Callable[[], Any]) -> tuple[float, float, Any]:
    """Seconds by the clock and of the processor, and what the work returned."""
    start, processor = time.perf_counter(), time.process_time()
    result = work()
    return time.perf_counter() - start, time.process_time() - processor, result


def _warm_up(sparse: bool) -> None:
    """Compile (or load from the cache) what the timed call will use."""
    rng = np.random.default_rng(0)
    X: Any = rng.normal(size=(60, 4))
    if sparse:
        import scipy.sparse as sp

        X = sp.csr_array(X)
    Y = (rng.random((60, 3)) < 0.5).astype(int)
    CTBN(C=1.0, cv=2, pairs="separate", random_state=0).fit(X, Y)


def compare(
    name: str, folder: Any, n_folds: int, C: float, solvers: list[str] | None = None
) -> None:
    """Time both sides on one data set and print a table."""
    data = load(name, data_home=folder)
    X = data.X if data.is_sparse else StandardScaler().fit_transform(data.X)
    _warm_up(data.is_sparse)
    seed = int(np.random.RandomState(0).randint(np.iinfo(np.int32).max))
    codes = data.Y.astype(np.int32)
    folds = random_folds(TrainingData(X, codes, (2,) * data.n_labels), n_folds, seed)
    ours, cpu, model = _timed(
        lambda: CTBN(C=C, cv=n_folds, pairs="separate", min_rows=1, random_state=0).fit(X, data.Y)
    )
    rows = [["colabel CTBN", f"{ours:.2f}", f"{cpu:.2f}", "1", "1", "", ""]]
    for solver in solvers or SOLVERS[name]:
        loop = LoopedCTBN(C, solver, folds)
        seconds, its_cpu, _ = _timed(lambda loop=loop: loop.fit(X, data.Y))  # type: ignore[misc]
        gap = (
            np.abs(loop.edge_scores_ - model.edge_scores_).max() / np.abs(model.edge_scores_).max()
        )
        same = "same" if (loop.tree_ == model.tree_).all() else "another"
        rows.append(
            [
                f"loop, {solver} ({loop.n_fits} fits)",
                f"{seconds:.2f}",
                f"{its_cpu:.2f}",
                f"{seconds / ours:.1f}",
                f"{its_cpu / cpu:.1f}",
                same,
                f"{gap:.1e}",
            ]
        )
    print(f"{name}: {data.n_labels} labels, {n_folds} folds, C = {C}")
    header = ["", "seconds", "CPU s", "times ours", "in CPU s", "tree"]
    print_table([*header, "largest relative gap of arc scores"], rows)


def main() -> None:
    """Run the comparison."""
    options = parser(__doc__)
    options.add_argument("--sets", nargs="+", default=["yeast", "enron"])
    options.add_argument("--folds", type=int, default=5)
    options.add_argument("--C", type=float, default=1.0)
    options.add_argument("--solvers", nargs="+", help="scikit-learn's solvers to time")
    arguments = options.parse_args()
    warnings.filterwarnings("ignore")
    print(machine() + "\n")
    for name in arguments.sets:
        compare(name, arguments.data, arguments.folds, arguments.C, arguments.solvers)


if __name__ == "__main__":
    main()
