"""Rows in chunks, as Dask has them: what is asked of them are sums.

A pass over the chunks computes a function of each and reduces the results in a tree.

From Dask collections to rows in chunks, checked on the way.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from typing import Any, ClassVar, NamedTuple, TypeVar
from zlib import crc32

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from colabel.core.arrays import Array, Flags, Indices, is_dask, is_sparse, one_entry_each
from colabel.core.hashing import mix
from colabel.core.journal import Journal
from colabel.core.lazy import require
from colabel.core.parameters import LARGEST_FEATURE, check_weight_range
from colabel.core.threads import one_blas_thread
from colabel.labels.space import LabelSpace, SeenLabels
from colabel.learn.conditional import AtFolds, FoldModels, LabelSummary, Rows, TrainingData
from colabel.learn.row_hashing import FoldRule, RowRanks, column_range, wider_range

Result = TypeVar("Result")
PassCounter = Callable[[int], None]

_FAN_IN = 8  # results of a tree's node that are in memory together
_counters: ContextVar[tuple[PassCounter, ...]] = ContextVar("pass counters", default=())
_journal: ContextVar[Journal | None] = ContextVar("journal of passes", default=None)


@contextmanager
def counting_passes(count: PassCounter) -> Iterator[None]:
    """Have a function called before every pass over the rows, with the number of its rows.

    Examples
    --------
    >>> passes = []
    >>> with counting_passes(passes.append):
    ...     pass  # model.fit(X, y) of dask arrays
    """
    token = _counters.set((*_counters.get(), count))
    try:
        yield
    finally:
        _counters.reset(token)


@contextmanager
def journaled(journal: Journal) -> Iterator[None]:
    """Have the results of passes written down, and those that are there not computed again.

    A fit is a deterministic function of them: it goes on where it was stopped.
    """
    token = _journal.set(journal)
    try:
        yield
    finally:
        _journal.reset(token)


def count_pass(n_rows: int) -> None:
    """Tell who counts passes that one begins."""
    for count in _counters.get():
        count(n_rows)


def added(one: Any, other: Any) -> Any:
    """Add numbers, arrays, and tuples of them."""
    if isinstance(one, tuple):
        parts = [added(a, b) for a, b in zip(one, other, strict=True)]
        return type(one)(*parts) if hasattr(one, "_fields") else tuple(parts)
    return one + other


def reduced(leaves: Sequence[Any], combine: Callable[[Any, Any], Any]) -> Any:
    """Combine delayed results in a tree; those that are None have nothing to add."""
    from dask import delayed

    together = delayed(combined, pure=False)
    nodes = list(leaves)
    while len(nodes) > 1:
        starts = range(0, len(nodes), _FAN_IN)
        nodes = [together(nodes[start : start + _FAN_IN], combine) for start in starts]
    return nodes[0]


def combined(results: Iterable[Any], combine: Callable[[Any, Any], Any]) -> Any:
    """Combine results in their order; those that are None have nothing to add."""
    parts = [result for result in results if result is not None]
    return reduce(combine, parts) if parts else None


def active_client() -> Any:
    """Return the Dask client that is in use, or None: Dask works in this process then."""
    distributed = sys.modules.get("distributed")
    if distributed is None:
        return None
    from dask import config

    if config.get("scheduler", None) not in (None, "dask.distributed", "distributed"):
        return None  # told to work here nevertheless
    try:
        return distributed.default_client()
    except ValueError:
        return None


def computed(*nodes: Any, client: Any = None) -> tuple[Any, ...]:
    """Return the results of delayed nodes, by a client or as Dask is told to work here.

    Inside `journaled` those that an earlier fit has left are returned instead.
    """
    import dask

    journal = _journal.get()
    recorded = None if journal is None else journal.next()
    if recorded is not None:
        return recorded
    with _one_sentence(client):
        results = tuple(dask.compute(*nodes, scheduler=client))
    if journal is not None:
        journal.add(results)
    return results


def kept(nodes: Sequence[Any], client: Any = None) -> tuple[Any, ...]:
    """Compute delayed nodes and leave the results where they are: here, or with the workers."""
    import dask

    with _one_sentence(client):
        return tuple(dask.persist(*nodes, scheduler=client))


@contextmanager
def _one_sentence(client: Any) -> Iterator[None]:
    """Say in one sentence that the scheduler of a client is gone, where it is."""
    if client is None:
        yield
        return
    if client.status != "running":
        raise _lost()
    from distributed import CancelledError

    try:
        yield
    except (CancelledError, OSError) as error:
        if client.status == "running" and "scheduler" not in str(error):
            raise  # of reading a chunk, or of chunks that nobody can compute again
        raise _lost() from error


def _lost() -> RuntimeError:
    return RuntimeError(
        "The Dask scheduler is gone: the connection to it was lost during the fit. Connect to a"
        " running one (distributed.Client) and fit again."
    )


def joined_rows(one: TrainingData, other: TrainingData) -> TrainingData:
    """Return the rows of one part and then those of another."""

    def both(a: Any, b: Any) -> Any:
        if a is None:
            return None
        return sp.vstack([a, b], format="csr") if is_sparse(a) else np.concatenate([a, b])

    names = ("X", "codes", "weight", "extra")
    parts = {name: both(getattr(one, name), getattr(other, name)) for name in names}
    return replace(one, **parts, folds=tuple(map(both, one.folds, other.folds)))


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
    def at_rows(self) -> AtRows:
        """The folds of the rows, as an argument of `ChunkedData.sum`."""
        return AtRows(lambda _, fold: fold, self)

    def rows_outside(self, *folds: int) -> AtRows:
        """The rows that are in none of some folds."""
        return AtRows(lambda _, fold: ~np.isin(fold, folds), self)

    def rows_inside(self, fold: int) -> AtRows:
        """The rows of a fold."""
        return self.rows_outside(*(f for f in range(-1, self.n_folds) if f != fold))


@dataclass(frozen=True, eq=False)
class AtRows:
    """An argument of `ChunkedData.sum` that is as long as the rows: computed for each part.

    Attributes
    ----------
    function : callable
        Of a part, and of the folds (m,) of its rows if there are any.
    folds : ChunkedFolds or None
    place : int or None
        Where a part has the folds, once that is known.
    """

    function: Callable[..., Any]
    folds: ChunkedFolds | None = None
    place: int | None = None

    def __call__(self, part: TrainingData) -> Any:
        """Return what it is for the rows of a part."""
        return self.function(part, *(() if self.place is None else (part.folds[self.place],)))


def drawn_rows(share: float, seed: int, part: TrainingData) -> Flags:
    """Draw about a share of the rows by their numbers, whatever the chunks.

    Not by their content, as folds are: of many equal rows all would be drawn, or none.
    """
    numbers = np.arange(part.first, part.first + part.n_rows, dtype=np.uint64)
    start = mix(np.array([seed], dtype=np.uint64) + np.uint64(1))
    # the upper 53 bits, as a number from 0 to 1
    chance = (mix(mix(numbers) ^ start) >> np.uint64(11)) * 2.0**-53
    return np.asarray(chance < share)


class FirstLook(NamedTuple):
    """Counts of labels, weight of all rows, and range of the features."""

    labels: LabelSummary
    weight: float
    features: tuple[Array, Array]

    @classmethod
    def at(cls, part: TrainingData) -> FirstLook:
        """Look at some rows."""
        return cls(LabelSummary.of(part), part.total_weight, column_range(part))

    def joined(self, other: FirstLook) -> FirstLook:
        """Join what is seen of these rows and of those after them."""
        features = wider_range(self.features, other.features)
        return FirstLook(self.labels.joined(other.labels), self.weight + other.weight, features)


# Rows of a chunk that are worked on together: what is as long as they are stays small.
ROWS_AT_ONCE = 1 << 12


@dataclass(frozen=True, eq=False)
class ChunkedData(Rows):
    """Rows, codes and weights in chunks; what `TrainingData` is in memory.

    Attributes
    ----------
    parts : tuple of delayed TrainingData
        The chunks.
    n_rows, n_features : int
    cardinalities : (d,)
        Number of values of every variable.
    sparse : bool
        Whether the chunks of X are CSR.
    n_extra : int
        Number of further features.
    client : distributed.Client or None
        Who computes; None for Dask's scheduler in this process.
    known : dict
        What earlier passes have found of these rows, without further features.
    """

    parts: tuple[Any, ...]
    n_rows: int
    n_features: int
    cardinalities: tuple[int, ...]
    sparse: bool
    n_extra: int = 0
    client: Any = None
    known: dict[Any, Any] = field(default_factory=dict)
    in_chunks: ClassVar[bool] = True

    def look(self) -> tuple[int, ...]:
        """Take the first look at all rows, and return a checksum of each part.

        One task does both: Dask would keep all parts that a second task waits for.
        """
        from dask import delayed

        count_pass(self.n_rows)
        work = (FirstLook.at, FirstLook.joined, ROWS_AT_ONCE, ())
        shared = delayed(work, pure=False, traverse=False)
        leaves = [_delayed(_looked, shared, part) for part in self.parts]
        ((self.known["look"], prints),) = computed(reduced(leaves, _joined), client=self.client)
        return tuple(prints)

    @property
    def first_look(self) -> FirstLook:
        """What a pass over all rows says of labels, weights and features, once."""
        if "look" not in self.known:
            self.look()
        look: FirstLook = self.known["look"]
        return look

    @property
    def labels(self) -> LabelSummary:  # type: ignore[override]
        """Counts of the labels of all rows."""
        return self.first_look.labels

    @property
    def column_range(self) -> tuple[Array, Array]:
        return self.first_look.features

    @property
    def total_weight(self) -> float:
        """Sum of the row weights."""
        return self.first_look.weight

    def by_fold(self, at: AtFolds, models: FoldModels, folds: ChunkedFolds) -> AtRows:
        """Return what models say of the rows of their folds, known for each part."""
        return AtRows(partial(at, models), folds)

    def rows_with(self, label: int, value: int) -> AtRows:
        """The rows that have a value of a label."""
        return AtRows(lambda part: part.codes[:, label] == value)

    def sum(
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
        count_pass(self.n_rows)
        parts = self._mapped((function, combine, rows_at_once), arguments)
        (result,) = computed(reduced(parts, combine), client=self.client)
        total: Result = result
        return total

    def _mapped(self, work: Any, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        """Delayed results of a function of every part, see `_run`."""
        from dask import delayed

        at_rows = [one for one in arguments if isinstance(one, AtRows)]
        folds = list({id(one.folds): one.folds for one in at_rows if one.folds}.values())
        places = {id(one): place for place, one in enumerate(folds)}

        def sent(one: Any) -> Any:
            place = places.get(id(one.folds)) if isinstance(one, AtRows) else None
            return replace(one, folds=None, place=place) if isinstance(one, AtRows) else one

        # one object that every chunk's task refers to, not a copy in each of them
        shared = delayed((*work, tuple(map(sent, arguments))), pure=False, traverse=False)
        chunks = zip(self.parts, *(own.chunks for own in folds), strict=True)
        return tuple(_delayed(_run, shared, *own) for own in chunks)

    def _derived(self, function: Callable[..., Any], *arguments: Any) -> tuple[Any, ...]:
        """Other parts, each ``function(part, *arguments)``; computed in every pass anew."""
        return self._mapped((function, added, 0), arguments)

    def with_extra(
        self, columns: Callable[..., Array], *arguments: Any, n_extra: int
    ) -> ChunkedData:
        parts = self._derived(_with_extra, columns, *arguments)
        return replace(self, parts=parts, n_extra=n_extra)

    def where(
        self, folds: ChunkedFolds, marks: Callable[..., Flags], *arguments: Any
    ) -> tuple[ChunkedData, ChunkedFolds]:
        """Return the rows that ``marks(part, *arguments)`` (m,) marks, and their folds."""
        count_pass(self.n_rows)
        kept_rows = kept(self._derived(marks, *arguments), self.client)
        parts = [
            _delayed(TrainingData.take, part, own)
            for part, own in zip(self.parts, kept_rows, strict=True)
        ]
        derived = replace(self, parts=tuple(parts), known={})
        derived = replace(derived, n_rows=derived.first_look.labels.n_rows)
        both = zip(folds.chunks, kept_rows, strict=True)
        return derived, replace(
            folds, chunks=tuple(_delayed(operator.getitem, *own) for own in both)
        )

    def random_folds(self, cv: int | float, seed: int) -> ChunkedFolds:
        """Return `colabel.learn.conditional.random_folds`: the same folds, whatever the chunks.

        But equal rows share a fold also where others of their features have different labels.
        """
        key = ("folds", cv, seed)
        if key not in self.known:
            rule = FoldRule.of(RowRanks.of(self, seed), cv)  # type: ignore[arg-type]
            narrow: Any = np.int8 if rule.n_folds < 128 else np.int32

            def counts_of(folds: Indices) -> Indices:
                """Number of rows that are never held out, and in each fold, (1 + F,)."""
                return np.bincount(folds.astype(np.intp) + 1, minlength=1 + rule.n_folds)

            def without_gaps(folds: Indices) -> Any:
                return rule.without_gaps(folds, held_out)[0].astype(narrow)

            count_pass(self.n_rows)
            chunks = kept(self._derived(lambda part: rule(part).astype(narrow)), self.client)
            counted = [_delayed(counts_of, own) for own in chunks]
            (counts,) = computed(reduced(counted, added), client=self.client)
            held_out = counts[1:]
            if (held_out > 0).sum() < rule.n_folds:
                chunks = kept([_delayed(without_gaps, own) for own in chunks], self.client)
            n_folds = rule.without_gaps(np.zeros(0, dtype=np.intp), held_out)[1]
            self.known[key] = ChunkedFolds(chunks, n_folds, not counts[0])
        folds: ChunkedFolds = self.known[key]
        return folds

    def gathered(self, *selected: Any) -> list[TrainingData]:
        """Bring rows here, for each selection (None: all) those that it marks. They must be few."""

        def rows(part: TrainingData, *marks: Any) -> list[TrainingData]:
            return [part if own is None else part.take(own) for own in marks]

        return self.sum(rows, *selected, combine=lambda a, b: list(map(joined_rows, a, b)))

    def sampled(self, n_rows: int, seed: int) -> TrainingData:
        """Bring about so many rows here, drawn at random; all, where they are no more."""
        share = n_rows / self.n_rows
        return self.gathered(None if share >= 1 else AtRows(partial(drawn_rows, share, seed)))[0]


def _run(work: Any, part: TrainingData, *folds: Indices) -> Any:
    """Call a function for a part, some rows at a time, or for all at once (0), and combine."""
    function, combine, rows_at_once, arguments = work
    part = replace(part, folds=folds)

    def called(rows: TrainingData) -> Any:
        return function(rows, *(a(rows) if isinstance(a, AtRows) else a for a in arguments))

    with one_blas_thread:
        if not rows_at_once:
            return called(_slice(part, 0, part.n_rows))
        starts = range(0, part.n_rows, rows_at_once)
        return combined((called(_slice(part, at, rows_at_once)) for at in starts), combine)


def _slice(part: TrainingData, start: int, n_rows: int) -> TrainingData:
    """Some of the rows, as 64-bit numbers."""
    some = part.take(slice(start, start + n_rows))
    return replace(some, X=some.X.astype(np.float64, copy=False), first=part.first + start)


def _with_extra(part: TrainingData, columns: Callable[..., Array], *arguments: Any) -> TrainingData:
    return replace(part, extra=columns(part, *arguments), folds=())


def _delayed(function: Callable[..., Any], *arguments: Any) -> Any:
    from dask import delayed

    return delayed(function, pure=False)(*arguments)


class Blocks(NamedTuple):
    """A Dask collection, chunk by chunk.

    Attributes
    ----------
    chunks : list of delayed blocks
        Arrays, CSR or data frames.
    lengths : tuple of int, or None
        Their numbers of rows, where they are known.
    meta : array or data frame
        An empty block.
    n_columns : int
    """

    chunks: list[Any]
    lengths: tuple[int, ...] | None
    meta: Any
    n_columns: int

    @classmethod
    def of(cls, collection: Any) -> Blocks:
        """Split an array of shape (n, p) or (n,), or a data frame, by rows."""
        require("dask", "A fit on chunks of rows")
        if hasattr(collection, "to_dask_array"):  # a data frame or a series
            n_columns = len(collection.columns) if hasattr(collection, "columns") else 1
            chunks = list(np.ravel(collection.to_delayed()))
            return cls(chunks, None, collection._meta, n_columns)
        if collection.ndim not in (1, 2):
            raise ValueError(
                f"A Dask array of {collection.ndim} dimensions was given: rows are (n, p) or (n,)."
            )
        if collection.ndim == 2 and len(collection.chunks[1]) > 1:
            collection = collection.rechunk({1: -1})
        lengths = collection.chunks[0]
        known = None if any(np.isnan(m) for m in lengths) else tuple(int(m) for m in lengths)
        n_columns = collection.shape[1] if collection.ndim == 2 else 1
        # as they are: fused by themselves, X and Y would each read a part of a file that they share
        chunks = list(collection.to_delayed(optimize_graph=False).ravel())
        return cls(chunks, known, collection._meta, n_columns)

    def with_lengths(self) -> Blocks:
        """Count the rows of the chunks, where that is not known."""
        if self.lengths is not None:
            return self
        from dask import delayed

        count = delayed(lambda block: int(block.shape[0]), pure=False)
        lengths = computed(*(count(chunk) for chunk in self.chunks), client=active_client())
        return self._replace(lengths=tuple(lengths))


def same_chunks(X: Any, other: Any, name: str) -> Blocks:
    """Blocks of `other` with the rows of those of X."""
    if not is_dask(other):
        raise TypeError(
            f"X is a Dask collection but {name} is {type(other).__name__}: give {name} as a Dask "
            "array or data frame with the same chunks of rows."
        )
    rows = Blocks.of(X).with_lengths().lengths
    assert rows is not None
    own = Blocks.of(other).with_lengths()
    assert own.lengths is not None
    if sum(own.lengths) != sum(rows):
        raise ValueError(
            f"X has {sum(rows)} rows but {name} has {sum(own.lengths)}. Give one row of {name} for "
            "each row of X."
        )
    if own.lengths == rows:
        return own
    if hasattr(other, "to_dask_array"):
        raise ValueError(
            f"The chunks of X and {name} hold different rows ({rows[:3]} and {own.lengths[:3]} "
            "rows first). Repartition one like the other."
        )
    return Blocks.of(other.rechunk({0: rows}))


def seen_labels(Y: Any) -> SeenLabels:
    """Look for the values of labels in all chunks: one pass over them."""
    from dask import delayed

    look = delayed(_seen, pure=False)
    looks = [look(chunk) for chunk in Blocks.of(Y).chunks]
    (seen,) = computed(reduced(looks, SeenLabels.joined), client=active_client())
    if seen is None:
        raise ValueError("Y is empty: its chunks have no rows. Give at least one row.")
    labels: SeenLabels = seen
    return labels


def _seen(block: Any) -> SeenLabels | None:
    return SeenLabels.of(block) if block.shape[0] else None


def chunked_data(
    X: Any,
    Y: Any,
    space: LabelSpace,
    sample_weight: Any,
    *,
    names: Sequence[str] | None,
    allow_nan: bool,
) -> ChunkedData:
    """Check all rows in one pass, which also counts labels and finds the range of features.

    Parameters
    ----------
    X, Y, sample_weight : Dask collections
        With the same chunks of rows, or such that they can be cut so.
    space : LabelSpace
        Of all labels.
    names : sequence of p str, or None
        Names of the features, for messages.
    allow_nan : bool
    """
    from dask import delayed

    rows = Blocks.of(X).with_lengths()
    assert rows.lengths is not None
    n_rows = sum(rows.lengths)
    if not n_rows:
        raise ValueError("Found array with 0 sample(s): X has no rows. Give at least one.")
    labels = same_chunks(X, Y, "y").chunks
    weights = (
        [None] * len(labels)
        if sample_weight is None
        else same_chunks(X, sample_weight, "sample_weight").chunks
    )
    known_space = delayed(space, pure=False, traverse=False)
    check = delayed((None if names is None else tuple(names), allow_nan), pure=False)
    make, inspect = delayed(_part, pure=False), delayed(_checked, pure=False)
    starts = np.cumsum([0, *rows.lengths])[:-1].tolist()
    parts = tuple(
        make(*own, known_space) for own in zip(rows.chunks, labels, weights, starts, strict=True)
    )
    checked = tuple(inspect(part, check) for part in parts)
    data = ChunkedData(
        checked,
        n_rows,
        rows.n_columns,
        space.cardinalities,
        bool(sp.issparse(rows.meta)),
        client=active_client(),
    )
    prints, same = data.look(), delayed(_unchanged, pure=False)
    if not data.first_look.weight:
        raise ValueError("All sample weights are zero. Give at least one row a positive weight.")
    # checked by now; from here on, every pass must find the same rows
    return replace(data, parts=tuple(map(same, parts, prints)))


Looked = tuple[FirstLook | None, tuple[int, ...]]


def _looked(work: Any, part: TrainingData) -> Looked:
    return _run(work, part), (_fingerprint(part),)


def _joined(one: Looked, other: Looked) -> Looked:
    return combined((one[0], other[0]), FirstLook.joined), one[1] + other[1]


def _fingerprint(part: TrainingData) -> int:
    """Return a checksum of some sixteen rows, and of how many there are."""
    some = slice(None, None, max(1, part.n_rows // 16))
    x = part.X[some]
    held = crc32(np.ascontiguousarray(x.data if is_sparse(x) else x).tobytes(), part.n_rows)
    return crc32(np.ascontiguousarray(part.codes[some]).tobytes(), held)


def _unchanged(part: TrainingData, expected: int) -> TrainingData:
    if _fingerprint(part) != expected:
        raise RuntimeError(
            "Rows of a Dask collection are not what they were in the pass before: what was learned "
            "so far is of other rows. Give data that do not change: persist them, or draw random "
            "ones with a seed."
        )
    return part


def _part(x: Any, y: Any, weight: Any, first: int, space: LabelSpace) -> TrainingData:
    if hasattr(x, "to_numpy"):
        x = x.to_numpy()
    if hasattr(weight, "to_numpy"):
        weight = weight.to_numpy()
    x = one_entry_each(sp.csr_array(x) if is_sparse(x) else x)
    if not is_sparse(x) and x.dtype.kind != "f":
        x = x.astype(np.float64)
    if weight is not None:
        weight = np.asarray(weight, dtype=np.float64).reshape(-1)
    n_rows = x.shape[0]
    codes = space.encode(y) if n_rows else np.zeros((0, space.n_labels), dtype=np.int32)
    return TrainingData(x, codes, space.cardinalities, weight, first=first)


def _checked(part: TrainingData, checks: tuple[tuple[str, ...] | None, bool]) -> TrainingData:
    """Refuse numbers that cannot be learned from, by row and column."""
    names, allow_nan = checks
    values: NDArray[Any] = part.X.data if is_sparse(part.X) else part.X
    wrong = ~(np.abs(values) <= np.float64(LARGEST_FEATURE))
    if allow_nan:
        wrong &= ~np.isnan(values)
    if wrong.any():
        at = np.argwhere(wrong)[0]
        if is_sparse(part.X):
            row = int(np.searchsorted(part.X.indptr, at[0], side="right")) - 1
            column, value = int(part.X.indices[at[0]]), float(values[at[0]])
        else:
            row, column = map(int, at)
            value = float(values[row, column])
        called = f"column {column}" if names is None else repr(names[column])
        what = "NaN" if np.isnan(value) else f"{value:g}"
        raise ValueError(
            f"X holds {what} in row {part.first + row}, {called}. Fill in missing values, leave "
            f"out what is infinite, and scale numbers beyond {LARGEST_FEATURE:g}, before the fit."
        )
    if part.weight is not None:
        wrong = ~(np.isfinite(part.weight) & (part.weight >= 0))
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            raise ValueError(
                f"sample_weight holds {part.weight[row]:g} in row {part.first + row}. Give "
                "finite numbers that are not negative."
            )
        if part.weight.any():
            check_weight_range(part.weight)
    return part
