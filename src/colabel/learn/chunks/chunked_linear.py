"""The built-in regressions on rows in chunks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np

from colabel.core.arrays import Array, Flags, Indices
from colabel.learn.chunks.chunked_block import ChunkBlock, ChunkTasks, Where, held_out_sums
from colabel.learn.chunks.chunked_data import ChunkedData
from colabel.learn.chunks.chunked_design import ChunkedDesign, Survey
from colabel.learn.chunks.row_parts import (
    ByFold,
    ChunkedFolds,
    FoldModels,
    RowPart,
    held_out_log_prob,
    held_out_scores,
    joined_rows,
)
from colabel.learn.conditional import Folds, GainOver, Gains, HeldOutScores, RowGroup
from colabel.learn.design import prefers_row_space
from colabel.learn.glm import FittedTasks
from colabel.learn.glm.path import Point, fit_block, walk_path
from colabel.learn.glm.tasks import best_points, informed_by
from colabel.learn.linear import (
    LOOSER,
    PATIENCE,
    LinearLearner,
    LinearLearning,
    LinearModels,
    warn_of_failures,
)

Result = TypeVar("Result")

# Coefficients of tasks that are solved together: thirty times as many numbers remember curvature.
_MOST_COEFFICIENTS = 1 << 22


class _Batch(NamedTuple):
    """Targets that are solved together: their groups, positions in these, and labels, (T,) each."""

    group: Indices
    position: Indices
    label: Indices
    n_classes: int


@dataclass(frozen=True)
class ChunkedLearning(LinearLearning):
    """A learner on rows in chunks: `data` and `design` are a ChunkedData and a ChunkedDesign.

    All groups, folds and targets of a call are solved together, as far as they have the same number
    of values: a pass over the rows is what costs. A group of very few rows, which in memory is
    solved in the span of its rows, is brought here and solved so.

    Attributes
    ----------
    slopes : list of (offsets, dict)
        See `Where.slopes`, for each offsets.
    """

    slopes: list[tuple[Any, dict[Any, Any]]] = field(default_factory=list)

    @classmethod
    def of(cls, learner: LinearLearner, data: ChunkedData) -> ChunkedLearning:
        """Find the coordinates of the rows."""
        if learner.device is not None:
            raise ValueError(
                f"device={learner.device!r} is for rows in memory: leave it out for Dask arrays."
            )
        frequencies = tuple(data.class_frequencies(label) for label in range(data.n_labels))
        design: Any = ChunkedDesign.of(data)
        rows: Any = data
        return cls(learner, rows, design, frequencies)

    @property
    def _chunks_of_rows(self) -> ChunkedData:
        rows: Any = self.data
        return rows  # type: ignore[no-any-return]

    def cross_validate(
        self,
        groups: Sequence[RowGroup],
        folds: Any,
        reduce: Callable[[RowGroup, HeldOutScores], Result],
        description: str,
        *,
        start: Any = None,
        keep: bool = False,
        offsets: Any = None,
        constant: bool = False,
    ) -> list[Result]:
        """See `Learning.cross_validate`; of `HeldOutScores` `log_prob` is a `ByFold` if kept."""
        over = reduce.log_prob if isinstance(reduce, GainOver) else None
        where, design = self._where(groups, folds, offsets, constant)
        grid = self.learner.grid if offsets is None else self.learner.deviations
        grid = grid[:1] if constant else grid
        options = {"start": start, "keep": keep, "offsets": offsets, "constant": constant}
        few = [] if constant else self._few(where)
        results: dict[int, Any] = {}
        for index, local, group in self._gathered(where, few, over):
            known = {**options, "offsets": local.offsets}
            own: Any = reduce if over is None else GainOver(local.over, local.part.row_weights)
            nearby = Folds(local.fold, folds.n_folds)
            results[index] = self._local(local.part).cross_validate(
                [group], nearby, own, description, **known
            )[0]
        found = [_Found.empty(group) for group in groups]
        n_failed = 0
        for batch in self._batches(groups, few, design.n_coordinates * folds.n_folds):
            n_failed += self._score(batch, where, design, grid, over, start, keep, found)
        warn_of_failures(n_failed)
        for index, (group, own) in enumerate(zip(groups, found, strict=True)):
            if index in results:
                continue
            if over is not None:
                results[index] = Gains(own.gain, own.noise, own.choice)
            else:
                scores = HeldOutScores(None, own.choice, own.total)
                if keep:
                    without = own.without(folds.n_folds, self.data.n_labels)
                    log_prob = ByFold(held_out_log_prob, without, folds)
                    scores = scores._replace(
                        log_prob=log_prob, path=tuple(own.path), models=without
                    )
                results[index] = reduce(group, scores)
        return [results[index] for index in range(len(groups))]

    def _score(
        self,
        batch: _Batch,
        where: Where,
        design: ChunkedDesign,
        grid: Array,
        over: Any,
        start: Any,
        keep: bool,
        found: list[_Found],
    ) -> int:
        """Score the targets of a batch into what is found of their groups."""
        assert where.folds is not None
        n_folds, n_tasks = where.folds.n_folds, len(batch.label)
        tasks = self._chunk_tasks(batch, where).without_folds(n_folds)
        block = ChunkBlock.on(where, design, tasks)
        gain, noise = np.zeros((len(grid), n_tasks)), np.zeros((len(grid), n_tasks))

        def score(position: int, block: Any, point: Point, alive: Indices) -> Array:
            log_prob, gain[position, alive], noise[position, alive] = held_out_sums(
                block, point.coef, over
            )
            return log_prob

        solver = self._solver(1.0 if where.groups[0].rows is None else LOOSER)
        total, coef, n_failed = walk_path(
            block,
            grid,
            n_folds,
            solver,
            score,
            None if start is None else np.stack([start[i] for i in batch.label], axis=2),
            keep,
            PATIENCE,
        )
        counts = where.survey.counts[batch.group, :, batch.label, : batch.n_classes] > 0
        held_out = counts[:, 1:].transpose(1, 0, 2)
        informed = informed_by(held_out, np.asarray(counts.any(axis=1)), block.support)
        best = best_points(total, grid, informed)
        floor = block.floor.reshape(n_folds, n_tasks, -1)
        for task, (group, position) in enumerate(zip(batch.group, batch.position, strict=True)):
            own = found[group]
            own.choice[position], own.total[position] = best[task], total[best[task], task]
            own.gain[position], own.noise[position] = (
                gain[best[task], task],
                noise[best[task], task],
            )
            if coef is not None:
                own.path[position] = coef[:, :, task]
                own.models[position] = (coef[best[task], :, task], floor[:, task])
        return n_failed

    def fit(
        self,
        groups: Sequence[RowGroup],
        choices: Sequence[Indices],
        offsets: Any = None,
        base: Mapping[int, Array] | None = None,
    ) -> LinearModels:
        first = np.cumsum([0, *(len(group.targets) for group in groups)])
        grid = self.learner.grid if offsets is None else self.learner.deviations
        if not first[-1]:
            return LinearModels((), 0)
        where, design = self._where(groups, None, offsets, False)
        few = self._few(where)
        parts: list[tuple[Indices, int, FittedTasks]] = []
        for index, local, group in self._gathered(where, few, None):
            models = self._local(local.part).fit([group], [choices[index]], local.offsets, base)
            parts += [(first[index] + own, size, fitted) for own, size, fitted in models.parts]
        n_failed = 0
        for batch in self._batches(groups, few, design.n_coordinates):
            picks = [choices[g][p] for g, p in zip(batch.group, batch.position, strict=True)]
            fitted = fit_block(
                ChunkBlock.on(where, design, self._chunk_tasks(batch, where)),
                grid[np.array(picks)],
                self._solver(),
                None if base is None else np.stack([base[int(i)] for i in batch.label]),
            )
            n_failed += int((~fitted.converged).sum())
            parts.append((first[batch.group] + batch.position, batch.n_classes, fitted))
        warn_of_failures(n_failed)
        return LinearModels(tuple(parts), int(first[-1]))

    def cross_fitted_scores(self, folds: Any, choice: Indices, models: Any = None) -> Any:
        """See `Learning.cross_fitted_scores`; known for each part of the rows."""
        without = self._without_each(folds, choice) if models is None else models
        return ByFold(held_out_scores, without, folds)

    def _without_each(self, folds: Any, choice: Indices) -> FoldModels:
        n_labels, every = self.data.n_labels, np.arange(self.data.n_labels)
        groups = [RowGroup(folds.rows_outside(fold), every) for fold in range(folds.n_folds)]
        return FoldModels(self.fit(groups, [choice] * len(groups)), n_labels)

    def _where(
        self, groups: Sequence[RowGroup], folds: ChunkedFolds | None, offsets: Any, constant: bool
    ) -> tuple[Where, ChunkedDesign]:
        rows, design = self._chunks_of_rows, self._design
        if constant:
            design = design.constants()
        survey = Survey.of(rows, design, groups, folds)
        return Where(rows, tuple(groups), survey, folds, offsets, self._slopes(offsets)), design

    def _slopes(self, offsets: Any) -> dict[Any, Any]:
        """What is known of the slopes of some offsets."""
        for known, slopes in self.slopes:
            if known is offsets:
                return slopes
        self.slopes.append((offsets, {}))
        return self.slopes[-1][1]

    @property
    def _design(self) -> ChunkedDesign:
        design: Any = self.design
        return design  # type: ignore[no-any-return]

    def _few(self, where: Where) -> list[int]:
        """Groups that in memory are solved in the span of their rows."""
        q, n_extra = self._design.n_coordinates, self._design.n_extra
        return [
            index
            for index, (group, n) in enumerate(zip(where.groups, where.survey.n_rows, strict=True))
            if group.rows is not None
            and len(group.targets)
            and prefers_row_space(int(n), q, n_extra)
        ]

    def _gathered(
        self, where: Where, few: Sequence[int], over: Any
    ) -> Iterator[tuple[int, _Local, RowGroup]]:
        """Bring the rows of groups here, with all that is known of them."""
        if not few:
            return
        fold, offsets, *selected = where.arguments()
        chosen = [selected[index] for index in few]
        found = where.data.total(_bring, fold, offsets, over, *chosen, combine=_brought_together)
        for index, local in zip(few, found, strict=True):
            yield index, local, replace(where.groups[index], rows=np.arange(local.part.n_rows))

    def _local(self, part: RowPart) -> LinearLearning:
        """Return the learner on some rows here, in the coordinates of all."""
        return LinearLearning(self.learner, part, self._design.turned(part), self.frequencies)

    def _chunk_tasks(self, batch: _Batch, where: Where) -> ChunkTasks:
        def each(name: str) -> Any:
            given = [getattr(where.groups[g], name) for g in batch.group]
            if any(values is None for values in given):
                return None
            return np.stack([v[p] for v, p in zip(given, batch.position, strict=True)])

        return ChunkTasks(
            batch.group,
            batch.label,
            np.full(len(batch.label), -1),
            batch.n_classes,
            np.stack([self.frequencies[label] for label in batch.label]),
            each("allowed"),
            each("extra_scale"),
        )

    def _batches(
        self, groups: Sequence[RowGroup], without: Sequence[int], size: int
    ) -> Iterator[_Batch]:
        """Targets of all groups but some, `size` numbers each, that are solved together."""
        every = [
            (index, position, int(target))
            for index, group in enumerate(groups)
            for position, target in enumerate(group.targets)
            if index not in without
        ]
        sizes = np.array([self.data.cardinalities[label] for _, _, label in every], dtype=np.intp)
        for n_classes in np.unique(sizes):
            own = np.array(every, dtype=np.intp)[sizes == n_classes]
            step = max(1, _MOST_COEFFICIENTS // (size * int(n_classes)))
            for begin in range(0, len(own), step):
                group, position, label = own[begin : begin + step].T
                yield _Batch(group, position, label, int(n_classes))


@dataclass(frozen=True)
class _Found:
    """What cross-validation says of a group's targets so far."""

    choice: Indices
    total: Array
    gain: Array
    noise: Array
    path: list[Array]
    models: list[tuple[Array, Array]]

    @classmethod
    def empty(cls, group: RowGroup) -> _Found:
        m = len(group.targets)
        total, gain, noise = np.zeros((3, m))
        empty = np.empty(0)
        choice = np.zeros(m, dtype=np.intp)
        return cls(choice, total, gain, noise, [empty] * m, [(empty, empty)] * m)

    def without(self, n_folds: int, n_labels: int) -> FoldModels:
        """The models at the choice that have not seen each fold's rows."""
        parts = []
        for label, (coef, floor) in enumerate(self.models):  # (F, K, p + 1), (F, c)
            fitted = FittedTasks(coef, floor, np.ones(len(coef), dtype=bool), 1)
            places = np.arange(n_folds) * n_labels + label
            parts.append((places, floor.shape[1], fitted))
        return FoldModels(LinearModels(tuple(parts), n_folds * n_labels), n_labels)


class _Local(NamedTuple):
    """Rows that were brought here, and what is known of them."""

    part: RowPart
    fold: Indices
    offsets: tuple[Array, ...] | None
    over: Array | None


def _bring(
    part: RowPart,
    fold: Indices | None,
    offsets: tuple[Array, ...] | None,
    over: Array | None,
    *selected: Flags,
) -> list[_Local]:
    every = np.full(part.n_rows, -1) if fold is None else fold
    return [
        _Local(
            replace(part.take(marks), folds=()),
            every[marks].astype(np.intp),
            None if offsets is None else tuple(own[:, marks] for own in offsets),
            None if over is None else over[:, marks],
        )
        for marks in selected
    ]


def _brought_together(one: list[_Local], other: list[_Local]) -> list[_Local]:
    def beside(a: Any, b: Any) -> Any:
        return None if a is None else np.concatenate([a, b], axis=1)

    return [
        _Local(
            joined_rows(a.part, b.part),
            np.concatenate([a.fold, b.fold]),
            None
            if a.offsets is None or b.offsets is None
            else tuple(map(beside, a.offsets, b.offsets)),
            beside(a.over, b.over),
        )
        for a, b in zip(one, other, strict=True)
    ]
