"""How well a field explains rows: exactly where label vectors can be enumerated."""

from __future__ import annotations

import math

import numpy as np

from colabel.core.arrays import Array
from colabel.joint import PairwiseField
from colabel.labels import LabelSpace
from colabel.learn.crf.layout import FieldLayout
from colabel.learn.crf.pseudo_likelihood import FieldData, Parameters, PseudoLikelihood

# About 0.1 milliseconds a row; beyond it rows are scored by their pseudo-likelihood.
MOST_VECTORS = 1 << 14


def can_enumerate(cardinalities: tuple[int, ...]) -> bool:
    """Whether the label vectors are few enough to be enumerated for every row.

    Examples
    --------
    >>> can_enumerate((2,) * 14), can_enumerate((2,) * 40)
    (True, False)
    """
    return math.prod(cardinalities) <= MOST_VECTORS


def log_likelihood(data: FieldData, layout: FieldLayout, theta: Parameters) -> Array:
    """Log-probability (n,) of the labels of every row; exact where `can_enumerate`."""
    sizes = layout.cardinalities
    space = LabelSpace(
        tuple(f"y{i}" for i in range(len(sizes))), tuple(map(np.arange, sizes)), "matrix"
    )
    nodes = layout.node_tables(data.nodes.times(theta.node))
    edges = layout.edge_tables(data.edges.times(theta.edge))
    return PairwiseField(space, nodes, layout.edges, edges, n_jobs=1).log_prob_codes(data.codes)


def held_out_score(data: FieldData, layout: FieldLayout, theta: Parameters) -> Array:
    """Score (n,) of every row: its log-likelihood, or log-pseudo-likelihood for many labels."""
    if can_enumerate(layout.cardinalities):
        return log_likelihood(data, layout, theta)
    return np.asarray(PseudoLikelihood(data, layout).log_conditionals(theta).sum(axis=1))
