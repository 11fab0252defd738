"""Asking models about rows that they have not seen, and calibrating them by the answers."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from pickle import PicklingError
from typing import Annotated, Any, cast

import joblib
import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import has_fit_parameter

from colabel.core.arrays import Array, Indices
from colabel.core.schema import stored
from colabel.core.warning import warn
from colabel.joint import Joint, Mixture
from colabel.labels import MISSING, EncodedLabels, LabelSpace
from colabel.learn import pool as pooling
from colabel.learn.conditional import Folds, TrainingData, random_folds
from colabel.models.lazy import row_chunks
from colabel.models.wrapped import joint_of, model_inside

Members = list[tuple[str, BaseEstimator]]

Prepared = dict[Hashable, tuple[list[Any], Any]]
# What the frequencies of label vectors are worth beside a part that finds most of them impossible.
_PRIOR_SHARE = 0.2

# Warnings about all rows, which their fit has given already.
_OF_BLANKS = r".*(no known label|1 or missing|one value and blanks)"

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


@dataclass
class Member:
    """One of several models while they are fitted, each to all rows and to parts of them.

    Attributes
    ----------
    name : str
    model : estimator
        Unfitted.
    steps : list of (name, transformer), or None
        Fitted once to all rows, where they describe rows without having seen their labels.
    rows : (n, q)
        What these make of all rows.
    held_out : object with a method ``joints(rows)``, optional
        Where the model, fitted to all rows, says of each what it would without it.
    fitted : estimator, optional
        The model, fitted to all rows.
    chosen : estimator, optional
        A fitted model whose choices others take over.
    cost : (2, 2)
        Seconds to begin and for what follows: a constant, and for each row.
    """

    name: str
    model: Any
    steps: list[Any] | None = None
    rows: Any = None
    held_out: Any = None
    fitted: Any = None
    chosen: Any = field(default=None, repr=False)
    cost: Array = field(default_factory=lambda: np.zeros((2, 2)), repr=False)

    def seconds(self, n_rows: int) -> float:
        """Seconds that so many rows are expected to take."""
        return float(np.sum(self.cost @ [1.0, n_rows]))

    @property
    def last(self) -> Any:
        """The model, without the steps before it."""
        return self.model[-1] if isinstance(self.model, Pipeline) else self.model

    @property
    def component_names(self) -> list[str]:
        """Names of the experts it is: the model's joint, and parts of it."""
        return [self.name, *(f"{self.name}, {p}" for p in getattr(self.last, "part_names", ()))]

    def begin(self, data: TrainingData, labels: EncodedLabels, prepared: Prepared) -> None:
        """Fit to all rows what needs no folds."""
        if not all(getattr(step, "out_of_sample", False) for _, step in self._before):
            return
        self.steps, self.rows = self._prepared(data, labels, prepared)
        # where labels are missing, those drawn for other rows know the labels of a row out of bag
        honest = not data.missing_labels[0] and not getattr(self.last, "calibrate", False)
        if hasattr(self.last, "fit_held_out") and honest:
            model = clone(self.last)
            weight = weight_argument(model, data.weight)
            self.held_out = model.fit_held_out(self.rows, labels, **weight)
            self.fitted = self._piped(model)
        elif hasattr(self.last, "reusing"):  # its choices serve all folds
            self.fitted = self._piped(self._fit_last(self.rows, labels, data))

    def without(
        self, train: Indices, data: TrainingData, labels: EncodedLabels, prepared: Prepared
    ) -> Callable[[Indices], Sequence[Joint]]:
        """Fit to some rows what has seen all; return what then answers for other rows."""
        if self.held_out is not None:
            return cast("Callable[[Indices], Sequence[Joint]]", self.held_out.joints)
        some, own, steps = data.take(train), labels[train], list[Any]()
        if self.steps is None:
            (steps, X), rows = self._prepared(some, own, prepared), data.X
        else:
            X, rows = self.rows[train], self.rows
        model = self._fit_last(X, own, some)

        def joints(asked: Indices) -> Sequence[Joint]:
            X = rows[asked]
            for _, step in steps:
                X = step.transform(X)
            joint = joint_of(model, X)
            return joint, *part_joints(model, joint, lambda: X)

        return joints

    def finish(self, data: TrainingData, labels: EncodedLabels, prepared: Prepared) -> None:
        """Fit to all rows what has not been."""
        if self.fitted is None:
            if self.steps is None:
                self.steps, self.rows = self._prepared(data, labels, prepared)
            self.fitted = self._piped(self._fit_last(self.rows, labels, data))

    @property
    def _before(self) -> list[tuple[str, Any]]:
        steps = self.model.steps[:-1] if isinstance(self.model, Pipeline) else []
        return [(name, step) for name, step in steps if step not in (None, "passthrough")]

    def _prepared(
        self, data: TrainingData, labels: EncodedLabels, known: Prepared
    ) -> tuple[list[Any], Any]:
        """Fitted steps before the model, and the rows that it sees.

        Pipelines that begin alike share them.
        """
        key = key_of([step for _, step in self._before])
        if key not in known:
            X, fitted = data.X, []
            for name, step in self._before:
                fresh = clone(step)
                X = fresh.fit_transform(X, labels, **weight_argument(fresh, data.weight))
                fitted.append((name, fresh))
            known[key] = fitted, X
        return known[key]

    def _fit_last(self, X: Any, labels: EncodedLabels, data: TrainingData) -> Any:
        reuse = self.chosen is not None and hasattr(self.last, "reusing")
        model = self.last.reusing(self.chosen) if reuse else clone(self.last)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", _OF_BLANKS)
            model.fit(X, labels, **weight_argument(model, data.weight))
        self.chosen = model if self.chosen is None else self.chosen
        return model

    def _piped(self, model: Any) -> Any:
        return Pipeline([*self.steps, (self.model.steps[-1][0], model)]) if self.steps else model


