"""Exact inference by variable elimination: the junction tree of a pairwise field.

Within a chunk of m rows a table over labels a, b, ... is an array (K_a, K_b, ..., m): rows come
last, so that every operation runs over them. The table of a bucket has the axes of its label, of
its scope, and of the rows.

Eliminating label v joins v with its neighbours at that time, its *scope*, into one table over v and
the scope, and leaves a message over the scope behind. The tables and messages form a tree: the
message of v goes to the table of that label of its scope that is eliminated next.

The k best vectors come from the same elimination, with a list of the k best scores in every entry
of a table instead of one sum. There tables have their rows first and their entries flat: (m, S),
where the entry of value v of the label and state p of its scope has the position p K_v + v.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.random import Generator

from colabel.core.arrays import Array, Codes, Indices
from colabel.core.chunks import row_slices
from colabel.core.threads import map_threads
from colabel.joint._long_sums import less, long_log_sum_exp, long_sum, rounded
from colabel.joint._semiring import Best, KBest
from colabel.joint.exactness import EXACT, Exactness
from colabel.joint.field._engine import Convergence, FieldOptions, FieldSums, pair_by_conditioning
from colabel.joint.field._tables import Edge, FieldTables
from colabel.joint.tree.passes import draw, split_ranks

NO_PARENT = -1
_MOST_AXES = 60  # NumPy arrays have at most 64


class Bucket(NamedTuple):
    """The table that eliminates a label.

    Attributes
    ----------
    label : int
        The label v.
    scope : tuple of int
        Its neighbours at that time, in the order of their elimination.
    edges : tuple of int
        The edges of the field between v and labels eliminated later: they enter here.
    children : tuple of int
        The labels whose messages arrive here.
    """

    label: int
    scope: tuple[int, ...]
    edges: tuple[int, ...]
    children: tuple[int, ...]

    @property
    def parent(self) -> int:
        """The label whose table receives the message; NO_PARENT for the last label."""
        return self.scope[0] if self.scope else NO_PARENT


@dataclass(frozen=True, eq=False)
class Elimination:
    """An elimination order of a connected field and its buckets.

    Attributes
    ----------
    buckets : tuple of d Bucket
        In the order of elimination.
    sizes : tuple of d int
        Number of values of each label, by label.
    """

    buckets: tuple[Bucket, ...]
    sizes: tuple[int, ...]

    @property
    def width(self) -> int:
        """Largest number of labels in a scope: the treewidth of the graph, or more."""
        return max(len(bucket.scope) for bucket in self.buckets)

    @cached_property
    def n_entries(self) -> int:
        """Number of entries of all the tables of one row."""
        return sum(
            math.prod(self.sizes[i] for i in (bucket.label, *bucket.scope))
            for bucket in self.buckets
        )

    @cached_property
    def scopes(self) -> dict[int, tuple[int, ...]]:
        """The scope of each label."""
        return {bucket.label: bucket.scope for bucket in self.buckets}

    def table(self, field: FieldTables, bucket: Bucket, messages: dict[int, Array]) -> Array:
        """Return the sum of all scores and messages of a bucket, (K_v, *K_scope, m).

        Rows come last. The messages, by the label that sends them, are used up; those that are
        not there are left out.
        """
        table = np.zeros((*self.shape(bucket), field.n_rows))
        for term in self.terms(field, bucket, messages):
            table += term
        return table

    def shape(self, bucket: Bucket) -> tuple[int, ...]:
        """Return the numbers of values of a bucket's label and of its scope."""
        return tuple(self.sizes[i] for i in (bucket.label, *bucket.scope))

    def terms(
        self, field: FieldTables, bucket: Bucket, messages: dict[int, Array]
    ) -> Iterator[Array]:
        """Yield the scores and messages of a bucket; a message may be a long number."""
        axes = (bucket.label, *bucket.scope)
        yield _aligned(field.unary[bucket.label].T, (bucket.label,), axes)
        for e in bucket.edges:
            i, j = field.edges[e]
            pair = field.tables[e].transpose(1, 2, 0)
            if axes.index(i) > axes.index(j):
                i, j, pair = j, i, pair.transpose(1, 0, 2)
            yield _aligned(pair, (i, j), axes)
        for child in bucket.children:
            if child in messages:
                message, scope = messages.pop(child), self.scopes[child]
                parts = message if message.ndim > len(scope) + 1 else [message]
                yield from (_aligned(part, scope, axes) for part in parts)


