"""The one loop of cross-validation, and the one record of what a model says of rows held out."""

from __future__ import annotations

import contextlib
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from numbers import Integral
from typing import Any, Self

import joblib
import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import clone
from sklearn.model_selection import KFold
from sklearn.utils import _safe_indexing

from colabel.core.arrays import Array, Codes, Flags, Indices, row_slices
from colabel.decide import Subset, resolve_decision
from colabel.joint import Joint
from colabel.labels import MISSING, LabelSpace
from colabel.model_selection import LabelKFold, TimeFolds
from colabel.models import JointClassifier
from colabel.models.label_graph import LabelGraph
from colabel.models.wrapped import (
    fit_arguments,
    model_inside,
    title_of,
    unwrapped,
    without_search,
)
from colabel.tables import Frame, TableError

# What a model is shown before its time is taken.
_WARM_UP_ROWS, _WARM_UP_LABELS = 60, 12
_MOST_STRATIFIED = 20_000  # rows; stratifying more takes longer than it is worth

Folds = Sequence[tuple[Indices, Indices]]
"""Training and test rows of every fold."""


@dataclass(frozen=True, eq=False)
class Task:
    """Rows and their labels, to learn from and to be asked about.

    Attributes
    ----------
    X : array, CSR or Frame of n rows
        What the first step of a pipeline takes; ``X[rows]`` gives some of the rows.
    Y : (n, d)
        Labels, as a model takes them.
    space : LabelSpace
        Of all rows.
    codes : (n, d)
        The labels in it, MISSING where not known.
    weight : (n,) or None
        How many rows each stands for, in learning and in measures.
    """

    X: Any
    Y: Any
    space: LabelSpace
    codes: Codes
    weight: Array | None = None

    @classmethod
    def of(cls, X: Any, Y: Any, names: Sequence[str]) -> Self:
        """Find the values of the labels, and their codes."""
        return cls(X, Y, *LabelSpace.infer(Y, list(names)))


def rows_of(X: Any, rows: Indices) -> Any:
    """Return some of the rows of features, whatever holds them."""
    return X[rows] if isinstance(X, Frame) else _safe_indexing(X, rows)


