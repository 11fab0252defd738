"""Regressions before they are fitted, and after."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np

from colabel.core.arrays import Array, Flags, Indices, Targets
from colabel.core.schema import Between, Dims, Fields, bind, refuse_unless, stored
from colabel.learn.glm.degenerate import shut_scores, with_floor
from colabel.learn.glm.losses import Loss


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
