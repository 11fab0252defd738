"""Compiled loops over lists of label vectors."""

from __future__ import annotations

from typing import Any

import numpy as np

from colabel.core.arrays import Array, Codes, Indices
from colabel.core.compiling import njit


@njit(nogil=True, cache=True, error_model="numpy")
def pair_gains(
    indptr: Any,
    indices: Any,
    prob: Array,
    vectors: Codes,
    codes: Codes,
    weight: Array,
    own: Array,
    trust: Array,
    first: Indices,
    sizes: Indices,
    pair_counts: Array,
    total: float,
    gains: Array,
) -> None:
    """Add to `gains` (d, d) what rows gain if two of their labels are taken together.

    With P(.) a row's list, shrunk to the counts of all rows but itself, a pair i > j gains

        w log P(y_i, y_j) / (P(y_i) P(y_j))

    where both labels are known. The list of row r has entries ``indptr[r]`` to ``indptr[r + 1]``;
    `pair_counts` (K, K) counts pairs of values, those of label i from ``first[i]`` on.
    """
    n_labels = codes.shape[1]
    together = np.empty((n_labels, n_labels))
    right = np.empty(n_labels, dtype=np.int64)
    for row in range(len(codes)):
        together[:] = 0.0
        for entry in range(indptr[row], indptr[row + 1]):
            n_right = 0
            vector = vectors[indices[entry]]
            for i in range(n_labels):
                if vector[i] == codes[row, i]:
                    right[n_right] = i
                    n_right += 1
            for a in range(n_right):
                for b in range(a + 1):
                    together[right[a], right[b]] += prob[entry]
        rest = total - own[row] + 1.0
        for i in range(n_labels):
            if codes[row, i] < 0:
                continue
            at = first[i] + codes[row, i]
            far = (pair_counts[at, at] - own[row] + 1.0 / sizes[i]) / rest
            together[i, i] = np.log(trust[row] * together[i, i] + (1.0 - trust[row]) * far)
            for j in range(i):
                if codes[row, j] < 0:
                    continue
                other = first[j] + codes[row, j]
                far = pair_counts[at, other] - own[row] + 1.0 / (sizes[i] * sizes[j])
                both = trust[row] * together[i, j] + (1.0 - trust[row]) * far / rest
                gains[i, j] += weight[row] * (np.log(both) - together[i, i] - together[j, j])
