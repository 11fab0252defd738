"""Which labels depend on which beyond x, by score tests: candidates for parents and edges.

Fitting a model for every pair of labels costs the square of their number. Whether label j matters
for label i given x is first asked of the residuals of models of each label alone: the score test
of all pairs at once is two matrix products.

The best forest over the labels: a maximum-weight branching of a dense graph, in O(d^2).

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
   1979: corrects how [1]_ unpacks the contracted cycles, as is done here.
.. [3] H. N. Gabow, Z. Galil, T. Spencer and R. E. Tarjan, Efficient algorithms for finding minimum
   spanning trees in undirected and directed graphs, Combinatorica 6, 1986.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from colabel.core.arrays import Array, Codes, Flags, Indices, column_owner, row_slices
from colabel.labels import MISSING

_ROWS_AT_ONCE = 1 << 12  # bounds what the products hold beside the residuals


class Residuals(NamedTuple):
    """Residuals (n, e) of the labels' columns and their variances (n, e) by the models."""

    residual: Array
    variance: Array


def label_residuals(
    scores: Sequence[Array], codes: Codes, cardinalities: Sequence[int]
) -> Residuals:
    r"""Residuals :math:`r_{ia} = [y_i = a] - P(y_i = a \mid x)` of models of each label alone.

    Parameters
    ----------
    scores : d arrays (K_i, n)
        Log-odds (1, n) of the second of two values; of more values a score for each, up to a
        constant per row. By models that have not seen the row: others have explained its noise.
    codes : (n, d)
        A missing label has residual and variance zero.
    cardinalities : (d,)

    Returns
    -------
    Residuals
        One column for a label of two values, K for one of K (`column_owner`).
    """
    residuals, variances = [], []
    for i, (score, size) in enumerate(zip(scores, cardinalities, strict=True)):
        own = codes[:, [i]]
        if size == 2:
            # P = 1 / (1 + e^-s) = e^{-log(1 + e^-s)} does not overflow
            prob, values = np.exp(-np.logaddexp(0.0, -score)), np.array([1])
        else:
            prob = np.exp(score - np.logaddexp.reduce(score, axis=0))
            values = np.arange(size)
        known = own != MISSING
        residuals.append(known * ((own == values) - prob.T))
        variances.append(known * (prob * (1.0 - prob)).T)
    return Residuals(np.hstack(residuals), np.hstack(variances))


def score_tests(residuals: Residuals, cardinalities: Sequence[int], weight: Array) -> Array:
    r"""Score statistics (d, d) of label j for label i given x, zero on the diagonal.

    .. math:: z_{ij}^2 = \sum_{ab} \Bigl(\sum_n \omega_n r_{ia}^n r_{jb}^n\Bigr)^2 \Big/
              \sum_{ab} \sum_n \omega_n^2 \,
              \frac{(r_{ia}^n r_{jb}^n)^2 + v_{ia}^n v_{jb}^n}{2}

    The numerator holds the gradient, at no dependence, of the log-likelihood by the constant
    table of the pair; the denominator its variance, the mean of the one seen and the one that the
    models expect. (The first alone is at most about the number of rows that carry both labels,
    however few were to be expected: it buries the arcs of rare labels. The second alone takes a
    single such row for a discovery.) About one where labels are independent given x, and
    symmetric: which of two labels is the parent cannot be told without fitting.

    Parameters
    ----------
    residuals : Residuals
        See `label_residuals`.
    cardinalities : (d,)
    weight : (n,)

    Examples
    --------
    >>> import numpy as np
    >>> y = np.array([[0, 0, 0], [0, 0, 1], [1, 1, 0], [1, 1, 1]])
    >>> known = Residuals(y - 0.5, np.full((4, 3), 0.25))
    >>> score_tests(known, (2, 2, 2), np.ones(4))[0]
    array([0., 4., 0.])
    """
    return score_statistics(score_sums(residuals, weight), cardinalities)


def score_sums(residuals: Residuals, weight: Array) -> tuple[Array, Array]:
    """The sums over rows in `score_tests`, (e, e) each: slopes and their variances."""
    n_rows, n_columns = residuals.residual.shape
    slope, variance = np.zeros((n_columns, n_columns)), np.zeros((n_columns, n_columns))
    for rows in row_slices(n_rows, _ROWS_AT_ONCE):
        own, expected = (part[rows] for part in residuals)
        factor = weight[rows, None]
        slope += (factor * own).T @ own
        variance += 0.5 * ((factor * own) ** 2).T @ own**2
        variance += 0.5 * (factor**2 * expected).T @ expected
    return slope, variance


