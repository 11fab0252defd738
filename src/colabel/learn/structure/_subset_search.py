"""Exact search by dynamic programming over sets of variables (Silander and Myllymäki, 2006).

A network without cycles has a sink. So the best network over a set W has the score

    R(W) = max over i in W of  R(W without i) + (best set of i within W without i)

and 2^d sets suffice. The best set within another is the first that fits, since sets lie best
first; after leaving out dominated sets there are few to try.
"""

from __future__ import annotations

import numpy as np

from colabel.core.arrays import Array, Indices
from colabel.core.compiling import njit
from colabel.learn.structure.parent_scores import Candidates

MOST_VARIABLES = 25  # 2^25 sets take 0.3 GB
QUICK_VARIABLES = 20  # about a second


def best_by_subsets(candidates: Candidates) -> Indices:
    """Place of the set that each variable has in an optimal network, (d,)."""
    masks = _masks(candidates.parents)
    return _search(candidates.first, candidates.scores, masks)


def _masks(parents: Indices) -> Indices:
    bits = np.where(parents >= 0, np.left_shift(1, np.maximum(parents, 0)), 0)
    masks: Indices = bits.sum(axis=1).astype(np.intp)
    return masks


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
