r"""Ranking relevant labels above irrelevant ones with a margin (Elisseeff and Weston).

With one weight vector :math:`w_k` per label, relevant labels :math:`Y_i` and irrelevant ones
:math:`\bar Y_i` of row i, the problem is

.. math::
    \min_W \; P(W) = \tfrac12 \sum_k \|w_k\|^2 + \sum_i c_i
    \sum_{k \in Y_i, l \in \bar Y_i} \max(0, 1 - \langle w_k - w_l, x_i \rangle),
    \qquad c_i = \frac{C \, v_i}{|Y_i| |\bar Y_i|}

with row weights :math:`v_i`. Its dual has one variable per pair,

.. math::
    \max_{0 \le \alpha_{ikl} \le c_i} \; D(\alpha) = \sum \alpha_{ikl}
    - \tfrac12 \sum_k \|w_k\|^2, \qquad w_k = \sum_i \beta_{ik} x_i, \qquad
    \beta_{ik} = \sum_{l} \alpha_{ikl} \text{ or } -\sum_{l} \alpha_{ilk}

for k relevant or irrelevant to row i. It is solved by block coordinate ascent: a block is all
pairs of one row, whose scores change by :math:`\|x_i\|^2 \Delta\beta_i` only, so that many pairs
cost one product with W. The duality gap P - D bounds the distance to the optimum.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp

from colabel.core.arrays import Array, Flags, Indices, is_sparse
from colabel.core.progress import Advance
from colabel.models.margin._ranking_kernels import (
    dense_sweep,
    kernel_sweep,
    ranking_loss,
    sparse_sweep,
)
from colabel.models.margin._ridge import RidgePath

__all__ = [
    "KernelRows",
    "LinearRows",
    "Pairs",
    "RankingRows",
    "RankingSolution",
    "best_thresholds",
    "fit_threshold",
    "label_pairs",
    "solve_ranking",
]

# The gap costs one product with all rows, about as much as half a sweep.
_SWEEPS_PER_CHECK = 5
# Half the margin that separates relevant from irrelevant labels.
_HALF_MARGIN = 0.5


@dataclass(frozen=True)
class Pairs:
    """The pairs (relevant label, irrelevant label) of n rows.

    Attributes
    ----------
    order : (n, q)
        Labels of every row, the relevant ones first.
    n_relevant : (n,)
        Number of relevant labels of every row.
    first : (n + 1,)
        Position of a row's first pair among all pairs; rows with all or no labels have none.
    cost : (n,)
        Bound c of the dual variables of a row.
    """

    order: Indices
    n_relevant: Indices
    first: Indices
    cost: Array

    @property
    def with_pairs(self) -> Indices:
        """Positions of the rows that have pairs and a positive cost."""
        return np.flatnonzero((np.diff(self.first) > 0) & (self.cost > 0))


def label_pairs(relevant: Flags, C: float, weight: Array | None = None) -> Pairs:
    """Return the pairs of rows with `relevant` labels (n, q) and weights (n,).

    Examples
    --------
    >>> import numpy as np
    >>> from colabel.models.margin._ranking import label_pairs
    >>> pairs = label_pairs(np.array([[False, True, True], [True, True, True]]), C=1.0)
    >>> pairs.first, pairs.cost
    (array([0, 2, 2]), array([0.5, 0. ]))
    """
    n_relevant = relevant.sum(axis=1)
    n_pairs = n_relevant * (relevant.shape[1] - n_relevant)
    share = np.where(n_pairs > 0, C / np.maximum(n_pairs, 1), 0.0)
    return Pairs(
        np.argsort(~relevant, axis=1, kind="stable"),
        n_relevant.astype(np.intp),
        np.concatenate([[0], np.cumsum(n_pairs)]).astype(np.intp),
        share if weight is None else share * weight,
    )


class RankingRows(Protocol):
    """Training rows as the solver needs them: how scores follow from dual variables."""

    def sweep(self, rows: Indices, pairs: Pairs, alpha: Array) -> None:
        """Improve the dual variables of some rows, one row after another."""
        ...

    def scores(self) -> Array:
        """Scores (n, q) of the rows."""
        ...

    def squared_norm(self) -> float:
        """Sum over labels of the squared norms of the weight vectors."""
        ...


class LinearRows:
    """Rows in feature space, with explicit weight vectors.

    Attributes
    ----------
    coef : (q, p)
        Weight vectors.
    """

    def __init__(self, X: Any, n_labels: int) -> None:
        self._X = X
        self.coef: Array = np.zeros((n_labels, X.shape[1]))
        squares = X.multiply(X) if is_sparse(X) else np.square(X)
        self._norms: Array = np.asarray(squares.sum(axis=1), dtype=np.float64).ravel()

    def sweep(self, rows: Indices, pairs: Pairs, alpha: Array) -> None:
        row_pairs = (pairs.order, pairs.n_relevant, pairs.first, pairs.cost)
        if is_sparse(self._X):
            indptr, indices, data = self._X.indptr, self._X.indices, self._X.data
            sparse_sweep(indptr, indices, data, self._norms, rows, *row_pairs, alpha, self.coef)
        else:
            dense_sweep(self._X, self._norms, rows, *row_pairs, alpha, self.coef)

    def scores(self) -> Array:
        return np.ascontiguousarray(self._X @ self.coef.T)

    def squared_norm(self) -> float:
        return float(np.sum(self.coef**2))


class KernelRows:
    """Rows known by their kernel matrix (n, n) only.

    Attributes
    ----------
    dual_coef : (n, q)
        Coefficients beta: the score of label k at x is sum_i beta_ik K(x_i, x).
    """

    def __init__(self, kernel: Array, n_labels: int) -> None:
        self._kernel = kernel
        self._scores: Array = np.zeros((len(kernel), n_labels))
        self.dual_coef: Array = np.zeros((len(kernel), n_labels))

    def sweep(self, rows: Indices, pairs: Pairs, alpha: Array) -> None:
        row_pairs = (pairs.order, pairs.n_relevant, pairs.first, pairs.cost)
        kernel_sweep(self._kernel, rows, *row_pairs, alpha, self.dual_coef, self._scores)

    def scores(self) -> Array:
        # Updated sums drift by rounding; the exact ones cost as much as one sweep.
        self._scores = self._kernel @ self.dual_coef
        return self._scores

    def squared_norm(self) -> float:
        return float(np.sum(self.dual_coef * self._scores))


@dataclass(frozen=True)
class RankingSolution:
    """What the solver reached.

    Attributes
    ----------
    primal, dual : float
        P and D of the module's formulas; the optimum lies between them.
    n_iter : int
        Sweeps over the rows.
    converged : bool
        Whether the gap reached the tolerance.
    """

    primal: float
    dual: float
    n_iter: int
    converged: bool

    @property
    def gap(self) -> float:
        """Duality gap: bound on what the primal objective can still fall."""
        return self.primal - self.dual


def solve_ranking(
    rows: RankingRows,
    pairs: Pairs,
    tol: float,
    max_iter: int,
    seed: int,
    advance: Advance = lambda: None,
) -> RankingSolution:
    """Solve the ranking problem in place, until the gap is at most tol times the objective.

    Parameters
    ----------
    rows : LinearRows or KernelRows
        Fresh rows; their coefficients are the solution.
    pairs : Pairs
        Pairs of the same rows.
    tol : float
        Bound on (P - D) / P.
    max_iter : int
        Bound on the sweeps over all rows.
    seed : int
        Seed of the orders in which rows are visited.
    advance : callable
        Called after every sweep.
    """
    rng = np.random.default_rng(seed)
    alpha = np.zeros(pairs.first[-1])
    used = pairs.with_pairs
    solution = _state(rows, pairs, alpha, 0, tol)
    for sweep in range(1, max_iter + 1):
        if solution.converged:
            break
        rows.sweep(rng.permutation(used), pairs, alpha)
        if sweep % _SWEEPS_PER_CHECK == 0 or sweep == max_iter:
            solution = _state(rows, pairs, alpha, sweep, tol)
        advance()
    return solution


def _state(
    rows: RankingRows, pairs: Pairs, alpha: Array, n_iter: int, tol: float
) -> RankingSolution:
    loss = ranking_loss(rows.scores(), pairs.order, pairs.n_relevant, pairs.cost)
    half_norm = 0.5 * rows.squared_norm()
    primal, dual = half_norm + loss, float(alpha.sum()) - half_norm
    return RankingSolution(primal, dual, n_iter, primal - dual <= tol * primal)


def best_thresholds(scores: Array, relevant: Flags) -> Array:
    """Threshold (n,) of each row that separates its labels with the fewest errors.

    A label is wrong if it is relevant with a score below the threshold or irrelevant with one
    above it. The best thresholds of a row form an interval between two neighbouring scores: its
    middle is taken, and half a margin beyond the scores where the interval is unbounded. Of
    several best intervals the lowest is taken.

    Examples
    --------
    >>> import numpy as np
    >>> from colabel.models.margin._ranking import best_thresholds
    >>> scores = np.array([[3.0, 1.0, 0.0], [3.0, 1.0, 0.0]])
    >>> best_thresholds(scores, np.array([[True, False, False], [True, True, True]]))
    array([ 2. , -0.5])
    """
    n_rows, n_labels = scores.shape
    order = np.argsort(scores, axis=1)
    ascending = np.take_along_axis(scores, order, axis=1)
    sorted_relevant = np.take_along_axis(relevant, order, axis=1)
    # errors[:, j]: the threshold lies just below the j-th lowest score
    errors = np.zeros((n_rows, n_labels + 1), dtype=np.intp)
    errors[:, 1:] = np.cumsum(np.where(sorted_relevant, 1, -1), axis=1)
    errors[:, 1:-1][ascending[:, 1:] <= ascending[:, :-1]] = n_labels + 1  # no room there
    lowest = ascending[:, :1] - 2 * _HALF_MARGIN
    highest = ascending[:, -1:] + 2 * _HALF_MARGIN
    ends = np.concatenate([lowest, ascending, highest], axis=1)
    best = errors.argmin(axis=1)
    middles = 0.5 * (ends[:, 1:] + ends[:, :-1])
    result: Array = middles[np.arange(n_rows), best]
    return result


def fit_threshold(
    scores: Array,
    relevant: Flags,
    weight: Array | None = None,
    features: Any = None,
) -> Array:
    """Least-squares regression of the best thresholds on the scores, (q + 1,), intercept last.

    The solution of least norm: the scores of a row sum to zero. With features (n, p) beside the
    scores a ridge regression, (q + p + 1,).
    """
    target = best_thresholds(scores, relevant)
    if features is not None:
        return _ridge_threshold(scores, features, target, weight)
    design = np.column_stack([scores, np.ones(len(scores))])
    if weight is not None:
        root = np.sqrt(weight)
        design, target = design * root[:, None], target * root
    solution = np.linalg.lstsq(design, target, rcond=None)[0]
    return np.asarray(solution, dtype=np.float64)


def _ridge_threshold(scores: Array, features: Any, target: Array, weight: Array | None) -> Array:
    r"""Ridge regression on scores and features, its penalty by generalised cross-validation.

    .. math:: \mathrm{GCV}(\alpha)
              = \frac{\sum_i w_i r_i^2}{(N - 1 - \sum_j e_j / (e_j + \alpha))^2}

    with residuals r, total weight N and eigenvalues e of the centred Gram matrix.
    """
    counted = np.ones(len(scores)) if weight is None else weight
    if is_sparse(features):
        rows = sp.hstack([sp.csr_array(scores), features], format="csr")
    else:
        rows = np.column_stack([scores, features])
    path = RidgePath(rows, target[:, None], counted)
    best: tuple[float, Array] = (np.inf, np.zeros(rows.shape[1] + 1))
    spread = max(float(path.eigenvalues.max(initial=0.0)), 1e-300)
    for alpha in spread * 10.0 ** np.arange(-6.0, 2.0):
        coef, intercept = path.at(float(alpha))
        missed = target - np.asarray(rows @ coef).ravel() - intercept
        freedom = counted.sum() - 1.0 - float((path.eigenvalues / (path.eigenvalues + alpha)).sum())
        if freedom > 0:
            error = float(counted @ np.square(missed)) / freedom**2
            if error < best[0]:
                best = (error, np.append(coef[:, 0], intercept))
    return best[1]
