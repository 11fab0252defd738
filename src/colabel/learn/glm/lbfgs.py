"""L-BFGS for many regressions at once."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from colabel.core.arrays import Array, Flags
from colabel.learn.glm._kernels import quasi_newton_direction
from colabel.learn.glm.batch import Batch, Memory, Solution
from colabel.learn.glm.design import DesignBlock
from colabel.learn.glm.losses import Loss, Terms

_SUFFICIENT_DECREASE = 1e-4
_MOST_HALVINGS = 40
# A quadratic model of the loss holds for changes of the scores of a few units.
_LARGEST_CHANGE = 20.0
# Where all rows are saturated the curvature says nothing; this share of the residual bounds it.
_CURVATURE_PER_RESIDUAL = 0.1
# Relative rounding error of a sum of losses: decreases below it cannot be told from none.
_VALUE_NOISE = 1e-13


def _flat(array: Array) -> Array:
    return array.reshape(array.shape[0], -1)


def _dot(left: Array, right: Array) -> Array:
    """Inner product of every task: (T, K, q), (T, K, q) -> (T,)."""
    product: Array = np.einsum("tq,tq->t", _flat(left), _flat(right))
    return product


@dataclass
class _State:
    """The tasks still in the batch."""

    task: NDArray[np.intp]  # positions in the caller's batch
    targets: NDArray[np.int16]
    penalty: Array  # (T, 1, q): zero for the intercept
    free: Array | None  # (T, 1 or K, q): zero for coordinates that stay zero
    total: Array  # (T,) sum of row weights
    coef: Array  # (T, K, q)
    terms: Terms  # the loss at the task's scores
    value: Array  # (T,) objective

    def keep(self, active: Flags) -> _State:
        return _State(
            self.task[active],
            self.targets[active],
            self.penalty[active],
            None if self.free is None else self.free[active],
            self.total[active],
            self.coef[active],
            Terms(*(part[active] for part in self.terms)),
            self.value[active],
        )

    def undone(self, before: _State, tasks: Flags) -> _State:
        """Take some tasks back to where they were."""
        for part, old in zip(self.terms, before.terms, strict=True):
            part[tasks] = old[tasks]
        self.coef[tasks], self.value[tasks] = before.coef[tasks], before.value[tasks]
        return self


@dataclass(frozen=True)
class LBFGS:
    r"""Limited-memory BFGS over all tasks of a batch in lockstep.

    Minimises, for every task t with penalty :math:`\lambda_t`,

    .. math:: f_t(w, b) = \sum_i \omega_{i} \ell(w \cdot x_i + b, y_{ti})
              + \tfrac{\lambda_t}{2} \|w\|^2

    until no entry of the gradient of :math:`f_t / \sum_i \omega_i` is larger than `tol`: the
    objective and the stopping rule of scikit-learn's `LogisticRegression`.

    The initial Hessian is diagonal in the design's coordinates. One forward and one transposed
    product serve all the tasks in an iteration: a trial step changes the scores linearly, so
    line searches need no product. Tasks that have converged leave the batch.

    Parameters
    ----------
    tol : float
        Bound on the entries of the gradient.
    max_iter : int
        Bound on the number of iterations.
    memory : int
        Number of steps remembered.
    """

    tol: float = 1e-4
    max_iter: int = 1000
    memory: int = 15

    def solve(self, block: DesignBlock, loss: Loss, batch: Batch) -> Solution:
        """Fit every task of `batch` on the rows of `block`."""
        state = _start(block, loss, batch)
        n_tasks, n_scores, n_coordinates = state.coef.shape
        memory = batch.memory or Memory.empty(n_tasks, self.memory, n_scores * n_coordinates)
        solution = _Unfinished(state)
        stalled = np.zeros(n_tasks, dtype=bool)
        gradient = _gradient(block, state)
        for iteration in range(self.max_iter + 1):
            residual = block.largest(gradient) / state.total
            active = (residual > self.tol) & ~stalled & (iteration < self.max_iter)
            if not active.all():
                solution.store(state, ~active, residual, iteration)
                state, gradient = state.keep(active), gradient[active]
                if not active.any():
                    break
            moved, stalled = _step(block, loss, batch, state, memory, gradient)
            previous, gradient = gradient, _gradient(block, moved)
            memory.remember(state.task, _flat(moved.coef - state.coef), _flat(gradient - previous))
            state = moved
        return solution.finish(block, self.tol, memory)


class _Unfinished:
    """Collects the tasks as they leave the batch."""

    def __init__(self, state: _State) -> None:
        self.coef = np.empty_like(state.coef)
        self.scores = np.empty_like(state.terms.scores)
        self.residual = np.empty(len(state.task))
        self.n_iter = np.empty(len(state.task), dtype=np.intp)

    def store(self, state: _State, done: Flags, residual: Array, iteration: int) -> None:
        task = state.task[done]
        self.coef[task] = state.coef[done]
        self.scores[task] = state.terms.scores[done]
        self.residual[task] = residual[done]
        self.n_iter[task] = iteration

    def finish(self, block: DesignBlock, tol: float, memory: Memory) -> Solution:
        coef = block.from_coordinates(self.coef)
        converged = self.residual <= tol
        return Solution(coef, self.scores, self.residual, self.n_iter, converged, memory)


def _start(block: DesignBlock, loss: Loss, batch: Batch) -> _State:
    coef: Array
    if batch.start is None:
        coef = np.zeros((batch.n_tasks, loss.n_scores, block.n_coordinates))
    else:
        coef = block.to_coordinates(batch.start)
    penalty = np.repeat(batch.penalty[:, None, None], block.n_coordinates, axis=2)
    penalty[:, :, -1] = 0.0
    free = _free_coordinates(batch, block.n_coordinates)
    if free is not None:
        coef = coef * free
    scores = block.scores(coef)
    if batch.offset is not None:
        scores += batch.offset
    at_start = np.zeros(batch.n_tasks)
    terms = loss.terms(scores, scores, at_start, batch.targets, batch.weight)
    value = terms.value + 0.5 * _dot(penalty * coef, coef)
    total = np.maximum(batch.total_weight(), np.finfo(float).tiny)
    task = np.arange(batch.n_tasks)
    return _State(task, batch.targets, penalty, free, total, coef, terms, value)


def _free_coordinates(batch: Batch, n_coordinates: int) -> Array | None:
    if batch.allowed is None and batch.absent is None:
        return None
    n_scores = 1 if batch.absent is None else batch.absent.shape[1]
    free = np.ones((batch.n_tasks, n_scores, n_coordinates))
    if batch.allowed is not None:
        n_extra = batch.allowed.shape[1]
        free[:, :, n_coordinates - 1 - n_extra : -1] = batch.allowed[:, None, :]
    if batch.absent is not None:
        free[batch.absent] = 0.0
    return free


def _gradient(block: DesignBlock, state: _State) -> Array:
    gradient = block.pullback(state.terms.residual)
    gradient += state.penalty * state.coef
    if state.free is not None:
        gradient *= state.free
    return gradient


def _step(
    block: DesignBlock, loss: Loss, batch: Batch, state: _State, memory: Memory, gradient: Array
) -> tuple[_State, Flags]:
    """Move every task along its quasi-Newton direction; flag those that cannot move."""
    diagonal = _mean_curvature(state.terms)[:, :, None] * block.scale + state.penalty
    np.maximum(diagonal, 1e-10 * diagonal.max(axis=2, keepdims=True) + 1e-300, out=diagonal)
    direction = quasi_newton_direction(
        _flat(gradient),
        memory.steps,
        memory.changes,
        memory.inverse_products,
        state.task,
        memory.newest,
        _flat(diagonal),
    ).reshape(gradient.shape)
    change = block.scores(direction)
    slope = _dot(gradient, direction)
    bend = loss.bend(state.terms.curvature, change)
    bend += _dot(state.penalty * direction, direction)
    # Where the objective is nearly quadratic this is the exact minimum along the line.
    farthest = _LARGEST_CHANGE / np.maximum(np.abs(_flat(change)).max(axis=1), 1e-300)
    length = np.minimum(-slope / np.maximum(bend, 1e-300), farthest)
    for _ in range(_MOST_HALVINGS):
        coef = state.coef + length[:, None, None] * direction
        terms = loss.terms(state.terms.scores, change, length, state.targets, batch.weight)
        value = terms.value + 0.5 * _dot(state.penalty * coef, coef)
        allowed = state.value + _SUFFICIENT_DECREASE * length * slope
        enough = value <= allowed + _VALUE_NOISE * np.abs(state.value)
        if enough.all():
            break
        length = np.where(enough, length, 0.5 * length)
    moved = replace(state, coef=coef, terms=terms, value=value)
    return (moved if enough.all() else moved.undone(state, ~enough)), ~enough


def _mean_curvature(terms: Terms) -> Array:
    n_rows = terms.residual.shape[2]
    floor = _CURVATURE_PER_RESIDUAL * np.abs(terms.residual).sum(axis=2) / max(1, n_rows)
    curvature: Array = np.maximum(terms.mean_curvature, floor)
    return curvature
