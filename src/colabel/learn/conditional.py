"""Learning P(y_i | x) for many label variables from many sets of rows.

This is what the models of the library share: binary relevance learns each variable from all
rows, a tree learns each variable from the rows with each value of its parent, and so on. *How*
a conditional is learned, by the library's own regressions or by any scikit-learn classifier,
is a learner's business.

`LabelSummary` counts labels, and its counts add up over parts of the rows. `GainOver` measures what
candidates add to given log-probabilities on rows held out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, Self, TypeGuard, TypeVar

import numpy as np

from colabel.core.arrays import Array, Codes, Flags, Indices
from colabel.core.numeric import bin_sums
from colabel.labels import MISSING
from colabel.learn.row_hashing import column_range, hashed_folds, row_digests, units_of

if TYPE_CHECKING:
    from colabel.learn.chunks.chunked_data import ChunkedData


class LabelSummary(NamedTuple):
    """What is counted of labels; those of several parts can be `joined`.

    Attributes
    ----------
    weights, counts : d arrays (K_i,)
        Weight and number of the rows with each value of each variable.
    missing : (int, int, int)
        Number of missing labels, row and label of the first.
    n_rows : int
    """

    weights: tuple[Array, ...]
    counts: tuple[Indices, ...]
    missing: tuple[int, int, int]
    n_rows: int

    @classmethod
    def of(cls, data: TrainingData) -> LabelSummary:
        """Count the labels of all rows."""
        weight = data.row_weights
        columns = [(own, own != MISSING) for own in data.codes.T]
        sized = list(zip(columns, data.cardinalities, strict=True))
        missing = np.argwhere(data.codes == MISSING)
        row, label = missing[0] if len(missing) else (0, 0)
        return cls(
            tuple(bin_sums(own[s], weight[s], size) for (own, s), size in sized),
            tuple(np.bincount(own[s], minlength=size) for (own, s), size in sized),
            (len(missing), int(row), int(label)),
            data.n_rows,
        )

    def joined(self, other: LabelSummary) -> LabelSummary:
        """Join the counts of these rows and of those after them."""
        later = (self.n_rows + other.missing[1], other.missing[2])
        first = self.missing[1:] if self.missing[0] else later
        return LabelSummary(
            tuple(a + b for a, b in zip(self.weights, other.weights, strict=True)),
            tuple(a + b for a, b in zip(self.counts, other.counts, strict=True)),
            (self.missing[0] + other.missing[0], *first),
            self.n_rows + other.n_rows,
        )


def laplace(counts: Array) -> Array:
    """Frequencies (K,) of counts, smoothed by Laplace's rule."""
    frequency: Array = (counts + 1.0) / (counts.sum() + len(counts))
    return frequency


Result = TypeVar("Result")
Offsets = Sequence[Array]


class Rows:
    """What is known of rows wherever they are: in memory, or in chunks.

    ``sum(function, *arguments)`` runs a function where the rows are, block by block, and adds up
    what it returns, which is small: one block in memory, or the partitions of a Dask collection.

    Attributes
    ----------
    cardinalities : (d,)
        Number of values of every variable.
    in_chunks : bool
        Whether the rows are never together.
    """

    cardinalities: tuple[int, ...]
    in_chunks: ClassVar[bool] = False
    labels: LabelSummary  # counts of the labels of all rows

    @property
    def n_labels(self) -> int:
        """Number of label variables d."""
        return len(self.cardinalities)

    def class_frequencies(self, label: int) -> Array:
        """Smoothed frequencies (K,) of a variable's values over all rows (Laplace's rule)."""
        return laplace(self.value_counts[label])

    @property
    def value_counts(self) -> tuple[Array, ...]:
        """Weight of the rows with each value of each variable, d arrays (K_i,)."""
        return self.labels.weights

    @property
    def row_counts(self) -> tuple[Indices, ...]:
        """Number of rows with each value of each variable, d arrays (K_i,)."""
        return self.labels.counts

    @property
    def missing_labels(self) -> tuple[int, int, int]:
        """Number of labels that are missing, and row and label of the first."""
        return self.labels.missing


def is_chunked(data: object) -> TypeGuard[ChunkedData]:
    """Whether training data are in chunks, not in memory."""
    return isinstance(data, Rows) and data.in_chunks


