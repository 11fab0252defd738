r"""Coordinates in which the objective of a field is nearly round.

The scores of a field are features times parameters, :math:`X \theta`, with :math:`\theta` of shape
(coordinates, columns). Where a row's curvature by its scores is about the same matrix A for all
rows, the Hessian of the objective is about the Kronecker product of the features' sums of squares
:math:`e_k = \sum_n x_{nk}^2` and A, plus twice the ridge :math:`\Lambda`. With
:math:`U^\top A U = D` and :math:`U^\top \Lambda U = I`, all of it is diagonal in
:math:`Z = \theta U^{-\top}`; times the square roots of :math:`e_k D_c + 2` it is round.

The cells of an edge's table, and its ends' own parameters, all move the same conditional scores:
without A, whose entries off the diagonal say so, a solver needs many times the iterations.
With very many columns only the entries of A within one edge, and within one variable, are used.

`StateLikelihood` is the likelihood of a field whose normaliser sums over a list of label vectors.
`tune` finds the parameters on a fixed graph by L-BFGS, without the group term.

Structure learning: accelerated proximal gradient with backtracking (Algorithm 1).

`Penalty` holds the penalties on the parameters of a field, with the proximal maps they need.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.optimize import minimize
from scipy.special import softmax

from colabel.core.arrays import Array, Codes, Flags, Indices, row_slices
from colabel.core.numeric import as_bytes
from colabel.learn.crf.pseudo_likelihood import FieldData, FieldLayout, Parameters, PseudoLikelihood


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
            trial = objective.value(theta) + penalty.smooth(theta, layout)[0]
            trial += linear * float(slack.sum())
            move = new - ahead
            distance = float(np.vdot(metric * move, move))
            bound = value + float(np.vdot(gradient, move)) + distance / (2.0 * length)
            if trial <= bound + _NOISE * abs(value) or length < 1e-300:
                break
            length *= _SHORTER
        uphill = float(np.vdot(metric * move, new - point)) < 0.0
        previous, point, momentum = point, new, 1 if uphill else momentum + 1
        profile.append(slack)
        values.append(trial + (penalty.group - linear) * float(slack.sum()))
        if distance <= tol * float(data.total_weight) * length:
            converged = True
            break
    theta, slack = split(point)
    return Structure(theta, slack, np.stack(profile), np.array(values), length, converged)


# Probabilities held at once.
_BLOCK = 1 << 22


def indicators(codes: Codes, layout: FieldLayout) -> tuple[sp.csr_array, sp.csr_array]:
    """Which node and edge columns label vectors (S, d) add up, two 0/1 CSR of S rows."""
    own = codes < layout.sizes - 1
    node = _marked(np.where(own, layout.node_start[:-1] + codes, -1), layout.n_node_columns)
    left, right = layout.edges.T
    cell = codes[:, left] * layout.sizes[right] + codes[:, right]
    last = layout.sizes[left] * layout.sizes[right] - 1
    edge = np.where(cell < last, layout.edge_start[:-1] + cell, -1)
    return node, _marked(edge, layout.n_edge_columns)


def _marked(columns: Indices, n_columns: int) -> sp.csr_array:
    """CSR with ones at the columns (S, m) of each row; negative ones are left out."""
    rows, places = np.nonzero(columns >= 0)
    shape = (len(columns), n_columns)
    return sp.csr_array((np.ones(len(rows)), (rows, columns[rows, places])), shape=shape)


class StateLikelihood:
    r"""Negative log-likelihood of a field over a list S of label vectors.

    .. math:: -\sum_n \omega_n \Bigl(s(y^n, x^n) - \log \sum_{y \in S \cup \{y^n\}}
              e^{s(y, x^n)}\Bigr)

    Of a row that lacks labels, s(y^n, x^n) is the logarithm of the sum over the vectors that agree
    with the others. Exact if S holds all vectors. With the vectors of the training rows it is the
    "supported inference" of Ghamrawi and McCallum.

    Parameters
    ----------
    data : FieldData
    layout : FieldLayout
    states : (S, d)

    Examples
    --------
    >>> import numpy as np
    >>> from colabel.labels import all_vectors
    >>> from colabel.learn.design import Design
    >>> from colabel.learn.crf.pseudo_likelihood import all_pairs
    >>> codes = np.array([[0, 1], [1, 1], [0, 0]], dtype=np.int32)
    >>> data = FieldData(Design.of(np.eye(3)), Design.constant(3), codes, np.ones(3))
    >>> layout = FieldLayout((2, 2), all_pairs(2))
    >>> objective = StateLikelihood(data, layout, all_vectors((2, 2)))
    >>> value, _ = objective.value_and_gradient(Parameters(np.zeros((3, 2)), np.zeros((1, 3))))
    >>> round(value / np.log(4))
    3
    """

    def __init__(self, data: FieldData, layout: FieldLayout, states: Codes) -> None:
        self.data = data
        self.layout = layout
        self._states = states
        self._node, self._edge = indicators(states, layout)
        self._own_node, self._own_edge = indicators(data.codes, layout)
        self._unlisted = np.isin(as_bytes(data.codes), as_bytes(states), invert=True)

    def value_and_gradient(self, theta: Parameters) -> tuple[float, Parameters]:
        """Return the objective and its gradient."""
        data = self.data
        node, edge = data.nodes.matmat(theta.node), data.edges.matmat(theta.edge)
        node_slope, edge_slope = np.empty_like(node), np.zeros_like(edge)
        value = 0.0
        for part in self._blocks():
            prob, own, given = self._probabilities(node, edge, part)
            weight = data.weight[part]
            value -= float(weight @ own)
            # The row's own vector, where it is not on the list, keeps its share of the sum.
            own_weight = weight * np.where(self._unlisted[part], 1.0 - np.exp(own), 1.0)
            if given is not None:
                prob -= given
                own_weight[given.any(axis=1)] = 0.0
            prob *= weight[:, None]
            missed = sp.diags_array(own_weight)
            node_slope[part] = (self._node.T @ prob.T).T - missed @ self._own_node[part]
            if data.edges.shared:
                own_edges = self._own_edge[part].T @ missed.diagonal()
                edge_slope[0] += self._edge.T @ prob.sum(axis=0) - own_edges
            else:
                edge_slope[part] = (self._edge.T @ prob.T).T - missed @ self._own_edge[part]
        return value, Parameters(data.nodes.rmatmat(node_slope), data.edges.rmatmat(edge_slope))

    def log_likelihood(self, theta: Parameters) -> Array:
        """Return the log-probability of every row's labels, (n,)."""
        node, edge = self.data.nodes.matmat(theta.node), self.data.edges.matmat(theta.edge)
        parts = [self._probabilities(node, edge, part)[1] for part in self._blocks()]
        return np.concatenate(parts)

    def _probabilities(
        self, node: Array, edge: Array, part: slice
    ) -> tuple[Array, Array, Array | None]:
        """Probabilities of the listed vectors (m, S), log-probabilities of the rows' labels (m,).

        Where labels are missing, also the probabilities (m, S) given the others.
        """
        edges = edge if self.data.edges.shared else edge[part]
        scores = (self._node @ node[part].T).T + (self._edge @ edges.T).T
        own = (self._own_node[part] * node[part]).sum(axis=1)
        own = own + (self._own_edge[part] * edges).sum(axis=1)
        highest = scores.max(axis=1)
        scores -= highest[:, None]
        np.exp(scores, out=scores)
        log_sum = highest + np.log(scores.sum(axis=1))
        log_sum = np.where(self._unlisted[part], np.logaddexp(log_sum, own), log_sum)
        given = None
        if self.data.known is not None:
            given = np.where(self._agreeing(part), scores, 0.0)
            share = given.sum(axis=1)
            listed = share > 0.0
            share[~listed] = 1.0
            own = np.where(listed, highest + np.log(share), own)
            given /= share[:, None]
        scores *= np.exp(highest - log_sum)[:, None]
        return scores, own - log_sum, given

    def _agreeing(self, part: slice) -> Flags:
        """Which listed vectors agree with the known labels of each row, (m, S)."""
        assert self.data.known is not None
        agreeing: Flags = ~self._unlisted[part, None]
        for codes, known, own in zip(
            self.data.codes[part].T, self.data.known[part].T, self._states.T, strict=True
        ):
            agreeing = agreeing & ((codes[:, None] == own) | ~known[:, None])
        return agreeing

    def _blocks(self) -> list[slice]:
        return row_slices(len(self.data.codes), _BLOCK, self._node.shape[0])