def _aligned(part: Array, labels: Sequence[int], axes: Sequence[int]) -> Array:
    """Insert axes of length one, so that a part over `labels` broadcasts over `axes`."""
    sizes = dict(zip(labels, part.shape, strict=False))  # the rows' axis stays last
    return part.reshape(*(sizes.get(i, 1) for i in axes), part.shape[-1])


def eliminate(field: FieldTables, most_entries: int) -> Elimination | None:
    """Return a min-fill elimination order, or None once its tables exceed `most_entries`.

    The label that joins the fewest pairs of neighbours goes first; in a tie the one with the
    smaller table, then the first.
    """
    return _eliminated(field.cardinalities, field.edges, most_entries)


@lru_cache(maxsize=64)  # rows come and go, the graph stays
def _eliminated(
    sizes: tuple[int, ...], edges: tuple[Edge, ...], most_entries: int
) -> Elimination | None:
    around: list[set[int]] = [set() for _ in sizes]
    for i, j in edges:
        around[i].add(j)
        around[j].add(i)
    left = set(range(len(sizes)))
    fill = {i: _fill(around, i) for i in left}
    scopes: dict[int, set[int]] = {}
    n_entries = 0
    tables = {i: math.prod(sizes[j] for j in around[i]) * sizes[i] for i in left}
    while left:
        v = min(left, key=lambda i: (fill[i], tables[i], i))
        n_entries += tables[v]
        if n_entries > most_entries or len(around[v]) > _MOST_AXES:
            return None
        scopes[v] = around[v]
        left.remove(v)
        changed = set(around[v])
        for i in around[v]:
            around[i] |= around[v]
            around[i] -= {i, v}
            changed |= around[i]
        for i in changed & left:
            fill[i] = _fill(around, i)
            tables[i] = math.prod(sizes[j] for j in around[i]) * sizes[i]
    return Elimination(_buckets(edges, scopes), sizes)


def _fill(around: Sequence[set[int]], i: int) -> int:
    """Number of pairs of neighbours of i that are not joined yet."""
    others = around[i]
    joined = sum(len(around[j] & others) for j in others)
    return (len(others) * (len(others) - 1) - joined) // 2


def _buckets(edges_of: Sequence[Edge], scopes: dict[int, set[int]]) -> tuple[Bucket, ...]:
    """Return the buckets of an elimination order, the keys of `scopes`."""
    place = {v: p for p, v in enumerate(scopes)}
    sorted_scopes = {v: tuple(sorted(s, key=place.__getitem__)) for v, s in scopes.items()}
    edges: dict[int, list[int]] = {v: [] for v in scopes}
    for e, (i, j) in enumerate(edges_of):
        edges[min(i, j, key=place.__getitem__)].append(e)
    children: dict[int, list[int]] = {v: [] for v in scopes}
    for v, scope in sorted_scopes.items():
        if scope:
            children[scope[0]].append(v)
    return tuple(
        Bucket(v, scope, tuple(edges[v]), tuple(children[v])) for v, scope in sorted_scopes.items()
    )


def k_best_rows(
    field: FieldTables,
    elimination: Elimination,
    k: int,
    n_jobs: int | None,
    tables_of: Callable[[FieldTables], dict[int, Array]] | None = None,
) -> tuple[Codes, Array]:
    """Return codes (n, k, d) and scores (n, k), best first; k at most the number of vectors.

    `tables_of` some rows, the table of each label and its scope (K_v, *K_scope, m), are the scores
    of the field by default.
    """
    k = min(k, math.prod(elimination.sizes))
    chunks = row_slices(field.n_rows, _CHUNK_ELEMENTS, elimination.n_entries * k)

    def work(chunk: slice) -> tuple[Codes, Array]:
        part = field.rows(chunk)
        return _k_best(part, elimination, k, tables_of(part) if tables_of else None)

    parts = map_threads(work, chunks, n_jobs, lambda: None)
    return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])


