"""Regressions on rows in chunks: the objective, each of its methods a sum over chunks.

A chunk's share of every sum is that of the same regressions in memory (`Block`, `RowsObjective`),
at coefficients that travel to it: no scores or residuals are kept between passes. Tasks of several
groups of rows are solved together, so that one pass serves them all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from colabel.core.arrays import Array, Flags, Indices
from colabel.learn.chunks.chunked_data import ChunkedData, added
from colabel.learn.chunks.chunked_design import ChunkedDesign, Survey
from colabel.learn.chunks.row_parts import ChunkedFolds, RowPart
from colabel.learn.conditional import RowGroup
from colabel.learn.glm import LBFGS, Line, Objective, Tasks
from colabel.learn.glm.losses import Sums, loss_for
from colabel.learn.glm.objective import RowsObjective, hessian_cost, mean_curvature, well_curved
from colabel.learn.glm.path import Block, Point, picked
from colabel.learn.glm.tasks import ClassSupport, support_of_counts

# Rows whose folds are scored together: each fold's own are few of them.
_HELD_OUT_AT_ONCE = 1 << 14
_MOST_IN_HESSIANS = 1 << 21  # numbers that travel from every chunk


@dataclass(frozen=True)
class ChunkTasks:
    """Regressions on groups of rows in chunks; see `Tasks`.

    Attributes
    ----------
    group, label, fold : (T,)
        Group of rows, target, and the fold that a task skips (-1 for none).
    n_classes : int
    prior : (T, n_classes)
    allowed : (T, e) or None
    extra_scale : (T,) or None
    """

    group: Indices
    label: Indices
    fold: Indices
    n_classes: int
    prior: Array
    allowed: Flags | None = None
    extra_scale: Array | None = None

    @property
    def n_tasks(self) -> int:
        """Number of regressions T."""
        return len(self.group)

    def take(self, tasks: Indices | Flags) -> ChunkTasks:
        """Return some of the tasks."""

        def some(values: Any) -> Any:
            return None if values is None else values[tasks]

        return ChunkTasks(
            self.group[tasks],
            self.label[tasks],
            self.fold[tasks],
            self.n_classes,
            self.prior[tasks],
            some(self.allowed),
            some(self.extra_scale),
        )

    def without_folds(self, n_folds: int) -> ChunkTasks:
        every = self.take(np.tile(np.arange(self.n_tasks), n_folds))
        return replace(every, fold=np.repeat(np.arange(n_folds), self.n_tasks))


@dataclass(frozen=True)
class Where:
    """The rows of tasks: data, groups, and what is known of every row.

    Attributes
    ----------
    data : ChunkedData
    groups : sequence of RowGroup
    survey : Survey
    folds : ChunkedFolds or None
    offsets : AtRows or None
        Scores from which the tasks deviate, d arrays (K_i, m) for each part.
    slopes : dict
        Slopes and intercepts of these offsets that were found before, see `ChunkBlock.calibrated`.
    """

    data: ChunkedData
    groups: tuple[RowGroup, ...]
    survey: Survey
    folds: ChunkedFolds | None
    offsets: Any
    slopes: dict[Any, tuple[Array, Array, bool]] = field(default_factory=dict)

    def arguments(self) -> tuple[Any, ...]:
        """What `Problem.blocks` needs of a part."""
        fold = None if self.folds is None else self.folds.at_rows
        return (fold, self.offsets, *(group.rows for group in self.groups))


@dataclass(frozen=True)
class ChunkBlock(Block):
    """A `Block` whose rows are in chunks: `design` and `tasks` are a ChunkedDesign, ChunkTasks."""

    where: Where

    @classmethod
    def on(cls, where: Where, design: ChunkedDesign, tasks: ChunkTasks) -> ChunkBlock:
        """Count the classes of the tasks from a survey of the groups."""
        by_fold = where.survey.counts[tasks.group, :, tasks.label, : tasks.n_classes]  # (T, 1+F, c)
        # the sum of the others, not the difference to all: none is exactly zero
        skipped = np.arange(by_fold.shape[1]) == tasks.fold[:, None] + 1
        skipped &= tasks.fold[:, None] >= 0
        counts = np.where(skipped[:, :, None], 0.0, by_fold).sum(axis=1)
        support = support_of_counts(counts, tasks.prior)
        slope = np.ones((tasks.n_tasks, loss_for(tasks.n_classes).n_scores))
        rows: Any = design
        own: Any = tasks
        return cls(rows, own, support, slope, where)

    @property
    def deviates(self) -> bool:
        return self.where.offsets is not None

    @property
    def problem(self) -> Problem:
        """What of the tasks travels to the rows."""
        design: Any = self.design
        tasks: Any = self.tasks
        return Problem(design, tasks, self.support, self.slope)

    def objective(self, solver: LBFGS, coef: Array) -> Objective:
        survey, tasks = self.where.survey, self.problem.tasks
        scale = survey.scale(self.where.data.sparse)[tasks.group][:, None]
        return ChunksObjective(self.where, self.problem, scale, coef)

    def slope_objective(self, coef: Array) -> tuple[Objective, Array]:
        problem = replace(self.problem, by_slope=True)
        scale = self.where.data.total(_slope_scale, problem, *self.where.arguments())
        shaped = scale.reshape(*self.slope.shape, 2)
        return ChunksObjective(self.where, problem, shaped, coef), scale

    def calibrated(self, solver: LBFGS) -> tuple[Block, Point]:
        """See `Block.calibrated`; what was found before of the same rows is not sought again."""
        known, tasks = self.where.slopes, self.problem.tasks
        numbers = zip(tasks.group, tasks.label, tasks.fold, strict=True)
        keys = [(solver, self.where.groups[g].rows, int(i), int(f)) for g, i, f in numbers]
        if not all(key in known for key in keys):
            block, point = super().calibrated(solver)
            found = zip(keys, block.slope, point.coef[..., -1], point.converged, strict=True)
            known.update((key, (slope, level, bool(c))) for key, slope, level, c in found)
            return block, point
        slope, level, converged = zip(*(known[key] for key in keys), strict=True)
        point = Point.at(self.start())._replace(converged=np.array(converged))
        point.coef[..., -1] = np.stack(level)
        return replace(self, slope=np.stack(slope)), point

    def _free(self) -> Array | None:
        free = super()._free()
        design: Any = self.design
        used = None if design.bare else self.where.survey.used(self.where.data.sparse)
        if used is None:
            return free
        own = used[self.problem.tasks.group][:, None]
        return own if free is None else free * own


@dataclass(frozen=True)
class Problem:
    """Tasks as they travel to the rows, without these.

    Attributes
    ----------
    design, tasks, support, slope
        See `Block`.
    by_slope : bool
        Whether the coordinates are slope and intercept of the offsets, see `Block.calibrated`.
    """

    design: ChunkedDesign
    tasks: ChunkTasks
    support: ClassSupport
    slope: Array
    by_slope: bool = False

    def take(self, tasks: Flags) -> Problem:
        """Return some of the tasks."""
        left = np.flatnonzero(tasks)
        return replace(
            self,
            tasks=self.tasks.take(left),
            support=self.support.take(left),
            slope=self.slope[left],
        )

    def blocks(
        self,
        part: RowPart,
        fold: Indices | None,
        offsets: tuple[Array, ...] | None,
        *selected: Flags | None,
    ) -> Iterator[tuple[Indices, Indices | slice, Block]]:
        """Tasks of each group, their rows of the part, and the block of both in memory."""
        whole = self.design.rows(part)
        codes = np.ascontiguousarray(part.codes.T, dtype=np.int16)
        for group in self._groups:
            marks = selected[group.number]
            if marks is not None and not marks.any():
                continue
            rows = slice(None) if marks is None else np.flatnonzero(marks)
            targets = codes[:, rows][group.labels][group.base]
            if fold is not None and group.skips:
                targets = np.where(fold[rows] == group.fold[:, None], np.int16(-1), targets)
            offset = None
            if offsets is not None:
                offset = np.stack([offsets[i][:, rows] for i in group.labels])
            local = Tasks(targets, self.tasks.n_classes, offset=offset, base=group.base)
            design = whole if marks is None else whole.take(rows)
            yield group.tasks, rows, Block(design, local, group.support, group.slope)

    @cached_property
    def _groups(self) -> tuple[_TasksOfGroup, ...]:
        """The tasks of every group that has some; found once for all parts of a chunk."""
        return tuple(
            _TasksOfGroup.of(self, int(number), np.flatnonzero(self.tasks.group == number))
            for number in np.unique(self.tasks.group)
        )

    def objective(self, block: Block, coef: Array) -> RowsObjective:
        """The losses of a block's tasks at coefficients (T, K, q) of its rows."""
        found: Any = block.slopes(coef) if self.by_slope else block.objective(LBFGS(), coef)
        return found  # type: ignore[no-any-return]


