"""Rows in chunks, as Dask has them, and their folds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, NamedTuple, Protocol, TypeGuard, TypeVar

import numpy as np
import scipy.sparse as sp

from colabel.core.arrays import Array, Flags, Indices, is_sparse
from colabel.core.threads import one_blas_thread
from colabel.learn.chunks.passes import added, announce, computed, kept, reduced
from colabel.learn.conditional import TrainingData
from colabel.learn.label_summary import LabelSummary, laplace
from colabel.learn.row_chance import FoldRule, RowRanks, column_range, wider_range

Result = TypeVar("Result")

# Rows of a chunk that are worked on together: what is as long as they are stays small.
ROWS_AT_ONCE = 1 << 12


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


@dataclass(frozen=True)
class FoldOfRows:
    """The folds (m,) of the rows of each part, as an argument of a pass."""

    folds: ChunkedFolds

    def sent(self, place: int) -> _FoldAt:
        return _FoldAt(place)


@dataclass(frozen=True)
class _FoldAt:
    place: int

    def __call__(self, part: RowPart) -> Indices:
        return part.folds[self.place]


@dataclass(frozen=True)
class RowsOutside:
    """The rows that are in none of some folds."""

    folds: ChunkedFolds
    without: tuple[int, ...]

    def sent(self, place: int) -> _Outside:
        return _Outside(place, self.without)


@dataclass(frozen=True)
class _Outside:
    place: int
    without: tuple[int, ...]

    def __call__(self, part: RowPart) -> Flags:
        return ~np.isin(part.folds[self.place], self.without)


@dataclass(frozen=True)
class RowsWith:
    """The rows that have a value of a label."""

    label: int
    value: int

    def __call__(self, part: TrainingData) -> Flags:
        return np.asarray(part.codes[:, self.label] == self.value)


@dataclass(frozen=True, eq=False)
class ChunkedData:
    """Rows, codes and weights in chunks; what `TrainingData` is in memory.

    Attributes
    ----------
    parts : tuple of delayed RowPart
        The chunks.
    n_rows, n_features : int
    cardinalities : (d,)
        Number of values of every variable.
    sparse : bool
        Whether the chunks of X are CSR.
    weighted : bool
        Whether rows have weights.
    n_extra : int
        Number of further features.
    client : distributed.Client or None
        Who computes; None for Dask's scheduler in this process.
    known : dict
        What earlier passes have found of these rows, further features apart.
    """

    parts: tuple[Any, ...]
    n_rows: int
    n_features: int
    cardinalities: tuple[int, ...]
    sparse: bool
    weighted: bool
    n_extra: int = 0
    client: Any = None
    known: dict[Any, Any] = field(default_factory=dict)

    @property
    def n_labels(self) -> int:
        """Number of label variables d."""
        return len(self.cardinalities)

    @property
    def first_look(self) -> FirstLook:
        """What a pass over all rows says of labels, weights and features, once."""
        if "look" not in self.known:
            self.known["look"] = self.total(FirstLook.at, combine=FirstLook.joined)
        found: FirstLook = self.known["look"]
        return found

    @property
    def value_counts(self) -> tuple[Array, ...]:
        """Weight of the rows with each value of each variable, d arrays (K_i,)."""
        return self.first_look.labels.weights

    @property
    def row_counts(self) -> tuple[Indices, ...]:
        """Number of rows with each value of each variable, d arrays (K_i,)."""
        return self.first_look.labels.counts

    @property
    def missing_labels(self) -> tuple[int, int, int]:
        """Number of labels that are missing, and row and label of the first."""
        return self.first_look.labels.missing

    @property
    def column_range(self) -> tuple[Array, Array]:
        """See `colabel.learn.conditional.column_range`."""
        return self.first_look.features

    @property
    def total_weight(self) -> float:
        """Sum of the row weights."""
        return self.first_look.weight

    def class_frequencies(self, label: int) -> Array:
        """See `TrainingData.class_frequencies`."""
        return laplace(self.value_counts[label])

    def rows_with(self, label: int, value: int) -> RowsWith:
        """The rows that have a value of a label."""
        return RowsWith(label, value)

    def total(
        self,
        function: Callable[..., Result],
        *arguments: Any,
        combine: Callable[[Any, Any], Any] = added,
        rows_at_once: int = ROWS_AT_ONCE,
    ) -> Result:
        """Return ``function(part, *arguments)``, combined over all rows: one pass.

        Arguments are small, or `AtRows`: those reach the function as what they are for its rows.
        """
        announce(self.n_rows)
        work = _Work(function, arguments, combine, rows_at_once)
        (result,) = computed(reduced(self._mapped(work), combine), client=self.client)
        found: Result = result
        return found

    def _mapped(self, work: _Work) -> list[Any]:
        """Delayed results of a function of every part."""
        from dask import delayed

        folds = list({id(one): one for one in map(_folds_of, work.arguments) if one}.values())
        sent = tuple(_sent(argument, folds) for argument in work.arguments)
        # one object that every chunk's task refers to, not a copy in each of them
        shared = delayed(replace(work, arguments=sent), pure=False, traverse=False)
        run = delayed(_run, pure=False)
        return [
            run(shared, part, [own.chunks[place] for own in folds])
            for place, part in enumerate(self.parts)
        ]

    def _derived(self, function: Callable[..., Any], *arguments: Any) -> tuple[Any, ...]:
        """Other parts, each ``function(part, *arguments)``; computed in every pass anew."""
        return tuple(self._mapped(_Work(function, arguments, added, 0)))

    def with_extra(
        self, columns: Callable[..., Array], *arguments: Any, n_extra: int
    ) -> ChunkedData:
        """See `TrainingData.with_extra`."""
        parts = self._derived(_with_extra, columns, *arguments)
        return replace(self, parts=parts, n_extra=n_extra)

    def where(
        self, folds: ChunkedFolds, marks: Callable[..., Flags], *arguments: Any
    ) -> tuple[ChunkedData, ChunkedFolds]:
        """Return the rows that ``marks(part, *arguments)`` (m,) marks, and their folds."""
        announce(self.n_rows)
        kept_rows = kept(self._derived(_marked, marks, *arguments), self.client)
        parts = [
            _delayed(_taken, part, own) for part, own in zip(self.parts, kept_rows, strict=True)
        ]
        derived = replace(self, parts=tuple(parts), known={})
        derived = replace(derived, n_rows=derived.first_look.labels.n_rows)
        both = zip(folds.chunks, kept_rows, strict=True)
        return derived, replace(folds, chunks=tuple(_delayed(_some, *own) for own in both))

    def random_folds(self, cv: int | float, seed: int) -> ChunkedFolds:
        """See `colabel.learn.conditional.random_folds`: the same folds, whatever the chunks."""
        key = ("folds", cv, seed)
        if key not in self.known:
            rule = FoldRule.of(RowRanks.of(self, seed), cv)  # type: ignore[arg-type]
            announce(self.n_rows)
            chunks = kept(self._derived(_narrow_folds, rule), self.client)
            counted = [_delayed(_fold_counts, own, rule.n_folds) for own in chunks]
            (counts,) = computed(reduced(counted, added), client=self.client)
            held_out = counts[1:]
            if (held_out > 0).sum() < rule.n_folds:
                filled = [_delayed(_without_gaps, own, rule, held_out) for own in chunks]
                chunks = kept(filled, self.client)
            n_folds = rule.without_gaps(np.zeros(0, dtype=np.intp), held_out)[1]
            self.known[key] = ChunkedFolds(chunks, n_folds, not counts[0])
        found: ChunkedFolds = self.known[key]
        return found

    def gathered(self, *selected: Any) -> list[RowPart]:
        """Bring rows here, for each selection (None: all) those that it marks. They must be few."""
        return self.total(_selected, *selected, combine=_joined_parts)


def is_chunked(data: object) -> TypeGuard[ChunkedData]:
    """Whether training data are in chunks, not in memory."""
    return isinstance(data, ChunkedData)


@dataclass(frozen=True)
class _Work:
    """What is done to every chunk; of all rows at once where `rows_at_once` is zero."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    combine: Callable[[Any, Any], Any]
    rows_at_once: int