def _k_best(
    field: FieldTables, elimination: Elimination, k: int, tables: dict[int, Array] | None
) -> tuple[Codes, Array]:
    """Pass upward with lists, then read the choices back."""
    ring = KBest(k)
    beliefs: dict[int, Best] = {}
    messages: dict[int, Best] = {}
    for bucket in elimination.buckets:
        size = elimination.sizes[bucket.label]
        weight = tables[bucket.label] if tables else elimination.table(field, bucket, {})
        n_states = math.prod(weight.shape[:-1])
        flat = np.moveaxis(weight, (-1, 0), (0, -1)).reshape(field.n_rows, n_states)
        parts = []
        for child in bucket.children:
            at = _positions(elimination, bucket, elimination.scopes[child])
            parts.append(Best(messages[child].score[:, at], [], None))
        belief = ring.product(flat, parts)
        beliefs[bucket.label] = belief
        # One state of the scope after the other: each chooses among the values of the label.
        n_above = n_states // size
        lists = belief.score.reshape(field.n_rows * n_above, size, belief.score.shape[-1])
        found = ring.total(np.zeros((1, 1, size)), Best(lists, [], None))
        assert found.picked is not None  # a message always records its choice
        shape = (field.n_rows, n_above, found.score.shape[-1])
        messages[bucket.label] = Best(found.score.reshape(shape), [], found.picked.reshape(shape))
    codes = _read_back(elimination, beliefs, messages, field.n_rows, k)
    return codes, messages[elimination.buckets[-1].label].score[:, 0]


def _positions(elimination: Elimination, bucket: Bucket, scope: tuple[int, ...]) -> Indices:
    """Position in a message over `scope` that belongs to each entry of a bucket's table (S,)."""
    axes = (*bucket.scope, bucket.label)
    grid = np.indices([elimination.sizes[i] for i in axes]).reshape(len(axes), -1)
    found = np.zeros(grid.shape[1], dtype=np.intp)
    for i in scope:
        found = found * elimination.sizes[i] + grid[axes.index(i)]
    return found


def _read_back(
    elimination: Elimination,
    beliefs: dict[int, Best],
    messages: dict[int, Best],
    n_rows: int,
    k: int,
) -> Codes:
    """Follow the choices from the last label eliminated to the first: codes (m, k, d)."""
    codes = np.empty((n_rows, k, len(elimination.buckets)), dtype=np.int32)
    rows = np.arange(n_rows)[:, None]
    last = elimination.buckets[-1].label
    rank_of: dict[int, Indices] = {last: np.broadcast_to(np.arange(k), (n_rows, k))}
    for bucket in reversed(elimination.buckets):
        v = bucket.label
        belief, picked = beliefs[v], messages[v].picked
        assert picked is not None
        above = np.zeros((n_rows, k), dtype=np.intp)
        for i in bucket.scope:
            above = above * elimination.sizes[i] + codes[:, :, i]
        chosen = picked[rows, above, rank_of.pop(v)]
        codes[:, :, v], rank = np.divmod(chosen, belief.score.shape[-1])
        if bucket.children:
            at = above * elimination.sizes[v] + codes[:, :, v]
            rank_of.update(zip(bucket.children, split_ranks(belief, rows, at, rank), strict=True))
    return codes


_CHUNK_ELEMENTS = 2**19  # entries of all tables or lists of a chunk of rows: 4 MB
# Below this many rows NumPy's own time for an operation outweighs that of the numbers.
_FEWEST_ROWS = 64


class Upward(NamedTuple):
    """What an elimination leaves behind, by label."""

    conditionals: dict[int, Array]  # log P(y_v | y_scope), (K_v, *K_scope, m)
    log_partition: Array  # (3, m), a long number