class _TasksOfGroup(NamedTuple):
    """Tasks of a group of rows, as far as they are the same for all its rows.

    Attributes
    ----------
    number : int
        Of the group.
    tasks : (t,)
        Positions of its tasks.
    labels, base : (b,), (t,)
        The different targets, and which of them each task has.
    fold : (t,)
        The fold that a task skips, as narrow as the folds of rows; none is -2, which no row has.
    skips : bool
        Whether any task skips a fold.
    support, slope
        See `Block`.
    """

    number: int
    tasks: Indices
    labels: Indices
    base: Indices
    fold: Indices
    skips: bool
    support: ClassSupport
    slope: Array

    @classmethod
    def of(cls, problem: Problem, number: int, tasks: Indices) -> _TasksOfGroup:
        labels, base = np.unique(problem.tasks.label[tasks], return_inverse=True)
        fold = problem.tasks.fold[tasks]
        skips = fold >= 0
        narrow: Any = np.where(skips, fold, -2).astype(np.int8 if fold.max() < 128 else np.int32)
        support, slope = problem.support.take(tasks), problem.slope[tasks]
        return cls(number, tasks, labels, base, narrow, bool(skips.any()), support, slope)


def _slope_scale(part: RowPart, problem: Problem, *known: Any) -> Array:
    scale = np.zeros((*problem.slope.shape, 2))
    for tasks, _, block in problem.blocks(part, *known):
        scale[tasks] += block.own_scores().scale().reshape(len(tasks), -1, 2)
    return scale.reshape(-1, 2)


