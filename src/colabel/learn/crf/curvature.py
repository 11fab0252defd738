r"""Coordinates in which the objective of a field is nearly round.

The scores of a field are features times parameters, :math:`X \theta`, with :math:`\theta` of shape
(coordinates, columns). Where a row's curvature by its scores is about the same matrix A for all
rows, the Hessian of the objective is about the Kronecker product of the features' energies
:math:`e_k = \sum_n x_{nk}^2` and A, plus twice the ridge :math:`\Lambda`. With
:math:`U^\top A U = D` and :math:`U^\top \Lambda U = I`, all of it is diagonal in
:math:`Z = \theta U^{-\top}`; times the square roots of :math:`e_k D_c + 2` it is round.

The cells of an edge's table, and its ends' own parameters, all move the same conditional scores:
without A, whose entries off the diagonal say so, a solver needs many times the iterations.
With very many columns only the entries of A within one edge, and within one variable, are used.

`StateLikelihood` is the likelihood of a field whose normaliser sums over a list of label vectors.
`Tuner` finds the parameters on a fixed graph by L-BFGS, without the group term.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import scipy.sparse as sp
from scipy.optimize import minimize
from scipy.special import softmax

from colabel.core.arrays import Array, Codes, Indices
from colabel.core.chunks import row_slices
from colabel.core.numeric import as_bytes
from colabel.learn.crf.proximal import Penalty
from colabel.learn.crf.pseudo_likelihood import FieldData, FieldLayout, Parameters, PseudoLikelihood

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

    Exact if S holds all vectors. With the vectors of the training rows it is the "supported
    inference" of Ghamrawi and McCallum.

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
        self._node, self._edge = indicators(states, layout)
        self._own_node, self._own_edge = indicators(data.codes, layout)
        self._unlisted = np.isin(as_bytes(data.codes), as_bytes(states), invert=True)

    def value_and_gradient(self, theta: Parameters) -> tuple[float, Parameters]:
        """Return the objective and its gradient."""
        data = self.data
        node, edge = data.nodes.times(theta.node), data.edges.times(theta.edge)
        node_slope, edge_slope = np.empty_like(node), np.zeros_like(edge)
        value = 0.0
        for part in self._blocks():
            prob, own = self._probabilities(node, edge, part)
            value -= float(data.weight[part] @ own)
            prob *= data.weight[part, None]
            # The row's own vector, where it is not on the list, keeps its share of the sum.
            kept = np.where(self._unlisted[part], np.exp(own), 0.0) * data.weight[part]
            missed = sp.diags_array(data.weight[part] - kept)
            node_slope[part] = (self._node.T @ prob.T).T - missed @ self._own_node[part]
            if data.edges.shared:
                own_edges = self._own_edge[part].T @ missed.diagonal()
                edge_slope[0] += self._edge.T @ prob.sum(axis=0) - own_edges
            else:
                edge_slope[part] = (self._edge.T @ prob.T).T - missed @ self._own_edge[part]
        return value, Parameters(data.nodes.pullback(node_slope), data.edges.pullback(edge_slope))

    def log_likelihood(self, theta: Parameters) -> Array:
        """Return the log-probability of every row's labels, (n,)."""
        node, edge = self.data.nodes.times(theta.node), self.data.edges.times(theta.edge)
        parts = [self._probabilities(node, edge, part)[1] for part in self._blocks()]
        return np.concatenate(parts)

    def _probabilities(self, node: Array, edge: Array, part: slice) -> tuple[Array, Array]:
        """Probabilities of the listed vectors (m, S), log-probabilities of the rows' own (m,)."""
        edges = edge if self.data.edges.shared else edge[part]
        scores = (self._node @ node[part].T).T + (self._edge @ edges.T).T
        own = (self._own_node[part] * node[part]).sum(axis=1)
        own = own + (self._own_edge[part] * edges).sum(axis=1)
        highest = scores.max(axis=1)
        scores -= highest[:, None]
        np.exp(scores, out=scores)
        log_sum = highest + np.log(scores.sum(axis=1))
        log_sum = np.where(self._unlisted[part], np.logaddexp(log_sum, own), log_sum)
        scores *= np.exp(highest - log_sum)[:, None]
        return scores, own - log_sum

    def _blocks(self) -> list[slice]:
        return row_slices(len(self.data.codes), _BLOCK, self._node.shape[0])


