"""Random dependency networks, some with a joint distribution that can be written out."""

from __future__ import annotations

import itertools

import numpy as np

from colabel.core.arrays import column_owner, label_columns
from colabel.joint import LinearConditionals
from tests.joint.oracle import Enumerated


class Opaque:
    """Conditionals that hide being linear, so that they take the path of any estimator."""

    def __init__(self, linear):
        self.linear = linear
        self.cardinalities = linear.cardinalities
        self.n_rows = linear.n_rows
        self.calls = 0

    def log_prob(self, labels, i):
        self.calls += 1
        return self.linear.log_prob(labels, i)

    def rows(self, index):
        return Opaque(self.linear.rows(index))


def random_network(rng, n_rows, cardinalities, strength=0.8, symmetric=True):
    """Linear conditionals; with symmetric weights they are those of a pairwise field."""
    n_columns = len(column_owner(cardinalities))
    weights = rng.normal(scale=strength, size=(n_columns, n_columns))
    if symmetric:
        weights = (weights + weights.T) / np.sqrt(2)
    return LinearConditionals(rng.normal(size=(n_rows, n_columns)), weights, cardinalities)


def oracle_of(network):
    """The pairwise field behind symmetric weights: p(y) ~ exp(b.c(y) + c(y) W c(y) / 2)."""
    vectors = np.array(list(itertools.product(*map(range, network.cardinalities))))
    columns = label_columns(vectors, network.cardinalities)
    pairs = np.einsum("vc,cs,vs->v", columns, network.weights, columns) / 2
    scores = network.base @ columns.T + pairs
    place = {tuple(y): v for v, y in enumerate(vectors.tolist())}
    return Enumerated.of_scores(
        network.cardinalities, len(scores), lambda r, y: [scores[r, place[y]]]
    )
