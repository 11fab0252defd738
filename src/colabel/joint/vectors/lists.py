"""Lists of different lengths, one per row, end to end in flat arrays.

As in a CSR matrix, the entries of row r stand at positions ``indptr[r]`` to ``indptr[r + 1]``.
"""

from __future__ import annotations

import numpy as np

from colabel.core.arrays import Array, Codes, Flags, Indices

_SORTED_WHOLE = 64  # lists so short are sorted without looking for their best first


def row_of_entries(indptr: Indices) -> Indices:
    """Row (N,) of every entry."""
    return np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))


def row_max(values: Array, indptr: Indices) -> Array:
    """Largest value (n,) of each row, -inf for a row without entries."""
    return _reduced(np.maximum, values, indptr, -np.inf)


def row_sum(values: Array, indptr: Indices) -> Array:
    """Sum (n,) of each row."""
    return _reduced(np.add, values, indptr, 0.0)


def row_log_sum(values: Array, indptr: Indices, largest: Array | None = None) -> Array:
    """Log of the sum of exponentials (n,) of each row, -inf for a row without entries.

    `largest` (n,) is what `row_max` would find, where that is known.
    """
    if largest is None:
        largest = row_max(values, indptr)
    shift = np.where(np.isneginf(largest), 0.0, largest)
    total = row_sum(np.exp(values - shift[row_of_entries(indptr)]), indptr)
    with np.errstate(divide="ignore"):
        found: Array = np.log(total) + shift
    return found


def _reduced(operation: np.ufunc, values: Array, indptr: Indices, of_nothing: float) -> Array:
    found = np.full(len(indptr) - 1, of_nothing)
    filled = indptr[:-1] < indptr[1:]
    found[filled] = operation.reduceat(values, indptr[:-1][filled])
    return found


def kept_entries(keep: Flags, indptr: Indices) -> Indices:
    """The `indptr` of what is left when only the marked entries (N,) are kept."""
    return np.concatenate([[0], np.cumsum(keep)])[indptr]


def entries_of_rows(rows: Indices, indptr: Indices) -> tuple[Indices, Indices]:
    """Positions of all the entries of some rows, which may repeat, and their `indptr`."""
    lengths = np.diff(indptr)[rows]
    starts = np.concatenate([[0], np.cumsum(lengths)])
    return np.arange(starts[-1]) + np.repeat(indptr[rows] - starts[:-1], lengths), starts


def merged_entries(
    indptr: Indices, indices: Codes, log_weights: Array, n_vectors: int
) -> tuple[Indices, Codes, Array]:
    """Sort each row's entries by the vector they name, and add up those that name the same."""
    key = row_of_entries(indptr) * n_vectors + indices
    if (key[1:] > key[:-1]).all():
        return indptr, indices, log_weights
    order = np.argsort(key, kind="stable")
    key = key[order]
    first = np.concatenate([np.ones(min(1, len(key)), dtype=bool), key[1:] != key[:-1]])
    places = np.concatenate([np.flatnonzero(first), [len(key)]])
    return (
        kept_entries(first, indptr),
        indices[order][first],
        row_log_sum(log_weights[order], places),
    )


def leading_entries(values: Array, indptr: Indices, k: int) -> Indices:
    """Entries with the k largest values of each row, rows ascending and best first.

    In a tie the first of the list wins.
    """
    candidate = np.ones(len(values), dtype=bool)
    for r in np.flatnonzero(np.diff(indptr) > max(k, _SORTED_WHOLE)):
        own = slice(indptr[r], indptr[r + 1])
        candidate[own] = values[own] >= np.partition(values[own], -k)[-k]
    entry = np.flatnonzero(candidate)
    row = row_of_entries(indptr)[entry]
    order = np.lexsort((-values[entry], row))  # stable: ties stay in list order
    rank = np.arange(len(row)) - np.searchsorted(row, row)
    found: Indices = entry[order[rank < k]]
    return found


def drawn_entries(prob: Array, indptr: Indices, uniform: Array) -> Indices:
    """Draw entries (n, size) of each row by uniform numbers (n, size); no row may be empty."""
    cumulated = np.cumsum(prob)
    before = np.concatenate([[0.0], cumulated])[indptr[:-1]]
    total = cumulated[indptr[1:] - 1]
    target = before[:, None] + uniform * (total - before)[:, None]
    found = np.searchsorted(cumulated, target, side="right")
    # rounding may carry a number past the row's ends: its first or last possible entry is meant
    first = np.searchsorted(cumulated, before, side="right")
    last = np.searchsorted(cumulated, total, side="left")
    inside: Indices = np.clip(found, first[:, None], last[:, None])
    return inside
