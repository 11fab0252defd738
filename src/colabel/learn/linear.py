"""Conditionals by the library's own regularised regressions, in batches."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple, TypeVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from colabel.core.arrays import Array, Indices, is_sparse
from colabel.core.progress import progress_bar
from colabel.core.schema import Below, Between, Dims, Fields, Is, bind, refuse_unless, stored
from colabel.core.threads import map_threads
from colabel.learn.chunks import is_chunked
from colabel.learn.conditional import (
    Folds,
    HeldOutScores,
    Offsets,
    RowGroup,
    TrainingData,
    scores_of,
)
from colabel.learn.design import Design, linear_scores
from colabel.learn.glm import LBFGS, FittedTasks, Tasks, fit_tasks, held_out_path, loss_for
from colabel.learn.glm.device.devices import device_for_rows, torch_device
from colabel.learn.glm.tasks import best_points

Result = TypeVar("Result")


class BatchSizes(NamedTuple):
    """How many tasks are solved together.

    Attributes
    ----------
    scores : int
        Scores of a batch that stay in the processor's cache.
    narrowest : int
        Fewer tasks would leave the products too narrow to be fast, as long as rows are few.
    most : int
        Most scores of a batch.
    """

    scores: int
    narrowest: int
    most: int


_BATCH = BatchSizes(scores=1 << 18, narrowest=64, most=1 << 21)
# Points of a path without improvement after which a penalty is not weakened further: the weakest
# are the dearest, and held-out curves that have turned twice do not come back.
PATIENCE = 2
# Candidates on some of the rows, of which most are thrown away, are scored to a looser tolerance.
LOOSER = 5.0


@stored("linear-models")
@dataclass(frozen=True)
class LinearModels:
    """Linear conditionals: `parts` holds models with their positions in the output."""

    parts: tuple[tuple[Annotated[Indices, "_", Below("m")], int, FittedTasks], ...]
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
        refuse_unless(once, "a model is missing, or two have the same position")
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
    """

    grid: Array
    tol: float
    max_iter: int
    n_jobs: int | None
    verbose: bool
    device: str | None = None

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
        if is_chunked(data):
            from colabel.learn.chunks.chunked_linear import ChunkedLearning

            return ChunkedLearning.of(self, data)
        frequencies = [data.class_frequencies(label) for label in range(data.n_labels)]
        torch_device(self.device)  # complains at once, if it must
        design = Design.of(data.X, data.weight, data.extra)
        stored = design.rows.nnz if is_sparse(design.rows) else None
        device = device_for_rows(self.device, design.n_rows, design.n_coordinates, stored)
        if device is None:
            return LinearLearning(self, data, design, tuple(frequencies))
        from colabel.learn.device_linear import DeviceLearning

        return DeviceLearning.of(self, data, design, tuple(frequencies), device)


# Targets of one group with as many values, solved together: the group's number, positions among
# its targets, and that number of values.
_Chunk = tuple[int, Indices, int]


