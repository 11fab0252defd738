"""Likelihood of a field whose normaliser sums over a list of label vectors."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from colabel.core.arrays import Array, Codes, Indices
from colabel.core.chunks import row_slices
from colabel.core.numeric import as_bytes
from colabel.learn.crf.layout import FieldLayout
from colabel.learn.crf.pseudo_likelihood import FieldData, Parameters

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
    >>> from colabel.learn.crf.layout import all_pairs
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