@dataclass(frozen=True)
class TrainingData(Rows):
    """Rows, codes and weights.

    Attributes
    ----------
    X : (n, p) array or CSR
    codes : (n, d)
        Codes of the labels; MISSING where a label was not observed.
    cardinalities : (d,)
        Number of values of every variable.
    weight : (n,) or None
        Weights of the rows.
    extra : (n, e) or None
        Further features that a target may or may not use (`RowGroup.allowed`), such as the
        other labels.
    folds : tuple of (n,)
        Of a part of rows in chunks: its folds wherever a pass needs them.
    first : int
        Number of the first row among all of which these are a part.
    """

    X: Any
    codes: Codes
    cardinalities: tuple[int, ...]
    weight: Array | None = None
    extra: Array | None = None
    folds: tuple[Indices, ...] = ()
    first: int = 0

    @property
    def n_rows(self) -> int:
        """Number of rows n."""
        return int(self.codes.shape[0])

    @property
    def row_weights(self) -> Array:
        """Weights (n,) of the rows; ones where none were given."""
        return np.ones(self.n_rows) if self.weight is None else self.weight

    @property
    def filled(self) -> Codes:
        """Codes (n, d) of the labels as features of each other: drawn where they are missing."""
        return self.codes

    @property
    def total_weight(self) -> float:
        """Sum of the row weights."""
        return float(self.n_rows if self.weight is None else self.weight.sum())

    @property
    def n_features(self) -> int:
        """Number of features p."""
        return int(self.X.shape[1])

    def take(self, rows: Indices | Flags | slice) -> Self:
        """Return some of the rows, by position or mark."""
        weight = None if self.weight is None else self.weight[rows]
        extra = None if self.extra is None else self.extra[rows]
        folds = tuple(own[rows] for own in self.folds)
        some = {"X": self.X[rows], "codes": self.codes[rows], "weight": weight, "extra": extra}
        return replace(self, **some, folds=folds)

    def sum(
        self,
        function: Callable[..., Result],
        *arguments: Any,
        combine: Callable[[Result, Result], Result] | None = None,
    ) -> Result:
        """Return ``function(data, *arguments)``: a sum over rows, or what combines like one.

        So the same question can be asked of rows that are elsewhere (`learn.chunks.ChunkedData`),
        chunk by chunk.
        """
        return function(self, *arguments)

    @property
    def column_range(self) -> tuple[Array, Array]:
        """Smallest and largest number (p,) of each feature among rows of positive weight."""
        return column_range(self)

    def random_folds(self, cv: int | float, seed: int) -> Folds:
        """See the function of this name."""
        return Folds(*hashed_folds(self, cv, seed))

    def rows_with(self, label: int, value: int) -> Indices:
        """Positions of the rows that have a value of a label."""
        return np.flatnonzero(self.codes[:, label] == value)

    def with_extra(
        self, columns: Callable[..., Array], *arguments: Any, n_extra: int
    ) -> TrainingData:
        """Return the data with further features ``columns(data, *arguments)`` (n, n_extra)."""
        return replace(self, extra=columns(self, *arguments))

    def by_fold(self, at: AtFolds, models: FoldModels, folds: Folds) -> Any:
        """Return what models say of the rows of their folds."""
        return at(models, self, folds.of_row)

    @cached_property
    def labels(self) -> LabelSummary:  # type: ignore[override]
        """Counts of the labels of all rows."""
        return LabelSummary.of(self)


@dataclass(frozen=True)
class RowGroup:
    """Some rows and the variables to be learned from them.

    Attributes
    ----------
    rows : (n_group,) or None
        Positions of the rows; None for all.
    targets : (m,)
        Label variables.
    allowed : (m, e) of bool, or None
        Which extra features of the data each target may use; None for all.
    extra_scale : (m,) or None
        How many times as large the coefficients of extra features may grow at the same penalty.
        A target may be there several times, with different scales.
    """

    rows: Indices | None
    targets: Indices
    allowed: Flags | None = None
    extra_scale: Array | None = None

    def take(self, positions: Indices) -> RowGroup:
        """Return the group with some of its targets."""
        return RowGroup(
            self.rows,
            self.targets[positions],
            None if self.allowed is None else self.allowed[positions],
            None if self.extra_scale is None else self.extra_scale[positions],
        )


class HeldOutScores(NamedTuple):
    """What cross-validation says of a group's targets.

    Attributes
    ----------
    log_prob : (m, n_group)
        Log-probability of each true value by the model that did not see it; zero for rows
        that are never held out and for missing values. Regressions have it if it was asked for.
    choice : (m,)
        Position of the chosen hyperparameter in the learner's grid.
    total : (m,)
        Sum of `log_prob` over the rows, by weight.
    path : tuple of m arrays (G, F, K_i, p + 1), or None
        Coefficients without each fold's rows along the grid, if they were asked for: where models
        of the same targets on other rows may start.
    models : FoldModels or None
        Those without each fold's rows at the choice, where the path is known.
    """

    log_prob: Any
    choice: Indices
    total: Array
    path: tuple[Array, ...] | None = None
    models: FoldModels | None = None


