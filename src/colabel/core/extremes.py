"""Rows and weights whose squares or sums leave the range of doubles: refused by name."""

from __future__ import annotations

from typing import Any

import numpy as np

from colabel.core.arrays import Array, is_sparse

# Squares are summed over rows and columns, and multiplied by weights, all below 1.8e308.
LARGEST_NUMBER = 1e140
_WEIGHTS = (1e-100, 1e20)


def refuse_huge(X: Any, names: Any = None) -> None:
    """Raise ValueError for the first column of X (n, p) with a number that is too large.

    A column that is huge but never varies is refused too: its mean and variance overflow.
    """
    values = X.data if is_sparse(X) else X
    if (
        not values.size
        or max(float(np.nanmax(values)), -float(np.nanmin(values))) <= LARGEST_NUMBER
    ):
        return
    if is_sparse(X):
        column = int(X.indices[np.abs(X.data) > LARGEST_NUMBER].min())
        worst = float(X.data[(X.indices == column) & (np.abs(X.data) > LARGEST_NUMBER)][0])
    else:
        row, column = np.argwhere(np.abs(X) > LARGEST_NUMBER)[0]
        worst = float(X[row, column])
    called = f"column {column}" if names is None else f"the column {str(names[column])!r}"
    raise ValueError(
        f"X holds {worst:g} in {called}; squares of numbers beyond {LARGEST_NUMBER:g} cannot be "
        "summed. Divide the column by a power of ten, or leave it out."
    )


def refuse_extreme_weights(weight: Array) -> None:
    """Raise ValueError for weights (n,) so small or large that counting with them is noise."""
    low, high = _WEIGHTS
    positive = weight[weight > 0]
    worst = positive.max() if positive.max() > high else positive.min()
    if not low <= worst <= high:
        raise ValueError(
            f"sample_weight holds {worst:g}. A weight says how many rows a row counts for: give "
            f"numbers between {low:g} and {high:g}, or zero."
        )
