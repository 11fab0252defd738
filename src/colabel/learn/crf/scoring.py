"""How well a field explains rows: exactly where label vectors can be enumerated."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from colabel.core.arrays import Array
from colabel.joint import PairwiseField
from colabel.labels import LabelSpace
from colabel.learn.crf.layout import FieldLayout
from colabel.learn.crf.pseudo_likelihood import FieldData, Parameters, PseudoLikelihood

# About 0.1 milliseconds a row; beyond it the normaliser is estimated at the mode.
MOST_VECTORS = 1 << 14
_MODE_SWEEPS = 2  # of belief propagation, where the mode of a row held out is searched for


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


def likelihood_at_mode(data: FieldData, layout: FieldLayout, theta: Parameters) -> Array:
    r"""Estimate the log-probability (n,) of the labels of every row by conditionals at the mode.

    .. math:: \log P(y \mid x) \approx s(y, x) - s(\hat y, x)
              + \sum_i \log P(\hat y_i \mid \hat y_{-i}, x)

    with :math:`\hat y` the best vector found: the sum is the pseudo-likelihood, at the vector the
    model would announce instead of the true one. It is exact without edges. The pseudo-likelihood
    of the truth never asks whether other vectors score far better: it may favour tables so large
    that the mode has nothing to do with the truth.
    """
    field = _field(
        data, layout, theta, engine="belief_propagation", max_iter=_MODE_SWEEPS, start=data.codes
    )
    mode = field.mode_codes()
    at_mode = PseudoLikelihood(replace(data, codes=mode), layout).log_conditionals(theta)
    behind = field.score_codes(data.codes) - field.score_codes(mode)
    return np.asarray(behind + at_mode.sum(axis=1))


def held_out_score(data: FieldData, layout: FieldLayout, theta: Parameters) -> Array:
    """Log-likelihood (n,) of every row: exact for few labels, else `likelihood_at_mode`."""
    if can_enumerate(layout.cardinalities):
        return log_likelihood(data, layout, theta)
    return likelihood_at_mode(data, layout, theta)


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
