"""Scores of all small parent sets of every variable, and which of them can matter at all.

Every family's score follows from one number per set of variables, which compiled loops count.
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
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from colabel.core.arrays import Array, Indices
from colabel.core.compiling import njit
from colabel.core.parameters import check_choice, check_integer, check_positive


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


NetworkScore = Literal["bdeu", "bic"]

# A larger parent set must gain more than rounding, else a variable that says nothing new, such as
# a copy of another, would become a parent by its last digit.
_GAIN = 1e-10
_MOST_CELLS = 2**26
_MOST_SETS = 2**27


class Candidates(NamedTuple):
    """Parent sets that a search may choose from, best first within each variable.

    Attributes
    ----------
    first : (d + 1,)
        The sets of variable i stand from ``first[i]`` to ``first[i + 1]``; the last is empty.
    scores : (m,)
    parents : (m, p)
        Members in ascending order, then -1.
    """

    first: Indices
    scores: Array
    parents: Indices


@dataclass(frozen=True, eq=False, repr=False)
class ParentScores:
    """Parent sets worth having, with their scores.

    A set is left out if one of its subsets scores at least as well: wherever the set is allowed
    in a network without cycles, so is the subset.

    Attributes
    ----------
    candidates : Candidates
        The sets, best first within each variable.
    score : str
        "bdeu" or "bic".
    max_parents : int
        Size of the largest sets scored.
    """

    candidates: Candidates
    score: NetworkScore
    max_parents: int

    @property
    def n_variables(self) -> int:
        """Number of variables."""
        return len(self.candidates.first) - 1

    def __repr__(self) -> str:
        return (
            f"ParentScores({len(self.candidates.scores)} parent sets of {self.n_variables} "
            f"variables, {self.score}, at most {self.max_parents} parents)"
        )


def score_parent_sets(
    codes: ArrayLike,
    n_values: ArrayLike,
    *,
    score: NetworkScore = "bdeu",
    max_parents: int = 2,
    equivalent_sample_size: float = 1.0,
    sample_weight: ArrayLike | None = None,
) -> ParentScores:
    r"""Score every parent set of at most `max_parents` variables, for every variable.

    With :math:`N_{jk}` the weight of the rows where the parents have their j-th combination of
    values and the variable its k-th, q combinations, r values, n the total weight:

    .. math::
        BDeu &= \sum_j \log\frac{\Gamma(a/q)}{\Gamma(a/q + N_j)}
            + \sum_{jk} \log\frac{\Gamma(a/(qr) + N_{jk})}{\Gamma(a/(qr))} \\
        BIC &= \sum_{jk} N_{jk} \log\frac{N_{jk}}{N_j} - \frac{\log n}{2} q (r - 1)

    Parameters
    ----------
    codes : array-like of int, shape (n, d)
        Values of d variables, each from 0 to ``n_values[i] - 1``.
    n_values : array-like of int, shape (d,)
        Number of values of each variable, also those that do not occur.
    score : {"bdeu", "bic"}, default="bdeu"
    max_parents : int, default=2
    equivalent_sample_size : float, default=1.0
        The a of BDeu: rows that the prior, uniform over all cells, is worth.
    sample_weight : array-like of shape (n,) or None
        How many rows each row stands for.

    Returns
    -------
    ParentScores

    Examples
    --------
    >>> from colabel.learn.structure import score_parent_sets
    >>> codes = [[0, 0], [0, 0], [1, 1], [1, 1]]
    >>> scores = score_parent_sets(codes, [2, 2], score="bic", max_parents=1)
    >>> scores
    ParentScores(4 parent sets of 2 variables, bic, at most 1 parents)
    >>> scores.candidates.parents.ravel().tolist(), scores.candidates.scores.round(3).tolist()
    ([1, -1, 0, -1], [-1.386, -3.466, -1.386, -3.466])
    """
    table = _read(codes, n_values, sample_weight)
    sizes = table[2]
    _check_options(score, max_parents, equivalent_sample_size)
    d = len(sizes)
    most = min(max_parents, d - 1)
    offsets = set_offsets(d, most + 1)
    largest = _largest_table(sizes, most, int(offsets[-1]))
    choose = binomials(d, most + 1)
    prior = float(equivalent_sample_size) if score == "bdeu" else 0.0
    values = set_values(*table, offsets, largest, prior)
    kept = [_best_first(*_undominated(values, i, d, most, offsets, choose)) for i in range(d)]
    first = np.concatenate([[0], np.cumsum([len(scores) for scores, _ in kept])]).astype(np.intp)
    candidates = Candidates(
        first,
        np.concatenate([scores for scores, _ in kept]),
        np.concatenate([parents for _, parents in kept]),
    )
    return ParentScores(candidates, score, int(max_parents))


def network_score(
    parents: Any,
    codes: ArrayLike,
    n_values: ArrayLike,
    *,
    score: NetworkScore = "bdeu",
    equivalent_sample_size: float = 1.0,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Score of a given network: the sum of its families' scores.

    Parameters
    ----------
    parents : sequence of sequences of int
        Parents of each variable.
    codes, n_values, score, equivalent_sample_size, sample_weight
        As in :func:`score_parent_sets`.

    Examples
    --------
    >>> from colabel.learn.structure import network_score
    >>> codes = [[0, 0], [0, 0], [1, 1], [1, 1]]
    >>> round(network_score([(), (0,)], codes, [2, 2], score="bic"), 3)
    -4.852
    """
    table = _read(codes, n_values, sample_weight)
    sizes = table[2]
    _check_options(score, 0, equivalent_sample_size)
    if len(parents) != len(sizes):
        raise ValueError(
            f"parents names {len(parents)} variables, codes has {len(sizes)} columns: give "
            "the parents of every variable, an empty tuple where it has none."
        )
    prior = float(equivalent_sample_size) if score == "bdeu" else 0.0
    total = 0.0
    for i, of_variable in enumerate(parents):
        above = sorted({int(j) for j in of_variable})
        if i in above or (above and not 0 <= above[0] <= above[-1] < len(sizes)):
            raise ValueError(
                f"Variable {i} has the parents {above}: parents are other variables, from 0 to "
                f"{len(sizes) - 1}."
            )
        total += _whole_set_value(table, [i, *above], prior)
        total -= _whole_set_value(table, above, prior)
    return total


