"""Rows in chunks, as Dask has them: what is asked of them are sums."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeGuard, TypeVar

import numpy as np

from colabel.core.arrays import Array, Flags, Indices
from colabel.core.threads import one_blas_thread
from colabel.learn.chunks.passes import added, announce, combined, computed, kept, reduced
from colabel.learn.chunks.row_parts import (
    ChunkedFolds,
    FirstLook,
    RowPart,
    RowSample,
    RowsWith,
    SentAtRows,
    folds_of,
    joined_rows,
    sent,
)
from colabel.learn.label_summary import laplace
from colabel.learn.row_chance import FoldRule, RowRanks

Result = TypeVar("Result")

# Rows of a chunk that are worked on together: what is as long as they are stays small.
ROWS_AT_ONCE = 1 << 12


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
        return self.first_look.features

    @property
    def total_weight(self) -> float:
        """Sum of the row weights."""
        return self.first_look.weight

    def class_frequencies(self, label: int) -> Array:
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
        A part for which it returns None has nothing to add.
        """
        announce(self.n_rows)
        work = _Work(function, arguments, combine, rows_at_once)
        (result,) = computed(reduced(self._mapped(work), combine), client=self.client)
        found: Result = result
        return found

    def _mapped(self, work: _Work) -> list[Any]:
        """Delayed results of a function of every part."""
        from dask import delayed

        folds = list({id(one): one for one in map(folds_of, work.arguments) if one}.values())
        travelling = tuple(sent(argument, folds) for argument in work.arguments)
        # one object that every chunk's task refers to, not a copy in each of them
        shared = delayed(replace(work, arguments=travelling), pure=False, traverse=False)
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
        """Return `colabel.learn.conditional.random_folds`: the same folds, whatever the chunks.

        But equal rows share a fold also where others of their features have different labels.
        """
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

    def sampled(self, n_rows: int, seed: int) -> RowPart:
        """Bring about so many rows here, drawn at random; all, where they are no more."""
        every = self.n_rows <= n_rows
        (rows,) = self.gathered(None if every else RowSample(n_rows / self.n_rows, seed))
        return rows


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
        arguments = (a(rows) if isinstance(a, SentAtRows) else a for a in work.arguments)
        return work.function(rows, *arguments)

    with one_blas_thread:
        if not work.rows_at_once:
            return called(part)
        return combined(map(called, part.slices(work.rows_at_once)), work.combine)


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
