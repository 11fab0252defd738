"""Compiled loops over trees and their leaves."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from colabel.core.arrays import Array, Codes, Flags, Indices
from colabel.core.compiling import njit

Singles = NDArray[np.float32]


# A node in one piece, so that a step costs one line of the cache.
NODE = np.dtype(
    [("threshold", np.float32), ("feature", np.uint32), ("left", np.uint32), ("right", np.uint32)]
)
_ABREAST = 8


@njit(nogil=True, cache=True, error_model="numpy")
def walk_rows(
    rows: Singles, roots: Indices, nodes: Any, missing_left: Flags, leaf: Codes, found: Codes
) -> None:
    """Fill `found` (n, T) with the leaf in which each row (n, p) ends in each tree.

    From a node one goes left if x <= threshold; NaN, which compares with nothing, goes where
    `missing_left` sends it. Both children of a leaf are the leaf itself, so that eight rows can go
    down abreast until none of them moves: each waits for memory while the others step. Trees are
    the outer loop, since one tree stays in the cache for all rows.
    """
    n_rows = rows.shape[0]
    at = np.empty(_ABREAST, dtype=np.uint32)
    for tree in range(found.shape[1]):
        root = np.uint32(roots[tree])
        for start in range(0, n_rows, _ABREAST):
            abreast = min(_ABREAST, n_rows - start)
            for k in range(abreast):
                at[k] = root
            moved = np.uint32(1)
            while moved:
                moved = np.uint32(0)
                for k in range(abreast):
                    node = at[k]
                    own = nodes[node]
                    x = rows[np.uint64(start + k), np.uint64(own.feature)]
                    below = own.right if x > own.threshold else own.left
                    if x != x:
                        below = own.left if missing_left[node] else own.right
                    moved |= node ^ below
                    at[k] = below
            for k in range(abreast):
                found[start + k, tree] = leaf[at[k]]


@njit(nogil=True, cache=True, error_model="numpy")
def walk_sparse_rows(
    data: Any,
    indices: Any,
    indptr: Any,
    scratch: Singles,
    roots: Indices,
    nodes: Any,
    missing_left: Flags,
    leaf: Codes,
    found: Codes,
) -> None:
    """Do what `walk_rows` does for CSR rows, of which only those in `scratch` (b, p) are dense."""
    block = scratch.shape[0]
    n_rows = found.shape[0]
    scratch[:] = 0.0
    for start in range(0, n_rows, block):
        end = min(start + block, n_rows)
        for row in range(start, end):
            for at in range(indptr[row], indptr[row + 1]):
                scratch[row - start, indices[at]] += data[at]
        dense = scratch[: end - start]
        walk_rows(dense, roots, nodes, missing_left, leaf, found[start:end])
        for row in range(start, end):
            for at in range(indptr[row], indptr[row + 1]):
                scratch[row - start, indices[at]] = 0.0


@njit(nogil=True, cache=True, error_model="numpy")
def count_labels(
    leaves: Codes,
    codes: Codes,
    weight: Array,
    first: Indices,
    binary: Flags,
    counts: Array,
    known: Array,
) -> None:
    """Add the rows' labels to the contents of their leaves.

    `counts` (L, e) is the weight of the rows with each label value, in label columns that begin at
    ``first`` (d,); `known` (L, d) that of the rows with a known label.
    """
    for tree in range(leaves.shape[1]):
        for row in range(leaves.shape[0]):
            own, w = leaves[row, tree], weight[row]
            for j in range(codes.shape[1]):
                code = codes[row, j]
                if code < 0:
                    continue
                known[own, j] += w
                if not binary[j]:
                    counts[own, first[j] + code] += w
                elif code == 1:
                    counts[own, first[j]] += w


@njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract", "reassoc", "nsz"})
def mean_over_trees(leaves: Codes, table: Array | Singles, mean: Array) -> None:
    """Fill `mean` (n, e) with the average over trees of a row's leaves in `table` (L, e)."""
    n_rows, n_trees = leaves.shape
    width = table.shape[1]
    for row in range(n_rows):
        for c in range(width):
            mean[row, c] = 0.0
        for tree in range(n_trees):
            own = leaves[row, tree]
            for c in range(width):
                mean[row, c] += table[own, c]
        for c in range(width):
            mean[row, c] /= n_trees


@njit(nogil=True, cache=True, error_model="numpy")
def add_without_own(
    leaves: Codes,
    codes: Codes,
    weight: Array,
    used: Flags,
    owner: Indices,
    value: Indices,
    counts: Array,
    known: Array,
    prior: Array,
    strength: float,
    total: Array,
) -> None:
    """Add to `total` (n, e) smoothed frequencies in the trees `used` (n, T) marks, rows left out.

    The row's own weight w leaves the contents of each leaf l before these are smoothed:

        (counts_l - w [y = value] + m prior) / (known_l - w [y known] + m)
    """
    n_rows, n_trees = leaves.shape
    for row in range(n_rows):
        for tree in range(n_trees):
            if not used[row, tree]:
                continue
            own = leaves[row, tree]
            for c in range(len(owner)):
                j = owner[c]
                code = codes[row, j]
                w_known = weight[row] if code >= 0 else 0.0
                w_value = weight[row] if code == value[c] else 0.0
                # differences of sums of weights may fall below zero by rounding
                of_value = max(counts[own, c] - w_value, 0.0)
                of_known = max(known[own, j] - w_known, of_value)
                total[row, c] += (of_value + strength * prior[c]) / (of_known + strength)