def _whole_set_value(
    table: tuple[Indices, Array, Indices], members: list[int], prior: float
) -> float:
    """G of one set: its columns read as a single variable of that many cells."""
    columns, weight, every = table
    sizes = every[members]
    cells = np.zeros((1, columns.shape[1]), dtype=np.intp)
    for column, size in zip(columns[members], sizes, strict=True):
        cells[0] = cells[0] * size + column
    n_cells = _largest_table(sizes, len(sizes) - 1, 1)
    one = np.array([n_cells], dtype=np.intp)
    return float(set_values(cells, weight, one, set_offsets(1, 1), n_cells, prior)[1])


def _read(
    codes: ArrayLike, n_values: ArrayLike, sample_weight: ArrayLike | None
) -> tuple[Indices, Array, Indices]:
    """Distinct rows of checked input that have weight: codes (d, n), weights (n,), sizes (d,)."""
    rows = np.asarray(codes)
    sizes = np.asarray(n_values)
    if rows.ndim != 2 or 0 in rows.shape:
        raise ValueError(
            f"codes has shape {rows.shape}: give one row a case and one column a variable, at "
            "least one of each."
        )
    if rows.dtype.kind not in "iub":
        raise TypeError(f"codes has dtype {rows.dtype}: give integer codes, as LabelSpace does.")
    if sizes.shape != (rows.shape[1],) or sizes.dtype.kind not in "iu" or (sizes < 1).any():
        raise ValueError(
            f"n_values is {sizes.tolist()}: give the number of values, at least 1, of each of the "
            f"{rows.shape[1]} variables."
        )
    rows, sizes = rows.astype(np.intp), sizes.astype(np.intp)
    refused = (rows < 0) | (rows >= sizes)
    if refused.any():
        row, i = (int(at) for at in np.argwhere(refused)[0])
        raise ValueError(
            f"codes[{row}, {i}] is {rows[row, i]}, but variable {i} has {sizes[i]} values: codes "
            f"go from 0 to {sizes[i] - 1}. Leave out rows with missing values."
        )
    weight = _weights(sample_weight, len(rows))
    distinct, place = np.unique(rows[weight > 0], axis=0, return_inverse=True)
    joined = np.bincount(place.ravel(), weights=weight[weight > 0], minlength=len(distinct))
    columns = np.ascontiguousarray(distinct.T)
    for column in columns:  # scores do not depend on which value has which code
        common = np.bincount(column, weights=joined).argmax()
        column[:] = np.where(column == common, 0, np.where(column == 0, common, column))
    return columns, joined.astype(np.float64), sizes


