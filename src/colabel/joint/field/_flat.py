"""A pairwise field as flat arrays, for compiled code.

Every label i has the columns first[i] .. first[i + 1], one per value. Every label has a run of
*slots* start[i] .. start[i + 1], one per neighbour; the message from that neighbour arrives there
and has one number per value of i. A row's tables are one vector, each edge (i, j), i < j, being
K_i K_j numbers with the values of j changing fastest.

Local search keeps the *fields* of all labels: what the present values of the neighbours add to the
score of each value. When a label changes, only those of its neighbours are updated.

In belief propagation the message from label i to its neighbour j, with u the unary scores and T the
edge's table, is

    m_ij(w) = log sum_v exp(T_ij(v, w) + u_i(v) + sum_{k != j} m_ki(v)),

a maximum instead of log sum exp for max-product. Messages are logs, the largest value of each being
0; with damping a, a new one is a times the old plus (1 - a) times the formula. A sweep sends every
message once: first towards the first label (in breadth-first order), then away from it. On a tree
one sweep is enough. What runs once per message is inlined: a call would count references to a dozen
arrays, which takes longer than the message.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from colabel.core.arrays import Array, Codes, Indices
from colabel.core.compiling import njit
from colabel.core.threads import map_threads, n_threads
from colabel.joint.field.tables import FieldTables

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
    order = [0]
    seen = {0}
    for i in order:
        new = [j for j in field.neighbours[i] if j not in seen]
        seen.update(new)
        order.extend(new)
    return np.array(order, dtype=np.intp)


def row_blocks(field: FieldTables, n_jobs: int | None) -> list[slice]:
    """Cut the rows into blocks for threads."""
    width = sum(table[0].size for table in field.tables)
    n_blocks = max(n_threads(n_jobs) * _BLOCKS_PER_THREAD, field.n_rows * width // _BLOCK_NUMBERS)
    cuts = np.linspace(0, field.n_rows, max(1, min(field.n_rows, n_blocks)) + 1).astype(int)
    return [slice(int(a), int(b)) for a, b in pairwise(cuts)]


def by_blocks(
    field: FieldTables,
    wires: Wires,
    work: Callable[[FlatField, slice], Result],
    n_jobs: int | None,
) -> list[Result]:
    """Do work on blocks of rows, in threads; each call gets its block and the rows in it."""

    def done(block: slice) -> Result:
        return work(flat_field(field.rows(block), wires), block)

    return map_threads(done, row_blocks(field, n_jobs), n_jobs, lambda: None)


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


_TINY = 1e-280  # a sum below this has lost digits, and is recomputed in logs


class Scratch(NamedTuple):
    """Room for one row; K is the largest number of values of a label.

    Attributes
    ----------
    messages : (M,)
        All the messages.
    belief, barred : (C,)
        Sum of a label's score and its finite messages; the number of its messages of -inf.
    mine, theirs, share : (K,)
        Beliefs without one message, of the two ends of an edge; exponentials of the first.
    """

    messages: Array
    belief: Array
    barred: Indices
    mine: Array
    theirs: Array
    share: Array


@njit(nogil=True, cache=True, inline="always")
def add_up(wires: Wires, unary: Array, room: Scratch, i: int) -> None:
    """Set the belief of label i: its score and its messages, those of -inf only counted."""
    first, last = wires.first[i], wires.first[i + 1]
    for c in range(first, last):
        room.belief[c] = unary[c]
        room.barred[c] = 0
    for s in range(wires.start[i], wires.start[i + 1]):
        shift = wires.message[s] - first
        for c in range(first, last):
            message = room.messages[c + shift]
            if message == -np.inf:
                room.barred[c] += 1
            else:
                room.belief[c] += message


@njit(nogil=True, cache=True, inline="always")
def take_out(wires: Wires, room: Scratch, i: int, s: int, found: Array) -> float:
    """Set found to the belief of label i without the message of slot s; return its maximum."""
    first = wires.first[i]
    top = -np.inf
    for v in range(wires.first[i + 1] - first):
        message = room.messages[wires.message[s] + v]
        belief, barred = room.belief[first + v], room.barred[first + v]
        if message == -np.inf:
            found[v] = belief if barred == 1 else -np.inf
        else:
            found[v] = belief - message if barred == 0 else -np.inf
        top = max(top, found[v])
    return top


@njit(nogil=True, cache=True, error_model="numpy", inline="always")
def combined(table: Array, at: int, step: int, size: int, mine: Array, maximise: bool) -> float:
    """Log sum_v exp(table[at + step v] + mine[v]), or the maximum."""
    best = -np.inf
    for v in range(size):
        best = max(best, table[at + step * v] + mine[v])
    if maximise or best == -np.inf:
        return best
    total = 0.0
    for v in range(size):
        total += math.exp(table[at + step * v] + mine[v] - best)
    return best + math.log(total)


@njit(nogil=True, cache=True, error_model="numpy", inline="always")
def send(
    wires: Wires,
    table: Array,
    factor: Array,
    room: Scratch,
    s: int,
    size: int,
    top: float,
    maximise: bool,
    damping: float,
) -> float:
    """Send the message of slot s to the neighbour; return how much it changed.

    `factor` holds exp(table), so that a sum costs one exponential per value of the sender.
    """
    j = wires.other[s]
    n_theirs = wires.first[j + 1] - wires.first[j]
    fresh = room.theirs
    largest = -np.inf
    if not maximise:
        for v in range(size):
            room.share[v] = math.exp(room.mine[v] - top)
    for w in range(n_theirs):
        at = wires.table[s] + wires.theirs[s] * w
        total = 0.0
        if not maximise:
            for v in range(size):
                total += factor[at + wires.own[s] * v] * room.share[v]
        if _TINY < total < 1 / _TINY:
            fresh[w] = math.log(total) + top
        else:
            fresh[w] = combined(table, at, wires.own[s], size, room.mine, maximise)
        largest = max(largest, fresh[w])
    change = 0.0
    at = wires.message[wires.back[s]]
    for w in range(n_theirs):
        new = fresh[w] - largest if largest > -np.inf else -np.inf
        old = room.messages[at + w]
        if new != old:
            change = max(change, abs(new - old))
            if new > -np.inf and old > -np.inf:
                new = damping * old + (1.0 - damping) * new
        room.messages[at + w] = new
    return change


@njit(nogil=True, cache=True, error_model="numpy")
def pass_messages(
    wires: Wires,
    unary: Array,
    table: Array,
    factor: Array,
    room: Scratch,
    maximise: bool,
    damping: float,
) -> float:
    """Send every message once; return the largest change, or NaN if no vector is possible."""
    n_labels = wires.order.size
    change = 0.0
    for step in range(2 * n_labels):
        inward = step < n_labels
        i = wires.order[n_labels - 1 - step] if inward else wires.order[step - n_labels]
        size = wires.first[i + 1] - wires.first[i]
        add_up(wires, unary, room, i)
        for s in range(wires.start[i], wires.start[i + 1]):
            if (wires.place[wires.other[s]] < wires.place[i]) != inward:
                continue
            top = take_out(wires, room, i, s, room.mine)
            if top == -np.inf:
                return np.nan
            moved = send(wires, table, factor, room, s, size, top, maximise, damping)
            change = max(change, moved)
    return change


@njit(nogil=True, cache=True, error_model="numpy")
def normalised(scores: Array, found: Array) -> float:
    """Set found to softmax(scores), or to zeros if all are -inf; return log sum exp."""
    top = -np.inf
    for score in scores:
        top = max(top, score)
    if top == -np.inf:
        found[:] = 0.0
        return -np.inf
    total = 0.0
    for v in range(scores.size):
        found[v] = math.exp(scores[v] - top)
        total += found[v]
    for v in range(scores.size):
        found[v] /= total
    return float(top + math.log(total))


@njit(nogil=True, cache=True, error_model="numpy")
def read_labels(wires: Wires, unary: Array, room: Scratch, single: Array) -> float:
    """Set single (C,) to the beliefs; return the labels' part of Bethe's estimate of log Z.

    With b_i(v) = u_i(v) + sum_k m_ki(v), the belief is softmax(b_i) and the part is
    sum_i log sum_v exp(b_i(v)).
    """
    estimate = 0.0
    for i in range(wires.order.size):
        first, last = wires.first[i], wires.first[i + 1]
        add_up(wires, unary, room, i)
        for c in range(first, last):
            single[c] = room.belief[c] if room.barred[c] == 0 else -np.inf
        log_total = normalised(single[first:last], single[first:last])
        estimate -= (wires.start[i + 1] - wires.start[i] - 1) * log_total
        if log_total == -np.inf:
            return -np.inf
    return estimate


@njit(nogil=True, cache=True, error_model="numpy")
def read_edges(wires: Wires, table: Array, room: Scratch, pairs: Array) -> float:
    """Set pairs (W,) to the beliefs of edges; return the edges' part of the estimate of log Z.

    log Z = sum_ij log Z_ij - sum_i (n_i - 1) log Z_i, with Z_i and Z_ij the totals of the beliefs
    of labels and edges and n_i the number of neighbours. How messages are scaled cancels out.
    The beliefs of the labels must be up to date.
    """
    estimate = 0.0
    for i in range(wires.order.size):
        size = wires.first[i + 1] - wires.first[i]
        for s in range(wires.start[i], wires.start[i + 1]):
            j = wires.other[s]
            if j < i:
                continue
            n_theirs = wires.first[j + 1] - wires.first[j]
            take_out(wires, room, i, s, room.mine)
            take_out(wires, room, j, wires.back[s], room.theirs)
            at = wires.table[s]
            for v in range(size):
                for w in range(n_theirs):
                    place = at + v * n_theirs + w
                    pairs[place] = table[place] + room.mine[v] + room.theirs[w]
            block = pairs[at : at + size * n_theirs]
            log_total = normalised(block, block)
            if log_total == -np.inf:
                return -np.inf
            estimate += log_total
    return estimate


@njit(nogil=True, cache=True)
def scratch_for(wires: Wires) -> Scratch:
    """Make room for a row."""
    n_values = wires.first[-1]
    longest = 0
    for i in range(wires.order.size):
        longest = max(longest, wires.first[i + 1] - wires.first[i])
    length = longest
    for at in wires.message:
        length = max(length, at + longest)
    return Scratch(
        np.empty(length),
        np.empty(n_values),
        np.empty(n_values, dtype=np.intp),
        np.empty(longest),
        np.empty(longest),
        np.empty(longest),
    )


@njit(nogil=True, cache=True, error_model="numpy")
def run_rows(
    flat: FlatField,
    maximise: bool,
    damping: float,
    tol: float,
    max_iter: int,
    single: Array,
    pairs: Array,
    ended: Array,
) -> None:
    """Run each row to convergence.

    Parameters
    ----------
    single : (m, C)
        Receives the beliefs of the labels.
    pairs : (m, W) or (0, W)
        Receives the beliefs of the edges, unless it has no rows.
    ended : (m, 3)
        Receives Bethe's estimate of log Z, the iterations and the last residual.
    """
    wires = flat.wires
    room = scratch_for(wires)
    unread = np.empty(flat.tables.shape[1])
    factor = np.empty(flat.tables.shape[1])
    for r in range(len(flat.unary)):
        table = flat.tables[r if len(flat.tables) > 1 else 0]
        if not maximise and (r == 0 or len(flat.tables) > 1):
            for c in range(table.size):
                factor[c] = math.exp(table[c])
        room.messages[:] = 0.0
        residual, done = np.inf, 0
        while done < max_iter and residual > tol:  # not so of NaN
            residual = pass_messages(wires, flat.unary[r], table, factor, room, maximise, damping)
            done += 1
        estimate = read_labels(wires, flat.unary[r], room, single[r])
        if np.isnan(residual):
            estimate = -np.inf
        if estimate > -np.inf:
            estimate += read_edges(wires, table, room, pairs[r] if len(pairs) else unread)
        ended[r, 0], ended[r, 1], ended[r, 2] = estimate, done, residual


# Local search

# Stands for -inf, and for lower scores, where differences are taken: exp of it is exactly zero.
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
    degree = int(np.diff(flat.wires.start).max(initial=0))
    return FlatField(flat.wires, walled_unary(flat.unary, degree), np.maximum(flat.tables, WALL))


def walled_unary(unary: Array, degree: int) -> Array:
    """Return scores of values with low numbers instead of -inf.

    What is forbidden by itself stays below everything that `degree` neighbours could add up to.
    """
    return np.where(np.isneginf(unary), (2 + degree) * WALL, np.maximum(unary, WALL))


def climbed(field: FieldTables, wires: Wires, starts: Sequence[Codes], n_jobs: int | None) -> Codes:
    """Improve each start (n, d) by changing labels, and return the best of each row (n, d)."""

    def work(flat: FlatField, block: slice) -> tuple[Codes]:
        rows = field.rows(block)
        low = walled(flat)
        parts = []
        for start in starts:
            labels = np.array(start[block], dtype=np.int32, order="C")
            _climb_rows(low, labels)
            parts.append(labels)
        scores = np.array([rows.score(labels) for labels in parts])
        winner = scores.argmax(axis=0)
        return (np.stack(parts)[winner, np.arange(len(winner))],)

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
        rank = looked.argmin(axis=1)  # the best one not yet expanded: the pool is sorted
        centre = pool[rows, rank]
        looked[rows, rank] = True
        near = np.repeat(centre[:, None, :], len(owner), axis=1)
        near[:, np.arange(len(owner)), owner] = value
        gains = np.empty(flat.unary.shape)
        _conditional_scores(flat, np.ascontiguousarray(centre), gains)
        here = np.take_along_axis(gains, flat.wires.first[:-1] + centre, axis=1)
        near_scores = scores[rows, rank, None] + gains - here[:, owner]
        known = _hashes(pool, flat, words)
        is_new = ~(_hashes(near, flat, words)[:, :, None] == known[:, None, :]).any(axis=2)
        is_new &= value != centre[:, owner]
        pool = np.concatenate([pool, near], axis=1)
        # NaN marks what is already in the pool: it sorts last, and is not expanded again
        scores = np.concatenate([scores, np.where(is_new, near_scores, np.nan)], axis=1)
        looked = np.concatenate([looked, ~is_new], axis=1)
        best = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        pool = pool[rows[:, None], best]
        scores, looked = (np.take_along_axis(part, best, axis=1) for part in (scores, looked))
    exact = field.score(pool.transpose(1, 0, 2)).T
    order = np.argsort(-exact, axis=1, kind="stable")
    return pool[rows[:, None], order], np.take_along_axis(exact, order, axis=1)


def _hashes(codes: Codes, flat: FlatField, words: NDArray[np.int64]) -> NDArray[np.int64]:
    hashes: NDArray[np.int64] = words[flat.wires.first[:-1] + codes].sum(axis=-1)
    return hashes
