r"""Variable elimination: one set of passes for trees and for fields of small treewidth.

Eliminating label v joins it with its *scope*, those neighbours of it that are still there, into one
table over v and the scope, and leaves a message over the scope behind, which goes to the table of
that label of the scope that is eliminated next. A forest whose children go before their parents
has scopes of one label. With :math:`t_v` the scores that enter at v,

.. math:: b_v(v, S_v) = t_v(v, S_v) + \sum_c m_c(S_c), \qquad m_v(S_v) = \oplus_v b_v(v, S_v)

where :math:`\oplus` is log sum exp for probabilities, or a merge of lists of the k best for label
vectors. Tables are arrays (K_v, \*K_scope, m): the rows of a chunk come last, so that every
operation runs over them. Where scores are far from zero, tables are long numbers (3, ...).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.random import Generator

from colabel.core.arrays import Array, Codes, Indices
from colabel.core.numeric import log_sum_exp
from colabel.joint._long_sums import add_to, less, long_log_sum_exp, long_sum, rounded

ROOT = -1  # the parent of a label that has none
_MOST_AXES = 60  # NumPy arrays have at most 64
_FEW = 8  # entries


@dataclass(frozen=True, eq=False)
class Elimination:
    """An order of elimination.

    Attributes
    ----------
    order : tuple of d int
        The labels.
    scopes : tuple of d tuples of int
        The scope of each label, by label, in the order of elimination.
    sizes : tuple of d int
        Number of values of each label, by label.
    """

    order: tuple[int, ...]
    scopes: tuple[tuple[int, ...], ...]
    sizes: tuple[int, ...]

    @property
    def width(self) -> int:
        """Largest number of labels in a scope: the treewidth of the graph, or more."""
        return max(map(len, self.scopes))

    @cached_property
    def n_entries(self) -> int:
        """Number of entries of all the tables of one row."""
        return sum(math.prod(self.shape(v)) for v in self.order)

    @cached_property
    def place(self) -> dict[int, int]:
        """Position of each label in the order."""
        return {v: place for place, v in enumerate(self.order)}

    @cached_property
    def children(self) -> tuple[tuple[int, ...], ...]:
        """Labels whose messages each label receives; the last entry, -1, holds the roots."""
        children: list[list[int]] = [[] for _ in range(len(self.order) + 1)]
        for v in reversed(self.order):
            children[self.scopes[v][0] if self.scopes[v] else ROOT].append(v)
        return tuple(map(tuple, children))

    def axes(self, v: int) -> tuple[int, ...]:
        """Labels of the table of a label."""
        return (v, *self.scopes[v])

    def shape(self, v: int) -> tuple[int, ...]:
        """Shape of the table of a label, without the rows."""
        return tuple(self.sizes[i] for i in self.axes(v))

    def empty(self, v: int, n_rows: int) -> Array:
        """Return a table of a label to which no scores have been added."""
        return np.zeros((*self.shape(v), n_rows))

    def own(self, v: int, part: Array, *other: int) -> Array:
        """Return scores (K_v, m) of v, or (K_v, K, m) of v and another, as a part of v's table."""
        return aligned(part, (v, *other), self.axes(v))

    def received(self, v: int, child: int, message: Array) -> Array:
        """Return a child's message as a part of v's table."""
        return aligned(message, self.scopes[child], self.axes(v))

    def sent(self, v: int, child: int, prob: Array) -> Array:
        """Sum the table of v over all but the scope of a child."""
        return summed(prob, self.axes(v), self.scopes[child])

    def marginal(self, v: int, prob: Array, labels: tuple[int, ...]) -> Array:
        """Sum the table of v over all but v, or all but v and another, in the order asked."""
        return summed(prob, self.axes(v), labels)

    def state(self, v: int, chosen: Codes, states: dict[int, Indices]) -> Indices:
        """Return the state of the scope of v, given the entries chosen (..., d) of its labels."""
        codes = (chosen[..., i] for i in self.scopes[v])
        return _numbered(codes, [self.sizes[i] for i in self.scopes[v]], chosen.shape[:-1])

    def decode(self, chosen: Codes, states: dict[int, Indices]) -> None:
        """Make codes of the entries chosen (..., d), in place; here they are the same."""

    def merging(self, v: int) -> tuple[list[Indices], Indices]:
        """Return where in the children's lists their common states are, and these for each entry.

        Entries of v's table have the positions p K_v + value, p the state of the scope.
        """
        scopes = [self.scopes[child] for child in self.children[v]]
        joint = tuple(i for i in (*self.scopes[v], v) if any(i in s for s in scopes))
        lists = [self._positions(joint, scope) for scope in scopes]
        return lists, self._positions((*self.scopes[v], v), joint)

    def _positions(self, axes: Sequence[int], scope: Sequence[int]) -> Indices:
        """Position among the states of `scope` of each state of `axes`, the last fastest."""
        grid = np.indices([self.sizes[i] for i in axes]).reshape(len(axes), -1)
        codes = (grid[list(axes).index(i)] for i in scope)
        return _numbered(codes, [self.sizes[i] for i in scope], grid.shape[1:])


