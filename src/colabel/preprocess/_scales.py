"""What columns are divided by before distances are taken."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from colabel.core.arrays import Array, is_sparse, row_slices

_ROWS_AT_ONCE = 1 << 12


def mean_and_spread(X: Any) -> tuple[Array | None, Array]:
    """Means and standard deviations (p,) of dense X; None and roots of mean squares of sparse X.

    The spread of a column that never varies (sparse: that is empty) is zero.
    """
    n_rows = X.shape[0]
    if is_sparse(X):
        values = X.data.astype(np.float64)
        squares = np.bincount(X.indices, weights=values**2, minlength=X.shape[1])
        return None, np.sqrt(squares / n_rows)
    mean = X.mean(axis=0, dtype=np.float64)
    variance = np.zeros(X.shape[1])
    for rows in row_slices(n_rows, _ROWS_AT_ONCE):  # no second array as large as X
        part = X[rows] - mean
        variance += np.einsum("np,np->p", part, part) / n_rows
    spread = np.sqrt(variance)
    # what differs from the mean by rounding alone is constant
    return mean, np.where(spread > np.maximum(1e-13 * np.abs(X).max(axis=0), 1e-150), spread, 0.0)


def _each_column(spread: Array) -> Array:
    """Scales (p,) that give every column a spread of one; 1 for columns that never vary."""
    return np.where(spread > 0, spread, 1.0)


def _common(spread: Array) -> Array:
    """One scale for all (p,): the root mean square of the spreads of columns that vary."""
    varied = spread[spread > 0]
    return np.full(len(spread), np.sqrt(np.mean(varied**2)) if len(varied) else 1.0)


Scaling = Literal["columns", "common"]
SCALINGS: dict[Scaling, Callable[[Array], Array]] = {"columns": _each_column, "common": _common}
