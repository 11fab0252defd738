"""Asking models about rows that they have not seen, and calibrating them by the answers."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from pickle import PicklingError
from typing import Annotated, Any

import joblib
import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import has_fit_parameter

from colabel.core.arrays import Array, Indices
from colabel.core.schema import stored
from colabel.joint import Joint
from colabel.labels import MISSING, EncodedLabels, LabelSpace
from colabel.learn.conditional import Folds, TrainingData, random_folds
from colabel.learn.pool import (
    HeldOutOpinions,
    LabelPrior,
    Pool,
    UnansweredError,
    ask_each,
    learn_pool,
    opinions,
)
from colabel.models.lazy import row_chunks
from colabel.models.wrapped import joint_of, model_inside

Members = list[tuple[str, BaseEstimator]]

EXPECTED = (ValueError, NotImplementedError, MemoryError, FloatingPointError)


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
) -> tuple[HeldOutOpinions, dict[int, str]]:
    """Fit all members to some rows, and ask them about others.

    Returns
    -------
    held : HeldOutOpinions
        A column for each member, the last for how often label vectors occur.
    failed : dict of int to str
        Members that could not be fitted or asked, and why; their columns say nothing.
    """
    some = data.take(train)
    prior = LabelPrior.of(some)
    fitted, failed = fitted_members(members, some, space)

    def of_rows(rows: TrainingData) -> HeldOutOpinions:
        of_prior = prior.joint(space, rows.n_rows)
        joints, unasked = joints_of({m: fitted[m] for m in fitted if m not in failed}, rows.X)
        failed.update(unasked)
        # in the place of a member that has no answer the prior stands
        said_by = [joints.get(m, of_prior) for m in range(len(members))] + [of_prior]
        try:
            said = opinions(said_by, n_listed, EXPECTED, proven=True)
            truth = ask_each(said_by, lambda joint: joint.log_prob_codes(rows.codes), EXPECTED)
        except UnansweredError as error:
            if error.position == len(members):  # the prior's own
                raise
            failed[error.position] = error.why
            return of_rows(rows)
        return HeldOutOpinions(
            said.without_codes(),
            prior.is_new(said.codes),
            np.stack(truth, axis=1),
            said.entry_of(rows.codes),
            (rows.codes != MISSING).all(axis=1),
            rows.row_weights,
        )

    first, *others = [of_rows(data.take(rows)) for rows in row_chunks(test, space)]
    return first.joined(*others), failed


def fitted_members(
    members: Members, data: TrainingData, space: LabelSpace
) -> tuple[dict[int, Any], dict[int, str]]:
    """Fit clones of the members; say of those that cannot learn from these rows why.

    Pipelines that begin alike share their fitted transformers, and the rows these make.
    """
    labels = EncodedLabels(space, data.codes)
    prepared: dict[Hashable, tuple[list[Any], Any]] = {}
    fitted: dict[int, Any] = {}
    failed: dict[int, str] = {}
    for m, (_, model) in enumerate(members):
        try:
            steps, X = _prepared(model, data, labels, prepared)
            last = clone(model[-1] if isinstance(model, Pipeline) else model)
            last.fit(X, labels, **weight_argument(last, data.weight))
        except EXPECTED as error:
            failed[m] = why(error)
        else:
            fitted[m] = Pipeline([*steps, (model.steps[-1][0], last)]) if steps else last
    return fitted, failed


def _prepared(
    model: BaseEstimator,
    data: TrainingData,
    labels: EncodedLabels,
    known: dict[Hashable, tuple[list[Any], Any]],
) -> tuple[list[Any], Any]:
    """Fitted steps of a member before its model, and the rows that the model sees."""
    if not isinstance(model, Pipeline):
        return [], data.X
    before = [(name, step) for name, step in model.steps[:-1] if step not in (None, "passthrough")]
    key = key_of([step for _, step in before])
    if key not in known:
        X, fitted = data.X, []
        for name, step in before:
            fresh = clone(step)
            X = fresh.fit_transform(X, labels, **weight_argument(fresh, data.weight))
            fitted.append((name, fresh))
        known[key] = fitted, X
    return known[key]


def key_of(steps: Sequence[BaseEstimator]) -> Hashable:
    """A key that steps share with others of the same types and parameters."""
    alike = [(type(step).__module__, type(step).__qualname__, step.get_params()) for step in steps]
    try:
        return joblib.hash(alike)
    except (PicklingError, TypeError, AttributeError):  # such as a lambda: shared with itself
        return tuple(id(step) for step in steps)


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
        except EXPECTED as error:
            failed[m] = why(error)
    return joints, failed


def weight_argument(model: Any, weight: Array | None) -> dict[str, Array]:
    if weight is None or not has_fit_parameter(model, "sample_weight"):
        return {}
    return {"sample_weight": weight}


def why(error: Exception) -> str:
    return str(error) or type(error).__name__


def require_joint(model: Any) -> None:
    """Raise TypeError unless a model, or that inside a pipeline or a search, will have a joint."""
    inner = found = model_inside(model)
    while not hasattr(inner, "joint") and isinstance(inner, MetaEstimatorMixin):
        inner = model_inside(getattr(inner, "estimator", None))
    if not hasattr(inner, "joint"):
        raise TypeError(
            f"{type(found).__name__} has no joint: give a model of colabel that has probabilities,"
            " or a pipeline or a search with one at its end."
        )


_FOLDS = 3
_N_LISTED = 32
_HOTTEST = 20.0  # temperature; a model so far from the truth says next to nothing


@stored("calibration")
@dataclass(frozen=True, eq=False)
class Calibration:
    r"""What rows held out say of a model's joint.

    The model is mixed with the frequencies of label vectors, as far as they help. The vectors that
    it finds probable then share their probability anew,

    .. math:: Q(y \mid x) \propto P(y \mid x)^{1/T} \, e^{b \cdot 1[y \text{ is new}]} \cdots

    where the temperature T, at most 20, is above one for a model that is too sure of itself, -b is
    the price of a label vector that no training row has, and the frequencies have an exponent too.
    Where that is no better on rows held out once more, only the mixture is left.

    Attributes
    ----------
    pool : Pool
        Weights of the model and of the frequencies, and the exponents.
    prior : LabelPrior
        The frequencies.
    """

    pool: Annotated[Pool, "m"]
    prior: Annotated[LabelPrior, "d sizes"]

    @property
    def temperature(self) -> float:
        """T; 1 where the joint is left as it is."""
        return 1.0 if self.pool.coef is None else float(1.0 / self.pool.coef[0])

    @property
    def price_of_new(self) -> float:
        """What a vector that no training row has loses, in nats."""
        return 0.0 if self.pool.coef is None else float(-self.pool.coef[-1])

    def __call__(self, joint: Joint) -> Joint:
        """Return the calibrated joint."""
        frequencies = self.prior.joint(joint.space, joint.n_rows)
        return self.pool.joint([joint, frequencies], self.prior)


def learn_calibration(
    model: BaseEstimator, data: TrainingData, space: LabelSpace, seed: int
) -> Calibration | None:
    """Learn the calibration of an unfitted model; None where no rows can be held out."""
    data, folds = counted(data, random_folds(data, _FOLDS, seed))
    held, numbers = [], []
    for f in held_out_folds(folds):
        train, test = np.flatnonzero(folds.of_row != f), np.flatnonzero(folds.of_row == f)
        if not len(train):
            continue
        answer, failed = asked_about([("model", model)], data, space, train, test, _N_LISTED)
        if failed:
            message = f"The model cannot be calibrated: {failed[0]}"
            warnings.warn(message, UserWarning, stacklevel=5)
            return None
        held.append(answer)
        numbers.append(np.full(len(test), f))
    if not held:
        return None
    whole = held[0].joined(*held[1:])
    pool = learn_pool(whole, np.concatenate(numbers), _N_LISTED, least=[1.0 / _HOTTEST])
    return Calibration(pool, LabelPrior.of(data))


def uncalibrated(model: Any) -> Any:
    """Return an unfitted model with the same parameters that does not calibrate itself."""
    return clone(model).set_params(calibrate=False)
