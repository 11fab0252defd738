"""Turn what users write (label values, evidence, row indices) into codes and index arrays."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Set
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colabel.core.arrays import Codes, Flags, Indices
from colabel.labels import MISSING, LabelSpace

_SHOWN = 5  # how many rows an error names


def codes_of_labels(space: LabelSpace, Y: Any, n_rows: int, *, mark_unseen: bool = False) -> Codes:
    """Return codes (n, d) of label vectors, one per row or one for all the rows."""
    table, is_single = _as_table(Y, space.n_labels)
    codes = space.encode(table, mark_unseen=mark_unseen)
    if is_single:
        return np.broadcast_to(codes, (n_rows, space.n_labels))
    if len(codes) != n_rows:
        raise ValueError(
            f"There are label vectors for {len(codes)} rows but this joint has {n_rows}: give one "
            f"per row, or a single vector of length {space.n_labels} for all of them."
        )
    return codes


def codes_of_evidence(space: LabelSpace, evidence: Any, n_rows: int) -> Codes:
    """Return codes (n, d) of evidence given as a mapping or a table; MISSING where unknown."""
    if not isinstance(evidence, Mapping):
        return codes_of_labels(space, evidence, n_rows)
    codes = np.full((n_rows, space.n_labels), MISSING, dtype=np.int32)
    for name, value in evidence.items():
        i = space.index(name)
        codes[:, i] = _column(space, i, value, n_rows)
    return codes


def as_rows(index: Any, n_rows: int) -> slice | Indices:
    """Return an index of rows (int, slice, indices or mask) as a slice or an index array."""
    if isinstance(index, slice):
        return index
    array: NDArray[Any] = np.asarray(index)
    if array.dtype == bool:
        if array.shape != (n_rows,):
            raise IndexError(
                f"A mask of shape {array.shape} cannot choose among {n_rows} rows: give one "
                "True or False per row."
            )
        return np.flatnonzero(array)
    if array.ndim > 1 or (array.size and not np.issubdtype(array.dtype, np.integer)):
        raise IndexError(
            f"Rows are chosen by an integer, a slice, a vector of integers or a mask, not by "
            f"{index!r}."
        )
    rows = np.atleast_1d(array).astype(np.intp)
    outside = rows[(rows < -n_rows) | (rows >= n_rows)]
    if outside.size:
        raise IndexError(f"Row {outside[0]} does not exist: this joint has {n_rows} rows.")
    return rows


class ImpossibleEvidenceError(ValueError):
    """Evidence of probability zero: in which rows, and what the first of them has."""

    rows: Indices
    example: str


def require_possible(space: LabelSpace, evidence: Codes, impossible: Flags) -> None:
    """Raise an error if evidence (n, d) has probability zero in some rows, `impossible` (n,)."""
    rows = np.flatnonzero(impossible)
    if not rows.size:
        return
    fixed = np.flatnonzero((evidence[rows] != MISSING).any(axis=0))
    labels = ", ".join(repr(space.names[i]) for i in fixed)
    shown = ", ".join(map(str, rows[:_SHOWN])) + (", ..." if len(rows) > _SHOWN else "")
    first = evidence[rows[0]]
    example = ", ".join(
        f"{space.names[i]!r}: {space.classes[i][first[i]]!s}"
        for i in np.flatnonzero(first != MISSING)
    )
    error = ImpossibleEvidenceError(
        f"The evidence on {labels} has probability zero in {len(rows)} of {len(evidence)} rows "
        f"(rows {shown}; row {rows[0]} has {{{example}}}). Correct it, or leave some of these "
        "labels unknown in those rows."
    )
    error.rows, error.example = rows, example
    raise error


def _as_table(Y: Any, n_labels: int) -> tuple[Any, bool]:
    """Return Y with a row axis, and whether it was a single label vector for all the rows."""
    if isinstance(Y, Set):
        return [Y], True
    if len(getattr(Y, "shape", (0,))) != 1:
        return Y, False
    entries = list(Y)
    if any(isinstance(entry, Collection) and not isinstance(entry, str) for entry in entries):
        return Y, False  # a list of rows, or of sets of labels
    if n_labels > 1 and len(entries) != n_labels:
        raise ValueError(
            f"A single label vector must have {n_labels} entries, one per label, but this one has "
            f"{len(entries)}."
        )
    return _plain_array(Y).reshape(-1, n_labels), n_labels > 1 or len(entries) == 1


def _column(space: LabelSpace, i: int, value: Any, n_rows: int) -> Codes:
    """Return the codes (n,) of the evidence on label i: a value for all rows or one per row."""
    column = _plain_array(value)
    if column.ndim > 1 or (column.ndim == 1 and len(column) != n_rows):
        raise ValueError(
            f"The evidence on {space.names[i]!r} has shape {column.shape}: give one value, or a "
            f"vector of {n_rows} values, one per row."
        )
    alone = LabelSpace((space.names[i],), (space.classes[i],), "matrix")
    return np.broadcast_to(alone.encode(column.reshape(-1, 1))[:, 0], (n_rows,))


def _plain_array(values: Any) -> NDArray[Any]:
    """Return values as an array; a list may mix numbers, text and None, so it keeps objects."""
    return np.asarray(values, dtype=None if hasattr(values, "shape") else object)


def contradictions(old: Codes, new: Codes) -> Flags:
    """Rows (n,) in which new codes (n, d) contradict the old ones where both are known."""
    clash: Flags = ((old != MISSING) & (new != MISSING) & (old != new)).any(axis=1)
    return clash


def merged_evidence(space: LabelSpace, old: Codes, new: Codes) -> Codes:
    """Return the union of old and new evidence (n, d); raise an error if they contradict."""
    require_possible(space, new, contradictions(old, new))
    return np.where(new == MISSING, old, new).astype(np.int32)


def fill_impossible(codes: Codes, count: Indices, cardinalities: Sequence[int]) -> None:
    """Fill codes (n, k, d) behind each row's first `count` (n,) with vectors not yet listed.

    In place; k is at most the number of vectors, so that the first 2 k by code hold enough.
    """
    k = codes.shape[1]
    short = np.flatnonzero(count < k)
    if not short.size:
        return
    every = np.zeros((2 * k, len(cardinalities)), dtype=np.int32)
    rest = np.arange(2 * k)
    for position in range(len(cardinalities) - 1, -1, -1):
        rest, every[:, position] = np.divmod(rest, cardinalities[position])
    candidates = every[rest == 0].tolist()
    for row in short:
        listed = {tuple(vector) for vector in codes[row, : count[row]].tolist()}
        new = [vector for vector in candidates if tuple(vector) not in listed]
        codes[row, count[row] :] = new[: k - count[row]]
