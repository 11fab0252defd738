"""From an estimator's parameters to a learner of conditionals, and what several models check.

Labels that are not known: weights of single labels, columns of positives and blanks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.base import BaseEstimator, clone

from colabel.core.arrays import Array, Codes, Flags, Indices, label_columns, n_label_columns
from colabel.core.parameters import checked_grid
from colabel.labels import MISSING, MissingLabelsError
from colabel.learn.chunks.chunked_data import added
from colabel.learn.conditional import (
    ConditionalLearner,
    Folds,
    HeldOutScores,
    Learning,
    RowGroup,
    TrainingData,
    covering,
    given_folds,
    is_chunked,
    random_folds,
)
from colabel.learn.from_estimator import EstimatorLearner
from colabel.learn.glm.device import checked_device
from colabel.learn.linear import LinearLearner
from colabel.learn.structure.screening import label_residuals, score_statistics, score_sums

# Laplace's one, and less for rare labels and values.
DEFAULT_SMOOTHING = (0.01, 0.1, 1.0)
_SMOOTHING_OF_DRAWS = (1.0, 10.0, 100.0)


def check_observed(data: Any, reason: str) -> None:
    """Raise MissingLabelsError unless every label is known; the `reason` is a clause."""
    n_missing, row, label = data.missing_labels
    if n_missing:
        raise MissingLabelsError(
            f"y has {n_missing} missing labels (the first is label {label} of row {row}), but"
            f" {reason}. Leave out or fill in these rows, or use BinaryRelevance or CTBN, which"
            " learn chunk by chunk from the labels a row has."
        )


Grid = float | Sequence[float] | Array
DEFAULT_GRID = (0.001, 0.01, 0.1, 1.0, 10.0)
DEFAULT_TOLERANCE = 1e-2


@dataclass(frozen=True)
class CompletedData(TrainingData):
    """Rows whose labels are all there, some of them drawn; copies of a row share its weight.

    Attributes
    ----------
    origin : TrainingData
        The rows as they were given.
    source : (n,)
        The row of `origin` behind each. Copies of a row share a fold.
    drawn : (n, d) or None
        Labels as parents and features, where `codes` has only the known ones.
    """

    origin: Any = None
    source: Any = None
    drawn: Any = None

    def take(self, rows: Indices | Flags | slice) -> Self:
        """Return some of the rows, by position or mark."""
        drawn = None if self.drawn is None else self.drawn[rows]
        return replace(super().take(rows), source=self.source[rows], drawn=drawn)

    def known_targets(self) -> Self:
        """Return the rows with draws as parents and features, not as targets.

        A target drawn from a model is easier to predict than a true one, so that penalties would
        be chosen too weak.
        """
        return replace(self, codes=self.origin.codes[self.source], drawn=self.codes)

    @property
    def filled(self) -> Codes:
        """Codes (n, d) with draws in the place of missing labels."""
        return self.codes if self.drawn is None else np.asarray(self.drawn)

    def rows_with(self, label: int, value: int) -> Indices:
        """Positions of the rows that have a value of a label, known or drawn."""
        return np.flatnonzero(self.filled[:, label] == value)

    def random_folds(self, cv: int | float, seed: int) -> Folds:
        """Assign the rows as they were given to folds."""
        return self.copied(self.origin.random_folds(cv, seed))

    def copied(self, folds: Folds) -> Folds:
        """Return the folds of these rows, from those of the rows as they were given."""
        return Folds(folds.of_row[self.source], folds.n_folds)


def make_learner(
    estimator: BaseEstimator | None,
    C: Grid,
    tol: float,
    max_iter: int,
    n_jobs: int | None,
    verbose: int,
    device: str | None = None,
) -> ConditionalLearner:
    """Return the learner that an estimator's parameters ask for, after checking them."""
    if estimator is not None:
        return EstimatorLearner(estimator, n_jobs, bool(verbose))
    return linear_learner(C, tol, max_iter, n_jobs, verbose, device)