@dataclass(frozen=True, eq=False)
class HeldOut:
    """What a model said about rows it had not seen, worked out once.

    Codes are those of the space of all rows, whatever values the training rows had.

    Attributes
    ----------
    rows : (m,)
        Positions of the rows.
    space : LabelSpace
        Of all rows.
    true, codes : (m, d)
        True labels, MISSING where not known, and those that the model decided for.
    log_prob : (m,) or None
        Log-probability of the true labels, as far as known; -inf where the training rows lack a
        value. None for models without probabilities, and where it was not asked for, as are
    marginals : (m, d) or None
        Probability of each label's decided value, or, for 0/1 labels, of 1.
    confidence : (m,) or None
        Joint probability of the most probable label vector.
    mode_right : (m,) or None
        Whether that vector has all labels right that are known.
    decided : {loss: (m, d)}
        The labels decided for under other losses that were asked for.
    joint : Joint or None
    graph : LabelGraph or None
        Which label depends on which, where the model says so.
    predict_seconds : float
        For the joint and the decision.
    seconds : float
        For preparing the rows and all that was asked; `cross_validate` adds those of the fit.
    weight : (m,) or None
    """

    rows: Indices
    space: LabelSpace
    true: Codes
    codes: Codes
    log_prob: Array | None = None
    marginals: Array | None = None
    confidence: Array | None = None
    mode_right: Flags | None = None
    decided: Mapping[str, Codes] = field(default_factory=dict)
    joint: Joint | None = None
    graph: LabelGraph | None = None
    predict_seconds: float = 0.0
    seconds: float = 0.0
    weight: Array | None = None

    @cached_property
    def labels(self) -> tuple[NDArray[Any], Codes]:
        """True and decided labels as the metrics take them, NaN where the truth is not known."""
        # Values of class variables must not look like labels that are there or absent, 0 and 1.
        shift = 0 if self.space.is_indicator else 2
        known = self.true != MISSING
        true = self.true + shift
        return true if known.all() else np.where(known, true, np.nan), self.codes + shift

    @cached_property
    def complete(self) -> HeldOut:
        """The answers about rows that lack no label."""
        return self.some(np.flatnonzero((self.true != MISSING).all(axis=1)))

    def each_value(self) -> Iterator[tuple[str, Flags, Flags, Array | None]]:
        """Give each 0/1 label, or each value of the class variables, in the rows that know it.

        Its name, where it is true and where it was decided for, (k,), and the marginals (k,) of
        these rows.
        """
        for i, (name, values) in enumerate(zip(self.space.names, self.space.classes, strict=True)):
            known = self.true[:, i] != MISSING
            marginals = None if self.marginals is None else self.marginals[known, i]
            for code in (1,) if self.space.is_indicator else range(len(values)):
                title = name if self.space.is_indicator else f"{name}={values[code]}"
                true, decided = self.true[known, i] == code, self.codes[known, i] == code
                yield title, true, decided, marginals

    def some(self, rows: Indices) -> HeldOut:
        """Return the answers about some of the rows, by their place here."""
        return self._each(lambda column: column[rows])

    def in_order(self, *others: HeldOut) -> HeldOut:
        """Put the answers of several folds together, in the order of the rows."""
        parts = (self, *others)
        order = np.argsort(np.concatenate([part.rows for part in parts]), kind="stable")
        return self._each(lambda *columns: np.concatenate(columns)[order], *others)

    def _each(self, made: Callable[..., Any], *others: HeldOut) -> HeldOut:
        """Make every column anew, of those of this record and others; None stays None."""

        def column(name: str) -> Any:
            own = [getattr(part, name) for part in (self, *others)]
            return None if any(each is None for each in own) else made(*own)

        decided = {
            loss: made(codes, *(part.decided[loss] for part in others))
            for loss, codes in self.decided.items()
        }
        return HeldOut(
            space=self.space, decided=decided, **{name: column(name) for name in COLUMNS}
        )


COLUMNS = "rows", "true", "codes", "log_prob", "marginals", "confidence", "mode_right", "weight"


@dataclass(frozen=True)
class Ask:
    """What is worked out beside the decided labels; each costs time of its own.

    `decisions` are losses under which to decide once more. Unless the joint is kept, that of
    `rows_at_once` rows is held: it may be many times larger than the rows.
    """

    log_prob: bool = True
    marginals: bool = True
    confidence: bool = True
    decisions: tuple[str, ...] = ()
    joint: bool = False
    rows_at_once: int = 1 << 14


_EVERYTHING = Ask()


def learn(model: Any, task: Task, train: Indices) -> tuple[Any, float]:
    """Fit a clone of a model to the training rows; return it and the seconds that took.

    Kernels are compiled at their first use, so a model first learns from a few rows, once a
    process, and no time is taken of that.
    """
    known = repr((title_of(model), model_inside(model), sparse.issparse(task.X)))
    if known not in _warm:
        _warm.add(known)
        few = train[np.linspace(0, len(train) - 1, min(_WARM_UP_ROWS, len(train))).astype(np.intp)]
        names = task.space.names[:_WARM_UP_LABELS]
        # What goes wrong with so few rows and labels says nothing of all of them.
        with warnings.catch_warnings(), contextlib.suppress(Exception):
            warnings.simplefilter("ignore")
            X, Y = task.X[few], task.Y[few][:, :_WARM_UP_LABELS]
            own = without_search(model)
            _decided(*unwrapped(clone(own).fit(X, Y, **fit_arguments(own, names)), X))
    weight = None if task.weight is None else task.weight[train]
    started = time.perf_counter()
    arguments = fit_arguments(model, task.space.names, weight)
    fitted = clone(model).fit(task.X[train], task.Y[train], **arguments)
    return fitted, time.perf_counter() - started


_warm: set[str] = set()


