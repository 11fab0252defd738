"""Inequalities that networks without cycles satisfy and a fractional solution may violate.

In a network without cycles every cluster C of variables has, for each k up to |C|, at least k
variables with fewer than k parents in C: the first k of C in the order. So

    sum over i in C, sets of i with at least k members in C, of x  <=  |C| - k.

k = 1 is needed to forbid cycles, larger k only tightens the relaxation.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numba import njit
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse.csgraph import dijkstra

from colabel.core.arrays import Array, Flags, Indices

VIOLATION = 1e-4


class Cut(NamedTuple):
    """Variables of a cluster (d,), and its k."""

    cluster: Flags
    k: int


class Fraction(NamedTuple):
    """The columns that a solution uses: value (m,), child (m,), parents (m, p), padded by -1."""

    values: Array
    child: Indices
    parents: Indices
    n_variables: int

    def arcs(self) -> Array:
        """How much of each arc j -> i there is, (d, d)."""
        arcs = np.zeros((self.n_variables + 1, self.n_variables))
        for column in self.parents.T:
            np.add.at(arcs, (column, self.child), self.values)  # padding falls into the last row
        return arcs[:-1]


def coefficients(cuts: list[Cut], child: Indices, parents: Indices) -> sp.csr_array:
    """Coefficients (cuts, columns) of the columns with these children and parents."""
    columns = []
    for cluster, k in cuts:
        inside = np.append(cluster, False)  # the last entry serves the padding
        columns.append(np.flatnonzero((inside[parents].sum(axis=1) >= k) & cluster[child]))
    ends = np.cumsum([0, *(len(places) for places in columns)])
    entries = (np.ones(ends[-1]), np.concatenate(columns), ends)
    return sp.csr_array(entries, shape=(len(cuts), len(child)))


def cycle_cuts(solution: Fraction) -> list[Cut]:
    """Clusters of the shortest cycle through each arc, where its arcs lack less than one in all."""
    d = solution.n_variables
    arcs = np.minimum(solution.arcs(), 1.0)
    # An arc of weight w has length 1 - w; a length of zero would read as no arc.
    lengths = np.where(arcs > 1e-9, np.maximum(1.0 - arcs, 1e-12), 0.0)
    distance, before = dijkstra(sp.csr_array(lengths), return_predecessors=True, limit=1.0)
    closing = np.where(lengths > 0, distance.T + lengths, np.inf)  # a path i ~> j, then j -> i
    found: list[Cut] = []
    for j, i in np.argwhere(closing < 1.0 - VIOLATION):
        cluster = np.zeros(d, dtype=bool)
        cluster[i] = True
        node = j
        while node != i:
            cluster[node] = True
            node = before[i, node]
        found.append(Cut(cluster, 1))
    return _distinct(found)


def climbing_cuts(solution: Fraction) -> list[Cut]:
    """Violated clusters met by adding and leaving out variables, from arcs and paths of two."""
    linked = solution.arcs() > 1e-6
    paths = linked[:, :, None] & (linked | linked.T)[None]  # j -> i, and an arc between i and h
    starts = [*np.argwhere(linked).tolist(), *np.argwhere(paths).tolist()]
    seeds = sorted({tuple(sorted(set(seed))) for seed in starts})
    found: list[Cut] = []
    for k in range(1, solution.parents.shape[1] + 1):
        for seed in seeds:
            cluster = np.zeros(solution.n_variables, dtype=bool)
            cluster[list(seed)] = True
            excess = _climb(cluster, k, solution.values, solution.child, solution.parents)
            if excess > VIOLATION:
                found.append(Cut(cluster, k))
    return _distinct(found)


def worst_cut(solution: Fraction, time_limit: float) -> list[Cut]:
    """The most violated cluster for k = 1, by a small integer programme; no cut if none is.

    maximise  sum x y - sum z  with  y <= z of the child, y <= sum of z of the parents, where z
    marks the cluster and y the columns that count; a value above -1 is a violation.
    """
    used = solution.parents[:, 0] >= 0
    values, child, parents = solution.values[used], solution.child[used], solution.parents[used]
    n, d = len(values), solution.n_variables
    if not n:
        return []
    rows, columns = np.nonzero(parents >= 0)
    of_child = sp.csr_array((np.ones(n), (np.arange(n), child)), (n, d))
    of_parents = sp.csr_array((np.ones(len(rows)), (rows, parents[rows, columns])), (n, d))
    identity = sp.eye_array(n, format="csr")
    below = sp.vstack([sp.hstack([identity, -of_child]), sp.hstack([identity, -of_parents])])
    two = sp.csr_array(np.concatenate([np.zeros(n), np.ones(d)])[None])
    result = milp(
        np.concatenate([-values, np.ones(d)]),
        integrality=np.ones(n + d, dtype=np.intp),
        bounds=Bounds(0, 1),
        constraints=[LinearConstraint(below.tocsr(), ub=0.0), LinearConstraint(two, lb=2.0)],
        options={"time_limit": time_limit},
    )
    if result.x is None or -result.fun <= -1.0 + VIOLATION:
        return []
    return [Cut(result.x[n:] > 0.5, 1)]


def _distinct(cuts: list[Cut]) -> list[Cut]:
    return list({(cut.cluster.tobytes(), cut.k): cut for cut in cuts}.values())


@njit(nogil=True, cache=True)
def _climb(cluster: Flags, k: int, values: Array, child: Indices, parents: Indices) -> float:
    """Improve a cluster, in place, by one variable at a time; return how much it is violated.

    The excess is sum of x that counts - |C| + k. Gains of adding and of leaving out every variable
    come from one pass over the columns.
    """
    d = len(cluster)
    while True:
        gain = np.full(d, -1.0)  # of changing each variable's membership
        for i in range(d):
            if cluster[i]:
                gain[i] = 1.0
        excess = float(k - cluster.sum())
        for column in range(len(values)):
            i, inside = child[column], 0
            for j in parents[column]:
                inside += j >= 0 and cluster[j]
            if cluster[i] and inside >= k:
                excess += values[column]
                gain[i] -= values[column]
                if inside == k:
                    for j in parents[column]:
                        if j >= 0 and cluster[j]:
                            gain[j] -= values[column]
            elif cluster[i] and inside == k - 1:
                for j in parents[column]:
                    if j >= 0 and not cluster[j]:
                        gain[j] += values[column]
            elif not cluster[i] and inside >= k:
                gain[i] += values[column]
        size = cluster.sum()
        for i in range(d):
            if size <= k:  # too small to be violated: grow, whatever it costs
                gain[i] = -np.inf if cluster[i] else gain[i] + d
            elif size == k + 1 and cluster[i]:
                gain[i] = -np.inf
        best = gain.argmax()
        if gain[best] <= 1e-9:
            return excess if size > k else -np.inf
        cluster[best] = not cluster[best]
