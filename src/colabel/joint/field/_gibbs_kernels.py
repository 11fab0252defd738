"""Compiled Gibbs sampling and annealing for pairwise fields. No checks here.

A row keeps the *fields* of all its labels: what the present values of the neighbours add to the
score of each value. When a label changes, only those of its neighbours are updated.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from colabel.core.arrays import Array, Codes, Keys
from colabel.core.compiling import njit
from colabel.joint.field._flat import FlatField, Wires, move_label, set_fields
from colabel.joint.gibbs.kernels import uniform_at


@njit(nogil=True, cache=True, error_model="numpy", inline="always")
def draw_label(
    unary: Array,
    fields: Array,
    first: int,
    last: int,
    heat: float,
    prob: Array,
    uniform: float,
) -> int:
    """Draw a value from softmax(unary + heat fields); leave the probabilities in prob (C,)."""
    top = -np.inf
    for c in range(first, last):
        prob[c] = unary[c] + heat * fields[c]
        top = max(top, prob[c])
    total = 0.0
    for c in range(first, last):
        prob[c] = math.exp(prob[c] - top)
        total += prob[c]
    chosen = -1
    summed, before = 0.0, 0.0
    for c in range(first, last):
        prob[c] /= total
        summed += prob[c]
        # The last value with any probability also takes what rounding leaves over.
        if prob[c] > 0.0 and (chosen < 0 or uniform >= before):
            chosen = c - first
        before = summed
    return chosen


@njit(nogil=True, cache=True)
def sweep(
    wires: Wires,
    unary: Array,
    table: Array,
    labels: Codes,
    fields: Array,
    heat: float,
    key: np.uint64,
    position: int,
    prob: Array,
) -> None:
    """Draw every label once, from its conditional given the others; heat 1 is the field itself."""
    for i in range(labels.size):
        uniform = uniform_at(key, position + i)
        first, last = wires.first[i], wires.first[i + 1]
        new = draw_label(unary, fields, first, last, heat, prob, uniform)
        if new != labels[i]:
            move_label(wires, table, fields, i, labels[i], new)
            labels[i] = new


@njit(nogil=True, cache=True)
def start_chain(
    wires: Wires,
    unary: Array,
    table: Array,
    labels: Codes,
    fields: Array,
    key: np.uint64,
    prob: Array,
) -> None:
    """Draw all labels from their unary scores alone, and set the fields."""
    for i in range(labels.size):
        first, last = wires.first[i], wires.first[i + 1]
        labels[i] = draw_label(unary, fields, first, last, 0.0, prob, uniform_at(key, i))
    set_fields(wires, table, labels, fields)


@njit(nogil=True, cache=True)
def score_of(wires: Wires, unary: Array, labels: Codes, fields: Array) -> float:
    """Score of a label vector: unary scores, and half the fields since edges count twice there."""
    found = 0.0
    for i in range(labels.size):
        c = wires.first[i] + labels[i]
        found += unary[c] + 0.5 * fields[c]
    return found


@njit(nogil=True, cache=True)
def sample_rows(
    flat: FlatField,
    keys: Keys,
    burn_in: int,
    n_sweeps: int,
    single: Array,
    best: Codes,
    samples: NDArray[np.int16],
) -> None:
    """Run the chains of each row.

    Parameters
    ----------
    keys : (m, chains)
        Random streams.
    single : (m, C)
        Receives the mean, over the kept sweeps, of the conditional probabilities drawn from.
    best : (m, d)
        Receives the vector with the highest score among those visited.
    samples : (m, chains, sweeps, d) or (0, ...)
        Receives the labels after each kept sweep, unless it has no rows.
    """
    wires = flat.wires
    n_rows, n_chains = keys.shape
    n_labels = wires.order.size
    labels = np.empty(n_labels, dtype=np.int32)
    fields, prob = np.zeros(flat.unary.shape[1]), np.empty(flat.unary.shape[1])
    for r in range(n_rows):
        unary, table = flat.unary[r], flat.tables[r if len(flat.tables) > 1 else 0]
        single[r] = 0.0
        top = -np.inf
        for chain in range(n_chains):
            key = keys[r, chain]
            start_chain(wires, unary, table, labels, fields, key, prob)
            for t in range(1, burn_in + n_sweeps + 1):
                sweep(wires, unary, table, labels, fields, 1.0, key, t * n_labels, prob)
                score = score_of(wires, unary, labels, fields)
                if score > top:
                    top = score
                    for i in range(n_labels):
                        best[r, i] = labels[i]
                if t > burn_in:
                    for c in range(prob.size):
                        single[r, c] += prob[c]
                    if len(samples):
                        for i in range(n_labels):
                            samples[r, chain, t - burn_in - 1, i] = labels[i]
        for c in range(prob.size):
            single[r, c] /= n_chains * n_sweeps


@njit(nogil=True, cache=True)
def anneal_rows(flat: FlatField, keys: Keys, n_steps: int, log_weights: Array) -> None:
    """Annealed importance sampling: from independent labels to the field in equal steps.

    The field at heat h has the scores u(y) + h e(y), of unary scores and of edges. A chain y_0,
    y_1, ..., y_t drawn at heat t / N, has log w = sum_{t < N} e(y_t) / N, and E[w] is the ratio
    of the partition functions at heat 1 and 0.

    Parameters
    ----------
    keys : (m, chains)
        Random streams.
    log_weights : (m, chains)
        Receives log importance weights; their mean in exp estimates Z over that of the unary
        scores alone.
    """
    wires = flat.wires
    n_labels = wires.order.size
    labels = np.empty(n_labels, dtype=np.int32)
    fields, prob = np.zeros(flat.unary.shape[1]), np.empty(flat.unary.shape[1])
    for r in range(keys.shape[0]):
        unary, table = flat.unary[r], flat.tables[r if len(flat.tables) > 1 else 0]
        for chain in range(keys.shape[1]):
            key = keys[r, chain]
            start_chain(wires, unary, table, labels, fields, key, prob)
            found = 0.0
            for t in range(1, n_steps + 1):
                of_edges = 0.0
                for i in range(n_labels):
                    of_edges += 0.5 * fields[wires.first[i] + labels[i]]
                found += of_edges / n_steps
                heat = t / n_steps
                sweep(wires, unary, table, labels, fields, heat, key, t * n_labels, prob)
            log_weights[r, chain] = found