class Folds(NamedTuple):
    """Which fold every row is held out in; negative for never."""

    of_row: Indices
    n_folds: int

    @property
    def covers(self) -> bool:
        """Whether every row is held out in some fold."""
        return bool((self.of_row >= 0).all())

    @property
    def at_rows(self) -> Indices:
        """The folds of the rows, as an argument of `TrainingData.sum`."""
        return self.of_row

    def rows_inside(self, fold: int) -> Indices:
        """Positions of the rows of a fold."""
        return np.flatnonzero(self.of_row == fold)

    def rows_outside(self, *folds: int) -> Indices:
        """Positions of the rows that are in none of some folds."""
        return np.flatnonzero(~np.isin(self.of_row, folds))


class ConditionalModels(Protocol):
    """Fitted conditionals, one for every target of every group, in the order of the groups."""

    def log_prob(self, X: Any, extra: Array | None = None) -> list[Array]:
        """Log-probabilities (n, K_i) of the values of every target.

        `extra` (n, e) are the extra features, where the training data had any.
        """

    @property
    def n_iter(self) -> int | None:
        """Most iterations any of them took; None where nobody counts."""

    @property
    def coef(self) -> list[Array] | None:
        """Coefficients (K_i, p + e + 1) of every target, the intercept last; None: not linear."""

    def take(self, order: Indices) -> Self:
        """Return some of the models in another order: position i has the model `order[i]`."""

    def joined(self, *others: Self) -> Self:
        """Return these models and then the others."""


class ConditionalLearner(Protocol):
    """Learns conditionals, and scores them on rows they have not seen."""

    def values(self, choice: Indices) -> Array | None:
        """Return the hyperparameters (m,) at these positions; None where there is none."""

    def on(self, data: TrainingData) -> Learning:
        """Prepare some rows for learning."""


class Learning(Protocol):
    """A learner on its rows. Calls do not depend on each other; what one hands on is a value."""

    @property
    def data(self) -> TrainingData:
        """The rows."""

    @property
    def needs_choice(self) -> bool:
        """Whether there is a hyperparameter to choose."""

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
        """Score every group; `reduce` keeps of a group's scores what the caller needs.

        Parameters
        ----------
        start : d arrays (G, F, K_i, p + 1), or None
            Where to start from (`HeldOutScores.path`), for learners that iterate.
        keep : bool
            Whether to hand on the path, where there is one, and log-probabilities.
        """

    def fit(self, groups: Sequence[RowGroup], choices: Sequence[Indices]) -> ConditionalModels:
        """Fit every target of every group with its chosen hyperparameter."""

    def cross_fitted_scores(
        self, folds: Folds, choice: Indices, models: Any = None
    ) -> tuple[Array, ...]:
        """Scores of all labels, d arrays (K_i, n), by models that have not seen the row.

        They are those of `scores_of`. The folds must cover all rows; `choice` (d,) is that of
        every label alone, and `models` are those of `HeldOutScores` on the same folds, if known.
        """


AtFolds = Callable[["FoldModels", TrainingData, Indices], Any]


@dataclass(frozen=True)
class FoldModels:
    """Models of every label, d for each fold, learned without its rows.

    Attributes
    ----------
    models : ConditionalModels
        Those of a fold together.
    n_labels : int
    """

    models: ConditionalModels
    n_labels: int

    def tables(self, part: TrainingData, fold: Indices) -> list[Array]:
        """Log-probabilities, d arrays (m, K_i), by the models of each row's fold.

        Zero for rows that are never held out.
        """
        log_prob = [np.zeros((part.n_rows, size)) for size in part.cardinalities]
        for held in np.unique(fold[fold >= 0]):
            rows = np.flatnonzero(fold == held)
            own = np.arange(held * self.n_labels, (held + 1) * self.n_labels)
            for whole, table in zip(
                log_prob, self.models.take(own).log_prob(part.X[rows]), strict=True
            ):
                whole[rows] = table
        return log_prob


def held_out_scores(models: FoldModels, part: TrainingData, fold: Indices) -> tuple[Array, ...]:
    """See `Learning.cross_fitted_scores`: d arrays (K_i, m)."""
    return tuple(scores_of(table.T) for table in models.tables(part, fold))


def held_out_log_prob(models: FoldModels, part: TrainingData, fold: Indices) -> Array:
    """See `HeldOutScores.log_prob`: (d, m)."""
    log_prob = np.zeros((models.n_labels, part.n_rows))
    for own, table, truth in zip(log_prob, models.tables(part, fold), part.codes.T, strict=True):
        own[:] = np.where(truth >= 0, table[np.arange(len(truth)), np.maximum(truth, 0)], 0.0)
    return log_prob


