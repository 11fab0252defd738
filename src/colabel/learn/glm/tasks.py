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

from colabel.core.arrays import Array, Flags, Indices, like, xp_of
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


def support_of_counts(counts: Array, prior: Array | None) -> ClassSupport:
    """Smooth counts (T, K) of classes; `prior` is (T, K), uniform by default."""
    n_classes = counts.shape[1]
    frequency = np.full(counts.shape, 1.0 / n_classes) if prior is None else prior
    total = counts.sum(axis=1, keepdims=True)
    smoothed = (counts + n_classes * frequency) / (total + n_classes)
    return ClassSupport(smoothed, counts <= 0)


def shut_scores(scores: Array, absent: Flags) -> Array:
    """Scores (T, K, n) with absent classes (T, K) shut out of the softmax."""
    found: Array = xp_of(scores).where(like(absent, scores)[:, :, None], _ABSENT_SCORE, scores)
    return found


@dataclass(frozen=True)
class Tasks:
    """Regressions before their penalties are known, without their rows.

    Attributes
    ----------
    label : (T,)
        Which of the targets that the rows have.
    n_classes : int
        Number of classes of every target.
    prior : (T, n_classes) or None
        Class frequencies towards which those of tasks that lack classes are smoothed.
    fold : (T,)
        The fold whose rows a task skips, and on which it is scored; -1 for none.
    group : (T,)
        Group of rows that a task has, where the rows are those of several.
    allowed : (T, e) of bool, or None
        Which extra features of the design each task may use.
    extra_scale : (T,) or None
        How many times as large the coefficients of extra features may grow at the same cost:
        their penalty is divided by its square.
    """

    label: Indices
    n_classes: int
    prior: Array | None
    fold: Indices
    group: Indices
    allowed: Flags | None = None
    extra_scale: Array | None = None

    @property
    def n_tasks(self) -> int:
        """Number of regressions T."""
        return len(self.label)

    def take(self, tasks: Indices | Flags) -> Tasks:
        """Return some of the tasks."""
        parts = {name: getattr(self, name) for name in _OF_TASK}
        taken: Any = {k: None if part is None else part[tasks] for k, part in parts.items()}
        return replace(self, **taken)

    def without_folds(self, n_folds: int) -> Tasks:
        """Return F T tasks, those of a fold together: each skips the rows of its fold."""
        every = self.take(np.tile(np.arange(self.n_tasks), n_folds))
        return replace(every, fold=np.repeat(np.arange(n_folds), self.n_tasks))


_OF_TASK = ("label", "prior", "fold", "group", "allowed", "extra_scale")


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
    log_prob: Array = loss.log_prob(scores)
    lacking = np.flatnonzero(floor.any(axis=1))
    if len(lacking):
        # Binary tasks need no floor: a task with one class is constant and has a closed form.
        own = floor[lacking]
        prob = xp_of(scores).exp(loss.log_prob(shut_scores(scores[lacking], own > 0)))
        kept, own = like(1.0 - own.sum(axis=1), scores), like(own, scores)
        mixed = prob * kept[:, None, None] + own[:, :, None]
        log_prob[lacking] = xp_of(scores).log(mixed.clip(np.finfo(np.float64).tiny))
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


def informed_tasks(counts: Array, without: ClassSupport) -> Flags:
    """Tasks (T,) of which rows of two classes were scored by models that know their class.

    Of one, where there is but one. A label's only positive row, for example, is scored by a model
    that knows of none, and all others are negative. `counts` (T, 1 + F, K) are the weights of each
    class, of rows never held out and then of each fold; `without` is the support without each
    fold's rows, those of a fold together.
    """
    seen = counts > 0
    held_out = seen[:, 1:].transpose(1, 0, 2)
    scored = (held_out & ~without.absent.reshape(held_out.shape)).any(axis=0)
    found: Flags = scored.sum(axis=1) >= np.minimum(seen.any(axis=1).sum(axis=1), 2)
    return found