@dataclass(frozen=True, eq=False)
class ListedElimination(Elimination):
    """An order of elimination whose tables have only those entries that can occur.

    Where pairs of values are impossible in every row, as rules have it, these may be few though the
    scopes are wide. The table of a label is (R_v, G_v, m): for each of G_v states of its scope at
    most R_v values of the label.

    Attributes
    ----------
    listed : tuple of d arrays of shape (G_v, scope)
        The states, by label.
    values : tuple of d arrays of shape (R_v, G_v)
        The values that are possible in some row; -1 where there are fewer.
    places : dict of label to array of shape (R_p, G_p)
        Of a label whose scope begins with p, its state in each entry of the table of p.
    """

    listed: tuple[Codes, ...]
    values: tuple[Codes, ...]
    places: dict[int, Indices]

    def shape(self, v: int) -> tuple[int, ...]:
        """Shape of the table of a label, without the rows."""
        return self.values[v].shape

    def empty(self, v: int, n_rows: int) -> Array:
        """Return a table of a label to which no scores have been added."""
        table = super().empty(v, n_rows)
        table[self.values[v] < 0] = -np.inf
        return table

    def own(self, v: int, part: Array, *other: int) -> Array:
        """Return scores (K_v, m) of v, or (K_v, K, m) of v and another, as a part of v's table."""
        found: Array = part[(self.values[v], *(self._codes(v, i) for i in other))]
        return found

    def received(self, v: int, child: int, message: Array) -> Array:
        """Return a child's message as a part of v's table."""
        found: Array = message[self.places[child]]
        return found

    def sent(self, v: int, child: int, prob: Array) -> Array:
        """Sum the table of v over all but the scope of a child."""
        return _summed_by(self.places[child], len(self.listed[child]), prob)

    def marginal(self, v: int, prob: Array, labels: tuple[int, ...]) -> Array:
        """Sum the table of v over all but v, or all but v and another, in the order asked."""
        shape = tuple(self.sizes[i] for i in labels)
        place = _numbered((self._codes(v, i) for i in labels), shape, self.shape(v))
        return _summed_by(place, math.prod(shape), prob).reshape(*shape, prob.shape[-1])

    def _codes(self, v: int, i: int) -> Codes:
        """Return the value of v itself or of a label of its scope in the entries of its table."""
        if i == v:
            return np.maximum(self.values[v], 0)
        return np.broadcast_to(self.listed[v][:, self.scopes[v].index(i)], self.values[v].shape)

    def state(self, v: int, chosen: Codes, states: dict[int, Indices]) -> Indices:
        """Return the state of the scope of v, given the entries chosen (..., d) of its labels."""
        states[v] = np.zeros(chosen.shape[:-1], dtype=np.intp)
        if self.scopes[v]:
            parent = self.scopes[v][0]
            states[v] = self.places[v][chosen[..., parent], states[parent]]
        return states[v]

    def decode(self, chosen: Codes, states: dict[int, Indices]) -> None:
        """Make codes of the entries chosen (..., d), in place."""
        for v, values in enumerate(self.values):
            chosen[..., v] = np.maximum(values[chosen[..., v], states[v]], 0)

    def merging(self, v: int) -> tuple[list[Indices], Indices]:
        """Return where in the children's lists their common states are, and these for each entry.

        All entries of the table: there are few.
        """
        lists = [self.places[child].T.ravel() for child in self.children[v]]
        return lists, np.arange(self.values[v].size)