def _run(work: _Work, part: RowPart, folds: Sequence[Indices]) -> Any:
    part = replace(part, folds=tuple(folds))

    def called(rows: RowPart) -> Any:
        arguments = (a(rows) if isinstance(a, _Sent) else a for a in work.arguments)
        return work.function(rows, *arguments)

    with one_blas_thread:
        if not work.rows_at_once:
            return called(part)
        found = [called(rows) for rows in part.slices(work.rows_at_once)]
        return reduce(work.combine, found) if found else None


@dataclass(frozen=True)
class _Sent:
    """An argument that is computed for every part."""

    function: Callable[[RowPart], Any]

    def __call__(self, part: RowPart) -> Any:
        return self.function(part)


def _folds_of(argument: Any) -> ChunkedFolds | None:
    found = getattr(argument, "folds", None)
    return found if isinstance(found, ChunkedFolds) else None


def _sent(argument: Any, folds: list[ChunkedFolds]) -> Any:
    own = _folds_of(argument)
    if own is not None:
        return _Sent(argument.sent([id(one) for one in folds].index(id(own))))
    return _Sent(argument) if isinstance(argument, RowsWith) else argument


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


def _with_extra(part: RowPart, columns: Callable[..., Array], *arguments: Any) -> RowPart:
    part = replace(part, X=part.X.astype(np.float64, copy=False))
    return replace(part, extra=columns(part, *arguments), folds=())


def _marked(part: RowPart, marks: Callable[..., Flags], *arguments: Any) -> Flags:
    return np.asarray(marks(replace(part, X=part.X.astype(np.float64, copy=False)), *arguments))


def _taken(part: RowPart, rows: Flags) -> RowPart:
    return part.take(rows)


def _some(folds: Indices, rows: Flags) -> Indices:
    return folds[rows]


def _delayed(function: Callable[..., Any], *arguments: Any) -> Any:
    from dask import delayed

    return delayed(function, pure=False)(*arguments)


def _narrow_folds(part: RowPart, rule: FoldRule) -> Indices:
    """Folds (m,) of rows in a byte each, where they are few."""
    part = replace(part, X=part.X.astype(np.float64, copy=False))
    narrow: Any = np.int8 if rule.n_folds < 128 else np.int32
    return np.asarray(rule(part).astype(narrow))


def _fold_counts(folds: Indices, n_folds: int) -> Indices:
    """Number of rows that are never held out, and in each fold, (1 + F,)."""
    return np.bincount(folds.astype(np.intp) + 1, minlength=1 + n_folds)


def _without_gaps(folds: Indices, rule: FoldRule, counts: Indices) -> Indices:
    found: Any = rule.without_gaps(folds, counts)[0].astype(folds.dtype)
    return np.asarray(found)


def _selected(part: RowPart, *selected: Any) -> list[RowPart]:
    return [part if marks is None else part.take(marks) for marks in selected]


def _joined_parts(one: list[RowPart], other: list[RowPart]) -> list[RowPart]:
    return [joined_rows(a, b) for a, b in zip(one, other, strict=True)]


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
