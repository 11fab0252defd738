"""Losses of batched regressions: value, residual and curvature for all tasks at once."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from colabel.core.arrays import Array, Targets
from colabel.learn.glm._kernels import logistic_bend, logistic_terms


class Terms(NamedTuple):
    """A loss at given scores.

    Attributes
    ----------
    scores : (T, K, n)
        The scores.
    value : (T,)
        Weighted sum of the loss over the task's rows.
    residual : (T, K, n)
        Derivative of the loss with respect to the scores.
    curvature : (T, K, n, ...)
        What `Loss.bend` needs of the second derivative.
    mean_curvature : (T, K)
        Diagonal second derivative per unit of row weight.
    """

    scores: Array
    value: Array
    residual: Array
    curvature: Array
    mean_curvature: Array


class Loss(Protocol):
    """What a solver asks of a loss. K is the number of scores a task has for each row."""

    n_scores: int

    def terms(
        self, scores: Array, change: Array, length: Array, targets: Targets, weight: Array | None
    ) -> Terms:
        """The loss at `scores + length * change`.

        Shapes are (T, K, n), (T, K, n), (T,), (T, n) and (n,).
        """
        ...

    def bend(self, curvature: Array, change: Array) -> Array:
        """Second derivative (T,) of the value along a change of the scores (T, K, n)."""
        ...

    def log_prob(self, scores: Array) -> Array:
        """Log-probabilities (T, n_classes, n) of the classes."""
        ...


def _row_weight(targets: Targets, weight: Array | None) -> Array:
    return np.ones(targets.shape[1]) if weight is None else weight


class Logistic:
    r"""Two classes, one score: the log-odds of class 1.

    .. math:: \ell(s, y) = \log(1 + e^s) - y s, \quad y \in \{0, 1\}

    Rows whose target is negative do not belong to the task and contribute nothing.
    """

    n_scores = 1

    def terms(
        self, scores: Array, change: Array, length: Array, targets: Targets, weight: Array | None
    ) -> Terms:
        """See `Loss.terms`."""
        shape = scores.shape
        moved, residual, curvature = (np.empty((shape[0], shape[2])) for _ in range(3))
        value, mean_curvature = logistic_terms(
            scores.reshape(moved.shape),
            change.reshape(moved.shape),
            length,
            targets,
            _row_weight(targets, weight),
            weight is None,
            moved,
            residual,
            curvature,
        )
        return Terms(
            moved.reshape(shape),
            value,
            residual.reshape(shape),
            curvature.reshape(shape),
            mean_curvature[:, None],
        )

    def bend(self, curvature: Array, change: Array) -> Array:
        """See `Loss.bend`."""
        n_tasks = change.shape[0]
        return logistic_bend(curvature.reshape(n_tasks, -1), change.reshape(n_tasks, -1))

    def log_prob(self, scores: Array) -> Array:
        """See `Loss.log_prob`."""
        return np.concatenate([-np.logaddexp(0, scores), -np.logaddexp(0, -scores)], axis=1)


class Softmax:
    r"""K classes, K scores, in the symmetric form scikit-learn uses.

    .. math:: \ell(s, y) = \log \sum_k e^{s_k} - s_y

    The K scores are determined up to a common shift; the penalty picks the smallest
    coefficients and intercepts are reported with mean zero.
    """

    def __init__(self, n_classes: int) -> None:
        self.n_scores = n_classes

    def terms(
        self, scores: Array, change: Array, length: Array, targets: Targets, weight: Array | None
    ) -> Terms:
        """See `Loss.terms`."""
        moved = scores + length[:, None, None] * change
        total_weight = _row_weight(targets, weight).sum()
        row_weight = _row_weight(targets, weight) * (targets >= 0)  # (T, n)
        log_prob = self.log_prob(moved)
        classes = np.arange(self.n_scores, dtype=targets.dtype)[:, None]
        is_target = targets[:, None, :] == classes
        value = -np.einsum("tn,tkn->t", row_weight, np.where(is_target, log_prob, 0.0))
        prob = np.exp(log_prob)
        every_weight = np.broadcast_to(row_weight[:, None, :], prob.shape)
        residual = (prob - is_target) * every_weight
        mean_curvature = (every_weight * prob * (1 - prob)).sum(axis=2) / total_weight
        # A row's second derivative w (diag(p) - p p') is rebuilt from p and w: K numbers, not K^2.
        curvature = np.stack([prob, every_weight], axis=-1)
        return Terms(moved, value, residual, curvature, mean_curvature)

    def bend(self, curvature: Array, change: Array) -> Array:
        """See `Loss.bend`."""
        prob, weight = curvature[..., 0], curvature[..., 1]
        mean = np.sum(prob * change, axis=1, keepdims=True)
        bend: Array = np.einsum("tkn,tkn->t", weight * prob, (change - mean) ** 2)
        return bend

    def log_prob(self, scores: Array) -> Array:
        """See `Loss.log_prob`."""
        shifted = scores - scores.max(axis=1, keepdims=True)
        log_sum = np.log(np.exp(shifted).sum(axis=1, keepdims=True))
        result: Array = shifted - log_sum
        return result


def loss_for(n_classes: int) -> Loss:
    """Return the loss for a target of `n_classes` values."""
    return Logistic() if n_classes == 2 else Softmax(n_classes)