def _summed_by(place: Indices, size: int, prob: Array) -> Array:
    """Sum the entries (..., m) of a table that have the same place (...): (size, m)."""
    flat = place.ravel()
    ones = sp.csr_array((np.ones(flat.size), (flat, np.arange(flat.size))), (size, flat.size))
    return np.asarray(ones @ prob.reshape(flat.size, prob.shape[-1]))


@lru_cache(maxsize=16)
def eliminate_listed(
    sizes: tuple[int, ...],
    edges: tuple[tuple[int, int], ...],
    possible: tuple[bytes, ...],
    most_entries: int,
) -> ListedElimination | None:
    """Return an elimination of the states that can occur, None once they exceed `most_entries`.

    `possible` has the bytes of flags, whether values (K_i,) of each label and pairs (K_i, K_j) of
    each edge are possible in some row.
    """
    order = eliminate(sizes, edges, None)
    assert order is not None
    single = [np.frombuffer(own, dtype=bool) for own in possible[: len(sizes)]]
    masks = {}
    for (i, j), pair in zip(edges, possible[len(sizes) :], strict=True):
        masks[i, j] = np.frombuffer(pair, dtype=bool).reshape(sizes[i], sizes[j])
        masks[j, i] = masks[i, j].T
    listed: dict[int, Codes] = {}
    values: dict[int, Codes] = {}
    places: dict[int, Indices] = {}
    n_entries = 0
    for v in order.order:
        # join the states of the children with the values of the labels that they lack
        labels: list[int] = []
        codes, lacking = np.empty((1, 0), dtype=np.int32), list(order.axes(v))
        waiting = sorted(order.children[v], key=lambda c: len(order.scopes[c]))
        if waiting:
            child = waiting.pop()
            labels, codes = list(order.scopes[child]), listed[child]
            lacking = [i for i in lacking if i not in labels]
        while True:
            for child in [c for c in waiting if set(order.scopes[c]) <= set(labels)]:
                waiting.remove(child)
                part = codes[:, [labels.index(i) for i in order.scopes[child]]]
                codes = codes[_positions(part, listed[child], order, child) >= 0]
            if not lacking:
                break
            i = lacking.pop(0)
            own = np.flatnonzero(single[i]).astype(np.int32)
            codes = np.column_stack([np.repeat(codes, len(own), axis=0), np.tile(own, len(codes))])
            keep = np.ones(len(codes), dtype=bool)
            for column, other in enumerate(labels):
                if (other, i) in masks:
                    keep &= masks[other, i][codes[:, column], codes[:, -1]]
            codes, labels = codes[keep], [*labels, i]
            if n_entries + len(codes) > most_entries:
                return None
        # the states of the scope, and where in v's table they and those of the children are
        columns = [labels.index(i) for i in order.scopes[v]]
        if not len(codes):  # nothing can occur: an entry that is impossible
            listed[v], at = np.zeros((1, len(columns)), dtype=np.int32), np.empty(0, dtype=np.intp)
        else:
            keys = _keys(codes[:, columns], [sizes[i] for i in order.scopes[v]])
            _, one, at = np.unique(keys, return_index=True, return_inverse=True)
            listed[v] = codes[one][:, columns]
        # one entry after the other of each state
        by_state = np.argsort(at, kind="stable")
        codes, at = codes[by_state], at[by_state]
        rank = np.arange(len(at)) - np.searchsorted(at, at)
        values[v] = np.full((int(rank.max(initial=0)) + 1, len(listed[v])), -1, dtype=np.int32)
        values[v][rank, at] = codes[:, labels.index(v)]
        n_entries += values[v].size
        for child in order.children[v]:
            part = codes[:, [labels.index(i) for i in order.scopes[child]]]
            places[child] = np.zeros(values[v].shape, dtype=np.intp)
            places[child][rank, at] = _positions(part, listed[child], order, child)
    lists, each = (tuple(of[v] for v in range(len(sizes))) for of in (listed, values))
    return ListedElimination(order.order, order.scopes, sizes, lists, each, places)


