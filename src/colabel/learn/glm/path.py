"""Fitting tasks, and scoring them on held-out rows along a path of penalties.

Choosing a penalty is a measurement. The fit without a fold's rows never starts from anything that
has seen them: not from the fit on all rows, nor from its curvature, but from the same fold's fit at
a stronger penalty (with the curvature learned there), or from the same fold's fit of a like task.
So however early a fit stops, it cannot know what it will be scored on.

A `Block` holds tasks: their losses, penalties, and models at a penalty. Its rows are in one place
(`LocalRows`), in memory or on a device, or in chunks (`colabel.learn.chunks`), each of which is
such a place for as long as a pass takes.

Tasks may lack classes: their target is constant, or no row of theirs carries some class.
An unpenalised intercept runs off to infinity where a class never occurs. Such a class gets a
smoothed frequency instead: (n_c + m pi_c) / (n + m), with n the task's weight, pi a prior over
classes and m the number of classes. With a uniform prior this is Laplace's rule.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, NamedTuple

import numpy as np

from colabel.core.arrays import Array, Flags, Indices, cast, host, like, xp_of, zeros
from colabel.core.schema import Between, Dims, Fields, bind, check_that, stored
from colabel.learn.conditional import scores_of
from colabel.learn.glm.lbfgs import LBFGS, CurvaturePairs, OwnScores, Ridge, RowsObjective
from colabel.learn.glm.losses import Loss, loss_for

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

    @classmethod
    def of(cls, counts: Array, prior: Array | None) -> ClassSupport:
        """Smooth counts (T, K) of classes; `prior` is (T, K), uniform by default."""
        n_classes = counts.shape[1]
        frequency = 1.0 / n_classes if prior is None else prior
        total = counts.sum(axis=1, keepdims=True)
        return cls((counts + n_classes * frequency) / (total + n_classes), counts <= 0)


def shut_scores(scores: Array, absent: Flags) -> Array:
    """Scores (T, K, n) with absent classes (T, K) shut out of the softmax."""
    shut: Array = xp_of(scores).where(like(absent, scores)[:, :, None], _ABSENT_SCORE, scores)
    return shut


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
        check_that(kept.all(), "floor holds more probability than there is")
        check_that((fields["floor"] == 0).any(axis=1).all(), "floor leaves no class a score")
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
    informed: Flags = scored.sum(axis=1) >= np.minimum(seen.any(axis=1).sum(axis=1), 2)
    return informed


# A deviation of the log-odds by 2.5 costs half a nat: about the weakly informative prior of Gelman,
# Jakulin, Pittau & Su (2008).
_WEAK = 1.0 / 2.5**2


class Point(NamedTuple):
    """Models of all tasks of a block at one penalty.

    Attributes
    ----------
    coef : (T, K, q)
        In coordinates of the design, where the rows are; offsets are not in it.
    strength : (T, 1, q)
        The penalty, there too.
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
class LocalRows:
    """The rows of tasks where all of them are at hand, and all that is as long as they are.

    Attributes
    ----------
    design : Design
    codes : (L, n)
        Classes of the targets, negative where there is none.
    fold : (n,), or (P, n) for groups of rows, or None
        Fold of every row; negative for never held out.
    offset : (L, K, n) or None
        Fixed parts of the scores, from which the tasks deviate.
    over : (L, n) or None
        Log-probabilities over which gains are counted.
    coordinates : Design or None
        What knows the coordinates, where it is not the design.
    inside : (P, n) or None
        One for the rows of each group, where tasks of groups share all rows.
    tables : (L, K, n) or None
        Log-probabilities of all classes, by which squares of gains are expected, not observed.
    """

    design: Any
    codes: Any
    fold: Any = None
    offset: Any = None
    over: Any = None
    coordinates: Any = None
    inside: Any = None
    tables: Any = None

    @property
    def place(self) -> Any:
        """An array where coefficients are."""
        return self.codes

    def used(self, tasks: Tasks) -> None:
        """None: the design has left out empty columns."""
        return

    def counts(self, tasks: Tasks, n_folds: int) -> Array:
        """Weights (T, 1 + F, K) of the rows of each class: never held out, then in each fold."""
        xp = xp_of(self.codes)
        weight: Any = self.rows_of(tasks, 1).score_weight
        if weight is None:
            weight = np.ones(self.design.n_rows)
        weight = weight if xp is np else weight.double()
        fold = xp.zeros_like(weight) - 1 if self.fold is None else self._folds(tasks)
        by_fold = xp.stack([weight * (fold == f) for f in range(-1, n_folds)], -1)  # ([T,] n, 1+F)
        by_class, codes = [], self.codes[tasks.label]
        for k in range(tasks.n_classes):
            member = (codes == k) * xp.ones_like(weight)
            shared = weight.ndim == 1
            by_class.append(member @ by_fold if shared else (member[..., None] * by_fold).sum(1))
        counts: Array = host(xp.stack(by_class, -1))
        return counts

    def rows_of(self, tasks: Tasks, n_scores: int) -> Any:
        """Return the design for the scores of some tasks."""
        return self.design.for_groups(np.repeat(tasks.group, n_scores))

    def objective(self, block: Block, solver: LBFGS, coef: Array) -> RowsObjective:
        """Return the losses of a block's tasks at coefficients (T, K, q)."""
        design = self.rows_of(block.tasks, coef.shape[1])
        scores = self.with_offset(block, self._times(design, coef, block.absent))
        return solver.objective(
            design, loss_for(block.tasks.n_classes), self.targets(block), scores
        )

    def slope_objective(self, block: Block, coef: Array) -> tuple[RowsObjective, Any]:
        """Return the losses by slopes and intercepts (T, K, 2) added to those of the offsets.

        Second comes the offset of each score as its only feature.
        """
        weight = self.rows_of(block.tasks, coef.shape[1]).score_weight
        if self.inside is not None:
            weight = weight * self.inside[np.repeat(block.tasks.group, coef.shape[1])]
        shape = (*block.slope.shape, self.design.n_rows)
        scores = self.with_offset(block, cast(zeros(shape, self.codes), self.offset.dtype))
        own = OwnScores(scores.reshape(-1, scores.shape[2]), weight)
        there = own.scores(like(coef, scores).reshape(-1, 2)) + own.feature
        loss = loss_for(block.tasks.n_classes)
        return RowsObjective(own, loss, self.targets(block), there.reshape(scores.shape)), own

    def _times(self, design: Any, coef: Array, absent: Flags | None) -> Any:
        """Scores (T, K, n) of rows at coefficients (T, K, q), without offsets."""
        flat = design.scores(like(coef, self.codes).reshape(-1, coef.shape[2]))
        scores = flat.reshape(*coef.shape[:2], design.n_rows)
        return scores if absent is None else shut_scores(scores, absent)

    def targets(self, block: Block) -> Any:
        """Classes (T, n) of the tasks; negative for the rows of the fold that a task skips."""
        codes = self.codes[block.tasks.label]
        if self.fold is None or not (block.tasks.fold >= 0).any():
            return codes
        skipped = like(np.where(block.tasks.fold < 0, -2, block.tasks.fold), codes)[:, None]
        codes[self._folds(block.tasks) == skipped] = -1
        return codes

    def _folds(self, tasks: Tasks) -> Any:
        return self.fold if self.fold.ndim == 1 else self.fold[tasks.group]

    def with_offset(self, block: Block, scores: Any, rows: Any = slice(None)) -> Any:
        """Add the offsets of rows to their scores (T, K, n), in place."""
        if self.offset is None:
            return scores
        slope, offset = like(block.slope, scores)[:, :, None], self.offset[:, :, rows]
        scores += slope * offset[block.tasks.label]
        return scores

    @cached_property
    def _held_out(self) -> list[tuple[int | None, Any, Any]]:
        """Each fold, its rows, and their design; on a device all folds at once, masked."""
        if xp_of(self.codes) is not np:
            return [(None, slice(None), self.design)]
        rows = [np.flatnonzero(self.fold == fold) for fold in range(self.fold.max(initial=-1) + 1)]
        return [(fold, own, self.design.take(own)) for fold, own in enumerate(rows) if len(own)]

    def held_out(self, block: Block, coef: Array) -> Array:
        """Sums (3, T) over the rows of each task's fold, by models with coefficients (T, K, q).

        Of log-probabilities of the true classes, of their gains, and of the squares of these.
        """
        sums = np.zeros((3, block.tasks.n_tasks))
        for fold, rows, design in self._held_out:
            own: Any = np.arange(len(coef)) if fold is None else block.tasks.fold == fold
            own = slice(None) if fold is None else np.flatnonzero(own)
            part = block.take(own)
            if not part.tasks.n_tasks:
                continue
            label, truth = part.tasks.label, self.codes[part.tasks.label]
            if fold is None:
                design = self.rows_of(part.tasks, coef.shape[1])
                held = self._folds(part.tasks) == like(part.tasks.fold, truth)[:, None]
                truth[~held] = -1
            else:
                truth = truth[:, rows]
            scores = self.with_offset(part, self._times(design, coef[own], None), rows)
            table = log_probabilities(loss_for(block.tasks.n_classes), scores, part.floor)
            log_prob = picked(table, truth)
            weight = design.score_weight
            if weight is not None and weight.ndim > 1:
                weight = weight[:: coef.shape[1]]
            sums[0, own] = _summed(log_prob, weight)
            if self.over is not None:
                over = self.over[label][:, rows]
                more = xp_of(over).where(truth >= 0, log_prob - over, 0.0)
                sums[1, own] = _summed(more, weight)
                squares = more**2
                if self.tables is not None:
                    chance = self.tables[label][:, :, rows]
                    mean = (xp_of(over).exp(chance) * (table - chance) ** 2).sum(1)
                    squares = xp_of(over).where(truth >= 0, mean, 0.0)
                sums[2, own] = _summed(squares, None if weight is None else weight**2)
        return sums


