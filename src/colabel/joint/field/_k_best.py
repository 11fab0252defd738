"""The k best label vectors of a pairwise field, by variable elimination with lists.

The same elimination as for probabilities, with a list of the k best scores in every entry of a
table instead of one sum. Here tables have their rows first and their entries flat: (m, S), where
the entry of value v of the label and state p of its scope has the position p K_v + v.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from colabel.core.arrays import Array, Codes, Indices
from colabel.core.chunks import row_slices
from colabel.core.threads import map_threads
from colabel.joint._semiring import Best, KBest
from colabel.joint.field._elimination import Bucket, Elimination
from colabel.joint.field._tables import FieldTables
from colabel.joint.tree.passes import split_ranks

_CHUNK_ELEMENTS = 2**19  # list entries of a chunk of rows


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
