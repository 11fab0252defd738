"""Fitting the members of a stack: once to all rows, and to parts of them where that is needed."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from colabel.core.arrays import Flags, Indices
from colabel.joint import Joint, Mixture
from colabel.labels import MISSING, EncodedLabels, LabelSpace
from colabel.learn.conditional import TrainingData
from colabel.learn.forest.contents import label_targets
from colabel.learn.forest.forest import grow
from colabel.learn.pool import (
    HeldOutOpinions,
    LabelPrior,
    UnansweredError,
    ask_each,
    opinions,
    pool_of,
)
from colabel.models._cross_fitting import EXPECTED, key_of, weight_argument, why
from colabel.models.lazy import row_chunks
from colabel.models.wrapped import joint_of

# What the frequencies of label vectors are worth beside a part that finds most of them impossible.
_PRIOR_SHARE = 0.2
# Of some voice in the first fold, below which a member is not fitted again.
_LEAST_WEIGHT, _LEAST_EXPONENT = 0.01, 0.1
_PILOT_TREES = 4
# What members cost with their folds and answers, in random forests of 100 trees.
_FORESTS = {
    "forest": 2.0,
    "extra trees": 2.0,
    "lines": 1.0,
    "curves": 2.0,
    "kernel": 2.0,
    "boosting": 3.0,
}
_FORESTS_OF_OTHERS = 4.0
Prepared = dict[Hashable, tuple[list[Any], Any]]


class HeldOut(Protocol):
    """A fitted model that speaks of rows it has not seen."""

    def joints(self, rows: Indices) -> Sequence[Joint]:
        """Return the joints of a member's voices for some of the training rows."""


@dataclass
class Member:
    """One member while its stack is fitted.

    Attributes
    ----------
    name : str
    model : estimator
        Unfitted.
    steps : list of (name, transformer), or None
        Fitted once to all rows, where they describe rows without having seen their labels.
    rows : (n, q)
        What these make of all rows.
    held_out : HeldOut, optional
        Where the model, fitted to all rows, says of each what it would without it.
    fitted : estimator, optional
        The model, fitted to all rows.
    chosen : estimator, optional
        A fitted model whose choices others take over.
    """

    name: str
    model: Any
    steps: list[Any] | None = None
    rows: Any = None
    held_out: HeldOut | None = None
    fitted: Any = None
    chosen: Any = field(default=None, repr=False)

    @property
    def last(self) -> Any:
        """The model, without the steps before it."""
        return last_of(self.model)

    def begin(self, data: TrainingData, labels: EncodedLabels, prepared: Prepared) -> None:
        """Fit to all rows what needs no folds."""
        before = _steps_before(self.model)
        if not all(getattr(step, "out_of_sample", False) for _, step in before):
            return
        self.steps, self.rows = _prepared(before, data.X, data, labels, prepared)
        if hasattr(self.last, "fit_held_out") and not getattr(self.last, "calibrate", False):
            model = clone(self.last)
            self.held_out = model.fit_held_out(
                self.rows, labels, **weight_argument(model, data.weight)
            )
            self.fitted = self._piped(model)
        elif hasattr(self.last, "reusing"):  # its choices serve all folds
            self.fitted = self._piped(self._fit_last(self.rows, labels, data))

    def without(
        self, train: Indices, data: TrainingData, labels: EncodedLabels, prepared: Prepared
    ) -> HeldOut:
        """Fit to some rows what has seen all; return what then answers for the others."""
        if self.held_out is not None:
            return self.held_out
        some, own = data.take(train), labels[train]
        if self.steps is None:
            before = _steps_before(self.model)
            steps, X = _prepared(before, some.X, some, own, prepared)
            return _Fitted(self._fit_last(X, own, some), steps, data.X)
        return _Fitted(self._fit_last(self.rows[train], own, some), [], self.rows)

    def finish(self, data: TrainingData, labels: EncodedLabels, prepared: Prepared) -> None:
        """Fit to all rows what has not been."""
        if self.fitted is None:
            if self.steps is None:
                before = _steps_before(self.model)
                self.steps, self.rows = _prepared(before, data.X, data, labels, prepared)
            self.fitted = self._piped(self._fit_last(self.rows, labels, data))

    def _fit_last(self, X: Any, labels: EncodedLabels, data: TrainingData) -> Any:
        reuse = self.chosen is not None and hasattr(self.last, "reusing")
        model = self.last.reusing(self.chosen) if reuse else clone(self.last)
        model.fit(X, labels, **weight_argument(model, data.weight))
        self.chosen = model if self.chosen is None else self.chosen
        return model

    def _piped(self, model: Any) -> Any:
        if not self.steps:
            return model
        return Pipeline([*self.steps, (self.model.steps[-1][0], model)])