def picked(log_prob: Any, targets: Any) -> Any:
    """Log-probabilities (T, m) of the true classes of (T, K, m); zero where there is none."""
    xp, own = xp_of(log_prob), 0.0 * log_prob[:, 0]
    for k in range(log_prob.shape[1]):
        own = xp.where(targets == k, log_prob[:, k], own)
    return own


def _summed(values: Any, weight: Any) -> Any:
    """Weighted sums (T,) of values (T, n), by weights (n,) or (T, n)."""
    if isinstance(values, np.ndarray):
        return values.sum(axis=1) if weight is None else values @ weight
    return host((values * weight).double().sum(1))


@dataclass(frozen=True)
class Block:
    """Tasks on rows.

    Attributes
    ----------
    rows : LocalRows or ChunkRows
    tasks : Tasks
        Where the rows have an offset, they learn a *deviation* from `slope` times it.
    support : ClassSupport
        Which classes occur in each task.
    slope : (T, K)
    """

    rows: Any
    tasks: Tasks
    support: ClassSupport
    slope: Array

    @classmethod
    def of(cls, rows: Any, tasks: Tasks, counts: Array) -> Block:
        """Tasks on rows, given the weights (T, 1 + F, K) of their classes by fold."""
        # the sum of the other folds, not the difference to all: none is exactly zero
        skipped = (np.arange(counts.shape[1]) == tasks.fold[:, None] + 1) & (tasks.fold >= 0)[
            :, None
        ]
        support = ClassSupport.of(np.where(skipped[:, :, None], 0.0, counts).sum(1), tasks.prior)
        slope = np.ones((tasks.n_tasks, loss_for(tasks.n_classes).n_scores))
        return cls(rows, tasks, support, slope)

    def take(self, tasks: Indices) -> Block:
        """Return some of the tasks."""
        return replace(
            self,
            tasks=self.tasks.take(tasks),
            support=self.support.take(tasks),
            slope=self.slope[tasks],
        )

    @property
    def design(self) -> Any:
        """The coordinates of the rows."""
        return self.rows.design if self.rows.coordinates is None else self.rows.coordinates

    @property
    def deviates(self) -> bool:
        """Whether the tasks learn a deviation."""
        return self.rows.offset is not None

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
        place = self.rows.place
        coef: Array = zeros((*self.slope.shape, self.design.n_coordinates), place)
        if not self.deviates:
            coef[..., -1] = like(scores_of(np.log(self.support.smoothed.T)).T, place)
        return coef

    def strength(self, penalty: float | Array) -> Array:
        """Ridge strengths (T, 1, q) of the coordinates for penalties (T,)."""
        tasks, q, place = self.tasks, self.design.n_coordinates, self.rows.place
        strength: Array = zeros((tasks.n_tasks, 1, q), place)
        strength += like(np.reshape(penalty, (-1, 1, 1)), place)
        if tasks.extra_scale is not None:
            extra = slice(q - 1 - self.design.n_extra, q - 1)
            strength[:, :, extra] /= like((tasks.extra_scale**2)[:, None, None], place)
        strength[:, :, -1] = 0.0
        return strength

    def solve(self, penalty: float | Array, solver: LBFGS, last: Point | Array) -> Point:
        """Fit every task with its own penalty (T,).

        `last` is where to start: coefficients (T, K, q), or the same tasks at another penalty, with
        what was learned of their curvature.
        """
        solved, strength = self.solved, self.strength(penalty)
        given = last.coef if isinstance(last, Point) else last
        coef = xp_of(given).asarray(given, copy=True)
        converged = np.ones(self.tasks.n_tasks, dtype=bool)
        if not len(solved):
            return Point(coef, strength, None, converged, 1)
        pairs = None
        if isinstance(last, Point) and last.pairs is not None:
            pairs = last.pairs.penalised((strength - last.strength)[solved])
        part = self.take(solved)
        free = part._free()
        first = coef[solved] if free is None else coef[solved] * free
        objective = self.rows.objective(part, solver, first)
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
        objective, own = self.rows.slope_objective(self, start)
        strength = np.full(start.shape, _WEAK)
        squares, total = host(own.scale()).T
        strength[..., 0] *= (squares / np.maximum(total, 1e-300)).reshape(self.slope.shape)
        solution = solver.solve(objective, Ridge(strength), start)
        point = Point.at(self.start())._replace(converged=solution.converged)
        point.coef[..., -1] = solution.coef[..., 1]
        return replace(self, slope=self.slope + host(solution.coef[..., 0])), point

    @property
    def absent(self) -> Flags | None:
        """Classes (T, K) to be shut out of the softmax, where there are any."""
        shut = not self.deviates and self.tasks.n_classes > 2 and bool(self.support.absent.any())
        return self.support.absent if shut else None

    def _free(self) -> Array | None:
        """Which coordinates are not held at zero, (T, 1 or K, q)."""
        absent, allowed = self.absent, self.tasks.allowed
        used = self.rows.used(self.tasks)
        if absent is None and allowed is None and used is None:
            return None
        q, place = self.design.n_coordinates, self.rows.place
        shape = (self.tasks.n_tasks, 1 if absent is None else absent.shape[1], q)
        free: Array = zeros(shape, place) + 1.0
        if allowed is not None:
            free[:, :, q - 1 - self.design.n_extra : -1] = like(1.0 * allowed[:, None, :], place)
        if absent is not None:
            free[absent] = 0.0
        return free if used is None else free * used

    def to_basis(self, coef: Array, own: Indices) -> Array:
        """Coefficients (F, L, K, p + 1) of features as coordinates (F m, K, q) of the tasks.

        `own` (m,) says which of the L models each task begins at, without each fold. Tasks without
        a solver have their constants.
        """
        start, solved = self.start(), self.solved
        known = like(self.design.to_basis(coef), start)[:, own]
        start[solved] = known.reshape(start.shape)[solved]
        return start

    def features(self, point: Point) -> Array:
        """Coefficients (T, K, p + 1) of features, without offsets."""
        inner = host(point.coef)
        coef: Array = self.design.from_basis(inner)
        if not self.deviates:  # constants are not those at the mean, but everywhere
            constant = self.support.constant
            coef[constant, :, -1] = inner[constant, :, -1]
        return coef


