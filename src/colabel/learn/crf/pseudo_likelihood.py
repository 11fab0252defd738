"""The pseudo-likelihood of a pairwise conditional random field, and its gradient.

`FieldLayout` says where the parameters stand: in columns of a node and of an edge matrix. The inner
loops are compiled.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, NamedTuple, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from colabel.core.arrays import Array, Codes, Flags, Indices
from colabel.core.compiling import njit
from colabel.core.exponential import ORDERED, exp_of_negative, log_one_plus
from colabel.core.schema import Below, Between, Dims, Fields, Is, check_that, stored
from colabel.labels import MISSING
from colabel.learn.design import Design
from colabel.learn.structure.screening import label_residuals, score_statistics, score_sums


def all_pairs(n_labels: int) -> Indices:
    """Every pair i < j of labels, (d (d - 1) / 2, 2).

    Examples
    --------
    >>> all_pairs(3).tolist()
    [[0, 1], [0, 2], [1, 2]]
    """
    return np.stack(np.triu_indices(n_labels, 1), axis=1).astype(np.intp)


@stored("field-layout")
@dataclass(frozen=True)
class FieldLayout:
    r"""Columns of the parameters of a field.

    Variable i has the columns :math:`v_i^0 \dots v_i^{K_i - 2}` of the node matrix, edge (i, j)
    the cells of :math:`w_{ij}` in row order but the last of the edge matrix: the last value of a
    variable and the last cell of a table are zero, as in the paper (equation 2.3).

    Attributes
    ----------
    cardinalities : tuple of d int
        Number of values of every variable.
    edges : (E, 2)
        Pairs i < j of variables.

    Examples
    --------
    >>> layout = FieldLayout((2, 2, 3), all_pairs(3))
    >>> layout.n_node_columns, layout.n_edge_columns
    (4, 13)
    """

    cardinalities: Annotated[tuple[int, ...], "d", Between(1, 2**31), Is("sizes")]
    edges: Annotated[Indices, "e 2", Below("d")]

    @staticmethod
    def _check_stored(fields: Fields, dims: Dims) -> None:
        edges, sizes = fields["edges"], np.asarray(fields["cardinalities"], dtype=np.intp)
        check_that((edges[:, 0] < edges[:, 1]).all(), "an edge is not written as i < j")
        check_that(len(np.unique(edges, axis=0)) == len(edges), "an edge stands twice")
        dims["nodes"] = int((sizes - 1).sum())
        dims["cells"] = int((sizes[edges[:, 0]] * sizes[edges[:, 1]] - 1).sum())

    @cached_property
    def sizes(self) -> Indices:
        """Number of values of every variable as an array, (d,)."""
        return np.asarray(self.cardinalities, dtype=np.intp)

    @cached_property
    def node_start(self) -> Indices:
        """First column of every variable and the number of columns, (d + 1,)."""
        return np.concatenate([[0], np.cumsum(self.sizes - 1)]).astype(np.intp)

    @cached_property
    def edge_start(self) -> Indices:
        """First column of every edge and the number of columns, (E + 1,)."""
        cells = self.sizes[self.edges[:, 0]] * self.sizes[self.edges[:, 1]] - 1
        return np.concatenate([[0], np.cumsum(cells)]).astype(np.intp)

    @cached_property
    def is_binary(self) -> bool:
        """Whether all variables have two values."""
        return all(size == 2 for size in self.cardinalities)

    @property
    def n_node_columns(self) -> int:
        """Number of columns of the node matrix."""
        return int(self.node_start[-1])

    @property
    def n_edge_columns(self) -> int:
        """Number of columns of the edge matrix."""
        return int(self.edge_start[-1])

    @property
    def n_edges(self) -> int:
        """Number of edges E."""
        return len(self.edges)

    @cached_property
    def edge_of_column(self) -> Indices:
        """Edge of every column of the edge matrix."""
        return np.repeat(np.arange(self.n_edges), np.diff(self.edge_start)).astype(np.intp)

    @cached_property
    def label_of_column(self) -> Indices:
        """Variable of every column of the node matrix."""
        return np.repeat(np.arange(len(self.sizes)), self.sizes - 1).astype(np.intp)

    def edge_norms(self, edge: Array) -> Array:
        """Euclidean norm (E,) of the parameters of every edge, given the edge matrix."""
        squares = np.einsum("qc,qc->c", edge, edge)
        summed = np.bincount(self.edge_of_column, weights=squares, minlength=self.n_edges)
        return np.sqrt(summed)

    def restrict(self, kept: ArrayLike) -> tuple[FieldLayout, Indices]:
        """Return the layout of some edges (positions or flags) and their columns in this one."""
        chosen = np.arange(self.n_edges)[np.asarray(kept)]
        columns = [np.arange(self.edge_start[e], self.edge_start[e + 1]) for e in chosen]
        every = np.concatenate([np.empty(0, dtype=np.intp), *columns]).astype(np.intp)
        return FieldLayout(self.cardinalities, self.edges[chosen]), every

    def node_tables(self, scores: Array) -> list[Array]:
        """Node scores (n, node columns) as one (n, K_i) table per variable."""
        tables = []
        for i, size in enumerate(self.cardinalities):
            table = np.zeros((len(scores), size))
            table[:, : size - 1] = scores[:, self.node_start[i] : self.node_start[i + 1]]
            tables.append(table)
        return tables

    def edge_tables(self, scores: Array) -> list[Array]:
        """Edge scores (n, edge columns) as one (n, K_i, K_j) table per edge."""
        tables = []
        for e, (i, j) in enumerate(self.edges):
            table = np.zeros((len(scores), self.sizes[i] * self.sizes[j]))
            table[:, :-1] = scores[:, self.edge_start[e] : self.edge_start[e + 1]]
            tables.append(table.reshape(len(scores), self.sizes[i], self.sizes[j]))
        return tables


@njit(nogil=True, cache=True, error_model="numpy")
def pseudo_terms(
    node: Array,
    edge: Array,
    codes: Codes,
    weight: Array,
    known: Flags,
    sizes: Indices,
    edges: Indices,
    node_start: Indices,
    edge_start: Indices,
    node_slope: Array,
    edge_slope: Array,
    log_prob: Array,
) -> None:
    """Log-conditionals of equation 2.4 and the derivatives of their negative weighted sum.

    For every row, given node scores (n, cv) and edge scores (n, ce), or (1, ce) where tables do
    not depend on the row: fills `log_prob` (n, d) with log P(y_i | y_-i, x) and `node_slope`,
    `edge_slope` with derivatives by the scores. Derivatives by shared edge scores are summed.
    Terms of labels that are not `known` (n, d) are zero; all are where that is empty.
    """
    n_rows, n_labels = codes.shape
    shared = edge.shape[0] == 1
    first = np.zeros(n_labels + 1, dtype=np.intp)
    for i in range(n_labels):
        first[i + 1] = first[i] + sizes[i]
    score = np.empty(first[n_labels])
    if shared:
        edge_slope[:] = 0.0
    for row in range(n_rows):
        edge_row = 0 if shared else row
        for i in range(n_labels):
            for a in range(sizes[i] - 1):
                score[first[i] + a] = node[row, node_start[i] + a]
            score[first[i + 1] - 1] = 0.0
        for e in range(edges.shape[0]):
            i, j = edges[e, 0], edges[e, 1]
            y_i, y_j, start, width = codes[row, i], codes[row, j], edge_start[e], sizes[j]
            last = sizes[i] * width - 1
            for a in range(sizes[i]):
                cell = a * width + y_j
                if cell < last:
                    score[first[i] + a] += edge[edge_row, start + cell]
            for b in range(width):
                cell = y_i * width + b
                if cell < last:
                    score[first[j] + b] += edge[edge_row, start + cell]
        for i in range(n_labels):
            # Scores become residuals: weight times (P(a | rest) - [y_i = a]).
            highest = -np.inf
            for a in range(first[i], first[i + 1]):
                highest = max(highest, score[a])
            total = 0.0
            own = score[first[i] + codes[row, i]]
            for a in range(first[i], first[i + 1]):
                score[a] = math.exp(score[a] - highest)
                total += score[a]
            log_prob[row, i] = own - highest - math.log(total)
            for a in range(first[i], first[i + 1]):
                score[a] *= weight[row] / total
            score[first[i] + codes[row, i]] -= weight[row]
            if known.size and not known[row, i]:
                log_prob[row, i] = 0.0
                score[first[i] : first[i + 1]] = 0.0
            for a in range(sizes[i] - 1):
                node_slope[row, node_start[i] + a] = score[first[i] + a]
        if not shared:
            edge_slope[row, :] = 0.0
        for e in range(edges.shape[0]):
            # Equation 2.9: both ends' residuals, each in the cells that the other end allows.
            i, j = edges[e, 0], edges[e, 1]
            y_i, y_j, start, width = codes[row, i], codes[row, j], edge_start[e], sizes[j]
            last = sizes[i] * width - 1
            for a in range(sizes[i]):
                cell = a * width + y_j
                if cell < last:
                    edge_slope[edge_row, start + cell] += score[first[i] + a]
            for b in range(width):
                cell = y_i * width + b
                if cell < last:
                    edge_slope[edge_row, start + cell] += score[first[j] + b]


@njit(nogil=True, cache=True, error_model="numpy", fastmath=ORDERED)
def _settle(score: Array, off: Array, weight: float, log_prob: Array) -> None:
    """Turn scores s of y = 0 against y = 1 (d,) into residuals, and find log-probabilities (d,).

    With e = exp(-|s|), which never overflows: P(y = 0) = 1 / (1 + e) or e / (1 + e), the log of the
    true value's is min(own, 0) - log(1 + e), with own = s or -s, and the residual is
    weight (P(y = 0) - off).
    """
    for i in range(score.size):
        s = score[i]
        e = exp_of_negative(max(-abs(s), -708.0))
        own = s if off[i] == 1.0 else -s
        log_prob[i] = min(own, 0.0) - log_one_plus(e)
        zero = (1.0 if s >= 0.0 else e) / (1.0 + e)
        score[i] = weight * (zero - off[i])


@njit(nogil=True, cache=True, error_model="numpy")
def binary_terms(
    node: Array,
    edge: Array,
    codes: Codes,
    weight: Array,
    known: Flags,
    edges: Indices,
    node_slope: Array,
    edge_slope: Array,
    log_prob: Array,
) -> None:
    """Do what `pseudo_terms` does, for variables of two values: one score and no branches.

    With the cells 00, 01 and 10 of edge (i, j), the score of y_i = 0 against y_i = 1 is
    w00 - w10 where y_j = 0, and w01 where y_j = 1.
    """
    n_rows, n_labels = codes.shape
    shared = edge.shape[0] == 1
    score, off = np.empty(n_labels), np.empty(n_labels)
    if shared:
        edge_slope[:] = 0.0
    for row in range(n_rows):
        table = edge[0 if shared else row]
        for i in range(n_labels):
            score[i] = node[row, i]
            off[i] = 1.0 - codes[row, i]
        for e in range(edges.shape[0]):
            i, j = edges[e, 0], edges[e, 1]
            w00, w01, w10 = table[3 * e], table[3 * e + 1], table[3 * e + 2]
            score[i] += off[j] * (w00 - w10) + (1.0 - off[j]) * w01
            score[j] += off[i] * (w00 - w01) + (1.0 - off[i]) * w10
        _settle(score, off, weight[row], log_prob[row])
        if known.size:
            score *= known[row]
            log_prob[row] *= known[row]
        node_slope[row] = score
        slope = edge_slope[0 if shared else row]
        for e in range(edges.shape[0]):
            i, j = edges[e, 0], edges[e, 1]
            s00 = off[j] * score[i] + off[i] * score[j]
            s01 = (1.0 - off[j]) * score[i] - off[i] * score[j]
            s10 = (1.0 - off[i]) * score[j] - off[j] * score[i]
            if shared:
                slope[3 * e] += s00
                slope[3 * e + 1] += s01
                slope[3 * e + 2] += s10
            else:
                slope[3 * e] = s00
                slope[3 * e + 1] = s01
                slope[3 * e + 2] = s10


Result = TypeVar("Result")

_SPARSE = 0.1  # share of labels below which products with them are sparse


class Parameters(NamedTuple):
    """Parameters of a field, or a gradient by them.

    Attributes
    ----------
    node : (q_v, node columns)
    edge : (q_e, edge columns)
    """

    node: Array
    edge: Array


@dataclass(frozen=True)
class FieldData:
    """Rows to learn a field from.

    Attributes
    ----------
    nodes, edges : Design
        Features of nodes and of edges; the edges' may be one shared row.
    codes : (n, d)
        Codes of the labels, none missing.
    weight : (n,)
        Weights of the rows.
    known : (n, d) or None
        Which labels are known where the codes of others were drawn: these are neighbours alone.
    """

    nodes: Design
    edges: Design
    codes: Codes
    weight: Array
    known: Flags | None = None

    @property
    def targets(self) -> Codes:
        """Codes (n, d) of the labels, missing where they are not known."""
        if self.known is None:
            return self.codes
        return np.where(self.known, self.codes, MISSING).astype(np.int32)

    @property
    def total_weight(self) -> float:
        """Sum of the row weights."""
        return float(self.weight.sum())

    def objective(self, make: Callable[..., Result], layout: FieldLayout) -> Result:
        """Return ``make(data, layout)``, a likelihood of these rows."""
        return make(self, layout)

    def scored(self, score: Score, layout: FieldLayout, theta: Parameters) -> RowScores:
        """Score every row."""
        return RowScores(score(self, layout, theta), self.weight)

    def few(self, n_rows: int) -> FieldData:
        """Return at most `n_rows` rows of positive weight, evenly spread."""
        counted = np.flatnonzero(self.weight > 0)
        return self.rows(counted[:: max(1, -(-len(counted) // n_rows))])

    def varied(self) -> Flags:
        """Labels (d,) that differ between rows of positive weight."""
        counted = self.codes[self.weight > 0]
        return np.asarray((counted != counted[:1]).any(axis=0))

    def dependence(self, node: Array, layout: FieldLayout) -> Array:
        """Score tests (d, d) of pairs, by node parameters (q_v, node columns) alone."""
        return score_statistics(pair_sums(self, node, layout), layout.cardinalities)

    def in_single(self) -> FieldData:
        """Return the same rows, whose products may round; see `Design.in_single`."""
        return replace(self, nodes=self.nodes.in_single(), edges=self.edges.in_single())

    def rows(self, index: Indices) -> FieldData:
        """Return some of the rows."""
        known = None if self.known is None else self.known[index]
        parts = self.nodes.take(index), self.edges.take(index), self.codes[index]
        return FieldData(*parts, self.weight[index], known)


Score = Callable[[FieldData, FieldLayout, Parameters], Array]


@dataclass(frozen=True)
class RowScores:
    """Scores (n,) of rows held out, and the weights (n,) of these."""

    values: Array
    weight: Array

    def total(self) -> float:
        """Sum of the scores, by weight."""
        return float(self.weight @ self.values)

    def below(self, best: RowScores) -> tuple[float, float]:
        """Weighted sums of what the rows lose against other scores, and of its square."""
        loss = best.values - self.values
        return float(self.weight @ loss), float(self.weight @ loss**2)


def pair_sums(data: FieldData, node: Array, layout: FieldLayout) -> tuple[Array, Array]:
    """Sums over rows that `score_statistics` needs."""
    tables = layout.node_tables(data.nodes.matmat(node))
    log_prob = [table - np.logaddexp.reduce(table, axis=1)[:, None] for table in tables]
    scores = [(np.diff(table) if table.shape[1] == 2 else table).T for table in log_prob]
    return score_sums(label_residuals(scores, data.targets, layout.cardinalities), data.weight)


class PseudoLikelihood:
    r"""Negative log-pseudo-likelihood of equations 2.4 and 2.5.

    .. math:: nlpl(\theta) = -\sum_n \omega_n \sum_i \log P(y_i^n \mid y_{-i}^n, x^n)

    All node and edge scores of all rows are two matrix products, the conditionals one fused
    pass over the rows, the gradient (2.8, 2.9) two transposed products. Where two-valued labels
    have tables that all rows share, what the edges add is a product of rows by labels with labels
    by labels: nothing is then as large as rows by edges.

    Parameters
    ----------
    data : FieldData
    layout : FieldLayout

    Examples
    --------
    >>> import numpy as np
    >>> from colabel.learn.crf.pseudo_likelihood import all_pairs
    >>> X, codes = np.eye(3), np.array([[0, 1], [1, 1], [0, 0]], dtype=np.int32)
    >>> features = Design.of(X)
    >>> data = FieldData(features, features, codes, np.ones(3))
    >>> objective = PseudoLikelihood(data, FieldLayout((2, 2), all_pairs(2)))
    >>> q = features.n_coordinates
    >>> zero = Parameters(np.zeros((q, 2)), np.zeros((q, 3)))
    >>> value, gradient = objective.value_and_gradient(zero)
    >>> round(value / np.log(2))  # at zero each of the six labels has probability one half
    6
    """

    def __init__(self, data: FieldData, layout: FieldLayout) -> None:
        self.data = data
        self.layout = layout

    def value_and_gradient(self, theta: Parameters) -> tuple[float, Parameters]:
        """Return the objective and its gradient."""
        log_prob, node_slope, edge_slope = self._terms(theta)
        value = -float(self.data.weight @ log_prob.sum(axis=1))
        gradient = Parameters(
            self.data.nodes.rmatmat(node_slope), self.data.edges.rmatmat(edge_slope)
        )
        return value, gradient

    def value(self, theta: Parameters) -> float:
        """Return the objective alone."""
        return -float(self.data.weight @ self.log_conditionals(theta).sum(axis=1))

    def log_conditionals(self, theta: Parameters) -> Array:
        """Return log P(y_i | y_-i, x), (n, d)."""
        return self._terms(theta)[0]

    def _terms(self, theta: Parameters) -> tuple[Array, Array, Array]:
        data, layout = self.data, self.layout
        node = data.nodes.matmat(theta.node)
        edge = data.edges.matmat(theta.edge)
        log_prob = np.empty(data.codes.shape)
        known = np.empty((0, 0), dtype=bool) if data.known is None else data.known
        of_rows = data.codes, data.weight, known
        node_slope, edge_slope = np.empty_like(node), np.empty_like(edge)
        if layout.is_binary and data.edges.shared:
            self._shared_terms(node, edge[0], of_rows, node_slope, edge_slope[0], log_prob)
            return log_prob, node_slope, edge_slope
        if layout.is_binary:
            binary_terms(node, edge, *of_rows, layout.edges, node_slope, edge_slope, log_prob)
            return log_prob, node_slope, edge_slope
        pseudo_terms(
            node,
            edge,
            *of_rows,
            layout.sizes,
            layout.edges,
            layout.node_start,
            layout.edge_start,
            node_slope,
            edge_slope,
            log_prob,
        )
        return log_prob, node_slope, edge_slope

    def _shared_terms(
        self,
        node: Array,
        edge: Array,
        of_rows: tuple[Codes, Array, Flags],
        node_slope: Array,
        edge_slope: Array,
        log_prob: Array,
    ) -> None:
        r"""Fill the terms of two-valued labels whose tables all rows share.

        With :math:`u_{ij}` what :math:`y_j = 0` adds to the score of :math:`y_i = 0` and
        :math:`D_{ji}` how much more :math:`y_j = 1` does, the scores are
        :math:`\text{node} + \sum_j u_{ij} + Y D`. The derivatives of the tables follow from
        :math:`G = R^\top Y` and the column sums of the residuals R.
        """
        left, right = self.layout.edges.T
        w00, w01, w10 = edge.reshape(-1, 3).T
        n_labels = node.shape[1]
        added = np.bincount(left, w00 - w10, n_labels) + np.bincount(right, w00 - w01, n_labels)
        more = np.zeros((n_labels, n_labels))
        more[right, left], more[left, right] = w01 - (w00 - w10), w10 - (w00 - w01)
        scores = node + added + self._on @ more
        no_edges, nothing = np.empty((0, 2), dtype=np.intp), np.empty((1, 0))
        binary_terms(scores, nothing, *of_rows, no_edges, node_slope, nothing, log_prob)
        together, total = (self._on.T @ node_slope).T, node_slope.sum(axis=0)
        on_right, on_left = together[left, right], together[right, left]
        off_right, off_left = total[left] - on_right, total[right] - on_left
        slopes = (off_right + off_left, on_right - off_left, on_left - off_right)
        edge_slope[:] = np.stack(slopes, axis=1).ravel()

    @cached_property
    def _on(self) -> Any:
        """Labels that have the second of two values, (n, d): CSR where they are few."""
        on = sp.csr_array(self.data.codes == 1, dtype=np.float64)
        return on if on.nnz < _SPARSE * on.shape[0] * on.shape[1] else on.toarray()