def _positions(codes: Codes, listed: Codes, order: Elimination, v: int) -> Indices:
    """Return where states (m, scope) of the scope of v are listed, -1 where they are not."""
    both = _keys(np.concatenate([listed, codes]), [order.sizes[i] for i in order.scopes[v]])
    keys, asked = both[: len(listed)], both[len(listed) :]
    by_key = np.argsort(keys)
    at = by_key[np.minimum(np.searchsorted(keys, asked, sorter=by_key), len(keys) - 1)]
    return np.where(keys[at] == asked, at, -1)


def _keys(codes: Codes, sizes: Sequence[int]) -> Indices:
    """Return numbers (m,) that are equal where states (m, k) are."""
    if math.prod(sizes) > np.iinfo(np.int64).max:
        return np.unique(codes, axis=0, return_inverse=True)[1].ravel()
    return _numbered(codes.T, sizes, codes.shape[:1])


def _numbered(codes: Iterable[Codes], sizes: Sequence[int], shape: tuple[int, ...]) -> Indices:
    """Return the number of each state: its codes as digits, the last fastest."""
    number = np.zeros(shape, dtype=np.intp)
    for code, size in zip(codes, sizes, strict=True):
        number = number * size + code
    return number


@lru_cache(maxsize=64)  # batches of rows share their graph
def eliminate(
    sizes: tuple[int, ...], edges: tuple[tuple[int, int], ...], most_entries: int | None
) -> Elimination | None:
    """Return a min-fill elimination order, or None once its tables exceed `most_entries`.

    The label that joins the fewest pairs of neighbours goes first; in a tie the one with the
    smaller table, then the first.
    """
    around: list[set[int]] = [set() for _ in sizes]
    for i, j in edges:
        around[i].add(j)
        around[j].add(i)
    left = set(range(len(sizes)))
    fill, tables = {}, {}
    changed = set(left)
    scopes: dict[int, set[int]] = {}
    n_entries = 0
    while left:
        for i in changed & left:  # pairs of neighbours that are not joined yet
            joined = sum(len(around[j] & around[i]) for j in around[i])
            fill[i] = (len(around[i]) * (len(around[i]) - 1) - joined) // 2
            tables[i] = math.prod(sizes[j] for j in around[i]) * sizes[i]
        v = min(left, key=lambda i: (fill[i], tables[i], i))
        n_entries += tables[v]
        if most_entries and (n_entries > most_entries or len(around[v]) > _MOST_AXES):
            return None
        scopes[v], changed = around[v], set(around[v])
        left.remove(v)
        for i in around[v]:
            around[i] |= around[v]
            around[i] -= {i, v}
            changed |= around[i]
    place = {v: p for p, v in enumerate(scopes)}
    ordered = [tuple(sorted(scopes[v], key=place.__getitem__)) for v in range(len(sizes))]
    return Elimination(tuple(scopes), tuple(ordered), sizes)


def aligned(part: Array, labels: Sequence[int], axes: Sequence[int]) -> Array:
    """Insert axes of length one, so that a part over `labels` broadcasts over `axes`."""
    before = part.ndim - len(labels) - 1  # of a long number
    sizes = dict(zip(labels, part.shape[before:], strict=False))  # the rows' axis stays last
    return part.reshape(*part.shape[:before], *(sizes.get(i, 1) for i in axes), part.shape[-1])


def upward(
    elimination: Elimination, tables: Sequence[Array], far: bool = False
) -> tuple[list[Array], Array]:
    """Eliminate all labels; return log P(v | scope) of each, and the log-total (m,) or (3, m)."""
    messages: dict[int, Array] = {}
    conditionals = [np.empty(0)] * len(tables)
    for v in elimination.order:
        table = tables[v]
        if elimination.children[v]:
            table = table.copy()
        for child in elimination.children[v]:
            part = elimination.received(v, child, messages.pop(child))
            if far:
                for term in part:
                    add_to(table, term)
            else:
                table += part
        if far:
            messages[v] = long_log_sum_exp(table)
            total = rounded(messages[v])
            given = np.minimum(less(table, messages[v][:, None]), 0.0)
        else:
            messages[v] = total = log_sum_exp(table, axis=0)
            given = table - np.where(np.isneginf(total), 0.0, total)
        # Where the scope's values are impossible the conditional is never used, so any will do.
        impossible = np.isneginf(total)
        if impossible.any():
            np.copyto(given, -math.log(len(given)), where=impossible)
        conditionals[v] = given
    roots = [messages[v] for v in elimination.children[ROOT]]
    if far:
        return conditionals, long_sum([t for root in roots for t in root], roots[0].shape[1:])
    return conditionals, sum(roots[1:], start=roots[0])