@dataclass(frozen=True)
class _Fitted:
    """A model fitted to other rows than those it is asked about."""

    model: Any
    steps: list[Any]
    X: Any

    def joints(self, rows: Indices) -> Sequence[Joint]:
        X = self.X[rows]
        for _, step in self.steps:
            X = step.transform(X)
        joint = joint_of(self.model, X)
        return joint, *heard_alone(self.model, joint, lambda: X)


def last_of(model: Any) -> Any:
    """Return the last step of a pipeline, or a model alone."""
    return model[-1] if isinstance(model, Pipeline) else model


def parts_heard(model: Any) -> tuple[str, ...]:
    """Names of the parts of a member's joint that are heard on their own."""
    parts: tuple[str, ...] = getattr(last_of(model), "parts_heard", ())
    return parts


def voices(members: Sequence[Member]) -> list[tuple[int, str]]:
    """Member and name of each opinion that a stack hears: the members', and parts of theirs."""
    return [
        (m, title)
        for m, member in enumerate(members)
        for title in (member.name, *(f"{member.name}, {p}" for p in parts_heard(member.model)))
    ]


def heard_alone(model: Any, joint: Joint, rows: Callable[[], Any]) -> tuple[Joint, ...]:
    """Parts of a joint that are heard on their own."""
    if not parts_heard(model):
        return ()
    parts: tuple[Joint, ...] = last_of(model).heard_alone(joint, rows)
    return parts


def with_frequencies(joints: Sequence[Joint], of_prior: Joint) -> list[Joint]:
    """Return a member's joint, and its parts with a share of the frequencies of label vectors.

    A part alone may find most vectors impossible.
    """
    share = [1.0 - _PRIOR_SHARE, _PRIOR_SHARE]
    return [joints[0], *(Mixture([part, of_prior], share) for part in joints[1:])]


def rows_before(model: Any, X: Any) -> Any:
    """Rows as the last step of a fitted pipeline sees them."""
    return model[:-1].transform(X) if isinstance(model, Pipeline) and model[:-1] else X


def _steps_before(model: Any) -> list[tuple[str, Any]]:
    if not isinstance(model, Pipeline):
        return []
    return [(name, step) for name, step in model.steps[:-1] if step not in (None, "passthrough")]


def _prepared(
    before: list[tuple[str, Any]],
    X: Any,
    data: TrainingData,
    labels: EncodedLabels,
    known: Prepared,
) -> tuple[list[Any], Any]:
    """Fitted steps of a member before its model, and the rows that the model sees.

    Pipelines that begin alike share them.
    """
    key = key_of([step for _, step in before])
    if key not in known:
        fitted = []
        for name, step in before:
            fresh = clone(step)
            X = fresh.fit_transform(X, labels, **weight_argument(fresh, data.weight))
            fitted.append((name, fresh))
        known[key] = fitted, X
    return known[key]