def answer(fitted: Any, task: Task, test: Indices, ask: Ask = _EVERYTHING) -> HeldOut:
    """Ask a fitted model, or a pipeline or search around one, about rows."""
    started = time.perf_counter()
    model, X = unwrapped(fitted, rows_of(task.X, test))
    chunks = row_slices(len(test), len(test) if ask.joint else ask.rows_at_once)
    first, *others = [_answers(model, X[chunk], test[chunk], task, ask) for chunk in chunks]
    whole = first.in_order(*others) if others else first
    return replace(
        whole,
        graph=model.label_graph() if hasattr(model, "label_graph") else None,
        predict_seconds=sum(part.predict_seconds for part in (first, *others)),
        seconds=time.perf_counter() - started,
        weight=None if task.weight is None else task.weight[test],
    )


def _decided(model: Any, X: Any) -> tuple[Any, Joint | None]:
    """Codes in the model's own space, or labels where it has none, and the joint behind them."""
    if isinstance(model, JointClassifier) and model.decides_by_joint():
        joint = model.joint(X)
        return model.decision_rule().codes(joint), joint
    predicted = model.predict(X)
    return (model.label_space_.encode(predicted) if _has_space(model) else predicted), None


def _has_space(model: Any) -> bool:
    return isinstance(getattr(model, "label_space_", None), LabelSpace)


def _answers(model: Any, X: Any, rows: Indices, task: Task, ask: Ask) -> HeldOut:
    """Answers for prepared rows, with the seconds until they were decided."""
    started = time.perf_counter()
    decided, joint = _decided(model, X)
    seconds = time.perf_counter() - started
    true = task.codes[rows]
    if not _has_space(model):
        codes = task.space.encode(decided)
        return HeldOut(rows, task.space, true, codes, predict_seconds=seconds)
    own = model.label_space_  # whose training rows may have lacked values
    codes = recoded(decided, own, task.space)
    if joint is None and ask.log_prob and hasattr(model, "joint"):
        joint = model.joint(X)  # of a model that decides by something else
    if joint is None:
        return HeldOut(rows, task.space, true, codes, predict_seconds=seconds)
    log_prob = marginals = confidence = mode_right = None
    if ask.log_prob:
        known = recoded(true, task.space, own)
        seen = ((known == MISSING) == (true == MISSING)).all(axis=1)
        log_prob = np.minimum(np.where(seen, joint.log_prob_codes(known), -np.inf), 0.0)
    if ask.marginals:
        values = np.ones_like(decided) if task.space.is_indicator else decided
        pairs = zip(joint.marginal_tables(), values.T, strict=True)
        marginals = np.stack([table[np.arange(len(rows)), each] for table, each in pairs], axis=1)
    others = {}
    for loss in ask.decisions:
        if loss == "hamming" and marginals is not None and task.space.is_indicator:
            # what Hamming decides; the marginals of a large chain are not summed twice
            others[loss] = (marginals > 0.5).astype(np.int32)
            continue
        with contextlib.suppress(NotImplementedError):  # a network that only decides has no sums
            others[loss] = recoded(resolve_decision(loss).codes(joint), own, task.space)
    if ask.confidence:
        by_mode = isinstance(model, JointClassifier) and isinstance(model.decision_rule(), Subset)
        best = decided if by_mode else joint.mode_codes()
        confidence = np.exp(joint.log_prob_codes(best))
        right = recoded(best, own, task.space) == true
        mode_right = (right | (true == MISSING)).all(axis=1)
    kept = joint if ask.joint else None
    asked = (log_prob, marginals, confidence, mode_right, others, kept, None, seconds)
    return HeldOut(rows, task.space, true, codes, *asked)


def recoded(codes: Codes, space: LabelSpace, other: LabelSpace) -> Codes:
    """Return codes (n, d) of a space in another one; MISSING for values that it lacks."""
    columns = []
    for column, own, theirs in zip(codes.T, space.classes, other.classes, strict=True):
        position = {value: i for i, value in enumerate(theirs.tolist())}
        table = [*(position.get(value, MISSING) for value in own.tolist()), MISSING]
        columns.append(np.array(table, dtype=np.int32)[column])
    return np.stack(columns, axis=1)


