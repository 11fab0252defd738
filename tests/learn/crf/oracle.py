"""A pairwise field straight from the formulas of the paper: slow, obvious, for comparison."""

from __future__ import annotations

import itertools

import numpy as np


class PaperField:
    """Equations 2.1 to 2.6 with loops; parameters are dictionaries of vectors.

    v[i, a] is the parameter vector of value a of variable i, w[i, j, a, b] that of a cell of edge
    (i, j); those of the last value and the last cell are zero.
    """

    def __init__(self, cardinalities, edges, v, w):
        self.sizes = cardinalities
        self.edges = [tuple(map(int, edge)) for edge in edges]
        self.v = v
        self.w = w

    @classmethod
    def from_matrices(cls, layout, node, edge):
        """Read the matrices of a `Parameters` in row order of the tables."""
        v, w = {}, {}
        column = 0
        for i, size in enumerate(layout.cardinalities):
            for a in range(size):
                last = a == size - 1
                v[i, a] = np.zeros(len(node)) if last else node[:, column]
                column += not last
        column = 0
        for i, j in layout.edges:
            cells = list(itertools.product(*(range(layout.cardinalities[k]) for k in (i, j))))
            for a, b in cells:
                last = (a, b) == cells[-1]
                w[i, j, a, b] = np.zeros(len(edge)) if last else edge[:, column]
                column += not last
        return cls(layout.cardinalities, layout.edges, v, w)

    def score(self, node_x, edge_x, y):
        """Logarithm of the product of potentials in 2.1."""
        total = sum(node_x @ self.v[i, y[i]] for i in range(len(y)))
        return total + sum(edge_x @ self.w[i, j, y[i], y[j]] for i, j in self.edges)

    def log_prob(self, node_x, edge_x, y):
        every = itertools.product(*map(range, self.sizes))
        scores = np.array([self.score(node_x, edge_x, other) for other in every])
        return self.score(node_x, edge_x, y) - np.log(np.exp(scores).sum())

    def log_conditional(self, node_x, edge_x, y, i):
        """log P(y_i | y_N(i), x): only the factors that hold y_i matter."""
        scores = []
        for a in range(self.sizes[i]):
            other = list(y)
            other[i] = a
            scores.append(self.score(node_x, edge_x, other))
        return scores[y[i]] - np.log(np.exp(scores).sum())

    def nlpl(self, node_rows, edge_rows, codes, weight):
        """Equation 2.4, negated and weighted."""
        return -sum(
            weight[n] * self.log_conditional(node_rows[n], edge_rows[n], list(codes[n]), i)
            for n in range(len(codes))
            for i in range(codes.shape[1])
        )

    def penalty(self, node_penalty, edge_penalty, eta):
        """Equation 2.6; the last coordinate of a node is its constant and goes free."""
        total = sum(node_penalty[i] * (v[:-1] ** 2).sum() for (i, _), v in self.v.items())
        for edge in self.edges:
            square = sum((w**2).sum() for (i, j, *_), w in self.w.items() if (i, j) == edge)
            total += edge_penalty * ((1 - eta) * square + eta * np.sqrt(square))
        return total
