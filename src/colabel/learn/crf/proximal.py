"""Structure learning: accelerated proximal gradient with backtracking (Algorithm 1).

`Penalty` holds the penalties on the parameters of a field, with the proximal maps they need.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from colabel.core.arrays import Array
from colabel.learn.crf.pseudo_likelihood import FieldLayout, Parameters, PseudoLikelihood


@dataclass(frozen=True)
class Penalty:
    r"""The penalty of equation 2.6.

    .. math:: R(\theta) = \sum_i \lambda_{v_i} \|v_i\|^2 + \lambda_w \Bigl((1 - \eta)
              \sum_e \|w_e\|^2 + \eta \sum_e \|w_e\|\Bigr)

    A node's constant is not penalised, as in the regression of a label alone; an edge's constant
    belongs to its group, so that an edge is present or absent as a whole.

    Attributes
    ----------
    node : (d,)
        :math:`\lambda_{v_i}`.
    edge : float
        :math:`\lambda_w`.
    eta : float
        Share :math:`\eta` of the group term, between 0 (ridge alone) and 1.

    Examples
    --------
    >>> import numpy as np
    >>> penalty = Penalty(np.ones(2), edge=4.0, eta=0.25)
    >>> penalty.ridge, penalty.group
    (3.0, 1.0)
    """

    node: Array
    edge: float
    eta: float

    @property
    def ridge(self) -> float:
        r"""Strength :math:`\lambda_w (1 - \eta)` of the edges' ridge term."""
        return self.edge * (1.0 - self.eta)

    @property
    def group(self) -> float:
        r"""Strength :math:`\lambda_w \eta` of the edges' group term."""
        return self.edge * self.eta

    def node_weights(self, layout: FieldLayout, n_coordinates: int) -> Array:
        """Ridge strength of every entry of the node matrix, zero for constants."""
        weights = np.tile(self.node[layout.label_of_column], (n_coordinates, 1))
        weights[-1] = 0.0
        return weights

    def smooth(self, theta: Parameters, layout: FieldLayout) -> tuple[float, Parameters]:
        """Return both ridge terms and their gradient."""
        node, edge = self.node[layout.label_of_column] * theta.node, self.ridge * theta.edge
        node[-1] = 0.0  # constants are not penalised
        value = float(np.vdot(node, theta.node) + np.vdot(edge, theta.edge))
        return value, Parameters(2.0 * node, 2.0 * edge)

    def value(self, theta: Parameters, layout: FieldLayout) -> float:
        """Return the whole penalty R."""
        groups = float(layout.edge_norms(theta.edge).sum())
        return self.smooth(theta, layout)[0] + self.group * groups


def shrink_groups(
    edge: Array, layout: FieldLayout, amount: float, metric: Array | None = None
) -> Array:
    r"""Group soft-threshold: the proximal map of `amount` times :math:`\sum_e \|w_e\|`.

    .. math:: w_e \mapsto \max(0, 1 - \mathrm{amount} / \|w_e\|) \, w_e

    With a diagonal metric D (q,) over coordinates, distances are measured by
    :math:`\sum_k D_k (w_k - z_k)^2`; then :math:`w_k = D_k z_k s / (D_k s + \mathrm{amount})`,
    where the norm s of the result solves
    :math:`\sum_k D_k^2 z_k^2 / (D_k s + \mathrm{amount})^2 = 1`.

    Examples
    --------
    >>> import numpy as np
    >>> from colabel.learn.crf.pseudo_likelihood import all_pairs
    >>> layout = FieldLayout((2, 2), all_pairs(2))
    >>> shrink_groups(np.array([[3.0, 0.0, 4.0]]), layout, 2.5)
    array([[1.5, 0. , 2. ]])
    """
    if amount == 0.0 or not layout.n_edges:
        return edge
    if metric is None:
        norms = layout.edge_norms(edge)
        factor = np.maximum(0.0, 1.0 - amount / np.maximum(norms, 1e-300))
        return np.asarray(edge * factor[layout.edge_of_column])
    squares = np.add.reduceat(edge**2, layout.edge_start[:-1], axis=1)  # (q, E)
    norm = _shrunken_norms(squares * metric[:, None] ** 2, metric, amount)[layout.edge_of_column]
    scaled = metric[:, None] * norm
    return np.asarray(edge * (scaled / (scaled + amount)))