def downward(
    elimination: Elimination, conditionals: Sequence[Array]
) -> Iterator[tuple[int, Array]]:
    """Yield labels v with P(v, scope), last eliminated first, of log P(v | scope).

    P(v, scope) = P(v | scope) P(scope), and P(scope) is a sum of the parent's table.
    """
    waiting = [len(children) for children in elimination.children]
    probs: dict[int, Array] = {}
    for v in reversed(elimination.order):
        prob = np.exp(conditionals[v])
        if elimination.scopes[v]:
            parent = elimination.scopes[v][0]
            prob *= elimination.sent(parent, v, probs[parent])
            waiting[parent] -= 1
            if not waiting[parent]:
                del probs[parent]
        if waiting[v]:
            probs[v] = prob
        yield v, prob


def summed(prob: Array, axes: tuple[int, ...], kept: tuple[int, ...]) -> Array:
    """Sum a table over all its axes but those of the labels kept; these come in the order asked."""
    away = tuple(place for place, i in enumerate(axes) if i not in kept)
    table: Array = prob.sum(axis=away) if away else prob
    left = [i for i in axes if i in kept]
    return table.transpose(*(left.index(i) for i in kept), len(kept))


def expected_log(prob: Array, log: Array) -> Array:
    """Sum prob times log (..., m) over all but the rows, where 0 times -inf is 0."""
    terms = prob * np.where(np.isneginf(log), 0.0, log)
    return np.asarray(terms.sum(axis=tuple(range(terms.ndim - 1))))


def sample(
    elimination: Elimination, conditionals: Sequence[Array], size: int, rng: Generator
) -> Codes:
    """Draw codes (size, m, d): labels in reverse order, each given its scope."""
    n_rows = conditionals[0].shape[-1]
    codes = np.empty((size, n_rows, len(conditionals)), dtype=np.int32)
    states: dict[int, Indices] = {}
    for v in reversed(elimination.order):
        n_values, *above = elimination.shape(v)
        table = np.moveaxis(conditionals[v].reshape(n_values, math.prod(above), n_rows), 0, -1)
        # (size, m, K_v)
        log_prob = table[elimination.state(v, codes, states), np.arange(n_rows)]
        codes[:, :, v] = draw(log_prob, rng.random((size, n_rows)))
    elimination.decode(codes, states)
    return codes


def draw(log_prob: Array, uniform: Array) -> Indices:
    """Invert the distribution function: log_prob (..., K) and uniform [0, 1) draws (...)."""
    cumulated = np.exp(log_prob).cumsum(axis=-1)
    # Dividing makes the last value exactly 1, so a state of probability zero is never drawn.
    cumulated /= cumulated[..., -1:]
    drawn: Indices = (uniform[..., None] >= cumulated[..., :-1]).sum(axis=-1)
    return drawn


# Lists of the best


class Merged(NamedTuple):
    """The best sums of entries of several lists, and how to find them again.

    All the entries of a list are different vectors, so impossible ones (-inf) are listed too
    when there are not enough possible ones.

    Attributes
    ----------
    score : (m, S, L)
        Descending along the last axis.
    merges : list of (left, right, chosen)
        Of two lists at a time: ranks in both of each candidate pair, and the candidates (m, S, L)
        that won.
    """

    score: Array
    merges: list[tuple[Indices, Indices, Indices]]

    def ranks(self, rows: Indices, states: Indices | Codes, rank: Indices) -> list[Indices]:
        """Ranks (n, k) in each of the lists behind the ranks (n, k) in the merged one."""
        ranks = []
        for left, right, chosen in reversed(self.merges):
            pair = chosen[rows, states, rank]
            ranks.append(right[pair])
            rank = left[pair]
        return [rank, *reversed(ranks)]


def merged(lists: Sequence[Array], k: int) -> Merged:
    """Merge lists (m, S, L), one after the other, keeping the k best sums.

    Ties go to the candidate that comes first: the smaller rank in the first list, then in the
    second.
    """
    score, merges = lists[0], []
    for part in lists[1:]:
        left, right = _pairs(score.shape[-1], part.shape[-1], k)
        score, chosen = leading(score[..., left] + part[..., right], k)
        merges.append((left, right, chosen))
    return Merged(score, merges)


