"""Regressions on rows in chunks: each question to the rows is a sum over chunks.

A chunk's share of every sum is that of the same regressions in memory (`Block`, `LocalRows`),
at coefficients that travel to it: no scores or residuals are kept between passes. Tasks of several
groups of rows are solved together, so that one pass serves them all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from colabel.core.arrays import Array, Flags, Indices, UsedColumns, is_sparse
from colabel.learn.chunks.chunked_data import ChunkedData, joined_rows
from colabel.learn.conditional import Folds, TrainingData
from colabel.learn.design import (
    LARGEST_ROTATION,
    Axes,
    Columns,
    Design,
    Moments,
    half_way,
    prefers_row_space,
)
from colabel.learn.glm.lbfgs import LBFGS, Objective, hessian_cost
from colabel.learn.glm.losses import Sums
from colabel.learn.glm.path import Block, LocalRows, Tasks
from colabel.learn.linear import Asked, Batch, LinearLearning, batches_in_memory

# Rows whose folds are scored together: each fold's own are few of them.
_HELD_OUT_AT_ONCE = 1 << 14
_MOST_IN_HESSIANS = 1 << 21  # numbers that travel from every chunk
# Coefficients of tasks that are solved together: thirty times as many numbers remember curvature.
_MOST_COEFFICIENTS = 1 << 22


def coordinates_of(data: ChunkedData) -> Axes | Columns:
    """Find the coordinates of rows: at most one pass, and one for extra features."""
    if data.sparse:
        if "filled" not in data.known:
            p = data.n_features
            data.known["filled"] = data.sum(lambda part: np.bincount(part.X.indices, minlength=p))
        used = UsedColumns.among(data.known["filled"] > 0, data.n_extra + 1)
        width = data.n_features + data.n_extra + 1 if used is None else len(used.positions)
        return Columns(used, None, width, data.n_extra)
    if "axes" not in data.known:
        with_gram = data.n_features <= LARGEST_ROTATION

        def moments(part: TrainingData) -> Moments:
            return Moments.of(part.X, part.weight, with_gram)

        data.known["axes"] = data.sum(moments, combine=Moments.pooled).axes(data.n_rows)
    axes: Axes = data.known["axes"]
    if not data.n_extra:
        return axes
    mean = data.sum(lambda part: part.row_weights @ part.extra) / data.total_weight
    return Axes(np.concatenate([axes.mean, mean]), axes.basis, data.n_extra)


_MOST_USED = 0.9  # as in `UsedColumns`


class Survey(NamedTuple):
    """What one pass says of G groups of rows; without folds all count as never held out.

    Attributes
    ----------
    n_rows, weight : (G,)
    squares : (G, q)
        Weighted sums of squares of the coordinates.
    filled : (G, q)
        Number of rows in which each coordinate is stored; of sparse rows.
    counts : (G, 1 + F, d, K)
        Weight of the rows with each value of each label: never held out, then in each fold.
    """

    n_rows: Indices
    weight: Array
    squares: Array
    filled: Indices
    counts: Array

    def scale(self, sparse: bool) -> Array:
        """See `Design.scale`, (G, q)."""
        if not sparse:
            return self.squares
        mean = self.squares.sum(axis=1) / np.maximum(1, self.used().sum(axis=1))
        scales: Array = half_way(self.squares, mean[:, None])
        return scales

    def used(self) -> Flags:
        """Which coordinates of a group are not empty, or all where few are, (G, q)."""
        filled = self.filled > 0
        nearly_all = filled.sum(axis=1) > _MOST_USED * filled.shape[1]
        return np.asarray(filled | nearly_all[:, None])


def _survey(
    part: TrainingData,
    design: Axes | Columns,
    n_folds: int,
    n_values: int,
    fold: Indices | None,
    *selected: Flags | None,
) -> Survey:
    surveys: list[Any] = []
    place = np.zeros(part.n_rows, dtype=np.intp) if fold is None else fold.astype(np.intp) + 1
    rows, weight = Design.at(design, part.X, part.weight, part.extra), part.row_weights
    cells = place[:, None] * part.n_labels + np.arange(part.n_labels)
    cells = cells * n_values + part.codes
    shape = (1 + n_folds, part.n_labels, n_values)
    for marks in selected:
        at = np.arange(part.n_rows) if marks is None else np.flatnonzero(marks)
        own = rows if marks is None else rows.take(at)
        known = part.codes[at] >= 0
        heavy = np.broadcast_to(weight[at, None], known.shape)[known]
        counts = np.bincount(cells[at][known], heavy, minlength=int(np.prod(shape)))
        filled = np.zeros(design.n_coordinates, dtype=np.intp)
        if is_sparse(own.rows):
            filled = np.bincount(own.rows.indices, minlength=design.n_coordinates)
            filled[-1 - design.n_extra :] = 1
        squares = own.sum_of_squares()
        surveys.append((len(at), weight[at].sum(), squares, filled, counts.reshape(shape)))
    return Survey(*(np.stack(each) for each in zip(*surveys, strict=True)))


@dataclass(frozen=True)
class ChunkedRows:
    """The rows of groups in chunks; see `LocalRows`.

    All groups, folds and targets of a call are solved together, as far as they have the same number
    of values: a pass over the rows is what costs. A group of very few rows, which in memory is
    solved in the span of its rows, is brought here and solved so.

    Attributes
    ----------
    learning : LinearLearning
    asked : Asked
        Folds, offsets and `over` are known for each part of the rows.
    design : Axes or Columns
    survey : Survey
    few : {group: (LinearLearning, Asked)}
        Groups that were brought here.
    """

    learning: LinearLearning
    asked: Asked
    design: Axes | Columns
    survey: Survey
    few: dict[int, tuple[LinearLearning, Asked]] = field(default_factory=dict)
    coordinates = None
    place = np.zeros(0)  # coefficients are in memory

    @classmethod
    def of(cls, learning: LinearLearning, asked: Asked) -> ChunkedRows:
        """Look at the groups: one pass, and one to bring those of few rows here."""
        data: Any = learning.data
        whole: Axes | Columns = learning.design
        groups, folds = asked.groups, asked.folds
        design = Axes(np.zeros(0), None) if asked.constant else whole
        n_folds, fold = (0, None) if folds is None else (folds.n_folds, folds.at_rows)
        every, n_values = [group.rows for group in groups], max(data.cardinalities)
        survey: Survey = data.sum(_survey, design, n_folds, n_values, fold, *every)
        chunked = cls(learning, asked, design, survey)
        size = whole.n_coordinates, whole.n_extra
        few = [
            index
            for index, (group, n) in enumerate(zip(groups, survey.n_rows, strict=True))
            if group.rows is not None and len(group.targets) and prefers_row_space(int(n), *size)
        ]
        if asked.constant or not few:
            return chunked
        known = (fold, asked.offsets, asked.over, *(every[index] for index in few))
        brought = data.sum(_bring, *known, combine=_brought_together)
        for index, (part, of_row, offset, over) in zip(few, brought, strict=True):
            here = Design.at(whole, part.X, part.weight, part.extra)
            group = replace(groups[index], rows=np.arange(part.n_rows))
            own_folds = None if folds is None else Folds(of_row, n_folds)
            own = Asked((group,), own_folds, offset, over)
            chunked.few[index] = replace(learning, data=part, design=here), own
        return chunked

    def batches(self, n_fits: int) -> list[Batch]:
        """Targets of all groups that have as many values, and those of each group brought here."""
        batches = []
        for index, (learning, asked) in self.few.items():
            for batch in batches_in_memory(learning, asked, n_fits):
                batches.append(batch._replace(group=np.full_like(batch.group, index)))
        every = [
            (n_classes, index, position, label)
            for index, group in enumerate(self.asked.groups)
            if index not in self.few
            for n_classes, positions, labels in self.learning.by_size(group)
            for position, label in zip(positions, labels, strict=True)
        ]
        for n_classes in sorted({own[0] for own in every}):
            alike = np.array([own[1:] for own in every if own[0] == n_classes], dtype=np.intp)
            size = self.design.n_coordinates * n_fits * n_classes
            step = max(1, _MOST_COEFFICIENTS // size)
            for start in range(0, len(alike), step):
                group, position, label = alike[start : start + step].T
                rows = partial(tuple, (self, group, label))  # which stay where they are
                batches.append(Batch(group, position, label, n_classes, rows))
        return batches

    @property
    def offset(self) -> Any:
        """Scores from which the tasks deviate, if they do."""
        return self.asked.offsets

    def counts(self, tasks: Tasks, n_folds: int) -> Array:
        """See `LocalRows.counts`."""
        return self.survey.counts[tasks.group, :, tasks.label, : tasks.n_classes]

    def used(self, tasks: Tasks) -> Array | None:
        """Which coordinates (T, 1, q) of a task are not empty, where that matters."""
        if not isinstance(self.design, Columns):
            return None
        return self.survey.used()[tasks.group][:, None].astype(np.float64)

    def sum(self, function: Any, block: Block, *arguments: Any, **options: Any) -> Any:
        """Sum ``function(local blocks, *arguments)`` over the chunks: one pass."""
        travelling = replace(block, rows=self.design)
        asked, data = self.asked, self.learning.data
        fold = None if asked.folds is None else asked.folds.at_rows
        known = (fold, asked.offsets, asked.over, *(group.rows for group in asked.groups))
        return data.sum(_at_part, function, travelling, arguments, *known, **options)

    def objective(self, block: Block, solver: LBFGS, coef: Array) -> ChunksObjective:
        scale = self.survey.scale(isinstance(self.design, Columns))[block.tasks.group][:, None]
        return ChunksObjective(self, block, scale, coef)

    def slope_objective(self, block: Block, coef: Array) -> tuple[ChunksObjective, Any]:
        """See `LocalRows.slope_objective`; one pass finds the scales."""
        scale = self.sum(_slope_scale, block)
        objective = ChunksObjective(self, block, scale, coef, by_slope=True)
        return objective, objective

    def held_out(self, block: Block, coef: Array) -> Array:
        """See `LocalRows.held_out`: one pass."""
        over = (self.design.rotate_back(coef),)
        sums: Array = self.sum(_held_out, block, *over, rows_at_once=_HELD_OUT_AT_ONCE)
        return sums


def _at_part(
    part: TrainingData,
    function: Any,
    block: Block,
    arguments: tuple[Any, ...],
    fold: Indices | None,
    offsets: tuple[Array, ...] | None,
    over: Array | None,
    *selected: Flags | None,
) -> Any:
    """Call a function of a block without rows and, for each group, its tasks and their block."""

    def blocks() -> Iterator[tuple[Indices, Block]]:
        tasks = block.tasks
        whole = Design.at(block.rows, part.X, part.weight, part.extra, rotated=False)
        codes = np.ascontiguousarray(part.codes.T, dtype=np.int16)
        for number in np.unique(tasks.group):
            marks = selected[number]
            if marks is not None and not marks.any():
                continue
            at = slice(None) if marks is None else np.flatnonzero(marks)
            own = np.flatnonzero(tasks.group == number)
            labels, base = np.unique(tasks.label[own], return_inverse=True)
            rows = LocalRows(
                whole if marks is None else whole.take(at),
                codes[labels][:, at],
                None if fold is None else fold[at],
                None if offsets is None else np.stack([offsets[i][:, at] for i in labels]),
                None if over is None else over[labels][:, at],
            )
            local = block.take(own)
            yield own, replace(local, rows=rows, tasks=replace(local.tasks, label=base))

    return function(block, blocks(), *arguments)


Blocks = Iterator[tuple[Indices, Block]]


def _slope_scale(block: Block, blocks: Blocks) -> Array:
    scale = np.zeros((*block.slope.shape, 2))
    for tasks, local in blocks:
        start = np.zeros((*local.slope.shape, 2))
        own = local.rows.slope_objective(local, start)[1].scale()
        scale[tasks] += own.reshape(len(tasks), -1, 2)
    return scale


def _objectives(blocks: Blocks, coef: Array, by_slope: bool) -> Iterator[tuple[Indices, Any]]:
    """Tasks of each group, and their losses at coefficients (T, K, q) of the rows."""
    for tasks, local in blocks:
        if by_slope:
            yield tasks, local.rows.slope_objective(local, coef[tasks])[0]
        else:
            yield tasks, local.rows.objective(local, LBFGS(), coef[tasks])


def _at(block: Block, blocks: Blocks, coef: Array, by_slope: bool) -> tuple[Sums, Array]:
    """Sums and gradients (T, K, q) at a point."""
    n_tasks, n_scores, _ = coef.shape
    sums = Sums(np.zeros(n_tasks), *(np.zeros((n_tasks, n_scores)) for _ in range(2)))
    gradient = np.zeros_like(coef)
    for tasks, objective in _objectives(blocks, coef, by_slope):
        for total, own in zip(sums, objective.sums, strict=True):
            total[tasks] += own
        gradient[tasks] += objective.gradient()
    return sums, gradient


def _hessian(block: Block, blocks: Blocks, coef: Array) -> Array:
    n_tasks, n_scores, q = coef.shape
    total = np.zeros((n_tasks, n_scores, q, n_scores, q))
    for tasks, objective in _objectives(blocks, coef, False):
        own = objective.hessian(np.arange(len(tasks)))
        total[tasks] += own.reshape(len(tasks), *total.shape[1:])
    return total


def _along(
    block: Block, blocks: Blocks, coef: Array, by_slope: bool, direction: Array
) -> tuple[Array, Array]:
    """Curvature (T,) along a direction, and the sup-norm of the change of scores (T,)."""
    total, largest = np.zeros(len(coef)), np.zeros(len(coef))
    for tasks, objective in _objectives(blocks, coef, by_slope):
        curvature, sup_norm = objective.curvature_along(direction[tasks])
        total[tasks] += curvature
        np.maximum.at(largest, tasks, sup_norm)
    return total, largest


def _joined(one: tuple[Array, Array], other: tuple[Array, Array]) -> tuple[Array, Array]:
    return one[0] + other[0], np.maximum(one[1], other[1])


def _held_out(block: Block, blocks: Blocks, coef: Array) -> Array:
    sums = np.zeros((3, len(coef)))
    for tasks, local in blocks:
        sums[:, tasks] += local.rows.held_out(local, coef[tasks])
    return sums


class ChunksObjective(Objective):
    """An objective over rows in chunks: the methods of `RowsObjective`, each at most one pass.

    Parameters
    ----------
    rows : ChunkedRows
    block : Block
    scale : (T, 1 or K, q)
        See `Design.scale`, of each task's rows.
    coef : (T, K, q)
        Where to begin.
    by_slope : bool
        Whether the coordinates are slope and intercept of the offsets, see `Block.calibrated`.
    """

    noise = 1e-13

    def __init__(
        self, rows: ChunkedRows, block: Block, scale: Array, coef: Array, by_slope: bool = False
    ) -> None:
        self._rows = rows
        self._block = block
        self._scale = scale
        self._coef = coef
        self._by_slope = by_slope
        self._from = self._direction = coef
        self._evaluate()

    def scale(self) -> Array:
        """Scales (T K, q) of the coordinates."""
        return self._scale.reshape(-1, self._scale.shape[2])

    @property
    def shape(self) -> tuple[int, int, int]:
        n_tasks, n_scores, n_coordinates = self._coef.shape
        return n_tasks, n_scores, n_coordinates

    def _of_rows(self, coef: Array) -> Array:
        return coef if self._by_slope else self._rows.design.rotate_back(coef)

    def _evaluate(self) -> None:
        point = self._of_rows(self._coef)
        self.sums, slope = self._rows.sum(_at, self._block, point, self._by_slope)
        self._gradient = slope if self._by_slope else self._rows.design.rotate(slope)

    def gradient(self) -> Array:
        return self._gradient.copy()

    def diagonal(self) -> Array:
        survey, group = self._rows.survey, self._block.tasks.group
        n_rows, weight = survey.n_rows[group][:, None], survey.weight[group][:, None]
        mean = self.mean_curvature(n_rows, np.maximum(weight, 1e-300))
        return np.asarray(mean[:, :, None] * self._scale)

    @property
    def hessian_cost(self) -> float:
        if self._by_slope or isinstance(self._rows.design, Columns) or self.shape[2] == 1:
            return np.inf
        n_rows = int(self._rows.survey.n_rows.sum())
        return hessian_cost(*self.shape, n_rows, _MOST_IN_HESSIANS)

    def hessian(self, tasks: Indices) -> Array:
        design, coef = self._rows.design, self._of_rows(self._coef[tasks])
        hessians = self._rows.sum(_hessian, self._block.take(tasks), coef)
        rotated = design.rotate(hessians)  # (t, K, q, K, q), either side
        rotated = design.rotate(rotated.transpose(0, 3, 4, 1, 2))
        size = rotated.shape[1] * rotated.shape[2]
        return rotated.reshape(len(tasks), size, size)

    def curvature_along(self, direction: Array) -> tuple[Any, Any]:
        self._from, self._direction = self._coef, direction
        point, ahead = self._of_rows(self._coef), self._of_rows(direction)
        known = (self._block, point, self._by_slope, ahead)
        curvature: tuple[Any, Any] = self._rows.sum(_along, *known, combine=_joined)
        return curvature

    def move(self, length: Array) -> Array:
        self._coef = self._from + length[:, None, None] * self._direction
        self._evaluate()
        return np.asarray(self.sums.value)

    def keep(self, tasks: Flags) -> None:
        self._block = self._block.take(np.flatnonzero(tasks))
        self._coef, self._scale = self._coef[tasks], self._scale[tasks]
        self._gradient = self._gradient[tasks]
        self.sums = Sums(*(part[tasks] for part in self.sums))


def _bring(
    part: TrainingData,
    fold: Indices | None,
    offsets: tuple[Array, ...] | None,
    over: Array | None,
    *selected: Flags,
) -> list[Any]:
    """Rows to be brought here, and what is known of them."""
    every = np.full(part.n_rows, -1) if fold is None else fold
    return [
        (
            replace(part.take(marks), folds=()),
            every[marks].astype(np.intp),
            None if offsets is None else tuple(own[:, marks] for own in offsets),
            None if over is None else over[:, marks],
        )
        for marks in selected
    ]


def _brought_together(one: list[Any], other: list[Any]) -> list[Any]:
    def beside(a: Any, b: Any) -> Any:
        if isinstance(a, tuple):
            return tuple(map(beside, a, b))
        return None if a is None else np.concatenate([a, b], axis=-1)

    return [
        (joined_rows(a[0], b[0]), *map(beside, a[1:], b[1:]))
        for a, b in zip(one, other, strict=True)
    ]
