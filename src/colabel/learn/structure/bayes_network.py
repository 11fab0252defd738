"""The best Bayesian network over a few dozen discrete variables, such as labels.

Up to some twenty variables are searched exactly, by dynamic programming over sets of variables
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

import time
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from scipy.sparse.csgraph import connected_components
from sklearn.utils import check_random_state

from colabel.core.arrays import Array, Indices
from colabel.core.compiling import njit
from colabel.learn.structure.parent_scores import (
    Candidates,
    NetworkScore,
    ParentScores,
    score_parent_sets,
)

MOST_VARIABLES = 25  # 2^25 sets take 0.3 GB
QUICK_VARIABLES = 20  # about a second


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


Search = Literal["dynamic programming", "order search"]
SEARCHES: tuple[Search, ...] = get_args(Search)


@dataclass(frozen=True)
class BayesNetworkStructure:
    """A directed graph without cycles over d variables, and how it was found.

    Attributes
    ----------
    parents : tuple of d tuples of int
        Parents of each variable, in ascending order.
    score : float
        Sum of the scores of the families.
    search : str
        What found it: "dynamic programming" or "order search"; the last where parts of the graph
        were searched in different ways.
    optimal : bool
        Whether no network within the limit on parents has a better score. Other networks may
        have the same one.
    bound : float
        No network within the limit on parents has a better score than this.
    order : tuple of d int
        The variables, parents before children.
    """

    parents: tuple[tuple[int, ...], ...]
    score: float
    search: Search
    optimal: bool
    bound: float
    order: tuple[int, ...]

    @property
    def n_variables(self) -> int:
        """Number of variables."""
        return len(self.parents)

    @property
    def edges(self) -> tuple[tuple[int, int], ...]:
        """Arcs as pairs (parent, child), by child."""
        return tuple((j, i) for i, parents in enumerate(self.parents) for j in parents)


def learn_bayes_network(
    codes: ArrayLike,
    n_values: ArrayLike,
    *,
    score: NetworkScore = "bdeu",
    max_parents: int = 2,
    equivalent_sample_size: float = 1.0,
    time_limit: float = 30.0,
    sample_weight: ArrayLike | None = None,
    random_state: int | np.random.RandomState | None = None,
    search: Search | Literal["auto"] = "auto",
) -> BayesNetworkStructure:
    """Find the network with the best score from complete rows.

    Parameters
    ----------
    codes : array-like of int, shape (n, d)
        Values of d variables, each from 0 to ``n_values[i] - 1``.
    n_values : array-like of int, shape (d,)
        Number of values of each variable, also those that do not occur.
    score : {"bdeu", "bic"}, default="bdeu"
        See :func:`score_parent_sets` for the formulas.
    max_parents : int, default=2
        Most parents of a variable.
    equivalent_sample_size : float, default=1.0
        Rows that the prior of BDeu is worth.
    time_limit : float, default=30.0
        Seconds for the search, counting not included; an order search that takes longer ends
        with the best network met. Only then can the answer depend on the machine.
    sample_weight : array-like of shape (n,) or None
        How many rows each row stands for.
    random_state : int, RandomState or None
        Seed of the order search.
    search : {"auto", "dynamic programming", "order search"}
        The graph of possible arcs is cut into parts between which no cycle can run. In a part of
        up to 20 variables "auto" uses dynamic programming, which is exact; in a larger one the
        order search, whose answer is proven only where every variable has its best set.

    Returns
    -------
    BayesNetworkStructure

    Examples
    --------
    >>> import numpy as np
    >>> from colabel.learn.structure import learn_bayes_network
    >>> rng = np.random.default_rng(0)
    >>> first, second = rng.integers(0, 2, (2, 500))
    >>> codes = np.stack([first, second, first ^ second], axis=1)
    >>> found = learn_bayes_network(codes, [2, 2, 2])
    >>> sorted(len(parents) for parents in found.parents), found.optimal
    ([0, 0, 2], True)
    """
    scores = score_parent_sets(
        codes,
        n_values,
        score=score,
        max_parents=max_parents,
        equivalent_sample_size=equivalent_sample_size,
        sample_weight=sample_weight,
    )
    return best_network(scores, time_limit=time_limit, random_state=random_state, search=search)


def best_network(
    scores: ParentScores,
    *,
    time_limit: float = 30.0,
    random_state: int | np.random.RandomState | None = None,
    search: Search | Literal["auto"] = "auto",
) -> BayesNetworkStructure:
    """Find the best network when the parent sets are scored already.

    Parameters
    ----------
    scores : ParentScores
    time_limit, random_state, search
        As in :func:`learn_bayes_network`.

    Examples
    --------
    >>> from colabel.learn.structure import best_network, score_parent_sets
    >>> codes = [[0, 0], [0, 0], [1, 1], [1, 1]]
    >>> best_network(score_parent_sets(codes, [2, 2])).parents
    ((1,), ())
    """
    if search != "auto" and search not in SEARCHES:
        raise ValueError(f"search={search!r} is not known: choose 'auto' or one of {SEARCHES}.")
    if not time_limit > 0:
        raise ValueError(f"time_limit={time_limit!r} must be a positive number of seconds.")
    rng = np.random.default_rng(check_random_state(random_state).randint(2**31 - 1))
    deadline = time.monotonic() + time_limit
    candidates = scores.candidates
    chosen = np.empty(scores.n_variables, dtype=np.intp)
    bound, optimal, used = 0.0, True, 0
    # The small parts first: they leave the time to the large ones.
    for members in sorted(_parts(candidates), key=len):
        local, origin = _restricted(candidates, members)
        own, how, most, best = _search_part(local, search, rng, deadline)
        chosen[members] = origin[own]
        bound += most
        optimal &= best
        used = max(used, SEARCHES.index(how))
    parents = tuple(tuple(int(j) for j in candidates.parents[place] if j >= 0) for place in chosen)
    score = float(candidates.scores[chosen].sum())
    order = topological_order(parents)
    return BayesNetworkStructure(parents, score, SEARCHES[used], optimal, max(bound, score), order)


def _search_part(
    candidates: Candidates,
    search: Search | Literal["auto"],
    rng: np.random.Generator,
    deadline: float,
) -> tuple[Indices, Search, float, bool]:
    """Sets chosen for the variables of one part, how, the bound on their score, if optimal."""
    d = len(candidates.first) - 1
    if search == "auto" and d <= QUICK_VARIABLES:
        search = "dynamic programming"
    if search == "dynamic programming":
        if d > MOST_VARIABLES:
            raise ValueError(
                f"Dynamic programming looks at 2^{d} sets here: it serves up to {MOST_VARIABLES} "
                "variables. Use search='auto'."
            )
        chosen = best_by_subsets(candidates)
        return chosen, search, float(candidates.scores[chosen].sum()), True
    chosen = best_by_orders(candidates, rng, deadline)
    score = float(candidates.scores[chosen].sum())
    # each variable with its best set, cycles or not
    bound = float(candidates.scores[candidates.first[:-1]].sum())
    return chosen, "order search", bound, bound <= score


def _parts(candidates: Candidates) -> list[Indices]:
    """Strongly connected parts of the graph of all arcs that some set would bring.

    A cycle stays within one part, so parents from other parts are free, and the parts can be
    searched one by one.
    """
    d = len(candidates.first) - 1
    child = np.repeat(np.arange(d), np.diff(candidates.first))
    rows, columns = np.nonzero(candidates.parents >= 0)
    arcs = (candidates.parents[rows, columns], child[rows])
    graph = sp.csr_array((np.ones(len(rows)), arcs), (d, d))
    n_parts, part = connected_components(graph, connection="strong")
    return [np.flatnonzero(part == number) for number in range(n_parts)]


def _restricted(candidates: Candidates, members: Indices) -> tuple[Candidates, Indices]:
    """Candidates of a part with their outside parents forgotten, and where each came from (m,)."""
    d = len(candidates.first) - 1
    if len(members) == d:
        return candidates, np.arange(len(candidates.scores))
    local = np.full(d + 1, -1, dtype=np.intp)  # the last entry serves the padding
    local[members] = np.arange(len(members))
    kept = [
        _first_of_each(local[candidates.parents[candidates.first[i] : candidates.first[i + 1]]])
        + candidates.first[i]
        for i in members
    ]
    origin = np.concatenate(kept)
    first = np.concatenate([[0], np.cumsum([len(places) for places in kept])]).astype(np.intp)
    parents = local[candidates.parents[origin]]
    parents = np.take_along_axis(parents, np.argsort(parents < 0, axis=1, kind="stable"), axis=1)
    return Candidates(first, candidates.scores[origin], parents), origin


@njit(nogil=True, cache=True)
def _first_of_each(parents: Indices) -> Indices:
    """Places of the sets (m, p) of which no set before them, which is better, is a subset."""
    kept = np.empty(len(parents), dtype=np.intp)
    n_kept = 0
    for place in range(len(parents)):
        dominated = False
        for earlier in kept[:n_kept]:
            inside = True
            for j in parents[earlier]:
                has = j < 0
                for other in parents[place]:
                    has = has or other == j
                if not has:
                    inside = False
                    break
            if inside:
                dominated = True
                break
        if not dominated:
            kept[n_kept] = place
            n_kept += 1
    return kept[:n_kept]


def topological_order(parents: tuple[tuple[int, ...], ...]) -> tuple[int, ...]:
    """Variables, parents before children, the smallest first where there is a choice."""
    order: list[int] = []
    left = set(range(len(parents)))
    while left:
        ready = [i for i in left if left.isdisjoint(parents[i])]
        if not ready:
            raise ValueError(f"The parents of the variables {sorted(left)} close a cycle.")
        order.append(min(ready))
        left.remove(order[-1])
    return tuple(order)