# Where tasks are let go early, a held-out curve that has fallen by so many nats at one point of the
# path, from its best, has rotated for good.
_CLEAR_FALL = 5.0


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
        solved = block.take(rest).solve(1.0 / C[rest], solver, point.coef[rest])
        point.coef[rest], point.converged[rest] = solved.coef, solved.converged
        point = point._replace(n_iter=solved.n_iter)
    coef = block.features(point)
    if base is not None:
        # Classes have slopes of their own, so that what their scores share must be taken off first.
        shared = base.mean(axis=1, keepdims=True) if block.tasks.n_classes > 2 else 0.0
        coef += block.slope[:, :, None] * (base - shared)
    if block.tasks.n_classes > 2:
        coef[..., -1] -= coef[..., -1].mean(axis=1, keepdims=True)
    return FittedTasks(coef, block.floor, point.converged, point.n_iter)


class HeldOutPath(NamedTuple):
    """What the held-out rows say of every task along a path.

    Attributes
    ----------
    sums : (3, G, T)
        Weighted sums over the rows held out, of the log-probability of the true class by the model
        that did not see the row, of its gains over others, and of their squares. The first are
        -inf for points that were not looked at.
    coef : (G, F, T, K, p + 1) or None
        Coefficients without each fold's rows, if they were asked for; those of the last point
        looked at where a task has left the path.
    n_failed : int
        Number of regressions that did not converge.
    """

    sums: Array
    coef: Array | None
    n_failed: int


