"""Regressions before they are fitted, and after.

Tasks may lack classes: their target is constant, or no row of theirs carries some class.
An unpenalised intercept runs off to infinity where a class never occurs. Such a class gets a
smoothed frequency instead: (n_c + m pi_c) / (n + m), with n the task's weight, pi a prior over
classes and m the number of classes. With a uniform prior this is Laplace's rule.

`best_points` chooses a penalty for every task by its held-out curve.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from colabel.core.arrays import Array, Flags, Indices, Targets
from colabel.core.schema import Between, Dims, Fields, bind, refuse_unless, stored
from colabel.learn.glm.losses import Loss

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


@dataclass(frozen=True)
class Tasks:
    """Regressions on the rows of one block, before their penalties are known.

    Attributes
    ----------
    targets : (T, n)
        Class codes, negative where a row does not belong to the task.
    n_classes : int
        Number of classes of every target.
    prior : (T, n_classes) or None
        Class frequencies towards which those of tasks that lack classes are smoothed.
    allowed : (T, e) of bool, or None
        Which extra features of the design each task may use.
    extra_scale : (T,) or None
        How many times as large the coefficients of extra features may grow at the same cost:
        their penalty is divided by its square.
    offset : (B, K, n) or None
        Fixed parts of the scores, from which the tasks deviate; task t has that of `base[t]`.
    base : (T,) or None
    """

    targets: Targets
    n_classes: int
    prior: Array | None = None
    allowed: Flags | None = None
    extra_scale: Array | None = None
    offset: Array | None = None
    base: Indices | None = None

    @property
    def n_tasks(self) -> int:
        """Number of regressions T."""
        return int(self.targets.shape[0])

    def take(self, tasks: Indices) -> Tasks:
        """Return some of the tasks."""
        return replace(
            self,
            targets=self.targets[tasks],
            prior=None if self.prior is None else self.prior[tasks],
            allowed=None if self.allowed is None else self.allowed[tasks],
            extra_scale=None if self.extra_scale is None else self.extra_scale[tasks],
            base=None if self.base is None else self.base[tasks],
        )

    def without_folds(self, folds: Indices, n_folds: int) -> Tasks:
        """Return F T tasks, those of a fold together: each skips the rows of its fold."""
        masked = [np.where(folds == fold, np.int16(-1), self.targets) for fold in range(n_folds)]
        return replace(
            self,
            targets=np.concatenate(masked),
            prior=_tiled(self.prior, n_folds),
            allowed=_tiled(self.allowed, n_folds),
            extra_scale=_tiled(self.extra_scale, n_folds),
            base=_tiled(self.base, n_folds),
        )


def _tiled(array: Any, times: int) -> Any:
    return None if array is None else np.tile(array, (times, *[1] * (array.ndim - 1)))


@stored("linear-tasks")
@dataclass(frozen=True)
class FittedTasks:
    """Linear models of T tasks.

    Attributes
    ----------
    coef : (T, K, p + 1)
        Coefficients, the intercept last.
    floor : (T, n_classes)
        Probability kept for classes that were absent.
    converged : (T,) of bool
    n_iter : int
        Most iterations any task took.
    """

    coef: Annotated[Array, "t k q"]
    floor: Annotated[Array, "t c", Between(0.0, 1.0)]
    converged: Annotated[Flags, "t"]
    n_iter: int

    @staticmethod
    def _check_stored(fields: Fields, dims: Dims) -> None:
        most = 0.0 if dims["c"] == 2 else 1.0  # of two values, none is ever without a score
        kept = fields["floor"].sum(axis=1) <= most
        refuse_unless(kept.all(), "floor holds more probability than there is")
        bind(dims, "k", 1 if dims["c"] == 2 else dims["c"], "coef")

    def take(self, tasks: Indices) -> FittedTasks:
        """Return some of the models."""
        return FittedTasks(self.coef[tasks], self.floor[tasks], self.converged[tasks], self.n_iter)

    def log_prob(self, loss: Loss, scores: Array) -> Array:
        """Log-probabilities (T, n_classes, n) from the models' scores (T, K, n)."""
        return log_probabilities(loss, scores, self.floor)


def log_probabilities(loss: Loss, scores: Array, floor: Array) -> Array:
    """Log-probabilities (T, n_classes, n) from scores (T, K, n), with floors (T, n_classes)."""
    log_prob = loss.log_prob(scores)
    lacking = floor.any(axis=1)
    if lacking.any():
        open_scores = shut_scores(scores[lacking], floor[lacking] > 0)
        log_prob[lacking] = with_floor(loss.log_prob(open_scores), floor[lacking])
    return log_prob


def best_points(total: Array, grid: Array, informed: Flags | None = None) -> Indices:
    """Position (T,) in the grid (G,) of every task's best held-out score (G, T).

    Of equal scores that of the smallest C counts, and so it does for tasks that are not `informed`
    (T,): where held-out rows show a single class, the surest model looks best.

    Examples
    --------
    >>> best_points(np.array([[-3.0, -1.0], [-2.0, -1.0]]), np.array([10.0, 0.1]))
    array([1, 1])
    """
    order = np.argsort(grid, kind="stable")
    best = total[order].argmax(axis=0)
    return np.asarray(order[best if informed is None else np.where(informed, best, 0)])


def informed_tasks(
    tasks: Tasks, without: ClassSupport, held_out: tuple[Indices, ...], weight: Array
) -> Flags:
    """Tasks (T,) of which rows of two classes were scored by models that know their class.

    Of one, where there is but one. A label's only positive row, for example, is scored by a model
    that knows of none, and all others are negative.

    Parameters
    ----------
    without : ClassSupport
        That of the tasks without each fold's rows, those of a fold together.
    held_out : F arrays
        Rows of each fold.
    weight : (n,)
    """
    counted = np.where(weight > 0, tasks.targets, -1)
    every = np.stack([counted == value for value in range(tasks.n_classes)], axis=1)  # (T, c, n)
    seen = [every[:, :, rows].any(axis=2) for rows in held_out]
    anywhere: Flags = np.asarray(every.any(axis=2))
    return informed_by(np.array(seen).reshape(-1, *anywhere.shape), anywhere, without)


def informed_by(held_out: Flags, anywhere: Flags, without: ClassSupport) -> Flags:
    """See `informed_tasks`, by which classes occur in each fold (F, T, c) and anywhere (T, c)."""
    known = ~without.absent.reshape(held_out.shape)
    scored = (held_out & known).any(axis=0)
    return np.asarray(scored.sum(axis=1) >= np.minimum(anywhere.sum(axis=1), 2))