# Curvature is averaged over at most this many rows: it only has to be roughly right.
_ROWS = 800
# Above this many columns, the cubic cost of eigenvectors outweighs their use.
_LARGEST_ROTATION = 700
# Ridge strengths and eigenvalues below these shares of the largest curvature count as these.
_FLOOR = 1e-8
_TILT = 1e-5  # of the largest curvature


def curvature_blocks(
    data: FieldData, layout: FieldLayout, theta: Parameters, starts: Indices
) -> list[Array]:
    """Blocks on the diagonal of the mean Hessian of a row's log-pseudo-likelihood by its scores.

    Columns are those of the nodes, then those of the edges; block b has those from ``starts[b]``
    to ``starts[b + 1]``.
    """
    blocks = [np.zeros((size, size)) for size in np.diff(starts)]
    edge = data.edges.matmat(theta.edge)
    every = np.broadcast_to(edge, (len(data.codes), edge.shape[1]))
    scores = np.hstack([data.nodes.matmat(theta.node), every])
    for i, size in enumerate(layout.cardinalities):
        # Only the columns of variable i and of its edges move its conditional probability.
        own, edge_columns = layout.restrict((layout.edges == i).any(axis=1))
        node_columns = np.arange(layout.node_start[i], layout.node_start[i + 1])
        columns = np.concatenate([node_columns, layout.n_node_columns + edge_columns])
        active = np.empty((size, len(data.codes), len(columns)))  # which each value adds up
        for value in range(size):
            codes = data.codes.copy()
            codes[:, i] = value
            node, edges = indicators(codes, own)
            active[value] = np.hstack([node[:, node_columns].toarray(), edges.toarray()])
        probability = softmax(np.einsum("knc,nc->kn", active, scores[:, columns]), axis=0)
        active -= np.einsum("kn,knc->nc", probability, active)
        weight = data.weight if data.known is None else data.weight * data.known[:, i]
        active *= np.sqrt(probability * weight / data.weight.sum())[:, :, None]
        root = active.reshape(size * len(data.codes), len(columns))  # root' root is the Hessian
        block_of = np.searchsorted(starts, columns, side="right") - 1
        for block in np.unique(block_of):
            inside = block_of == block
            at = columns[inside] - starts[block]
            blocks[block][np.ix_(at, at)] += root[:, inside].T @ root[:, inside]
    return blocks


