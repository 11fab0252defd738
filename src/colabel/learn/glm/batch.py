"""What a batched solver is given and what it returns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colabel.core.arrays import Array


@dataclass
class Memory:
    """The last m steps and gradient changes of every task, in a ring.

    A task keeps its lane for as long as the memory lives.
    """

    steps: Array  # (lanes, m, K q)
    changes: Array  # (lanes, m, K q)
    inverse_products: Array  # (lanes, m), zero where there is no usable pair
    newest: int

    @classmethod
    def empty(cls, n_tasks: int, size: int, n_coordinates: int) -> Memory:
        """Room for `size` pairs of every task."""
        pairs = (n_tasks, size, n_coordinates)
        return cls(np.empty(pairs), np.empty(pairs), np.zeros((n_tasks, size)), -1)

    def take(self, lanes: NDArray[np.intp]) -> Memory:
        """Return a copy with the lanes asked for, in that order, repeated where asked."""
        n_lanes, size, n_coordinates = len(lanes), *self.steps.shape[1:]
        taken = Memory.empty(n_lanes, size, n_coordinates)
        taken.newest = self.newest
        for slot in np.flatnonzero(self.inverse_products.any(axis=0)):  # few, as a rule
            taken.steps[:, slot] = self.steps[lanes, slot]
            taken.changes[:, slot] = self.changes[lanes, slot]
            taken.inverse_products[:, slot] = self.inverse_products[lanes, slot]
        return taken

    def remember(self, lanes: NDArray[np.intp], step: Array, change: Array) -> None:
        """Overwrite the oldest pair of `lanes` by step and change (T, K q)."""
        self.newest = (self.newest + 1) % self.steps.shape[1]
        self.steps[lanes, self.newest] = step
        self.changes[lanes, self.newest] = change
        self.inverse_products[:, self.newest] = 0.0
        product = np.einsum("tq,tq->t", step, change)
        usable = product > np.finfo(float).tiny
        self.inverse_products[lanes, self.newest] = usable / np.where(usable, product, 1.0)


@dataclass(frozen=True)
class Batch:
    """Regressions over the same block of rows.

    Attributes
    ----------
    targets : (T, n) int16
        Class codes; a negative code says the row does not belong to the task.
    penalty : (T,)
        Weight of the squared norm of the coefficients, 1 / C in scikit-learn's terms.
    weight : (n,) or None
        Weights of the rows, one for all tasks.
    offset : (T, K, n) or None
        Fixed part of the scores.
    start : (T, K, p + 1) or None
        Coefficients to start from, the intercept last.
    allowed : (T, e) of bool, or None
        Which of the design's extra features a task may use; the coefficients of the others
        stay zero.
    absent : (T, K) of bool, or None
        Scores whose coefficients all stay zero: classes that no row of the task carries.
    memory : Memory or None
        Curvature learned from like tasks on the same block; it is used up by the solver.
    """

    targets: NDArray[np.int16]
    penalty: Array
    weight: Array | None = None
    offset: Array | None = None
    start: Array | None = None
    allowed: NDArray[np.bool_] | None = None
    absent: NDArray[np.bool_] | None = None
    memory: Memory | None = None

    @property
    def n_tasks(self) -> int:
        """Number of regressions T."""
        return int(self.targets.shape[0])

    def total_weight(self) -> Array:
        """Sum of the row weights of every task, (T,)."""
        weight = np.ones(self.targets.shape[1]) if self.weight is None else self.weight
        total: Array = (self.targets >= 0) @ weight
        return total


@dataclass(frozen=True)
class Solution:
    """Fitted regressions of a batch.

    Attributes
    ----------
    coef : (T, K, p + 1)
        Coefficients of the features, the intercept last.
    scores : (T, K, n)
        Scores of every row of the block, rows outside a task included.
    residual : (T,)
        Largest entry of the gradient of the mean objective, or a bound on it.
    n_iter : (T,)
        Newton iterations of every task.
    converged : (T,) of bool
    memory : Memory
        What was learned of each task's curvature.
    """

    coef: Array
    scores: Array
    residual: Array
    n_iter: NDArray[np.intp]
    converged: NDArray[np.bool_]
    memory: Memory
