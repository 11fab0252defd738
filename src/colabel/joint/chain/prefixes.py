"""Sets of prefixes of label vectors, grown one label at a time; all in chain order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from colabel.core.arrays import Array, Codes, Flags, Indices, row_slices
from colabel.joint.chain.links import Links
from colabel.labels import MISSING


@dataclass(frozen=True)
class Prefixes:
    """Prefixes of length k with their probabilities, of several rows.

    Attributes
    ----------
    rows : (m,)
        Row of the batch each prefix belongs to.
    codes : (m, k)
        Values at positions 0 to k - 1.
    log_prob : (m,)
        Log-probability of the prefix: an upper bound for every vector it begins.
    """

    rows: Indices
    codes: Codes
    log_prob: Array

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, index: Indices | slice | Flags) -> Prefixes:
        """Return some of the prefixes."""
        return Prefixes(self.rows[index], self.codes[index], self.log_prob[index])

    def extend(self, parents: Indices, values: Indices, log_prob: Array) -> Prefixes:
        """Return prefixes one longer: parent i followed by value i."""
        codes = np.empty((len(parents), self.codes.shape[1] + 1), dtype=np.int32)
        codes[:, :-1] = self.codes[parents]
        codes[:, -1] = values
        return Prefixes(self.rows[parents], codes, log_prob)

    def grow(self, table: Array, keep: Flags) -> Prefixes:
        """Return the children that `keep` (m, K) marks, in order; `table` (m, K) scores them."""
        parents, values = np.nonzero(keep)
        return self.extend(parents, values, table[keep])


def root(rows: Indices) -> Prefixes:
    """Return the empty prefix of every row."""
    return Prefixes(rows, np.empty((len(rows), 0), dtype=np.int32), np.zeros(len(rows)))


def nothing(length: int) -> Prefixes:
    """Return no prefixes, of some length."""
    return Prefixes(np.empty(0, np.intp), np.empty((0, length), np.int32), np.empty(0))


def joined(parts: Sequence[Prefixes]) -> Prefixes:
    """Return prefixes of the same length as one set."""
    return Prefixes(
        np.concatenate([part.rows for part in parts]),
        np.concatenate([part.codes for part in parts]),
        np.concatenate([part.log_prob for part in parts]),
    )


def children(links: Links, prefixes: Prefixes, known: Codes) -> Array:
    """Log-probabilities (m, K) of the prefixes one longer; -inf where they contradict `known`.

    Parameters
    ----------
    known : (n, d)
        Values that are known, in chain order, MISSING elsewhere.
    """
    table = links.log_prob(prefixes.rows, prefixes.codes) + prefixes.log_prob[:, None]
    wanted = known[prefixes.rows, prefixes.codes.shape[1]]
    if (wanted != MISSING).any():
        other = np.arange(table.shape[1]) != wanted[:, None]
        table[other & (wanted != MISSING)[:, None]] = -np.inf
    return table


def best_distinct(prefixes: Prefixes, n_rows: int, k: int) -> tuple[Codes, Array, Indices]:
    """Choose the k most probable of each row's vectors, each vector once.

    Returns
    -------
    codes : (n, k, d)
        Zeros where a row has fewer than k.
    log_prob : (n, k)
        Descending; -inf where a row has fewer than k. In a tie the smaller code wins at the
        first position where the vectors differ.
    count : (n,)
        How many vectors each row has.
    """
    order = np.lexsort((*prefixes.codes.T[::-1], prefixes.rows))
    by_codes = prefixes.take(order)
    repeated = np.zeros(len(order), dtype=bool)
    repeated[1:] = (by_codes.rows[1:] == by_codes.rows[:-1]) & (
        by_codes.codes[1:] == by_codes.codes[:-1]
    ).all(axis=1)
    distinct = by_codes.take(~repeated)
    ranked = distinct.take(np.lexsort((-distinct.log_prob, distinct.rows)))
    rank = rank_in_row(ranked.rows)
    kept = ranked.take(rank < k)
    place = kept.rows, rank[rank < k]
    codes = np.zeros((n_rows, k, prefixes.codes.shape[1]), dtype=np.int32)
    log_prob = np.full((n_rows, k), -np.inf)
    codes[place], log_prob[place] = kept.codes, kept.log_prob
    return codes, log_prob, np.bincount(kept.rows, minlength=n_rows)


def rank_in_row(rows: Indices) -> Indices:
    """Position of each entry among those of its row; `rows` (m,) must ascend."""
    return np.arange(len(rows)) - np.searchsorted(rows, rows)


def log_completions(known: Codes, cardinalities: Sequence[int]) -> Array:
    """Log2 of the number (n,) of label vectors that agree with `known` (n, d)."""
    bits = np.log2(np.asarray(cardinalities, dtype=np.float64))
    completions: Array = (known == MISSING) @ bits
    return completions


def chunks_of(links: Links, rows: Indices, vectors_each: float) -> list[Indices]:
    """Cut rows so that a chunk with so many vectors for each row stays small."""
    numbers_each = max(1.0, vectors_each) * max(1, len(links.cardinalities))
    parts = row_slices(len(rows), links.codes_at_once, numbers_each) if len(rows) else []
    return [rows[part] for part in parts]
