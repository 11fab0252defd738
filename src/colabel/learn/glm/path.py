"""Fitting tasks, and scoring them on held-out rows along a path of penalties.

Choosing a penalty is a measurement. The fit without a fold's rows never starts from anything that
has seen them: not from the fit on all rows, nor from its curvature, but from the same fold's fit at
a stronger penalty (with the curvature learned there), or from the same fold's fit of a like task.
So however early a fit stops, it cannot know what it will be scored on.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from colabel.core.arrays import Array, Flags, Indices, Targets
from colabel.learn.design import Design
from colabel.learn.glm.degenerate import ClassSupport, class_support, shut_scores
from colabel.learn.glm.lbfgs import LBFGS, CurvaturePairs, Ridge
from colabel.learn.glm.losses import Loss, loss_for
from colabel.learn.glm.objective import OwnScores, RowsObjective
from colabel.learn.glm.tasks import FittedTasks, Tasks, log_probabilities


class Point(NamedTuple):
    """Models of all tasks of a block at one penalty.

    Attributes
    ----------
    coef : (T, K, q)
        In coordinates of the design; what was given as offset is not in it.
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


@dataclass(frozen=True)
class Block:
    """Tasks on the rows of a design.

    Attributes
    ----------
    design : Design
    tasks : Tasks
    support : ClassSupport
        Which classes occur in each task.
    offset : (T, K, q) or None
        Coefficients of a fixed part of the scores. The tasks then learn a *deviation* from it, and
        even their intercepts are penalised, by as much as the curvature of one row a class, so that
        a value that never occurs does not send them to infinity.
    """

    design: Design
    tasks: Tasks
    support: ClassSupport
    offset: Array | None = None

    @classmethod
    def of(cls, design: Design, tasks: Tasks, offset: Array | None = None) -> Block:
        """Count the classes of the tasks."""
        support = class_support(tasks.targets, tasks.n_classes, design.weight, tasks.prior)
        return cls(design, tasks, support, offset)

    def take(self, tasks: Indices) -> Block:
        """Return some of the tasks."""
        offset = None if self.offset is None else self.offset[tasks]
        return replace(
            self, tasks=self.tasks.take(tasks), support=self.support.take(tasks), offset=offset
        )

    @property
    def loss(self) -> Loss:
        """The loss of the tasks."""
        return loss_for(self.tasks.n_classes)

    @property
    def floor(self) -> Array:
        """Probability kept for absent classes, (T, n_classes)."""
        floor = self.support.floor
        return floor if self.offset is None else np.zeros_like(floor)

    @property
    def solved(self) -> Indices:
        """Tasks that need a solver: without an offset, constant ones have a closed form."""
        n_tasks = self.tasks.n_tasks
        constant = self.support.constant
        return np.arange(n_tasks) if self.offset is not None else np.flatnonzero(~constant)

    def start(self) -> Array:
        """Coefficients (T, K, q) of the best constants, or of no deviation."""
        shape = (self.tasks.n_tasks, self.loss.n_scores, self.design.n_coordinates)
        coef = np.zeros(shape)
        if self.offset is None:
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
        strength[:, :, -1] = 0.0 if self.offset is None else self._constant_strength()[:, None]
        return strength

    def _constant_strength(self) -> Array:
        """Penalty (T,) of the intercept of a deviation: the curvature of n_classes rows."""
        frequency = self.support.smoothed
        n_scores = self.loss.n_scores
        spread = (frequency * (1.0 - frequency)).sum(axis=1) / n_scores
        return np.asarray(spread * self.tasks.n_classes / (2 if n_scores == 1 else 1))

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
        free = self._free(solved)
        first = coef[solved] if free is None else coef[solved] * free
        objective = RowsObjective(
            self.design, self.loss, self.tasks.targets[solved], self._scores(solved, first)
        )
        solution = solver.solve(objective, Ridge(strength[solved], free), first, pairs)
        coef[solved], converged[solved] = solution.coef, solution.converged
        n_iter = max(1, int(solution.n_iter.max()))
        return Point(coef, strength, solution.pairs, converged, n_iter)

    def calibrated(self, solver: LBFGS) -> tuple[Block, Flags]:
        """Fit slope and intercept of every offset; return the block that deviates from that.

        Where another label is known, x often says less of a label than it does alone: the label's
        own scores are right up to a factor. Both are held near one and zero by as much as the
        curvature of one row a class. No product with the rows is needed.
        """
        assert self.offset is not None
        offset = self.offset
        scores = self._scores(self.solved, np.zeros_like(offset))
        own = OwnScores(scores.reshape(-1, self.design.n_rows).copy(), self.design.weight)
        strength = np.repeat(self._constant_strength()[:, None, None], 2, axis=2)
        strength = np.repeat(strength, offset.shape[1], axis=1)
        strength[..., 0] *= (own.feature**2).mean(axis=1).reshape(offset.shape[:2])
        objective = RowsObjective(own, self.loss, self.tasks.targets, scores)
        start = np.zeros((*offset.shape[:2], 2))
        found = solver.solve(objective, Ridge(strength), start)
        offset = (1.0 + found.coef[..., :1]) * offset
        offset[..., -1] += found.coef[..., 1]
        return replace(self, offset=offset), found.converged

    def _scores(self, tasks: Indices, coef: Array) -> Array:
        """Scores (m, K, n) of some tasks at coefficients (m, K, q), offsets included."""
        total = coef if self.offset is None else coef + self.offset[tasks]
        flat = self.design.scores(total.reshape(-1, total.shape[2]))
        scores = flat.reshape(*total.shape[:2], self.design.n_rows)
        absent = self._absent(tasks)
        return scores if absent is None else shut_scores(scores, absent)

    def _absent(self, tasks: Indices) -> Flags | None:
        """Classes (m, K) to be shut out of the softmax, where there are any."""
        absent = self.support.absent[tasks]
        shut = self.offset is None and self.loss.n_scores > 1 and bool(absent.any())
        return absent if shut else None

    def _free(self, tasks: Indices) -> Array | None:
        """Which coordinates are not held at zero, (m, 1 or K, q)."""
        absent, allowed = self._absent(tasks), self.tasks.allowed
        if absent is None and allowed is None:
            return None
        q = self.design.n_coordinates
        free = np.ones((len(tasks), 1 if absent is None else absent.shape[1], q))
        if allowed is not None:
            free[:, :, q - 1 - self.design.n_extra : -1] = allowed[tasks][:, None, :]
        if absent is not None:
            free[absent] = 0.0
        return free

    def features(self, point: Point) -> Array:
        """Coefficients (T, K, p + 1) of the features, the offset's included."""
        coef = self.design.leave(self.total(point))
        if self.offset is None:
            constant = self.support.constant
            coef[constant, :, -1] = point.coef[constant, :, -1]  # not at the mean: everywhere
        return coef

    def total(self, point: Point) -> Array:
        """Coefficients (T, K, q), the offset's included."""
        return point.coef if self.offset is None else point.coef + self.offset