def scores_of(log_prob: Array) -> Array:
    """Scores of log-probabilities (K, n) of one variable.

    Log-odds (1, n) of two values; of others log-probabilities less their mean, which is what
    linear scores are: slopes that differ between values must not meet a shift that varies with x.
    """
    if len(log_prob) == 2:
        return np.diff(log_prob, axis=0)
    centred: Array = log_prob - log_prob.mean(axis=0)
    return centred


def covering(folds: Folds, data: TrainingData) -> Folds:
    """Return the folds, or others that hold out every row where these leave some in training."""
    return folds if folds.covers else random_folds(data, 5, 0)


def random_folds(data: TrainingData, cv: int | float, seed: int) -> Folds:
    """Assign rows to folds at random.

    An integer `cv` gives that many folds of equal size; a fraction gives a single hold-out set.
    Folds are assigned by hashes of the rows' content: equal rows share a fold, so that no row is
    scored by a model that has seen its duplicate, and neither the order of the rows nor writing a
    row twice instead of giving it weight 2 changes the folds, nor does rounding noise. But where
    rows of equal features have different labels, each is assigned by itself: features have few
    values, and a fold that took all rows with one label vector would leave the contradicting ones
    (rows in chunks, which are not seen together, stay with their equals there too). Of more
    rows than are worth sorting the sizes are equal only on average (`RowRanks`).
    """
    return data.random_folds(cv, seed)


def distinct_rows(data: TrainingData, seed: int) -> TrainingData:
    """Merge equal rows, adding their weights, and drop rows of weight zero; order by hash.

    What is learned from the result depends neither on the order of the rows nor on whether a row
    is written twice or has weight 2.
    """
    weight = data.row_weights
    used = np.flatnonzero(weight > 0)
    _, first, group = np.unique(
        row_digests(data, seed)[used], return_index=True, return_inverse=True
    )
    total = np.bincount(group.ravel(), weights=weight[used]).astype(np.float64)
    kept = used[first]
    # Only rows equal to the last bit are merged, but their order survives rounding noise.
    order = np.argsort(row_digests(data, seed, units_of(*data.column_range))[kept])
    kept, total = kept[order], total[order]
    return replace(data.take(kept), weight=total)


def given_folds(n_rows: int, splits: Iterable[tuple[Any, Any]]) -> Folds:
    """Use splits (train, test) that hold out each row at most once and train on the rest."""
    of_row = np.full(n_rows, -1, dtype=np.intp)
    n_folds = 0
    for train, test in splits:
        train, test = _as_index(train), _as_index(test)
        if max(train.max(initial=0), test.max(initial=0)) >= n_rows:
            raise ValueError(
                f"cv names rows beyond the {n_rows} there are. Give splits of these rows, or a "
                "number of folds where a model is fitted to parts of the rows."
            )
        if (of_row[test] >= 0).any():
            raise ValueError("cv holds out some rows twice. Give splits with disjoint test sets.")
        if len(train) + len(test) != n_rows or len(np.union1d(train, test)) != n_rows:
            raise ValueError(
                f"Fold {n_folds} of cv trains on {len(train)} rows and holds out {len(test)} of"
                f" {n_rows}. Give splits that train on all rows they do not hold out."
            )
        of_row[test] = n_folds
        n_folds += 1
    if not n_folds:
        raise ValueError("cv has no splits. Give at least one.")
    return Folds(of_row, n_folds)


def _as_index(rows: Any) -> Indices:
    rows = np.asarray(rows)
    return np.flatnonzero(rows) if rows.dtype == bool else rows.astype(np.intp)


class Gains(NamedTuple):
    """Held-out gains of a group's classifiers, (m,) each, and their choices.

    Attributes
    ----------
    gains : (m,)
        Sum of what the rows gain, by weight.
    noise : (m,)
        Its variance.
    choice : (m,)
        Chosen hyperparameters.
    """

    gains: Array
    noise: Array
    choice: Indices


@dataclass(frozen=True)
class GainOver:
    """Reduces the held-out scores of a group to what they add to the labels' own.

    Attributes
    ----------
    log_prob : (d, n)
        Held-out log-probabilities of the labels; zero where there is none.
    weight : (n,) or None
        Weights of the rows; None for rows in chunks, which have theirs with them.
    tables : d arrays (n, K_i), or None
        Held-out log-probabilities of all values: regressions in memory then have the variance that
        these expect, not the one observed. Where few rows are known, none of them may tell how
        uncertain a gain is.
    """

    log_prob: Any
    weight: Array | None
    tables: Sequence[Array] | None = None

    def __call__(self, group: RowGroup, scores: HeldOutScores) -> Gains:
        """Return the gains of the group's targets."""
        assert group.rows is not None
        assert self.weight is not None
        more = scores.log_prob - self.log_prob[np.ix_(group.targets, group.rows)]
        own = self.weight[group.rows]
        return Gains(more @ own, more**2 @ own**2, scores.choice)
