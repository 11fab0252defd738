"""Rows in chunks whose joints fit into memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sklearn.utils.validation import _num_samples

from colabel.core.chunks import row_slices
from colabel.labels import LabelSpace

# Rows whose joints are held at once while predicting.
_ROWS_AT_ONCE = 1 << 14
# of tables over pairs of labels, which trees and fields have for every row
_NUMBERS_AT_ONCE = 1 << 26


def row_chunks(X: Any, space: LabelSpace) -> Iterator[Any]:
    """Rows of X, as many at once as may have joints at the same time."""
    sizes = space.cardinalities
    at_once = min(_ROWS_AT_ONCE, max(1, _NUMBERS_AT_ONCE // (sum(sizes) * max(sizes))))
    for chunk in row_slices(_num_samples(X), at_once):
        yield X[chunk]
