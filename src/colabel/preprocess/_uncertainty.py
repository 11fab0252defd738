"""Symmetrical uncertainty between categorical columns, compiled; features by each other lazily.

    SU(A, B) = 2 (H(A) + H(B) - H(A, B)) / (H(A) + H(B)),

0 for independent columns, 1 where each is a function of the other, and 0 for two constants.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from colabel.core.arrays import Array, Codes, Indices
from colabel.core.compiling import njit


@dataclass(frozen=True, eq=False)
class FeatureUncertainty:
    """Symmetrical uncertainty of features, a row at a time, each computed once.

    Attributes
    ----------
    columns : (p, n)
        Codes of each feature from 0 on.
    sizes : (p,)
        Number of values of each feature.
    rows : dict
        Feature -> its uncertainty with all features (p,), as far as asked for.
    """

    columns: Codes
    sizes: Indices
    rows: dict[int, Array] = field(default_factory=dict)

    def with_all(self, feature: int) -> Array:
        """Symmetrical uncertainty of one feature with each (p,)."""
        if feature not in self.rows:
            column, size = self.columns[feature], int(self.sizes[feature])
            self.rows[feature] = symmetrical_uncertainty(self.columns, self.sizes, column, size)
        return self.rows[feature]


@njit(nogil=True, cache=True)
def symmetrical_uncertainty(columns: Codes, sizes: Indices, other: Codes, other_size: int) -> Array:
    """Symmetrical uncertainty of each column (p, n) with another (n,).

    Sums of N log N stand for entropies: n H = n log n - sum of N log N.
    """
    n_columns, n = columns.shape
    count_log_count = np.zeros(n + 1)
    for count in range(1, n + 1):
        count_log_count[count] = count * math.log(count)
    largest = 0
    for size in sizes:
        largest = max(largest, size)
    both = np.zeros((largest, other_size), dtype=np.int64)
    of_column, of_other = np.zeros(largest, dtype=np.int64), np.zeros(other_size, dtype=np.int64)
    for row in range(n):
        of_other[other[row]] += 1
    other_sum = 0.0
    for value in range(other_size):
        other_sum += count_log_count[of_other[value]]
    result = np.zeros(n_columns)
    for j in range(n_columns):
        size = sizes[j]
        both[:size] = 0
        of_column[:size] = 0
        for row in range(n):
            both[columns[j, row], other[row]] += 1
            of_column[columns[j, row]] += 1
        column_sum, joint_sum = 0.0, 0.0
        for value in range(size):
            column_sum += count_log_count[of_column[value]]
            for other_value in range(other_size):
                joint_sum += count_log_count[both[value, other_value]]
        whole = count_log_count[n]
        entropies = 2 * whole - column_sum - other_sum
        if entropies > 1e-12 * (whole + 1.0):
            shared = whole + joint_sum - column_sum - other_sum
            share = float(2.0 * shared / entropies)
            result[j] = min(max(share, 0.0), 1.0)
    return result
