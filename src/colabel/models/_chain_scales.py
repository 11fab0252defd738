"""Links learned with label columns of several sizes, the best size chosen for each link.

An L2 penalty treats all coefficients alike, but a label among hundreds of features often says
far more than any of them, and the penalty that suits the features silences it. Columns of 0 and
s instead of 0 and 1 let the label's weight grow s times as large at the same cost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from colabel.core.arrays import Array, Indices
from colabel.learn.conditional import (
    ConditionalLearner,
    Folds,
    HeldOutScores,
    RowGroup,
    TrainingData,
)
from colabel.learn.from_estimator import EstimatorModels
from colabel.learn.glm import FittedTasks
from colabel.learn.linear import LinearModels
from colabel.models._learning import can_hold_out

Models = LinearModels | EstimatorModels
MakeLearner = Callable[[], ConditionalLearner]

DEFAULT_SCALES = (1.0, 10.0, 100.0)


def resolve_scales(
    label_scale: float | Sequence[float] | None,
    C: float | Sequence[float],
    estimator: BaseEstimator | None,
) -> tuple[float, ...]:
    """Return the scales to choose from, after checking them."""
    if label_scale is None:
        return DEFAULT_SCALES if estimator is None and np.size(C) > 1 else (1.0,)
    scales = np.atleast_1d(np.asarray(label_scale, dtype=np.float64))
    if scales.ndim != 1 or not len(scales) or not (np.isfinite(scales) & (scales > 0)).all():
        raise ValueError(
            f"label_scale={label_scale!r} must be None, a positive number or a sequence of "
            "positive numbers."
        )
    if estimator is not None and (scales != 1.0).any():
        raise ValueError(
            f"label_scale={label_scale!r} is of the built-in regression only: leave it out when "
            "you give an estimator."
        )
    return tuple(scales.tolist())


class ScaledLearner:
    """A learner for each scale of the label columns.

    Parameters
    ----------
    make_learner : function
        Makes a learner; one learner serves one scale.
    data : TrainingData
        Rows, with label columns of 0 and 1 as extra features.
    scales : (S,)
        Scales to choose from; learners other than the built-in one need (1.0,).
    """

    def __init__(
        self, make_learner: MakeLearner, data: TrainingData, scales: Sequence[float]
    ) -> None:
        self._scales = tuple(scales)
        self._learners = [make_learner() for _ in scales]
        self._data = [_scaled(data, scale) for scale in scales]

    def choose(self, group: RowGroup, folds: Folds) -> tuple[Indices, Indices]:
        """Choose hyperparameter (m,) and scale (m,) of each target, by position in their grids."""
        n_targets = len(group.targets)
        zeros = np.zeros(n_targets, dtype=np.intp)
        needed = len(self._scales) > 1 or self._learners[0].needs_choice
        if not needed or not can_hold_out(folds):
            return zeros, zeros
        first = self._data[0]
        weight = np.ones(first.n_rows) if first.weight is None else first.weight

        def keep(_: RowGroup, scores: HeldOutScores) -> tuple[Array, Indices]:
            return scores.log_prob @ weight, scores.choice

        found = [
            learner.cross_validate(data, [group], folds, keep, f"labels times {scale:g}")[0]
            for learner, data, scale in zip(self._learners, self._data, self._scales, strict=True)
        ]
        best = np.stack([score for score, _ in found]).argmax(axis=0)
        choices = np.stack([choice for _, choice in found])
        return choices[best, np.arange(n_targets)], best

    def fit(
        self,
        groups: Sequence[RowGroup],
        choices: Sequence[Indices],
        scales: Sequence[Indices],
    ) -> Models:
        """Fit every target of every group; the models take label columns of 0 and 1."""
        first = np.cumsum([0, *(len(group.targets) for group in groups)])
        parts: list[tuple[Indices, int, FittedTasks]] = []
        for at, learner in enumerate(self._learners):
            mine = [np.flatnonzero(chosen == at) for chosen in scales]
            positions = np.concatenate(
                [start + own for start, own in zip(first, mine, strict=False)]
            )
            if not len(positions):
                continue
            own_groups = [_targets(group, own) for group, own in zip(groups, mine, strict=True)]
            own_choices = [choice[own] for choice, own in zip(choices, mine, strict=True)]
            models: Any = learner.fit(self._data[at], own_groups, own_choices)
            if not isinstance(models, LinearModels):
                return _as_estimators(models)
            n_features = int(self._data[at].X.shape[1])
            parts += [
                (positions[own], k, _rescaled(fitted, n_features, self._scales[at]))
                for own, k, fitted in models.parts
            ]
        return LinearModels(tuple(parts), int(first[-1]))


def _scaled(data: TrainingData, scale: float) -> TrainingData:
    return data if data.extra is None or scale == 1.0 else replace(data, extra=data.extra * scale)


def _rescaled(fitted: FittedTasks, n_features: int, scale: float) -> FittedTasks:
    """Turn weights of columns of 0 and `scale` into weights of columns of 0 and 1."""
    if scale == 1.0:
        return fitted
    coef = fitted.coef.copy()
    coef[..., n_features:-1] *= scale
    return replace(fitted, coef=coef)


def _targets(group: RowGroup, positions: Indices) -> RowGroup:
    allowed = None if group.allowed is None else group.allowed[positions]
    return RowGroup(group.rows, group.targets[positions], allowed)


def _as_estimators(models: Any) -> EstimatorModels:
    if not isinstance(models, EstimatorModels):
        raise TypeError(f"A chain cannot be made of {type(models).__name__}.")
    return models
