"""Links learned with label columns of several sizes, the best size chosen for each link.

An L2 penalty treats all coefficients alike, but a label among hundreds of features often says
far more than any of them, and the penalty that suits the features silences it. A scale s lets the
label's weight grow s times as large at the same cost, as columns of 0 and s would.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from sklearn.base import BaseEstimator

from colabel.core.arrays import Array, Indices
from colabel.core.parameters import checked_grid
from colabel.learn.conditional import Folds, HeldOutScores, Learning, RowGroup
from colabel.models._learning import can_hold_out

DEFAULT_SCALES = (1.0, 10.0, 100.0)


def resolve_scales(
    label_scale: float | Sequence[float] | None,
    C: float | Sequence[float],
    estimator: BaseEstimator | None,
) -> tuple[float, ...]:
    """Return the scales to choose from, after checking them."""
    if label_scale is None:
        return DEFAULT_SCALES if estimator is None and np.size(C) > 1 else (1.0,)
    scales = checked_grid("label_scale", label_scale)
    if estimator is not None and any(scale != 1.0 for scale in scales):
        raise ValueError(
            f"label_scale={label_scale!r} is of the built-in regression only: leave it out when "
            "you give an estimator."
        )
    return scales


def choose_with_scale(
    learning: Learning, group: RowGroup, scales: Sequence[float], folds: Folds
) -> tuple[Indices, Array]:
    """Choose hyperparameter (m,), by position in its grid, and scale (m,) of each target.

    Every target is there once for each scale: one batch holds them all.
    """
    n_targets = len(group.targets)
    needed = len(scales) > 1 or learning.needs_choice
    if not needed or not can_hold_out(folds):
        return np.zeros(n_targets, dtype=np.intp), np.full(n_targets, scales[0])

    def keep(_: RowGroup, scores: HeldOutScores) -> tuple[Array, Indices]:
        return scores.total, scores.choice

    every = group.take(np.tile(np.arange(n_targets), len(scales)))
    every = replace(every, extra_scale=np.repeat(np.asarray(scales), n_targets))
    found = learning.cross_validate([every], folds, keep, "choosing C and label scale")[0]
    total, choice = (part.reshape(len(scales), n_targets) for part in found)
    best = total.argmax(axis=0)
    return choice[best, np.arange(n_targets)], np.asarray(scales)[best]
