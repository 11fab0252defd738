"""Penalties on the parameters of a field, and the proximal maps they need."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from colabel.core.arrays import Array
from colabel.learn.crf.layout import FieldLayout
from colabel.learn.crf.pseudo_likelihood import Parameters


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
    >>> from colabel.learn.crf.layout import all_pairs
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
    >>> from colabel.learn.crf.layout import all_pairs
    >>> layout = FieldLayout((2, 2), all_pairs(2))
    >>> project_cones(np.array([[3.0, 0.0, 4.0]]), np.array([0.0]), layout)
    (array([[1.5, 0. , 2. ]]), array([2.5]))
    """
    norms = layout.edge_norms(edge)
    inside = norms <= alpha
    radius = np.where(inside, alpha, np.maximum(0.0, (norms + alpha) / 2.0))
    factor = np.where(inside, 1.0, radius / np.maximum(norms, 1e-300))
    return edge * factor[layout.edge_of_column], radius
