"""Compiled inner loops of the pseudo-likelihood."""

from __future__ import annotations

import math

import numpy as np

from colabel.core.arrays import Array, Codes, Indices
from colabel.core.compiling import njit
from colabel.core.exponential import ORDERED, exp_of_negative, log_one_plus


@njit(nogil=True, cache=True, error_model="numpy")
def pseudo_terms(
    node: Array,
    edge: Array,
    codes: Codes,
    weight: Array,
    sizes: Indices,
    edges: Indices,
    node_start: Indices,
    edge_start: Indices,
    node_slope: Array,
    edge_slope: Array,
    log_prob: Array,
) -> None:
    """Log-conditionals of equation 2.4 and the derivatives of their negative weighted sum.

    For every row, given node scores (n, cv) and edge scores (n, ce), or (1, ce) where tables do
    not depend on the row: fills `log_prob` (n, d) with log P(y_i | y_-i, x) and `node_slope`,
    `edge_slope` with derivatives by the scores. Derivatives by shared edge scores are summed.
    """
    n_rows, n_labels = codes.shape
    shared = edge.shape[0] == 1
    first = np.zeros(n_labels + 1, dtype=np.intp)
    for i in range(n_labels):
        first[i + 1] = first[i] + sizes[i]
    score = np.empty(first[n_labels])
    if shared:
        edge_slope[:] = 0.0
    for row in range(n_rows):
        edge_row = 0 if shared else row
        for i in range(n_labels):
            for a in range(sizes[i] - 1):
                score[first[i] + a] = node[row, node_start[i] + a]
            score[first[i + 1] - 1] = 0.0
        for e in range(edges.shape[0]):
            i, j = edges[e, 0], edges[e, 1]
            y_i, y_j, start, width = codes[row, i], codes[row, j], edge_start[e], sizes[j]
            last = sizes[i] * width - 1
            for a in range(sizes[i]):
                cell = a * width + y_j
                if cell < last:
                    score[first[i] + a] += edge[edge_row, start + cell]
            for b in range(width):
                cell = y_i * width + b
                if cell < last:
                    score[first[j] + b] += edge[edge_row, start + cell]
        for i in range(n_labels):
            # Scores become residuals: weight times (P(a | rest) - [y_i = a]).
            highest = -np.inf
            for a in range(first[i], first[i + 1]):
                highest = max(highest, score[a])
            total = 0.0
            own = score[first[i] + codes[row, i]]
            for a in range(first[i], first[i + 1]):
                score[a] = math.exp(score[a] - highest)
                total += score[a]
            log_prob[row, i] = own - highest - math.log(total)
            for a in range(first[i], first[i + 1]):
                score[a] *= weight[row] / total
            score[first[i] + codes[row, i]] -= weight[row]
            for a in range(sizes[i] - 1):
                node_slope[row, node_start[i] + a] = score[first[i] + a]
        if not shared:
            edge_slope[row, :] = 0.0
        for e in range(edges.shape[0]):
            # Equation 2.9: both ends' residuals, each in the cells that the other end allows.
            i, j = edges[e, 0], edges[e, 1]
            y_i, y_j, start, width = codes[row, i], codes[row, j], edge_start[e], sizes[j]
            last = sizes[i] * width - 1
            for a in range(sizes[i]):
                cell = a * width + y_j
                if cell < last:
                    edge_slope[edge_row, start + cell] += score[first[i] + a]
            for b in range(width):
                cell = y_i * width + b
                if cell < last:
                    edge_slope[edge_row, start + cell] += score[first[j] + b]


@njit(nogil=True, cache=True, error_model="numpy", fastmath=ORDERED)
def _settle(score: Array, off: Array, weight: float, log_prob: Array) -> None:
    """Turn scores s of y = 0 against y = 1 (d,) into residuals, and find log-probabilities (d,).

    With e = exp(-|s|), which never overflows: P(y = 0) = 1 / (1 + e) or e / (1 + e), the log of the
    true value's is min(own, 0) - log(1 + e), with own = s or -s, and the residual is
    weight (P(y = 0) - off).
    """
    for i in range(score.size):
        s = score[i]
        e = exp_of_negative(max(-abs(s), -708.0))
        own = s if off[i] == 1.0 else -s
        log_prob[i] = min(own, 0.0) - log_one_plus(e)
        zero = (1.0 if s >= 0.0 else e) / (1.0 + e)
        score[i] = weight * (zero - off[i])


@njit(nogil=True, cache=True, error_model="numpy")
def binary_terms(
    node: Array,
    edge: Array,
    codes: Codes,
    weight: Array,
    edges: Indices,
    node_slope: Array,
    edge_slope: Array,
    log_prob: Array,
) -> None:
    """Do what `pseudo_terms` does, for variables of two values: one score and no branches.

    With the cells 00, 01 and 10 of edge (i, j), the score of y_i = 0 against y_i = 1 is
    w00 - w10 where y_j = 0, and w01 where y_j = 1.
    """
    n_rows, n_labels = codes.shape
    shared = edge.shape[0] == 1
    score, off = np.empty(n_labels), np.empty(n_labels)
    if shared:
        edge_slope[:] = 0.0
    for row in range(n_rows):
        table = edge[0 if shared else row]
        for i in range(n_labels):
            score[i] = node[row, i]
            off[i] = 1.0 - codes[row, i]
        for e in range(edges.shape[0]):
            i, j = edges[e, 0], edges[e, 1]
            w00, w01, w10 = table[3 * e], table[3 * e + 1], table[3 * e + 2]
            score[i] += off[j] * (w00 - w10) + (1.0 - off[j]) * w01
            score[j] += off[i] * (w00 - w01) + (1.0 - off[i]) * w10
        _settle(score, off, weight[row], log_prob[row])
        node_slope[row] = score
        slope = edge_slope[0 if shared else row]
        for e in range(edges.shape[0]):
            i, j = edges[e, 0], edges[e, 1]
            s00 = off[j] * score[i] + off[i] * score[j]
            s01 = (1.0 - off[j]) * score[i] - off[i] * score[j]
            s10 = (1.0 - off[i]) * score[j] - off[j] * score[i]
            if shared:
                slope[3 * e] += s00
                slope[3 * e + 1] += s01
                slope[3 * e + 2] += s10
            else:
                slope[3 * e] = s00
                slope[3 * e + 1] = s01
                slope[3 * e + 2] = s10
