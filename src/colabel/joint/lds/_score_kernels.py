"""Compiled scores of label vectors, and coordinate ascent over dependency sets. No checks here.

The features enter as columns (n, p), the position of each feature's value among the columns of
all features. A label vector that training has seen has mixture weights of its own, any other one
the fallback; `common` (d, S, C) holds the fallback weights times phi.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from colabel.core.arrays import Array, Codes, Indices, Keys
from colabel.core.compiling import njit

# A product is turned into its logarithm before it can underflow.
_SMALL = 1e-100


class Blocks(NamedTuple):
    """The dependency sets as flat arrays.

    Attributes
    ----------
    first : (d + 1,)
        Codes of set k are `labels[first[k]:first[k + 1]]`.
    labels : (m,)
    n_states : (d,)
    strides : (d, d)
        What a step of label i adds to the state of set k.
    sizes : (d,)
        Number of values of every label.
    touched_first : (d + 1,)
        Sets that share a label with set k are `touched[touched_first[k]:touched_first[k + 1]]`.
    touched : (t,)
    """

    first: Indices
    labels: Indices
    n_states: Indices
    strides: Indices
    sizes: Indices
    touched_first: Indices
    touched: Indices


class Seen(NamedTuple):
    """The label vectors that training has seen, ready to be looked up.

    Attributes
    ----------
    words : (d, K)
        A random word for each value of each label; the key of a vector is their exclusive or.
    keys : (U,)
        Keys in ascending order.
    order : (U,)
        Position of the vector with each key.
    vectors : (U, d)
    """

    words: Keys
    keys: Keys
    order: Indices
    vectors: Codes


class Model(NamedTuple):
    """What all rows share: the sets, the vectors seen, `log_alpha` (d, S), `common` (d, S, C)."""

    blocks: Blocks
    seen: Seen
    log_alpha: Array
    common: Array


@njit(nogil=True, cache=True, error_model="numpy")
def key_of(words: Keys, vector: Codes) -> np.uint64:
    """Key of a label vector (d,)."""
    key = np.uint64(0)
    for i in range(vector.size):
        key ^= words[i, vector[i]]
    return key


@njit(nogil=True, cache=True, error_model="numpy")
def find(seen: Seen, vector: Codes) -> int:
    """Position of a vector (d,) among those seen, or -1."""
    key = key_of(seen.words, vector)
    place, end = 0, seen.keys.size
    while place < end:
        middle = (place + end) // 2
        if seen.keys[middle] < key:
            place = middle + 1
        else:
            end = middle
    while place < seen.keys.size and seen.keys[place] == key:
        position = seen.order[place]
        same = True
        for i in range(vector.size):
            if seen.vectors[position, i] != vector[i]:
                same = False
                break
        if same:
            return int(position)
        place += 1
    return -1


@njit(nogil=True, cache=True, error_model="numpy")
def positions(seen: Seen, vectors: Codes) -> Indices:
    """Positions (m,) of vectors (m, d) among those seen, -1 for the others."""
    found = np.empty(len(vectors), dtype=np.intp)
    for m in range(len(vectors)):
        found[m] = find(seen, vectors[m])
    return found


@njit(nogil=True, cache=True, error_model="numpy")
def log_mixtures(
    states: Indices,
    position: Indices,
    weights: Array,
    fallback: Array,
    phi: Array,
    first: Indices,
    table: Array,
) -> None:
    """Fill table (m, C) with log sum_k theta[j, k] phi[k, s_k, c] for m label vectors.

    states (m, d); position (m,) of a vector among those seen, or -1; weights (U, d, p); fallback
    (d, p); phi (d, S, C); first (p + 1,).
    """
    n_features = first.size - 1
    for m in range(len(states)):
        mixed = table[m]
        mixed[:] = 0.0
        for k in range(states.shape[1]):
            share = fallback[k] if position[m] < 0 else weights[position[m], k]
            conditional = phi[k, states[m, k]]
            for j in range(n_features):
                for c in range(first[j], first[j + 1]):
                    mixed[c] += share[j] * conditional[c]
        for c in range(mixed.size):
            mixed[c] = math.log(mixed[c]) if mixed[c] > 0.0 else -np.inf


@njit(nogil=True, cache=True, error_model="numpy")
def _log_product(factors: Array) -> float:
    """Sum of the logarithms of factors (p,), by few logarithms."""
    total, product = 0.0, 1.0
    for factor in factors:
        if factor <= 0.0:
            return -np.inf
        product *= factor
        if product < _SMALL:
            total += math.log(product)
            product = 1.0
    return total + math.log(product)


@njit(nogil=True, cache=True, error_model="numpy")
def _mix(columns: Indices, states: Indices, common: Array, mixed: Array) -> None:
    """Set mixed (p,) to the probabilities of the features under the fallback weights."""
    mixed[:] = 0.0
    for k in range(states.size):
        for j in range(columns.size):
            mixed[j] += common[k, states[k], columns[j]]


@njit(nogil=True, cache=True, error_model="numpy")
def score_block(
    k: int,
    columns: Indices,
    vector: Codes,
    evidence: Codes,
    seen_scores: Array,
    model: Model,
    scores: Array,
) -> None:
    """Fill scores (S_k,): log Pr(labels, features) for all values of the labels of set k.

    The other labels stay as in `vector` (d,), which is unchanged afterwards. Values that
    contradict the evidence (d,), where that is not negative, score -inf.
    """
    blocks, seen, log_alpha, common = model
    n_labels = vector.size
    labels = blocks.labels[blocks.first[k] : blocks.first[k + 1]]
    touched = blocks.touched[blocks.touched_first[k] : blocks.touched_first[k + 1]]
    states = np.empty(n_labels, dtype=np.intp)
    for s in range(n_labels):
        states[s] = 0
        for i in range(n_labels):
            states[s] += blocks.strides[s, i] * vector[i]
    mixed, changed = np.empty(columns.size), np.empty(columns.size)
    _mix(columns, states, common, mixed)
    prior = 0.0
    for s in range(n_labels):
        prior += log_alpha[s, states[s]]
    before = np.empty(labels.size, dtype=np.int32)
    for place in range(labels.size):
        before[place] = vector[labels[place]]
    for state in range(blocks.n_states[k]):
        allowed = True
        for place in range(labels.size):
            i = labels[place]
            vector[i] = state // blocks.strides[k, i] % blocks.sizes[i]
            allowed = allowed and (evidence[i] < 0 or evidence[i] == vector[i])
        scores[state] = -np.inf
        if not allowed:
            continue
        position = find(seen, vector)
        if position >= 0:
            scores[state] = seen_scores[position]
            continue
        for j in range(columns.size):
            changed[j] = mixed[j]
        score = prior
        for s in touched:
            new = states[s]
            for place in range(labels.size):
                i = labels[place]
                new += blocks.strides[s, i] * (vector[i] - before[place])
            score += log_alpha[s, new] - log_alpha[s, states[s]]
            if new != states[s]:
                for j in range(columns.size):
                    changed[j] += common[s, new, columns[j]] - common[s, states[s], columns[j]]
        scores[state] = score + _log_product(changed)
    for place in range(labels.size):
        vector[labels[place]] = before[place]


@njit(nogil=True, cache=True, error_model="numpy")
def ascend(
    which: Indices,
    max_sweeps: int,
    columns: Indices,
    vectors: Codes,
    evidence: Codes,
    seen_scores: Array,
    model: Model,
) -> None:
    """Improve vectors (n, d) in place, one dependency set of `which` after the other.

    Each set takes the values of its labels that are best given all the others, for at most
    `max_sweeps` sweeps or until nothing changes. In a tie the values stay as they are.
    """
    blocks, scores = model.blocks, np.empty(model.log_alpha.shape[1])
    for row in range(len(vectors)):
        vector, known = vectors[row], evidence[row]
        for _ in range(max_sweeps):
            moved = False
            for k in which:
                score_block(k, columns[row], vector, known, seen_scores[row], model, scores)
                present = 0
                for i in blocks.labels[blocks.first[k] : blocks.first[k + 1]]:
                    present += blocks.strides[k, i] * vector[i]
                best = present
                for state in range(blocks.n_states[k]):
                    if scores[state] > scores[best] + 1e-12 * abs(scores[best]):
                        best = state
                if best != present:
                    moved = True
                    for i in blocks.labels[blocks.first[k] : blocks.first[k + 1]]:
                        vector[i] = best // blocks.strides[k, i] % blocks.sizes[i]
            if not moved:
                break


@njit(nogil=True, cache=True, error_model="numpy")
def neighbours(
    columns: Indices,
    vectors: Codes,
    evidence: Codes,
    seen_scores: Array,
    model: Model,
    codes: Codes,
    keys: Keys,
    scores: Array,
) -> None:
    """Write out the vectors that differ from vectors (n, d) within one set only.

    codes (n, N, d), their keys and scores (n, N), with N the number of states of all sets
    together; a score of -inf marks vectors seen in training and contradictions.
    """
    blocks, seen, within = model.blocks, model.seen, np.empty(model.log_alpha.shape[1])
    for row in range(len(vectors)):
        vector, known = vectors[row], evidence[row]
        place = 0
        for k in range(len(blocks.n_states)):
            score_block(k, columns[row], vector, known, seen_scores[row], model, within)
            for state in range(blocks.n_states[k]):
                for i in range(vector.size):
                    codes[row, place, i] = vector[i]
                for i in blocks.labels[blocks.first[k] : blocks.first[k + 1]]:
                    codes[row, place, i] = state // blocks.strides[k, i] % blocks.sizes[i]
                keys[row, place] = key_of(seen.words, codes[row, place])
                scores[row, place] = within[state]
                if find(seen, codes[row, place]) >= 0:
                    scores[row, place] = -np.inf
                place += 1