def _variances(data: FieldData, layout: FieldLayout, theta: Parameters) -> tuple[Array, Array]:
    """Mean variances (d,) of labels of two values given the others, and (d, d) with [y_j = 1]."""
    prob = np.exp(PseudoLikelihood(data, layout).log_conditionals(theta))
    variance = data.weight[:, None] * prob * (1.0 - prob) / data.weight.sum()
    return variance.sum(axis=0), variance.T @ (data.codes == 1)


@dataclass(frozen=True)
class _Block:
    """Round coordinates of one matrix (q, c) of parameters.

    Attributes
    ----------
    basis : (c, c) array or CSR
        U.
    inverse : (c, c) array or CSR
        Its inverse.
    scale : (q, c)
        Square roots of the curvatures along U.
    """

    basis: Any
    inverse: Any
    scale: Array

    @classmethod
    def of(cls, squares: Array, blocks: list[Array], ridge: Array) -> _Block:
        """From sums of squares (q,), blocks of the columns' curvature and ridge strengths (c,).

        The blocks are those on the diagonal, one or more; what lies outside counts as zero.
        """
        highest = max(float(np.diag(block).max(initial=0.0)) for block in blocks)
        ridge = np.maximum(ridge, _FLOOR * max(highest * float(squares.max()), 1e-300))
        sizes = np.array([len(block) for block in blocks])
        starts = np.cumsum(sizes) - sizes
        along, bases = np.zeros(len(ridge)), list(blocks)
        for size in np.unique(sizes[sizes > 0]):  # at once: there is a block for each edge
            places = np.flatnonzero(sizes == size)
            root = 1.0 / np.sqrt(ridge[starts[places, None] + np.arange(size)])
            # Directions of equal curvature, such as those that no row has, have no axes of their
            # own: without a slight slope, rounding would decide where a solver stops.
            slope = np.diag(np.linspace(0.0, _TILT * highest, size))
            stacked = np.stack([blocks[place] + slope for place in places])
            own, vectors = np.linalg.eigh(stacked * root[:, :, None] * root[:, None, :])
            for place, value, axes in zip(places, own, root[:, :, None] * vectors, strict=True):
                along[starts[place] : starts[place] + size], bases[place] = value, axes
        basis: Any = bases[0]
        if len(bases) > 1:
            filled = [sp.csr_array(axes) for axes in bases if len(axes)]
            basis = sp.csr_array(sp.block_diag(filled, format="csr") if filled else (0, 0))
        scale = np.sqrt(squares[:, None] * np.maximum(along, 0.0) + 2.0)
        return cls(basis, basis.T * ridge, scale)

    def to_basis(self, matrix: Array) -> Array:
        """Parameters to round coordinates."""
        return np.asarray(matrix @ self.inverse.T) * self.scale

    def from_basis(self, coordinates: Array) -> Array:
        """Round coordinates to parameters."""
        return np.asarray((coordinates / self.scale) @ self.basis.T)

    def gradient(self, matrix: Array) -> Array:
        """Gradient by parameters to gradient by round coordinates."""
        return np.asarray(matrix @ self.basis) / self.scale


