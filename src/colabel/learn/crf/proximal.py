"""Structure learning: accelerated proximal gradient with backtracking (Algorithm 1)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from colabel.core.arrays import Array
from colabel.learn.crf.penalties import Penalty, project_cones, shrink_groups
from colabel.learn.crf.pseudo_likelihood import Parameters, PseudoLikelihood

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
