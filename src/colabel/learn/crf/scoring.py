"""How well a field explains rows: exactly where label vectors can be enumerated."""

from __future__ import annotations

import math
from typing import Any

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
    return _field(data, layout, theta).log_prob_codes(data.codes)


def held_out_score(data: FieldData, layout: FieldLayout, theta: Parameters) -> Array:
    """Score (n,) of every row: its log-likelihood, or log-pseudo-likelihood for many labels."""
    if can_enumerate(layout.cardinalities):
        return log_likelihood(data, layout, theta)
    return np.asarray(PseudoLikelihood(data, layout).log_conditionals(theta).sum(axis=1))


def announces_truth(
    data: FieldData, layout: FieldLayout, theta: Parameters, independent: Array
) -> Array:
    """Say (n,) in which rows the mode is the true vector, by 1 or 0.

    The pseudo-likelihood asks for each label given the true others, never whether another vector
    scores far better than the true one: it may favour tables so large that the mode is useless.

    Parameters
    ----------
    independent : (q_v, node columns)
        Independent regressions, whose answer the search for the mode starts from.
    """
    alone = [table.argmax(axis=1) for table in layout.node_tables(data.nodes.times(independent))]
    field = _field(data, layout, theta, start=np.stack(alone, axis=1))
    return np.asarray((field.mode_codes() == data.codes).all(axis=1), dtype=np.float64)


def _field(
    data: FieldData, layout: FieldLayout, theta: Parameters, **options: Any
) -> PairwiseField:
    sizes = layout.cardinalities
    space = LabelSpace(
        tuple(f"y{i}" for i in range(len(sizes))), tuple(map(np.arange, sizes)), "matrix"
    )
    nodes = layout.node_tables(data.nodes.times(theta.node))
    edges = layout.edge_tables(data.edges.times(theta.edge))
    return PairwiseField(space, nodes, layout.edges, edges, n_jobs=1, **options)
