"""The order of a chain: as given, at random, or by how much the labels say of each other."""

from __future__ import annotations

from typing import Any

import numpy as np

from colabel.core.arrays import Array, Indices
from colabel.joint.chain import as_order
from colabel.labels import LabelSpace
from colabel.learn.chunks.passes import added
from colabel.learn.conditional import TrainingData


def resolve_order(order: Any, space: LabelSpace, data: TrainingData, seed: int) -> Indices:
    """Return the order (d,) that an estimator's parameter asks for."""
    if order is None:
        return np.arange(space.n_labels)
    if isinstance(order, str):
        if order == "random":
            return np.random.default_rng(seed).permutation(space.n_labels)
        if order == "correlation":
            return order_by_dependence(mutual_information(data))
        raise ValueError(
            f'order={order!r} is unknown: choose None (the order of the labels in y), "random", '
            '"correlation", or a sequence of label names or positions.'
        )
    return as_order(order, space)


def mutual_information(data: TrainingData) -> Array:
    """Mutual information (d, d) of every pair of labels in nats, without regard to x."""
    sizes = np.asarray(data.cardinalities)
    owner = np.repeat(np.arange(len(sizes)), sizes)
    joint = data.total(_pair_weights, combine=added) / data.total_weight  # P(y_i = u, y_j = v)
    alone = np.diag(joint)
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = joint * np.log(joint / np.outer(alone, alone))
    member = (owner[:, None] == np.arange(len(sizes))).astype(np.float64)
    found: Array = member.T @ np.where(joint > 0, terms, 0.0) @ member
    return found


def _pair_weights(data: TrainingData) -> Array:
    """Weight of the rows with each pair of values, (K, K) for K values of all labels."""
    sizes = np.asarray(data.cardinalities)
    owner = np.repeat(np.arange(len(sizes)), sizes)
    value = np.arange(len(owner)) - np.searchsorted(owner, owner)
    is_value = (data.codes[:, owner] == value).astype(np.float64)
    return np.asarray((is_value * data.row_weights[:, None]).T @ is_value)


def order_by_dependence(information: Array, first: int | None = None) -> Indices:
    """Begin with the label that tells most of all others; go on with what the chosen tell most of.

    The order may be told to begin with another label.

    Each next label is the one with the largest sum of mutual information with those already
    chosen, so that a link finds the labels it can use before it. Ties go to the first label.
    """
    between = information - np.diag(np.diag(information))
    # sums of the same terms in another order differ by rounding, which must not break ties
    in_all = np.round(between.sum(axis=0), 12)
    chosen: list[int] = [] if first is None else [first]
    gain = in_all if first is None else np.round(between[first], 12)
    while len(chosen) < len(between):
        free = np.setdiff1d(np.arange(len(between)), chosen)
        chosen.append(int(free[np.argmax(gain[free])]))
        gain = np.round(between[chosen].sum(axis=0), 12)
    return np.array(chosen, dtype=np.intp)
