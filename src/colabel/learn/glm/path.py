"""Fitting tasks, and scoring them on held-out rows along a path of penalties.

Choosing a penalty is a measurement. The fit without a fold's rows never starts from anything that
has seen them: not from the fit on all rows, nor from its curvature, but from the same fold's fit at
a stronger penalty (with the curvature learned there), or from the same fold's fit of a like task.
So however early a fit stops, it cannot know what it will be scored on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from colabel.core.arrays import Array, Flags, Indices, Targets
from colabel.learn.design import Design
from colabel.learn.glm.block import Block, Point
from colabel.learn.glm.choice import informed_tasks
from colabel.learn.glm.lbfgs import LBFGS
from colabel.learn.glm.tasks import FittedTasks, Tasks

# Where tasks are let go early, a held-out curve that has fallen by so many nats at one point of the
# path, from its best, has turned for good.
_CLEAR_FALL = 5.0


def fit_tasks(
    design: Design,
    tasks: Tasks,
    C: Array,
    solver: LBFGS,
    base: Array | None = None,
) -> FittedTasks:
    """Fit every task with its own C (T,); see `fit_block`."""
    return fit_block(Block.of(design, tasks), C, solver, base)


def fit_block(block: Block, C: Array, solver: LBFGS, base: Array | None = None) -> FittedTasks:
    """Fit every task of a block with its own C (T,).

    Where the tasks have an offset, `base` (T, K, p + 1) are the coefficients of the models it came
    from, to which the deviations are added; a C of zero then fits slope and intercept alone.
    """
    point = Point.at(block.start())
    if base is not None:
        block, point = block.calibrated(solver)
    rest = np.flatnonzero(C > 0)
    if len(rest):
        found = block.take(rest).solve(1.0 / C[rest], solver, point.coef[rest])
        point.coef[rest], point.converged[rest] = found.coef, found.converged
        point = point._replace(n_iter=found.n_iter)
    coef = block.features(point)
    if base is not None:
        # Classes have slopes of their own, so that what their scores share must be taken off first.
        shared = base.mean(axis=1, keepdims=True) if block.loss.n_scores > 1 else 0.0
        coef += block.slope[:, :, None] * (base - shared)
    if block.loss.n_scores > 1:
        coef[..., -1] -= coef[..., -1].mean(axis=1, keepdims=True)
    return FittedTasks(coef, block.floor, point.converged, point.n_iter)


@dataclass(frozen=True)
class HeldOutPath:
    """What the held-out rows say of every task along a path.

    Attributes
    ----------
    log_prob : (G, T, n)
        Log-probability of the true class of every row by the model that did not see it; zero for
        rows that are in no fold or outside the task.
    total : (G, T)
        Its weighted sum over the rows; -inf for points that were not looked at.
    coef : (G, F, T, K, p + 1) or None
        Coefficients without each fold's rows, if they were asked for; those of the last point
        looked at where a task has left the path.
    floor : (F, T, n_classes)
        Probability that these models keep for classes absent from their rows.
    n_failed : int
        Number of regressions that did not converge.
    informed : (T,) of bool
        See `informed_tasks`.
    """

    log_prob: Array
    total: Array
    coef: Array | None
    floor: Array
    n_failed: int
    informed: Flags


def held_out_path(
    design: Design,
    tasks: Tasks,
    grid: Array,
    folds: Indices,
    n_folds: int,
    solver: LBFGS,
    start: Array | None = None,
    keep: bool = False,
    patience: int | None = None,
) -> HeldOutPath:
    """Score every task on held-out rows over a grid of C.

    All folds of a task are tasks of their own that skip the fold's rows, so one batch holds
    them all. The path goes from small to large C, each point starting from the last.

    Parameters
    ----------
    grid : (G,)
        Values of C; for deviations zero may be among them: slope and intercept alone.
    folds : (n,)
        Fold of every row of the design; negative for rows that are never held out.
    start : (G, F, T, K, p + 1) or None
        The same tasks on other rows, at the same penalties and without the same folds.
    keep : bool
        Whether to return the coefficients.
    patience : int or None
        Number of points in a row without improvement after which a task leaves the path; a clear
        fall counts for all of them. None: every task is walked to the end.
    """
    n_tasks, n_rows = tasks.targets.shape
    weight = np.ones(n_rows) if design.weight is None else design.weight
    block = Block.of(design, tasks.without_folds(folds, n_folds))
    held_out = _HeldOutRows.of(design, folds, n_folds)
    informed = informed_tasks(tasks, block.support, held_out.rows, weight)
    log_prob = np.zeros((len(grid), n_tasks, n_rows))

    def score(position: int, block: Block, point: Point, alive: Indices) -> Array:
        for rows, prob in held_out.log_prob(block, point):
            own = picked(prob, tasks.targets[np.ix_(alive, rows)])
            log_prob[position, alive[:, None], rows] = own
        return np.asarray(log_prob[position, alive] @ weight)

    found = walk_path(block, grid, n_folds, solver, score, start, keep, patience)
    floor = block.floor.reshape(n_folds, n_tasks, -1)
    return HeldOutPath(log_prob, found.total, found.coef, floor, found.n_failed, informed)


class Walked(NamedTuple):
    """What a path of penalties has shown; see `HeldOutPath`."""

    total: Array
    coef: Array | None
    n_failed: int


def walk_path(
    block: Block,
    grid: Array,
    n_folds: int,
    solver: LBFGS,
    score: Callable[[int, Any, Point, Indices], Array],
    start: Array | None,
    keep: bool,
    patience: int | None,
) -> Walked:
    """Fit F T tasks, those of a fold together, over a grid of C; see `held_out_path`.

    ``score(position, block, point, alive)`` gives the held-out scores of the tasks `alive` at a
    position of the grid.
    """
    n_tasks = block.tasks.n_tasks // max(1, n_folds)
    point = Point.at(block.start())
    n_failed = 0
    if block.deviates:
        block, point = block.calibrated(solver)
        n_failed += int((~point.converged).sum())
    total = np.full((len(grid), n_tasks), -np.inf)
    kept = None
    order = np.argsort(grid, kind="stable")
    like: Array | None = None
    alive, idle, best = np.arange(n_tasks), np.zeros(n_tasks, dtype=np.intp), total[0].copy()
    for place, position in enumerate(order):
        if start is not None:
            last, like = like, block.entered(start[position][:, alive])
            point = point._replace(coef=like if last is None else point.coef + (like - last))
        if grid[position] > 0:
            point = block.solve(1.0 / float(grid[position]), solver, point)
            n_failed += int((~point.converged).sum())
        total[position, alive] = score(int(position), block, point, alive)
        if keep:
            found = block.features(point)
            if kept is None:
                kept = np.zeros((len(grid), n_folds, n_tasks, *found.shape[1:]))
            reshaped = found.reshape(n_folds, len(alive), *found.shape[1:])
            for later in order[place:]:  # where tasks that leave now are left
                kept[later][:, alive] = reshaped
        idle = np.where(total[position] > best, 0, idle + 1)
        best = np.maximum(best, total[position])
        if patience is not None:
            fallen = total[position] < best - _CLEAR_FALL
            stay = np.flatnonzero(((idle < patience) & ~fallen)[alive])
            if not len(stay):
                break
            if len(stay) < len(alive):
                every = (np.arange(n_folds)[:, None] * len(alive) + stay).ravel()
                block, point, alive = block.take(every), point.take(every, block), alive[stay]
                like = None if like is None else like[every]
    return Walked(total, kept, n_failed)


def picked(log_prob: Array, targets: Targets) -> Array:
    """Log-probabilities (T, m) of the true classes; zero where there is none."""
    own = np.take_along_axis(log_prob, np.maximum(targets, 0)[:, None, :], axis=1)[:, 0]
    return np.asarray(np.where(targets >= 0, own, 0.0))


@dataclass(frozen=True)
class _HeldOutRows:
    """The rows of each fold, and what the models that have not seen them say of them."""

    rows: tuple[Indices, ...]
    parts: tuple[Design, ...]

    @classmethod
    def of(cls, design: Design, folds: Indices, n_folds: int) -> _HeldOutRows:
        rows = tuple(np.flatnonzero(folds == fold) for fold in range(n_folds))
        return cls(rows, tuple(design.take(part) for part in rows))

    def log_prob(self, block: Block, point: Point) -> Iterator[tuple[Indices, Array]]:
        """Rows of each fold and log-probabilities (T, n_classes, m) of their classes."""
        n_tasks = block.tasks.n_tasks // max(1, len(self.rows))
        for fold, (rows, part) in enumerate(zip(self.rows, self.parts, strict=True)):
            own = np.arange(fold * n_tasks, (fold + 1) * n_tasks)
            yield rows, block.take(own).log_prob(part, rows, point.coef[own])
