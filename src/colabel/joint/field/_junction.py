"""Exact inference by variable elimination: the junction tree of a pairwise field.

Within a chunk of m rows a table over labels a, b, ... is an array (K_a, K_b, ..., m): rows come
last, so that every operation runs over them. The table of a bucket has the axes of its label, of
its scope, and of the rows.
"""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.random import Generator

from colabel.core.arrays import Array, Codes
from colabel.core.chunks import row_slices
from colabel.core.threads import map_threads
from colabel.joint._long_sums import less, long_log_sum_exp, long_sum, rounded
from colabel.joint.exactness import EXACT, Exactness
from colabel.joint.field._elimination import NO_PARENT, Elimination
from colabel.joint.field._engine import FieldSums, pair_by_conditioning
from colabel.joint.field._k_best import k_best_rows
from colabel.joint.field._options import FieldOptions
from colabel.joint.field._report import Convergence
from colabel.joint.field._tables import FieldTables
from colabel.joint.tree.passes import draw

_CHUNK_ELEMENTS = 2**19  # entries of all tables of a chunk of rows: 4 MB
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
        return self._with_edges[2]

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
            return _sums(self._field.rows(chunk), self._elimination)

        parts = map_threads(work, self._chunks(), self._options.n_jobs, lambda: None)
        long = np.concatenate([part[0] for part in parts], axis=1)
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
    field: FieldTables, elimination: Elimination
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
