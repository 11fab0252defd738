"""Conditionals by the library's own regularised regressions, in batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated, Any, NamedTuple, TypeVar
from weakref import WeakValueDictionary

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from colabel.core.arrays import Array, Indices
from colabel.core.progress import progress_bar
from colabel.core.schema import Below, Between, Dims, Fields, Is, bind, check_that, stored
from colabel.core.threads import map_threads
from colabel.core.warning import warn
from colabel.learn.conditional import (
    FoldModels,
    GainOver,
    Gains,
    HeldOutScores,
    Offsets,
    RowGroup,
    TrainingData,
    held_out_log_prob,
    held_out_scores,
    is_chunked,
)
from colabel.learn.design import Design, linear_scores
from colabel.learn.glm import path as glm
from colabel.learn.glm.device import torch_device
from colabel.learn.glm.lbfgs import LBFGS
from colabel.learn.glm.losses import loss_for

Result = TypeVar("Result")


# How many tasks are solved together: scores of a batch that stay in the processor's cache; fewer
# tasks would leave the products too narrow to be fast, as long as rows are few; most scores.
BatchSizes = tuple[int, int, int]
_BATCH: BatchSizes = (1 << 18, 64, 1 << 21)
# Points of a path without improvement after which a penalty is not weakened further: the weakest
# are the dearest, and held-out curves that have rotated twice do not come back.
PATIENCE = 2
# Candidates on some of the rows, of which most are thrown away, are scored to a looser tolerance.
LOOSER = 5.0


@stored("linear-models")
@dataclass(frozen=True)
class LinearModels:
    """Linear conditionals: `parts` holds models with their positions in the output."""

    parts: tuple[tuple[Annotated[Indices, "_", Below("m")], int, glm.FittedTasks], ...]
    n_models: Annotated[int, Between(1), Is("m")]

    @staticmethod
    def _check_stored(fields: Fields, dims: Dims) -> None:
        sizes = dict[int, int]()
        for positions, n_classes, tasks in fields["parts"]:
            bind(dims, "q", tasks.dims["q"], "coef")
            bind(tasks.dims, "t", len(positions), "positions")
            bind(tasks.dims, "c", n_classes, "number of classes")
            sizes.update(dict.fromkeys(positions.tolist(), n_classes))
        n_positions = sum(len(positions) for positions, _, _ in fields["parts"])
        once = len(sizes) == n_positions == dims["m"]
        check_that(once, "a model is missing, or two have the same position")
        dims["sizes"] = tuple(sizes[i] for i in range(dims["m"]))

    def log_prob(self, X: Any, extra: Array | None = None) -> list[Array]:
        result: list[Array] = [np.empty(0)] * self.n_models
        coefs = [fitted.coef for _, _, fitted in self.parts]
        # one product for all: rows are read once, however many parts there are
        every = np.concatenate([coef.reshape(-1, coef.shape[2]) for coef in coefs])
        (flat,) = linear_scores(X, every[None], extra)
        ends = np.cumsum([coef.shape[0] * coef.shape[1] for coef in coefs])
        blocks = np.split(flat, ends[:-1])
        for (positions, n_classes, fitted), coef, block in zip(
            self.parts, coefs, blocks, strict=True
        ):
            scores = block.reshape(*coef.shape[:2], -1)
            log_prob = fitted.log_prob(loss_for(n_classes), scores)
            for position, table in zip(positions, log_prob, strict=True):
                result[position] = np.ascontiguousarray(table.T)
        return result

    @property
    def n_iter(self) -> int:
        """Most iterations any model took."""
        return max((fitted.n_iter for _, _, fitted in self.parts), default=1)

    @property
    def coef(self) -> list[Array]:
        """Coefficients (K, p + 1) of every model, the intercept last."""
        result: list[Array] = [np.empty(0)] * self.n_models
        for positions, _, fitted in self.parts:
            for position, coef in zip(positions, fitted.coef, strict=True):
                result[position] = coef
        return result

    def take(self, order: Indices) -> LinearModels:
        """Return models in another order: position i has `order[i]`, which may occur again."""
        parts = []
        for own, n_classes, fitted in self.parts:
            place = np.full(self.n_models, -1)
            place[own] = np.arange(len(own))
            positions = np.flatnonzero(place[order] >= 0)
            positions = positions[np.argsort(place[order[positions]], kind="stable")]
            if len(positions):
                parts.append((positions, n_classes, fitted.take(place[order[positions]])))
        return LinearModels(tuple(parts), len(order))

    def shrunk(self, share: float, base: LinearModels) -> LinearModels:
        """Return models at this share of the way to these from others, without extra features."""
        before, parts = base.coef, []
        for positions, n_classes, fitted in self.parts:
            around = np.stack([before[position] for position in positions])
            coef = share * fitted.coef
            coef[..., : around.shape[-1] - 1] += (1.0 - share) * around[..., :-1]
            coef[..., -1] += (1.0 - share) * around[..., -1]
            parts.append((positions, n_classes, replace(fitted, coef=coef)))
        return LinearModels(tuple(parts), self.n_models)

    def joined(self, *others: LinearModels) -> LinearModels:
        """Return these models and then the others."""
        models = (self, *others)
        first = np.cumsum([0, *(part.n_models for part in models)])
        parts = tuple(
            (start + positions, n_classes, fitted)
            for start, part in zip(first, models, strict=False)
            for positions, n_classes, fitted in part.parts
        )
        return LinearModels(parts, int(first[-1]))


@dataclass(frozen=True)
class LinearLearner:
    """L2-regularised logistic and softmax regressions, C chosen per target.

    Attributes
    ----------
    grid : (G,)
        Values of C to choose from.
    tol, max_iter
        See `LBFGS`.
    n_jobs : int or None
        Threads; None for all cores.
    verbose : bool
        Whether to show progress.
    device : str or None
        See `torch_device`; None for the compiled kernels.
    batch : BatchSizes
        Of rows in memory.
    """

    grid: Array
    tol: float
    max_iter: int
    n_jobs: int | None
    verbose: bool
    device: str | None = None
    batch: BatchSizes = _BATCH

    @property
    def needs_choice(self) -> bool:
        """Whether there is more than one C."""
        return len(self.grid) > 1

    @property
    def deviations(self) -> Array:
        """Values of C of a deviation from other models, (1 + G,): none, then those of the grid."""
        return np.concatenate([[0.0], self.grid])

    def values(self, choice: Indices) -> Array:
        """Return the values of C (m,) at these positions of the grid."""
        return self.grid[choice]

    def on(self, data: TrainingData) -> LinearLearning:
        frequencies = tuple(data.class_frequencies(label) for label in range(data.n_labels))
        if not is_chunked(data):
            if self.device is not None:
                torch_device(self.device)  # complains at once, if it must
            return LinearLearning(
                self, data, Design.of(data.X, data.weight, data.extra), frequencies
            )
        if self.device is not None:
            raise ValueError(
                f"device={self.device!r} is for rows in memory: leave it out for Dask arrays."
            )
        from colabel.learn.chunks.chunked_block import coordinates_of

        rows: Any = data
        return LinearLearning(self, rows, coordinates_of(data), frequencies)


class Batch(NamedTuple):
    """Targets that are solved together.

    Attributes
    ----------
    group, position, label : (T,)
        Groups of the targets, their positions in these, and labels.
    n_classes : int
    rows : callable
        Gathers the rows when the batch is solved: `LocalRows` or `ChunkedRows`, and the group and
        the target that each task has there.
    """

    group: Indices
    position: Indices
    label: Indices
    n_classes: int
    rows: Callable[[], tuple[Any, Indices, Indices]]


class Asked(NamedTuple):
    """Groups of rows, and what is known of all rows; see `LinearLearning.cross_validate`."""

    groups: Sequence[RowGroup]
    folds: Any
    offsets: Any = None
    over: Any = None
    constant: bool = False
    tables: Any = None


def batches_in_memory(
    learning: LinearLearning, asked: Asked, n_fits: int, sizes: BatchSizes | None = None
) -> list[Batch]:
    """Targets of a group that have as many values, some at a time; large groups first."""
    data, groups, folds = learning.data, asked.groups, asked.folds
    designs: Any = WeakValueDictionary()

    def rows(index: int, labels: Indices) -> tuple[glm.LocalRows, Indices, Indices]:
        own = groups[index].rows
        at: Any = slice(None) if own is None else own
        design = designs.get(index)
        if design is None:
            few, whole = asked.constant and own is not None, learning.design
            design = whole.constants(own) if few else whole.block(own)
            designs[index] = design  # as long as a batch has it
        offset, over, tables = asked.offsets, asked.over, asked.tables
        local = glm.LocalRows(
            design,
            np.ascontiguousarray(data.codes[at][:, labels].T, dtype=np.int16),
            None if folds is None else folds.of_row[at],
            None if offset is None else np.stack([offset[i][:, at] for i in labels]),
            None if over is None else np.stack([over[i][at] for i in labels]),
            tables=None if tables is None else np.stack([tables[i][at].T for i in labels]),
        )
        return local, np.zeros_like(labels), np.arange(len(labels))

    cached, narrowest, most = sizes or learning.learner.batch
    lengths = [data.n_rows if group.rows is None else len(group.rows) for group in groups]
    batches = []
    for group in sorted(range(len(groups)), key=lambda g: -lengths[g]):
        for n_classes, positions, label in learning.by_size(groups[group]):
            scores = max(1, lengths[group]) * (1 if n_classes == 2 else n_classes)
            width = min(max(narrowest, cached // scores), most // scores)
            step = max(1, max(1, width) // n_fits)
            for start in range(0, len(positions), step):
                position, own = (part[start : start + step] for part in (positions, label))
                of_group, of_batch = np.full(len(own), group), partial(rows, group, own)
                batches.append(Batch(of_group, position, own, n_classes, of_batch))
    return batches


@dataclass(frozen=True)
class LinearLearning:
    """A learner on its rows, in the coordinates of one design.

    Attributes
    ----------
    learner : LinearLearner
    data : TrainingData or ChunkedData
    design : Design, or coordinates of rows in chunks
    frequencies : d arrays (K_i,)
        Smoothed frequencies of the labels' values.
    known : dict
        What earlier calls have found of these rows.
    """

    learner: LinearLearner
    data: TrainingData
    design: Any
    frequencies: tuple[Array, ...]
    known: dict[Any, Any] = field(default_factory=dict)

    @property
    def needs_choice(self) -> bool:
        return self.learner.needs_choice

    def batches(self, asked: Asked, n_fits: int) -> tuple[list[Batch], int | None]:
        """Return what is solved together where the rows are, and by how many threads."""
        if is_chunked(self.data):
            from colabel.learn.chunks.chunked_block import ChunkedRows

            return ChunkedRows.of(self, asked).batches(n_fits), 1  # Dask spreads the chunks
        if self.learner.device is not None:
            from colabel.learn.device_rows import batches_on_device

            batches = batches_on_device(self, asked, n_fits)
            if batches is not None:
                return batches, 1  # one batch has the whole device
        return batches_in_memory(self, asked, n_fits), self.learner.n_jobs

    def by_size(self, group: RowGroup) -> Iterator[tuple[int, Indices, Indices]]:
        """Numbers of values, and positions and labels of the targets that have so many."""
        sizes = np.array([self.data.cardinalities[t] for t in group.targets], dtype=np.intp)
        for n_classes in np.unique(sizes):
            positions = np.flatnonzero(sizes == n_classes)
            yield int(n_classes), positions, group.targets[positions]

    def block(
        self, groups: Sequence[RowGroup], batch: Batch, n_folds: int
    ) -> tuple[glm.Block, Array]:
        """Return the tasks of a batch, and the weights (T, 1 + F, K) of their classes by fold.

        With folds they are F T tasks, those of a fold together.
        """

        def each(name: str) -> Any:
            given = {g: getattr(groups[g], name) for g in np.unique(batch.group)}
            if any(values is None for values in given.values()):
                return None
            return np.stack([given[g][p] for g, p in zip(batch.group, batch.position, strict=True)])

        rows, group, label = batch.rows()
        labels, own = np.unique(batch.label, return_inverse=True)
        prior = np.stack([self.frequencies[i] for i in labels])[own]
        never = np.full(len(label), -1)
        scale = each("extra_scale")
        tasks = glm.Tasks(label, batch.n_classes, prior, never, group, each("allowed"), scale)
        counts = rows.counts(tasks, n_folds)
        if not n_folds:
            return glm.Block.of(rows, tasks, counts), counts
        every = tasks.without_folds(n_folds)
        return glm.Block.of(rows, every, np.tile(counts, (n_folds, 1, 1))), counts

    def cross_validate(
        self,
        groups: Sequence[RowGroup],
        folds: Any,
        reduce: Callable[[RowGroup, HeldOutScores], Result],
        description: str,
        *,
        start: Offsets | None = None,
        keep: bool = False,
        offsets: Any = None,
        constant: bool = False,
    ) -> list[Result]:
        """See `Learning.cross_validate`.

        Parameters
        ----------
        offsets : d arrays (K_i, n), or None
            Scores of the labels to deviate from, by models that have not seen the row; choices are
            then positions in `LinearLearner.deviations`.
        constant : bool
            Whether nothing but slope and intercept may deviate: no product with the rows is needed.
        """
        over = reduce.log_prob if isinstance(reduce, GainOver) else None
        tables = reduce.tables if isinstance(reduce, GainOver) else None
        grid = self.learner.grid if offsets is None else self.learner.deviations
        grid = grid[:1] if constant else grid
        n_folds = folds.n_folds
        outcomes = [_Found.empty(len(group.targets)) for group in groups]

        def score(batch: Batch) -> int:
            block, counts = self.block(groups, batch, n_folds)
            looser = 1.0 if groups[batch.group[0]].rows is None else LOOSER
            labels, own = np.unique(batch.label, return_inverse=True)
            like = None if start is None else np.stack([start[i] for i in labels], axis=2)
            solver = self._solver(looser)
            path = glm.held_out_path(block, grid, n_folds, solver, like, keep, PATIENCE, own)
            best = glm.best_points(path.sums[0], grid, glm.informed_tasks(counts, block.support))
            floor = block.floor.reshape(n_folds, len(best), -1)
            order = np.argsort(batch.group, kind="stable")
            ends = np.flatnonzero(np.diff(batch.group[order])) + 1
            for tasks in np.split(order, ends):
                found, positions = outcomes[batch.group[tasks[0]]], batch.position[tasks]
                found.choice[positions] = best[tasks]
                found.sums[:, positions] = path.sums[:, best[tasks], tasks]
                if path.coef is None:
                    continue
                for task, position in zip(tasks, positions, strict=True):
                    found.path[position] = path.coef[:, :, task]
                    found.models[position] = path.coef[best[task], :, task], floor[:, task]
            return path.n_failed

        asked = Asked(groups, folds, offsets, over, constant, tables)
        batches, n_jobs = self.batches(asked, n_folds)
        with progress_bar(description, len(batches), shown=self.learner.verbose) as advance:
            warn_of_failures(sum(map_threads(score, batches, n_jobs, advance)))
        results: list[Any] = []
        for group, own in zip(groups, outcomes, strict=True):
            if over is not None:
                results.append(Gains(own.sums[1], own.sums[2], own.choice))
                continue
            scores = HeldOutScores(None, own.choice, own.sums[0])
            if keep:
                without = own.without(n_folds)
                log_prob = self.data.by_fold(held_out_log_prob, without, folds)
                scores = scores._replace(log_prob=log_prob, path=tuple(own.path), models=without)
            results.append(reduce(group, scores))
        return results

    def fit(
        self,
        groups: Sequence[RowGroup],
        choices: Sequence[Indices],
        offsets: Any = None,
        base: Mapping[int, Array] | None = None,
    ) -> LinearModels:
        """See `Learning.fit`.

        With `offsets` as in `cross_validate`, the targets deviate from models of the labels with
        the coefficients `base` (K_i, p + 1).
        """
        first = np.cumsum([0, *(len(group.targets) for group in groups)])
        if not first[-1]:
            return LinearModels((), 0)
        grid = self.learner.grid if offsets is None else self.learner.deviations

        def fit_batch(batch: Batch) -> glm.FittedTasks:
            block, _ = self.block(groups, batch, 0)
            picks = [choices[g][p] for g, p in zip(batch.group, batch.position, strict=True)]
            around = None if base is None else np.stack([base[int(i)] for i in batch.label])
            return glm.fit_block(block, grid[np.array(picks)], self._solver(), around)

        batches, n_jobs = self.batches(Asked(groups, None, offsets), 1)
        fitted = map_threads(fit_batch, batches, n_jobs, lambda: None)
        warn_of_failures(sum(int((~part.converged).sum()) for part in fitted))
        parts = tuple(
            (first[batch.group] + batch.position, batch.n_classes, part)
            for batch, part in zip(batches, fitted, strict=True)
        )
        return LinearModels(parts, int(first[-1]))

    def cross_fitted_scores(self, folds: Any, choice: Indices, models: Any = None) -> Any:
        """See `Learning.cross_fitted_scores`; of rows in chunks known for each part of them."""
        if models is None:
            every = np.arange(self.data.n_labels)
            groups = [RowGroup(folds.rows_outside(fold), every) for fold in range(folds.n_folds)]
            fitted = self.fit(groups, [choice] * len(groups))
            models = FoldModels(fitted, self.data.n_labels)
        return self.data.by_fold(held_out_scores, models, folds)

    def _solver(self, looser: float = 1.0) -> LBFGS:
        return LBFGS(tol=looser * self.learner.tol, max_iter=self.learner.max_iter)


class _Found(NamedTuple):
    """What cross-validation says of m targets of a group so far."""

    choice: Indices
    sums: Array  # (3, m), see `HeldOutPath`
    path: list[Array]
    models: list[tuple[Array, Array]]  # coefficients (F, K, p + 1) and floors (F, c)

    @classmethod
    def empty(cls, m: int) -> _Found:
        none = np.empty(0)
        return cls(np.zeros(m, dtype=np.intp), np.zeros((3, m)), [none] * m, [(none, none)] * m)

    def without(self, n_folds: int) -> FoldModels:
        """The models at the choice that have not seen each fold's rows."""
        sizes = np.array([floor.shape[1] for _, floor in self.models])
        parts = []
        for size in np.unique(sizes):
            own = np.flatnonzero(sizes == size)
            coef = np.concatenate([self.models[i][0] for i in own])
            floor = np.concatenate([self.models[i][1] for i in own])
            places = (np.arange(n_folds) * len(sizes) + own[:, None]).ravel()
            fitted = glm.FittedTasks(coef, floor, np.ones(len(coef), dtype=bool), 1)
            parts.append((places, int(size), fitted))
        return FoldModels(LinearModels(tuple(parts), n_folds * len(sizes)), len(sizes))


def warn_of_failures(n_failed: int) -> None:
    """Say how many regressions did not converge, if any."""
    if n_failed:
        warn(
            f"{n_failed} regressions did not reach the tolerance. Scale the features, raise"
            " max_iter, or drop the largest values of C.",
            ConvergenceWarning,
        )
