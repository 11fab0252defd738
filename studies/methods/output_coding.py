r"""Maximum-margin output coding: a metric on label vectors, learned by cutting planes.

With :math:`\hat y_i` the regression of the label vector :math:`y_i` on row i, a positive
semidefinite metric M is wanted under which :math:`y_i` is closer to :math:`\hat y_i` than every
other label vector y, by a margin that grows with the number of labels in which they differ:

.. math::
    \min_{M \succeq 0} \; f(M) = \tfrac12 \operatorname{tr} M + C \sum_i v_i \max_y \left[
    \|y_i - y\|_1 - (\hat y_i - y)^\top M (\hat y_i - y)
    + (\hat y_i - y_i)^\top M (\hat y_i - y_i) \right]

with row weights :math:`v_i` that sum to one. The inner maximum, the slack of row i, runs over the
box [0, 1]^q instead of its 2^q corners: as :math:`\|y_i - y\|_1` is linear there, it is a concave
quadratic problem, and its value bounds the maximum over the corners from above. The trace is the
squared norm of a code V with :math:`M = V V^\top`.

f is a maximum of linear functions of M, its *planes*: one for each choice of a vector y for
every row. A model of f by the planes found so far is minimised near the best metric so far (a
proximal bundle), the rows' worst vectors there give the next plane, and any convex combination
of planes with no direction of descent in the cone is a lower bound of f.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.special import expit

from studies.methods.arrays import Array
from studies.methods.box_qp import box_minimise, corner_search

# A step is taken if it gains this share of what the model promised, as is usual for bundles.
_SUFFICIENT = 0.1
# After so many steps that were refused in a row the model is trusted less far.
_PATIENCE = 5
# A model that promises less than this share of the gap has nothing left to say nearby.
_EXHAUSTED = 0.1
# Below this share of C the model is hardly held back, and its dual is hard to solve.
_LEAST_STIFFNESS = 1e-3
# Planes kept; the ones that the model does not use go first.
_MOST_PLANES, _FEWEST_PLANES = 80, 50
# The model is minimised to this share of the gap that is left.
_MODEL_ACCURACY = 0.01
_MODEL_STEPS = 2000
# The projection on the cone leaves zeros up to rounding: directions that M ignores.
_RELATIVE_RANK = 1e-6


class Plane(NamedTuple):
    """The mean slack of one choice of vectors: offset - <slope, M>, slope (q, q)."""

    slope: Array
    offset: float


@dataclass(frozen=True)
class MetricSolution:
    """What the cutting planes reached.

    Attributes
    ----------
    metric : (q, q)
        M.
    objective : float
        f(M).
    bound : float
        No metric has a smaller f.
    history : (n_iter + 1,)
        Objective of the best metric, before and after every plane.
    converged : bool
        Whether the gap reached the tolerance.
    """

    metric: Array
    objective: float
    bound: float
    history: Array
    converged: bool

    @property
    def gap(self) -> float:
        """Bound on what the objective can still fall."""
        return self.objective - self.bound

    @property
    def n_iter(self) -> int:
        """Number of planes that were sought."""
        return len(self.history) - 1


def project_psd(matrix: Array) -> Array:
    """Nearest positive semidefinite matrix to a symmetric one (q, q), in Frobenius norm.

    Examples
    --------
    >>> import numpy as np
    >>> from studies.methods.output_coding import project_psd
    >>> project_psd(np.array([[2.0, 0.0], [0.0, -1.0]]))
    array([[2., 0.],
           [0., 0.]])
    """
    values, vectors = np.linalg.eigh(matrix)
    result: Array = (vectors * np.maximum(values, 0.0)) @ vectors.T
    return result


def most_violated(metric: Array, fitted: Array, labels: Array, start: Array) -> Array:
    """Vectors (n, q) in the box that attain the slack of every row.

    Parameters
    ----------
    metric : (q, q)
        M.
    fitted, labels : (n, q)
        Regressions of the label vectors, and the vectors, of zeros and ones.
    start : (n, q)
        Where to start, in the box.
    """
    # |y_i - y| = sum_j y_ij + (1 - 2 y_ij) y_j
    linear = 2.0 * fitted @ metric + (1.0 - 2.0 * labels)
    return box_minimise(metric, linear, start)


def learn_metric(
    fitted: Array,
    labels: Array,
    C: float,
    tol: float = 0.01,
    max_iter: int = 500,
) -> MetricSolution:
    """Minimise f until the gap to the lower bound is at most `tol` times the objective.

    Parameters
    ----------
    fitted, labels : (n, q)
        Regressions of the label vectors, and the vectors, of zeros and ones.
    C : float
        Weight of the slack.
    tol : float
        Bound on the relative gap.
    max_iter : int
        Bound on the number of planes.
    """
    share = np.full(len(labels), 1.0 / len(labels))
    bundle = _Bundle(fitted, labels, C, share)
    vectors = most_violated(bundle.best, fitted, labels, labels)
    bundle.start(_plane(vectors, fitted, labels, share))
    history = [bundle.objective]
    while len(history) <= max_iter and bundle.objective - bundle.bound > tol * bundle.objective:
        metric = bundle.minimise_model(tol)
        # the worst vectors change little from one metric to the next
        vectors = most_violated(metric, fitted, labels, vectors)
        bundle.add(metric, _plane(vectors, fitted, labels, share))
        history.append(bundle.objective)
    converged = bundle.objective - bundle.bound <= tol * bundle.objective
    return MetricSolution(bundle.best, bundle.objective, bundle.bound, np.array(history), converged)


def _plane(vectors: Array, fitted: Array, labels: Array, share: Array) -> Plane:
    away, error = vectors - fitted, labels - fitted
    slope = (away.T * share) @ away - (error.T * share) @ error
    return Plane(slope, float(share @ np.abs(vectors - labels).sum(axis=1)))


class _Bundle:
    """Planes, the best metric so far, and how far from it the model is trusted.

    Attributes
    ----------
    best : (q, q)
        Best metric so far.
    objective, bound : float
        f of the best metric, and a lower bound of f.
    """

    def __init__(self, fitted: Array, labels: Array, C: float, share: Array) -> None:
        n_labels = labels.shape[1]
        self.best: Array = np.eye(n_labels)
        self.objective = np.inf
        self.bound = 0.0
        self._C = C
        self._half = 0.5 * np.eye(n_labels)
        # y = y_i everywhere, and y as near to the regression as the box allows: the planes that
        # are active at very small and at very large metrics. They make lower bounds feasible.
        nearest = np.clip(fitted, 0.0, 1.0)
        self._anchors = [
            Plane(np.zeros((n_labels, n_labels)), 0.0),
            _plane(nearest, fitted, labels, share),
        ]
        self._planes: list[Plane] = list(self._anchors)
        self._multipliers: Array = np.array([1.0, 0.0])
        self._stiffness = C  # weight of the squared distance from `best` in the model
        self._refused = 0
        self._model_value = -np.inf

    def start(self, plane: Plane) -> None:
        """Take in the plane of the first metric."""
        self.objective = self._value(self.best, plane)
        self._append(plane)

    def minimise_model(self, tol: float) -> Array:
        """Return the metric that minimises the model near the best metric so far.

        The dual problem, over convex combinations of planes, is solved by accelerated projected
        gradient ascent; a combination determines the metric in closed form.
        """
        slopes = np.array([plane.slope.ravel() for plane in self._planes])
        offsets = np.array([plane.offset for plane in self._planes])
        wanted = _MODEL_ACCURACY * max(self.objective - self.bound, tol * self.objective)
        length = self._stiffness / (
            self._C**2 * max(float(np.linalg.norm(slopes @ slopes.T, 2)), 1e-12)
        )
        current = ahead = self._multipliers
        momentum = 1.0
        for step in range(_MODEL_STEPS):
            slack = self._C * (offsets - slopes @ self._metric_of(ahead, slopes).ravel())
            following = _project_simplex(ahead + length * slack)
            if (ahead - following) @ (following - current) > 0:
                momentum = 1.0  # going uphill again: start over without momentum
            larger = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * momentum**2))
            ahead = following + (momentum - 1.0) / larger * (following - current)
            current, momentum = following, larger
            if step % 10 == 9:
                metric = self._metric_of(current, slopes)
                slack = self._C * (offsets - slopes @ metric.ravel())
                if slack.max() - current @ slack <= wanted:
                    break
        metric = self._metric_of(current, slopes)
        slack = self._C * (offsets - slopes @ metric.ravel())
        self._model_value = 0.5 * float(np.trace(metric)) + float(slack.max())
        self._multipliers = current
        self._raise_bound(slopes, offsets)
        return metric

    def _metric_of(self, multipliers: Array, slopes: Array) -> Array:
        """Minimiser over the cone of the proximal model with fixed multipliers."""
        descent = self._C * (multipliers @ slopes).reshape(self.best.shape) - self._half
        return project_psd(self.best + descent / self._stiffness)

    def _raise_bound(self, slopes: Array, offsets: Array) -> None:
        """Mix the current combination with an anchor until it bounds f on the whole cone.

        A combination with slope G and offset b bounds f by C b if I/2 - C G is positive
        semidefinite, for then tr(M)/2 - C <G, M> is nowhere negative.
        """
        slope = (self._multipliers @ slopes).reshape(self.best.shape)
        offset = float(self._multipliers @ offsets)
        for anchor in self._anchors:
            slack = self._half - self._C * anchor.slope
            if np.linalg.eigvalsh(slack)[0] <= 0:
                continue
            ratio = eigh(self._C * slope - self._half, slack, eigvals_only=True)[-1]
            share = max(0.0, ratio) / (1.0 + max(0.0, ratio))
            bound = self._C * ((1.0 - share) * offset + share * anchor.offset)
            self.bound = max(self.bound, float(bound))

    def add(self, metric: Array, plane: Plane) -> None:
        """Take in the plane of a metric, and the metric itself if it is good enough."""
        value = self._value(metric, plane)
        promised = self.objective - self._model_value
        gap = self.objective - self.bound
        if value <= self.objective - _SUFFICIENT * promised:
            self.best, self.objective = metric, value
            self._stiffen(0.5)
        elif promised < _EXHAUSTED * gap:
            # The model is right nearby, and it is the bound that lags: look farther.
            self._stiffen(0.5)
        else:
            self._refused += 1
            if self._refused == _PATIENCE:
                self._stiffen(2.0)
        self._append(plane)

    def _stiffen(self, factor: float) -> None:
        self._stiffness = max(factor * self._stiffness, _LEAST_STIFFNESS * self._C)
        self._refused = 0

    def _value(self, metric: Array, plane: Plane) -> float:
        slack = plane.offset - float(np.sum(plane.slope * metric))
        return 0.5 * float(np.trace(metric)) + self._C * slack

    def _append(self, plane: Plane) -> None:
        if len(self._planes) >= _MOST_PLANES:
            used = np.argsort(-self._multipliers, kind="stable")[:_FEWEST_PLANES]
            kept = np.union1d(used, np.arange(len(self._anchors)))
            self._planes = [self._planes[k] for k in kept]
            self._multipliers = self._multipliers[kept] / self._multipliers[kept].sum()
        self._planes.append(plane)
        self._multipliers = np.append(self._multipliers, 0.0)


def _project_simplex(point: Array) -> Array:
    """Nearest vector of non-negative numbers that sum to one."""
    descending = np.sort(point)[::-1]
    shifts = (np.cumsum(descending) - 1.0) / np.arange(1, len(point) + 1)
    last = np.flatnonzero(descending > shifts)[-1]
    result: Array = np.maximum(point - shifts[last], 0.0)
    return result


def code_of_metric(metric: Array) -> Array:
    """Return V (q, r) with V V' = M, columns by decreasing norm; directions M ignores left out.

    Examples
    --------
    >>> import numpy as np
    >>> from studies.methods.output_coding import code_of_metric
    >>> abs(code_of_metric(np.diag([1.0, 0.0, 4.0])))
    array([[0., 1.],
           [0., 0.],
           [2., 0.]])
    """
    values, vectors = np.linalg.eigh(metric)
    kept = np.flatnonzero(values > _RELATIVE_RANK * max(values[-1], 0.0))[::-1]
    result: Array = vectors[:, kept] * np.sqrt(values[kept])
    return result


def decode(precision: Array, fitted: Array, log_odds: Array) -> NDArray[np.int32]:
    r"""Label vectors that agree with regressions and classifiers together.

    .. math:: \min_y \; \tfrac12 (y - \hat y)^\top P (y - \hat y) - \langle o, y \rangle

    over the box, rounded, and improved by flips of one and of two labels.

    Parameters
    ----------
    precision : (q, q)
        P, positive semidefinite.
    fitted, log_odds : (n, q)
        Regressions of the label vectors, and the classifiers' log-odds o.

    Returns
    -------
    (n, q) of zeros and ones

    Examples
    --------
    >>> import numpy as np
    >>> from studies.methods.output_coding import decode
    >>> fitted = np.array([[0.6, 0.4]])
    >>> decode(np.eye(2), fitted, np.zeros((1, 2)))
    array([[1, 0]], dtype=int32)
    >>> decode(np.eye(2), fitted, np.array([[0.0, 2.0]]))
    array([[1, 1]], dtype=int32)
    """
    half = 0.5 * precision
    linear = fitted @ precision + log_odds
    relaxed = box_minimise(half, linear, np.clip(fitted, 0.0, 1.0))
    return corner_search(half, linear, np.round(relaxed)).astype(np.int32)


def mean_field(precision: Array, fitted: Array, log_odds: Array, max_sweeps: int = 200) -> Array:
    r"""Probability (n, q) of each label, from the classifiers' by sweeps over the labels.

    Errors of the code and classifiers together say

    .. math:: \log P(y) = -\tfrac12 (y - \hat y)^\top P (y - \hat y) + \langle o, y \rangle + const,

    and independent labels with :math:`q_j = Q(y_j = 1)` that have the least Kullback-Leibler
    divergence to it satisfy, each given the others,

    .. math:: \log \frac{q_j}{1 - q_j} = o_j - \tfrac12 P_{jj} + P_{jj} \hat y_j
              - \sum_{l \ne j} P_{jl} (q_l - \hat y_l).

    No step raises the divergence; where it ends depends on where it began.

    Parameters
    ----------
    precision : (q, q)
        P, positive semidefinite.
    fitted, log_odds : (n, q)
        Regressions of the label vectors, and the classifiers' log-odds o.
    max_sweeps : int

    Examples
    --------
    >>> import numpy as np
    >>> from studies.methods.output_coding import mean_field
    >>> mean_field(np.eye(1), np.array([[0.5]]), np.array([[0.0]]))
    array([[0.5]])
    """
    prob: Array = expit(log_odds)
    diagonal = np.diag(precision)
    alone = log_odds + diagonal * (fitted - 0.5)
    for _ in range(max_sweeps):
        change = 0.0
        for j in range(precision.shape[0]):
            away = prob - fitted
            others = away @ precision[:, j] - diagonal[j] * away[:, j]
            own = expit(alone[:, j] - others)
            change = max(change, float(np.abs(own - prob[:, j]).max(initial=0.0)))
            prob[:, j] = own
        if change < 1e-6:
            break
    return prob
