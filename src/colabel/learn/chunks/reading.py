"""From Dask collections to rows in chunks, checked on the way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from colabel.core.arrays import is_dask, is_sparse, one_entry_each
from colabel.core.optional import require
from colabel.core.parameters import LARGEST_FEATURE, refuse_extreme_weights
from colabel.labels.space import LabelSpace, SeenLabels
from colabel.learn.chunks.chunked_data import ChunkedData, active_client, computed, reduced
from colabel.learn.conditional import TrainingData


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

        count = delayed(_n_rows, pure=False)
        found = computed(*(count(chunk) for chunk in self.chunks), client=active_client())
        return self._replace(lengths=tuple(found))


def _n_rows(block: Any) -> int:
    return int(block.shape[0])


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
    found: SeenLabels = seen
    return found


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
    look, same = delayed(_fingerprint, pure=False), delayed(_unchanged, pure=False)
    prints = data.look(*map(look, checked))
    if not data.first_look.weight:
        raise ValueError("All sample weights are zero. Give at least one row a positive weight.")
    # checked by now; from here on, every pass must find the same rows
    return replace(data, parts=tuple(map(same, parts, prints)))


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
            refuse_extreme_weights(part.weight)
    return part
