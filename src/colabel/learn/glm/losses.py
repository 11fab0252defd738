"""Losses of batched regressions: value, residual and curvature for all tasks at once."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from colabel.core.arrays import Array, Targets
from colabel.learn.glm._kernels import (
    logistic_along,
    logistic_move,
    softmax_along,
    softmax_move,
)


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


class Loss(Protocol):
    """What an objective asks of a loss. K is the number of scores a task has for each row."""

    n_scores: int

    def move(
        self,
        scores: Array,
        change: Array,
        steps: Array,
        targets: Targets,
        weight: Array | None,
        residual: Array,
    ) -> Sums:
        """Set scores (T, K, n) += steps (T,) * change, and `residual` to the derivative there.

        Targets are (T, n), negative for rows that do not belong to the task; weights are (n,).
        """
        ...

    def along(
        self, residual: Array, change: Array, targets: Targets, weight: Array | None
    ) -> tuple[Array, Array]:
        """Second derivative (T,) along a change (T, K, n) of the scores; its sup-norm (T,)."""
        ...

    def log_prob(self, scores: Array) -> Array:
        """Log-probabilities (T, n_classes, n) of the classes."""
        ...


def _row_weight(targets: Targets, weight: Array | None) -> Array:
    return np.ones(targets.shape[1]) if weight is None else weight


class Logistic:
    r"""Two classes, one score: the log-odds of class 1.

    .. math:: \ell(s, y) = \log(1 + e^s) - y s, \quad y \in \{0, 1\}
    """

    n_scores = 1

    def move(
        self,
        scores: Array,
        change: Array,
        steps: Array,
        targets: Targets,
        weight: Array | None,
        residual: Array,
    ) -> Sums:
        value, curvature, absolute = logistic_move(
            scores[:, 0],
            change[:, 0],
            steps,
            targets,
            _row_weight(targets, weight),
            weight is None,
            residual[:, 0],
        )
        return Sums(value, curvature[:, None], absolute[:, None])

    def along(
        self, residual: Array, change: Array, targets: Targets, weight: Array | None
    ) -> tuple[Array, Array]:
        row_weight = _row_weight(targets, weight)
        inverse = np.divide(1.0, row_weight, out=np.zeros_like(row_weight), where=row_weight > 0)
        return logistic_along(residual[:, 0], change[:, 0], inverse)

    def log_prob(self, scores: Array) -> Array:
        # log(1 + e^s) = max(s, 0) + log(1 + e^-|s|), and of -s the same with max(-s, 0)
        rest = np.log1p(np.exp(-np.abs(scores)))
        return np.concatenate(
            [-(np.maximum(scores, 0.0) + rest), -(np.maximum(-scores, 0.0) + rest)], axis=1
        )


class Softmax:
    r"""K classes, K scores, in the symmetric form scikit-learn uses.

    .. math:: \ell(s, y) = \log \sum_k e^{s_k} - s_y

    The K scores are determined up to a common shift; the penalty picks the smallest
    coefficients and intercepts are reported with mean zero.
    """

    def __init__(self, n_classes: int) -> None:
        self.n_scores = n_classes

    def move(
        self,
        scores: Array,
        change: Array,
        steps: Array,
        targets: Targets,
        weight: Array | None,
        residual: Array,
    ) -> Sums:
        row_weight = _row_weight(targets, weight)
        return Sums(*softmax_move(scores, change, steps, targets, row_weight, residual))

    def along(
        self, residual: Array, change: Array, targets: Targets, weight: Array | None
    ) -> tuple[Array, Array]:
        return softmax_along(residual, change, targets, _row_weight(targets, weight))

    def log_prob(self, scores: Array) -> Array:
        shifted = scores - scores.max(axis=1, keepdims=True)
        log_sum = np.log(np.exp(shifted).sum(axis=1, keepdims=True))
        return np.asarray(shifted - log_sum)


def loss_for(n_classes: int) -> Loss:
    """Return the loss for a target of `n_classes` values."""
    return Logistic() if n_classes == 2 else Softmax(n_classes)