def held_out_opinions(
    members: Sequence[Member],
    data: TrainingData,
    space: LabelSpace,
    of_fold: Flags,
    n_listed: int,
    prior: LabelPrior,
) -> tuple[HeldOutOpinions, dict[int, str], list[Any]]:
    """Ask the members about the rows of a fold (n,), which they have not seen.

    Returns
    -------
    held : HeldOutOpinions
        A column for each of the `voices`, the last for how often label vectors occur.
    failed : dict of int to str
        Members that could not be fitted or asked, and why; their columns say nothing.
    chosen : list
        The models whose choices may be taken over in other folds.
    """
    train, test = np.flatnonzero(~of_fold), np.flatnonzero(of_fold)
    labels = EncodedLabels(space, data.codes)
    own_prior = LabelPrior.of(data.take(train))
    answering: dict[int, HeldOut] = {}
    failed: dict[int, str] = {}
    prepared: Prepared = {}
    for m, member in enumerate(members):
        try:
            answering[m] = member.without(train, data, labels, prepared)
        except EXPECTED as error:
            failed[m] = why(error)

    def of_rows(rows: Indices) -> HeldOutOpinions:
        of_prior = own_prior.joint(space, len(rows))
        said_by: list[Joint] = []
        owner: list[int] = []
        for m, member in enumerate(members):
            n_voices = 1 + len(parts_heard(member.model))
            own = [of_prior] * n_voices
            if m not in failed:
                try:
                    own = with_frequencies(answering[m].joints(rows), of_prior)
                except EXPECTED as error:
                    failed[m] = why(error)
            said_by += own
            owner += [m] * n_voices
        codes = data.codes[rows]
        try:
            said = opinions([*said_by, of_prior], n_listed, EXPECTED)
            truth = ask_each(
                [*said_by, of_prior], lambda joint: joint.log_prob_codes(codes), EXPECTED
            )
        except UnansweredError as error:
            if error.position == len(owner):  # the prior's own
                raise
            failed[owner[error.position]] = error.why
            return of_rows(rows)
        entry = said.entry_of(codes)
        new = prior.is_new(said.codes)
        listed = entry[entry >= 0]
        # a vector that no other row has would be new
        new[listed] = prior.counts_of(said.codes[listed]) <= data.row_weights[rows][entry >= 0]
        return HeldOutOpinions(
            said.without_codes(),
            new,
            np.stack(truth, axis=1),
            entry,
            (codes != MISSING).all(axis=1),
            data.row_weights[rows],
        )

    first, *others = [of_rows(rows) for rows in row_chunks(test, space)]
    return first.joined(*others), failed, [member.chosen for member in members]


def expected_seconds(members: Sequence[Member], data: TrainingData, seed: int) -> dict[str, float]:
    """Estimate the seconds that each member will take, by growing a few trees on all rows.

    The members of the default cost so many random forests of 100 trees (`benchmarks.stack`);
    of others nothing is known.
    """
    start = time.perf_counter()
    grow(data.X, label_targets(data), n_estimators=_PILOT_TREES, random_state=seed)
    forest = (time.perf_counter() - start) * 100 / _PILOT_TREES
    return {m.name: forest * _FORESTS.get(m.name, _FORESTS_OF_OTHERS) for m in members}


def within(seconds: dict[str, float], limit: float) -> tuple[list[str], float]:
    """Members that fit into some seconds, in their order, and the share of the rows if none does.

    One that does not fit is left out for those after it.
    """
    kept: list[str] = []
    left = limit
    for name, own in seconds.items():
        if own <= left:
            kept.append(name)
            left -= own
    if kept:
        return kept, 1.0
    cheapest = min(seconds, key=lambda name: seconds[name])
    return [cheapest], max(limit, 0.0) / seconds[cheapest]


def without_weight(
    members: Sequence[Member], titles: Sequence[str], held: HeldOutOpinions
) -> set[str]:
    """Names of members that a pool of some rows does not need.

    None of their voices, of those with these titles, has a weight in the mixture or an exponent.
    """
    pool = pool_of(held)
    exponents = np.zeros(len(pool.weights)) if pool.coef is None else pool.coef[:-1]
    needed = (pool.weights >= _LEAST_WEIGHT) | (exponents >= _LEAST_EXPONENT)
    names = {title for title, own in zip(titles, needed, strict=False) if own}
    kept = {members[m].name for m, title in voices(members) if title in names}
    return {member.name for member in members} - kept if kept else set()
