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

    A listed vector v agrees with the row in most labels, most of them being absent. So the vectors
    that do not are counted, and the others follow:

        P(v_i = y_i, v_j = y_j) = 1 - P(v_i != y_i) - P(v_j != y_j) + P(v_i != y_i, v_j != y_j)
    """
    n_labels = codes.shape[1]
    differ = np.empty((n_labels, n_labels))
    wrong = np.empty(n_labels, dtype=np.int64)
    alone = np.empty(n_labels)
    for row in range(len(codes)):
        differ[:] = 0.0
        listed = 0.0
        for entry in range(indptr[row], indptr[row + 1]):
            listed += prob[entry]
            vector = vectors[indices[entry]]
            n_wrong = 0
            for i in range(n_labels):
                if vector[i] != codes[row, i] and codes[row, i] >= 0:
                    wrong[n_wrong] = i
                    n_wrong += 1
            for a in range(n_wrong):
                for b in range(a + 1):
                    differ[wrong[a], wrong[b]] += prob[entry]
        rest = total - own[row] + 1.0
        for i in range(n_labels):
            if codes[row, i] < 0:
                continue
            at = first[i] + codes[row, i]
            far = (pair_counts[at, at] - own[row] + 1.0 / sizes[i]) / rest
            near = max(listed - differ[i, i], 0.0)  # a difference may round below zero
            alone[i] = np.log(trust[row] * near + (1.0 - trust[row]) * far)
            for j in range(i):
                if codes[row, j] < 0:
                    continue
                other = first[j] + codes[row, j]
                far = pair_counts[at, other] - own[row] + 1.0 / (sizes[i] * sizes[j])
                near = max(listed - differ[i, i] - differ[j, j] + differ[i, j], 0.0)
                both = trust[row] * near + (1.0 - trust[row]) * far / rest
                gains[i, j] += weight[row] * (np.log(both) - alone[i] - alone[j])


@njit(nogil=True, cache=True, error_model="numpy")
def agreeing_vectors(codes: Codes, vectors: Codes, found: Codes) -> None:
    """Begin the rows of `found` (n, m) with the first vectors that have a row's known labels."""
    for row in range(len(codes)):
        n_found = 0
        for v in range(len(vectors)):
            if n_found == found.shape[1]:
                break
            agrees = True
            for i in range(codes.shape[1]):
                if codes[row, i] >= 0 and codes[row, i] != vectors[v, i]:
                    agrees = False
                    break
            if agrees:
                found[row, n_found] = v
                n_found += 1