class JunctionTree:
    """Exact answers by variable elimination.

    Parameters
    ----------
    field : FieldTables
        A connected field.
    elimination : Elimination
        The order.
    options : FieldOptions
        `n_jobs` and `memory` count.
    """

    name: ClassVar[str] = "junction_tree"
    exact: Exactness = EXACT

    def __init__(self, field: FieldTables, elimination: Elimination, options: FieldOptions) -> None:
        self._field = field
        self._elimination = elimination
        self._options = options

    # Answers

    def sums(self) -> FieldSums:
        """Return the partition function and the marginals, computed once."""
        return self._with_edges[0]

    def edge_tables(self) -> list[Array]:
        """Return P(y_i, y_j) of every edge as arrays (n, K_i, K_j)."""
        return self._with_edges[1]

    def pair_table(self, i: int, j: int) -> Array:
        """Return P(y_i, y_j) of any two different labels, (n, K_i, K_j)."""
        edge = (min(i, j), max(i, j))
        if edge in self._field.edges:
            table = self.edge_tables()[self._field.edges.index(edge)]
            return table if i < j else table.transpose(0, 2, 1)
        return pair_by_conditioning(
            self._field,
            i,
            j,
            self.sums().marginals[i],
            lambda field: JunctionTree(field, self._elimination, self._options).sums(),
        )

    def entropy(self) -> Array:
        """Return the entropy (n,) in nats."""
        sums, pairs, entropy = self._with_edges
        if self._field.is_far:
            return entropy
        return self._field.entropy(sums.log_partition, sums.marginals, pairs)

    def k_best(self, k: int) -> tuple[Codes, Array]:
        """Return codes (n, k, d) and scores (n, k), best first, up to a constant per row."""
        if not self._field.is_far:
            return k_best_rows(self._field, self._elimination, k, self._options.n_jobs)
        # Log-conditionals are never positive, so that nothing cancels in their sums.
        return k_best_rows(
            self._field,
            self._elimination,
            k,
            self._options.n_jobs,
            lambda part: _upward(part, self._elimination).conditionals,
        )

    def sample(self, size: int, rng: Generator) -> Codes:
        """Return draws (size, n, d): labels in reverse order, each given its scope."""
        codes = np.empty((size, self._field.n_rows, self._field.n_labels), dtype=np.int32)
        for chunk in self._chunks():
            field = self._field.rows(chunk)
            passed = _upward(field, self._elimination)
            rows = np.arange(field.n_rows)
            for bucket in reversed(self._elimination.buckets):
                above = tuple(codes[:, chunk, i] for i in bucket.scope)
                table = passed.conditionals[bucket.label]
                # (size, m, K_v), or (m, K_v) of a label with an empty scope
                chosen = np.moveaxis(table, 0, -1)[(*above, rows)]
                uniform = rng.random((size, field.n_rows))
                codes[:, chunk, bucket.label] = draw(chosen, uniform)
        return codes

    def treewidth(self) -> int | None:
        """Return the width of the elimination order."""
        return self._elimination.width

    def convergence(self) -> Convergence | None:
        """Return None: nothing iterates."""
        return None

    def note(self) -> str:
        """Return the size of the tables."""
        return f"{self._elimination.n_entries} table entries a row"

    # Passes

    @cached_property
    def _with_edges(self) -> tuple[FieldSums, list[Array], Array]:
        def work(chunk: slice) -> tuple[Array, list[Array], list[Array], Array]:
            return _sums(self._field.rows(chunk), self._elimination, self._field.is_far)

        parts = map_threads(work, self._chunks(), self._options.n_jobs, lambda: None)
        log_partitions = [part[0] for part in parts]
        if self._field.is_far:  # not every chunk need be
            log_partitions = [long_sum(each, each.shape[1:]) for each in log_partitions]
        long = np.concatenate(log_partitions, axis=1)
        single = [np.concatenate(t) for t in zip(*(part[1] for part in parts), strict=True)]
        pairs = [np.concatenate(t) for t in zip(*(part[2] for part in parts), strict=True)]
        entropy = np.concatenate([part[3] for part in parts])
        log_partition = rounded(long) if len(long) == 3 else long[0]
        return FieldSums(log_partition, single, long), pairs, entropy

    def _chunks(self) -> list[slice]:
        entries = self._elimination.n_entries
        most = max(1, self._options.memory // (8 * entries))
        step = min(most, max(_FEWEST_ROWS, _CHUNK_ELEMENTS // entries))
        return row_slices(self._field.n_rows, step)


def _upward(field: FieldTables, elimination: Elimination) -> Upward:
    """Eliminate all labels: message_v(scope) = log sum_v exp(table_v(v, scope)).

    Where scores are far from zero, tables and messages are long numbers on the way.
    """
    messages: dict[int, Array] = {}
    conditionals: dict[int, Array] = {}
    message = np.zeros(field.n_rows)
    for bucket in elimination.buckets:
        if field.is_far:
            terms = elimination.terms(field, bucket, messages)
            shape = elimination.shape(bucket)
            long = long_sum(terms, (*shape, field.n_rows))
            messages[bucket.label] = long_log_sum_exp(long)
            table = np.minimum(less(long, messages[bucket.label][:, None]), 0.0)
            message = rounded(messages[bucket.label])
            impossible = np.isneginf(message)
        else:
            table = elimination.table(field, bucket, messages)
            messages[bucket.label] = message = _log_sum_first(table)
            impossible = np.isneginf(message)
            table -= np.where(impossible, 0.0, message)
        # Where the scope's values are impossible, any conditional will do: it is never reached.
        if impossible.any():
            np.copyto(table, -np.log(len(table)), where=impossible)
        conditionals[bucket.label] = table
    last = messages[elimination.buckets[-1].label]
    return Upward(conditionals, last if field.is_far else message[None])


def _log_sum_first(table: Array) -> Array:
    """Take log sum exp over the first axis, silently -inf where all is -inf."""
    top = table.max(axis=0)
    top[np.isneginf(top)] = 0.0
    with np.errstate(divide="ignore"):
        found: Array = np.log(np.exp(table - top).sum(axis=0))
    found += top
    return found


def _sums(
    field: FieldTables, elimination: Elimination, with_entropy: bool
) -> tuple[Array, list[Array], list[Array], Array]:
    """Return log Z (1 or 3, m), marginals (m, K_i) and edge marginals (m, K_i, K_j), entropy (m,).

    From the top down: P(v, scope) = P(v | scope) P(scope), and P(scope) is a sum of the parent's
    table; the entropy is that of the conditionals, -sum P(v, scope) log P(v | scope).
    """
    entropy = np.zeros(field.n_rows)
    passed = _upward(field, elimination)
    axes_of = {b.label: (b.label, *b.scope) for b in elimination.buckets}
    waiting = {b.label: len(b.children) for b in elimination.buckets}
    probs: dict[int, Array] = {}
    single: dict[int, Array] = {}
    pairs: dict[int, Array] = {}
    for bucket in reversed(elimination.buckets):
        v, parent = bucket.label, bucket.parent
        log_conditional = passed.conditionals.pop(v)
        prob = np.exp(log_conditional)
        if parent != NO_PARENT:
            prob *= _summed(probs[parent], axes_of[parent], bucket.scope)
            waiting[parent] -= 1
            if not waiting[parent]:
                del probs[parent]
        if with_entropy:
            entropy -= _expected(prob, log_conditional)
        single[v] = _summed(prob, axes_of[v], (v,)).T
        for e in bucket.edges:
            table = _summed(prob, axes_of[v], field.edges[e])
            pairs[e] = table.transpose(2, 0, 1)
        if waiting[v]:
            probs[v] = prob
    return (
        passed.log_partition,
        [single[i] for i in range(field.n_labels)],
        [pairs[e] for e in range(len(field.edges))],
        entropy,
    )


def _expected(prob: Array, log: Array) -> Array:
    """Sum prob times log (..., m) over all but the rows, where 0 times -inf is 0."""
    terms = prob * np.where(np.isneginf(log), 0.0, log)
    return np.asarray(terms.sum(axis=tuple(range(terms.ndim - 1))))


def _summed(prob: Array, axes: tuple[int, ...], kept: tuple[int, ...]) -> Array:
    """Sum a table over all its axes but those of the labels kept; these come in the order asked."""
    away = tuple(place for place, i in enumerate(axes) if i not in kept)
    found: Array = prob.sum(axis=away) if away else prob
    left = [i for i in axes if i in kept]
    order = [left.index(i) for i in kept]
    return found.transpose(*order, len(order))
