"""Tasks that lack classes: constant targets, and classes no row of a task carries.

An unpenalised intercept runs off to infinity where a class never occurs. Such a class gets a
smoothed frequency instead: (n_c + m pi_c) / (n + m), with n the task's weight, pi a prior over
classes and m the number of classes. With a uniform prior this is Laplace's rule.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colabel.core.arrays import Array, Flags, Indices

_ABSENT_SCORE = -1e6  # far below any score, and harmless in sums


@dataclass(frozen=True)
class ClassSupport:
    """Which classes occur in each task.

    Attributes
    ----------
    smoothed : (T, K)
        Smoothed class frequencies; they sum to one.
    absent : (T, K) of bool
        Classes without a row.
    """

    smoothed: Array
    absent: Flags

    def take(self, tasks: Indices) -> ClassSupport:
        """Return the support of some tasks."""
        return ClassSupport(self.smoothed[tasks], self.absent[tasks])

    @property
    def constant(self) -> Flags:
        """Tasks with fewer than two classes, (T,)."""
        constant: Flags = (~self.absent).sum(axis=1) < 2
        return constant

    @property
    def floor(self) -> Array:
        """Probability kept for absent classes, (T, K); none where the intercepts say it all."""
        return np.where(self.absent & ~self.constant[:, None], self.smoothed, 0.0)

    def constant_intercepts(self) -> Array:
        """Scores whose probabilities are the smoothed frequencies, (T, n_scores)."""
        log_frequency = np.log(self.smoothed)
        if self.smoothed.shape[1] == 2:
            return log_frequency[:, 1:] - log_frequency[:, :1]
        centred: Array = log_frequency - log_frequency.mean(axis=1, keepdims=True)
        return centred


def class_support(
    targets: NDArray[np.int16], n_classes: int, weight: Array | None, prior: Array | None
) -> ClassSupport:
    """Count the classes of `targets` (T, n); `prior` is (T, K), uniform by default."""
    row_weight = np.ones(targets.shape[1]) if weight is None else weight
    counts = np.stack([(targets == k) @ row_weight for k in range(n_classes)], axis=1)
    return support_of_counts(counts, prior)


def support_of_counts(counts: Array, prior: Array | None) -> ClassSupport:
    """Smooth counts (T, K) of classes; `prior` is (T, K), uniform by default."""
    n_classes = counts.shape[1]
    frequency = np.full(counts.shape, 1.0 / n_classes) if prior is None else prior
    total = counts.sum(axis=1, keepdims=True)
    smoothed = (counts + n_classes * frequency) / (total + n_classes)
    return ClassSupport(smoothed, counts <= 0)


def shut_scores(scores: Array, absent: Flags) -> Array:
    """Scores (T, K, n) with absent classes (T, K) shut out of the softmax."""
    return np.where(absent[:, :, None], _ABSENT_SCORE, scores)


def with_floor(log_prob: Array, floor: Array) -> Array:
    """Log-probabilities (T, K, n) mixed with the floor (T, K) of absent classes.

    Binary tasks need none: a task with one class is constant and solved in closed form.
    """
    kept = 1.0 - floor.sum(axis=1)
    mixed = np.exp(log_prob) * kept[:, None, None] + floor[:, :, None]
    log_mixed: Array = np.log(np.maximum(mixed, np.finfo(float).tiny))
    return log_mixed