def _weights(sample_weight: ArrayLike | None, n_rows: int) -> Array:
    if sample_weight is None:
        return np.ones(n_rows)
    weight: Array = np.asarray(sample_weight, dtype=np.float64)
    if weight.shape != (n_rows,):
        raise ValueError(
            f"sample_weight has shape {weight.shape}: give one weight for each of the {n_rows} "
            "rows."
        )
    if not np.isfinite(weight).all() or (weight < 0).any() or not (weight > 0).any():
        raise ValueError("sample_weight must be finite, not negative, and not zero everywhere.")
    return weight


def _check_options(score: str, max_parents: int, equivalent_sample_size: float) -> None:
    check_choice("score", score, ("bdeu", "bic"))
    check_integer("max_parents", max_parents, 0)
    check_positive("equivalent_sample_size", equivalent_sample_size)


def _largest_table(sizes: Indices, max_parents: int, n_sets: int) -> int:
    """Cells of the largest table, if that and the number of sets can be afforded."""
    cells = math.prod(sorted((int(size) for size in sizes), reverse=True)[: max_parents + 1])
    if cells > _MOST_CELLS or n_sets > _MOST_SETS:
        raise ValueError(
            f"{len(sizes)} variables with max_parents={max_parents} make {n_sets} tables of up to "
            f"{cells} cells, more than the {_MOST_SETS} tables or {_MOST_CELLS} cells that are "
            "counted. Lower max_parents or join rare values."
        )
    return cells


def _best_first(scores: Array, parents: Indices) -> tuple[Array, Indices]:
    order = np.argsort(-scores, kind="stable")
    return scores[order], parents[order]


@njit(nogil=True, cache=True)
def _undominated(
    values: Array, child: int, d: int, most: int, offsets: Indices, choose: Indices
) -> tuple[Array, Indices]:
    """Scores (m,) and parents (m, most) of the sets of one variable that no subset matches.

    `best` holds, for each set, the best score among it and its subsets; sets are told by their
    colexical place among the other variables.
    """
    start = np.empty(most + 2, dtype=np.intp)
    start[0] = 0
    for size in range(most + 1):
        start[size + 1] = start[size] + choose[d - 1, size]
    n_sets = start[most + 1]
    best, found = np.empty(n_sets), np.empty(n_sets)
    sets = np.empty((n_sets, max(most, 1)), dtype=np.intp)
    sets[:] = -1
    n_kept = 0
    chosen = np.empty(most + 1, dtype=np.intp)
    for size in range(most + 1):
        for place in range(size):
            chosen[place] = place
        for at in range(start[size], start[size + 1]):
            below = _best_below(chosen, size, start, best, choose)
            parents = sets[n_kept]  # overwritten by the next set if this one is not kept
            for place in range(size):
                parents[place] = chosen[place] + (chosen[place] >= child)
            score = _family_score(values, child, parents, size, offsets, choose)
            if size == 0 or score > below + _GAIN * (1.0 + abs(below)):
                found[n_kept] = score
                n_kept += 1
            best[at] = max(score, below)
            next_combination(chosen, size, d - 1)
    return found[:n_kept], sets[:n_kept]


@njit(nogil=True, cache=True)
def _best_below(chosen: Indices, size: int, start: Indices, best: Array, choose: Indices) -> float:
    """Best score among the proper subsets of a set, by those with one member less."""
    highest = -np.inf
    for left_out in range(size):
        subset = start[size - 1]
        for place in range(left_out):
            subset += choose[chosen[place], place + 1]
        for place in range(left_out + 1, size):
            subset += choose[chosen[place], place]
        highest = max(highest, best[subset])
    return highest


@njit(nogil=True, cache=True)
def _family_score(
    values: Array, child: int, parents: Indices, size: int, offsets: Indices, choose: Indices
) -> float:
    """G(parents with child) - G(parents)."""
    family = np.empty(size + 1, dtype=np.intp)
    at = 0
    while at < size and parents[at] < child:
        family[at] = parents[at]
        at += 1
    family[at] = child
    for place in range(at, size):
        family[place + 1] = parents[place]
    with_child = values[set_position(family, size + 1, offsets, choose)]
    return with_child - values[set_position(parents, size, offsets, choose)]  # type: ignore[no-any-return]
