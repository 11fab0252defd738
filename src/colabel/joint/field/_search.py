"""The best label vectors of a field too large for exact search: local search from good starts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from colabel.core.arrays import Array, Codes, Flags
from colabel.core.compiling import njit
from colabel.joint.field._flat import (
    FlatField,
    Wires,
    by_blocks,
    joined,
    move_label,
    set_fields,
)
from colabel.joint.field._tables import FieldTables

# Stands for -inf where differences are taken: exp of it is exactly zero.
WALL = -1e5
_GAIN = 1e-9  # a change must gain more than rounding errors


@njit(nogil=True, cache=True)
def _single_moves(wires: Wires, unary: Array, table: Array, labels: Codes, fields: Array) -> bool:
    """Give every label its best value, the others fixed; return whether any changed."""
    changed = False
    for i in range(labels.size):
        first = wires.first[i]
        here = first + labels[i]
        best, top = labels[i], unary[here] + fields[here] + _GAIN
        for v in range(wires.first[i + 1] - first):
            if unary[first + v] + fields[first + v] > top:
                best, top = v, unary[first + v] + fields[first + v]
        if best != labels[i]:
            move_label(wires, table, fields, i, labels[i], best)
            labels[i] = best
            changed = True
    return changed


@njit(nogil=True, cache=True)
def _pair_moves(wires: Wires, unary: Array, table: Array, labels: Codes, fields: Array) -> bool:
    """Give every two neighbours their best pair of values; return whether any changed."""
    changed = False
    for i in range(labels.size):
        a = wires.first[i]
        for s in range(wires.start[i], wires.start[i + 1]):
            j = wires.other[s]
            if j < i:
                continue
            b, at = wires.first[j], wires.table[s]
            x, y = labels[i], labels[j]
            best_v, best_w, top = x, y, _GAIN
            for v in range(wires.first[i + 1] - a):
                for w in range(wires.first[j + 1] - b):
                    # each field counts the table once, at the present value of the other end
                    own = wires.own[s]
                    gain = unary[a + v] - unary[a + x] + fields[a + v] - fields[a + x]
                    gain += unary[b + w] - unary[b + y] + fields[b + w] - fields[b + y]
                    gain += table[at + own * v + w] - table[at + own * v + y]
                    gain += table[at + own * x + y] - table[at + own * x + w]
                    if gain > top:
                        best_v, best_w, top = v, w, gain
            if best_v != x:
                move_label(wires, table, fields, i, x, best_v)
                labels[i] = best_v
            if best_w != y:
                move_label(wires, table, fields, j, y, best_w)
                labels[j] = best_w
            changed = changed or best_v != x or best_w != y
    return changed


@njit(nogil=True, cache=True)
def _climb_rows(flat: FlatField, labels: Codes) -> None:
    """Improve labels (m, d) until no change of one label, or of two neighbours, helps."""
    fields = np.empty(flat.unary.shape[1])
    for r in range(len(labels)):
        table = flat.tables[r if len(flat.tables) > 1 else 0]
        set_fields(flat.wires, table, labels[r], fields)
        moving = True
        while moving:
            while _single_moves(flat.wires, flat.unary[r], table, labels[r], fields):
                pass
            moving = _pair_moves(flat.wires, flat.unary[r], table, labels[r], fields)


@njit(nogil=True, cache=True)
def _conditional_scores(flat: FlatField, labels: Codes, found: Array) -> None:
    """Set found (m, C) to the score of each value of each label, the others as in labels (m, d)."""
    for r in range(len(labels)):
        set_fields(flat.wires, flat.tables[r if len(flat.tables) > 1 else 0], labels[r], found[r])
        found[r] += flat.unary[r]


def walled(flat: FlatField) -> FlatField:
    """Return the field with low scores instead of -inf, so that differences are numbers."""
    return FlatField(flat.wires, np.maximum(flat.unary, WALL), np.maximum(flat.tables, WALL))


def climbed(field: FieldTables, wires: Wires, starts: Sequence[Codes], n_jobs: int | None) -> Codes:
    """Improve each start (n, d) by changing labels, and return the best of each row (n, d)."""

    def work(flat: FlatField, block: slice) -> tuple[Codes]:
        rows = field.rows(block)
        low = walled(flat)
        found = []
        for start in starts:
            labels = np.array(start[block], dtype=np.int32, order="C")
            _climb_rows(low, labels)
            found.append(labels)
        scores = np.array([rows.score(labels) for labels in found])
        winner = scores.argmax(axis=0)
        return (np.stack(found)[winner, np.arange(len(winner))],)

    codes: Codes = joined(by_blocks(field, wires, work, n_jobs))[0]
    return codes


def neighbourhood(
    field: FieldTables, wires: Wires, mode: Codes, k: int, n_jobs: int | None
) -> tuple[Codes, Array]:
    """Search the k best vectors from the mode: codes (n, k, d) and scores (n, k), best first.

    The best vector not yet looked around is replaced by itself and all vectors that differ from
    it in one label, until the k best have all been looked around. What lies behind a valley of
    more than one label may be missed.
    """

    def work(flat: FlatField, block: slice) -> tuple[Codes, Array]:
        return _search(field.rows(block), walled(flat), mode[block], k)

    codes, scores = joined(by_blocks(field, wires, work, n_jobs))
    return codes, scores


def _search(field: FieldTables, flat: FlatField, mode: Codes, k: int) -> tuple[Codes, Array]:
    """Search from the mode (m, d)."""
    sizes = field.cardinalities
    owner = np.repeat(np.arange(len(sizes)), sizes)
    value = np.concatenate([np.arange(size) for size in sizes]).astype(np.int32)
    # Vectors are compared by a sum of random words, one per value of a label.
    words = np.random.default_rng(0).integers(1 << 63, size=len(owner), dtype=np.int64)
    rows = np.arange(len(mode))
    pool, looked = mode[:, None, :].copy(), np.zeros((len(mode), 1), dtype=bool)
    scores = np.zeros((len(mode), 1))  # above that of the mode
    for _ in range(k):
        rank = looked.argmin(axis=1)  # the best not yet looked around: the pool is sorted
        centre = pool[rows, rank]
        looked[rows, rank] = True
        near = np.repeat(centre[:, None, :], len(owner), axis=1)
        near[:, np.arange(len(owner)), owner] = value
        gains = np.empty(flat.unary.shape)
        _conditional_scores(flat, np.ascontiguousarray(centre), gains)
        here = np.take_along_axis(gains, flat.wires.first[:-1] + centre, axis=1)
        near_scores = scores[rows, rank, None] + gains - here[:, owner]
        is_new = ~_isin(_hashes(near, flat, words), _hashes(pool, flat, words))
        is_new &= value != centre[:, owner]
        pool = np.concatenate([pool, near], axis=1)
        # NaN marks what is in the pool already: it sorts last, and is not looked around again
        scores = np.concatenate([scores, np.where(is_new, near_scores, np.nan)], axis=1)
        looked = np.concatenate([looked, ~is_new], axis=1)
        best = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        pool = pool[rows[:, None], best]
        scores, looked = (np.take_along_axis(part, best, axis=1) for part in (scores, looked))
    exact = field.score(pool.transpose(1, 0, 2)).T
    order = np.argsort(-exact, axis=1, kind="stable")
    return pool[rows[:, None], order], np.take_along_axis(exact, order, axis=1)


def _hashes(codes: Codes, flat: FlatField, words: NDArray[np.int64]) -> NDArray[np.int64]:
    found: NDArray[np.int64] = words[flat.wires.first[:-1] + codes].sum(axis=-1)
    return found


def _isin(one: NDArray[np.int64], two: NDArray[np.int64]) -> Flags:
    """Whether each of one (m, a) is among two (m, b) of the same row."""
    found: Flags = (one[:, :, None] == two[:, None, :]).any(axis=2)
    return found
