"""Exact medians of columns too long to be sorted, by radix selection over a few passes.

The bits of a float, with the sign turned, are in the order of the numbers. So each pass counts the
next digit of the keys that agree with what is known of the median's key, and the counts say which
digit the median has. Counts add up, however the rows are cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from colabel.core.arrays import Array, Flags, Indices, Keys

_SIGN = np.uint64(1 << 63)
# The first digit holds sign, exponent and the leading bits: few different ones in any column.
# After the second, numbers of single precision (35 bits) are known.
_ENDS = (0, 20, 35, 50, 64)


@dataclass(frozen=True)
class DigitCounts:
    """Which digits occur, in order, and how often."""

    digits: Keys
    counts: Indices

    @classmethod
    def of(cls, digits: Keys) -> DigitCounts:
        """Count digits."""
        return cls(*np.unique(digits, return_counts=True))

    def __add__(self, other: DigitCounts) -> DigitCounts:
        both = np.concatenate([self.digits, other.digits])
        digits, place = np.unique(both, return_inverse=True)
        counts = np.bincount(place, np.concatenate([self.counts, other.counts]))
        return DigitCounts(digits, counts.astype(np.intp))

    def at(self, rank: int) -> tuple[np.uint64, int]:
        """Digit of the key of a rank (from 0), and its rank among the keys with that digit."""
        ends = np.cumsum(self.counts)
        place = int(np.searchsorted(ends, rank, side="right"))
        return self.digits[place], int(rank - (ends[place] - self.counts[place]))


@dataclass(frozen=True)
class MedianCounts:
    """What one pass counts, for the columns that are not yet known.

    Attributes
    ----------
    lower, upper : c tuples of DigitCounts
        Next digits of the keys that may be the two middle ones of each column.
    used_bits : (c,)
        Bits that are set in any of a column's numbers.
    """

    lower: tuple[DigitCounts, ...]
    upper: tuple[DigitCounts, ...]
    used_bits: Keys

    def of_columns(self, columns: Sequence[int]) -> MedianCounts:
        """Return those of some of the columns."""
        lower, upper = (tuple(own[k] for k in columns) for own in (self.lower, self.upper))
        return MedianCounts(lower, upper, self.used_bits[list(columns)])

    def __add__(self, other: MedianCounts) -> MedianCounts:
        lower = tuple(a + b for a, b in zip(self.lower, other.lower, strict=True))
        same = all(a is b for a, b in zip(self.lower, self.upper, strict=True))
        upper = lower if same else tuple(map(DigitCounts.__add__, self.upper, other.upper))
        return MedianCounts(lower, upper, self.used_bits | other.used_bits)


@dataclass(frozen=True)
class MedianSearch:
    """What is known of the medians of c columns.

    Attributes
    ----------
    step : int
        Passes done.
    prefixes : (2, c)
        Leading bits of the keys of the two middle numbers; the same one twice if their number is
        odd.
    ranks : (2, c)
        Their ranks among the keys with these leading bits.
    settled : (c,)
        Whether the bits to come are zero in all the numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from colabel.tables.medians import MedianSearch
    >>> blocks = [np.array([[1.0], [np.nan], [7.5]]), np.array([[2.0], [-3.0]])]
    >>> search = MedianSearch.over(1)
    >>> while not search.is_done:
    ...     search = search.narrowed(search.count(blocks[0]) + search.count(blocks[1]))
    >>> search.medians()
    array([1.5])
    """

    step: int
    prefixes: Keys
    ranks: Indices
    settled: Flags

    @classmethod
    def over(cls, n_columns: int) -> MedianSearch:
        """Know nothing yet."""
        nothing = np.zeros((2, n_columns))
        return cls(
            0, nothing.astype(np.uint64), nothing.astype(np.intp), np.zeros(n_columns, dtype=bool)
        )

    @property
    def is_done(self) -> bool:
        """Whether the medians are known."""
        return bool(self.settled.all())

    def count(self, block: Array) -> MedianCounts:
        """Count the next digits in some of the rows (n, c), NaN where missing."""
        known, end = _ENDS[self.step : self.step + 2]
        mask = np.uint64((1 << (end - known)) - 1)
        lower, upper, used = [], [], np.zeros(block.shape[1], dtype=np.uint64)
        nothing = DigitCounts.of(np.zeros(0, dtype=np.uint64))
        for k, column in enumerate(block.T):
            if self.settled[k]:
                lower.append(nothing)
                upper.append(nothing)
                continue
            numbers = column[~np.isnan(column)] + 0.0  # -0.0 is 0.0
            bits = numbers.view(np.uint64)
            used[k] = np.bitwise_or.reduce(bits, initial=0)
            keys = np.where(bits & _SIGN, ~bits, bits | _SIGN)
            digits = (keys >> np.uint64(64 - end)) & mask
            low, high = self.prefixes[:, k]
            if known:
                leading = keys >> np.uint64(64 - known)
                lower.append(DigitCounts.of(digits[leading == low]))
                same = low == high
                upper.append(lower[-1] if same else DigitCounts.of(digits[leading == high]))
            else:
                lower.append(DigitCounts.of(digits))
                upper.append(lower[-1])
        return MedianCounts(tuple(lower), tuple(upper), used)

    def narrowed(self, counts: MedianCounts) -> MedianSearch:
        """Return what is known after a pass over all the rows."""
        known, end = _ENDS[self.step : self.step + 2]
        prefixes, ranks = _longer(self.prefixes, known, end, self.settled), self.ranks.copy()
        for k in np.flatnonzero(~self.settled):
            if self.step == 0:
                n_known = int(counts.lower[k].counts.sum())
                ranks[:, k] = (n_known - 1) // 2, n_known // 2
                if not n_known:
                    continue  # settled below: no bit is used
            for side, found in enumerate((counts.lower[k], counts.upper[k])):
                digit, ranks[side, k] = found.at(int(ranks[side, k]))
                prefixes[side, k] |= digit
        if self.step == 0:
            prefixes[:, [not len(c.digits) for c in counts.lower]] = _key_of_zero(end)
        rest = np.uint64((1 << (64 - end)) - 1)
        settled = self.settled | ((counts.used_bits & rest) == 0)
        return MedianSearch(self.step + 1, prefixes, ranks, settled)

    def medians(self) -> Array:
        """Return the medians (c,); 0 for a column without any number."""
        keys = _longer(self.prefixes, _ENDS[self.step], 64, self.settled)
        low, high = np.where(keys & _SIGN, keys & ~_SIGN, ~keys).view(np.float64)
        return np.asarray(low + high) / 2.0


def _key_of_zero(n_bits: int) -> np.uint64:
    return np.uint64(1 << (n_bits - 1))


def _longer(prefixes: Keys, n_bits: int, end: int, settled: Flags) -> Keys:
    """Leading bits of keys with room for more, which are known where a column is settled.

    They are zeros in the number, so ones in the key of a negative number.
    """
    longer = prefixes << np.uint64(end - n_bits)
    if n_bits:
        is_negative = (prefixes >> np.uint64(n_bits - 1)) == 0
        longer[is_negative & settled] |= np.uint64((1 << (end - n_bits)) - 1)
    return longer