def round_coordinates(
    data: FieldData, layout: FieldLayout, penalty: Penalty, theta: Parameters
) -> Interactions | RoundCoordinates:
    """Return coordinates for a field, from its curvature at `theta`.

    In these flat vectors the penalised objective has about unit curvature everywhere. `to_basis`
    takes parameters to coordinates and `from_basis` back; `gradient` takes the gradient by
    parameters to that by coordinates.
    """
    few = layout.is_binary and data.edges.shared and layout.n_edges and penalty.free
    return (Interactions if few else RoundCoordinates)(data, layout, penalty, theta)


class Interactions:
    r"""One coordinate for each edge: labels of two values, tables that all rows share.

    A table with cells w00, w01, w10 (and w11 = 0) acts by its interaction
    :math:`\theta = w_{01} + w_{10} - w_{00}`; the rest of it shifts the constants of its ends,
    which are not penalised. So at the optimum it is the shortest one,
    :math:`\theta (-1, 1, 1) / 3`. A coordinate moves the score of :math:`y_i` by
    :math:`\theta (y_j - \bar y_j)`, with constants that follow: hardly at all where the others are
    as usual, so that the many edges of a label do not all pull at its constant.

    Parameters
    ----------
    data, layout, penalty, theta
        See `RoundCoordinates`.
    """

    def __init__(
        self, data: FieldData, layout: FieldLayout, penalty: Penalty, theta: Parameters
    ) -> None:
        self._left, self._right = layout.edges.T
        self._shape = theta.node.shape
        single, paired = _variances(data.few(_ROWS), layout, theta)
        shares = paired / np.maximum(single, np.finfo(float).tiny)[:, None]
        # mean of y_j where y_i is open, and of y_i where y_j is
        self._means = shares[self._left, self._right], shares[self._right, self._left]
        curvature = sum(
            single[end] * mean * (1.0 - mean)
            for end, mean in zip((self._left, self._right), self._means, strict=True)
        )
        self._scale = np.sqrt(data.total_weight * curvature + 2.0 * penalty.ridge / 3.0)
        ridge = penalty.node[layout.label_of_column]
        self._node = _Block.of(data.nodes.sum_of_squares(), list(single[:, None, None]), ridge)

    def to_basis(self, theta: Parameters) -> Array:
        """Return the coordinates of parameters; tables become the shortest of their effect."""
        w00, w01, w10 = theta.edge.reshape(-1, 3).T
        strength = w01 + w10 - w00
        mean_right, mean_left = self._means
        node = theta.node.copy()
        node[-1] += self._gathered(w00 - w10 + strength * mean_right, self._left)
        node[-1] += self._gathered(w00 - w01 + strength * mean_left, self._right)
        return _flat([self._node.to_basis(node), strength * self._scale])

    def from_basis(self, flat: Array) -> Parameters:
        """Return the parameters at coordinates."""
        cut = int(np.prod(self._shape))
        node = self._node.from_basis(flat[:cut].reshape(self._shape))
        strength = flat[cut:] / self._scale
        for end, mean in zip((self._left, self._right), self._means, strict=True):
            node[-1] += self._gathered(strength * (2.0 / 3.0 - mean), end)
        edge = strength[:, None] * np.array([-1.0, 1.0, 1.0]) / 3.0
        return Parameters(node, edge.reshape(1, -1))

    def gradient(self, slope: Parameters) -> Array:
        """Return the gradient by coordinates, given the gradient by parameters."""
        s00, s01, s10 = slope.edge.reshape(-1, 3).T
        along = (s01 + s10 - s00) / 3.0
        for end, mean in zip((self._left, self._right), self._means, strict=True):
            along = along + slope.node[-1, end] * (2.0 / 3.0 - mean)
        return _flat([self._node.gradient(slope.node), along / self._scale])

    def _gathered(self, values: Array, ends: Indices) -> Array:
        return np.asarray(np.bincount(ends, values, self._shape[1]), dtype=np.float64)


