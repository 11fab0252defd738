"""Exact inference on a forest of conditional tables, one loop over the variables at a time.

Shapes: n rows, d variables, variable i has K_i states and its parent P_i (1 above a root).
`log_tables[i]` is (n, P_i, K_i): log P(y_i | y_parent, x). `LogSum` gives probabilities and
`KBest` the best label vectors, both by the same `upward`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from colabel.core.arrays import Array, Codes, Indices
from colabel.core.chunks import row_slices
from colabel.core.numeric import short_sum
from colabel.joint._long_sums import is_far, less, long_sum, rounded
from colabel.joint._semiring import Best, KBest, LogSum, LongLogSum, Semiring
from colabel.joint.sizes import SizeMarginals
from colabel.labels import MISSING

ROOT = -1  # the parent of a variable that has none; also the virtual node above all roots


@dataclass(frozen=True)
class Wiring:
    """A directed forest over d variables, as plain index tuples.

    A virtual node `ROOT` with a single state stands above all the roots, so a forest is a tree
    to every pass that runs over it, and the parent of a root has one state.

    Attributes
    ----------
    parents : tuple of int, length d
        Parent of each variable, -1 for a root.
    order : tuple of int, length d
        The variables, parents before children; among siblings the smaller index first.
    children : tuple of d + 1 tuples of int
        Children of each variable, ascending; the last entry, which is also entry -1, holds the
        roots.

    Examples
    --------
    >>> wiring = Wiring.from_parents([1, -1, 1])
    >>> wiring.order, wiring.children[1], wiring.children[-1]
    ((1, 0, 2), (0, 2), (1,))
    """

    parents: tuple[int, ...]
    order: tuple[int, ...]
    children: tuple[tuple[int, ...], ...]

    @classmethod
    def from_parents(cls, parents: ArrayLike) -> Wiring:
        """Check that `parents` (d,) describes a forest, and sort it."""
        checked = _as_parents(parents)
        children: list[list[int]] = [[] for _ in range(len(checked) + 1)]
        for i, parent in enumerate(checked):
            children[parent].append(i)  # parent -1 lands in the last list, that of the roots
        order: list[int] = []
        stack = list(reversed(children[ROOT]))
        while stack:
            i = stack.pop()
            order.append(i)
            stack.extend(reversed(children[i]))
        if len(order) < len(checked):
            # what no root reaches hangs below a cycle or lies on it
            lost = sorted(set(range(len(checked))) - set(order))
            raise ValueError(
                f"parents must describe a forest, but following them from variables {lost} never "
                f"reaches a root (parents = {list(checked)}). Give each tree one variable with "
                "parent -1."
            )
        return cls(checked, tuple(order), tuple(map(tuple, children)))

    def path_up(self, i: int) -> list[int]:
        """Return the variables from i to the virtual root, both included."""
        path = [i]
        while path[-1] != ROOT:
            path.append(self.parents[path[-1]])
        return path


def _as_parents(parents: ArrayLike) -> tuple[int, ...]:
    """Return the parents as integers in -1..d-1, or raise ValueError."""
    array: NDArray[Any] = np.asarray(parents)
    if array.ndim != 1 or not np.issubdtype(array.dtype, np.integer):
        raise ValueError(
            "parents must be a vector of integers, one per label, but it has shape "
            f"{array.shape} and type {array.dtype}."
        )
    if array.size == 0:
        raise ValueError("parents is empty: a tree needs at least one label.")
    outside = np.flatnonzero((array < ROOT) | (array >= array.size))
    if outside.size:
        i = int(outside[0])
        raise ValueError(
            f"parents[{i}] is {array[i]}, which is no variable: use -1 for a root or an index "
            f"from 0 to {array.size - 1}."
        )
    return tuple(array.tolist())


Polynomials = list[Array]  # one for each value of a label


def forest_sizes(wiring: Wiring, log_tables: Sequence[Array]) -> SizeMarginals:
    """Exact size marginals of a forest of tables (n, P_i, 2), by one pass up and one down.

    Upward, B_i(v) is the size of the subtree of i given y_i = v, and M_i(u) the same given the
    parent's value u:  B_i(v) = z^v prod_c M_c(v),  M_i(u) = sum_v P(v | u) B_i(v).
    Downward, D_i(v) is the size of all the rest together with y_i = v, so that
    sum_s P(y_i = 1, |y| = s) z^s = D_i(1) B_i(1).
    """
    tables = [np.exp(table) for table in log_tables]
    n_rows = len(tables[0])
    below: dict[int, Polynomials] = {}
    messages: dict[int, Polynomials] = {}
    for i in reversed(wiring.order):
        children = [messages[c] for c in wiring.children[i]]
        below[i] = [_shift(_product([m[v] for m in children], n_rows), v) for v in (0, 1)]
        messages[i] = [_mix(tables[i][:, u], below[i]) for u in range(tables[i].shape[1])]
    size = _product([messages[r][0] for r in wiring.children[ROOT]], n_rows)
    outside = _outside_of_children(wiring, ROOT, [np.ones((n_rows, 1))], messages)
    with_label = np.zeros((n_rows, len(tables), len(tables) + 1))
    for i in wiring.order:
        above = outside.pop(i)
        # every state of the parent has the same part outside, so the degrees agree
        rest = [_mix(tables[i][:, :, v], above) for v in (0, 1)]
        found = _times(rest[1], below[i][1])
        with_label[:, i, : found.shape[1]] = found
        from_here = [_shift(polynomial, v) for v, polynomial in enumerate(rest)]
        outside.update(_outside_of_children(wiring, i, from_here, messages))
    return SizeMarginals(size, with_label)


def _outside_of_children(
    wiring: Wiring, i: int, above: Polynomials, messages: dict[int, Polynomials]
) -> dict[int, Polynomials]:
    """For each child of i and value of i: what lies above, times the other children."""
    children = wiring.children[i]
    by_value = [
        _all_but_one(polynomial, [messages[c][v] for c in children])
        for v, polynomial in enumerate(above)
    ]
    return dict(zip(children, map(list, zip(*by_value, strict=True)), strict=True))


def _all_but_one(outer: Array, factors: Polynomials) -> Polynomials:
    """`outer` times all factors but one, for each of them, by halving: O(d^2 log d)."""
    if len(factors) <= 1:
        return [outer] * len(factors)
    middle = len(factors) // 2
    left, right = factors[:middle], factors[middle:]
    n_rows = len(outer)
    return [
        *_all_but_one(_times(outer, _product(right, n_rows)), left),
        *_all_but_one(_times(outer, _product(left, n_rows)), right),
    ]


def _product(factors: Polynomials, n_rows: int) -> Array:
    """Multiply polynomials, pairs of neighbours first so that both sides stay short."""
    if not factors:
        return np.ones((n_rows, 1))
    while len(factors) > 1:
        pairs = itertools.zip_longest(factors[::2], factors[1::2])
        factors = [a if b is None else _times(a, b) for a, b in pairs]
    return factors[0]


def _times(one: Array, two: Array) -> Array:
    """Product of two polynomials."""
    long, short = (one, two) if one.shape[1] >= two.shape[1] else (two, one)
    width = long.shape[1]
    found = np.zeros((len(long), width + short.shape[1] - 1))
    for power in range(short.shape[1]):
        found[:, power : power + width] += short[:, power, None] * long
    return found


def _mix(weights: Array, polynomials: Polynomials) -> Array:
    """Sum of polynomials of the same degree, weighted (n, K) row by row."""
    degree = max(p.shape[1] for p in polynomials)
    found = np.zeros((len(weights), degree))
    for v, polynomial in enumerate(polynomials):
        found[:, : polynomial.shape[1]] += weights[:, v, None] * polynomial
    return found


def _shift(polynomial: Array, power: int) -> Array:
    """Multiply by z^power."""
    return np.pad(polynomial, ((0, 0), (power, 0))) if power else polynomial


Tables = Sequence[Array]
Element = TypeVar("Element")

_CHUNK_ELEMENTS = 2**20  # list entries per chunk of rows: a few megabytes, friendly to caches


class Upward(NamedTuple, Generic[Element]):
    """What an upward pass leaves behind."""

    beliefs: list[Element]  # variable i: its weight and all its children's messages, over y_i
    messages: list[Element]  # variable i: what it tells its parent, over the parent's states
    root: Element  # the whole forest, over the one state of the virtual root


def upward(
    wiring: Wiring,
    log_tables: Tables,
    ring: Semiring[Element],
    log_weights: Tables | None = None,
) -> Upward[Element]:
    """Send messages from the leaves to the root, each edge once.

    belief_i(v) = weight_i(v) * prod_c message_c(v) over the children c of i
    message_i(u) = sum_v table_i(u, v) * belief_i(v)

    Parameters
    ----------
    wiring : Wiring
        The forest.
    log_tables : sequence of arrays (n, P_i, K_i)
        Log conditional probabilities.
    ring : Semiring
        What "times" and "sum" mean.
    log_weights : sequence of arrays (n, K_i), optional
        One log factor per variable, such as evidence (0 or -inf); none by default.
    """
    weights = log_weights or [np.zeros((1, table.shape[2])) for table in log_tables]
    beliefs: dict[int, Element] = {}
    messages: dict[int, Element] = {}
    for i in reversed(wiring.order):
        beliefs[i] = ring.product(weights[i], [messages[c] for c in wiring.children[i]])
        messages[i] = ring.total(log_tables[i], beliefs[i])
    root = ring.product(np.zeros((1, 1)), [messages[c] for c in wiring.children[ROOT]])
    variables = range(len(wiring.parents))
    return Upward([beliefs[i] for i in variables], [messages[i] for i in variables], root)


def evidence_weights(log_tables: Tables, codes: Codes) -> list[Array]:
    """Log indicators (n, K_i) of the states that agree with codes (n, d); MISSING allows all."""
    weights = []
    for i, table in enumerate(log_tables):
        known = codes[:, i, None]
        allowed = (known == MISSING) | (known == np.arange(table.shape[2]))
        weights.append(np.where(allowed, 0.0, -np.inf))
    return weights


def log_evidence(wiring: Wiring, log_tables: Tables, codes: Codes) -> Array:
    """Log-probability (n,) of the observed entries of codes (n, d), the rest summed out."""
    if MISSING not in codes:
        return _log_product(wiring, log_tables, codes)
    weights = evidence_weights(log_tables, codes)
    if is_far(log_tables):
        return rounded(upward(wiring, log_tables, LongLogSum(), weights).root)[:, 0]
    return upward(wiring, log_tables, LogSum(), weights).root[:, 0]


def _log_product(wiring: Wiring, log_tables: Tables, codes: Codes) -> Array:
    """Log-probability (n,) of complete vectors: sum_i log P(y_i | y_parent)."""
    rows = np.arange(len(codes))
    found = np.zeros(len(codes))
    for i in wiring.order:
        parent = wiring.parents[i]
        above = 0 if parent == ROOT else codes[:, parent]
        found += log_tables[i][rows, above, codes[:, i]]
    return found


def condition(wiring: Wiring, log_tables: Tables, codes: Codes) -> tuple[list[Array], Array]:
    """Conditional tables given evidence, and the log-probability (n,) of that evidence.

    P(y_i = v | y_parent = u, evidence) = table_i(u, v) belief_i(v) / message_i(u): the evidence
    above i is screened off by u.
    """
    weights = evidence_weights(log_tables, codes)
    far = is_far(log_tables)
    passed: Upward[Array] = upward(wiring, log_tables, LongLogSum() if far else LogSum(), weights)
    conditioned = []
    for table, belief, message in zip(log_tables, passed.beliefs, passed.messages, strict=True):
        if far:
            joined = long_sum([table, *belief[:, :, None, :]], table.shape)
            impossible = np.isneginf(rounded(message))[:, :, None]
            given = np.minimum(less(joined, message[..., None]), 0.0)
        else:
            impossible = np.isneginf(message)[:, :, None]
            scale = np.where(impossible, 0.0, message[:, :, None])
            given = table + belief[:, None, :] - scale
        # A parent state that the evidence below excludes is never reached: any row will do there.
        conditioned.append(np.where(impossible, -math.log(table.shape[2]), given))
    return conditioned, (rounded(passed.root) if far else passed.root)[:, 0]


def marginals(wiring: Wiring, log_tables: Tables) -> list[Array]:
    """P(y_i) as arrays (n, K_i), from the roots down: P(v) = sum_u P(u) P(v | u)."""
    found: dict[int, Array] = {ROOT: np.ones((len(log_tables[0]), 1))}
    for i in wiring.order:
        pairs = found[wiring.parents[i]][:, :, None] * np.exp(log_tables[i])
        found[i] = short_sum(pairs, axis=1)
    return [found[i] for i in range(len(log_tables))]


def pair_marginal(wiring: Wiring, log_tables: Tables, i: int, j: int) -> Array:
    """P(y_i, y_j) as an array (n, K_i, K_j).

    With a the nearest common ancestor, P(y_i, y_j) = sum_a P(a) P(y_i | a) P(y_j | a); variables
    of different trees meet in the virtual root.
    """
    up_i, up_j = wiring.path_up(i), wiring.path_up(j)
    above_j = set(up_j)
    meeting = next(a for a in up_i if a in above_j)
    of_i = _descend(log_tables, up_i[: up_i.index(meeting)], meeting)
    of_j = _descend(log_tables, up_j[: up_j.index(meeting)], meeting)
    above = _marginal_of(wiring, log_tables, meeting)
    found: Array = np.matmul((above[:, :, None] * of_i).transpose(0, 2, 1), of_j)
    return found


def _marginal_of(wiring: Wiring, log_tables: Tables, i: int) -> Array:
    """P(y_i) as an array (n, K_i), following only the path from the root."""
    path = wiring.path_up(i)[:-1]
    return _descend(log_tables, path, ROOT)[:, 0, :]


def _descend(log_tables: Tables, path: Sequence[int], top: int) -> Array:
    """P(path[0] | top) as an array (n, P, K): the product of the tables along a path upwards."""
    n_states = 1 if top == ROOT else log_tables[top].shape[2]
    n_rows = len(log_tables[0])
    found: Array = np.broadcast_to(np.eye(n_states), (n_rows, n_states, n_states))
    for i in reversed(path):
        found = np.matmul(found, np.exp(log_tables[i]))
    return found


def entropy(wiring: Wiring, log_tables: Tables) -> Array:
    """Entropy (n,) in nats: H(y) = sum_i sum_u P(y_parent = u) H(y_i | u)."""
    single = dict(enumerate(marginals(wiring, log_tables)))
    single[ROOT] = np.ones((len(log_tables[0]), 1))
    found = np.zeros(len(log_tables[0]))
    for i in wiring.order:
        found += (single[wiring.parents[i]] * entropy_of(log_tables[i])).sum(axis=1)
    return found


def entropy_of(log_prob: Array) -> Array:
    """Entropy in nats over the last axis, with 0 log 0 = 0."""
    finite = np.where(np.isneginf(log_prob), 0.0, log_prob)
    found: Array = -(np.exp(log_prob) * finite).sum(axis=-1)
    return found


def ancestral_samples(wiring: Wiring, log_tables: Tables, size: int, rng: Generator) -> Codes:
    """Draw codes (size, n, d), each variable after its parent."""
    n_rows = len(log_tables[0])
    rows = np.arange(n_rows)
    codes = np.empty((size, n_rows, len(log_tables)), dtype=np.int32)
    for i in wiring.order:
        parent = wiring.parents[i]
        above = np.zeros(1, dtype=np.intp) if parent == ROOT else codes[:, :, parent]
        codes[:, :, i] = draw(log_tables[i][rows, above], rng.random((size, n_rows)))
    return codes


def draw(log_prob: Array, uniform: Array) -> Indices:
    """Invert the distribution function: log_prob (..., K) and uniform [0, 1) draws (...)."""
    cumulated = np.exp(log_prob).cumsum(axis=-1)
    # Dividing makes the last value exactly 1, so a state of probability zero is never drawn.
    cumulated /= cumulated[..., -1:]
    drawn: Indices = (uniform[..., None] >= cumulated[..., :-1]).sum(axis=-1)
    return drawn


def k_best(wiring: Wiring, log_tables: Tables, k: int) -> tuple[Codes, Array]:
    """Find the k most probable vectors: codes (n, k, d), log-probabilities (n, k), best first.

    `k` must not exceed the number of label vectors. Rows are taken in chunks, because the lists
    of all the variables are alive until the codes are read back.
    """
    n_rows = len(log_tables[0])
    lists = sum((table.shape[1] + 1) * table.shape[2] for table in log_tables)
    codes = np.empty((n_rows, k, len(log_tables)), dtype=np.int32)
    scores = np.empty((n_rows, k))
    for chunk in row_slices(n_rows, _CHUNK_ELEMENTS, lists * k):
        passed = upward(wiring, [table[chunk] for table in log_tables], KBest(k))
        scores[chunk] = passed.root.score[:, 0]
        _read_back(wiring, passed, codes[chunk])
    return codes, scores


def _read_back(wiring: Wiring, passed: Upward[Best], codes: Codes) -> None:
    """Fill codes (n, k, d) by following the choices of a k-best pass from the root down."""
    n_rows, k, _ = codes.shape
    rows = np.arange(n_rows)[:, None]
    states = np.zeros((n_rows, k), dtype=np.intp)
    ranks = split_ranks(passed.root, rows, states, np.broadcast_to(np.arange(k), (n_rows, k)))
    rank_of = dict(zip(wiring.children[ROOT], ranks, strict=True))
    for i in wiring.order:
        belief, picked = passed.beliefs[i], passed.messages[i].picked
        assert picked is not None  # a message always records its choice
        parent = wiring.parents[i]
        above = states if parent == ROOT else codes[:, :, parent]
        chosen = picked[rows, above, rank_of.pop(i)]
        codes[:, :, i], rank = np.divmod(chosen, belief.score.shape[-1])
        if wiring.children[i]:
            ranks = split_ranks(belief, rows, codes[:, :, i], rank)
            rank_of.update(zip(wiring.children[i], ranks, strict=True))


def split_ranks(
    belief: Best, rows: Indices, states: Codes | Indices, rank: Indices
) -> list[Indices]:
    """Ranks (n, k) in the children's lists behind the ranks (n, k) in a merged list."""
    ranks = []
    for merge in reversed(belief.merges):
        pair = merge.chosen[rows, states, rank]
        ranks.append(merge.right[pair])
        rank = merge.left[pair]
    return [rank, *reversed(ranks)]
