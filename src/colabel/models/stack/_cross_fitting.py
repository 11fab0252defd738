"""Asking the members of a stack about rows that they have not seen."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import has_fit_parameter

from colabel.core.arrays import Array, Indices
from colabel.labels import MISSING, EncodedLabels, LabelSpace
from colabel.learn.conditional import Folds, TrainingData
from colabel.learn.pool import HeldOutOpinions, LabelPrior, opinions
from colabel.models.stack._members import Members
from colabel.models.wrapped import joint_of

_EXPECTED = (ValueError, NotImplementedError, MemoryError, FloatingPointError)


def held_out_folds(folds: Folds) -> list[int]:
    """The folds that hold rows out."""
    return [f for f in range(folds.n_folds) if (folds.of_row == f).any()]


def asked_about(
    members: Members,
    data: TrainingData,
    space: LabelSpace,
    train: Indices,
    test: Indices,
    n_listed: int,
) -> tuple[HeldOutOpinions, dict[int, str]]:
    """Fit all members to some rows, and ask them about others.

    Returns
    -------
    held : HeldOutOpinions
        A column each member, and the last for how often label vectors occur.
    failed : dict of int to str
        Members that could not be fitted, and why; their columns repeat the last.
    """
    some = part(data, train)
    prior = LabelPrior.of(some)
    of_prior = prior.joint(space, len(test))
    joints, failed = [], {}
    for m, (_, model) in enumerate(members):
        fitted = fitted_or_why(model, data, space, train)
        try:
            joints.append(of_prior if isinstance(fitted, str) else joint_of(fitted, data.X[test]))
        except _EXPECTED as error:
            joints.append(of_prior)
            fitted = str(error)
        if isinstance(fitted, str):
            failed[m] = fitted
    joints.append(of_prior)
    codes = data.codes[test]
    said = opinions(joints, n_listed)
    return (
        HeldOutOpinions(
            said,
            prior.is_new(said.codes),
            np.stack([joint.log_prob_codes(codes) for joint in joints], axis=1),
            said.entry_of(codes),
            (codes != MISSING).all(axis=1),
            data.row_weights[test],
        ),
        failed,
    )


def fitted_or_why(
    model: BaseEstimator, data: TrainingData, space: LabelSpace, rows: Indices
) -> Any:
    """Fit a clone of a member to some rows; where that is not possible, say why."""
    some = part(data, rows)
    fresh = clone(model)
    labels = EncodedLabels(space, some.codes)
    try:
        return fresh.fit(some.X, labels, **_weight_arguments(fresh, some.weight))
    except _EXPECTED as error:
        return str(error) or type(error).__name__


def part(data: TrainingData, rows: Indices) -> TrainingData:
    """Some of the rows."""
    weight = None if data.weight is None else data.weight[rows]
    return TrainingData(data.X[rows], data.codes[rows], data.cardinalities, weight)


def _weight_arguments(model: Any, weight: Array | None) -> dict[str, Array]:
    if weight is None:
        return {}
    if not isinstance(model, Pipeline):
        return {"sample_weight": weight}
    return {
        f"{name}__sample_weight": weight
        for name, step in model.steps
        if hasattr(step, "fit") and has_fit_parameter(step, "sample_weight")
    }
