"""Asking models about rows that they have not seen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import has_fit_parameter

from colabel.core.arrays import Array, Indices
from colabel.joint import Joint, Mixture
from colabel.labels import MISSING, EncodedLabels, LabelSpace
from colabel.learn.conditional import Folds, TrainingData
from colabel.learn.pool import HeldOutOpinions, LabelPrior, opinions
from colabel.models.wrapped import joint_of

Members = list[tuple[str, BaseEstimator]]

# What the frequencies of label vectors are worth beside a part that finds most of them impossible.
_PRIOR_SHARE = 0.2
_EXPECTED = (ValueError, NotImplementedError, MemoryError, FloatingPointError)


def held_out_folds(folds: Folds) -> list[int]:
    """The folds that hold rows out."""
    return [f for f in range(folds.n_folds) if (folds.of_row == f).any()]


def counted(data: TrainingData, folds: Folds) -> tuple[TrainingData, Folds]:
    """The rows of positive weight and their folds.

    The others must not be seen by transformers and models that know no weights.
    """
    used = data.row_weights > 0
    if used.all():
        return data, folds
    of_row = folds.of_row[used]
    filled = np.unique(of_row[of_row >= 0])
    of_row = np.where(of_row < 0, -1, np.searchsorted(filled, of_row))
    return data.take(used), Folds(of_row, len(filled))


def asked_about(
    members: Members,
    data: TrainingData,
    space: LabelSpace,
    train: Indices,
    test: Indices,
    n_listed: int,
    *,
    with_parts: bool = False,
) -> tuple[HeldOutOpinions, dict[int, str]]:
    """Fit all members to some rows, and ask them about others.

    Returns
    -------
    held : HeldOutOpinions
        A column each member, or each of their `voices` if `with_parts`, and the last for how often
        label vectors occur.
    failed : dict of int to str
        Members that could not be fitted, and why; their columns repeat the last.
    """
    some = data.take(train)
    prior = LabelPrior.of(some)
    of_prior = prior.joint(space, len(test))
    fitted, failed = fitted_members(members, some, space)
    joints, unasked = joints_of(fitted, data.X[test])
    failed |= unasked
    said_by: list[Joint] = []
    for m, (_, model) in enumerate(members):
        parts = _parts_heard(model) if with_parts else ()
        if m in failed:
            said_by += [of_prior] * (1 + len(parts))
        else:
            said_by += heard(fitted[m], joints[m], data.X[test], of_prior) if parts else [joints[m]]
    said_by.append(of_prior)
    codes = data.codes[test]
    said = opinions(said_by, n_listed)
    held = HeldOutOpinions(
        said,
        prior.is_new(said.codes),
        np.stack([joint.log_prob_codes(codes) for joint in said_by], axis=1),
        said.entry_of(codes),
        (codes != MISSING).all(axis=1),
        data.row_weights[test],
    )
    return held, failed


def voices(members: Members) -> list[tuple[int, str]]:
    """Member and name of each opinion that a stack hears: the members', and parts of theirs."""
    return [
        (m, title)
        for m, (name, model) in enumerate(members)
        for title in (name, *(f"{name}, {part}" for part in _parts_heard(model)))
    ]


def heard(model: Any, joint: Joint, X: Any, of_prior: Joint) -> list[Joint]:
    """What a fitted member says of rows: its joint, and the parts of it that are heard alone.

    Such a part may find most vectors impossible, so that it is mixed with their frequencies.
    """
    weights = [1.0 - _PRIOR_SHARE, _PRIOR_SHARE]
    if not _parts_heard(model):
        return [joint]

    def rows() -> Any:
        return model[:-1].transform(X) if isinstance(model, Pipeline) and model[:-1] else X

    parts = _last(model).heard_alone(joint, rows)
    return [joint, *(Mixture([part, of_prior], weights) for part in parts)]


def _parts_heard(model: Any) -> tuple[str, ...]:
    parts: tuple[str, ...] = getattr(_last(model), "parts_heard", ())
    return parts


def _last(model: Any) -> Any:
    return model[-1] if isinstance(model, Pipeline) else model


def fitted_members(
    members: Members, data: TrainingData, space: LabelSpace
) -> tuple[dict[int, Any], dict[int, str]]:
    """Fit clones of the members; say of those that cannot learn from these rows why.

    Pipelines that begin alike share their fitted transformers, and the rows these make.
    """
    labels = EncodedLabels(space, data.codes)
    prepared: dict[str, tuple[list[Any], Any]] = {}
    fitted: dict[int, Any] = {}
    failed: dict[int, str] = {}
    for m, (_, model) in enumerate(members):
        try:
            steps, X = _prepared(model, data, labels, prepared)
            last = clone(_last(model))
            last.fit(X, labels, **_weight_argument(last, data.weight))
        except _EXPECTED as error:
            failed[m] = str(error) or type(error).__name__
        else:
            fitted[m] = Pipeline([*steps, (model.steps[-1][0], last)]) if steps else last
    return fitted, failed


def _prepared(
    model: BaseEstimator,
    data: TrainingData,
    labels: EncodedLabels,
    known: dict[str, tuple[list[Any], Any]],
) -> tuple[list[Any], Any]:
    """Fitted steps of a member before its model, and the rows that the model sees."""
    if not isinstance(model, Pipeline):
        return [], data.X
    before = [(name, step) for name, step in model.steps[:-1] if step not in (None, "passthrough")]
    key = repr([(type(step).__name__, step.get_params()) for _, step in before])
    if key not in known:
        X, fitted = data.X, []
        for name, step in before:
            fresh = clone(step)
            X = fresh.fit_transform(X, labels, **_weight_argument(fresh, data.weight))
            fitted.append((name, fresh))
        known[key] = fitted, X
    return known[key]


def joints_of(models: Mapping[int, Any], X: Any) -> tuple[dict[int, Joint], dict[int, str]]:
    """P(y | x) of fitted members, and of those that have none for these rows why not."""
    prepared: dict[tuple[int, ...], Any] = {}
    joints: dict[int, Joint] = {}
    failed: dict[int, str] = {}
    for m, model in models.items():
        try:
            if isinstance(model, Pipeline):
                key = tuple(id(step) for _, step in model.steps[:-1])
                if key not in prepared:
                    prepared[key] = model[:-1].transform(X) if key else X
                joints[m] = joint_of(model[-1], prepared[key])
            else:
                joints[m] = joint_of(model, X)
        except _EXPECTED as error:
            failed[m] = str(error) or type(error).__name__
    return joints, failed


def _weight_argument(model: Any, weight: Array | None) -> dict[str, Array]:
    if weight is None or not has_fit_parameter(model, "sample_weight"):
        return {}
    return {"sample_weight": weight}
