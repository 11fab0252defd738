"""Rows some at a time, so that what is computed of them fits in memory."""

from __future__ import annotations

import sys

MOST_ROWS = sys.maxsize
"""Rows of a slice at most, however much memory there is; a test sets it to see seams."""


def row_slices(n_rows: int, numbers: int, numbers_each: float = 1.0) -> list[slice]:
    """Cut rows into slices of which each needs at most so many numbers, or is one row.

    There is at least one slice, an empty one of no rows, so that answers have their shape.

    Examples
    --------
    >>> row_slices(5, 2)
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    >>> row_slices(2, 100, numbers_each=80)
    [slice(0, 1, None), slice(1, 2, None)]
    >>> row_slices(0, 100)
    [slice(0, 0, None)]
    """
    step = min(max(1, int(numbers // max(numbers_each, 1.0))), MOST_ROWS)
    return [slice(start, min(start + step, n_rows)) for start in range(0, max(1, n_rows), step)]
