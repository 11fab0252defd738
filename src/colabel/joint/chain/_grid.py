"""All label vectors that agree with what is known, as a grid of rows and shared prefixes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from colabel.core.arrays import Array, Codes, Indices
from colabel.core.numeric import log_sum_exp
from colabel.joint.chain._links import Links
from colabel.joint.chain.prefixes import Prefixes
from colabel.labels import MISSING

# Probabilities in the grids of one step, as numbers: few enough to stay near the processor.
_CELLS_AT_ONCE = 1 << 20


@dataclass(frozen=True)
class Grid:
    """Prefixes that several rows share.

    Attributes
    ----------
    codes : (M, k)
        The prefixes, in lexicographic order.
    log_prob : (n, M)
        Their log-probabilities in each row; -inf for prefixes that cannot occur.
    """

    codes: Codes
    log_prob: Array

    def children(self, links: Links) -> Array:
        """Log-probabilities (n, M, K) of the prefixes one longer."""
        table = links.log_prob_grid(self.codes)
        table += self.log_prob[:, :, None]
        return table

    def grow(self, table: Array, value: int) -> Grid:
        """Return the prefixes one longer: with a known value, or with all if it is MISSING."""
        n_rows, n_prefixes, n_values = table.shape
        if value != MISSING:
            last = np.full((n_prefixes, 1), value, dtype=np.int32)
            return Grid(np.hstack([self.codes, last]), np.ascontiguousarray(table[:, :, value]))
        values = np.tile(np.arange(n_values, dtype=np.int32), n_prefixes)
        codes = np.column_stack([np.repeat(self.codes, n_values, axis=0), values])
        return Grid(codes, table.reshape(n_rows, -1))

    def log_total(self) -> Array:
        """Log of the summed probabilities of each row, (n,)."""
        return log_sum_exp(self.log_prob)

    def weight(self) -> Array:
        """Probability (n, M) of each prefix among those of its row."""
        top = self.log_prob.max(axis=1, keepdims=True)
        weight: Array = np.exp(self.log_prob - np.where(np.isneginf(top), 0.0, top))
        total = weight.sum(axis=1, keepdims=True)
        weight /= np.where(total > 0, total, 1.0)
        return weight

    def best(self, k: int) -> Prefixes:
        """Return the k best possible prefixes of each row, and those tied with them."""
        k = min(k, self.log_prob.shape[1])
        kth = np.partition(self.log_prob, -k, axis=1)[:, -k, None]
        rows, place = np.nonzero((self.log_prob >= kth) & (self.log_prob > -np.inf))
        return Prefixes(rows, self.codes[place], self.log_prob[rows, place])

    def flat(self) -> Prefixes:
        """Return the possible prefixes of all rows as a list, rows ascending."""
        rows, place = np.nonzero(self.log_prob > -np.inf)
        return Prefixes(rows, self.codes[place], self.log_prob[rows, place])


def root(n_rows: int) -> Grid:
    """Return the empty prefix."""
    return Grid(np.empty((1, 0), dtype=np.int32), np.zeros((n_rows, 1)))


def grid(links: Links, known: Codes, length: int) -> Grid:
    """Return all prefixes of one length that agree with `known` (d,), the same in all rows."""
    found = root(links.n_rows)
    for position in range(length):
        found = found.grow(found.children(links), int(known[position]))
    return found


def alike(rows: Indices, known: Codes, bits: Array) -> Iterator[Indices]:
    """Cut rows into groups with the same known values, small enough for one grid.

    Parameters
    ----------
    rows : (m,)
        Rows of `known` to be cut.
    known : (n, d)
        Values, MISSING where unknown.
    bits : (n,)
        Log2 of the number of prefixes of each row that will be asked for.
    """
    if not len(rows):
        return
    _, group = np.unique(known[rows], axis=0, return_inverse=True)
    order = np.argsort(group, kind="stable")
    bounds = np.flatnonzero(np.diff(group[order], prepend=-1, append=len(rows)))
    for start, stop in pairwise(bounds):
        members = rows[order[start:stop]]
        step = max(1, int(_CELLS_AT_ONCE // 2.0 ** bits[members[0]]))
        for first in range(0, len(members), step):
            yield members[first : first + step]
