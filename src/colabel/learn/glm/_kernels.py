"""Compiled inner loops of the batched regressions. Arrays are C-contiguous; no checks here."""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

from colabel.core.arrays import Array

# Reassociation lets sums and products be vectorised; infinities keep their meaning.
_SUMS = {"reassoc", "contract", "nsz", "arcp"}
# The exponential below relies on the order of its additions.
_ORDERED = {"contract", "nsz"}

# A product of this many factors in [1, 2] cannot overflow: one logarithm serves them all.
_FACTORS = 512

_LOG2_E = 1.4426950408889634
_LN2_HIGH = 0.6931471803691238
_LN2_LOW = 1.9082149292705877e-10
_ROUNDER = 6755399441055744.0  # 1.5 * 2^52: adding it rounds to an integer
_EXPONENT_BIAS = np.int64(1023)
_MANTISSA_BITS = np.int64(52)


@njit(nogil=True, cache=True, error_model="numpy", fastmath=_ORDERED)
def _moved_scores(scores: Array, change: Array, length: float, moved: Array, decay: Array) -> None:
    """Set moved = scores + length * change and decay = exp(-|moved|).

    The exponential is 2^k times a Taylor polynomial of the remainder, to about one unit in the
    last place. Unlike the library's, it is inlined and vectorised together with the rest.
    """
    for i in range(scores.size):
        score = scores[i] + length * change[i]
        moved[i] = score
        x = max(-abs(score), -708.0)
        k = (x * _LOG2_E + _ROUNDER) - _ROUNDER
        r = (x - k * _LN2_HIGH) - k * _LN2_LOW
        p = 1.0 / 479001600
        p = p * r + 1.0 / 39916800
        p = p * r + 1.0 / 3628800
        p = p * r + 1.0 / 362880
        p = p * r + 1.0 / 40320
        p = p * r + 1.0 / 5040
        p = p * r + 1.0 / 720
        p = p * r + 1.0 / 120
        p = p * r + 1.0 / 24
        p = p * r + 1.0 / 6
        p = p * r + 0.5
        p = p * r + 1.0
        p = p * r + 1.0
        power = np.int64((np.int64(k) + _EXPONENT_BIAS) << _MANTISSA_BITS)
        decay[i] = p * np.int64(power).view(np.float64)


@njit(nogil=True, cache=True, error_model="numpy", fastmath=_SUMS)
def _logistic_rows(
    scores: Array,
    decay: Array,
    targets: NDArray[np.int16],
    weight: Array,
    residual: Array,
    curvature: Array,
) -> tuple[float, float, float]:
    """One task, at most _FACTORS rows: linear part of the loss, product of 1 + e, curvature."""
    linear = 0.0
    product = 1.0
    total = 0.0
    for i in range(scores.size):
        s = scores[i]
        e = decay[i]
        y = float(targets[i])
        belongs = 1.0 if y >= 0.0 else 0.0
        w = weight[i] * belongs
        odds = 1.0 / (1.0 + e)
        positive = odds if s > 0.0 else e * odds
        bent = w * (e * odds * odds)
        residual[i] = w * (positive - y)
        curvature[i] = bent
        total += bent
        linear += w * (max(s, 0.0) - y * s)
        product *= 1.0 + belongs * e
    return linear, product, total


@njit(nogil=True, cache=True, error_model="numpy")
def logistic_terms(
    scores: Array,
    change: Array,
    lengths: Array,
    targets: NDArray[np.int16],
    weight: Array,
    unit_weight: bool,
    moved: Array,
    residual: Array,
    curvature: Array,
) -> tuple[Array, Array]:
    """Move every task's scores and find loss, residual and curvature there, in one pass.

    With s the moved score, e = exp(-|s|), w the row's weight (0 where the target is negative):
    loss = w (max(s, 0) - y s + log(1 + e)), residual = w (sigmoid(s) - y),
    curvature = w e / (1 + e)^2. Arrays are (T, n) but for `lengths` (T,) and `weight` (n,).
    Returns the loss and the mean curvature (per unit of weight) of every task.
    """
    n_tasks, n_rows = scores.shape
    total_weight = weight.sum()
    value = np.zeros(n_tasks)
    mean = np.zeros(n_tasks)
    decay = np.empty(_FACTORS)
    for task in range(n_tasks):
        for start in range(0, n_rows, _FACTORS):
            rows = slice(start, min(start + _FACTORS, n_rows))
            e = decay[: rows.stop - start]
            _moved_scores(
                scores[task, rows], change[task, rows], lengths[task], moved[task, rows], e
            )
            linear, product, bent = _logistic_rows(
                moved[task, rows],
                e,
                targets[task, rows],
                weight[rows],
                residual[task, rows],
                curvature[task, rows],
            )
            value[task] += linear
            mean[task] += bent
            if unit_weight:
                value[task] += math.log(product)
            else:
                for i in range(e.size):
                    if targets[task, start + i] >= 0:
                        value[task] += weight[start + i] * math.log1p(e[i])
        mean[task] /= total_weight
    return value, mean


