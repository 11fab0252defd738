"""Some of the rows, and what a pass over them may ask of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np
import scipy.sparse as sp

from colabel.core.arrays import Array, Flags, Indices, is_sparse
from colabel.core.hashing import mix
from colabel.learn.conditional import AtFolds, FoldModels, LabelSummary, TrainingData
from colabel.learn.row_chance import column_range, wider_range


@dataclass(frozen=True)
class RowPart(TrainingData):
    """Some of the rows, and their folds in every `ChunkedFolds` that was attached.

    Attributes
    ----------
    folds : tuple of (m,)
    first : int
        Number of the first row among all, as long as none were taken out.
    """

    folds: tuple[Indices, ...] = ()
    first: int = 0

    def take(self, rows: Indices | Flags | slice) -> RowPart:
        return replace(super().take(rows), folds=tuple(own[rows] for own in self.folds))

    def slices(self, n_rows: int) -> Iterator[RowPart]:
        """The rows, some at a time, as 64-bit numbers."""
        for start in range(0, self.n_rows, n_rows):
            part = self.take(slice(start, start + n_rows))
            X = part.X.astype(np.float64, copy=False)
            yield replace(part, X=X, first=self.first + start)


def joined_rows(one: RowPart, other: RowPart) -> RowPart:
    """Return the rows of one part and then those of another."""

    def both(a: Any, b: Any) -> Any:
        if a is None:
            return None
        return sp.vstack([a, b], format="csr") if is_sparse(a) else np.concatenate([a, b])

    return replace(
        one,
        X=both(one.X, other.X),
        codes=both(one.codes, other.codes),
        weight=both(one.weight, other.weight),
        extra=both(one.extra, other.extra),
        folds=tuple(both(a, b) for a, b in zip(one.folds, other.folds, strict=True)),
    )


class FirstLook(NamedTuple):
    """Counts of labels, weight of all rows, and range of the features."""

    labels: LabelSummary
    weight: float
    features: tuple[Array, Array]

    @classmethod
    def at(cls, part: TrainingData) -> FirstLook:
        """Look at some rows."""
        weight = float(part.row_weights.sum())
        return cls(LabelSummary.of(part), weight, column_range(part))

    def joined(self, other: FirstLook) -> FirstLook:
        """Join what is seen of these rows and of those after them."""
        return FirstLook(
            self.labels.joined(other.labels),
            self.weight + other.weight,
            wider_range(self.features, other.features),
        )


class AtRows(Protocol):
    """An argument of `ChunkedData.total` that is as long as the rows: known for each part."""

    @property
    def folds(self) -> ChunkedFolds:
        """The folds that it depends on."""
        ...

    def sent(self, place: int) -> Callable[[RowPart], Any]:
        """Return what computes it of a part whose `folds` are at some place among others."""
        ...


@dataclass(frozen=True, eq=False)
class ChunkedFolds:
    """Which fold every row is held out in, kept where the rows are; see `Folds`.

    Attributes
    ----------
    chunks : tuple of delayed arrays (m,)
    n_folds : int
    covers : bool
        Whether every row is held out in some fold.
    """

    chunks: tuple[Any, ...]
    n_folds: int
    covers: bool

    @property
    def at_rows(self) -> FoldOfRows:
        """The folds of the rows, as an argument of `ChunkedData.total`."""
        return FoldOfRows(self)

    def rows_outside(self, *folds: int) -> RowsOutside:
        """The rows that are in none of some folds."""
        return RowsOutside(self, folds)

    def rows_inside(self, fold: int) -> RowsOutside:
        """The rows of a fold."""
        others = tuple(other for other in range(-1, self.n_folds) if other != fold)
        return RowsOutside(self, others)


@dataclass(frozen=True)
class FoldOfRows:
    """The folds (m,) of the rows of each part, as an argument of a pass."""

    folds: ChunkedFolds

    def sent(self, place: int) -> Callable[[RowPart], Indices]:
        return partial(_fold_at, place)


def _fold_at(place: int, part: RowPart) -> Indices:
    return part.folds[place]


@dataclass(frozen=True)
class RowsOutside:
    """The rows that are in none of some folds."""

    folds: ChunkedFolds
    without: tuple[int, ...]

    def sent(self, place: int) -> Callable[[RowPart], Flags]:
        return partial(_outside, place, self.without)


def _outside(place: int, without: tuple[int, ...], part: RowPart) -> Flags:
    return ~np.isin(part.folds[place], without)


@dataclass(frozen=True)
class RowsWith:
    """The rows that have a value of a label."""

    label: int
    value: int

    def __call__(self, part: TrainingData) -> Flags:
        return np.asarray(part.codes[:, self.label] == self.value)


@dataclass(frozen=True)
class RowSample:
    """Rows drawn by their numbers, whatever the chunks; none else is looked at.

    Not by their content, as folds are: of many equal rows all would be drawn, or none.

    Attributes
    ----------
    share : float
        How many of all are drawn, about.
    seed : int
    """

    share: float
    seed: int

    def __call__(self, part: RowPart) -> Flags:
        numbers = np.arange(part.first, part.first + part.n_rows, dtype=np.uint64)
        start = mix(np.array([self.seed], dtype=np.uint64) + np.uint64(1))
        # the upper 53 bits, as a number from 0 to 1
        chance = (mix(mix(numbers) ^ start) >> np.uint64(11)) * 2.0**-53
        return np.asarray(chance < self.share)


@dataclass(frozen=True)
class SentAtRows:
    """An argument that is computed for every part."""

    function: Callable[[RowPart], Any]

    def __call__(self, part: RowPart) -> Any:
        return self.function(part)


def folds_of(argument: Any) -> ChunkedFolds | None:
    """The folds that an argument of a pass depends on, if it does."""
    found = getattr(argument, "folds", None)
    return found if isinstance(found, ChunkedFolds) else None


def sent(argument: Any, folds: list[ChunkedFolds]) -> Any:
    """What of an argument travels to the rows, given all folds that go with them."""
    own = folds_of(argument)
    if own is not None:
        return SentAtRows(argument.sent([id(one) for one in folds].index(id(own))))
    return SentAtRows(argument) if isinstance(argument, RowsWith | RowSample) else argument


@dataclass(frozen=True)
class ByFold:
    """Something that models say of the rows of their folds, as an argument of a pass."""

    at: AtFolds
    models: FoldModels
    folds: ChunkedFolds

    def sent(self, place: int) -> Callable[[RowPart], Any]:
        return partial(_by_fold_at, self.at, self.models, place)


def _by_fold_at(at: AtFolds, models: FoldModels, place: int, part: RowPart) -> Any:
    return at(models, part, part.folds[place])
