"""Compiled counts: one number per set of variables, from which every family's score follows.

BDeu and BIC are both differences of a function of sets (Buntine, 1991; Koski and Noble, 2012):

    score(i | S) = G(S with i) - G(S)
    BDeu:  G(F) = sum over cells of lgamma(N + a / |F|) - lgamma(a / |F|)
    BIC:   G(F) = sum over cells of N log N - |F| log(n) / 2

where N is the weight of the rows in a cell of the table over F, |F| the number of cells of that
table, a the equivalent sample size and n the total weight. Empty cells add nothing to the sums,
so only the cells that occur are visited.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]


def binomials(n: int, k: int) -> IntArray:
    """Table (n + 1, k + 1) of binomial coefficients."""
    table = np.zeros((n + 1, k + 1), dtype=np.intp)
    for top in range(n + 1):
        for bottom in range(min(top, k) + 1):
            table[top, bottom] = math.comb(top, bottom)
    return table


def set_offsets(n_variables: int, max_size: int) -> IntArray:
    """Where the sets of each size begin, (max_size + 2,): sets lie by size, then colexically."""
    sizes = [math.comb(n_variables, size) for size in range(max_size + 1)]
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.intp)


@njit(nogil=True, cache=True)
def next_combination(chosen: IntArray, size: int, n: int) -> int:
    """Step to the next set of `size` out of n in colexical order.

    Returns the place of the highest member that changed, -1 after the last set.
    """
    for place in range(size):
        ceiling = chosen[place + 1] if place + 1 < size else n
        if chosen[place] + 1 < ceiling:
            chosen[place] += 1
            for lower in range(place):
                chosen[lower] = lower
            return place
    return -1


@njit(nogil=True, cache=True)
def set_values(
    columns: IntArray,
    weight: FloatArray,
    sizes: IntArray,
    offsets: IntArray,
    largest_table: int,
    equivalent_sample_size: float,
) -> FloatArray:
    """G of every set, smaller sets first, sets of one size in colexical order.

    Parameters
    ----------
    columns : (d, n)
        Codes, one row per variable.
    weight : (n,)
    sizes : (d,)
        Number of values of each variable.
    offsets : (max_size + 2,)
        From `set_offsets`.
    largest_table : int
        Cells of the largest table that will be met.
    equivalent_sample_size : float
        Of BDeu; a value of 0 asks for BIC.
    """
    n_variables, n_rows = columns.shape
    max_size = len(offsets) - 2
    values = np.empty(offsets[-1])
    total = weight.sum()
    bayesian = equivalent_sample_size > 0
    # A total weight below one row would turn the penalty into a reward.
    penalty = 0.5 * math.log(max(total, 1.0))
    table = np.zeros(largest_table)
    touched = np.empty(max(n_rows, 1), dtype=np.intp)
    upper = np.zeros(n_rows, dtype=np.intp)  # cell by all members but the lowest
    chosen = np.empty(max_size + 1, dtype=np.intp)
    if bayesian:
        values[0] = math.lgamma(total + equivalent_sample_size) - math.lgamma(
            equivalent_sample_size
        )
    else:
        values[0] = (total * math.log(total) if total > 0 else 0.0) - penalty
    for size in range(1, max_size + 1):
        at = offsets[size]
        for place in range(size):
            chosen[place] = place
        changed = size - 1
        while changed >= 0 and at < offsets[size + 1]:
            if changed > 0 or chosen[0] == 0:
                upper[:] = 0
                for place in range(size - 1, 0, -1):
                    column, n_values = columns[chosen[place]], sizes[chosen[place]]
                    for row in range(n_rows):
                        upper[row] = upper[row] * n_values + column[row]
            n_cells = 1.0
            for place in range(size):
                n_cells *= sizes[chosen[place]]
            lowest, n_lowest = columns[chosen[0]], sizes[chosen[0]]
            n_touched = 0
            for row in range(n_rows):
                cell = upper[row] * n_lowest + lowest[row]
                if table[cell] == 0.0:
                    touched[n_touched] = cell
                    n_touched += 1
                table[cell] += weight[row]
            value = 0.0
            share = equivalent_sample_size / n_cells
            empty = math.lgamma(share) if bayesian else 0.0
            for place in range(n_touched):
                count = table[touched[place]]
                table[touched[place]] = 0.0
                if bayesian:
                    value += math.lgamma(count + share) - empty
                else:
                    value += count * math.log(count)
            values[at] = value if bayesian else value - n_cells * penalty
            at += 1
            changed = next_combination(chosen, size, n_variables)
    return values


@njit(nogil=True, cache=True)
def set_position(members: IntArray, size: int, offsets: IntArray, choose: IntArray) -> int:
    """Place of a set, members ascending, among the values."""
    position = offsets[size]
    for place in range(size):
        position += choose[members[place], place + 1]
    return position  # type: ignore[no-any-return]
