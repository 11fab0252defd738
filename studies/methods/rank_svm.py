r"""RankSVM: relevant labels ranked above irrelevant ones with a margin (Elisseeff and Weston).

With one weight vector :math:`w_k` per label, relevant labels :math:`Y_i` and irrelevant ones
:math:`\bar Y_i` of row i, the problem is

.. math::
    \min_W \; P(W) = \tfrac12 \sum_k \|w_k\|^2 + \sum_i c_i
    \sum_{k \in Y_i, l \in \bar Y_i} \max(0, 1 - \langle w_k - w_l, x_i \rangle),
    \qquad c_i = \frac{C}{|Y_i| |\bar Y_i|}

Its dual has one variable per pair,

.. math::
    \max_{0 \le \alpha_{ikl} \le c_i} \; D(\alpha) = \sum \alpha_{ikl}
    - \tfrac12 \sum_k \|w_k\|^2, \qquad w_k = \sum_i \beta_{ik} x_i, \qquad
    \beta_{ik} = \sum_{l} \alpha_{ikl} \text{ or } -\sum_{l} \alpha_{ilk}

for k relevant or irrelevant to row i. It is solved by block coordinate ascent: a block is all
pairs of one row, whose scores change by :math:`\|x_i\|^2 \Delta\beta_i` only, so that many pairs
cost one product with W. The duality gap P - D bounds the distance to the optimum.
"""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numba import njit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning

from colabel.metrics import exact_match
from studies.methods.arrays import Array, Flags, Indices, labels_of

# Passes over a row's pairs before the next row: more cost little, since the scores of the row
# are in the cache, but a block need not be solved exactly while the others still move.
_INNER_PASSES = 5
# The gap costs one product with all rows, about as much as half a sweep.
_SWEEPS_PER_CHECK = 5
# Half the margin that separates relevant from irrelevant labels.
_HALF_MARGIN = 0.5
# Reassociation lets the sums be vectorised.
_SUMS = {"reassoc", "contract", "nsz"}


class RankSVM(ClassifierMixin, BaseEstimator):
    r"""Linear scores that rank a row's labels above the others, and a learned cut.

    Labels with a score above :math:`t(x) = \langle a, s(x) \rangle + a_0` are predicted, where t is
    the least-squares regression of each training row's best threshold on its scores. Rows with
    all or no labels have no pair to rank; they count for t only. The original leaves the constants
    of the scores unpenalised; here each is the weight of a feature that is 1.

    Parameters
    ----------
    C : float
        Weight of the ranking errors; the larger, the closer the fit. Features should be scaled.
    tol : float
        The solver stops when the duality gap is at most `tol` times the objective.
    max_iter : int
        Bound on the sweeps over the rows.
    random_state : int
        Seed of the order in which the solver visits rows. Changes the answer within `tol` only.

    Attributes
    ----------
    coef_ : (d, p + 1) array
        Weight vectors, the constant last.
    threshold_ : (d + 1,) array
        Coefficients of t(x), the constant last.
    objective_, duality_gap_ : float
        Value of the objective, and a bound on how far it lies above the optimum.
    n_iter_ : int
        Sweeps over the rows.

    References
    ----------
    A. Elisseeff and J. Weston, A kernel method for multi-labelled classification, NIPS 2001.
    """

    def __init__(
        self,
        C: float = 1.0,
        *,
        tol: float = 1e-3,
        max_iter: int = 2000,
        random_state: int | None = None,
    ) -> None:
        self.C = C
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state

    def fit(self, X: Any, Y: Any) -> Self:
        """Learn from rows X and their 0/1 labels (n, d)."""
        relevant = labels_of(Y).astype(bool)
        rows = _with_constant(X)
        n_relevant = relevant.sum(axis=1)
        n_pairs = n_relevant * (relevant.shape[1] - n_relevant)
        pairs: Any = (
            np.argsort(~relevant, axis=1, kind="stable"),
            n_relevant.astype(np.intp),
            np.concatenate([[0], np.cumsum(n_pairs)]).astype(np.intp),
            np.where(n_pairs > 0, self.C / np.maximum(n_pairs, 1), 0.0),
        )
        used = np.flatnonzero(n_pairs)
        norms = np.asarray(rows.multiply(rows).sum(axis=1)).ravel()
        alpha, coef = np.zeros(n_pairs.sum()), np.zeros((relevant.shape[1], rows.shape[1]))
        rng = np.random.default_rng(self.random_state)
        order, _, _, cost = pairs
        for n_sweeps in range(self.max_iter + 1):
            if n_sweeps % _SWEEPS_PER_CHECK == 0 or n_sweeps == self.max_iter:
                scores = np.ascontiguousarray(rows @ coef.T)
                half_norm = 0.5 * float(np.sum(coef**2))
                self.objective_ = half_norm + ranking_loss(scores, order, pairs[1], cost)
                self.duality_gap_ = self.objective_ - (float(alpha.sum()) - half_norm)
                if self.duality_gap_ <= self.tol * self.objective_:
                    break
            visited = rng.permutation(used)
            state: Any = (norms, visited, *pairs, alpha, coef)
            sweep(rows.indptr, rows.indices, rows.data, *state)
        else:
            warnings.warn(
                f"RankSVM stopped after {n_sweeps} sweeps at a duality gap of"
                f" {self.duality_gap_ / self.objective_:.2%} of its objective.",
                ConvergenceWarning,
                stacklevel=2,
            )
        self.coef_, self.n_iter_ = coef, n_sweeps
        design = np.column_stack([scores, np.ones(len(scores))])
        target = best_thresholds(scores, relevant)
        # The solution of least norm: the scores of a row sum to zero.
        self.threshold_ = np.linalg.lstsq(design, target, rcond=None)[0]
        return self

    def decision_function(self, X: Any) -> Array:
        """Return how far each label's score lies above the threshold t(x), (n, d)."""
        scores = np.asarray(_with_constant(X) @ self.coef_.T)
        found: Array = scores - (scores @ self.threshold_[:-1] + self.threshold_[-1])[:, None]
        return found

    def predict(self, X: Any) -> Any:
        """Return the labels (n, d) above the threshold."""
        return (self.decision_function(X) > 0).astype(np.int32)

    def score(self, X: Any, Y: Any) -> float:
        """Return the share of rows whose labels are all right."""
        return float(exact_match(labels_of(Y), self.predict(X)))


