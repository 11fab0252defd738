"""The best forest over the labels: a maximum-weight branching of a dense graph, in O(d^2).

A virtual root has an arc to every node, of the weight of giving it no parent. Then each node has
exactly one entering arc, and the best forest is a maximum spanning arborescence from that root.
Every node asks for its heaviest entering arc. Where these arcs close a cycle, the cycle becomes
one node: it must be entered once from outside, at the cost of one arc of the cycle, so the weight
of an arc into a member is lowered by the weight of the arc that the member already has (Chu and
Liu; Edmonds). Unpacking the contracted nodes in reverse gives the forest.

For dense graphs [1]_ needs O(d^2): a contracted node keeps a single row, its best arc from each
node of the graph. At most d - 1 contractions happen; over all of them at most 2d - 2 rows are
merged and 2d - 1 rows are searched, each in O(d). The order in which arcs are asked for follows
one path backwards, as in [3]_: a cycle can then only be the end of that path.

References
----------
.. [1] R. E. Tarjan, Finding optimum branchings, Networks 7, 1977.
.. [2] P. M. Camerini, L. Fratta and F. Maffioli, A note on finding optimum branchings, Networks 9,
   1979: corrects how [1]_ unpacks the contracted cycles. :func:`_unpacked` is the corrected one.
.. [3] H. N. Gabow, Z. Galil, T. Spencer and R. E. Tarjan, Efficient algorithms for finding minimum
   spanning trees in undirected and directed graphs, Combinatorica 6, 1986.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from colabel.core.arrays import Array, Indices

Ints = NDArray[np.int64]

_NO_PARENT = -1
_WAITING, _ON_PATH, _DONE = 0, 1, 2


def maximum_branching(weights: ArrayLike, root_weights: ArrayLike) -> Indices:
    r"""Find the forest of maximum total weight.

    .. math:: \max_{parents} \sum_{i \text{ a root}} r_i + \sum_{i \text{ no root}} w_{parent(i), i}

    over all choices of at most one parent per node that have no directed cycle.

    Parameters
    ----------
    weights : array of shape (d, d)
        ``weights[j, i]`` is the weight of the arc j -> i, which makes j the parent of i; -inf
        forbids it. The diagonal is ignored.
    root_weights : array of shape (d,)
        Weight of giving node i no parent; -inf forbids it.

    Returns
    -------
    parents : intp array of shape (d,)
        The parent of each node, -1 for roots.

    Notes
    -----
    Among forests of the same weight the one with the most roots wins, and among those the one with
    the smallest sum of parent indices. Weights that tie only up to rounding are no ties: a sum of
    floats may differ in its last digit from another order of the same sum. Time and memory are
    O(d^2).

    Examples
    --------
    >>> import numpy as np
    >>> from colabel.learn.structure.branching import maximum_branching
    >>> gain = np.array([[0.0, 5.0, 1.0], [6.0, 0.0, 4.0], [3.0, 2.0, 0.0]])
    >>> maximum_branching(gain, np.zeros(3))
    array([ 1, -1,  1])
    """
    incoming = _entering_weights(weights, root_weights)
    contraction = _Contraction(incoming)
    contraction.run()
    return _unpacked(contraction)


def _entering_weights(weights: ArrayLike, root_weights: ArrayLike) -> Array:
    """Rows of arcs into each node, (d, d + 1): from the virtual root, then from each node."""
    arcs = np.asarray(weights, dtype=np.float64)
    roots = np.asarray(root_weights, dtype=np.float64)
    if arcs.ndim != 2 or arcs.shape[0] != arcs.shape[1] or arcs.size == 0:
        raise ValueError(
            f"weights has shape {arcs.shape}: give a square matrix of shape (d, d) with d at "
            "least 1, where weights[j, i] is the weight of the arc j -> i."
        )
    d = len(arcs)
    if roots.shape != (d,):
        raise ValueError(
            f"root_weights has shape {roots.shape}, but weights has shape {arcs.shape}: give one "
            f"weight per node, shape ({d},)."
        )
    incoming = np.concatenate([roots[:, None], arcs.T], axis=1)
    incoming[np.arange(d), np.arange(1, d + 1)] = -np.inf
    refused = np.isnan(incoming) | (incoming == np.inf)
    if refused.any():
        node, source = (int(at) for at in np.argwhere(refused)[0])
        name = f"root_weights[{node}]" if source == 0 else f"weights[{source - 1}, {node}]"
        raise ValueError(
            f"{name} is {incoming[node, source]}: a weight must be finite, or -inf for an arc that "
            "is not allowed."
        )
    return incoming


class _Contraction:
    """Nodes of the graph, 0 to d - 1, and the nodes made of cycles, from d on.

    Sources are columns: 0 is the virtual root, 1 + j is node j. A contracted node overwrites the
    row of its first member, so memory stays at d rows.

    Parameters
    ----------
    incoming : array of shape (d, d + 1), overwritten
        Weight of the arc from each source into each node.

    Attributes
    ----------
    cost : int array of shape (d, d + 1), decides ties
    entered : int array of shape (d, d + 1)
        The node of the graph in which the arc of that row and column ends.
    holder : list of int
        The contracted node of which each node is a member, -1 if none.
    arcs : list of (source, node) pairs
        The entering arc that each node asked for.
    row_operations : int
        Passes over a row so far, each O(d).
    """

    def __init__(self, incoming: Array) -> None:
        d = len(incoming)
        self.n_nodes = d
        self.incoming = incoming
        # Ties: every parent costs more than all parent indices of a forest together.
        self.cost: Ints = np.tile(np.arange(-1, d, dtype=np.int64) + d * d, (d, 1))
        self.cost[:, 0] = 0
        self.entered = np.repeat(np.arange(d)[:, None], d + 1, axis=1)
        self.outermost = np.arange(-1, d)  # of each source: the contracted node around it
        self.row = list(range(d))
        self.holder = [-1] * d
        self.state = [_WAITING] * d
        self.arcs: list[tuple[int, int]] = [(0, 0)] * d
        self.row_operations = 0

    def run(self) -> None:
        """Give every outermost node an entering arc, such that no cycle is left."""
        for start in range(self.n_nodes):
            if self.state[self.outermost[1 + start]] != _WAITING:
                continue
            path = [start]
            self.state[start] = _ON_PATH
            while (source := self._ask(path[-1])) > 0:
                above = int(self.outermost[source])
                if self.state[above] == _DONE:
                    break
                if self.state[above] == _ON_PATH:
                    cycle = [path.pop()]
                    while cycle[-1] != above:
                        cycle.append(path.pop())
                    above = self._contract(cycle)
                self.state[above] = _ON_PATH
                path.append(above)
            for node in path:  # the path hangs on the root, or on what hangs on it
                self.state[node] = _DONE

    def _ask(self, node: int) -> int:
        """Choose the heaviest arc into a node; return its source."""
        row = self.row[node]
        weight, cost = self.incoming[row], self.cost[row]
        self.row_operations += 1
        highest = weight.max()
        if highest == -np.inf:
            stuck = np.flatnonzero(self.outermost[1:] == node)
            raise ValueError(
                f"No forest is allowed: nodes {stuck.tolist()} may neither be roots nor have a "
                "parent outside of themselves, as these weights are all -inf. Give a finite root "
                "weight to one of them."
            )
        tied = np.flatnonzero(weight == highest)
        source = int(tied[np.argmin(cost[tied])])
        self.arcs[node] = (source, int(self.entered[row, source]))
        return source

    def _contract(self, cycle: list[int]) -> int:
        """Make one node of a cycle; return it."""
        made = len(self.row)
        first = self.row[cycle[0]]
        for node in cycle:
            self._lower(node)
            if node != cycle[0]:
                self._merge(self.row[node], into=first)
            self.holder[node] = made
        member = np.zeros(made + 1, dtype=bool)  # its last entry serves the virtual root, -1
        member[cycle] = True
        inside = member[self.outermost]
        self.outermost[inside] = made
        self.incoming[first, inside] = -np.inf
        self.row_operations += 1
        self.row.append(first)
        self.holder.append(-1)
        self.state.append(_WAITING)
        self.arcs.append((0, 0))
        return made

    def _lower(self, node: int) -> None:
        """Count arcs into a member from the arc it has: entering here gives that one up."""
        row, source = self.row[node], self.arcs[node][0]
        self.incoming[row] -= self.incoming[row, source]
        self.cost[row] -= self.cost[row, source]
        self.row_operations += 1

    def _merge(self, row: int, *, into: int) -> None:
        """Keep the better arc from each source."""
        ours, theirs = self.incoming[into], self.incoming[row]
        better = (theirs > ours) | ((theirs == ours) & (self.cost[row] < self.cost[into]))
        for table in (self.incoming, self.cost, self.entered):
            table[into, better] = table[row, better]
        self.row_operations += 1


def _unpacked(contraction: _Contraction) -> Indices:
    """Open the contracted nodes, the last one first; each arc overrules the arcs it enters.

    The arc into a contracted node ends in some node v of the graph and takes the place of the arcs
    of everything between that contracted node and v; the other members keep theirs.
    """
    parents = np.full(contraction.n_nodes, _NO_PARENT, dtype=np.intp)
    overruled = [False] * len(contraction.arcs)
    for node in reversed(range(len(contraction.arcs))):
        if overruled[node]:
            continue
        source, inner = contraction.arcs[node]
        parents[inner] = source - 1  # the virtual root is column 0, so a root gets -1
        while inner != node:
            overruled[inner] = True
            inner = contraction.holder[inner]
    return parents