def seeded(estimator: BaseEstimator | None, seed: int) -> BaseEstimator | None:
    """Return the estimator with a seed wherever it has a random_state of None."""
    if estimator is None:
        return None
    unset = {
        name: seed
        for name, value in estimator.get_params(deep=True).items()
        if value is None and (name == "random_state" or name.endswith("__random_state"))
    }
    return clone(estimator).set_params(**unset) if unset else estimator


def linear_learner(
    C: Grid,
    tol: float,
    max_iter: int,
    n_jobs: int | None,
    verbose: int,
    device: str | None = None,
) -> LinearLearner:
    """Return the built-in regressions, after checking their parameters."""
    grid = np.array(checked_grid("C", C))
    if not tol > 0:
        raise ValueError(f"tol={tol!r} must be positive.")
    if max_iter < 1:
        raise ValueError(f"max_iter={max_iter!r} must be at least 1.")
    device = None if device is None else checked_device(device)
    return LinearLearner(grid, tol, max_iter, n_jobs, bool(verbose), device)


def make_folds(data: TrainingData, cv: Any, seed: int) -> Folds:
    """Return the folds that an estimator's `cv` asks for."""
    if isinstance(data, CompletedData):
        return data.copied(make_folds(data.origin, cv, seed))
    if is_chunked(data) and not isinstance(cv, Real):
        raise TypeError(
            f"cv={cv!r} names rows, which are in chunks: give a number of folds or the fraction of"
            " rows to hold out."
        )
    if isinstance(cv, Integral) and int(cv) >= 2:
        return random_folds(data, int(cv), seed)
    if isinstance(cv, Real) and not isinstance(cv, Integral) and 0 < float(cv) < 1:
        return random_folds(data, float(cv), seed)
    if hasattr(cv, "split") and not isinstance(cv, str):
        return given_folds(data.n_rows, cv.split(data.X, data.codes))
    if isinstance(cv, Iterable) and not isinstance(cv, str):
        return given_folds(data.n_rows, cv)
    raise ValueError(
        f"cv={cv!r} must be a number of folds (at least 2), the fraction of rows to hold out"
        " (between 0 and 1), a scikit-learn splitter, or an iterable of (train, test) indices."
    )


def everything(data: TrainingData) -> RowGroup:
    """All variables, learned from all rows."""
    return RowGroup(None, np.arange(data.n_labels))


def choose(learning: Learning, folds: Folds, group: RowGroup | None = None) -> Indices:
    """Choose the hyperparameter (m,) of each target of a group, by default all labels."""
    group = everything(learning.data) if group is None else group
    if not learning.needs_choice or not can_hold_out(folds):
        return np.zeros(len(group.targets), dtype=np.intp)

    def choice(_: RowGroup, scores: HeldOutScores) -> Indices:
        return scores.choice

    return learning.cross_validate([group], folds, choice, "choosing C")[0]


def scores_alone(learning: Learning, folds: Folds) -> HeldOutScores:
    """Choose C of every label alone; keep what rows held out say."""

    def keep_all(_: RowGroup, scores: HeldOutScores) -> HeldOutScores:
        return scores

    group = everything(learning.data)
    return learning.cross_validate([group], folds, keep_all, "labels alone", keep=True)[0]


def with_label_columns(data: TrainingData) -> TrainingData:
    """Return the data with the columns of all labels as extra features."""
    n_extra = n_label_columns(data.cardinalities)
    return data.with_extra(_own_label_columns, n_extra=n_extra)


def _own_label_columns(data: TrainingData) -> Array:
    return label_columns(data.filled, data.cardinalities)


def can_hold_out(folds: Folds) -> bool:
    """Whether some rows can be held out while others remain."""
    return folds.n_folds >= 2 or not folds.covers


def dependence(learning: Learning, folds: Folds, choice: Indices) -> Array:
    """Score tests (d, d) of each label for each other given x; see `score_tests`.

    `choice` (d,) is the hyperparameter of every label alone.
    """
    data = learning.data
    return pair_tests(data, learning.cross_fitted_scores(covering(folds, data), choice))