class _At(NamedTuple):
    """Sums and gradients (T, K, q) at a point."""

    sums: Sums
    gradient: Array


def _at(part: RowPart, problem: Problem, coef: Array, *known: Any) -> _At:
    n_tasks, n_scores, _ = coef.shape
    sums = Sums(np.zeros(n_tasks), *(np.zeros((n_tasks, n_scores)) for _ in range(2)))
    gradient = np.zeros_like(coef)
    for tasks, _, block in problem.blocks(part, *known):
        objective = problem.objective(block, coef[tasks])
        for total, own in zip(sums, objective.sums, strict=True):
            total[tasks] += own
        gradient[tasks] += objective.gradient()
    return _At(sums, gradient)


def _hessian(part: RowPart, problem: Problem, coef: Array, *known: Any) -> Array:
    n_tasks, n_scores, q = coef.shape
    total = np.zeros((n_tasks, n_scores, q, n_scores, q))
    for tasks, _, block in problem.blocks(part, *known):
        own = problem.objective(block, coef[tasks]).hessian(np.arange(len(tasks)))
        total[tasks] += own.reshape(len(tasks), *total.shape[1:])
    return total


class _Along(NamedTuple):
    """Curvature (T,) along a direction, and the sup-norm of the change of scores (T,)."""

    curvature: Array
    sup_norm: Array

    def joined(self, other: _Along) -> _Along:
        return _Along(self.curvature + other.curvature, np.maximum(self.sup_norm, other.sup_norm))


def _along(part: RowPart, problem: Problem, coef: Array, direction: Array, *known: Any) -> _Along:
    found = _Along(np.zeros(len(coef)), np.zeros(len(coef)))
    for tasks, _, block in problem.blocks(part, *known):
        curvature, sup_norm = problem.objective(block, coef[tasks]).curvature_along(
            direction[tasks]
        )
        found.curvature[tasks] += curvature
        np.maximum.at(found.sup_norm, tasks, sup_norm)
    return found