# Curvature is averaged over about this many rows: it only has to be roughly right.
_ROWS = 500
# Above this many columns, the cubic cost of eigenvectors outweighs their use.
_LARGEST_ROTATION = 700
# Ridge strengths and eigenvalues below these shares of the largest curvature count as these.
_FLOOR = 1e-8
_TILT = 1e-5  # of the largest curvature


def column_curvature(data: FieldData, layout: FieldLayout, theta: Parameters) -> Array:
    """Mean Hessian of a row's negative log-pseudo-likelihood by its scores, (c, c).

    Columns are those of the nodes, then those of the edges.
    """
    n_columns = layout.n_node_columns + layout.n_edge_columns
    total = np.zeros((n_columns, n_columns))
    for columns, root in _roots(data, layout, theta):
        total[np.ix_(columns, columns)] += root.T @ root
    return np.asarray(total / data.weight.sum())


def own_curvature(data: FieldData, layout: FieldLayout, theta: Parameters) -> list[Array]:
    """Blocks of `column_curvature` on the diagonal: one for each variable, then for each edge."""
    if layout.is_binary:
        return _binary_curvature(data, layout, theta)
    starts = np.concatenate([layout.node_start, layout.n_node_columns + layout.edge_start[1:]])
    block_of = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    blocks = [np.zeros((size, size)) for size in np.diff(starts)]
    for columns, root in _roots(data, layout, theta):
        cuts = np.flatnonzero(np.diff(block_of[columns])) + 1
        first = block_of[columns[np.concatenate([[0], cuts])]]
        for block, part in zip(first, np.split(root, cuts, axis=1), strict=True):
            blocks[block] += part.T @ part
    total = data.weight.sum()
    return [np.asarray(block / total) for block in blocks]


def _binary_curvature(data: FieldData, layout: FieldLayout, theta: Parameters) -> list[Array]:
    """Do what `own_curvature` does for variables of two values, by one product for all edges.

    The cells 00, 01 and 10 of edge (i, j) move the score of y_i by (1, 0, -1) where y_j = 0 and by
    (0, 1, 0) where y_j = 1; that of y_j by (1, -1, 0) where y_i = 0 and by (0, 0, 1) where
    y_i = 1.
    """
    alone, together = _variances(data, layout, theta)
    left, right = layout.edges.T
    on_right, on_left = together[left, right], together[right, left]
    off_right, off_left = alone[left] - on_right, alone[right] - on_left
    edge = np.zeros((layout.n_edges, 3, 3))
    edge[:, 0, 0] = off_right + off_left
    edge[:, 1, 1], edge[:, 2, 2] = on_right + off_left, on_left + off_right
    edge[:, 0, 1] = edge[:, 1, 0] = -off_left
    edge[:, 0, 2] = edge[:, 2, 0] = -off_right
    return [*alone[:, None, None], *edge]


def _variances(data: FieldData, layout: FieldLayout, theta: Parameters) -> tuple[Array, Array]:
    """Mean variances (d,) of labels of two values given the others, and (d, d) with [y_j = 1]."""
    prob = np.exp(PseudoLikelihood(data, layout).log_conditionals(theta))
    variance = data.weight[:, None] * prob * (1.0 - prob) / data.weight.sum()
    return variance.sum(axis=0), variance.T @ (data.codes == 1)