def _with_constant(X: Any) -> Any:
    """Append a feature that is 1 in every row."""
    parts: Any = [sp.csr_array(X), sp.csr_array(np.ones((X.shape[0], 1)))]
    return sp.hstack(parts, format="csr").astype(np.float64)


@njit(nogil=True, cache=True, fastmath=_SUMS)
def ranking_loss(scores: Array, order: Indices, n_relevant: Indices, cost: Array) -> float:
    """Sum of the costs of all pairs whose margin is violated."""
    total = 0.0
    n_labels = scores.shape[1]
    for i in range(scores.shape[0]):
        row = 0.0
        for a in range(n_relevant[i]):
            needed = 1.0 - scores[i, order[i, a]]
            for b in range(n_relevant[i], n_labels):
                row += max(0.0, needed + scores[i, order[i, b]])
        total += cost[i] * row
    return total


@njit(nogil=True, cache=True)
def _improve_row(
    scores: Array,
    order: Indices,
    n_relevant: int,
    alpha: Array,
    cost: float,
    norm: float,
    change: Array,
) -> bool:
    """Coordinate ascent over the pairs of a row; `change` (q,) is what beta moved by."""
    n_labels = scores.size
    change[:] = 0.0
    moved = False
    for _ in range(_INNER_PASSES):
        largest = 0.0
        pair = 0
        for a in range(n_relevant):
            k = order[a]
            for b in range(n_relevant, n_labels):
                other = order[b]
                violation = 1.0 - scores[k] + scores[other]
                old = alpha[pair]
                if norm > 0.0:
                    new = min(max(old + violation / (2.0 * norm), 0.0), cost)
                else:
                    new = cost  # a row of zeros violates its margins whatever W is
                step = new - old
                if step != 0.0:
                    alpha[pair] = new
                    change[k] += step
                    change[other] -= step
                    scores[k] += norm * step
                    scores[other] -= norm * step
                    largest = max(largest, abs(step))
                pair += 1
        if largest == 0.0:
            break
        moved = True
        if largest < 1e-3 * cost:
            break
    return moved


@njit(nogil=True, cache=True, fastmath=_SUMS)
def sweep(
    indptr: Any,
    indices: Any,
    data: Array,
    norms: Array,
    rows: Indices,
    order: Indices,
    n_relevant: Indices,
    first: Indices,
    cost: Array,
    alpha: Array,
    coef: Array,
) -> None:
    """Improve the dual variables of some rows of a CSR matrix, one row after another."""
    n_labels = coef.shape[0]
    scores = np.empty(n_labels)
    change = np.empty(n_labels)
    for i in rows:
        for k in range(n_labels):
            total = 0.0
            for at in range(indptr[i], indptr[i + 1]):
                total += coef[k, indices[at]] * data[at]
            scores[k] = total
        block = alpha[first[i] : first[i + 1]]
        if not _improve_row(scores, order[i], n_relevant[i], block, cost[i], norms[i], change):
            continue
        for k in range(n_labels):
            if change[k] != 0.0:
                for at in range(indptr[i], indptr[i + 1]):
                    coef[k, indices[at]] += change[k] * data[at]


def best_thresholds(scores: Array, relevant: Flags) -> Array:
    """Threshold (n,) of each row that separates its labels with the fewest errors.

    A label is wrong if it is relevant with a score below the threshold or irrelevant with one
    above it. The best thresholds of a row form an interval between two neighbouring scores: its
    middle is taken, and half a margin beyond the scores where the interval is unbounded. Of
    several best intervals the lowest is taken.

    Examples
    --------
    >>> import numpy as np
    >>> from studies.methods.rank_svm import best_thresholds
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
