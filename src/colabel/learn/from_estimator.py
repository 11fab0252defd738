"""Conditionals by any scikit-learn probabilistic classifier, over joblib.

`stack` makes features of a joint model of what classifiers of x alone say of every label.
A few columns of labels among hundreds of features are lost on trees, and a probability that a
forest counts from its leaves is no measurement of how sure it is. Stacked (Wolpert, 1992), the
classifiers learn each label from x alone, d of them and as many again for every fold; the built-in
regressions then learn, from scores that are held out, how far to trust them and what the labels
say of each other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, TypeVar

import numpy as np
import scipy.sparse as sp
from joblib import Parallel, delayed
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import has_fit_parameter

from colabel.core import schema
from colabel.core.arrays import Array, Flags, Indices, is_sparse
from colabel.core.progress import progress_bar
from colabel.labels import MISSING
from colabel.learn.conditional import (
    Folds,
    HeldOutScores,
    Offsets,
    RowGroup,
    TrainingData,
    covering,
    scores_of,
)

Result = TypeVar("Result")

_SMALLEST_PROBABILITY = 1e-12  # of classifiers whose probabilities only carry scores
# What joblib, Dask and loky raise when the process that had the work is gone.
LOST_WORKER = frozenset(
    {
        "BrokenProcessPool",
        "CancelledError",
        "CommClosedError",
        "FutureCancelledError",
        "KilledWorker",
        "TerminatedWorkerError",
    }
)
_ATTEMPTS = 3


@schema.stored("estimator-model")
@dataclass(frozen=True)
class EstimatorModel:
    """One fitted classifier of a variable with `n_classes` values.

    A value the classifier has not seen keeps its smoothed frequency; `estimator` is None where
    fewer than two values were seen, and the frequencies are then all there is. No value is less
    probable than its frequency would make it in one row more than the classifier has seen: the
    zeros of forests and neighbours say that no such row was there, not that there is none. An
    estimator with the attribute `unsmoothed` is taken at its word.
    """

    estimator: Annotated[Any | None, schema.Estimator(does="predict_proba")]
    seen: Annotated[Indices, "_", schema.Below("c"), schema.ASCENDING, schema.NOT_EMPTY]
    frequency: Annotated[Array, "c", schema.Distribution()]
    allowed: Annotated[Flags | None, "extra"] = None
    n_rows: Annotated[float | None, schema.Between(0.0)] = None

    @staticmethod
    def _check_stored(fields: schema.Fields, dims: schema.Dims) -> None:
        estimator, allowed = fields["estimator"], fields["allowed"]
        if estimator is not None:
            n_seen = len(fields["seen"])
            schema.bind(
                dims, n_seen, estimator.dims.get("k", n_seen), "the classes of an estimator"
            )
        if estimator is not None and "p" in estimator.dims:
            # as regressions have them: all features, used or not, and an intercept
            n_left_out = 0 if allowed is None else int((~allowed).sum())
            dims["q"] = estimator.dims["p"] + n_left_out + 1

    def log_prob(self, X: Any, extra: Array | None = None) -> Array:
        """Log-probabilities (n, K)."""
        n_rows = X.shape[0]
        X = _with_extra(X, extra, self.allowed)
        prob = np.tile(self.frequency, (n_rows, 1))
        if self.estimator is not None:
            kept = self.frequency[self.seen].sum()
            whole = len(self.seen) == len(self.frequency)
            prob[:, self.seen] = self.estimator.predict_proba(X) * (1.0 if whole else kept)
        # at least the frequencies' share of one row in n + 1
        share = 0.0 if self.n_rows is None else 1.0 / (self.n_rows + 1.0)
        np.maximum(prob, np.maximum(share * self.frequency, _SMALLEST_PROBABILITY), out=prob)
        prob /= prob.sum(axis=1, keepdims=True)
        return np.log(prob)


@schema.stored("estimator-models")
@dataclass(frozen=True)
class EstimatorModels:
    """Fitted classifiers in the order of the groups' targets."""

    models: Annotated[tuple[EstimatorModel, ...], "m extra q"]

    @staticmethod
    def _check_stored(fields: schema.Fields, dims: schema.Dims) -> None:
        dims["sizes"] = tuple(model.dims["c"] for model in fields["models"])

    def log_prob(self, X: Any, extra: Array | None = None) -> list[Array]:
        return [model.log_prob(X, extra) for model in self.models]

    @property
    def n_iter(self) -> None:
        """None: how classifiers count, if they do, is their own affair."""
        return None

    @property
    def coef(self) -> None:
        """None: nothing is known of how classifiers see x."""
        return None

    def __call__(self, X: Any) -> Array:
        """Return the scores (n, e) of rows X (n, p): a column for two values, K for K."""
        return _columns([scores_of(table.T) for table in self.log_prob(X)])

    def take(self, order: Indices) -> EstimatorModels:
        """Return some of the models in another order: position i has the model `order[i]`."""
        return EstimatorModels(tuple(self.models[i] for i in order))

    def joined(self, *others: EstimatorModels) -> EstimatorModels:
        """Return these models and then the others."""
        return EstimatorModels(sum((other.models for other in others), self.models))


