"""The best Bayesian network over a few dozen discrete variables, such as labels.

Every set of at most a few parents is scored for every variable; a set is left out if one of its
subsets scores as well, for wherever the set is allowed in a network without cycles, so is the
subset.

Up to twenty variables are searched exactly, by dynamic programming over sets of variables
(Silander and Myllymäki, 2006). A network without cycles has a sink. So the best network over a
set W has the score

    R(W) = max over i in W of  R(W without i) + (best set of i within W without i)

and 2^d sets suffice. The best set within another is the first that fits, since sets lie best
first; after leaving out dominated sets there are few to try.

More variables are searched by their orders: each takes its best set among those before it.
An order is improved by moving one variable at a time to its best place (Lee and van Beek, 2017)
until no move helps. Then a few random pairs change places and the climb starts again from there;
the better of the two is kept (iterated local search). Several random orders are started from.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterator
from typing import Literal, NamedTuple

import numpy as np
from scipy.special import gammaln, xlogy

from colabel.core.arrays import Array, Codes, Indices
from colabel.core.compiling import njit
from colabel.joint.lds.network import FeatureColumns, sums_by_state

NetworkScore = Literal["bdeu", "bic"]
Parents = tuple[tuple[int, ...], ...]

# A larger parent set must gain more than rounding, else a variable that says nothing new, such as
# a copy of another, would become a parent by its last digit.
_GAIN = 1e-10
_MOST_CELLS = 2**26
_MOST_SETS = 2**20
_MOST_EXACT = 20  # variables: about a second
# Values of sets are multiples of 1 / _FINE, so that sums are exact: networks that have the same
# score by the formulas have it to the last digit, and the order of the variables decides.
_FINE = 2.0**24


def label_state(
    codes: Codes, labels: tuple[int, ...], cardinalities: tuple[int, ...]
) -> tuple[Indices, int]:
    """State (m,) of some labels together in codes (m, d), the last changing fastest; states."""
    state, n_states = np.zeros(len(codes), dtype=np.intp), 1
    for i in labels:
        state = state * cardinalities[i] + codes[:, i]
        n_states *= cardinalities[i]
    return state, n_states


def parent_set_scores(
    codes: Codes,
    cardinalities: tuple[int, ...],
    values: Array,
    columns: FeatureColumns,
    *,
    score: NetworkScore,
    max_parents: int,
    equivalent_sample_size: float = 1.0,
) -> Iterator[tuple[tuple[int, ...], Array]]:
    r"""Score every set of at most `max_parents` variables as the parents of others.

    With :math:`n_{sv}` rows in state s of the parents and with value v of the child, of S states
    and V values, n rows in all,

    .. math::
        BDeu &= \sum_s \log \frac{\Gamma(a / S)}{\Gamma(a / S + n_s)}
            + \sum_{sv} \log \frac{\Gamma(a / SV + n_{sv})}{\Gamma(a / SV)} \\
        BIC &= \sum_{sv} n_{sv} \log \frac{n_{sv}}{n_s} - \frac{S (V - 1)}{2} \log n

    Both are differences of a function of sets, that of parents and child less that of the parents.

    Parameters
    ----------
    codes : (U, d)
        Values of the possible parents.
    cardinalities : (d,)
    values : (U, C)
        Weight of the rows with each value of each child.
    columns : FeatureColumns
        Of the p children.
    score : {"bdeu", "bic"}
    max_parents : int
    equivalent_sample_size : float
        a, the weight of BDeu's prior.

    Yields
    ------
    parents : tuple of int
        The smaller sets first.
    scores : (p,)

    Examples
    --------
    >>> import numpy as np
    >>> codes = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    >>> values = np.array([[9.0, 1.0], [9.0, 1.0], [1.0, 9.0], [1.0, 9.0]])
    >>> scores = parent_set_scores(
    ...     codes, (2, 2), values, FeatureColumns((2,)), score="bic", max_parents=2
    ... )
    >>> max(scores, key=lambda each: each[1])[0]
    (0,)
    """
    largest = sorted(cardinalities, reverse=True)[:max_parents]
    n_sets = sum(math.comb(len(cardinalities), k) for k in range(max_parents + 1))
    cells = math.prod(largest) * columns.n_columns
    if cells > _MOST_CELLS or n_sets > _MOST_SETS:
        raise ValueError(
            f"{len(cardinalities)} variables with max_parents={max_parents} make {n_sets:,} tables "
            f"of up to {cells:,} cells, more than the {_MOST_SETS:,} tables or {_MOST_CELLS:,} "
            "cells that are counted. Lower max_parents or join rare values."
        )
    total, n_values = values.sum(axis=0), np.array(columns.n_values)
    half = 0.5 * math.log(max(float(total[: n_values[0]].sum()), 1.0))

    def value(counts: Array, cells: Array) -> Array:
        """G of sets of so many cells each, by the counts (S, C) of the cells."""
        if score == "bic":
            likelihood = xlogy(counts, counts)
        else:
            share = equivalent_sample_size / cells
            likelihood = gammaln(share + counts) - gammaln(share)
        return np.asarray(likelihood.sum(axis=0))

    def rounded(scores: Array, cells: Array) -> Array:
        scores = scores - half * cells if score == "bic" else scores
        return np.asarray(np.round(scores * _FINE) / _FINE)

    for size in range(min(len(cardinalities), max_parents) + 1):
        for parents in itertools.combinations(range(len(cardinalities)), size):
            state, n_states = label_state(codes, parents, cardinalities)
            some = np.flatnonzero(state)  # few, where 0 is the common value: the rest is left over
            counts = sums_by_state(state[some], n_states, values[some])
            counts[0] = np.maximum(total - counts.sum(axis=0), 0.0)
            of_state = np.add.reduceat(counts, columns.first[:-1], axis=1)
            alone, together = np.full(len(n_values), n_states), n_states * n_values
            cells_of = value(counts, np.repeat(together, n_values))
            family = np.add.reduceat(cells_of, columns.first[:-1])
            yield parents, rounded(family, together) - rounded(value(of_state, alone), alone)


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


def candidate_sets(
    codes: Codes,
    cardinalities: tuple[int, ...],
    weight: Array,
    *,
    score: NetworkScore = "bdeu",
    max_parents: int = 2,
    equivalent_sample_size: float = 1.0,
) -> Candidates:
    """Score the parent sets of each variable, and leave out those that a subset matches.

    Parameters as in `learn_bayes_network`.
    """
    d = len(cardinalities)
    distinct, place = np.unique(codes[weight > 0], axis=0, return_inverse=True)
    joined = np.bincount(place.ravel(), weights=weight[weight > 0], minlength=len(distinct))
    for column in distinct.T:  # scores do not depend on which value has which code
        common = np.bincount(column, weights=joined).argmax()
        column[:] = np.where(column == common, 0, np.where(column == 0, common, column))
    columns = FeatureColumns(cardinalities)
    best: dict[tuple[int, ...], Array] = {}  # among a set and its subsets, (d,)
    kept: list[list[tuple[float, tuple[int, ...]]]] = [[] for _ in range(d)]
    for members, scores in parent_set_scores(
        distinct,
        cardinalities,
        columns.one_hot(distinct) * joined[:, None],
        columns,
        score=score,
        max_parents=min(max_parents, d - 1),
        equivalent_sample_size=equivalent_sample_size,
    ):
        scores[list(members)] = -np.inf
        below = np.full(d, -np.inf)
        for left_out in range(len(members)):
            np.maximum(below, best[members[:left_out] + members[left_out + 1 :]], out=below)
        best[members] = np.maximum(scores, below)
        worth = scores > below + _GAIN * (1.0 + np.abs(below)) if members else scores > -np.inf
        for i in np.flatnonzero(worth):
            kept[i].append((scores[i], members))
    every = [each for own in kept for each in sorted(own, key=lambda each: -each[0])]
    parents = np.full((len(every), max(1, max_parents)), -1, dtype=np.intp)
    for row, (_, members) in zip(parents, every, strict=True):
        row[: len(members)] = members
    first = np.cumsum([0, *map(len, kept)]).astype(np.intp)
    return Candidates(first, np.array([value for value, _ in every]), parents)


def learn_bayes_network(
    codes: Codes,
    cardinalities: tuple[int, ...],
    weight: Array,
    *,
    score: NetworkScore = "bdeu",
    max_parents: int = 2,
    equivalent_sample_size: float = 1.0,
    time_limit: float = 30.0,
    random_state: int = 0,
) -> Parents:
    """Find the network with the best score from complete rows.

    Several networks may have the best score, such as those that differ in the direction of arcs
    that no collider fixes: which of them is returned depends on the order of the variables.

    Parameters
    ----------
    codes : (n, d)
        Values of d variables, each from 0 to ``cardinalities[i] - 1``.
    cardinalities : tuple of d int
        Number of values of each variable, also those that do not occur.
    weight : (n,)
        How many rows each row stands for.
    score : {"bdeu", "bic"}
        See `parent_set_scores` for the formulas.
    max_parents : int
        Most parents of a variable.
    equivalent_sample_size : float
        Rows that the prior of BDeu is worth.
    time_limit : float
        Seconds for the search among orders, of more than twenty variables; one that takes longer
        ends with the best network met. Only then can the answer depend on the machine.
    random_state : int
        Seed of that search.

    Returns
    -------
    parents : tuple of d tuples of int
        Parents of each variable, in ascending order.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> first, second = rng.integers(0, 2, (2, 500))
    >>> codes = np.stack([first, second, first ^ second], axis=1)
    >>> sorted(map(len, learn_bayes_network(codes, (2, 2, 2), np.ones(500))))
    [0, 0, 2]
    """
    candidates = candidate_sets(
        codes,
        cardinalities,
        weight,
        score=score,
        max_parents=max_parents,
        equivalent_sample_size=equivalent_sample_size,
    )
    if len(cardinalities) <= _MOST_EXACT:
        chosen = best_by_subsets(candidates)
    else:
        rng = np.random.default_rng(random_state)
        chosen = best_by_orders(candidates, rng, time.monotonic() + time_limit)
    return tuple(tuple(j for j in row.tolist() if j >= 0) for row in candidates.parents[chosen])


def best_by_subsets(candidates: Candidates) -> Indices:
    """Place of the set that each variable has in an optimal network, (d,)."""
    parents = candidates.parents
    bits = np.where(parents >= 0, np.left_shift(1, np.maximum(parents, 0)), 0)
    return _search(candidates.first, candidates.scores, bits.sum(axis=1).astype(np.intp))


@njit(nogil=True, cache=True)
def _first_within(masks: Indices, start: int, allowed: int) -> int:
    """Place of the best set whose members are all allowed; the empty set always fits."""
    place = start
    while masks[place] & ~allowed:
        place += 1
    return place


@njit(nogil=True, cache=True)
def _search(first: Indices, scores: Array, masks: Indices) -> Indices:
    d = len(first) - 1
    best = np.empty(1 << d)
    sink = np.empty(1 << d, dtype=np.int8)
    best[0], sink[:] = 0.0, 0
    for members in range(1, 1 << d):
        highest = -np.inf
        for i in range(d):
            if members >> i & 1:
                rest = members ^ (1 << i)
                score = best[rest] + scores[_first_within(masks, first[i], rest)]
                if score > highest:
                    highest = score
                    sink[members] = i
        best[members] = highest
    chosen = np.empty(d, dtype=np.intp)
    members = (1 << d) - 1
    while members:
        i = sink[members]
        members ^= 1 << i
        chosen[i] = _first_within(masks, first[i], members)
    return chosen


N_STARTS = 10
N_KICKS = 20
_SMALLEST_GAIN = 1e-9


def best_by_orders(candidates: Candidates, rng: np.random.Generator, deadline: float) -> Indices:
    """Place of the set that each variable has in the best network met, (d,).

    The deadline, by `time.monotonic`, is looked at between climbs; the first always ends.
    """
    d = len(candidates.first) - 1
    highest, chosen = -np.inf, np.empty(d, dtype=np.intp)
    for _ in range(N_STARTS):
        order = rng.permutation(d)
        swaps = rng.integers(0, d, (N_KICKS, 2 + d // 10, 2))
        score = _climb(candidates, order)
        for pairs in swaps:
            if time.monotonic() > deadline:
                break
            kicked = order.copy()
            for one, two in pairs:
                kicked[[one, two]] = kicked[[two, one]]
            candidate = _climb(candidates, kicked)
            if candidate > score:
                score, order = candidate, kicked
        if score > highest:
            highest, chosen = score, sets_of_order(candidates, order)
        if time.monotonic() > deadline:
            break
    return chosen


@njit(nogil=True, cache=True)
def sets_of_order(candidates: Candidates, order: Indices) -> Indices:
    """Place of the best set of each variable among those before it, (d,)."""
    position = np.empty(len(order), dtype=np.intp)
    for place in range(len(order)):
        position[order[place]] = place
    chosen = np.empty(len(order), dtype=np.intp)
    for i in range(len(order)):
        chosen[i] = _first_allowed(candidates, i, position, position[i], -1, -1)
    return chosen


@njit(nogil=True, cache=True)
def _first_allowed(
    candidates: Candidates, i: int, position: Indices, before: int, also: int, never: int
) -> int:
    """Place of i's best set among variables before a position, with `also`, without `never`."""
    place = candidates.first[i]
    while True:
        fits = True
        for j in candidates.parents[place]:
            if j < 0:
                break
            if j != also and (j == never or position[j] >= before):
                fits = False
                break
        if fits:
            return place  # type: ignore[no-any-return]
        place += 1


