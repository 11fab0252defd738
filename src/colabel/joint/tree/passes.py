"""Exact inference on a forest of conditional tables, one loop over the variables at a time.

Shapes: n rows, d variables, variable i has K_i states and its parent P_i (1 above a root).
`log_tables[i]` is (n, P_i, K_i): log P(y_i | y_parent, x). `LogSum` gives probabilities and
`KBest` the best label vectors, both by the same `upward`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Generic, NamedTuple, TypeVar

import numpy as np
from numpy.random import Generator

from colabel.core.arrays import Array, Codes, Indices
from colabel.core.chunks import row_slices
from colabel.core.numeric import short_sum
from colabel.joint._long_sums import is_far, less, long_sum, rounded
from colabel.joint._semiring import Best, KBest, LogSum, LongLogSum, Semiring
from colabel.joint.tree.wiring import ROOT, Wiring
from colabel.labels import MISSING

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
