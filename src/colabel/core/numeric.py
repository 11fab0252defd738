"""Sums that many rooms need: of exponentials in logarithms, and by bin."""

from __future__ import annotations

import numpy as np

from colabel.core.arrays import Array, Indices


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


def bin_sums(bins: Indices, values: Array, n_bins: int) -> Array:
    """Sum values (m,) by bin, (n_bins,).

    Examples
    --------
    >>> import numpy as np
    >>> bin_sums(np.array([0, 2, 0]), np.array([1.0, 2.0, 3.0]), 3)
    array([4., 0., 2.])
    """
    return np.bincount(bins, weights=values, minlength=n_bins).astype(np.float64, copy=False)
