"""How well a field explains rows: exactly where label vectors can be enumerated."""

from __future__ import annotations

import math

import numpy as np

from colabel.core.arrays import Array
from colabel.learn.crf._kernels import exact_log_prob
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
    """Log-probability (n,) of the labels of every row, by enumeration."""
    log_prob = np.empty(len(data.codes))
    exact_log_prob(
        data.nodes.times(theta.node),
        data.edges.times(theta.edge),
        data.codes,
        layout.sizes,
        layout.edges,
        layout.node_start,
        layout.edge_start,
        log_prob,
    )
    return log_prob


def held_out_score(data: FieldData, layout: FieldLayout, theta: Parameters) -> Array:
    """Score (n,) of every row: its log-likelihood, or log-pseudo-likelihood for many labels."""
    if can_enumerate(layout.cardinalities):
        return log_likelihood(data, layout, theta)
    return np.asarray(PseudoLikelihood(data, layout).log_conditionals(theta).sum(axis=1))