def _shrunken_norms(squares: Array, metric: Array, amount: float) -> Array:
    """Roots s (E,) of sum_k squares_k / (metric_k s + amount)^2 = 1; zero where there is none.

    Newton's method on sum^(-1/2), which is nearly linear in s and concave: from the left it
    climbs to the root without passing it.
    """
    norm = np.zeros(squares.shape[1])
    alive = np.flatnonzero(squares.sum(axis=0) > amount**2)
    for _ in range(50):
        if not len(alive):
            break
        below = metric[:, None] * norm[alive] + amount
        total = (squares[:, alive] / below**2).sum(axis=0)
        slope = (squares[:, alive] * metric[:, None] / below**3).sum(axis=0)
        # f(s) = total^(-1/2) - 1 has the derivative total^(-3/2) * slope.
        change = (total**1.5 - total) / slope
        norm[alive] += np.maximum(change, 0.0)
        alive = alive[change > 1e-13 * np.maximum(norm[alive], 1e-300)]
    return norm


def project_cones(edge: Array, alpha: Array, layout: FieldLayout) -> tuple[Array, Array]:
    r"""Project every :math:`(w_e, \alpha_e)` onto the cone :math:`\|w_e\| \le \alpha_e` (2.11).

    Outside the cone and its polar the nearest point has the norm
    :math:`s = (\|w_e\| + \alpha_e) / 2`, in the direction of :math:`w_e`.

    Examples
    --------
    >>> import numpy as np
    >>> from colabel.learn.crf.pseudo_likelihood import all_pairs
    >>> layout = FieldLayout((2, 2), all_pairs(2))
    >>> project_cones(np.array([[3.0, 0.0, 4.0]]), np.array([0.0]), layout)
    (array([[1.5, 0. , 2. ]]), array([2.5]))
    """
    norms = layout.edge_norms(edge)
    inside = norms <= alpha
    radius = np.where(inside, alpha, np.maximum(0.0, (norms + alpha) / 2.0))
    factor = np.where(inside, 1.0, radius / np.maximum(norms, 1e-300))
    return edge * factor[layout.edge_of_column], radius


_SHORTER = 0.5  # the beta of Algorithm 1
_LONGER = 1.1  # a step that was cut once need not stay short for ever
# Relative rounding error of a sum of losses: increases below it cannot be told from none.
_NOISE = 1e-12


class Iterate(NamedTuple):
    """A point of the optimisation; `alpha` (E,) bounds or equals the norms of the edges."""

    node: Array
    edge: Array
    alpha: Array


class Structure(NamedTuple):
    """What structure learning found.

    Attributes
    ----------
    theta : Parameters
    alpha : (E,)
        Final slack of every edge; zero for edges that are absent.
    profile : (iterations + 1, E)
        Slack of every edge, from the start to the end (Figure 2 of the paper).
    objective : (iterations,)
        Penalised negative log-pseudo-likelihood after each iteration.
    step : float
        Last step length.
    converged : bool
    """

    theta: Parameters
    alpha: Array
    profile: Array
    objective: Array
    step: float
    converged: bool


@dataclass(frozen=True)
class ProximalGradient:
    r"""Minimise nlpl + R (equation 2.7) by Algorithm 1.

    Two forms of the same problem. "proximal" treats the norms by the group soft-threshold.
    "constrained" is the paper's (2.10): slack variables :math:`\alpha_e \ge \|w_e\|` enter the
    objective linearly, and points are projected onto the cones. Momentum is dropped whenever
    it points uphill, which keeps the method fast near the solution.

    Algorithm 1 measures distances by the Euclidean norm. The proximal form measures them by
    about the curvature of every coordinate instead, which takes fewer iterations when some
    features vary more than others; both reach the same minimum.

    Parameters
    ----------
    form : {"proximal", "constrained"}
    max_iter : int
        Bound on the iterations (50 in the paper).
    tol : float
        Stop when an iteration promises to lower the mean objective by less than this.
    """

    form: str = "proximal"
    max_iter: int = 200
    tol: float = 1e-6

    def solve(
        self,
        objective: PseudoLikelihood,
        penalty: Penalty,
        start: Parameters,
        step: float | None = None,
        alpha: Array | None = None,
    ) -> Structure:
        """Start from `start`; `alpha` (E,) starts the slacks of the constrained form."""
        problem = _Problem(objective, penalty, self.form == "constrained")
        norms = objective.layout.edge_norms(start.edge)
        point = Iterate(*start, norms if alpha is None else np.maximum(alpha, norms))
        total = objective.data.total_weight
        length = 1.0 if step is None else step
        previous, momentum = point, 1
        profile, values, converged = [point.alpha], [], False
        for _ in range(self.max_iter):
            ahead = _combine(point, previous, (momentum - 2) / (momentum + 1))
            new, value, length = _backtracked(problem, ahead, length)
            back = problem.weighted(_difference(ahead, new))
            uphill = _dot(back, _difference(new, point)) > 0.0
            previous, point, momentum = point, new, 1 if uphill else momentum + 1
            profile.append(point.alpha)
            values.append(value)
            if _dot(back, _difference(ahead, new)) <= self.tol * total * length:
                converged = True
                break
        theta = Parameters(point.node, point.edge)
        return Structure(theta, point.alpha, np.stack(profile), np.array(values), length, converged)