@dataclass(frozen=True)
class LinearLearning:
    """A learner on its rows, in the coordinates of one design."""

    learner: LinearLearner
    data: TrainingData
    design: Design
    frequencies: tuple[Array, ...]

    @property
    def needs_choice(self) -> bool:
        return self.learner.needs_choice

    def _batch_sizes(self) -> BatchSizes:
        return _BATCH

    def _solver(self, looser: float = 1.0) -> LBFGS:
        return LBFGS(tol=looser * self.learner.tol, max_iter=self.learner.max_iter)

    def cross_validate(
        self,
        groups: Sequence[RowGroup],
        folds: Folds,
        reduce: Callable[[RowGroup, HeldOutScores], Result],
        description: str,
        *,
        start: Offsets | None = None,
        keep: bool = False,
        offsets: Offsets | None = None,
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

        def score(index: int) -> tuple[Result, int]:
            scores, failed = self._score_group(groups[index], folds, offsets, constant, start, keep)
            return reduce(groups[index], scores), failed

        order = sorted(range(len(groups)), key=lambda i: -self._n_rows(groups[i]))
        learner = self.learner
        with progress_bar(description, len(groups), shown=learner.verbose) as advance:
            if len(groups) > 1:
                found = map_threads(score, order, learner.n_jobs, advance)
            else:
                # A lone group is spread over threads chunk by chunk, inside.
                found = [score(index) for index in order]
        warn_of_failures(sum(failed for _, failed in found))
        results = dict(zip(order, (result for result, _ in found), strict=True))
        return [results[index] for index in range(len(groups))]

    def _score_group(
        self,
        group: RowGroup,
        folds: Folds,
        offsets: Offsets | None,
        constant: bool,
        start: Offsets | None,
        keep: bool,
    ) -> tuple[HeldOutScores, int]:
        log_prob = np.zeros((len(group.targets), self._n_rows(group)))
        choice = np.zeros(len(group.targets), dtype=np.intp)
        total = np.zeros(len(group.targets))
        path: list[Array] = [np.empty(0)] * len(group.targets)
        models: list[tuple[Indices, int, FittedTasks]] = []
        if constant and group.rows is not None:
            design = self.design.constants(group.rows)
        else:
            design = self.design.block(group.rows)
        of_row = folds.of_row if group.rows is None else folds.of_row[group.rows]
        grid = self.learner.grid if offsets is None else self.learner.deviations
        grid = grid[:1] if constant else grid

        def score_chunk(chunk: _Chunk) -> int:
            _, positions, n_classes = chunk
            targets = group.targets[positions]
            found = held_out_path(
                design,
                self._tasks(group, chunk, offsets),
                grid,
                of_row,
                folds.n_folds,
                self._solver(1.0 if group.rows is None else LOOSER),
                start=None if start is None else np.stack([start[t] for t in targets], axis=2),
                keep=keep,
                patience=PATIENCE,
            )
            best = best_points(found.total, grid, found.informed)
            every = np.arange(len(best))
            log_prob[positions], choice[positions] = found.log_prob[best, every], best
            total[positions] = found.total[best, every]
            if found.coef is not None:
                for at, position in enumerate(positions):
                    path[position] = found.coef[:, :, at]
                for fold, floor in enumerate(found.floor):
                    coef = found.coef[best, fold, every]
                    fitted = FittedTasks(coef, floor, np.ones(len(best), dtype=bool), 1)
                    places = fold * len(group.targets) + positions
                    models.append((places, n_classes, fitted))
            return found.n_failed

        chunks = list(self._chunks([group], folds.n_folds))
        threads = self.learner.n_jobs if group.rows is None else 1
        failed = sum(map_threads(score_chunk, chunks, threads, lambda: None))
        scores = HeldOutScores(log_prob, choice, total)
        if keep:
            models.sort(key=lambda part: int(part[0][0]))  # not as threads have come
            without = LinearModels(tuple(models), folds.n_folds * len(group.targets))
            scores = scores._replace(path=tuple(path), models=without)
        return scores, failed

    def cross_fitted_scores(
        self, folds: Folds, choice: Indices, models: Any = None
    ) -> tuple[Array, ...]:
        data = self.data
        if models is None:
            every = np.arange(data.n_labels)
            groups = [RowGroup(folds.rows_outside(fold), every) for fold in range(folds.n_folds)]
            models = self.fit(groups, [choice] * len(groups))
        shapes = [1 if size == 2 else size for size in data.cardinalities]
        scores = tuple(np.zeros((size, data.n_rows)) for size in shapes)
        for fold in range(folds.n_folds):
            rows = np.flatnonzero(folds.of_row == fold)
            part = models.take(np.arange(fold * data.n_labels, (fold + 1) * data.n_labels))
            for own, table in zip(scores, part.log_prob(data.X[rows]), strict=True):
                own[:, rows] = scores_of(table.T)
        return scores

    def fit(
        self,
        groups: Sequence[RowGroup],
        choices: Sequence[Indices],
        offsets: Offsets | None = None,
        base: Mapping[int, Array] | None = None,
    ) -> LinearModels:
        """See `Learning.fit`.

        With `offsets` as in `cross_validate`, the targets deviate from models of the labels with
        the coefficients `base` (K_i, p + 1).
        """
        first = np.cumsum([0, *(len(group.targets) for group in groups)])
        grid = self.learner.grid if offsets is None else self.learner.deviations

        def fit_chunk(chunk: _Chunk) -> FittedTasks:
            index, positions, _ = chunk
            group = groups[index]
            targets = group.targets[positions]
            return fit_tasks(
                self.design.block(group.rows),
                self._tasks(group, chunk, offsets),
                grid[choices[index][positions]],
                self._solver(),
                None if base is None else np.stack([base[int(t)] for t in targets]),
            )

        chunks = list(self._chunks(groups, 1))
        fitted = map_threads(fit_chunk, chunks, self.learner.n_jobs, lambda: None)
        warn_of_failures(sum(int((~part.converged).sum()) for part in fitted))
        parts = tuple(
            (first[index] + positions, n_classes, part)
            for (index, positions, n_classes), part in zip(chunks, fitted, strict=True)
        )
        return LinearModels(parts, int(first[-1]))

    def _n_rows(self, group: RowGroup) -> int:
        return self.data.n_rows if group.rows is None else len(group.rows)

    def _tasks(self, group: RowGroup, chunk: _Chunk, offsets: Offsets | None) -> Tasks:
        _, positions, n_classes = chunk
        own = group.take(positions)
        codes = self.data.codes if group.rows is None else self.data.codes[group.rows]
        rows = slice(None) if group.rows is None else group.rows
        offset = None
        if offsets is not None:
            offset = np.stack([offsets[target][:, rows] for target in own.targets])
        return Tasks(
            np.ascontiguousarray(codes[:, own.targets].T, dtype=np.int16),
            n_classes,
            np.stack([self.frequencies[target] for target in own.targets]),
            own.allowed,
            own.extra_scale,
            offset,
            None if offset is None else np.arange(len(offset)),
        )

    def _chunks(self, groups: Sequence[RowGroup], fits_per_target: int) -> Iterator[_Chunk]:
        batch = self._batch_sizes()
        for index, group in enumerate(groups):
            sizes = np.array([self.data.cardinalities[t] for t in group.targets], dtype=np.intp)
            for n_classes in np.unique(sizes):
                positions = np.flatnonzero(sizes == n_classes)
                scores = max(1, self._n_rows(group)) * (1 if n_classes == 2 else int(n_classes))
                width = max(batch.narrowest, batch.scores // scores)
                width = max(1, min(width, batch.most // scores))
                step = max(1, width // fits_per_target)
                for start in range(0, len(positions), step):
                    yield index, positions[start : start + step], int(n_classes)


def warn_of_failures(n_failed: int) -> None:
    """Say how many regressions did not converge, if any."""
    if n_failed:
        warnings.warn(
            f"{n_failed} regressions did not reach the tolerance. Scale the features, raise"
            " max_iter, or drop the largest values of C.",
            ConvergenceWarning,
            stacklevel=4,
        )
