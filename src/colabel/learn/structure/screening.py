"""Which labels depend on which beyond x, by score tests: candidates for parents and edges.

Fitting a model for every pair of labels costs the square of their number. Whether label j matters
for label i given x is first asked of the residuals of models of each label alone: the score test
of all pairs at once is two matrix products.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from colabel.core.arrays import Array, Codes, Flags, Indices
from colabel.core.chunks import row_slices
from colabel.core.label_features import column_owner
from colabel.labels import MISSING

_ROWS_AT_ONCE = 1 << 12  # bounds what the products hold beside the residuals


class Residuals(NamedTuple):
    """Residuals (n, e) of the labels' columns and their variances (n, e) by the models."""

    residual: Array
    variance: Array


def label_residuals(
    scores: Sequence[Array], codes: Codes, cardinalities: Sequence[int]
) -> Residuals:
    r"""Residuals :math:`r_{ia} = [y_i = a] - P(y_i = a \mid x)` of models of each label alone.

    Parameters
    ----------
    scores : d arrays (K_i, n)
        Log-odds (1, n) of the second of two values; of more values a score for each, up to a
        constant per row. By models that have not seen the row: others have explained its noise.
    codes : (n, d)
        A missing label has residual and variance zero.
    cardinalities : (d,)

    Returns
    -------
    Residuals
        One column for a label of two values, K for one of K (`column_owner`).
    """
    residuals, variances = [], []
    for i, (score, size) in enumerate(zip(scores, cardinalities, strict=True)):
        own = codes[:, [i]]
        if size == 2:
            # P = 1 / (1 + e^-s) = e^{-log(1 + e^-s)} does not overflow
            prob, values = np.exp(-np.logaddexp(0.0, -score)), np.array([1])
        else:
            prob = np.exp(score - np.logaddexp.reduce(score, axis=0))
            values = np.arange(size)
        known = own != MISSING
        residuals.append(known * ((own == values) - prob.T))
        variances.append(known * (prob * (1.0 - prob)).T)
    return Residuals(np.hstack(residuals), np.hstack(variances))


def score_tests(residuals: Residuals, cardinalities: Sequence[int], weight: Array) -> Array:
    r"""Score statistics (d, d) of label j for label i given x, zero on the diagonal.

    .. math:: z_{ij}^2 = \sum_{ab} \Bigl(\sum_n \omega_n r_{ia}^n r_{jb}^n\Bigr)^2 \Big/
              \sum_{ab} \sum_n \omega_n^2 \,
              \frac{(r_{ia}^n r_{jb}^n)^2 + v_{ia}^n v_{jb}^n}{2}

    The numerator holds the gradient, at no dependence, of the log-likelihood by the constant
    table of the pair; the denominator its variance, the mean of the one seen and the one that the
    models expect. (The first alone is at most about the number of rows that carry both labels,
    however few were to be expected: it buries the arcs of rare labels. The second alone takes a
    single such row for a discovery.) About one where labels are independent given x, and
    symmetric: which of two labels is the parent cannot be told without fitting.

    Parameters
    ----------
    residuals : Residuals
        See `label_residuals`.
    cardinalities : (d,)
    weight : (n,)

    Examples
    --------
    >>> import numpy as np
    >>> y = np.array([[0, 0, 0], [0, 0, 1], [1, 1, 0], [1, 1, 1]])
    >>> known = Residuals(y - 0.5, np.full((4, 3), 0.25))
    >>> score_tests(known, (2, 2, 2), np.ones(4))[0]
    array([0., 4., 0.])
    """
    return score_statistics(score_sums(residuals, weight), cardinalities)


def score_sums(residuals: Residuals, weight: Array) -> tuple[Array, Array]:
    """The sums over rows in `score_tests`, (e, e) each: slopes and their variances."""
    n_rows, n_columns = residuals.residual.shape
    slope, variance = np.zeros((n_columns, n_columns)), np.zeros((n_columns, n_columns))
    for rows in row_slices(n_rows, _ROWS_AT_ONCE):
        own, expected = (part[rows] for part in residuals)
        factor = weight[rows, None]
        slope += (factor * own).T @ own
        variance += 0.5 * ((factor * own) ** 2).T @ own**2
        variance += 0.5 * (factor**2 * expected).T @ expected
    return slope, variance


def score_statistics(sums: tuple[Array, Array], cardinalities: Sequence[int]) -> Array:
    """Return the statistics (d, d) of `score_tests`, given the sums."""
    slope, variance = sums
    first = np.searchsorted(column_owner(cardinalities), np.arange(len(cardinalities)))
    squares = _block_sums(slope**2, first)
    noise = _block_sums(variance, first)
    # residuals so small that their fourth powers vanish say nothing
    statistic = np.where(noise > 0, squares / np.maximum(noise, np.finfo(float).tiny), 0.0)
    np.fill_diagonal(statistic, 0.0)
    return statistic


def best_candidates(worth: Array, most: int) -> Flags:
    """Say which parents j of each label i, entry [j, i], are its `most` best; ties to the first."""
    worth = worth.copy()
    np.fill_diagonal(worth, -np.inf)
    order = np.argsort(-worth, axis=0, kind="stable")[: min(most, len(worth) - 1)]
    chosen = np.zeros(worth.shape, dtype=bool)
    np.put_along_axis(chosen, order, True, axis=0)
    return chosen


def _block_sums(matrix: Array, first: Indices) -> Array:
    return np.asarray(np.add.reduceat(np.add.reduceat(matrix, first, axis=0), first, axis=1))