class _Problem:
    """Smooth part g and proximal map of one form."""

    def __init__(self, objective: PseudoLikelihood, penalty: Penalty, constrained: bool) -> None:
        self.objective = objective
        self.layout = objective.layout
        self.penalty = penalty
        self.constrained = constrained

        self._metric = self._curvatures()

    def _curvatures(self) -> Iterate:
        """Metric of every coordinate: about its curvature, or one number for all (see class)."""
        data, layout = self.objective.data, self.layout
        ridge = 2.0 * self.penalty.node_weights(layout, data.nodes.n_coordinates)
        node = 0.25 * data.nodes.scale()[:, None] + ridge
        edge = 0.25 * data.edges.scale()[:, None] + 2.0 * self.penalty.ridge
        largest = max(float(node.max(initial=1e-300)), float(edge.max(initial=1e-300)))
        if self.constrained:
            return Iterate(*(np.full((1, 1), largest),) * 2, np.full(1, largest))
        floor = 1e-6 * largest
        return Iterate(np.maximum(node, floor), np.maximum(edge, floor), np.zeros(1))

    def weighted(self, point: Iterate) -> Iterate:
        """Return the metric times a difference of points."""
        return _each(np.multiply, self._metric, point)

    def step(self, point: Iterate, gradient: Iterate, length: float) -> Iterate:
        """One proximal gradient step."""
        alpha_metric = self._metric.alpha if self.constrained else np.ones(1)
        moved = Iterate(
            point.node - length * gradient.node / self._metric.node,
            point.edge - length * gradient.edge / self._metric.edge,
            point.alpha - length * gradient.alpha / alpha_metric,
        )
        if self.constrained:
            edge, alpha = project_cones(moved.edge, moved.alpha, self.layout)
            return Iterate(moved.node, edge, alpha)
        edge = shrink_groups(
            moved.edge, self.layout, length * self.penalty.group, self._metric.edge[:, 0]
        )
        return Iterate(moved.node, edge, self.layout.edge_norms(edge))

    def smooth(self, point: Iterate) -> tuple[float, Iterate]:
        theta = Parameters(point.node, point.edge)
        value, slope = self.objective.value_and_gradient(theta)
        ridge, ridge_slope = self.penalty.smooth(theta, self.layout)
        group = self.penalty.group if self.constrained else 0.0
        gradient = Iterate(
            slope.node + ridge_slope.node,
            slope.edge + ridge_slope.edge,
            np.full(self.layout.n_edges, group),
        )
        return value + ridge + group * float(point.alpha.sum()), gradient

    def smooth_value(self, point: Iterate) -> float:
        theta = Parameters(point.node, point.edge)
        value = self.objective.value(theta) + self.penalty.smooth(theta, self.layout)[0]
        group = self.penalty.group if self.constrained else 0.0
        return value + group * float(point.alpha.sum())

    def nonsmooth_value(self, point: Iterate) -> float:
        return 0.0 if self.constrained else self.penalty.group * float(point.alpha.sum())


def _backtracked(problem: _Problem, ahead: Iterate, length: float) -> tuple[Iterate, float, float]:
    """One proximal step from `ahead`, shortened until its quadratic model bounds g."""
    value, gradient = problem.smooth(ahead)
    length *= _LONGER
    while True:
        new = problem.step(ahead, gradient, length)
        move = _difference(new, ahead)
        reached = problem.smooth_value(new)
        # In the proximal form alpha follows the norms: gradient and metric are zero there.
        distance = _dot(problem.weighted(move), move)
        bound = value + _dot(gradient, move) + distance / (2.0 * length)
        if reached <= bound + _NOISE * abs(value) or length < 1e-300:
            return new, reached + problem.nonsmooth_value(new), length
        length *= _SHORTER


def _each(function: Callable[..., Array], *points: Iterate) -> Iterate:
    return Iterate(*(function(*parts) for parts in zip(*points, strict=True)))


def _combine(point: Iterate, previous: Iterate, momentum: float) -> Iterate:
    if momentum <= 0.0:
        return point
    return _each(lambda new, old: new + momentum * (new - old), point, previous)


def _difference(left: Iterate, right: Iterate) -> Iterate:
    return _each(np.subtract, left, right)


def _dot(left: Iterate, right: Iterate) -> float:
    return float(sum(np.vdot(a, b) for a, b in zip(left, right, strict=True)))
