"""Hash-based assignment of rows to folds, and their order.

It depends neither on the order in which the rows are given nor on where they are: the hash of a row
is a function of its content, but for a few numbers of all rows (the range of each feature).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from colabel.core.arrays import Array, Codes, Flags, Indices, Keys, is_sparse, row_slices
from colabel.core.hashing import mix, row_keys

if TYPE_CHECKING:
    from colabel.learn.conditional import TrainingData

_ROWS_AT_ONCE = 1 << 12  # while reading their content
# Up to so many rows are ranked by sorting, so that folds have equal sizes.
MOST_SORTED = 1 << 16
# Features are hashed to this many bits of their column's largest: far more than any
# measurement has, far fewer than another machine's rounding reaches.
_BITS = 24
# A column is far from zero if it varies by a smaller share of its largest number; it is rounded to
# so many bits more than others, at most, since doubles hold no more of it.
_FAR = 2.0**-10
_MOST_BITS = 20


@dataclass(frozen=True)
class RowRanks:
    """A random order of the rows, by hashes of their content.

    Attributes
    ----------
    seed : int
    units : (p,)
        See `units_of`.
    distinct : (D,) or None
        Digests of the rows that differ, ascending: a row's rank is its place among them. None where
        rows are too many to be sorted, or to be seen together: then the digest itself is the
        rank, of 2^64 that there could be.
    """

    seed: int
    units: Array
    distinct: Keys | None

    @classmethod
    def of(cls, data: TrainingData, seed: int) -> RowRanks:
        """Look for the rows that differ, where they are few."""
        units = units_of(*data.column_range)
        if data.n_rows > MOST_SORTED:
            return cls(seed, units, None)
        return cls(seed, units, data.sum(_distinct_digests, seed, units, combine=np.union1d))

    @property
    def n_ranks(self) -> int:
        """Number of ranks."""
        return 1 << 64 if self.distinct is None else len(self.distinct)

    def __call__(self, data: TrainingData) -> Keys:
        """Ranks (n,) of rows, from 0 on."""
        return self.of_digests(row_digests(data, self.seed, self.units))

    def of_digests(self, digests: Keys) -> Keys:
        """Ranks (n,) of the rows with these digests."""
        if self.distinct is None:
            return digests
        return np.searchsorted(self.distinct, digests).astype(np.uint64)


@dataclass(frozen=True)
class FoldRule:
    """Which fold each rank belongs to.

    Attributes
    ----------
    ranks : RowRanks
    n_folds : int
    n_held_out : int or None
        Number of the first ranks that make up the only fold; None if all ranks are in folds.
    """

    ranks: RowRanks
    n_folds: int
    n_held_out: int | None

    @classmethod
    def of(cls, ranks: RowRanks, cv: int | float) -> FoldRule:
        """For a number of folds, or the share of a single one."""
        n_ranks = ranks.n_ranks
        if isinstance(cv, float):
            return cls(ranks, 1, min(max(1, round(cv * n_ranks)), n_ranks - 1))
        return cls(ranks, max(1, min(cv, n_ranks)), None)

    def __call__(self, data: TrainingData) -> Indices:
        """Folds (n,) of rows; negative for never."""
        return self.at(self.ranks(data))

    def at(self, rank: Keys) -> Indices:
        """Folds (n,) of ranks; negative for never."""
        if self.n_held_out is not None:
            return np.where(rank < np.uint64(self.n_held_out), 0, -1).astype(np.intp)
        return (rank % np.uint64(self.n_folds)).astype(np.intp)

    def without_gaps(self, of_row: Indices, counts: Indices) -> tuple[Indices, int]:
        """Renumber folds (n,) so that none is empty, given how many rows are in each."""
        filled = np.flatnonzero(counts)
        if self.n_held_out is not None or len(filled) in (0, self.n_folds):
            return of_row, self.n_folds
        return np.searchsorted(filled, of_row), len(filled)


def _counted(data: TrainingData) -> Flags:
    return np.ones(data.n_rows, dtype=bool) if data.weight is None else data.weight > 0


def _distinct_digests(data: TrainingData, seed: int, units: Array) -> Keys:
    return np.unique(row_digests(data, seed, units)[_counted(data)])


def row_digests(data: TrainingData, seed: int, units: Array | None = None) -> Keys:
    """Digests (n,) of the rows' features and labels: equal for equal rows, else random.

    With `units` (p,) features count as equal when they round to the same multiple of their
    column's unit.
    """
    return _digests(row_keys(data.X, units), data, seed)


def _digests(features: Keys, data: TrainingData, seed: int) -> Keys:
    # A missing label has the code -1; an observed one must not hash to zero.
    of_labels = row_keys(data.codes.astype(np.float64) + 2.0)
    start = mix(np.array([seed], dtype=np.uint64) + np.uint64(1))
    return mix(mix(features ^ start) + of_labels)


def hashed_folds(data: TrainingData, cv: int | float, seed: int) -> tuple[Indices, int]:
    """Folds (n,) of rows that are all at hand, and how many there are; see `random_folds`."""
    units = units_of(*data.column_range)
    digests = _distinguished(data, row_keys(data.X, units), seed)
    distinct = np.unique(digests[_counted(data)]) if data.n_rows <= MOST_SORTED else None
    ranks = RowRanks(seed, units, distinct)
    rule = FoldRule.of(ranks, cv)
    of_row = rule.at(ranks.of_digests(digests))
    return rule.without_gaps(of_row, np.bincount(of_row[of_row >= 0]))


def copies(features: Keys, codes: Codes) -> tuple[Indices, Flags]:
    """Groups (n,) of rows with equal features; and whether these all have the same labels (n, d).

    Only then are they copies of one row. Otherwise features are equal by chance: they have few
    values, and each row stands for itself.
    """
    _, first, group = np.unique(features, return_index=True, return_inverse=True)
    other = (codes != codes[first[group]]).any(axis=1)
    alike: Flags = np.bincount(group, weights=other) == 0
    return group, alike[group]


def _distinguished(data: TrainingData, features: Keys, seed: int) -> Keys:
    """Digests (n,) of rows, equal only for copies.

    If all rows of some features and one label vector left together, the others of these features
    would be all that is known of them, and say the contrary.
    """
    digests = _digests(features, data, seed)
    rows = np.flatnonzero(_counted(data))
    _, alike = copies(features[rows], data.codes[rows])
    rows = rows[~alike]
    # equal rows by falling weight: their order makes no difference
    rows = rows[np.lexsort((-data.row_weights[rows], digests[rows]))]
    own, places = digests[rows], np.arange(len(rows))
    first = np.diff(own, prepend=~own[:1]) != 0
    place = places - np.maximum.accumulate(np.where(first, places, 0))
    digests[rows] = np.where(first, own, mix(own + place.astype(np.uint64)))
    return digests


def column_range(data: TrainingData) -> tuple[Array, Array]:
    """Smallest and largest number (p,) of each feature among rows of positive weight."""
    counted = _counted(data)
    highest = np.full(data.n_features, -np.inf)
    lowest = -highest
    for rows in row_slices(data.n_rows, _ROWS_AT_ONCE):
        part = data.X[rows][counted[rows]]
        if part.shape[0]:
            np.fmax(highest, _along_columns(part, np.fmax), out=highest)
            np.fmin(lowest, _along_columns(part, np.fmin), out=lowest)
    return lowest, highest


def wider_range(one: tuple[Array, Array], other: tuple[Array, Array]) -> tuple[Array, Array]:
    """Join two results of `column_range`."""
    return np.fmin(one[0], other[0]), np.fmax(one[1], other[1])


def units_of(lowest: Array, highest: Array) -> Array:
    """The steps (p,) to which features of a range are rounded before they are hashed.

    Powers of two, so that they are the same for data that differ by rounding noise alone; the
    factor keeps columns scaled to a round largest value, such as 1, off the step's own edges. In a
    column far from zero, such as a time stamp, it is the differences that count.
    """
    with np.errstate(invalid="ignore"):  # infinity less infinity, where there is no number
        width = highest - lowest
    largest = np.fmax(np.abs(highest), np.abs(lowest))
    far = (width > 0) & (width < _FAR * largest)
    scale = np.where(far, np.fmax(width, largest / 2**_MOST_BITS), largest)
    _, exponents = np.frexp(0.685 * np.where(np.isfinite(scale), scale, 1.0))
    units: Array = np.ldexp(1.0, np.maximum(exponents + 1 - _BITS, -1000))
    return units


def _along_columns(part: Any, extreme: np.ufunc) -> Array:
    """Largest or smallest numbers (p,) of dense or sparse rows (m, p)."""
    if not is_sparse(part):
        return np.asarray(extreme.reduce(part, axis=0))
    extremes = part.max(axis=0) if extreme is np.fmax else part.min(axis=0)
    return np.asarray(extremes.toarray()).ravel()
