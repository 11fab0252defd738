"""Wide sparse rows: what it saves to leave out the columns that the training rows do not use.

rcv1 has 47,236 columns and 101 labels; 2000 of its rows use about 13,000 columns. Both sides are
the same regressions; one of them keeps the empty columns. The data set is read from COLABEL_DATA.

Usage: python -m benchmarks.wide [--rows 2000] [--C 0.1 1 10]
"""

from __future__ import annotations

import time
from contextlib import nullcontext
from typing import Any
from unittest import mock

import numpy as np

from benchmarks._common import machine, parser, print_table
from colabel import BinaryRelevance
from colabel.core.arrays import UsedColumns
from studies.datasets import load


def timed(X: Any, Y: Any, C: float, *, keep_all: bool) -> tuple[float, np.ndarray]:
    """Fit all labels; return seconds and probabilities of the training rows."""
    model = BinaryRelevance(C=C, tol=1e-6, n_jobs=1)
    never = mock.patch.object(UsedColumns, "of", return_value=None)
    with never if keep_all else nullcontext():
        start = time.perf_counter()
        model.fit(X, Y)
        return time.perf_counter() - start, model.predict_proba(X)


def main() -> None:
    """Run and print the table."""
    options = parser(__doc__)
    options.add_argument("--rows", type=int, default=2000)
    options.add_argument("--C", type=float, nargs="+", default=[0.1, 1.0, 10.0])
    given = options.parse_args()
    data = load("rcv1subset1", data_home=given.data)
    rows = np.random.default_rng(0).permutation(data.n_rows)[: given.rows]
    X: Any = data.X[rows]
    Y = data.Y[rows]
    timed(X[:50], Y[:50], 1.0, keep_all=False)  # compiles
    print(machine())
    print(f"{len(rows)} rows, {len(np.unique(X.indices))} of {X.shape[1]} columns in use\n")
    table = []
    for C in given.C:
        (short, one), (long, other) = (timed(X, Y, C, keep_all=every) for every in (False, True))
        gap = f"{np.abs(one - other).max():.1e}"
        table.append([f"{C:g}", f"{short:.2f}", f"{long:.2f}", f"{long / short:.1f}", gap])
    print_table(
        ["C", "columns in use", "all columns", "ratio", "largest difference of probabilities"],
        table,
    )


if __name__ == "__main__":
    main()