class ChunksObjective:
    """An objective over rows in chunks: the methods of `Objective`, each at most one pass.

    Parameters
    ----------
    where : Where
    problem : Problem
    scale : (T, 1 or K, q)
        See `Design.scale`, of each task's rows.
    coef : (T, K, q)
        Where to begin.
    """

    def __init__(self, where: Where, problem: Problem, scale: Array, coef: Array) -> None:
        self._where = where
        self._problem = problem
        self._scale = scale
        self._coef = coef
        self._from = self._direction = coef
        self._evaluate()

    @property
    def shape(self) -> tuple[int, int, int]:
        n_tasks, n_scores, n_coordinates = self._coef.shape
        return n_tasks, n_scores, n_coordinates

    def _pass(self, function: Any, *arguments: Any, combine: Any = added) -> Any:
        return self._where.data.total(
            function, self._problem, *arguments, *self._where.arguments(), combine=combine
        )

    def _of_rows(self, coef: Array) -> Array:
        return coef if self._problem.by_slope else self._problem.design.of_rows(coef)

    def _evaluate(self) -> None:
        self._sums: Sums
        self._sums, slope = self._pass(_at, self._of_rows(self._coef))
        self._gradient = slope if self._problem.by_slope else self._problem.design.gradient(slope)

    def value(self) -> Array:
        return np.asarray(self._sums.value)

    def gradient(self) -> Array:
        return self._gradient.copy()

    def diagonal(self) -> Array:
        survey, group = self._where.survey, self._problem.tasks.group
        n_rows, weight = survey.n_rows[group][:, None], survey.weight[group][:, None]
        mean = mean_curvature(self._sums, n_rows, weight)
        return np.asarray(mean[:, :, None] * self._scale)

    def curved(self) -> Flags:
        return well_curved(self._sums)

    @property
    def hessian_cost(self) -> float:
        if self._problem.by_slope or self._where.data.sparse or self._problem.design.bare:
            return np.inf
        n_rows = int(self._where.survey.n_rows.sum())
        return hessian_cost(*self.shape, n_rows, _MOST_IN_HESSIANS)

    def hessian(self, tasks: Indices) -> Array:
        design, coef = self._problem.design, self._of_rows(self._coef[tasks])
        problem = self._problem.take(np.isin(np.arange(len(self._coef)), tasks))
        found = self._where.data.total(_hessian, problem, coef, *self._where.arguments())
        turned = design.gradient(found)  # (t, K, q, K, q), either side
        turned = design.gradient(turned.transpose(0, 3, 4, 1, 2))
        size = turned.shape[1] * turned.shape[2]
        return turned.reshape(len(tasks), size, size)

    def along(self, direction: Array) -> Line:
        self._from, self._direction = self._coef, direction
        points = (self._of_rows(self._coef), self._of_rows(direction))
        return Line.of(*self._pass(_along, *points, combine=_Along.joined))

    def move(self, length: Array) -> Array:
        self._coef = self._from + length[:, None, None] * self._direction
        self._evaluate()
        return np.asarray(self._sums.value)

    def keep(self, tasks: Flags) -> None:
        self._problem = self._problem.take(tasks)
        self._coef, self._scale = self._coef[tasks], self._scale[tasks]
        self._gradient = self._gradient[tasks]
        self._sums = Sums(*(part[tasks] for part in self._sums))


class HeldOutSums(NamedTuple):
    """Sums over held-out rows, (T,) each: log-probabilities, gains over others, their variance."""

    total: Array
    gain: Array
    noise: Array


def held_out_sums(block: ChunkBlock, coef: Array, over: Any) -> HeldOutSums:
    """Score F T tasks, those of a fold together, on the rows of their folds; `over` is AtRows."""
    where, problem = block.where, block.problem
    arguments = (problem, problem.design.of_rows(coef), over, *where.arguments())
    return where.data.total(_held_out, *arguments, rows_at_once=_HELD_OUT_AT_ONCE)


def _held_out(part: RowPart, problem: Problem, coef: Array, over: Any, *known: Any) -> HeldOutSums:
    # rows of a fold side by side, so that no copies are made of them
    order = np.argsort(known[0], kind="stable")
    fold, offsets, *selected = known
    part, fold = part.take(order), fold[order]
    offsets = None if offsets is None else tuple(own[:, order] for own in offsets)
    over = None if over is None else over[:, order]
    known = (fold, offsets, *(None if marks is None else marks[order] for marks in selected))
    n_folds = int(problem.tasks.fold.max(initial=0)) + 1
    n_tasks = problem.tasks.n_tasks // n_folds
    sums = HeldOutSums(*(np.zeros(n_tasks) for _ in range(3)))
    for tasks, rows, block in problem.blocks(part, *known):
        weight, own_fold = part.row_weights[rows], fold[rows]
        truth = np.ascontiguousarray(part.codes[rows].T, dtype=np.int16)
        others = None if over is None else over[:, rows]
        for held in range(n_folds):
            at = slice(*np.searchsorted(own_fold, [held, held + 1]).tolist())
            own = problem.tasks.fold[tasks] == held
            if at.start == at.stop or not own.any():
                continue
            places, labels = tasks[own], problem.tasks.label[tasks[own]]
            prob = block.take(np.flatnonzero(own)).log_prob(block.design.take(at), at, coef[places])
            log_prob = picked(prob, truth[:, at][labels])
            sums.total[places % n_tasks] += log_prob @ weight[at]
            if others is not None:
                more = log_prob - others[:, at][labels]
                sums.gain[places % n_tasks] += more @ weight[at]
                sums.noise[places % n_tasks] += more**2 @ weight[at] ** 2
    return sums
