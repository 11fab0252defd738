"""Compiled Gibbs sampling for linear conditionals. Arrays are C-contiguous; no checks here.

Arrays are copied and searched by loops: see `core.compiling` for what the short forms cost.

A row keeps the running scores of all its labels. When a label changes, one row of the weights is
added to them: O(d) a flip, or the number of its edges where they are few, and a label that stays
costs nothing but its own draw.

Random numbers by key and position: the same whatever else is drawn, and by whom.

A stream is a key of 64 bits, its t-th number a hash of the key and of t (the SplitMix64 generator
of Steele, Lea & Flood, 2014, which is such a hash). Every row of a batch and every chain has its
own key, so a row's numbers depend neither on the other rows nor on which thread serves it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from colabel.core.arrays import Array, Codes, Indices, Keys
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
from colabel.core.hashing import FIRST_FACTOR, SECOND_FACTOR, mix

# An odd number close to 2^64 / golden ratio: its multiples spread evenly.
GAMMA = 0x9E3779B97F4A7C15
# Streams for other purposes than the sweeps start from keys of their own.
_FOR_ORDER = 0x6F72646572
_FOR_START = 0x7374617274
_WORD = 1 << 64


def uniforms(keys: Keys, position: int) -> Array:
    """Return number `position` of each stream, in the shape of `keys`, strictly within (0, 1)."""
    step = np.uint64((position + 1) * GAMMA % _WORD)
    return ((mix(keys + step) >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53


def chain_keys(row_keys: Keys, n_chains: int, seed: int) -> Keys:
    """Return keys (chains, n) for the chains of rows whose own keys are (n,)."""
    start = mix(np.array([(seed + GAMMA) % _WORD], dtype=np.uint64))
    # Adding where the line above used exclusive or: no row and chain can cancel each other.
    chains = np.arange(1, n_chains + 1, dtype=np.uint64) * np.uint64(GAMMA)
    return mix(mix(row_keys ^ start) + chains[:, None])


def distinct_keys(row_keys: Keys) -> Keys:
    """Return keys (n,) that all differ: equal ones by how many rows before have the same.

    Examples
    --------
    >>> import numpy as np
    >>> len(set(distinct_keys(np.array([5, 7, 5, 5], dtype=np.uint64)).tolist()))
    4
    """
    order = np.argsort(row_keys, kind="stable")
    ordered = row_keys[order]
    earlier = np.empty(len(row_keys), dtype=np.uint64)
    earlier[order] = np.arange(len(row_keys)) - np.searchsorted(ordered, ordered)
    return mix(mix(row_keys) + earlier * np.uint64(GAMMA))


def random_orders(keys: Keys, n_labels: int) -> Indices:
    """Return a random permutation (..., d) of the labels for each stream."""
    own = mix(keys ^ np.uint64(_FOR_ORDER))
    draws = [uniforms(own, i) for i in range(n_labels)]
    order: Indices = np.argsort(np.stack(draws, axis=-1), axis=-1, kind="stable")
    return order


def random_labels(keys: Keys, cardinalities: tuple[int, ...]) -> NDArray[np.int32]:
    """Return codes (..., d) that are uniform over each variable's values."""
    own = mix(keys ^ np.uint64(_FOR_START))
    draws = [(uniforms(own, i) * size).astype(np.int32) for i, size in enumerate(cardinalities)]
    return np.stack(draws, axis=-1)


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
    """Linear conditionals without what depends on the row.

    Attributes
    ----------
    first : (d,)
        The first column of each label.
    size : (d,)
        Number of values of each label; two values have one column, K have K.
    floor : (e,)
        Probability kept for values never seen; zero for most.
    start : (e + 1,)
        The weights of column c are ``weights[start[c] : start[c + 1]]`` of a row's: what it adds
        when it is 1.
    targets : (N,), or empty where every column has a weight for all e scores
        The score that each weight is added to.
    """

    first: Indices
    size: Indices
    floor: Array
    start: Indices
    targets: Indices


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
def add_column(scores: Array, weights: Array, net: Network, column: int, sign: float) -> None:
    """Add what a column adds to the scores that it reaches."""
    start, end = net.start[column], net.start[column + 1]
    if net.targets.size:
        for at in range(start, end):
            scores[net.targets[at]] += sign * weights[at]
    else:  # a weight for every score, or none at all
        for c in range(end - start):
            scores[c] += sign * weights[start + c]


@njit(nogil=True, cache=True)
def move_scores(scores: Array, weights: Array, net: Network, i: int, old: int, new: int) -> None:
    """Change label i from `old` to `new`: s += W[column of new] - W[column of old]."""
    first = net.first[i]
    if net.size[i] == 2:
        add_column(scores, weights, net, first, float(new - old))
    else:
        add_column(scores, weights, net, first + old, -1.0)
        add_column(scores, weights, net, first + new, 1.0)


