"""Where the parameters of a pairwise field stand: columns of a node and of an edge matrix."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike

from colabel.core.arrays import Array, Indices
from colabel.core.schema import Below, Between, Dims, Fields, Is, refuse_unless, stored


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
        refuse_unless((edges[:, 0] < edges[:, 1]).all(), "an edge is not written as i < j")
        refuse_unless(len(np.unique(edges, axis=0)) == len(edges), "an edge stands twice")
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
        norms: Array = np.sqrt(summed)
        return norms

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
