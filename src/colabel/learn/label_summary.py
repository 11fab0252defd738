"""Counts of labels, which add up over parts of the rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from colabel.core.arrays import Array, Indices
from colabel.core.numeric import bin_sums
from colabel.labels import MISSING

if TYPE_CHECKING:
    from colabel.learn.conditional import TrainingData


class LabelSummary(NamedTuple):
    """What is counted of labels; those of several parts can be `joined`.

    Attributes
    ----------
    weights, counts : d arrays (K_i,)
        Weight and number of the rows with each value of each variable.
    missing : (int, int, int)
        Number of missing labels, row and label of the first.
    n_rows : int
    """

    weights: tuple[Array, ...]
    counts: tuple[Indices, ...]
    missing: tuple[int, int, int]
    n_rows: int

    @classmethod
    def of(cls, data: TrainingData) -> LabelSummary:
        """Count the labels of all rows."""
        weight = data.row_weights
        columns = [(own, own != MISSING) for own in data.codes.T]
        sized = list(zip(columns, data.cardinalities, strict=True))
        missing = np.argwhere(data.codes == MISSING)
        row, label = missing[0] if len(missing) else (0, 0)
        return cls(
            tuple(bin_sums(own[s], weight[s], size) for (own, s), size in sized),
            tuple(np.bincount(own[s], minlength=size) for (own, s), size in sized),
            (len(missing), int(row), int(label)),
            data.n_rows,
        )

    def joined(self, other: LabelSummary) -> LabelSummary:
        """Join the counts of these rows and of those after them."""
        later = (self.n_rows + other.missing[1], other.missing[2])
        first = self.missing[1:] if self.missing[0] else later
        return LabelSummary(
            tuple(a + b for a, b in zip(self.weights, other.weights, strict=True)),
            tuple(a + b for a, b in zip(self.counts, other.counts, strict=True)),
            (self.missing[0] + other.missing[0], *first),
            self.n_rows + other.n_rows,
        )


def laplace(counts: Array) -> Array:
    """Frequencies (K,) of counts, smoothed by Laplace's rule."""
    frequency: Array = (counts + 1.0) / (counts.sum() + len(counts))
    return frequency