@njit(nogil=True, cache=True)
def start_scores(base: Array, weights: Array, labels: Codes, net: Network, scores: Array) -> None:
    """Set the scores from scratch: base plus the columns that are 1."""
    for c in range(scores.size):
        scores[c] = base[c]
    for i in range(labels.size):
        if net.size[i] != 2:
            add_column(scores, weights, net, net.first[i] + labels[i], 1.0)
        elif labels[i] == 1:
            add_column(scores, weights, net, net.first[i], 1.0)


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
    weights: Array,
    order: Indices,
    known: Codes,
    key: np.uint64,
    number: int,
    net: Network,
    scratch: Array,
) -> None:
    """Draw every label that is not known from its conditional, in order."""
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
            move_scores(scores, weights, net, i, old, new)
            labels[i] = new


@njit(nogil=True, cache=True, error_model="numpy")
def tally(
    labels: Codes, scores: Array, known: Codes, net: Network, scratch: Array, smooth: Array
) -> float:
    """Add a sample's conditionals to the sums; return their log-product at the sample."""
    prob, decay = scratch[0], scratch[1]
    logistics(scores, prob, decay)
    log_product = 0.0
    product = 1.0
    for i in range(labels.size):
        first = net.first[i]
        value = labels[i]
        if net.size[i] == 2:
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
            if known[i] >= 0:
                smooth[first + value] += 1.0
                continue
            softmax(scores, net, i, prob)
            for c in range(first, first + net.size[i]):
                smooth[c] += prob[c]
            log_product += math.log(prob[first + value])
    return log_product - math.log(product)


@njit(nogil=True, cache=True, error_model="numpy")
def log_transition(
    labels: Codes,
    scores: Array,
    weights: Array,
    order: Indices,
    known: Codes,
    query: Codes,
    net: Network,
    scratch: Array,
) -> float:
    """Log-probability that a sweep from y = `labels` ends at q = `query`.

    log T(y -> q) = sum_k log p(q_o(k) | q_o(0), ..., q_o(k-1), y_o(k+1), ..., y_o(d-1)), with o
    the order of the sweep; see `sampler.transition`.
    """
    for i in range(labels.size):
        if known[i] >= 0 and query[i] >= 0 and query[i] != known[i]:
            return -np.inf
    moved, prob = scratch[0], scratch[1]
    for c in range(scores.size):
        moved[c] = scores[c]
    total = 0.0
    for place in range(labels.size):
        i = order[place]
        value = query[i]
        if known[i] >= 0 or value < 0:
            continue
        first = net.first[i]
        if net.size[i] == 2:
            score = moved[first] if value == 1 else -moved[first]
            total += min(score, 0.0) - math.log1p(math.exp(-abs(score)))
        else:
            softmax(moved, net, i, prob)
            total += math.log(prob[first + value])
        if value != labels[i]:
            move_scores(moved, weights, net, i, int(labels[i]), int(value))
    return total


@njit(nogil=True, cache=True, error_model="numpy")
def log_mean_exp(values: Array) -> float:
    """Log of the mean of exp(values) (m,); some of the values may be -inf."""
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
    weights: Array,
    labels: Codes,
    order: Indices,
    known: Codes,
    keys: NDArray[np.uint64],
    net: Network,
    burn_in: int,
    samples: NDArray[np.int16],
    products: Array,
    smooth: Array,
    queries: Codes,
    log_prob: Array,
) -> None:
    """Run the chains of all rows.

    Arrays have a leading axis of n rows, `weights` perhaps of one that all rows share. Kept after
    `burn_in` sweeps are: `samples` (n, chains, sweeps, d), the log-`products` (n, chains, sweeps)
    of their conditionals, the means of the conditionals in `smooth` (n, e), and in `log_prob`
    (n, q) the log-mean probability of the queries (n, q, d).
    """
    n_rows, n_chains, n_sweeps, n_labels = samples.shape
    n_columns, n_queries = base.shape[1], queries.shape[1]
    scores, scratch = np.empty(n_columns), np.empty((2, n_columns))
    each = np.empty((n_queries, n_chains * n_sweeps))
    for row in range(n_rows):
        asked, own = known[row], weights[row if len(weights) > 1 else 0]
        smooth[row] = 0.0
        for chain in range(n_chains):
            state, way, key = labels[row, chain], order[row, chain], keys[row, chain]
            start_scores(base[row], own, state, net, scores)
            for number in range(burn_in + n_sweeps):
                sweep(state, scores, own, way, asked, key, number, net, scratch)
                at = number - burn_in
                if at < 0:
                    continue
                products[row, chain, at] = tally(state, scores, asked, net, scratch, smooth[row])
                for i in range(n_labels):
                    samples[row, chain, at, i] = state[i]
                for q in range(n_queries):
                    each[q, chain * n_sweeps + at] = log_transition(
                        state, scores, own, way, asked, queries[row, q], net, scratch
                    )
        for c in range(n_columns):
            smooth[row, c] /= n_chains * n_sweeps
        for q in range(n_queries):
            log_prob[row, q] = log_mean_exp(each[q])