def _pairs(n_left: int, n_right: int, k: int) -> tuple[Indices, Indices]:
    """Rank pairs (a, b) that can be among the k best sums of two descending lists.

    The (a + 1)(b + 1) pairs with ranks up to (a, b) are no worse than (a, b) and come first in a
    tie, so only those with (a + 1)(b + 1) <= k remain: about k log k instead of k^2.
    """
    widths = [min(n_right, k // (a + 1)) for a in range(min(n_left, k))]
    left = np.repeat(np.arange(len(widths)), widths)
    right = np.concatenate([np.arange(width) for width in widths])
    return left, right


def leading(scores: Array, k: int) -> tuple[Array, Indices]:
    """Return the k largest of the last axis in descending order, and their positions."""
    if k == 1 and scores.shape[-1] <= _FEW:
        # for such a short axis, comparing its slices is several times faster than a reduction
        best, first = scores[..., 0].copy(), np.zeros(scores.shape[:-1], dtype=np.intp)
        for j in range(1, scores.shape[-1]):
            better = scores[..., j] > best
            np.copyto(best, scores[..., j], where=better)
            np.copyto(first, j, where=better)
        return best[..., None], first[..., None]
    if k == 1:
        position = scores.argmax(axis=-1)[..., None]
    else:
        position = np.argsort(-scores, axis=-1, kind="stable")[..., :k]
    return np.take_along_axis(scores, position, axis=-1), position


def k_best(elimination: Elimination, tables: Sequence[Array], k: int) -> tuple[Codes, Array]:
    """Return codes (m, k, d) and scores (m, k), best first; k at most the number of vectors.

    Of listed entries there may be fewer. Here tables have their rows first and their entries flat:
    (m, S), where the entry of value v of the label and state p of its scope has the position
    p K_v + v. Ties go to the smaller value, then to the smaller rank in the lists of the children.
    """
    n_rows = tables[0].shape[-1]
    below: dict[int, Merged] = {}  # of the children, over the labels of their scopes
    at: dict[int, Indices] = {}  # where in these lists each entry of a table is
    messages: dict[int, Array] = {}
    picked: dict[int, Indices] = {}  # value K' + rank, by state of the scope and rank
    for v in elimination.order:
        size, n_above = elimination.shape(v)[0], math.prod(elimination.shape(v)[1:])
        flat = np.moveaxis(tables[v], (-1, 0), (0, -1)).reshape(n_rows, n_above * size, 1)
        children = elimination.children[v]
        if children:
            places, at[v] = elimination.merging(v)
            pairs = zip(children, places, strict=True)
            below[v] = merged([messages.pop(child)[:, place] for child, place in pairs], k)
            flat = flat + below[v].score[:, at[v]]
        # One state of the scope after the other: each chooses among the values of the label.
        score, picked[v] = leading(flat.reshape(n_rows, n_above, size * flat.shape[2]), k)
        messages[v] = score
    roots = elimination.children[ROOT]
    root = merged([messages[v] for v in roots], k)
    k = root.score.shape[2]
    rows, states = np.arange(n_rows)[:, None], np.zeros((n_rows, k), dtype=np.intp)
    ranks = root.ranks(rows, states, np.broadcast_to(np.arange(k), (n_rows, k)))
    rank_of = dict(zip(roots, ranks, strict=True))
    codes = np.empty((n_rows, k, len(tables)), dtype=np.int32)
    of_scope: dict[int, Indices] = {}
    for v in reversed(elimination.order):
        state = elimination.state(v, codes, of_scope)
        chosen = picked[v][rows, state, rank_of.pop(v)]
        if v not in below:
            codes[:, :, v] = chosen
            continue
        codes[:, :, v], rank = np.divmod(chosen, below[v].score.shape[-1])
        state = at[v][state * elimination.shape(v)[0] + codes[:, :, v]]
        ranks = below[v].ranks(rows, state, rank)
        rank_of.update(zip(elimination.children[v], ranks, strict=True))
    elimination.decode(codes, of_scope)
    return codes, root.score[:, 0]