def pair_tests(data: TrainingData, scores: Any) -> Array:
    """Score tests (d, d) of pairs, given `cross_fitted_scores` of the rows."""
    sums: Any = data.sum(_pair_sums, scores, combine=added)
    return score_statistics(sums, data.cardinalities)


def _pair_sums(data: TrainingData, scores: Sequence[Array]) -> tuple[Array, Array]:
    residuals = label_residuals(scores, data.codes, data.cardinalities)
    return score_sums(residuals, data.row_weights)


def missing_share(data: TrainingData) -> float:
    """Share of the labels that are missing, by weight: copies of a row count as one."""
    return float(data.row_weights @ (data.codes == MISSING).mean(axis=1) / data.total_weight)


_DRAWS = 4  # completions of a row with blanks


def smoothing_grid(smoothing: Grid, data: TrainingData) -> tuple[float, ...]:
    """Return the pseudo-counts to choose from: by default larger ones where labels were drawn."""
    grid = checked_grid("smoothing", smoothing)
    drawn = isinstance(data, CompletedData) and data.known_targets().missing_labels[0] > 0
    return _SMOOTHING_OF_DRAWS if drawn and grid == DEFAULT_SMOOTHING else grid


def layered(data: TrainingData, weights: Array) -> TrainingData:
    r"""Return rows whose labels have weights (m, d) of their own, zero where they are missing.

    Of rows with blanks that were drawn the weights are those of the m rows as they were given.
    A row with the weights :math:`w_{(1)} > w_{(2)} > \dots` among its labels stands there once for
    each of them, with the weight :math:`w_{(k)} - w_{(k+1)}` and the labels of weight
    :math:`w_{(k)}` and more. So every label counts by its weight, and a pair of labels by the
    smaller of two.
    """
    if isinstance(data, CompletedData):
        weights = weights[data.source] * data.row_weights[:, None]
    weights = np.where(data.codes == MISSING, 0.0, weights)
    codes = np.where(weights > 0, data.codes, MISSING).astype(data.codes.dtype)
    data = replace(data, codes=codes, weight=weights.max(axis=1))
    levels = np.sort(weights, axis=1)[:, ::-1]
    steps = -np.diff(levels, axis=1, append=0.0)
    source, place = np.nonzero(steps > 0)
    if len(np.unique(source)) == len(source):  # the weight of the row, or zero
        return data
    known = weights[source] >= levels[source, place][:, None]
    codes = np.where(known, data.codes[source], MISSING).astype(data.codes.dtype)
    weight = steps[source, place]
    rows = data.X[source], codes, data.cardinalities, weight
    return CompletedData(*rows, origin=data, source=source)


def with_draws(data: TrainingData, rows: Indices, drawn: Codes) -> CompletedData:
    """Return the rows, some of them replaced by draws (m, r, d) in their place.

    A row counts as much as before: each of its different completions by the share of its draws.
    Rows without any known label are left out.
    """
    n_draws, n_rows, n_labels = drawn.shape
    place = np.tile(np.arange(n_rows), n_draws)
    keyed = np.column_stack([place, drawn.reshape(-1, n_labels)])
    unique, counts = np.unique(keyed, axis=0, return_counts=True)
    others = np.setdiff1d(np.flatnonzero((data.codes != MISSING).any(axis=1)), rows)
    source = np.concatenate([others, rows[unique[:, 0]]])
    share = np.concatenate([np.ones(len(others)), counts / n_draws])
    return CompletedData(
        data.X[source],
        np.concatenate([data.codes[others], unique[:, 1:].astype(np.int32)]),
        data.cardinalities,
        data.row_weights[source] * share,
        None if data.extra is None else data.extra[source],
        origin=data,
        source=source,
    )


def original_rows(data: TrainingData) -> tuple[TrainingData, Indices]:
    """Return the rows as they were given, and which of them each row is a copy of."""
    source = np.arange(data.n_rows)
    while isinstance(data, CompletedData):
        source, data = data.source[source], data.origin
    return data, source