def part_joints(model: Any, joint: Joint, rows: Callable[[], Any]) -> tuple[Joint, ...]:
    """Parts of a model's joint that are experts of their own."""
    return tuple(model.part_joints(joint, rows)) if getattr(model, "part_names", ()) else ()


def with_frequencies(joints: Sequence[Joint], of_prior: Joint) -> list[Joint]:
    """Return a member's joint, and its parts with a share of the frequencies of label vectors.

    A part alone may find most vectors impossible.
    """
    share = [1.0 - _PRIOR_SHARE, _PRIOR_SHARE]
    return [joints[0], *(Mixture([part, of_prior], share) for part in joints[1:])]


def held_out_experts(
    members: Sequence[Member],
    data: TrainingData,
    space: LabelSpace,
    train: Indices,
    test: Indices,
    n_listed: int,
    prior: pooling.LabelPrior | None = None,
) -> tuple[pooling.HeldOutExperts, dict[int, str], list[Any]]:
    """Fit members to some rows as far as they have seen others, and ask them about these.

    Parameters
    ----------
    prior : LabelPrior, optional
        Of all rows, by which vectors are new; by default of the training rows, and members prove
        that what they list is their best.

    Returns
    -------
    held : HeldOutExperts
        A column for each of the members' names (without `prior`: of their names), the last for
        how often label vectors occur.
    failed : dict of int to str
        Members that could not be fitted or asked, and why; their columns say nothing.
    chosen : list
        The models whose choices may be taken over in other folds.
    """
    labels = EncodedLabels(space, data.codes)
    own_prior = pooling.LabelPrior.of(data.take(train))
    answering: dict[int, Callable[[Indices], Sequence[Joint]]] = {}
    failed: dict[int, str] = {}
    prepared: Prepared = {}
    for m, member in enumerate(members):
        try:
            answering[m] = member.without(train, data, labels, prepared)
        except EXPECTED as error:
            failed[m] = why(error)

    def of_rows(rows: Indices) -> pooling.HeldOutExperts:
        of_prior = own_prior.joint(space, len(rows))
        joints: list[Joint] = []
        owner: list[int] = []
        for m, member in enumerate(members):
            n_parts = 1 if prior is None else len(member.component_names)
            own = [of_prior] * n_parts
            if m not in failed:
                try:
                    own = with_frequencies(answering[m](rows)[:n_parts], of_prior)
                except EXPECTED as error:
                    failed[m] = why(error)
            joints += own
            owner += [m] * len(own)
        joints.append(of_prior)
        codes, weight = data.codes[rows], data.row_weights[rows]
        try:
            lists = pooling.expert_lists(joints, n_listed, EXPECTED, proven=prior is None)
            truth = pooling.ask_each(joints, lambda joint: joint.log_prob_codes(codes), EXPECTED)
        except pooling.UnansweredError as error:
            if error.position == len(owner):  # the prior's own
                raise
            failed[owner[error.position]] = error.why
            return of_rows(rows)
        agreeing, known = lists.agreeing(codes), (codes != MISSING).all(axis=1)
        new = (prior or own_prior).is_new(lists.codes)
        if prior is not None:  # a vector that no other row has would be new
            own = agreeing[known[lists.row[agreeing]]]
            new[own] = prior.counts_of(lists.codes[own]) <= weight[lists.row[own]]
        return pooling.HeldOutExperts(
            lists.without_codes(), new, np.stack(truth, axis=1), agreeing, known, weight
        )

    first, *others = [of_rows(rows) for rows in row_chunks(test, space)]
    return first.joined(*others), failed, [member.chosen for member in members]


