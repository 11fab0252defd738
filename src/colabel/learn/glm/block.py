"""Tasks on the rows of one design: their losses, their penalties, and their models at a penalty."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from colabel.core.arrays import Array, Flags, Indices
from colabel.learn.design import Design
from colabel.learn.glm._kernels import add_offsets
from colabel.learn.glm.degenerate import ClassSupport, class_support, shut_scores
from colabel.learn.glm.lbfgs import LBFGS, CurvaturePairs, Ridge
from colabel.learn.glm.losses import Loss, loss_for
from colabel.learn.glm.objective import Objective, OwnScores, RowsObjective
from colabel.learn.glm.tasks import Tasks, log_probabilities

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