@njit(nogil=True, cache=True, error_model="numpy", fastmath=_SUMS)
def csr_times(
    indptr: NDArray[np.int32],
    indices: NDArray[np.int32],
    data: Array,
    dense: Array,
    out: Array,
) -> None:
    """Compute out (n, c) = A (n, q) @ dense (q, c).

    Four entries of a row are taken together, so that a sum is loaded and stored once for four.
    """
    n_columns = dense.shape[1]
    for row in range(out.shape[0]):
        target = out[row]
        target[:] = 0.0
        position = indptr[row]
        stop = indptr[row + 1]
        while position + 4 <= stop:
            x0, x1 = data[position], data[position + 1]
            x2, x3 = data[position + 2], data[position + 3]
            s0, s1 = dense[indices[position]], dense[indices[position + 1]]
            s2, s3 = dense[indices[position + 2]], dense[indices[position + 3]]
            for column in range(n_columns):
                target[column] += (
                    x0 * s0[column] + x1 * s1[column] + x2 * s2[column] + x3 * s3[column]
                )
            position += 4
        while position < stop:
            x0 = data[position]
            s0 = dense[indices[position]]
            for column in range(n_columns):
                target[column] += x0 * s0[column]
            position += 1


@njit(nogil=True, cache=True, fastmath=_SUMS)
def logistic_bend(curvature: Array, change: Array) -> Array:
    """Sum over rows of curvature * change^2 for every task: (T, n), (T, n) -> (T,)."""
    n_tasks, n_rows = change.shape
    bend = np.zeros(n_tasks)
    for task in range(n_tasks):
        total = 0.0
        for row in range(n_rows):
            total += curvature[task, row] * change[task, row] * change[task, row]
        bend[task] = total
    return bend


@njit(nogil=True, cache=True, fastmath=_SUMS)
def quasi_newton_direction(
    gradient: Array,
    steps: Array,
    changes: Array,
    inverse_products: Array,
    lanes: NDArray[np.intp],
    newest: int,
    diagonal: Array,
) -> Array:
    """The two-loop recursion of L-BFGS for every task.

    `gradient` and `diagonal` (the initial Hessian) are (T, q). The memory of task t lies in lane
    `lanes[t]` of `steps` and `changes` (lanes, m, q) and of `inverse_products` (lanes, m):
    1 / (step . change), zero for an empty or unusable pair. Pairs lie in a ring whose youngest
    is `newest`.
    """
    n_tasks, n_coordinates = gradient.shape
    memory = steps.shape[1]
    direction = np.empty_like(gradient)
    share = np.empty(memory)
    for task in range(n_tasks):
        p = direction[task]
        lane = lanes[task]
        for q in range(n_coordinates):
            p[q] = -gradient[task, q]
        for age in range(memory):
            slot = (newest - age) % memory
            rho = inverse_products[lane, slot]
            if rho > 0.0:
                dot = 0.0
                for q in range(n_coordinates):
                    dot += steps[lane, slot, q] * p[q]
                share[slot] = rho * dot
                for q in range(n_coordinates):
                    p[q] -= share[slot] * changes[lane, slot, q]
        for q in range(n_coordinates):
            p[q] /= diagonal[task, q]
        for age in range(memory - 1, -1, -1):
            slot = (newest - age) % memory
            rho = inverse_products[lane, slot]
            if rho > 0.0:
                dot = 0.0
                for q in range(n_coordinates):
                    dot += changes[lane, slot, q] * p[q]
                for q in range(n_coordinates):
                    p[q] += (share[slot] - rho * dot) * steps[lane, slot, q]
    return direction