def held_out_path(
    block: Block,
    grid: Array,
    n_folds: int,
    solver: LBFGS,
    start: Array | None = None,
    keep: bool = False,
    patience: int | None = None,
    start_of: Indices | None = None,
) -> HeldOutPath:
    """Score tasks on held-out rows over a grid of C.

    All folds of a task are tasks of their own that skip the fold's rows, so one block holds
    them all: F T tasks, those of a fold together. The path goes from small to large C, each point
    starting from the last.

    Parameters
    ----------
    grid : (G,)
        Values of C; for deviations zero may be among them: slope and intercept alone.
    start : (G, F, L, K, p + 1) or None
        Like tasks on other rows, at the same penalties and without the same folds.
    keep : bool
        Whether to return the coefficients.
    patience : int or None
        Number of points in a row without improvement after which a task leaves the path; a clear
        fall counts for all of them. None: every task is walked to the end.
    start_of : (T,) or None
        Which of the L like tasks each task begins at; None: as many, in the same order.
    """
    n_tasks = block.tasks.n_tasks // max(1, n_folds)
    point = Point.at(block.start())
    n_failed = 0
    if block.deviates:
        block, point = block.calibrated(solver)
        n_failed += int((~point.converged).sum())
    sums = np.zeros((3, len(grid), n_tasks))
    sums[0] = -np.inf
    total = sums[0]
    kept = None
    order = np.argsort(grid, kind="stable")
    near: Array | None = None
    start_of = np.arange(n_tasks) if start_of is None else start_of
    alive, idle, best = np.arange(n_tasks), np.zeros(n_tasks, dtype=np.intp), total[0].copy()
    for place, position in enumerate(order):
        if start is not None:
            last, near = near, block.to_basis(start[position], start_of[alive])
            point = point._replace(coef=near if last is None else point.coef + (near - last))
        if grid[position] > 0:
            point = block.solve(1.0 / float(grid[position]), solver, point)
            n_failed += int((~point.converged).sum())
        of_fold = block.rows.held_out(block, point.coef).reshape(3, n_folds, len(alive))
        sums[:, position, alive] = of_fold.sum(axis=1)
        if keep:
            coef = block.features(point)
            if kept is None:
                kept = np.zeros((len(grid), n_folds, n_tasks, *coef.shape[1:]))
            reshaped = coef.reshape(n_folds, len(alive), *coef.shape[1:])
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
                near = None if near is None else near[every]
    return HeldOutPath(sums, kept, n_failed)