def fitted_members(
    members: Members, data: TrainingData, space: LabelSpace
) -> tuple[dict[int, Any], dict[int, str]]:
    """Fit clones of the members; say of those that cannot learn from these rows why."""
    labels = EncodedLabels(space, data.codes)
    prepared: Prepared = {}
    fitted: dict[int, Any] = {}
    failed: dict[int, str] = {}
    for m, (name, model) in enumerate(members):
        member = Member(name, model)
        try:
            member.finish(data, labels, prepared)
            fitted[m] = member.fitted
        except EXPECTED as error:
            failed[m] = why(error)
    return fitted, failed


def key_of(steps: Sequence[BaseEstimator]) -> Hashable:
    """A key that steps share with others of the same types and parameters."""
    alike = [(type(step).__module__, type(step).__qualname__, step.get_params()) for step in steps]
    try:
        return joblib.hash(alike)
    except (PicklingError, TypeError, AttributeError):  # such as a lambda: shared with itself
        return tuple(id(step) for step in steps)


def weight_argument(model: Any, weight: Array | None) -> dict[str, Array]:
    """Return the weights as an argument of `fit`, if the model takes them."""
    if weight is None or not has_fit_parameter(model, "sample_weight"):
        return {}
    return {"sample_weight": weight}


def why(error: Exception) -> str:
    """Return what an error says, or its name if it says nothing."""
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

    pool: Annotated[pooling.Pool, "m"]
    prior: Annotated[pooling.LabelPrior, "d sizes"]

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
        member = Member("model", model)
        answer, failed, _ = held_out_experts([member], data, space, train, test, _N_LISTED)
        if failed:
            message = f"The model cannot be calibrated: {failed[0]}"
            warn(message)
            return None
        held.append(answer)
        numbers.append(np.full(len(test), f))
    if not held:
        return None
    whole = held[0].joined(*held[1:])
    pool = pooling.learn_pool(whole, np.concatenate(numbers), _N_LISTED, least=[1.0 / _HOTTEST])
    return Calibration(pool, pooling.LabelPrior.of(data))


def uncalibrated(model: Any) -> Any:
    """Return an unfitted model with the same parameters that does not calibrate itself."""
    return clone(model).set_params(calibrate=False)
