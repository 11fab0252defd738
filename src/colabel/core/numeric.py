"""Small computations that many rooms share: stable sums, sums by bin, eigenvectors, row keys."""

from __future__ import annotations

import numpy as np
import scipy.linalg as sla
from numpy.typing import NDArray

from colabel.core.arrays import Array, Codes, Indices
from colabel.core.threads import one_blas_thread

_FEW = 8  # entries of an axis that is gone through slice by slice


def log_sum_exp(values: Array, axis: int = -1) -> Array:
    """Take log sum exp over an axis; a slice that is -inf throughout gives -inf, silently.

    Examples
    --------
    >>> import numpy as np
    >>> log_sum_exp(np.array([[0.0, 0.0], [-np.inf, -np.inf]])).round(3)
    array([0.693,  -inf])
    """
    top = values.max(axis=axis, keepdims=True)
    shift = np.where(np.isneginf(top), 0.0, top)  # -inf - -inf would be NaN
    with np.errstate(divide="ignore"):
        summed: Array = np.log(np.exp(values - shift).sum(axis=axis)) + shift.squeeze(axis)
    return summed


def short_sum(values: Array, axis: int = -1) -> Array:
    """Sum over an axis; slice by slice if the axis is short, such as the values of a label.

    NumPy's reduction starts a loop for every entry of the result.

    Examples
    --------
    >>> import numpy as np
    >>> short_sum(np.array([[0.25, 0.75], [1.0, 2.0]]))
    array([1., 3.])
    """
    if values.shape[axis] > _FEW:
        return np.asarray(values.sum(axis=axis))
    first, *others = np.moveaxis(values, axis, 0)
    total: Array = first.copy()
    for other in others:
        total += other
    return total


def bin_sums(bins: Indices, values: Array, n_bins: int) -> Array:
    """Sum values (m,) by bin, (n_bins,).

    Examples
    --------
    >>> import numpy as np
    >>> bin_sums(np.array([0, 2, 0]), np.array([1.0, 2.0, 3.0]), 3)
    array([4., 0., 2.])
    """
    return np.bincount(bins, weights=values, minlength=n_bins).astype(np.float64, copy=False)


def eigenvectors(symmetric: Array) -> tuple[Array, Array]:
    """Eigenvalues (m,), ascending, and eigenvectors (m, m), columns, of a symmetric matrix.

    BLAS runs on one thread: several wait for each other at every column, and take ten times as
    long as one if another process uses one of the cores.
    """
    with one_blas_thread:
        return sla.eigh(symmetric)


def as_bytes(codes: Codes) -> NDArray[np.void]:
    """Label vectors (m, d) as single values (m,) that can be sorted and compared."""
    plain = np.ascontiguousarray(codes, dtype=np.int32)
    return plain.view(np.dtype((np.void, plain.itemsize * plain.shape[1]))).ravel()


def first_occurrences(rows: Indices, codes: Codes) -> Indices:
    """Return the ascending positions of the first occurrence of each (row, label vector) pair."""
    return np.sort(np.unique(as_bytes(np.column_stack([rows, codes])), return_index=True)[1])
