"""A pairwise field as flat arrays, for compiled code.

Every label i has the columns first[i] .. first[i + 1], one per value. Every label has a run of
*slots* start[i] .. start[i + 1], one per neighbour; the message from that neighbour arrives there
and has one number per value of i. A row's tables are one vector, each edge (i, j), i < j, being
K_i K_j numbers with the values of j changing fastest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

import numpy as np

from colabel.core.arrays import Array, Indices
from colabel.core.compiling import njit
from colabel.core.threads import map_threads, n_threads
from colabel.joint.field._tables import FieldTables

Result = TypeVar("Result")

# Blocks of rows a thread is given: enough of them to even out rows that take longer than others.
_BLOCKS_PER_THREAD = 4
_BLOCK_NUMBERS = 2**21  # table entries of a block of rows at most: 16 MB


class Wires(NamedTuple):
    """The graph; d labels, C values, 2E slots.

    Attributes
    ----------
    first : (d + 1,)
        First column of each label.
    start : (d + 1,)
        First slot of each label.
    other : (2E,)
        The neighbour behind each slot.
    back : (2E,)
        The neighbour's slot for this label.
    message : (2E,)
        Position of the slot's message among all messages.
    table : (2E,)
        Position of the edge's table in a row's vector of tables.
    own, theirs : (2E,)
        Steps in the table from one value to the next, of this label and of the neighbour.
    order : (d,)
        The labels, breadth first from the first one.
    place : (d,)
        Position of each label in `order`.
    """

    first: Indices
    start: Indices
    other: Indices
    back: Indices
    message: Indices
    table: Indices
    own: Indices
    theirs: Indices
    order: Indices
    place: Indices


class FlatField(NamedTuple):
    """A field of m rows; see the module.

    Attributes
    ----------
    wires : Wires
        The graph.
    unary : (m, C)
        Scores of the values.
    tables : (m, W) or (1, W)
        Scores of the pairs of values.
    """

    wires: Wires
    unary: Array
    tables: Array


def flat_field(field: FieldTables, wires: Wires) -> FlatField:
    """Flatten the tables of a field."""
    n_rows = max([len(table) for table in field.tables], default=1)
    parts = [table.reshape(len(table), -1) for table in field.tables]
    if n_rows > 1:
        parts = [np.broadcast_to(part, (n_rows, part.shape[1])) for part in parts]
    tables = np.concatenate(parts, axis=1) if parts else np.zeros((1, 0))
    return FlatField(wires, np.ascontiguousarray(np.concatenate(field.unary, axis=1)), tables)


def wires_of(field: FieldTables) -> Wires:
    """Lay out the graph of a connected field."""
    sizes = np.array(field.cardinalities, dtype=np.intp)
    widths = [sizes[i] * sizes[j] for i, j in field.edges]
    table_of = np.concatenate([[0], np.cumsum(widths)]).astype(np.intp)
    edge_at = {edge: e for e, edge in enumerate(field.edges)}
    start = np.concatenate([[0], np.cumsum([len(o) for o in field.neighbours])]).astype(np.intp)
    slot_of = {
        (i, j): int(start[i]) + p
        for i, others in enumerate(field.neighbours)
        for p, j in enumerate(others)
    }
    ends = np.array(list(slot_of), dtype=np.intp).reshape(-1, 2)
    this, other = ends[:, 0], ends[:, 1]
    edges = [edge_at[min(i, j), max(i, j)] for i, j in slot_of]
    order = _breadth_first(field)
    message = np.concatenate([[0], np.cumsum(sizes[this])]).astype(np.intp)
    return Wires(
        first=np.concatenate([[0], np.cumsum(sizes)]).astype(np.intp),
        start=start,
        other=np.ascontiguousarray(other),
        back=np.array([slot_of[j, i] for i, j in slot_of], dtype=np.intp),
        message=message[:-1],
        table=table_of[edges],
        own=np.where(this < other, sizes[other], 1).astype(np.intp),
        theirs=np.where(this < other, 1, sizes[this]).astype(np.intp),
        order=order,
        place=np.argsort(order),
    )


def _breadth_first(field: FieldTables) -> Indices:
    """Return the labels of a connected field, breadth first from the first one."""
    found = [0]
    seen = {0}
    for i in found:
        new = [j for j in field.neighbours[i] if j not in seen]
        seen.update(new)
        found.extend(new)
    return np.array(found, dtype=np.intp)


def row_blocks(field: FieldTables, n_jobs: int | None, extra: int = 0) -> list[slice]:
    """Cut the rows into blocks for threads; `extra` numbers a row are needed besides tables."""
    width = sum(table[0].size for table in field.tables) + extra
    n_blocks = max(n_threads(n_jobs) * _BLOCKS_PER_THREAD, field.n_rows * width // _BLOCK_NUMBERS)
    cuts = np.linspace(0, field.n_rows, max(1, min(field.n_rows, n_blocks)) + 1).astype(int)
    return [slice(int(a), int(b)) for a, b in pairwise(cuts)]


def by_blocks(
    field: FieldTables,
    wires: Wires,
    work: Callable[[FlatField, slice], Result],
    n_jobs: int | None,
    extra: int = 0,
) -> list[Result]:
    """Do work on blocks of rows, in threads; the work is told its rows."""

    def done(block: slice) -> Result:
        return work(flat_field(field.rows(block), wires), block)

    return map_threads(done, row_blocks(field, n_jobs, extra), n_jobs, lambda: None)


def joined(parts: Sequence[tuple[Any, ...]]) -> list[Any]:
    """Concatenate the results of blocks, array by array."""
    return [np.concatenate(column) for column in zip(*parts, strict=True)]


@njit(nogil=True, cache=True)
def set_fields(wires: Wires, table: Array, labels: Any, fields: Array) -> None:
    """Set fields (C,) to what the neighbours' present values add to the score of each value."""
    fields[:] = 0.0
    for i in range(labels.size):
        first, size = wires.first[i], wires.first[i + 1] - wires.first[i]
        for s in range(wires.start[i], wires.start[i + 1]):
            at = wires.table[s] + wires.theirs[s] * labels[wires.other[s]]
            for v in range(size):
                fields[first + v] += table[at + wires.own[s] * v]


@njit(nogil=True, cache=True, inline="always")
def move_label(wires: Wires, table: Array, fields: Array, i: int, old: int, new: int) -> None:
    """Update the fields of the neighbours of label i when it changes from `old` to `new`."""
    for s in range(wires.start[i], wires.start[i + 1]):
        j = wires.other[s]
        first, size = wires.first[j], wires.first[j + 1] - wires.first[j]
        come = wires.table[s] + wires.own[s] * new
        gone = wires.table[s] + wires.own[s] * old
        for w in range(size):
            step = wires.theirs[s] * w
            fields[first + w] += table[come + step] - table[gone + step]