def _in_parallel(
    parallel: Parallel, calls: Sequence[Any], advance: Callable[[], None] = lambda: None
) -> list[Any]:
    """Run joblib's calls; again, where a worker was lost meanwhile.

    A cluster's worker may be killed for its memory, or taken away. Its calls are lost, and with
    some backends those of the others too; they have no effect but their result, so that all can
    simply be made again.
    """
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            results = []
            for result in parallel(calls):
                results.append(result)
                advance()
            return results
        except Exception as error:
            if type(error).__name__ not in LOST_WORKER:
                raise
            if attempt == _ATTEMPTS:
                raise RuntimeError(
                    f"Workers were lost {_ATTEMPTS} times while classifiers were fitted "
                    f"({type(error).__name__}). Give each worker more memory, or fit fewer at a "
                    "time (n_jobs)."
                ) from error
    raise AssertionError("unreachable")


def _with_extra(X: Any, extra: Array | None, allowed: Flags | None) -> Any:
    """Append the allowed extra features to the rows."""
    if extra is None:
        return X
    used = extra if allowed is None else extra[:, allowed]
    return (
        sp.hstack([X, sp.csr_array(used)], format="csr") if is_sparse(X) else np.hstack([X, used])
    )


def _fit_one(
    estimator: BaseEstimator,
    data: TrainingData,
    rows: Indices | None,
    target: int,
    frequency: Array,
    allowed: Flags | None,
    train: Flags | None,
) -> EstimatorModel:
    """Fit one target on the group's rows, or on those that `train` (n,) marks."""
    codes = data.codes[:, target]
    usable = codes != MISSING
    if train is not None:
        usable &= train
    if rows is not None:
        in_group = np.zeros(data.n_rows, dtype=bool)
        in_group[rows] = True
        usable &= in_group
    if data.weight is not None:
        usable &= data.weight > 0
    index = np.flatnonzero(usable)
    y = codes[index]
    weight = None if data.weight is None else data.weight[index]
    size = len(frequency)
    counts = np.bincount(y, weights=weight, minlength=size)
    smoothed = (counts + size * frequency) / (counts.sum() + size)
    seen = np.flatnonzero(counts > 0)
    if len(seen) < 2:
        return EstimatorModel(None, seen, smoothed, allowed)
    fitted = clone(estimator)
    arguments = {} if weight is None else {"sample_weight": weight}
    extra = None if data.extra is None else data.extra[index]
    fitted.fit(_with_extra(data.X[index], extra, allowed), y, **arguments)
    # weights that are shares of one are not so many rows
    n_rows = max(float(counts.sum()), float(len(index)))
    certain = any(getattr(estimator, name, False) for name in ("carries_scores", "unsmoothed"))
    return EstimatorModel(fitted, seen, smoothed, allowed, None if certain else n_rows)


def _score_one(
    estimator: BaseEstimator,
    data: TrainingData,
    rows: Indices | None,
    target: int,
    frequency: Array,
    allowed: Flags | None,
    folds: Folds,
) -> Array:
    """Held-out log-probabilities of one target for the rows of its group."""
    index = np.arange(data.n_rows) if rows is None else rows
    result = np.zeros(len(index))
    for fold in range(folds.n_folds):
        held = np.flatnonzero(
            (folds.of_row[index] == fold) & (data.codes[index, target] != MISSING)
        )
        if not len(held):
            continue
        train = folds.of_row != fold
        model = _fit_one(estimator, data, rows, target, frequency, allowed, train)
        extra = None if data.extra is None else data.extra[index[held]]
        log_prob = model.log_prob(data.X[index[held]], extra)
        result[held] = log_prob[np.arange(len(held)), data.codes[index[held], target]]
    return result


def check_takes_weight(estimator: Any, weight: Any, inner: Any = None) -> None:
    """Raise ValueError if there are weights, and an estimator, or the model inside, takes none."""
    taking = estimator if inner is None else inner
    if weight is not None and not has_fit_parameter(taking, "sample_weight"):
        raise ValueError(
            f"estimator={estimator!r} does not accept sample_weight. Fit without weights"
            " or choose an estimator that takes them."
        )