# ------------------------------------------------------------------------ the loop

Part = tuple[str, int]
"""The name of a model, and a fold."""


def folds_of(
    cv: Any, codes: Codes, seed: int, X: Any = None, groups: Any = None, times: Any = None
) -> Folds:
    """Return the folds that a number, a splitter of scikit-learn, or pairs of rows stand for.

    Folds of a number have about the same share of every label, keep rows of equal `groups`
    together, or train on rows that are older than all test rows by `times`.
    """
    if groups is not None and times is not None:
        raise TableError("Folds are made by groups or by time: give one of them.")
    if not isinstance(cv, Integral):
        pairs = cv.split(codes if X is None else X, codes, groups) if hasattr(cv, "split") else cv
        folds = [(np.asarray(train), np.asarray(test)) for train, test in pairs]
        if not folds:
            raise TableError("cv gives no fold: give at least one pair of training and test rows.")
        return folds
    splitter: Any = LabelKFold(int(cv), random_state=seed)
    if times is not None:
        splitter = TimeFolds(np.asarray(times), int(cv))
    elif groups is None and len(codes) > _MOST_STRATIFIED:
        splitter = KFold(int(cv), shuffle=True, random_state=seed)
    try:
        return list(splitter.split(codes, codes, groups))
    except ValueError as error:
        raise TableError(str(error)) from error


def parts_of(names: Iterable[str], n_folds: int) -> list[Part]:
    """Return the models and folds in their order.

    Every model is asked about the first fold before any is asked about the others, so that it is
    soon known how long each takes, and work that is stopped says something of all.

    Examples
    --------
    >>> [f"{name}{fold}" for name, fold in parts_of(["a", "b"], 3)]
    ['a0', 'b0', 'a1', 'a2', 'b1', 'b2']
    """
    names = list(names)
    return [(name, 0) for name in names] + [(n, k) for n in names for k in range(1, n_folds)]


def cross_validate(
    models: Mapping[str, Any],
    task: Task,
    folds: Folds,
    ask: Ask = _EVERYTHING,
    n_jobs: int = 1,
    parts: Iterable[Part] | None = None,
) -> Iterator[tuple[Part, HeldOut | Exception]]:
    """Fit models to the training rows of folds, and ask them about the others.

    Parameters
    ----------
    models : {name: estimator}
        Models, or pipelines or searches around one; they are cloned.
    task : Task
    folds : sequence of (training rows, test rows)
    ask : Ask
    n_jobs : int
        Processes, -1 for all cores. With one, the work is done in this process.
    parts : iterable of (name, fold), optional
        What to do, in this order; by default all, see `parts_of`.

    Yields
    ------
    part, answers
        The answers, or the error that stopped a model, which is not asked again.
    """
    failed: set[str] = set()
    jobs: Any = (
        joblib.delayed(_answered)(part, models[part[0]], task, folds[part[1]], ask)
        for part in (parts_of(models, len(folds)) if parts is None else parts)
        if part[0] not in failed
    )
    if int(joblib.effective_n_jobs(n_jobs)) == 1:
        answered = (work(*arguments) for work, arguments, _ in jobs)
    else:
        pool: Any = joblib.Parallel(n_jobs=n_jobs, return_as="generator", pre_dispatch="n_jobs")
        answered = pool(jobs)
    for part, answers in answered:
        if part[0] not in failed:
            failed |= {part[0]} if isinstance(answers, Exception) else set()
            yield part, answers


def _answered(
    part: Part, model: Any, task: Task, fold: tuple[Indices, Indices], ask: Ask
) -> tuple[Part, HeldOut | Exception]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a solver that stops early shows in the scores
        try:
            fitted, seconds = learn(model, task, fold[0])
            found = answer(fitted, task, fold[1], ask)
            return part, replace(found, seconds=found.seconds + seconds)
        except (ValueError, NotImplementedError, MemoryError) as error:
            return part, error