def _roots(
    data: FieldData, layout: FieldLayout, theta: Parameters
) -> Iterator[tuple[Indices, Array]]:
    """For each variable the columns (c_i,) that move it, and R (m, c_i): its Hessian is R'R."""
    edge = data.edges.times(theta.edge)
    every = np.broadcast_to(edge, (len(data.codes), edge.shape[1]))
    scores = np.hstack([data.nodes.times(theta.node), every])
    for i in range(data.codes.shape[1]):
        # Only the columns of variable i and of its edges move its conditional probability.
        own, edge_columns = layout.restrict((layout.edges == i).any(axis=1))
        node_columns = np.arange(layout.node_start[i], layout.node_start[i + 1])
        columns = np.concatenate([node_columns, layout.n_node_columns + edge_columns])
        if not len(columns):
            continue  # a variable of one value, without edges
        active = _active(data, own, i, node_columns)  # (K_i, n, c_i)
        probability = softmax(np.einsum("knc,nc->kn", active, scores[:, columns]), axis=0)
        active -= np.einsum("kn,knc->nc", probability, active)
        active *= np.sqrt(probability * data.weight)[:, :, None]
        yield columns, active.reshape(-1, len(columns))


def _active(data: FieldData, layout: FieldLayout, i: int, node_columns: Indices) -> Array:
    """Which of a variable's columns each of its values adds up, (K_i, n, columns)."""
    parts = []
    for value in range(layout.cardinalities[i]):
        codes = data.codes.copy()
        codes[:, i] = value
        node, edge = indicators(codes, layout)
        parts.append(np.hstack([node[:, node_columns].toarray(), edge.toarray()]))
    return np.stack(parts)


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
    def of(cls, energy: Array, blocks: list[Array], ridge: Array) -> _Block:
        """From energies (q,), blocks of the columns' curvature and ridge strengths (c,).

        The blocks are those on the diagonal, one or more; what lies outside counts as zero.
        """
        highest = max(float(np.diag(block).max(initial=0.0)) for block in blocks)
        ridge = np.maximum(ridge, _FLOOR * max(highest * float(energy.max()), 1e-300))
        cuts = np.cumsum([len(block) for block in blocks])[:-1]
        tilted = [_tilted(block, highest) for block in blocks]
        along, bases = _diagonalised(tilted, np.split(ridge, cuts))
        basis = bases[0] if len(bases) == 1 else _block_diagonal(bases)
        scale = np.sqrt(energy[:, None] * np.maximum(along, 0.0) + 2.0)
        return cls(basis, basis.T * ridge, scale)

    def enter(self, matrix: Array) -> Array:
        """Parameters to round coordinates."""
        return np.asarray(matrix @ self.inverse.T) * self.scale

    def leave(self, coordinates: Array) -> Array:
        """Round coordinates to parameters."""
        return np.asarray((coordinates / self.scale) @ self.basis.T)

    def gradient(self, matrix: Array) -> Array:
        """Gradient by parameters to gradient by round coordinates."""
        return np.asarray(matrix @ self.basis) / self.scale


def _diagonalised(blocks: list[Array], ridges: list[Array]) -> tuple[Array, list[Array]]:
    """Eigenvalues D (c,) and bases U of blocks A: U'AU = D, U'RU = I with the ridges R.

    Blocks of one size go together: there is one for each edge.
    """
    values: list[Array] = [np.empty(0)] * len(blocks)
    bases = list(blocks)
    sizes = np.array([len(block) for block in blocks])
    for size in np.unique(sizes[sizes > 0]):
        places = np.flatnonzero(sizes == size)
        root = 1.0 / np.sqrt(np.stack([ridges[p] for p in places]))
        scaled = np.stack([blocks[p] for p in places]) * root[:, :, None] * root[:, None, :]
        own, vectors = np.linalg.eigh(scaled)
        for place, value, basis in zip(places, own, root[:, :, None] * vectors, strict=True):
            values[place], bases[place] = value, basis
    return np.concatenate(values), bases


