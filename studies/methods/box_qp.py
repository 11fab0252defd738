r"""Quadratic problems over the label cube, one per row, all with the same matrix.

.. math:: \min_y \; y^\top Q y - c_i^\top y

with Q positive semidefinite: over the box [0, 1]^q by coordinate descent, over its corners by
local search.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from studies.methods.arrays import Array, Indices

# A sweep over the coordinates that moves none by more than this ends the descent.
_SMALLEST_MOVE = 1e-7
_MOST_SWEEPS = 1000
_SWEEPS_PER_JUMP = 4
# This share of its largest entry is added to Q's diagonal before Q is factorised: far above
# rounding, so that factors of singular matrices stay small, and the jump is still a descent.
_RIDGE = 1e-10
# A diagonal without curvature.
_FLAT = 1e-100
# A flip must gain this much, or rounding could make the search go in circles.
_SMALLEST_GAIN = 1e-12


def box_minimise(Q: Array, linear: Array, start: Array) -> Array:
    """Minimise y'Qy - c'y over the box [0, 1]^q for every row.

    Parameters
    ----------
    Q : (q, q)
        Symmetric and positive semidefinite.
    linear : (n, q)
        Vectors c.
    start : (n, q)
        Where to start, in the box.

    Returns
    -------
    (n, q)

    Examples
    --------
    >>> import numpy as np
    >>> from studies.methods.box_qp import box_minimise
    >>> box_minimise(np.eye(2), np.array([[1.0, 5.0]]), np.zeros((1, 2)))
    array([[0.5, 1. ]])
    """
    found = np.array(start, dtype=np.float64, order="C")
    _descend(Q, np.ascontiguousarray(linear), found)
    return found


@njit(nogil=True, cache=True)
def _descend(Q: Array, linear: Array, y: Array) -> None:
    n_rows, n_labels = y.shape
    gradient = np.empty(n_labels)
    free = np.empty(n_labels, dtype=np.intp)
    factor = np.empty((n_labels, n_labels))
    direction = np.empty(n_labels)
    for i in range(n_rows):
        for j in range(n_labels):
            total = 0.0
            for k in range(n_labels):
                total += Q[j, k] * y[i, k]
            gradient[j] = 2.0 * total - linear[i, j]
        for sweep in range(_MOST_SWEEPS):
            if _sweep(Q, gradient, y[i]) <= _SMALLEST_MOVE:
                break
            if sweep % _SWEEPS_PER_JUMP == _SWEEPS_PER_JUMP - 1:
                # a jump that the box cut short leaves a coordinate at its bound: on with the rest
                while not _jump(Q, gradient, y[i], free, factor, direction):
                    pass


@njit(nogil=True, cache=True)
def _sweep(Q: Array, gradient: Array, y: Array) -> float:
    """Minimise over one coordinate after another; return the largest move."""
    largest = 0.0
    for j in range(y.size):
        old = y[j]
        if Q[j, j] > 0.0:
            new = min(max(old - gradient[j] / (2.0 * Q[j, j]), 0.0), 1.0)
        elif gradient[j] != 0.0:
            new = 1.0 if gradient[j] < 0.0 else 0.0
        else:
            new = old
        step = new - old
        if step != 0.0:
            y[j] = new
            for k in range(y.size):
                gradient[k] += 2.0 * Q[j, k] * step
            largest = max(largest, abs(step))
    return largest


@njit(nogil=True, cache=True)
def _jump(
    Q: Array,
    gradient: Array,
    y: Array,
    free: Indices,
    factor: Array,
    direction: Array,
) -> bool:
    """Go to the minimum over the coordinates inside the box, or as far as the box allows.

    Returns whether the minimum was reached; if not, one more coordinate is at its bound.
    Where Q is nearly singular, as metrics of low rank are, single coordinates crawl.
    """
    n_free = 0
    largest = 0.0
    for j in range(y.size):
        if 0.0 < y[j] < 1.0:
            free[n_free] = j
            n_free += 1
            largest = max(largest, Q[j, j])
    if largest < _FLAT:
        return True
    for a in range(n_free):
        for b in range(a + 1):
            total = Q[free[a], free[b]] + (_RIDGE * largest if a == b else 0.0)
            for c in range(b):
                total -= factor[a, c] * factor[b, c]
            if a > b:
                factor[a, b] = total / factor[b, b]
            else:
                factor[a, a] = np.sqrt(max(total, 0.5 * _RIDGE * largest))
    for a in range(n_free):
        total = -0.5 * gradient[free[a]]
        for c in range(a):
            total -= factor[a, c] * direction[c]
        direction[a] = total / factor[a, a]
    for a in range(n_free - 1, -1, -1):
        total = direction[a]
        for c in range(a + 1, n_free):
            total -= factor[c, a] * direction[c]
        direction[a] = total / factor[a, a]
    length, blocking = 1.0, -1
    for a in range(n_free):
        room = 1.0 - y[free[a]] if direction[a] > 0.0 else y[free[a]]
        if room < length * abs(direction[a]):
            length, blocking = room / abs(direction[a]), a
    for a in range(n_free):
        j = free[a]
        new = min(max(y[j] + length * direction[a], 0.0), 1.0)
        if a == blocking:  # exactly, or rounding could leave it inside
            new = 1.0 if direction[a] > 0.0 else 0.0
        step = new - y[j]
        y[j] = new
        for k in range(y.size):
            gradient[k] += 2.0 * Q[j, k] * step
    return blocking < 0


def corner_search(Q: Array, linear: Array, start: Array) -> Array:
    """Improve label vectors until no flip of one or two labels lowers y'Qy - c'y.

    Parameters
    ----------
    Q, linear
        See `box_minimise`.
    start : (n, q)
        Zeros and ones.

    Returns
    -------
    (n, q)
        Zeros and ones.

    Examples
    --------
    >>> import numpy as np
    >>> from studies.methods.box_qp import corner_search
    >>> corner_search(np.eye(2), np.array([[0.5, 5.0]]), np.zeros((1, 2)))
    array([[0., 1.]])
    """
    found = np.array(start, dtype=np.float64, order="C")
    _flip(Q, np.ascontiguousarray(linear), found)
    return found


@njit(nogil=True, cache=True)
def _flip(Q: Array, linear: Array, y: Array) -> None:
    n_rows, n_labels = y.shape
    gradient = np.empty(n_labels)
    for i in range(n_rows):
        for j in range(n_labels):
            total = 0.0
            for k in range(n_labels):
                total += Q[j, k] * y[i, k]
            gradient[j] = 2.0 * total - linear[i, j]
        while True:
            best, first, second = -_SMALLEST_GAIN, -1, -1
            for j in range(n_labels):
                step = 1.0 - 2.0 * y[i, j]
                alone = step * gradient[j] + Q[j, j]
                if alone < best:
                    best, first, second = alone, j, -1
                for k in range(j):
                    other = 1.0 - 2.0 * y[i, k]
                    both = alone + other * gradient[k] + Q[k, k] + 2.0 * step * other * Q[j, k]
                    if both < best:
                        best, first, second = both, j, k
            if first < 0:
                break
            for flipped in (first, second):
                if flipped >= 0:
                    step = 1.0 - 2.0 * y[i, flipped]
                    y[i, flipped] += step
                    for k in range(n_labels):
                        gradient[k] += 2.0 * Q[flipped, k] * step