class RoundCoordinates:
    """Flat vectors in which the penalised objective has about unit curvature everywhere.

    Where edges depend on the features that the nodes depend on, nodes and edges are rounded
    together, otherwise each for themselves.

    Parameters
    ----------
    data : FieldData
    layout : FieldLayout
    penalty : Penalty
        Its group term is left out.
    theta : Parameters
        Where the curvature is taken.
    most_columns : int
        Beyond which each variable and each edge is rounded by itself.
    """

    def __init__(
        self,
        data: FieldData,
        layout: FieldLayout,
        penalty: Penalty,
        theta: Parameters,
        most_columns: int = _LARGEST_ROTATION,
    ) -> None:
        self._cut = layout.n_node_columns
        self._shapes = (theta.node.shape, theta.edge.shape)
        # The same features, but for the value of the constant.
        self._together = (data.edges.coordinates is data.nodes.coordinates) and theta.node.shape[
            0
        ] == theta.edge.shape[0] > 1
        self._level = (data.edges.level or 1.0) if self._together else 1.0
        # All columns together, or the nodes' and the edges' apart; with very many columns, each
        # variable and each edge by itself.
        cut, end = self._cut, self._cut + layout.n_edge_columns
        starts, n_node_blocks = np.array([0, end] if self._together else [0, cut, end]), 1
        if end > most_columns:
            starts = np.concatenate([layout.node_start[:-1], cut + layout.edge_start])
            n_node_blocks = len(layout.sizes)
        blocks = curvature_blocks(data.few(_ROWS), layout, theta, starts)
        ridge = np.repeat([*penalty.node, penalty.ridge], [*(layout.sizes - 1), end - cut])
        squares = [data.nodes.sum_of_squares(), data.edges.sum_of_squares()]
        if self._together:
            self._blocks = [_Block.of(squares[0], blocks, ridge)]
        else:
            parts = blocks[:n_node_blocks], blocks[n_node_blocks:] or [np.zeros((0, 0))]
            ridges = np.split(ridge, [cut])
            self._blocks = [_Block.of(*own) for own in zip(squares, parts, ridges, strict=True)]

    def to_basis(self, theta: Parameters) -> Array:
        """Return the coordinates of parameters."""
        parts = self._parts(theta, self._level)
        return _flat([b.to_basis(part) for b, part in zip(self._blocks, parts, strict=True)])

    def gradient(self, slope: Parameters) -> Array:
        """Return the gradient by coordinates, given the gradient by parameters."""
        parts = self._parts(slope, 1.0 / self._level)
        return _flat([b.gradient(part) for b, part in zip(self._blocks, parts, strict=True)])

    def from_basis(self, flat: Array) -> Parameters:
        """Return the parameters at coordinates."""
        if self._together:
            (block,) = self._blocks
            both = block.from_basis(flat.reshape(block.scale.shape))
            node, edge = both[:, : self._cut].copy(), both[:, self._cut :].copy()
            edge[-1] /= self._level
            return Parameters(node, edge)
        cut = int(np.prod(self._shapes[0]))
        node, edge = (
            block.from_basis(part.reshape(shape))
            for block, part, shape in zip(
                self._blocks, (flat[:cut], flat[cut:]), self._shapes, strict=True
            )
        )
        return Parameters(node, edge)

    def _parts(self, theta: Parameters, level: float) -> list[Array]:
        """Node and edge matrices, side by side where rounded together, constants to one scale."""
        if not self._together:
            return [theta.node, theta.edge]
        both = np.hstack([theta.node, theta.edge])
        both[-1, self._cut :] *= level
        return [both]