def _tilted(block: Array, highest: float) -> Array:
    """The curvature, with a slight slope along its diagonal.

    Directions of equal curvature, such as those that no row has, have no axes of their own: which
    are found would depend on rounding, and with them where a solver stops.
    """
    slope: Array = np.linspace(0.0, _TILT * highest, len(block))
    return block + np.diag(slope)


def _block_diagonal(blocks: list[Array]) -> sp.csr_array:
    filled = [sp.csr_array(block) for block in blocks if len(block)]
    return sp.csr_array(sp.block_diag(filled, format="csr") if filled else (0, 0))


def round_coordinates(
    data: FieldData, layout: FieldLayout, penalty: Penalty, theta: Parameters
) -> Interactions | RoundCoordinates:
    """Return coordinates for a field, from its curvature at `theta`.

    In these flat vectors the penalised objective has about unit curvature everywhere. `enter` takes
    parameters to coordinates and `leave` back; `gradient` takes the gradient by parameters to that
    by coordinates.
    """
    few = layout.is_binary and data.edges.shared and layout.n_edges
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
        alone, together = _variances(data.sample(_ROWS), layout, theta)
        shares = together / np.maximum(alone, np.finfo(float).tiny)[:, None]
        # mean of y_j where y_i is open, and of y_i where y_j is
        self._means = shares[self._left, self._right], shares[self._right, self._left]
        curvature = sum(
            alone[end] * mean * (1.0 - mean)
            for end, mean in zip((self._left, self._right), self._means, strict=True)
        )
        self._scale = np.sqrt(data.total_weight * curvature + 2.0 * penalty.ridge / 3.0)
        ridge = penalty.node[layout.label_of_column]
        self._node = _Block.of(data.nodes.energy(), list(alone[:, None, None]), ridge)

    def enter(self, theta: Parameters) -> Array:
        """Return the coordinates of parameters; tables become the shortest of their effect."""
        w00, w01, w10 = theta.edge.reshape(-1, 3).T
        strength = w01 + w10 - w00
        mean_right, mean_left = self._means
        node = theta.node.copy()
        node[-1] += self._gathered(w00 - w10 + strength * mean_right, self._left)
        node[-1] += self._gathered(w00 - w01 + strength * mean_left, self._right)
        return _flat([self._node.enter(node), strength * self._scale])

    def leave(self, flat: Array) -> Parameters:
        """Return the parameters at coordinates."""
        cut = int(np.prod(self._shape))
        node, strength = self._node.leave(flat[:cut].reshape(self._shape)), flat[cut:] / self._scale
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
    """

    def __init__(
        self, data: FieldData, layout: FieldLayout, penalty: Penalty, theta: Parameters
    ) -> None:
        self._cut = layout.n_node_columns
        self._shapes = (theta.node.shape, theta.edge.shape)
        # The same features, but for the value of the constant.
        self._together = (data.edges.coordinates is data.nodes.coordinates) and theta.node.shape[
            0
        ] == theta.edge.shape[0] > 1
        self._level = data.edges.level if self._together else 1.0
        curvatures = _curvatures(data.sample(_ROWS), layout, theta, together=self._together)
        energies = [data.nodes.energy(), data.edges.energy()]
        ridges = [
            penalty.node[layout.label_of_column],
            np.full(layout.n_edge_columns, penalty.ridge),
        ]
        if self._together:
            energies, ridges = energies[:1], [np.concatenate(ridges)]
        self._blocks = [_Block.of(*own) for own in zip(energies, curvatures, ridges, strict=True)]

    def enter(self, theta: Parameters) -> Array:
        """Return the coordinates of parameters."""
        parts = self._parts(theta, self._level)
        return _flat([b.enter(part) for b, part in zip(self._blocks, parts, strict=True)])

    def gradient(self, slope: Parameters) -> Array:
        """Return the gradient by coordinates, given the gradient by parameters."""
        parts = self._parts(slope, 1.0 / self._level)
        return _flat([b.gradient(part) for b, part in zip(self._blocks, parts, strict=True)])

    def leave(self, flat: Array) -> Parameters:
        """Return the parameters at coordinates."""
        if self._together:
            (block,) = self._blocks
            both = block.leave(flat.reshape(block.scale.shape))
            node, edge = both[:, : self._cut].copy(), both[:, self._cut :].copy()
            edge[-1] /= self._level
            return Parameters(node, edge)
        cut = int(np.prod(self._shapes[0]))
        node, edge = (
            block.leave(part.reshape(shape))
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


def _curvatures(
    data: FieldData, layout: FieldLayout, theta: Parameters, *, together: bool
) -> list[list[Array]]:
    """Blocks of the curvature by all columns, or by the nodes' and by the edges' apart.

    All of it is one block; with very many columns, each variable and each edge has its own.
    """
    cut = layout.n_node_columns
    if cut + layout.n_edge_columns <= _LARGEST_ROTATION:
        whole = column_curvature(data, layout, theta)
        return [[whole]] if together else [[whole[:cut, :cut]], [whole[cut:, cut:]]]
    own, n_labels = own_curvature(data, layout, theta), len(layout.cardinalities)
    # A field without edges still has a (empty) block of them.
    return [own] if together else [own[:n_labels], own[n_labels:] or [np.zeros((0, 0))]]


def _flat(parts: list[Array]) -> Array:
    return np.concatenate([part.ravel() for part in parts])


# Pairs that L-BFGS remembers; with very many parameters they cost more than the products.
_CORRECTIONS, _FEW_CORRECTIONS = 20, 5
_MANY_PARAMETERS = 1 << 17


class FieldObjective(Protocol):
    """A negative log-likelihood of a field, pseudo or not."""

    data: FieldData
    layout: FieldLayout

    def value_and_gradient(self, theta: Parameters) -> tuple[float, Parameters]:
        """Return the objective and its gradient."""
        ...


class Tuned(NamedTuple):
    """Parameters, how many iterations they took, and whether the tolerance was reached."""

    theta: Parameters
    n_iter: int
    converged: bool


@dataclass(frozen=True)
class Tuner:
    """Minimise a field's objective plus both ridge terms.

    L-BFGS runs in coordinates in which the objective has about the same curvature everywhere, so
    that its first steps have the right length in every direction.

    Parameters
    ----------
    tol : float
        Bound on the entries of the gradient in these coordinates: how far, in standard errors, a
        coordinate may be from the optimum.
    max_iter : int
    """

    tol: float = 1e-2
    max_iter: int = 1000

    def solve(self, objective: FieldObjective, penalty: Penalty, start: Parameters) -> Tuned:
        """Start from `start`."""
        layout, total = objective.layout, objective.data.total_weight
        coordinates = round_coordinates(objective.data, layout, penalty, start)

        def mean_objective(flat: Array) -> tuple[float, Array]:
            theta = coordinates.leave(flat)
            value, slope = objective.value_and_gradient(theta)
            ridge, ridge_slope = penalty.smooth(theta, layout)
            whole = Parameters(slope.node + ridge_slope.node, slope.edge + ridge_slope.edge)
            return (value + ridge) / total, coordinates.gradient(whole) / total

        first = coordinates.enter(start)
        if not first.size:
            return Tuned(start, 0, True)  # every variable has a single value
        options: Any = {
            "maxiter": self.max_iter,
            "maxfun": 2 * self.max_iter,
            "gtol": self.tol / total,  # of the mean objective
            "ftol": 0.0,
            "maxcor": _CORRECTIONS if first.size < _MANY_PARAMETERS else _FEW_CORRECTIONS,
        }
        # The stubs of SciPy do not know functions that return value and gradient of any shape.
        function: Any = mean_objective
        found = minimize(function, first, jac=True, method="L-BFGS-B", options=options)
        # A line search that can no longer improve has reached rounding error, not failed.
        converged = found.status == 0 or "ABNORMAL" in str(found.message)
        return Tuned(coordinates.leave(found.x), int(found.nit), bool(converged))
