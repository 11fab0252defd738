"""Drawing labels and features from the mixture, by the steps of its generative story."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from colabel.core.arrays import Array, Codes
from colabel.joint.lds.network import LDSNetwork
from colabel.learn.structure.bayes_network import topological_order

__all__ = ["sample_rows"]


def sample_rows(network: LDSNetwork, n_rows: int, rng: Generator) -> tuple[Codes, Codes]:
    """Draw labels in topological order, then every feature given the label vector.

    Returns
    -------
    labels : (n, d) array of int32
    features : (n, p) array of int32
    """
    sets, columns = network.sets, network.columns
    labels = np.zeros((n_rows, sets.n_labels), dtype=np.int32)
    for i in topological_order(sets.parents):
        # label i is still 0, so the state is that of its first value, and the others follow
        first = sets.states(labels)[:, i]
        table = network.alpha[i][first[:, None] + np.arange(sets.cardinalities[i])]
        labels[:, i] = _draw(table, rng)
    features = np.empty((n_rows, columns.n_features), dtype=np.int32)
    vectors, position = np.unique(labels, axis=0, return_inverse=True)
    conditional = np.exp(network.log_conditional(vectors))
    for j in range(columns.n_features):
        features[:, j] = _draw(conditional[position.reshape(-1), columns.of(j)], rng)
    return labels, features


def _draw(table: Array, rng: Generator) -> Codes:
    """Draw one value a row from probabilities (n, K)."""
    cumulated = table.cumsum(axis=1)
    uniform = rng.random(len(table)) * cumulated[:, -1]
    found: Codes = (uniform[:, None] >= cumulated[:, :-1]).sum(axis=1).astype(np.int32)
    return found