@dataclass(frozen=True)
class EstimatorLearner:
    """Any scikit-learn classifier with `predict_proba`, cloned for every target.

    Attributes
    ----------
    estimator : classifier
    n_jobs : int or None
        Workers of joblib, which also reaches Dask and Ray clusters by its backends.
    verbose : bool
        Whether to show progress.
    data : TrainingData
        The rows, after `on`.
    """

    estimator: BaseEstimator
    n_jobs: int | None
    verbose: bool
    data: Any = None
    needs_choice: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not hasattr(self.estimator, "predict_proba"):
            raise ValueError(
                f"estimator={self.estimator!r} has no predict_proba. Use a probabilistic"
                " classifier, or wrap it in sklearn.calibration.CalibratedClassifierCV."
            )

    def values(self, choice: Indices) -> None:
        """None: there is nothing to choose."""
        return

    def on(self, data: TrainingData) -> EstimatorLearner:
        """See `ConditionalLearner.on`."""
        check_takes_weight(self.estimator, data.weight)
        return replace(self, data=data)

    def cross_validate(
        self,
        groups: Sequence[RowGroup],
        folds: Folds,
        reduce: Callable[[RowGroup, HeldOutScores], Result],
        description: str,
        *,
        start: Offsets | None = None,
        keep: bool = False,
    ) -> list[Result]:
        """See `Learning.cross_validate`; there is no path to start from or to hand on."""
        results: list[Result] = []
        what = f"{description}, {folds.n_folds * sum(len(g.targets) for g in groups):,} fits"
        with (
            progress_bar(what, len(groups), shown=self.verbose) as advance,
            Parallel(n_jobs=self.n_jobs) as parallel,
        ):
            for group in groups:
                scores = np.stack(_in_parallel(parallel, self._calls(_score_one, [(group, folds)])))
                weight = self.data.row_weights
                total = scores @ (weight if group.rows is None else weight[group.rows])
                choice = np.zeros(len(group.targets), dtype=np.intp)
                results.append(reduce(group, HeldOutScores(scores, choice, total)))
                advance()
        return results

    def fit(self, groups: Sequence[RowGroup], choices: Sequence[Indices]) -> EstimatorModels:
        """See `Learning.fit`; there is nothing to choose."""
        return EstimatorModels(tuple(self._fitted([(group, None) for group in groups])))

    def cross_fitted_scores(
        self, folds: Folds, choice: Indices, models: Any = None
    ) -> tuple[Array, ...]:
        """See `Learning.cross_fitted_scores`."""
        return self.cross_fitted(folds)[0]

    def cross_fitted(
        self, folds: Folds, *, refit: bool = False
    ) -> tuple[tuple[Array, ...], EstimatorModels]:
        """Return the scores and, with `refit`, the labels' classifiers on all rows."""
        data, d = self.data, self.data.n_labels
        every = RowGroup(None, np.arange(d))
        parts = [(every, folds.of_row != fold) for fold in range(folds.n_folds)]
        models = self._fitted([*parts, *([(every, None)] if refit else [])])
        tables = [np.zeros((size, data.n_rows)) for size in data.cardinalities]
        for fold in range(folds.n_folds):
            rows = np.flatnonzero(folds.of_row == fold)
            if len(rows):
                for table, model in zip(tables, models[fold * d : (fold + 1) * d], strict=True):
                    table[:, rows] = model.log_prob(data.X[rows]).T
        whole = EstimatorModels(tuple(models[folds.n_folds * d :]))
        return tuple(scores_of(table) for table in tables), whole

    def _fitted(self, groups: Sequence[tuple[RowGroup, Flags | None]]) -> list[EstimatorModel]:
        """Fit the targets of groups, on their rows or on those that a mask (n,) leaves."""
        calls = self._calls(_fit_one, groups)
        # results one by one are for the bar; not every backend of joblib has them
        parallel = Parallel(self.n_jobs, return_as="generator" if self.verbose else "list")
        name = type(self.estimator).__name__
        with progress_bar(f"fits of {name}", len(calls), shown=self.verbose) as advance:
            return _in_parallel(parallel, calls, advance)

    def _calls(self, work: Callable[..., Any], groups: Sequence[tuple[RowGroup, Any]]) -> list[Any]:
        """Calls of joblib: some work for each target of groups, with what comes with its group."""
        frequencies = self.data.class_frequencies
        return [
            delayed(work)(
                self.estimator,
                self.data,
                group.rows,
                int(target),
                frequencies(int(target)),
                None if group.allowed is None else group.allowed[position],
                rest,
            )
            for group, rest in groups
            for position, target in enumerate(group.targets)
        ]


def stack(
    learner: EstimatorLearner, data: TrainingData, folds: Folds
) -> tuple[Array, EstimatorModels]:
    """Fit classifiers of every label; return their scores (n, e) of the training rows too.

    Those of a row are by classifiers that have not seen it, as long as rows differ.
    """
    folds = covering(folds, data)
    learning = learner.on(data)
    if folds.n_folds < 2:
        _, models = learning.cross_fitted(folds._replace(n_folds=0), refit=True)
        return models(data.X), models
    held_out, models = learning.cross_fitted(folds, refit=True)
    return _columns(held_out), models


def _columns(scores: Any) -> Array:
    return np.ascontiguousarray(np.concatenate(scores).T)
