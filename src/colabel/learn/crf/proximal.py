"""Structure learning: accelerated proximal gradient with backtracking (Algorithm 1).

`Penalty` holds the penalties on the parameters of a field, with the proximal maps they need.
"""

from __future__ import annotations

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

    A node's constant is not penalised, as in the regression of a label alone, if it is `free`; an
    edge's constant belongs to its group, so that an edge is present or absent as a whole.

    Attributes
    ----------
    node : (d,)
        :math:`\lambda_{v_i}`.
    edge : float
        :math:`\lambda_w`.
    eta : float
        Share :math:`\eta` of the group term, between 0 (ridge alone) and 1.
    free : bool
        Whether the constants of the nodes go free.

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
    free: bool = True

    @property
    def ridge(self) -> float:
        r"""Strength :math:`\lambda_w (1 - \eta)` of the edges' ridge term."""
        return self.edge * (1.0 - self.eta)

    @property
    def group(self) -> float:
        r"""Strength :math:`\lambda_w \eta` of the edges' group term."""
        return self.edge * self.eta

    def smooth(self, theta: Parameters, layout: FieldLayout) -> tuple[float, Parameters]:
        """Return both ridge terms and their gradient."""
        node, edge = self.node[layout.label_of_column] * theta.node, self.ridge * theta.edge
        if self.free:
            node[-1] = 0.0
        value = float(np.vdot(node, theta.node) + np.vdot(edge, theta.edge))
        return value, Parameters(2.0 * node, 2.0 * edge)


def shrink_groups(edge: Array, layout: FieldLayout, amount: float, metric: Array) -> Array:
    r"""Group soft-threshold: the proximal map of `amount` times :math:`\sum_e \|w_e\|`.

    Distances are measured by :math:`\sum_k D_k (w_k - z_k)^2`, with a diagonal metric D (q,) over
    coordinates; then :math:`w_k = D_k z_k s / (D_k s + \mathrm{amount})`,
    where the norm s of the result solves
    :math:`\sum_k D_k^2 z_k^2 / (D_k s + \mathrm{amount})^2 = 1`.

    Examples
    --------
    >>> import numpy as np
    >>> from colabel.learn.crf.pseudo_likelihood import all_pairs
    >>> layout = FieldLayout((2, 2), all_pairs(2))
    >>> shrink_groups(np.array([[3.0, 0.0, 4.0]]), layout, 2.5, np.ones(1))
    array([[1.5, 0. , 2. ]])
    """
    if amount == 0.0 or not layout.n_edges:
        return edge
    squares = np.add.reduceat(edge**2, layout.edge_start[:-1], axis=1) * metric[:, None] ** 2
    # Newton's method on sum^(-1/2), which is nearly linear in s and concave: from the left it
    # climbs to the root without passing it. Where there is none, the edge is absent.
    norm = np.zeros(layout.n_edges)
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
    scaled = metric[:, None] * norm[layout.edge_of_column]
    return np.asarray(edge * (scaled / (scaled + amount)))


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


def learn_structure(
    objective: PseudoLikelihood,
    penalty: Penalty,
    start: Parameters,
    *,
    form: str = "proximal",
    max_iter: int = 200,
    tol: float = 1e-6,
    step: float = 1.0,
    alpha: Array | None = None,
) -> Structure:
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
    objective : PseudoLikelihood
    penalty : Penalty
    start : Parameters
    form : {"proximal", "constrained"}
    max_iter : int
        Bound on the iterations (50 in the paper).
    tol : float
        Stop when an iteration promises to lower the mean objective by less than this.
    step : float
        First step length.
    alpha : (E,), optional
        Starts the slacks of the constrained form.
    """
    layout, data = objective.layout, objective.data
    constrained = form == "constrained"
    sizes = [start.node.size, start.edge.size, layout.n_edges]
    ends = np.cumsum(sizes)[:-1]

    def split(point: Array) -> tuple[Parameters, Array]:
        """Points are flat: nodes, edges, slacks; these follow the norms in the proximal form."""
        node, edge, slack = np.split(point, ends)
        theta = Parameters(node.reshape(start.node.shape), edge.reshape(start.edge.shape))
        return theta, slack

    ridge = 2.0 * np.tile(penalty.node[layout.label_of_column], (len(start.node), 1))
    if penalty.free:
        ridge[-1] = 0.0
    edge_metric = 0.25 * data.edges.scale() + 2.0 * penalty.ridge
    node_metric = 0.25 * data.nodes.scale()[:, None] + ridge
    largest = max(float(node_metric.max(initial=1e-300)), float(edge_metric.max(initial=1e-300)))
    edge_metric = np.maximum(edge_metric, 1e-6 * largest)
    every = [node_metric, np.repeat(edge_metric, layout.n_edge_columns), np.zeros(layout.n_edges)]
    metric = np.maximum(np.concatenate([part.ravel() for part in every]), 1e-6 * largest)
    metric[ends[1] :] = 0.0  # no distance is measured along slacks that follow
    if constrained:
        metric[:] = largest
    linear = penalty.group if constrained else 0.0
    inverse = 1.0 / np.maximum(metric, 1e-300)

    def proximal(moved: Array, length: float) -> Array:
        theta, slack = split(moved)
        if constrained:
            edge, slack = project_cones(theta.edge, slack, layout)
        else:
            edge = shrink_groups(theta.edge, layout, length * penalty.group, edge_metric)
            slack = layout.edge_norms(edge)
        return np.concatenate([theta.node.ravel(), edge.ravel(), slack])

    norms = layout.edge_norms(start.edge)
    slack = norms if alpha is None else np.maximum(alpha, norms)
    point = previous = np.concatenate([start.node.ravel(), start.edge.ravel(), slack])
    momentum, length, converged = 1, step, False
    profile, values = [slack], []
    for _ in range(max_iter):
        ahead = point + max(0.0, (momentum - 2) / (momentum + 1)) * (point - previous)
        theta, slack = split(ahead)
        value, slope = objective.value_and_gradient(theta)
        ridge_value, ridge_slope = penalty.smooth(theta, layout)
        value += ridge_value + linear * float(slack.sum())
        gradient = np.concatenate(
            [
                (slope.node + ridge_slope.node).ravel(),
                (slope.edge + ridge_slope.edge).ravel(),
                np.full(layout.n_edges, linear),
            ]
        )
        length *= _LONGER
        while True:  # shortened until the quadratic model of the smooth part bounds it
            new = proximal(ahead - length * inverse * gradient, length)
            theta, slack = split(new)
            reached = objective.value(theta) + penalty.smooth(theta, layout)[0]
            reached += linear * float(slack.sum())
            move = new - ahead
            distance = float(np.vdot(metric * move, move))
            bound = value + float(np.vdot(gradient, move)) + distance / (2.0 * length)
            if reached <= bound + _NOISE * abs(value) or length < 1e-300:
                break
            length *= _SHORTER
        uphill = float(np.vdot(metric * move, new - point)) < 0.0
        previous, point, momentum = point, new, 1 if uphill else momentum + 1
        profile.append(slack)
        values.append(reached + (penalty.group - linear) * float(slack.sum()))
        if distance <= tol * float(data.total_weight) * length:
            converged = True
            break
    theta, slack = split(point)
    return Structure(theta, slack, np.stack(profile), np.array(values), length, converged)
