"""Compiled sweeps of the ranking solver. Arrays are C-contiguous; no checks here."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from colabel.core.arrays import Array, Indices
from colabel.core.compiling import njit

# Passes over a row's pairs before the next row: more cost little, since the scores of the row
# are in the cache, but a block need not be solved exactly while the others still move.
_INNER_PASSES = 5

# Reassociation lets the sums be vectorised.
_SUMS = {"reassoc", "contract", "nsz"}


@njit(nogil=True, cache=True, fastmath=_SUMS)
def ranking_loss(scores: Array, order: Indices, n_relevant: Indices, cost: Array) -> float:
    total = 0.0
    n_labels = scores.shape[1]
    for i in range(scores.shape[0]):
        row = 0.0
        for a in range(n_relevant[i]):
            needed = 1.0 - scores[i, order[i, a]]
            for b in range(n_relevant[i], n_labels):
                row += max(0.0, needed + scores[i, order[i, b]])
        total += cost[i] * row
    return total


@njit(nogil=True, cache=True)
def _improve_row(
    scores: Array,
    order: Indices,
    n_relevant: int,
    alpha: Array,
    cost: float,
    norm: float,
    change: Array,
) -> bool:
    """Coordinate ascent over the pairs of a row; `change` (q,) is what beta moved by."""
    n_labels = scores.size
    change[:] = 0.0
    moved = False
    for _ in range(_INNER_PASSES):
        largest = 0.0
        pair = 0
        for a in range(n_relevant):
            k = order[a]
            for b in range(n_relevant, n_labels):
                other = order[b]
                violation = 1.0 - scores[k] + scores[other]
                old = alpha[pair]
                if norm > 0.0:
                    new = min(max(old + violation / (2.0 * norm), 0.0), cost)
                else:
                    new = cost  # a row of zeros violates its margins whatever W is
                step = new - old
                if step != 0.0:
                    alpha[pair] = new
                    change[k] += step
                    change[other] -= step
                    scores[k] += norm * step
                    scores[other] -= norm * step
                    largest = max(largest, abs(step))
                pair += 1
        if largest == 0.0:
            break
        moved = True
        if largest < 1e-3 * cost:
            break
    return moved


@njit(nogil=True, cache=True, fastmath=_SUMS)
def dense_sweep(
    X: Array,
    norms: Array,
    rows: Indices,
    order: Indices,
    n_relevant: Indices,
    first: Indices,
    cost: Array,
    alpha: Array,
    coef: Array,
) -> None:
    n_labels, n_features = coef.shape
    scores = np.empty(n_labels)
    change = np.empty(n_labels)
    for i in rows:
        for k in range(n_labels):
            total = 0.0
            for j in range(n_features):
                total += coef[k, j] * X[i, j]
            scores[k] = total
        block = alpha[first[i] : first[i + 1]]
        if not _improve_row(scores, order[i], n_relevant[i], block, cost[i], norms[i], change):
            continue
        for k in range(n_labels):
            if change[k] != 0.0:
                for j in range(n_features):
                    coef[k, j] += change[k] * X[i, j]


@njit(nogil=True, cache=True, fastmath=_SUMS)
def sparse_sweep(
    indptr: NDArray[np.integer[Any]],
    indices: NDArray[np.integer[Any]],
    data: Array,
    norms: Array,
    rows: Indices,
    order: Indices,
    n_relevant: Indices,
    first: Indices,
    cost: Array,
    alpha: Array,
    coef: Array,
) -> None:
    n_labels = coef.shape[0]
    scores = np.empty(n_labels)
    change = np.empty(n_labels)
    for i in rows:
        for k in range(n_labels):
            total = 0.0
            for at in range(indptr[i], indptr[i + 1]):
                total += coef[k, indices[at]] * data[at]
            scores[k] = total
        block = alpha[first[i] : first[i + 1]]
        if not _improve_row(scores, order[i], n_relevant[i], block, cost[i], norms[i], change):
            continue
        for k in range(n_labels):
            if change[k] != 0.0:
                for at in range(indptr[i], indptr[i + 1]):
                    coef[k, indices[at]] += change[k] * data[at]


@njit(nogil=True, cache=True, fastmath=_SUMS)
def kernel_sweep(
    kernel: Array,
    rows: Indices,
    order: Indices,
    n_relevant: Indices,
    first: Indices,
    cost: Array,
    alpha: Array,
    dual_coef: Array,
    scores: Array,
) -> None:
    change = np.empty(scores.shape[1])
    own = np.empty(scores.shape[1])
    for i in rows:
        for k in range(own.size):
            own[k] = scores[i, k]
        block = alpha[first[i] : first[i + 1]]
        if not _improve_row(own, order[i], n_relevant[i], block, cost[i], kernel[i, i], change):
            continue
        for k in range(change.size):
            dual_coef[i, k] += change[k]
        for j in range(scores.shape[0]):
            for k in range(change.size):
                scores[j, k] += kernel[i, j] * change[k]