def score_statistics(sums: tuple[Array, Array], cardinalities: Sequence[int]) -> Array:
    """Return the statistics (d, d) of `score_tests`, given the sums."""
    slope, variance = sums
    first = np.searchsorted(column_owner(cardinalities), np.arange(len(cardinalities)))
    squares = _block_sums(slope**2, first)
    noise = _block_sums(variance, first)
    # residuals so small that their fourth powers vanish say nothing
    statistic = np.where(noise > 0, squares / np.maximum(noise, np.finfo(float).tiny), 0.0)
    np.fill_diagonal(statistic, 0.0)
    return statistic


def best_candidates(worth: Array, most: int) -> Flags:
    """Say which parents j of each label i, entry [j, i], are its `most` best; ties to the first."""
    worth = worth.copy()
    np.fill_diagonal(worth, -np.inf)
    order = np.argsort(-worth, axis=0, kind="stable")[: min(most, len(worth) - 1)]
    chosen = np.zeros(worth.shape, dtype=bool)
    np.put_along_axis(chosen, order, True, axis=0)
    return chosen


def _block_sums(matrix: Array, first: Indices) -> Array:
    return np.asarray(np.add.reduceat(np.add.reduceat(matrix, first, axis=0), first, axis=1))


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
    >>> from colabel.learn.structure.screening import maximum_branching
    >>> gain = np.array([[0.0, 5.0, 1.0], [6.0, 0.0, 4.0], [3.0, 2.0, 0.0]])
    >>> maximum_branching(gain, np.zeros(3))
    array([ 1, -1,  1])
    """
    arcs_in: Array = np.asarray(weights, dtype=np.float64).T
    d = len(arcs_in)
    # Sources are columns: 0 is the virtual root, 1 + j is node j. Nodes made of cycles are numbered
    # from d on; each overwrites the row of its first member, so memory stays at d rows.
    incoming = np.column_stack([np.asarray(root_weights, dtype=np.float64), arcs_in])
    incoming[np.arange(d), np.arange(1, d + 1)] = -np.inf
    # Ties: every parent costs more than all parent indices of a forest together.
    cost = np.tile(np.arange(-1, d) + d * d, (d, 1))
    cost[:, 0] = 0
    entered = np.repeat(np.arange(d)[:, None], d + 1, axis=1)  # where in the graph an arc ends
    outermost = np.arange(-1, d)  # of each source: the contracted node around it
    row, holder, state = list(range(d)), [-1] * d, [_WAITING] * d
    arcs = [(0, 0)] * d  # source and end of the entering arc that each node asked for

    def contracted(cycle: list[int]) -> int:
        made, first = len(row), row[cycle[0]]
        for node in cycle:
            own = row[node]
            # Entering here gives up the arc that the member has: others count from it.
            source = arcs[node][0]
            incoming[own] -= incoming[own, source]
            cost[own] -= cost[own, source]
            if own != first:
                same = incoming[own] == incoming[first]
                better = (incoming[own] > incoming[first]) | (same & (cost[own] < cost[first]))
                for table in (incoming, cost, entered):
                    table[first, better] = table[own, better]
            holder[node] = made
        member = np.zeros(made + 1, dtype=bool)  # its last entry serves the virtual root, -1
        member[cycle] = True
        inside = member[outermost]
        outermost[inside] = made
        incoming[first, inside] = -np.inf
        row.append(first)
        holder.append(-1)
        state.append(_WAITING)
        arcs.append((0, 0))
        return made

    for start in range(d):
        if state[outermost[1 + start]] != _WAITING:
            continue
        path = [start]
        state[start] = _ON_PATH
        while True:
            node, own = path[-1], row[path[-1]]
            tied = np.flatnonzero(incoming[own] == incoming[own].max())
            source = int(tied[np.argmin(cost[own, tied])])
            arcs[node] = (source, int(entered[own, source]))
            above = int(outermost[source])
            if source == 0 or state[above] == _DONE:
                break
            if state[above] == _ON_PATH:
                cycle = [path.pop()]
                while cycle[-1] != above:
                    cycle.append(path.pop())
                above = contracted(cycle)
            state[above] = _ON_PATH
            path.append(above)
        for node in path:  # the path hangs on the root, or on what hangs on it
            state[node] = _DONE

    # Open the contracted nodes, the last one first: the arc into one ends in some node v of the
    # graph and takes the place of the arcs of everything between it and v; other members keep
    # theirs.
    parents = np.full(d, -1, dtype=np.intp)
    overruled = [False] * len(arcs)
    for node in reversed(range(len(arcs))):
        if not overruled[node]:
            source, inner = arcs[node]
            parents[inner] = source - 1  # the virtual root is column 0, so a root gets -1
            while inner != node:
                overruled[inner] = True
                inner = holder[inner]
    return parents