def fit_tasks(
    design: Design,
    tasks: Tasks,
    C: Array,
    solver: LBFGS,
    offset: Array | None = None,
    start: Array | None = None,
) -> FittedTasks:
    """Fit every task with its own C (T,).

    `offset` and `start` are coefficients (T, K, p + 1) of features: a fixed part of the scores,
    and where to start from. With an offset, a C of zero fits its slope and the intercept alone.
    """
    block = Block.of(design, tasks, None if offset is None else design.enter(offset))
    point = Point.at(block.start() if start is None else _entered(block, start))
    if offset is not None:
        block, converged = block.calibrated(solver)
        point = point._replace(converged=converged)
    rest = np.flatnonzero(C > 0)
    if len(rest):
        found = block.take(rest).solve(1.0 / C[rest], solver, point.coef[rest])
        point.coef[rest], point.converged[rest] = found.coef, found.converged
        point = point._replace(n_iter=found.n_iter)
    coef = block.features(point)
    if block.loss.n_scores > 1:
        coef[..., -1] -= coef[..., -1].mean(axis=1, keepdims=True)
    return FittedTasks(coef, block.floor, point.converged, point.n_iter)


def _entered(block: Block, coef: Array) -> Array:
    """Enter coefficients of features; tasks without a solver keep their constants."""
    start = block.start()
    start[block.solved] = block.design.enter(coef[block.solved])
    return start


@dataclass(frozen=True)
class HeldOut:
    """What the held-out rows say of every task along a path.

    Attributes
    ----------
    log_prob : (G, T, n)
        Log-probability of the true class of every row by the model that did not see it; zero for
        rows that are in no fold or outside the task.
    total : (G, T)
        Its weighted sum over the rows; -inf for points that were not looked at.
    coef : (G, F, T, K, p + 1) or None
        Coefficients without each fold's rows, if they were asked for.
    n_failed : int
        Number of regressions that did not converge.
    """

    log_prob: Array
    total: Array
    coef: Array | None
    n_failed: int