def _flat(parts: list[Array]) -> Array:
    return np.concatenate([part.ravel() for part in parts])


# Pairs that L-BFGS remembers; with very many parameters they cost more than the products.
_CORRECTIONS, _FEW_CORRECTIONS = 20, 5
_MANY_PARAMETERS = 1 << 17


def tune(
    objective: PseudoLikelihood | StateLikelihood,
    penalty: Penalty,
    start: Parameters,
    *,
    tol: float = 1e-2,
    max_iter: int = 1000,
    coordinates_of: Any = round_coordinates,
) -> tuple[Parameters, int, bool]:
    """Minimise a field's objective plus both ridge terms.

    L-BFGS runs in coordinates in which the objective has about the same curvature everywhere, so
    that its first steps have the right length in every direction.

    Parameters
    ----------
    objective : PseudoLikelihood or StateLikelihood
    penalty : Penalty
        Its group term is left out.
    start : Parameters
    tol : float
        Bound on the entries of the gradient in these coordinates: how far, in standard errors, a
        coordinate may be from the optimum.
    max_iter : int
    coordinates_of : callable
        Makes the coordinates.

    Returns
    -------
    theta : Parameters
    n_iter : int
    converged : bool
    """
    layout, total = objective.layout, objective.data.total_weight
    coordinates = coordinates_of(objective.data, layout, penalty, start)

    def mean_objective(flat: Array) -> tuple[float, Array]:
        theta = coordinates.from_basis(flat)
        value, slope = objective.value_and_gradient(theta)
        ridge, ridge_slope = penalty.smooth(theta, layout)
        whole = Parameters(slope.node + ridge_slope.node, slope.edge + ridge_slope.edge)
        return (value + ridge) / total, coordinates.gradient(whole) / total

    first = coordinates.to_basis(start)
    if not first.size:
        return start, 0, True  # every variable has a single value
    options: Any = {
        "maxiter": max_iter,
        "maxfun": 2 * max_iter,
        "gtol": tol / total,  # of the mean objective
        "ftol": 0.0,
        "maxcor": _CORRECTIONS if first.size < _MANY_PARAMETERS else _FEW_CORRECTIONS,
    }
    # The stubs of SciPy do not know functions that return value and gradient of any shape.
    function: Any = mean_objective
    optimum = minimize(function, first, jac=True, method="L-BFGS-B", options=options)
    # A line search that can no longer improve has reached rounding error, not failed.
    converged = optimum.status == 0 or "ABNORMAL" in str(optimum.message)
    return coordinates.from_basis(optimum.x), int(optimum.nit), bool(converged)
