"""Compiled expectation maximisation for one feature. Arrays are C-contiguous; no checks here."""

from __future__ import annotations

import math

import numpy as np

from colabel.core.arrays import Array, Indices
from colabel.core.compiling import njit


@njit(nogil=True, cache=True, error_model="numpy")
def expect(
    counts: Array,
    states: Indices,
    theta: Array,
    phi: Array,
    theta_counts: Array,
    phi_counts: Array,
    printed: bool,
) -> float:
    """E-step: fill the expected counts, and return the log-likelihood of the feature.

    Pr(lambda = k | v, l) = theta[l, k] phi[k, s_k(l), v] / sum of the same over k.

    A row counts once; with `printed` Pr(v | l) times, which is that sum over k.

    counts (U, V) tells how often value v occurs with label vector l; states (U, d), theta (U, d),
    phi (d, S, V).
    """
    n_vectors, n_values = counts.shape
    n_sets = theta.shape[1]
    total, scale = np.empty(n_values), np.empty(n_values)
    phi_counts[:] = 0.0
    log_likelihood = 0.0
    for u in range(n_vectors):
        total[:] = 0.0
        for k in range(n_sets):
            weight, table = theta[u, k], phi[k, states[u, k]]
            for v in range(n_values):
                total[v] += weight * table[v]
        for v in range(n_values):
            scale[v] = 0.0
            if counts[u, v] > 0.0:
                log_likelihood += counts[u, v] * math.log(total[v])
                scale[v] = counts[u, v] if printed else counts[u, v] / total[v]
        for k in range(n_sets):
            weight, table, tally = theta[u, k], phi[k, states[u, k]], phi_counts[k, states[u, k]]
            expected_of_set = 0.0
            for v in range(n_values):
                expected = weight * table[v] * scale[v]
                tally[v] += expected
                expected_of_set += expected
            theta_counts[u, k] = expected_of_set
    return log_likelihood


@njit(nogil=True, cache=True, error_model="numpy")
def smoothed(counts: Array, pseudo: float, table: Array) -> float:
    """M-step: set each row of table (m, n) to its counts plus `pseudo`, divided by their sum.

    A row without any count becomes uniform. Returns the largest change of an entry.
    """
    n_rows, n_entries = counts.shape
    change = 0.0
    for row in range(n_rows):
        total = 0.0
        for entry in range(n_entries):
            total += counts[row, entry] + pseudo
        for entry in range(n_entries):
            value = (counts[row, entry] + pseudo) / total if total > 0.0 else 1.0 / n_entries
            change = max(change, abs(value - table[row, entry]))
            table[row, entry] = value
    return change


@njit(nogil=True, cache=True, error_model="numpy")
def log_sum(table: Array) -> float:
    """Sum of the logarithms of all entries."""
    total = 0.0
    for value in table.flat:
        total += math.log(value)
    return total


@njit(nogil=True, cache=True, error_model="numpy")
def fit_feature(
    counts: Array,
    states: Indices,
    n_states: Indices,
    theta: Array,
    phi: Array,
    pseudo: float,
    tol: float,
    printed: bool,
    trace: Array,
) -> int:
    """Run EM until no entry of theta changes by `tol` or more, or the trace is full.

    theta (U, d) and phi (d, S, V) are changed in place. trace (max_iter + 1,) receives the
    objective before each iteration and after the last one: the log-likelihood plus `pseudo` times
    the sum of log theta and log phi, which smoothed counts maximise (those of `printed` may lower
    it). Returns the iterations.
    """
    n_sets = theta.shape[1]
    theta_counts, phi_counts = np.empty_like(theta), np.empty_like(phi)
    n_iter, change = 0, np.inf
    while True:
        trace[n_iter] = expect(counts, states, theta, phi, theta_counts, phi_counts, printed)
        if pseudo > 0.0:
            trace[n_iter] += pseudo * log_sum(theta)
            for k in range(n_sets):
                trace[n_iter] += pseudo * log_sum(phi[k, : n_states[k]])
        if change < tol or n_iter == trace.size - 1:
            return n_iter
        change = smoothed(theta_counts, pseudo, theta)
        for k in range(n_sets):
            smoothed(phi_counts[k, : n_states[k]], pseudo, phi[k, : n_states[k]])
        n_iter += 1
