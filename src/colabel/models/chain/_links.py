"""From fitted conditionals and rows to the links of a chain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from colabel.core.arrays import Array, Indices
from colabel.core.label_features import column_owner
from colabel.joint.chain import LinearLink, LinearLinks
from colabel.learn.design import linear_scores
from colabel.learn.linear import LinearModels


def linear_links(
    models: LinearModels, X: Any, order: Indices, cardinalities: Sequence[int]
) -> LinearLinks:
    """Links of models learned in label order, with the columns of all labels as extra."""
    links: list[LinearLink | None] = [None] * len(order)
    position_of = np.argsort(order)
    for targets, n_classes, fitted in models.parts:
        base = linear_scores(X, fitted.coef)
        for i, target in enumerate(targets):
            position = position_of[target]
            of_labels = fitted.coef[i, :, X.shape[1] : -1].astype(np.float64)
            gain = _label_gain(of_labels, order[:position], cardinalities)
            links[position] = LinearLink(
                np.ascontiguousarray(base[i].T), gain, n_classes, fitted.floor[i]
            )
    return LinearLinks(tuple(link for link in links if link is not None))


def _label_gain(coef: Array, before: Indices, cardinalities: Sequence[int]) -> Array:
    """Turn the weights (S, e) of label columns into gains (k, V, S) of the labels `before`."""
    gain = np.zeros((len(before), max(cardinalities), coef.shape[0]))
    if max(cardinalities) == min(cardinalities) == 2:  # one column a label
        gain[:, 1] = coef[:, before].T
        return gain
    owner = column_owner(cardinalities)
    for position, label in enumerate(before):
        columns = np.flatnonzero(owner == label)
        first = 1 if cardinalities[label] == 2 else 0  # two values share the column of the second
        gain[position, first : first + len(columns)] = coef[:, columns].T
    return gain