def positive_only(codes: Codes) -> Flags:
    """Which labels (d,) are 1 or missing, and sometimes missing."""
    known = codes != MISSING
    positive: Flags = ~known.all(axis=0) & known.any(axis=0) & (known <= (codes == 1)).all(axis=0)
    return positive


def unlabelled_positives(
    data: TrainingData,
    labels: Indices,
    seed: int,
    n_jobs: int | None,
    of_labels: Array | None = None,
) -> tuple[CompletedData, Array]:
    r"""Draw the blanks of columns in which rows are marked as positive or not at all.

    Rows are taken to be marked at random among those that have the label (Elkan & Noto, 2008),

    .. math:: P(\text{marked} \mid x) = c \, P(y = 1 \mid x), \qquad
        P(y = 1 \mid x) = \frac{1}{1 + e^{-(a s(x) + b)}}

    with s(x) the held-out log-odds of a regression of the marks. The constants a, b and c maximise
    the likelihood of the marks: c shows where the share of marked rows stops to rise. A blank is a
    1 with probability :math:`(1 - c) P / (1 - c P)`.

    Parameters
    ----------
    of_labels : (n, m) array, optional
        Weights of these labels; zero where it is unknown whether a row is marked.

    Returns
    -------
    completed : CompletedData
        Rows with blanks stand there once for each of their different draws.
    priors : (m,) array
        Estimated share of the rows that have each label.
    """
    marked = data.codes[:, labels] == 1
    codes, weight = marked.astype(np.int32), np.tile(data.row_weights[:, None], len(labels))
    if of_labels is not None:
        codes[of_labels == 0], weight = MISSING, of_labels
    marks = TrainingData(data.X, codes, (2,) * len(labels), data.weight)
    learning = linear_learner(DEFAULT_GRID, DEFAULT_TOLERANCE, 1000, n_jobs, 0).on(marks)
    folds = data.random_folds(5, seed)
    if not can_hold_out(folds):
        raise ValueError(
            f'blank="unlabelled" cannot estimate how many of {data.n_rows} rows have a label: give'
            ' more rows, or blank="missing".'
        )
    scores = learning.cross_fitted_scores(covering(folds, marks), choose(learning, folds))
    prob = np.empty(marked.shape)
    for i, own in enumerate(scores):
        prob[:, i] = _prob_of_blanks(own[0], marked[:, i], weight[:, i])
    prob[marked] = 1.0
    rows = np.flatnonzero(~marked.all(axis=1))
    drawn = np.repeat(data.codes[None, rows], _DRAWS, axis=0)
    chance = np.random.default_rng(seed).random((_DRAWS, len(rows), len(labels)))
    drawn[:, :, labels] = chance < prob[rows]
    return with_draws(data, rows, drawn), (weight * prob).sum(axis=0) / weight.sum(axis=0)


def _prob_of_blanks(score: Array, marked: Flags, weight: Array) -> Array:
    """P(y = 1) of each row (n,) if it is not marked, from the log-odds of being marked."""

    def loss(point: Array) -> float:
        slope, shift, share = point
        prob = np.clip(expit(share) * expit(slope * score + shift), 1e-12, 1.0 - 1e-12)
        log_prob = np.log(np.where(marked, prob, 1.0 - prob))
        # few rows hardly tell slope from share: weak priors on both
        return float(0.5 * np.log(slope) ** 2 + share**2 / 8.0 - weight @ log_prob)

    bounds = [(0.1, 10.0), (-20.0, 20.0), (-6.0, 6.0)]
    starts = [(1.0, shift, share) for shift in (0.0, 1.0) for share in (-1.0, 1.0, 3.0)]
    found = [minimize(loss, start, method="L-BFGS-B", bounds=bounds) for start in starts]
    slope, shift, share = min(found, key=lambda each: float(each.fun)).x
    prob, c = expit(slope * score + shift), expit(share)
    blank: Array = (1.0 - c) * prob / (1.0 - c * prob)
    return blank
