"""Choosing a penalty for every task by its held-out curve."""

from __future__ import annotations

import numpy as np

from colabel.core.arrays import Array, Indices


def best_points(total: Array, grid: Array) -> Indices:
    """Position (T,) in the grid (G,) of every task's best held-out score (G, T).

    Of equal scores that of the smallest C counts.

    Examples
    --------
    >>> best_points(np.array([[-3.0, -1.0], [-2.0, -1.0]]), np.array([10.0, 0.1]))
    array([1, 1])
    """
    order = np.argsort(grid, kind="stable")
    return np.asarray(order[total[order].argmax(axis=0)])
