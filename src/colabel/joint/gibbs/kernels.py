"""Compiled Gibbs sampling for linear conditionals. Arrays are C-contiguous; no checks here.

Arrays are copied and searched by loops: see `core.compiling` for what the short forms cost.

A row keeps the running scores of all its labels. When a label changes, one row of the weights is
added to them: O(d) a flip, or the number of its edges where they are few, and a label that stays
costs nothing but its own draw.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from colabel.core.arrays import Array, Codes, Indices
from colabel.core.compiling import njit
from colabel.core.exponential import (
    EXPONENT_BIAS,
    LN2_HIGH,
    LN2_LOW,
    MANTISSA_BITS,
    ORDERED,
    exp_of_negative,
    twice_atanh,
)
from colabel.core.hashing import FIRST_FACTOR, SECOND_FACTOR
from colabel.joint.gibbs.random import GAMMA

_GAMMA = np.uint64(GAMMA)
_FIRST = np.uint64(FIRST_FACTOR)
_SECOND = np.uint64(SECOND_FACTOR)
_ONE = np.uint64(1)
_UNIT = 2.0**-53
_LARGE = 1e200  # a product of numbers up to 2 is turned into a logarithm before it overflows

# The logarithm is written out below: unlike the library's, it is inlined and vectorised together
# with the loop around it. Its additions rely on their order.
_MANTISSA = np.int64((1 << 52) - 1)
_BITS_OF_ONE = np.int64(1023 << 52)
_SQRT_2 = 1.4142135623730951


class Network(NamedTuple):
    """Linear conditionals without their rows.

    Attributes
    ----------
    weights : (e, e)
        Entry [c, s]: what label column c adds to score s when it is 1.
    first : (d,)
        The first column of each label.
    size : (d,)
        Number of values of each label; two values have one column, K have K.
    floor : (e,)
        Probability kept for values never seen; zero for most.
    start : (e + 1,), or empty where most weights are not zero
        The scores that column c adds to are ``reached[start[c] : start[c + 1]]``.
    reached : (number of weights that are not zero,), or empty
    """

    weights: Array
    first: Indices
    size: Indices
    floor: Array
    start: Indices
    reached: Indices


@njit(nogil=True, cache=True)
def uniform_at(key: np.uint64, position: int) -> float:
    """Number `position` of a stream; see `random.uniforms`."""
    z = key + (np.uint64(position) + _ONE) * _GAMMA
    z = (z ^ (z >> np.uint64(30))) * _FIRST
    z = (z ^ (z >> np.uint64(27))) * _SECOND
    z = z ^ (z >> np.uint64(31))
    return (np.float64(z >> np.uint64(11)) + 0.5) * _UNIT


@njit(nogil=True, cache=True, error_model="numpy", fastmath=ORDERED)
def thresholds(key: np.uint64, start: int, levels: Array) -> None:
    """Set levels[t] to log(u / (1 - u)) with u number `start + t` of a stream.

    A label of score s is drawn as 1 if u < 1 / (1 + exp(-s)), that is if s > log(u / (1 - u)).
    The odds are m 2^k with m between sqrt(1/2) and sqrt(2); log m = 2 atanh((m - 1) / (m + 1)).
    """
    for t in range(levels.size):
        u = uniform_at(key, start + t)
        odds = u / (1.0 - u)
        bits = np.float64(odds).view(np.int64)
        k = float((bits >> MANTISSA_BITS) - EXPONENT_BIAS)
        m = np.int64((bits & _MANTISSA) | _BITS_OF_ONE).view(np.float64)
        large = m > _SQRT_2
        m = 0.5 * m if large else m
        k = k + 1.0 if large else k
        log_m = twice_atanh((m - 1.0) / (m + 1.0))
        levels[t] = k * LN2_HIGH + (log_m + k * LN2_LOW)


@njit(nogil=True, cache=True, error_model="numpy", fastmath=ORDERED)
def logistics(scores: Array, prob: Array, decay: Array) -> None:
    """Set decay = exp(-|s|) and prob = 1 / (1 + exp(-s)) for all scores."""
    for c in range(scores.size):
        x = max(-abs(scores[c]), -708.0)
        e = exp_of_negative(x)
        decay[c] = e
        prob[c] = (1.0 if scores[c] > 0.0 else e) / (1.0 + e)


@njit(nogil=True, cache=True)
def add_column(scores: Array, net: Network, column: int, sign: float) -> None:
    """Set s += sign W[column], in O(e), or in the number of scores that the column reaches."""
    added = net.weights[column]
    if net.start.size:
        for at in range(net.start[column], net.start[column + 1]):
            scores[net.reached[at]] += sign * added[net.reached[at]]
    else:
        for c in range(scores.size):
            scores[c] += sign * added[c]


@njit(nogil=True, cache=True)
def move_scores(scores: Array, net: Network, i: int, old: int, new: int) -> None:
    """Change label i from `old` to `new`: s += W[column of new] - W[column of old]."""
    first = net.first[i]
    if net.size[i] == 2:
        add_column(scores, net, first, float(new - old))
    else:
        add_column(scores, net, first + old, -1.0)
        add_column(scores, net, first + new, 1.0)


@njit(nogil=True, cache=True)
def start_scores(base: Array, labels: Codes, net: Network, scores: Array) -> None:
    """Set the scores from scratch: base plus the columns that are 1."""
    for c in range(scores.size):
        scores[c] = base[c]
    for i in range(labels.size):
        if net.size[i] != 2:
            add_column(scores, net, net.first[i] + labels[i], 1.0)
        elif labels[i] == 1:
            add_column(scores, net, net.first[i], 1.0)


@njit(nogil=True, cache=True, error_model="numpy")
def softmax(scores: Array, net: Network, i: int, prob: Array) -> None:
    """Set the columns of multi-valued label i in `prob` (e,) to its conditional probabilities.

    p(v) = f(v) + (1 - sum_u f(u)) exp(s_v) / sum_u exp(s_u), with f the floor.
    """
    first = net.first[i]
    last = first + net.size[i]
    top = scores[first]
    for c in range(first + 1, last):
        top = max(top, scores[c])
    total = 0.0
    kept = 1.0
    for c in range(first, last):
        prob[c] = math.exp(scores[c] - top)
        total += prob[c]
        kept -= net.floor[c]
    for c in range(first, last):
        prob[c] = prob[c] * (kept / total) + net.floor[c]


@njit(nogil=True, cache=True, error_model="numpy")
def drawn_value(scores: Array, net: Network, i: int, uniform: float, prob: Array) -> int:
    """Draw a multi-valued label by its distribution function; `prob` (e,) is scratch."""
    softmax(scores, net, i, prob)
    value = 0
    below = prob[net.first[i]]
    while value < net.size[i] - 1 and uniform >= below:
        value += 1
        below += prob[net.first[i] + value]
    return value


@njit(nogil=True, cache=True)
def sweep(
    labels: Codes,
    scores: Array,
    order: Indices,
    known: Codes,
    key: np.uint64,
    number: int,
    net: Network,
    scratch: Array,
) -> None:
    """Draw every label that is not known from its conditional, in order; see `sampler.step`."""
    n_labels = labels.size
    levels = scratch[0, :n_labels]
    thresholds(key, number * n_labels, levels)
    for place in range(n_labels):
        i = order[place]
        if known[i] >= 0:
            continue
        if net.size[i] == 2:
            new = 1 if scores[net.first[i]] > levels[place] else 0
        else:
            uniform = uniform_at(key, number * n_labels + place)
            new = drawn_value(scores, net, i, uniform, scratch[1])
        if new != labels[i]:
            old = int(labels[i])  # of one type with `new`: one version is compiled
            move_scores(scores, net, i, old, new)
            labels[i] = new


@njit(nogil=True, cache=True, error_model="numpy")
def tally(
    labels: Codes,
    scores: Array,
    known: Codes,
    net: Network,
    scratch: Array,
    plain: Array,
    smooth: Array,
) -> float:
    """Add a sample to the counts and its conditionals to the sums; return its log-product."""
    prob, decay = scratch[0], scratch[1]
    logistics(scores, prob, decay)
    log_product = 0.0
    product = 1.0
    for i in range(labels.size):
        first = net.first[i]
        value = labels[i]
        if net.size[i] == 2:
            plain[first] += value
            if known[i] >= 0:
                smooth[first] += value
                continue
            smooth[first] += prob[first]
            log_product += min(scores[first] if value == 1 else -scores[first], 0.0)
            product *= 1.0 + decay[first]
            if product > _LARGE:
                log_product -= math.log(product)
                product = 1.0
        else:
            plain[first + value] += 1.0
            if known[i] >= 0:
                smooth[first + value] += 1.0
                continue
            softmax(scores, net, i, prob)
            for c in range(first, first + net.size[i]):
                smooth[c] += prob[c]
            log_product += math.log(prob[first + value])
    return log_product - math.log(product)


@njit(nogil=True, cache=True)
def keep_best(
    score: float, labels: Codes, place: Indices, best_scores: Array, best_labels: Codes
) -> None:
    """Offer a sample to the n best (the end of Algorithm 1).

    In the paper's words: B and S are filled first; afterwards the sample replaces the one of
    lowest score, if its own is higher. `place` holds how many are filled and where the lowest
    is, which needs to be found again only after a replacement.
    """
    filled = place[0]
    at = filled if filled < best_scores.size else place[1]
    if filled == best_scores.size and not best_scores[at] < score:
        return
    best_scores[at] = score
    for i in range(labels.size):
        best_labels[at, i] = labels[i]
    place[0] = min(filled + 1, best_scores.size)
    if place[0] == best_scores.size:
        lowest = 0
        for sample in range(1, best_scores.size):
            if best_scores[sample] < best_scores[lowest]:
                lowest = sample
        place[1] = lowest


@njit(nogil=True, cache=True, error_model="numpy")
def log_transition(
    labels: Codes,
    scores: Array,
    order: Indices,
    known: Codes,
    query: Codes,
    net: Network,
    scratch: Array,
) -> float:
    """Log-probability that a sweep from y = `labels` ends at q = `query`.

    log T(y -> q) = sum_k log p(q_o(k) | q_o(0), ..., q_o(k-1), y_o(k+1), ..., y_o(d-1)), with o
    the order of the sweep; see `sampler.log_transition`.
    """
    for i in range(labels.size):
        if known[i] >= 0 and query[i] >= 0 and query[i] != known[i]:
            return -np.inf
    moved, prob = scratch[0], scratch[1]
    for c in range(scores.size):
        moved[c] = scores[c]
    total = 0.0
    product = 1.0
    for place in range(labels.size):
        i = order[place]
        value = query[i]
        if known[i] >= 0 or value < 0:
            continue
        first = net.first[i]
        if net.size[i] == 2:
            score = moved[first] if value == 1 else -moved[first]
            total += min(score, 0.0)
            product *= 1.0 + math.exp(-abs(score))
            if product > _LARGE:
                total -= math.log(product)
                product = 1.0
        else:
            softmax(moved, net, i, prob)
            total += math.log(prob[first + value])
        if value != labels[i]:
            move_scores(moved, net, i, int(labels[i]), int(value))
    return total - math.log(product)


@njit(nogil=True, cache=True)
def column_shares(labels: Codes, net: Network, shares: Array) -> None:
    """Set `shares` (e,) to the share of label vectors (m, d) in which each column is 1."""
    shares[:] = 0.0
    for sample in range(labels.shape[0]):
        for i in range(labels.shape[1]):
            if net.size[i] == 2:
                shares[net.first[i]] += labels[sample, i]
            else:
                shares[net.first[i] + labels[sample, i]] += 1.0
    for c in range(shares.size):
        shares[c] /= labels.shape[0]


@njit(nogil=True, cache=True, error_model="numpy")
def log_mean_exp(values: Array) -> float:
    """Log of the mean of exp(values) (m,), of which some may be -inf."""
    top = -np.inf
    for value in values:
        top = max(top, value)
    if top == -np.inf:
        return top
    total = 0.0
    for value in values:
        total += math.exp(value - top)
    return top + math.log(total / values.size)


@njit(nogil=True, cache=True)
def run_rows(
    base: Array,
    labels: Codes,
    order: Indices,
    known: Codes,
    keys: NDArray[np.uint64],
    net: Network,
    counts: tuple[int, int, int],
    shares: Array,
    samples: NDArray[np.int16],
    queries: Codes,
    reached: Array,
) -> None:
    """Run the chains of all rows: Algorithm 1 and what else is asked for.

    Arrays have a leading axis of n rows. `counts` are burn-in, sweeps and n of the n best;
    `shares` (n, 3, e) receives the column means of the best samples, of all samples and of the
    conditionals; `samples` (n, chains, sweeps, d) or (n, 0, ...) receives the samples; `reached`
    (n, q) the log-mean probability of the queries (n, q, d).
    """
    burn_in, n_sweeps, n_best = counts
    n_rows, n_chains, n_labels = labels.shape
    n_columns, n_queries = base.shape[1], queries.shape[1]
    scores, scratch = np.empty(n_columns), np.empty((2, n_columns))
    best_scores, best_labels = np.empty(n_best), np.empty((n_best, n_labels), np.int32)
    each = np.empty((n_queries, n_chains * n_sweeps))
    place = np.empty(2, np.intp)
    for row in range(n_rows):
        asked, share = known[row], shares[row]
        place[:] = 0
        share[:] = 0.0
        for chain in range(n_chains):
            state, way, key = labels[row, chain], order[row, chain], keys[row, chain]
            start_scores(base[row], state, net, scores)
            for number in range(burn_in + n_sweeps):
                sweep(state, scores, way, asked, key, number, net, scratch)
                at = number - burn_in
                if at < 0:
                    continue
                score = tally(state, scores, asked, net, scratch, share[1], share[2])
                keep_best(score, state, place, best_scores, best_labels)
                if samples.shape[1] > 0:
                    for i in range(n_labels):
                        samples[row, chain, at, i] = state[i]
                for q in range(n_queries):
                    each[q, chain * n_sweeps + at] = log_transition(
                        state, scores, way, asked, queries[row, q], net, scratch
                    )
        for c in range(n_columns):
            share[1, c] /= n_chains * n_sweeps
            share[2, c] /= n_chains * n_sweeps
        column_shares(best_labels[: place[0]], net, share[0])
        for q in range(n_queries):
            reached[row, q] = log_mean_exp(each[q])