def held_out_path(
    design: Design,
    tasks: Tasks,
    grid: Array,
    folds: Indices,
    n_folds: int,
    solver: LBFGS,
    offset: Array | None = None,
    start: Array | None = None,
    keep_coef: bool = False,
    patience: int | None = None,
) -> HeldOut:
    """Score every task on held-out rows over a grid of C.

    All folds of a task are tasks of their own that skip the fold's rows, so one batch holds
    them all. The path goes from small to large C, each point starting from the last.

    Parameters
    ----------
    grid : (G,)
        Values of C; with an offset zero may be among them: its slope and the intercept alone.
    folds : (n,)
        Fold of every row of the design; negative for rows that are never held out.
    offset : (F, T, K, p + 1) or None
        A fixed part of the scores, which must not know the fold's rows either.
    start : (F, T, K, p + 1) or None
        Where the first point starts from; the same holds.
    keep_coef : bool
        Whether to return the coefficients.
    patience : int or None
        Number of points in a row without improvement after which a task leaves the path.
    """
    n_tasks, n_rows = tasks.targets.shape
    weight = np.ones(n_rows) if design.weight is None else design.weight
    block = Block.of(
        design,
        tasks.without_folds(folds, n_folds),
        None if offset is None else design.enter(_joined(offset)),
    )
    held_out = _HeldOutRows.of(design, folds, n_folds)
    n_failed = 0
    if offset is not None:
        block, converged = block.calibrated(solver)
        n_failed += int((~converged).sum())
    point = Point.at(block.start() if start is None else _entered(block, _joined(start)))
    log_prob, total = np.zeros((len(grid), n_tasks, n_rows)), np.full((len(grid), n_tasks), -np.inf)
    coef: list[Array] = [np.empty(0)] * len(grid)
    alive, idle, best = np.arange(n_tasks), np.zeros(n_tasks, dtype=np.intp), total[0].copy()
    for position in np.argsort(grid, kind="stable"):
        if grid[position] > 0:
            point = block.solve(1.0 / float(grid[position]), solver, point)
        n_failed += int((~point.converged).sum())
        scored = held_out.log_prob(block, point, tasks.targets[alive])
        log_prob[position, alive], total[position, alive] = scored, scored @ weight
        if keep_coef:
            coef[position] = block.features(point)
        idle = np.where(total[position] > best, 0, idle + 1)
        best = np.maximum(best, total[position])
        if patience is not None:
            block, point, alive = _still_improving(block, point, alive, idle < patience, n_folds)
            if not len(alive):
                break
    kept = None
    if keep_coef:
        stacked = np.stack(coef)
        kept = stacked.reshape(len(grid), n_folds, n_tasks, *stacked.shape[2:])
    return HeldOut(log_prob, total, kept, n_failed)


def _joined(coef: Array) -> Array:
    """(F, T, ...) as (F T, ...), the order of `Tasks.without_folds`."""
    return coef.reshape(-1, *coef.shape[2:])


def _still_improving(
    block: Block, point: Point, alive: Indices, improving: Flags, n_folds: int
) -> tuple[Block, Point, Indices]:
    """Block, point and positions of the tasks that stay on the path."""
    stay = np.flatnonzero(improving[alive])
    if len(stay) == len(alive):
        return block, point, alive
    every = (np.arange(n_folds)[:, None] * len(alive) + stay).ravel()
    pairs = point.pairs
    if pairs is not None:
        lane = np.full(block.tasks.n_tasks, -1)
        lane[block.solved] = np.arange(len(block.solved))
        lanes = lane[every]
        pairs = pairs.take(lanes[lanes >= 0])
    strength = point.strength if pairs is None else point.strength[every]
    left = Point(point.coef[every], strength, pairs, point.converged[every], point.n_iter)
    return block.take(every), left, alive[stay]


@dataclass(frozen=True)
class _HeldOutRows:
    """The rows of each fold, and what the models that have not seen them say of them."""

    rows: tuple[Indices, ...]
    parts: tuple[Design, ...]

    @classmethod
    def of(cls, design: Design, folds: Indices, n_folds: int) -> _HeldOutRows:
        rows = tuple(np.flatnonzero(folds == fold) for fold in range(n_folds))
        return cls(rows, tuple(design.take(part) for part in rows))

    def log_prob(self, block: Block, point: Point, targets: Targets) -> Array:
        """Log-probabilities (T, n) of the true classes; zero where there is none."""
        result = np.zeros(targets.shape)
        total, n_tasks = block.total(point), len(targets)
        for fold, (rows, part) in enumerate(zip(self.rows, self.parts, strict=True)):
            own = slice(fold * n_tasks, (fold + 1) * n_tasks)
            coef = total[own]
            scores = part.scores(coef.reshape(-1, coef.shape[2]))
            scores = scores.reshape(*coef.shape[:2], len(rows))
            prob = log_probabilities(block.loss, scores, block.floor[own])
            wanted = targets[:, rows]
            picked = np.take_along_axis(prob, np.maximum(wanted, 0)[:, None, :], axis=1)[:, 0]
            result[:, rows] = np.where(wanted >= 0, picked, 0.0)
        return result
