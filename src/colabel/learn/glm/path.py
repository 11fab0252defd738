"""Fitting tasks, and scoring them on held-out rows along a path of penalties.

Choosing a penalty is a measurement. The fit without a fold's rows never starts from anything that
has seen them: not from the fit on all rows, nor from its curvature, but from the same fold's fit at
a stronger penalty (with the curvature learned there), or from the same fold's fit of a like task.
So however early a fit stops, it cannot know what it will be scored on.

A `Block` holds tasks on the rows of one design: their losses, penalties, and models at a penalty.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from colabel.core.arrays import Array, Flags, Indices, Targets
from colabel.learn.design import Design
from colabel.learn.glm.lbfgs import LBFGS, CurvaturePairs, Ridge
from colabel.learn.glm.losses import Loss, add_offsets, loss_for
from colabel.learn.glm.objective import Objective, OwnScores, RowsObjective
from colabel.learn.glm.tasks import (
    ClassSupport,
    FittedTasks,
    Tasks,
    class_support,
    informed_tasks,
    log_probabilities,
    shut_scores,
)

# A deviation of the log-odds by 2.5 costs half a nat: about the weakly informative prior of Gelman,
# Jakulin, Pittau & Su (2008).
_WEAK = 1.0 / 2.5**2


class Point(NamedTuple):
    """Models of all tasks of a block at one penalty.

    Attributes
    ----------
    coef : (T, K, q)
        In coordinates of the design; offsets are not in it.
    strength : (T, 1, q)
        The penalty.
    pairs : CurvaturePairs or None
        Curvature of the tasks that were solved; the others are constant.
    converged : (T,) of bool
    n_iter : int
        Most iterations of a task.
    """

    coef: Array
    strength: Array
    pairs: CurvaturePairs | None
    converged: Flags
    n_iter: int

    @classmethod
    def at(cls, coef: Array) -> Point:
        """A point to start from."""
        return cls(coef, np.zeros(0), None, np.ones(len(coef), dtype=bool), 1)

    def take(self, tasks: Indices, block: Block) -> Point:
        """Return the models of some tasks of the block."""
        coef, converged = self.coef[tasks], self.converged[tasks]
        if self.pairs is None:
            return Point(coef, self.strength, None, converged, self.n_iter)
        lane = np.full(block.tasks.n_tasks, -1)
        lane[block.solved] = np.arange(len(block.solved))
        lanes = lane[tasks]
        pairs = self.pairs.take(lanes[lanes >= 0])
        return Point(coef, self.strength[tasks], pairs, converged, self.n_iter)


@dataclass(frozen=True)
class Block:
    """Tasks on the rows of a design.

    Attributes
    ----------
    design : Design
    tasks : Tasks
        With an offset, they learn a *deviation* from `slope` times it.
    support : ClassSupport
        Which classes occur in each task.
    slope : (T, K)
    """

    design: Design
    tasks: Tasks
    support: ClassSupport
    slope: Array

    @classmethod
    def of(cls, design: Design, tasks: Tasks) -> Block:
        """Count the classes of the tasks."""
        support = class_support(tasks.targets, tasks.n_classes, design.weight, tasks.prior)
        slope = np.ones((tasks.n_tasks, loss_for(tasks.n_classes).n_scores))
        return cls(design, tasks, support, slope)

    def take(self, tasks: Indices) -> Block:
        """Return some of the tasks."""
        return replace(
            self,
            tasks=self.tasks.take(tasks),
            support=self.support.take(tasks),
            slope=self.slope[tasks],
        )

    @property
    def loss(self) -> Loss:
        """The loss of the tasks."""
        return loss_for(self.tasks.n_classes)

    @property
    def deviates(self) -> bool:
        """Whether the tasks learn a deviation."""
        return self.tasks.offset is not None

    @property
    def floor(self) -> Array:
        """Probability kept for absent classes, (T, n_classes)."""
        floor = self.support.floor
        return np.zeros_like(floor) if self.deviates else floor

    @property
    def solved(self) -> Indices:
        """Tasks that need a solver.

        Constant ones have a closed form; those that lack a class do not deviate from their offset
        by more than slope and intercept.
        """
        absent = self.support.absent.any(axis=1)
        return np.flatnonzero(~absent if self.deviates else ~self.support.constant)

    def start(self) -> Array:
        """Coefficients (T, K, q) of the best constants, or of no deviation."""
        coef = np.zeros((*self.slope.shape, self.design.n_coordinates))
        if not self.deviates:
            coef[..., -1] = self.support.constant_intercepts()
        return coef

    def strength(self, penalty: float | Array) -> Array:
        """Ridge strengths (T, 1, q) of the coordinates for penalties (T,)."""
        tasks, q = self.tasks, self.design.n_coordinates
        strength = np.empty((tasks.n_tasks, 1, q))
        strength[:] = np.reshape(penalty, (-1, 1, 1))
        if tasks.extra_scale is not None:
            extra = slice(q - 1 - self.design.n_extra, q - 1)
            strength[:, :, extra] /= (tasks.extra_scale**2)[:, None, None]
        strength[:, :, -1] = 0.0
        return strength

    def solve(self, penalty: float | Array, solver: LBFGS, last: Point | Array) -> Point:
        """Fit every task with its own penalty (T,).

        `last` is where to start: coefficients (T, K, q), or the same tasks at another penalty, with
        what was learned of their curvature.
        """
        solved, strength = self.solved, self.strength(penalty)
        coef = (last.coef if isinstance(last, Point) else last).copy()
        converged = np.ones(self.tasks.n_tasks, dtype=bool)
        if not len(solved):
            return Point(coef, strength, None, converged, 1)
        pairs = None
        if isinstance(last, Point) and last.pairs is not None:
            pairs = last.pairs.penalised((strength - last.strength)[solved])
        part = self.take(solved)
        free = part._free()
        first = coef[solved] if free is None else coef[solved] * free
        objective = part.objective(solver, first)
        solution = solver.solve(objective, Ridge(strength[solved], free), first, pairs)
        coef[solved], converged[solved] = solution.coef, solution.converged
        n_iter = max(1, int(solution.n_iter.max()))
        return Point(coef, strength, solution.pairs, converged, n_iter)

    def calibrated(self, solver: LBFGS) -> tuple[Block, Point]:
        """Fit the slope of every offset and an intercept; return block and point of both.

        Where another label is known, x often says less of a label than it does alone: the label's
        own scores are right up to a factor. A weak penalty holds slope and intercept near one and
        zero, so that a class that never occurs does not send them to infinity. No product with the
        rows is needed.
        """
        start = np.zeros((*self.slope.shape, 2))
        objective, scale = self.slope_objective(start)
        strength = np.full(start.shape, _WEAK)
        energy, total = scale.T
        strength[..., 0] *= (energy / np.maximum(total, 1e-300)).reshape(self.slope.shape)
        found = solver.solve(objective, Ridge(strength), start)
        point = Point.at(self.start())._replace(converged=found.converged)
        point.coef[..., -1] = found.coef[..., 1]
        return replace(self, slope=self.slope + found.coef[..., 0]), point

    def objective(self, solver: LBFGS, coef: Array) -> Objective:
        """Return the losses of the tasks at coefficients (T, K, q)."""
        scores = self._with_offset(self._scores(self.design, coef))
        return solver.objective(self.design, self.loss, self.tasks.targets, scores)

    def slope_objective(self, coef: Array) -> tuple[Objective, Array]:
        """Return the losses by slopes and intercepts (T, K, 2) added to those of the offsets.

        Second come the scales (T K, 2) of their coordinates.
        """
        own = self.own_scores()
        return self._of_slopes(own, coef), own.scale()

    def slopes(self, coef: Array) -> Objective:
        """Return the first of `slope_objective`."""
        return self._of_slopes(self.own_scores(), coef)

    def _of_slopes(self, own: OwnScores, coef: Array) -> Objective:
        scores = own.scores(coef.reshape(-1, 2))
        scores += own.feature
        shaped = scores.reshape(*self.slope.shape, -1)
        return RowsObjective(own, self.loss, self.tasks.targets, shaped)

    def own_scores(self) -> OwnScores:
        """The offset of each score as its only feature."""
        scores = self._with_offset(np.zeros((*self.slope.shape, self.design.n_rows)))
        return OwnScores(scores.reshape(-1, self.design.n_rows), self.design.weight)

    def _scores(self, design: Design, coef: Array) -> Array:
        """Scores (T, K, n) of rows at coefficients (T, K, q), without offsets."""
        flat = design.scores(coef.reshape(-1, coef.shape[2]))
        scores = flat.reshape(*coef.shape[:2], design.n_rows)
        absent = self._absent()
        return scores if absent is None else shut_scores(scores, absent)

    def _with_offset(self, scores: Array, rows: Indices | slice = slice(None)) -> Array:
        """Add the offsets of rows to their scores (T, K, n), in place."""
        if self.tasks.offset is not None:
            assert self.tasks.base is not None
            part = np.ascontiguousarray(self.tasks.offset[:, :, rows])
            add_offsets(scores, self.slope, part, self.tasks.base)
        return scores

    def _absent(self) -> Flags | None:
        """Classes (T, K) to be shut out of the softmax, where there are any."""
        shut = not self.deviates and self.loss.n_scores > 1 and bool(self.support.absent.any())
        return self.support.absent if shut else None

    def _free(self) -> Array | None:
        """Which coordinates are not held at zero, (T, 1 or K, q)."""
        absent, allowed = self._absent(), self.tasks.allowed
        if absent is None and allowed is None:
            return None
        q = self.design.n_coordinates
        free = np.ones((self.tasks.n_tasks, 1 if absent is None else absent.shape[1], q))
        if allowed is not None:
            free[:, :, q - 1 - self.design.n_extra : -1] = allowed[:, None, :]
        if absent is not None:
            free[absent] = 0.0
        return free

    def entered(self, coef: Array) -> Array:
        """Coefficients (..., K, p + 1) of features as coordinates (T, K, q).

        Tasks without a solver have their constants.
        """
        start, solved = self.start(), self.solved
        start[solved] = self.design.enter(coef.reshape(-1, *coef.shape[-2:])[solved])
        return start

    def features(self, point: Point) -> Array:
        """Coefficients (T, K, p + 1) of features, without offsets."""
        coef = self.design.leave(point.coef)
        if not self.deviates:  # constants are not those at the mean, but everywhere
            constant = self.support.constant
            coef[constant, :, -1] = point.coef[constant, :, -1]
        return coef

    def log_prob(self, design: Design, rows: Indices | slice, coef: Array) -> Array:
        """Log-probabilities (T, n_classes, m) of other rows of the block."""
        flat = design.scores(coef.reshape(-1, coef.shape[2]))
        scores = self._with_offset(flat.reshape(*coef.shape[:2], design.n_rows), rows)
        return log_probabilities(self.loss, scores, self.floor)


# Where tasks are let go early, a held-out curve that has fallen by so many nats at one point of the
# path, from its best, has turned for good.
_CLEAR_FALL = 5.0


def fit_tasks(
    design: Design, tasks: Tasks, C: Array, solver: LBFGS, base: Array | None = None
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

    total, coef, n_failed = walk_path(block, grid, n_folds, solver, score, start, keep, patience)
    floor = block.floor.reshape(n_folds, n_tasks, -1)
    return HeldOutPath(log_prob, total, coef, floor, n_failed, informed)


def walk_path(
    block: Block,
    grid: Array,
    n_folds: int,
    solver: LBFGS,
    score: Callable[[int, Any, Point, Indices], Array],
    start: Array | None,
    keep: bool,
    patience: int | None,
) -> tuple[Array, Array | None, int]:
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
    return total, kept, n_failed


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
