"""Compiled counts: one number per set of variables, from which every family's score follows.

BDeu and BIC are both differences of a function of sets (Buntine, 1991; Koski and Noble, 2012):

    score(i | S) = G(S with i) - G(S)
    BDeu:  G(F) = sum over cells of lgamma(N + a / |F|) - lgamma(a / |F|)
    BIC:   G(F) = sum over cells of N log N - |F| log(n) / 2

where N is the weight of the rows in a cell of the table over F, |F| the number of cells of that
table, a the equivalent sample size and n the total weight. Empty cells add nothing to the sums,
so only the cells that occur are visited. The code 0 stands for a variable's most common value:
rows that are 0 in all of F are not visited either, they are what is left over, so that labels
which few rows have cost little.
"""

from __future__ import annotations

import math

import numpy as np

from colabel.core.arrays import Array, Indices
from colabel.core.compiling import njit


def binomials(n: int, k: int) -> Indices:
    """Table (n + 1, k + 1) of binomial coefficients."""
    table = np.zeros((n + 1, k + 1), dtype=np.intp)
    for top in range(n + 1):
        for bottom in range(min(top, k) + 1):
            table[top, bottom] = math.comb(top, bottom)
    return table


def set_offsets(n_variables: int, max_size: int) -> Indices:
    """Where the sets of each size begin, (max_size + 2,): sets lie by size, then colexically."""
    sizes = [math.comb(n_variables, size) for size in range(max_size + 1)]
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.intp)


@njit(nogil=True, cache=True)
def next_combination(chosen: Indices, size: int, n: int) -> None:
    """Step to the next set of `size` out of n in colexical order; the last one stays."""
    for place in range(size):
        ceiling = chosen[place + 1] if place + 1 < size else n
        if chosen[place] + 1 < ceiling:
            chosen[place] += 1
            for lower in range(place):
                chosen[lower] = lower
            return


@njit(nogil=True, cache=True)
def set_values(
    columns: Indices,
    weight: Array,
    sizes: Indices,
    offsets: Indices,
    largest_table: int,
    equivalent_sample_size: float,
) -> Array:
    """G of every set, smaller sets first, sets of one size in colexical order.

    Parameters
    ----------
    columns : (d, n)
        Codes, one row per variable; 0 is the most common value if this is to be fast.
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
    # A total weight below one row would turn the penalty into a reward.
    total = 0.0
    for each in weight:
        total += each
    penalty = 0.5 * math.log(max(total, 1.0))
    values = np.empty(offsets[-1])
    table = np.empty(largest_table)
    table[:] = 0.0
    touched = np.empty(n_rows + 1, dtype=np.intp)
    upper = np.empty(n_rows, dtype=np.intp)  # cell by all members but the lowest
    chosen = np.empty(max_size + 1, dtype=np.intp)
    first, nonzero = _nonzero_rows(columns)
    in_upper, n_upper = np.empty(n_rows, dtype=np.intp), 0
    table[0], touched[0] = total, 0
    values[0] = _value(table, touched, 1, 1.0, equivalent_sample_size, penalty)
    for size in range(1, max_size + 1):
        for place in range(size):
            chosen[place] = place
        for at in range(offsets[size], offsets[size + 1]):
            if chosen[0] == 0:  # the lowest member changes fastest: the others are new
                _cells_of(columns, sizes, chosen[1:size], upper)
                n_upper = _list_nonzero(upper, in_upper)
            lowest = chosen[0]
            n_touched = _tally(
                upper,
                in_upper[:n_upper],
                columns[lowest],
                nonzero[first[lowest] : first[lowest + 1]],
                sizes[lowest],
                weight,
                total,
                table,
                touched,
            )
            n_cells = 1.0
            for place in range(size):
                n_cells *= sizes[chosen[place]]
            values[at] = _value(table, touched, n_touched, n_cells, equivalent_sample_size, penalty)
            next_combination(chosen, size, n_variables)
    return values


@njit(nogil=True, cache=True)
def _list_nonzero(codes: Indices, rows: Indices) -> int:
    """Write down the rows whose code is not 0; return their number."""
    count = 0
    for row in range(codes.size):
        if codes[row] != 0:
            rows[count] = row
            count += 1
    return count


@njit(nogil=True, cache=True)
def _nonzero_rows(columns: Indices) -> tuple[Indices, Indices]:
    """Rows that are not 0 in each column (d, n), end to end, and where those of each begin."""
    first = np.empty(len(columns) + 1, dtype=np.intp)
    first[0] = 0
    for i in range(len(columns)):
        first[i + 1] = first[i]
        for code in columns[i]:
            first[i + 1] += code != 0
    rows = np.empty(first[-1], dtype=np.intp)
    for i in range(len(columns)):
        _list_nonzero(columns[i], rows[first[i] :])
    return first, rows


@njit(nogil=True, cache=True)
def _cells_of(columns: Indices, sizes: Indices, members: Indices, cells: Indices) -> None:
    """Set the cell of each row in the table over some variables."""
    cells[:] = 0
    for member in members[::-1]:
        column, n_values = columns[member], sizes[member]
        for row in range(len(cells)):
            cells[row] = cells[row] * n_values + column[row]


@njit(nogil=True, cache=True)
def _tally(
    upper: Indices,
    in_upper: Indices,
    lowest: Indices,
    in_lowest: Indices,
    n_lowest: int,
    weight: Array,
    total: float,
    table: Array,
    touched: Indices,
) -> int:
    """Add the rows to an empty table; return how many cells were touched, `touched` says which.

    `in_upper` and `in_lowest` are the rows that are not 0 in the higher members, in the lowest.
    """
    n_touched, left = 0, total
    for row in in_lowest:
        cell = upper[row] * n_lowest + lowest[row]
        if table[cell] == 0.0:
            touched[n_touched] = cell
            n_touched += 1
        table[cell] += weight[row]
        left -= weight[row]
    for row in in_upper:
        if lowest[row] == 0:
            cell = upper[row] * n_lowest
            if table[cell] == 0.0:
                touched[n_touched] = cell
                n_touched += 1
            table[cell] += weight[row]
            left -= weight[row]
    if left > 1e-12 * total:  # more than the rounding of a sum that should be zero
        table[0], touched[n_touched] = left, 0
        n_touched += 1
    return n_touched


@njit(nogil=True, cache=True)
def _value(
    table: Array,
    touched: Indices,
    n_touched: int,
    n_cells: float,
    equivalent_sample_size: float,
    penalty: float,
) -> float:
    """G of one set from its table, which is emptied."""
    bayesian = equivalent_sample_size > 0
    share = equivalent_sample_size / n_cells
    empty = math.lgamma(share) if bayesian else 0.0
    value = 0.0
    for cell in touched[:n_touched]:
        count = table[cell]
        table[cell] = 0.0
        value += math.lgamma(count + share) - empty if bayesian else count * math.log(count)
    return value if bayesian else value - n_cells * penalty


@njit(nogil=True, cache=True)
def set_position(members: Indices, size: int, offsets: Indices, choose: Indices) -> int:
    """Place of a set, members ascending, among the values."""
    position = offsets[size]
    for place in range(size):
        position += choose[members[place], place + 1]
    return position  # type: ignore[no-any-return]
