"""The pseudo-likelihood of a pairwise conditional random field, and its gradient."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np
import scipy.sparse as sp

from colabel.core.arrays import Array, Codes, Flags, Indices
from colabel.learn.crf._kernels import binary_terms, pseudo_terms
from colabel.learn.crf.layout import FieldLayout
from colabel.learn.design import Design
from colabel.learn.structure.screening import label_residuals, score_statistics, score_sums

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
    """

    nodes: Design
    edges: Design
    codes: Codes
    weight: Array

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

    def sample(self, n_rows: int) -> FieldData:
        """Return about `n_rows` of the rows, evenly spread."""
        return self.rows(np.arange(0, len(self.codes), max(1, len(self.codes) // n_rows)))

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
        return FieldData(
            self.nodes.take(index), self.edges.take(index), self.codes[index], self.weight[index]
        )


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
    tables = layout.node_tables(data.nodes.times(node))
    log_prob = [table - np.logaddexp.reduce(table, axis=1)[:, None] for table in tables]
    scores = [(np.diff(table) if table.shape[1] == 2 else table).T for table in log_prob]
    return score_sums(label_residuals(scores, data.codes, layout.cardinalities), data.weight)


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
    >>> from colabel.learn.crf.layout import all_pairs
    >>> X, codes = np.eye(3), np.array([[0, 1], [1, 1], [0, 0]], dtype=np.int32)
    >>> features = Design.of(X)
    >>> data = FieldData(features, features, codes, np.ones(3))
    >>> objective = PseudoLikelihood(data, FieldLayout((2, 2), all_pairs(2)))
    >>> value, gradient = objective.value_and_gradient(objective.zeros())
    >>> round(value / np.log(2))  # at zero each of the six labels has probability one half
    6
    """

    def __init__(self, data: FieldData, layout: FieldLayout) -> None:
        self.data = data
        self.layout = layout

    def zeros(self) -> Parameters:
        """Return parameters that are all zero."""
        return Parameters(
            np.zeros((self.data.nodes.n_coordinates, self.layout.n_node_columns)),
            np.zeros((self.data.edges.n_coordinates, self.layout.n_edge_columns)),
        )

    def value_and_gradient(self, theta: Parameters) -> tuple[float, Parameters]:
        """Return the objective and its gradient."""
        log_prob, node_slope, edge_slope = self._terms(theta)
        value = -float(self.data.weight @ log_prob.sum(axis=1))
        gradient = Parameters(
            self.data.nodes.pullback(node_slope), self.data.edges.pullback(edge_slope)
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
        node = data.nodes.times(theta.node)
        edge = data.edges.times(theta.edge)
        log_prob = np.empty(data.codes.shape)
        node_slope, edge_slope = np.empty_like(node), np.empty_like(edge)
        if layout.is_binary and data.edges.shared:
            self._shared_terms(node, edge[0], node_slope, edge_slope[0], log_prob)
            return log_prob, node_slope, edge_slope
        if layout.is_binary:
            binary_terms(
                node,
                edge,
                data.codes,
                data.weight,
                layout.edges,
                node_slope,
                edge_slope,
                log_prob,
            )
            return log_prob, node_slope, edge_slope
        pseudo_terms(
            node,
            edge,
            data.codes,
            data.weight,
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
        self, node: Array, edge: Array, node_slope: Array, edge_slope: Array, log_prob: Array
    ) -> None:
        r"""Fill the terms of two-valued labels whose tables all rows share.

        With :math:`u_{ij}` what :math:`y_j = 0` adds to the score of :math:`y_i = 0` and
        :math:`D_{ji}` how much more :math:`y_j = 1` does, the scores are
        :math:`\text{node} + \sum_j u_{ij} + Y D`. The derivatives of the tables follow from
        :math:`G = R^\top Y` and the column sums of the residuals R.
        """
        data = self.data
        left, right = self.layout.edges.T
        w00, w01, w10 = edge.reshape(-1, 3).T
        n_labels = data.codes.shape[1]
        added = np.bincount(left, w00 - w10, n_labels) + np.bincount(right, w00 - w01, n_labels)
        more = np.zeros((n_labels, n_labels))
        more[right, left], more[left, right] = w01 - (w00 - w10), w10 - (w00 - w01)
        scores = node + added + self._on @ more
        no_edges, nothing = np.empty((0, 2), dtype=np.intp), np.empty((1, 0))
        binary_terms(
            scores, nothing, data.codes, data.weight, no_edges, node_slope, nothing, log_prob
        )
        together, alone = (self._on.T @ node_slope).T, node_slope.sum(axis=0)
        on_right, on_left = together[left, right], together[right, left]
        off_right, off_left = alone[left] - on_right, alone[right] - on_left
        slopes = (off_right + off_left, on_right - off_left, on_left - off_right)
        edge_slope[:] = np.stack(slopes, axis=1).ravel()

    @cached_property
    def _on(self) -> Any:
        """Labels that have the second of two values, (n, d): CSR where they are few."""
        on = sp.csr_array(self.data.codes == 1, dtype=np.float64)
        return on if on.nnz < _SPARSE * on.shape[0] * on.shape[1] else on.toarray()
