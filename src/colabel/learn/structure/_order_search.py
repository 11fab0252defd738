"""Search over orders of the variables: each takes its best set among those before it.

An order is improved by moving one variable at a time to its best place (Lee and van Beek, 2017)
until no move helps. Then a few random pairs change places and the climb starts again from there;
the better of the two is kept (iterated local search). Several random orders are started from.
"""

from __future__ import annotations

import time

import numpy as np

from colabel.core.arrays import Array, Indices
from colabel.core.compiling import njit
from colabel.learn.structure.parent_scores import Candidates

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
            found = _climb(candidates, kicked)
            if found > score:
                score, order = found, kicked
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
