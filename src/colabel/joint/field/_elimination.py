"""Variable elimination: in which order, and what the tables on the way look like.

Eliminating label v joins v with its neighbours at that time, its *scope*, into one table over v
and the scope, and leaves a message over the scope behind. The tables and messages form a tree:
the message of v goes to the table of that label of its scope that is eliminated next.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np

from colabel.core.arrays import Array
from colabel.joint.field._tables import Edge, FieldTables

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
