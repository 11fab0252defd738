"""Sums of scores that are far from zero, kept to three doubles.

Beside a score of 1e20 a double has no digits left for one of 0.3, and where two such scores cancel
the 0.3 decides. A *long* number is an array (3, ...) whose entries along the first axis add up to
it; adding to one loses about 1e-48 of the largest term (Klein's cascade of error-free sums).
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from colabel.core.arrays import Array

FAR = 1e6  # from zero: sums of such scores lose digits that show in a probability
_WALL = -1e300  # stands for -inf, which cannot be subtracted from itself
_IMPOSSIBLE = -1e290


def is_far(tables: Iterable[Array]) -> bool:
    """Whether some score of the tables is finite and far from zero."""
    for table in tables:
        finite = table[np.abs(table) > FAR]
        if finite.size and not np.isinf(finite).all():
            return True
    return False


def _two_sum(one: Array, two: Array) -> tuple[Array, Array]:
    """Return the sum of two arrays, and what it has lost."""
    total = one + two
    shown = total - one
    return total, (one - (total - shown)) + (two - shown)


def add_to(long: Array, term: Array) -> None:
    """Add an array to a long number (3, ...) in place; -inf is allowed."""
    long[0], rest = _two_sum(long[0], np.maximum(term, _WALL))
    long[1], rest = _two_sum(long[1], rest)
    long[2] += rest


def long_sum(terms: Iterable[Array], shape: tuple[int, ...]) -> Array:
    """Return the sum of terms that broadcast to a shape, as a long number."""
    total = np.zeros((3, *shape))
    for term in terms:
        add_to(total, term)
    return total


def rounded(long: Array) -> Array:
    """Return a long number as doubles; -inf where an impossible score is in it."""
    total, rest = _two_sum(long[0], long[1])
    total += rest + long[2]
    return np.where(total <= _IMPOSSIBLE, -np.inf, total)


def less(long: Array, other: Array) -> Array:
    """Return the difference of two long numbers as doubles."""
    difference = np.array(np.broadcast_to(long, np.broadcast_shapes(long.shape, other.shape)))
    for part in other:
        add_to(difference, -part)
    return rounded(difference)


def long_log_sum_exp(long: Array) -> Array:
    """Take log sum exp over the first axis after that of the parts; a long number again."""
    gap = rounded(long)
    for _ in range(3):  # the first choices may err by what a double does not tell
        best = gap.argmax(axis=0, keepdims=True)
        top = np.take_along_axis(long, np.broadcast_to(best, (3, *best.shape)), axis=1)
        gap = less(long, top)
    total = np.ascontiguousarray(top[:, 0])
    add_to(total, np.log(np.exp(np.minimum(gap, 0.0)).sum(axis=0)))
    return total