@njit(nogil=True, cache=True)
def _best_move(
    candidates: Candidates, order: Indices, position: Indices, scores: Array, v: int
) -> tuple[float, int]:
    """Gain and target of the best new position of v; -1 where no move gains.

    Moving v to the left past u lets u have v as a parent and takes u from v; to the right the
    other way round. The others see the same variables before them as they did.
    """
    best_gain, target = _SMALLEST_GAIN, -1
    here = position[v]
    passed = 0.0
    for to in range(here - 1, -1, -1):
        u = order[to]
        theirs = candidates.scores[_first_allowed(candidates, u, position, to, v, -1)]
        passed += theirs - scores[u]
        mine = candidates.scores[_first_allowed(candidates, v, position, to, -1, -1)]
        gain = passed + mine - scores[v]
        if gain > best_gain:
            best_gain, target = gain, to
    passed = 0.0
    for to in range(here + 1, len(order)):
        u = order[to]
        theirs = candidates.scores[_first_allowed(candidates, u, position, to, -1, v)]
        passed += theirs - scores[u]
        mine = candidates.scores[_first_allowed(candidates, v, position, to + 1, -1, -1)]
        gain = passed + mine - scores[v]
        if gain > best_gain:
            best_gain, target = gain, to
    return best_gain, target


@njit(nogil=True, cache=True)
def _climb(candidates: Candidates, order: Indices) -> float:
    """Move variables, in the order of their numbers, until no move gains; return the score."""
    d = len(order)
    position = np.empty(d, dtype=np.intp)
    scores = np.empty(d)
    sets = sets_of_order(candidates, order)
    for place in range(d):
        position[order[place]] = place
        scores[place] = candidates.scores[sets[place]]
    unchanged, v = 0, 0
    while unchanged < d:
        _, target = _best_move(candidates, order, position, scores, v)
        unchanged += 1
        if target >= 0:
            here = position[v]
            step = 1 if target > here else -1
            for place in range(here, target, step):
                order[place] = order[place + step]
            order[target] = v
            for place in range(min(here, target), max(here, target) + 1):
                position[order[place]] = place
            for place in range(min(here, target), max(here, target) + 1):
                i = order[place]
                scores[i] = candidates.scores[
                    _first_allowed(candidates, i, position, place, -1, -1)
                ]
            unchanged = 0
        v = (v + 1) % d
    total = 0.0
    for score in scores:
        total += score
    return total
