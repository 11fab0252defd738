"""Losses of batched regressions: value, residual and curvature for all tasks at once.

The inner loops are compiled. They take C-contiguous arrays and check nothing.
Tasks come first, rows last, so that loops over rows vectorise for few tasks too.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from colabel.core.arrays import Array, Flags, Indices, Targets, xp_of
from colabel.core.compiling import njit
from colabel.core.exponential import ORDERED, exp_of_negative
from colabel.learn.glm import device

# Reassociation lets sums and products be vectorised; infinities keep their meaning.
_SUMS = {"reassoc", "contract", "nsz", "arcp"}
# Largest values are vectorised where there is no NaN.
_MAXIMA = {"nnan", "nsz", "contract"}

# A product of this many factors in [1, 2] cannot overflow: one logarithm serves them all.
_FACTORS = 512


@njit(nogil=True, cache=True, error_model="numpy", fastmath=ORDERED)
def move_and_decay(scores: Array, change: Array, step: float, decay: Array) -> None:
    """Set scores += step * change and decay = exp(-|scores|)."""
    for i in range(scores.size):
        score = scores[i] + step * change[i]
        scores[i] = score
        decay[i] = exp_of_negative(max(-abs(score), -708.0))


@njit(nogil=True, cache=True, error_model="numpy", fastmath=_SUMS)
def _logistic_rows(
    scores: Array, decay: Array, targets: Targets, weight: Array, residual: Array
) -> tuple[float, float, float, float]:
    """One task, at most _FACTORS rows: sums of the loss's linear part, of curvature, of |residual|.

    The product of the factors 1 + e comes second.
    """
    linear = 0.0
    product = 1.0
    total = 0.0
    wrong = 0.0
    for i in range(scores.size):
        s = scores[i]
        e = decay[i]
        y = float(targets[i])
        belongs = 1.0 if y >= 0.0 else 0.0
        w = weight[i] * belongs
        odds = 1.0 / (1.0 + e)
        positive = odds if s > 0.0 else e * odds
        r = w * (positive - y)
        residual[i] = r
        wrong += abs(r)
        total += w * (e * odds * odds)
        linear += w * (max(s, 0.0) - y * s)
        product *= 1.0 + belongs * e
    return linear, product, total, wrong


@njit(nogil=True, cache=True, error_model="numpy")
def logistic_move(
    scores: Array,
    change: Array,
    steps: Array,
    targets: Targets,
    weight: Array,
    unit_weight: bool,
    residual: Array,
) -> tuple[Array, Array, Array]:
    """Set scores += step * change; find residuals, losses and curvatures there, in one pass.

    With s the moved score, e = exp(-|s|), w the row's weight (0 where the target is negative):
    loss = w (max(s, 0) - y s + log(1 + e)), residual = w (sigmoid(s) - y),
    curvature = w e / (1 + e)^2. Arrays are (T, n) but for `steps` (T,) and `weight` (n,).
    Returns the sums (T,) of loss, curvature and absolute residual.
    """
    n_tasks, n_rows = scores.shape
    value, curvature, absolute = np.empty(n_tasks), np.empty(n_tasks), np.empty(n_tasks)
    decay = np.empty(_FACTORS)
    for task in range(n_tasks):
        value[task], curvature[task], absolute[task] = 0.0, 0.0, 0.0
        for start in range(0, n_rows, _FACTORS):
            rows = slice(start, min(start + _FACTORS, n_rows))
            e = decay[: rows.stop - start]
            move_and_decay(scores[task, rows], change[task, rows], steps[task], e)
            linear, product, curved, wrong = _logistic_rows(
                scores[task, rows], e, targets[task, rows], weight[rows], residual[task, rows]
            )
            value[task] += linear
            curvature[task] += curved
            absolute[task] += wrong
            if unit_weight:
                value[task] += math.log(product)
            else:
                for i in range(e.size):
                    if targets[task, start + i] >= 0:
                        value[task] += weight[start + i] * math.log1p(e[i])
    return value, curvature, absolute


@njit(nogil=True, cache=True, fastmath=_MAXIMA)
def _sup_norm(values: Array) -> float:
    highest = 0.0
    for i in range(values.size):
        highest = max(highest, abs(values[i]))
    return highest


@njit(nogil=True, cache=True, fastmath=_MAXIMA)
def _move_and_raise(scores: Array, change: Array, step: float, highest: Array) -> None:
    """Set scores += step * change and raise `highest` to them."""
    for i in range(scores.size):
        scores[i] += step * change[i]
        highest[i] = max(highest[i], scores[i])


@njit(nogil=True, cache=True, error_model="numpy", fastmath=_SUMS)
def logistic_along(residual: Array, change: Array, inverse_weight: Array) -> tuple[Array, Array]:
    """Second derivative (T,) of the losses along a change of the scores, and its sup-norm.

    A row's curvature w p (1 - p) is rebuilt from its residual r = w (p - y): |r| (1 - |r| / w).
    """
    n_tasks, n_rows = change.shape
    total, sup_norm = np.empty(n_tasks), np.empty(n_tasks)
    for task in range(n_tasks):
        curved = 0.0
        for row in range(n_rows):
            wrong = abs(residual[task, row])
            c = change[task, row]
            curved += wrong * (1.0 - wrong * inverse_weight[row]) * c * c
        total[task], sup_norm[task] = curved, _sup_norm(change[task])
    return total, sup_norm


@njit(nogil=True, cache=True, error_model="numpy", fastmath=ORDERED)
def _exponentials(values: Array) -> None:
    for i in range(values.size):
        values[i] = exp_of_negative(max(values[i], -708.0))


@njit(nogil=True, cache=True, fastmath=_SUMS)
def _times(values: Array, factors: Array) -> None:
    for i in range(values.size):
        values[i] *= factors[i]


@njit(nogil=True, cache=True, fastmath=_SUMS)
def _add_products(left: Array, right: Array, total: Array) -> None:
    for i in range(left.size):
        total[i] += left[i] * right[i]


@njit(nogil=True, cache=True, fastmath=_SUMS)
def _weighted_square(weight: Array, values: Array, mean: Array) -> float:
    total = 0.0
    for i in range(values.size):
        gap = values[i] - mean[i]
        total += weight[i] * gap * gap
    return total


@njit(nogil=True, cache=True, fastmath=_SUMS)
def _curvature_of_residuals(residual: Array, inverse_weight: Array) -> tuple[float, float]:
    """Sums of |r| (1 - |r| / w), which is w p (1 - p) of r = w (p - y), and of |r|."""
    curved, wrong = 0.0, 0.0
    for i in range(residual.size):
        r = abs(residual[i])
        wrong += r
        curved += r * (1.0 - r * inverse_weight[i])
    return curved, wrong


@njit(nogil=True, cache=True, error_model="numpy")
def softmax_move(
    scores: Array, change: Array, steps: Array, targets: Targets, weight: Array, residual: Array
) -> tuple[Array, Array, Array]:
    """Set scores += step * change; find residuals, losses and curvatures there, in one pass.

    Scores, changes and residuals are (T, K, n), `steps` is (T,). With p = softmax(s) and w the
    row's weight (0 where the target is negative): loss = -w log p_y, residual = w (p - [y]),
    curvature (diagonal) = w p (1 - p). Returns the sums of loss (T,), curvature (T, K) and absolute
    residual (T, K).
    """
    n_tasks, size, n_rows = scores.shape
    value, curvature = np.empty(n_tasks), np.empty((n_tasks, size))
    absolute = np.empty((n_tasks, size))
    highest, total = np.empty(_FACTORS), np.empty(_FACTORS)
    for task in range(n_tasks):
        value[task], curvature[task], absolute[task] = 0.0, 0.0, 0.0
        for start in range(0, n_rows, _FACTORS):
            stop = min(start + _FACTORS, n_rows)
            top, below = highest[: stop - start], total[: stop - start]
            top[:] = -np.inf
            below[:] = 0.0
            for k in range(size):
                s, c = scores[task, k, start:stop], change[task, k, start:stop]
                _move_and_raise(s, c, steps[task], top)
            for k in range(size):
                s, p = scores[task, k, start:stop], residual[task, k, start:stop]
                for i in range(s.size):
                    p[i] = s[i] - top[i]
                _exponentials(p)
                for i in range(s.size):
                    below[i] += p[i]
            y = targets[task, start:stop]
            for i in range(y.size):
                if y[i] >= 0:
                    w = weight[start + i]
                    own = scores[task, y[i], start + i]
                    value[task] += w * (math.log(below[i]) + top[i] - own)
                    top[i], below[i] = 1.0 / w if w > 0.0 else 0.0, w / below[i]
                else:
                    top[i], below[i] = 0.0, 0.0
            for k in range(size):
                _times(residual[task, k, start:stop], below)
            for i in range(y.size):
                if y[i] >= 0:
                    residual[task, y[i], start + i] -= weight[start + i]
            for k in range(size):
                curved, wrong = _curvature_of_residuals(residual[task, k, start:stop], top)
                curvature[task, k] += curved
                absolute[task, k] += wrong
    return value, curvature, absolute


@njit(nogil=True, cache=True, error_model="numpy", fastmath=_SUMS)
def softmax_along(
    residual: Array, change: Array, targets: Targets, weight: Array
) -> tuple[Array, Array]:
    """Second derivative (T,) of the losses along a change of the scores, and its sup-norm.

    sum_k w p_k (c_k - c)^2 with c = sum_k p_k c_k; w p is rebuilt from the residual w (p - [y]).
    """
    n_tasks, size, n_rows = change.shape
    total, sup_norm = np.empty(n_tasks), np.empty(n_tasks)
    means = np.empty(_FACTORS)
    for task in range(n_tasks):
        total[task], sup_norm[task] = 0.0, 0.0
        for start in range(0, n_rows, _FACTORS):
            stop = min(start + _FACTORS, n_rows)
            mean, y = means[: stop - start], targets[task, start:stop]
            for i in range(y.size):
                mean[i] = 0.0
            for k in range(size):
                _add_products(residual[task, k, start:stop], change[task, k, start:stop], mean)
            for i in range(y.size):
                w = weight[start + i]
                if y[i] >= 0 and w > 0.0:
                    own = change[task, y[i], start + i]
                    shift = mean[i] / w
                    mean[i] = shift + own
                    total[task] += w * (shift * shift)
                else:
                    mean[i] = 0.0
            for k in range(size):
                r, c = residual[task, k, start:stop], change[task, k, start:stop]
                total[task] += _weighted_square(r, c, mean)
        for k in range(size):
            sup_norm[task] = max(sup_norm[task], _sup_norm(change[task, k]))
    return total, sup_norm


@njit(nogil=True, cache=True, fastmath=_SUMS)
def quasi_newton_direction(
    gradient: Array,
    steps: NDArray[np.float32],
    changes: NDArray[np.float32],
    inverse_products: Array,
    lanes: Indices,
    newest: int,
    diagonal: Array,
    inverse: Array,
    known: Flags,
) -> Array:
    """The two-loop recursion of L-BFGS for every task.

    `gradient` and `diagonal` (the initial Hessian) are (T, q). The pairs of task t lie in lane
    `lanes[t]` of `steps` and `changes` (lanes, m, q) and of `inverse_products` (lanes, m):
    1 / (step . change), zero for an empty or unusable pair. Pairs lie in a ring whose youngest
    is `newest`. Where `known` (lanes,), the matrix `inverse` (lanes, q, q) stands for the inverse
    of the diagonal.
    """
    n_tasks, n_coordinates = gradient.shape
    n_pairs = steps.shape[1]
    direction = np.empty((n_tasks, n_coordinates))
    share, rotated = np.empty(n_pairs), np.empty(n_coordinates)
    for task in range(n_tasks):
        p = direction[task]
        lane = lanes[task]
        for q in range(n_coordinates):
            p[q] = -gradient[task, q]
        for age in range(n_pairs):
            slot = (newest - age) % n_pairs
            rho = inverse_products[lane, slot]
            if rho > 0.0:
                dot = 0.0
                for q in range(n_coordinates):
                    dot += steps[lane, slot, q] * p[q]
                share[slot] = rho * dot
                for q in range(n_coordinates):
                    p[q] -= share[slot] * changes[lane, slot, q]
        if known[lane]:
            for q in range(n_coordinates):
                dot = 0.0
                for other in range(n_coordinates):
                    dot += inverse[lane, q, other] * p[other]
                rotated[q] = dot
            for q in range(n_coordinates):
                p[q] = rotated[q]
        else:
            for q in range(n_coordinates):
                p[q] /= diagonal[task, q]
        for age in range(n_pairs - 1, -1, -1):
            slot = (newest - age) % n_pairs
            rho = inverse_products[lane, slot]
            if rho > 0.0:
                dot = 0.0
                for q in range(n_coordinates):
                    dot += changes[lane, slot, q] * p[q]
                for q in range(n_coordinates):
                    p[q] += (share[slot] - rho * dot) * steps[lane, slot, q]
    return direction


class Sums(NamedTuple):
    """What a pass over the rows adds up.

    Attributes
    ----------
    value : (T,)
        Weighted sum of the loss over the task's rows.
    curvature : (T, K)
        Weighted sum of its diagonal second derivative by the scores.
    absolute : (T, K)
        Sum of the absolute residuals.
    """

    value: Array
    curvature: Array
    absolute: Array


class Loss:
    r"""The log-loss of tasks that have K scores for each row.

    One score is the log-odds of class 1 of two (but where `logistic` is false: of the only class):

    .. math:: \ell(s, y) = \log(1 + e^s) - y s, \quad y \in \{0, 1\}

    More are those of K classes, in the symmetric form scikit-learn uses. They are determined up to
    a common shift; the penalty picks the smallest coefficients and intercepts are reported with
    mean zero:

    .. math:: \ell(s, y) = \log \sum_k e^{s_k} - s_y
    """

    def __init__(self, n_scores: int, logistic: bool | None = None) -> None:
        self.n_scores = n_scores
        self.logistic = n_scores == 1 if logistic is None else logistic

    def move(
        self, scores: Any, change: Any, steps: Any, targets: Any, weight: Any, residual: Any
    ) -> Sums:
        """Set scores (T, K, n) += steps (T,) * change, and `residual` to the derivative there.

        Targets are (T, n), negative for rows that do not belong to the task; weights are (n,), on
        a device also (T, n), or None.
        """
        if not isinstance(scores, np.ndarray):
            return Sums(*device.move(scores, change, steps, targets, weight, residual))
        heavy = np.ones(targets.shape[1]) if weight is None else weight
        if not self.logistic:
            return Sums(*softmax_move(scores, change, steps, targets, heavy, residual))
        known = (steps, targets, heavy, weight is None, residual[:, 0])
        value, curvature, absolute = logistic_move(scores[:, 0], change[:, 0], *known)
        return Sums(value, curvature[:, None], absolute[:, None])

    def along(self, residual: Any, change: Any, targets: Any, weight: Any) -> tuple[Any, Any]:
        """Second derivative (T,) along a change (T, K, n) of the scores; its sup-norm (T,)."""
        if not isinstance(change, np.ndarray):
            return device.along(residual, change, targets, weight)
        heavy = np.ones(targets.shape[1]) if weight is None else weight
        if not self.logistic:
            return softmax_along(residual, change, targets, heavy)
        inverse = np.divide(1.0, heavy, out=np.zeros_like(heavy), where=heavy > 0)
        return logistic_along(residual[:, 0], change[:, 0], inverse)

    def log_prob(self, scores: Any) -> Any:
        """Log-probabilities (T, n_classes, n) of the classes."""
        xp = xp_of(scores)
        if not self.logistic:
            shifted = scores - xp.amax(scores, 1)[:, None]
            return shifted - xp.log(xp.exp(shifted).sum(1))[:, None]
        # log(1 + e^s) = max(s, 0) + log(1 + e^-|s|), and of -s the same with max(-s, 0)
        rest = xp.log1p(xp.exp(-abs(scores)))
        return xp.concatenate([-(scores.clip(0.0) + rest), -((-scores).clip(0.0) + rest)], 1)


def loss_for(n_classes: int) -> Loss:
    """Return the loss for a target of `n_classes` values."""
    return Loss(1 if n_classes == 2 else n_classes, logistic=n_classes == 2)
