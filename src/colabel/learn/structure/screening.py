"""Which labels depend on which beyond x, by score tests: candidates for parents and edges.

Fitting a model for every pair of labels costs the square of their number. Whether label j matters
for label i given x is first asked of the residuals of models of each label alone: the score test
of all pairs at once is two matrix products.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from colabel.core.arrays import Array, Codes, Flags, Indices
from colabel.core.label_features import column_owner
from colabel.labels import MISSING

_ROWS_AT_ONCE = 1 << 12  # bounds what the products hold beside the residuals


def label_residuals(scores: Sequence[Array], codes: Codes, cardinalities: Sequence[int]) -> Array:
    r"""Residuals :math:`r_{ia} = [y_i = a] - P(y_i = a \mid x)` of models of each label alone.

    Parameters
    ----------
    scores : d arrays (K_i, n)
        Log-odds (1, n) of the second of two values; of more values a score for each, up to a
        constant per row. By models that have not seen the row: others have explained its noise.
    codes : (n, d)
        A missing label has residual zero.
    cardinalities : (d,)

    Returns
    -------
    (n, e) array
        One column for a label of two values, K for one of K (`column_owner`).
    """
    columns = []
    for i, (score, size) in enumerate(zip(scores, cardinalities, strict=True)):
        own = codes[:, [i]]
        if size == 2:
            # P = 1 / (1 + e^-s) = e^{-log(1 + e^-s)} does not overflow
            prob, values = np.exp(-np.logaddexp(0.0, -score)), np.array([1])
        else:
            prob = np.exp(score - np.logaddexp.reduce(score, axis=0))
            values = np.arange(size)
        columns.append(np.where(own == MISSING, 0.0, (own == values) - prob.T))
    return np.hstack(columns)


def score_tests(residuals: Array, cardinalities: Sequence[int], weight: Array) -> Array:
    r"""Score statistics (d, d) of label j for label i given x, zero on the diagonal.

    .. math:: z_{ij}^2 = \sum_{ab} \Bigl(\sum_n \omega_n r_{ia}^n r_{jb}^n\Bigr)^2 \Big/
              \sum_{ab} \sum_n \omega_n^2 (r_{ia}^n r_{jb}^n)^2

    The numerator holds the gradient, at no dependence, of the log-likelihood by the constant
    table of the pair; the denominator its variance. About one where labels are independent given
    x, and symmetric: which of two labels is the parent cannot be told without fitting.

    Parameters
    ----------
    residuals : (n, e)
        See `label_residuals`.
    cardinalities : (d,)
    weight : (n,)

    Examples
    --------
    >>> import numpy as np
    >>> y = np.array([[0, 0, 0], [0, 0, 1], [1, 1, 0], [1, 1, 1]])
    >>> score_tests(y - 0.5, (2, 2, 2), np.ones(4))[0]
    array([0., 4., 0.])
    """
    n_columns = residuals.shape[1]
    slope, variance = np.zeros((n_columns, n_columns)), np.zeros((n_columns, n_columns))
    for start in range(0, len(residuals), _ROWS_AT_ONCE):
        rows = slice(start, start + _ROWS_AT_ONCE)
        own, weighted = residuals[rows], residuals[rows] * weight[rows, None]
        slope += weighted.T @ own
        variance += (weighted**2).T @ own**2
    first = np.searchsorted(column_owner(cardinalities), np.arange(len(cardinalities)))
    squares = _block_sums(slope**2, first)
    noise = _block_sums(variance, first)
    # residuals so small that their fourth powers vanish say nothing
    statistic = np.where(noise > 0, squares / np.maximum(noise, np.finfo(float).tiny), 0.0)
    np.fill_diagonal(statistic, 0.0)
    return statistic


def best_candidates(worth: Array, most: int) -> Flags:
    """Say which parents j of label i, entry [j, i], are among its `most` best; ties to the first."""
    worth = worth.copy()
    np.fill_diagonal(worth, -np.inf)
    order = np.argsort(-worth, axis=0, kind="stable")[: min(most, len(worth) - 1)]
    chosen = np.zeros(worth.shape, dtype=bool)
    np.put_along_axis(chosen, order, True, axis=0)
    return chosen


def _block_sums(matrix: Array, first: Indices) -> Array:
    return np.asarray(np.add.reduceat(np.add.reduceat(matrix, first, axis=0), first, axis=1))
