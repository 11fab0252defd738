"""Conditionals by the library's own regularised regressions, in batches."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from colabel.core.arrays import Array, Indices
from colabel.core.progress import progress_bar
from colabel.core.schema import (
    Dims,
    Fields,
    Many,
    Part,
    Positions,
    Record,
    Whole,
    bind,
    refuse_unless,
    stored,
)
from colabel.core.threads import map_threads
from colabel.learn.conditional import Folds, HeldOutScores, RowGroup, TrainingData
from colabel.learn.glm import (
    LBFGS,
    Design,
    FittedTasks,
    PathCoef,
    Tasks,
    as_design,
    fit_tasks,
    held_out_path,
    loss_for,
)
from colabel.learn.glm.design import linear_scores

Result = TypeVar("Result")

# A batch of this many scores stays in the processor's cache; fewer tasks than the second
# number would leave the products too narrow to be fast.
_SCORES_PER_BATCH = 1 << 18
_NARROWEST_BATCH = 64


@dataclass(frozen=True)
class _Chunk:
    """Targets of one group that have the same number of values and are solved together."""

    group: int
    positions: Indices  # among the group's targets
    n_classes: int


def _check_models(fields: Fields, dims: Dims) -> None:
    sizes = dict[int, int]()
    for positions, n_classes, tasks in fields["parts"]:
        bind(dims, "q", tasks.dims["q"], "coef")
        bind(tasks.dims, "t", len(positions), "positions")
        bind(tasks.dims, "c", n_classes, "number of classes")
        sizes.update(dict.fromkeys(positions.tolist(), n_classes))
    refuse_unless(
        sorted(sizes) == list(range(dims["m"])) and len(fields["parts"]), "a model is missing"
    )
    refuse_unless(
        sum(len(positions) for positions, _, _ in fields["parts"]) == dims["m"],
        "two models have the same position",
    )
    dims["sizes"] = tuple(sizes[i] for i in range(dims["m"]))


@stored(
    "linear-models",
    check=_check_models,
    n_models=Whole(1, size="m"),
    parts=Many(Record(Positions("_", below="m"), Whole(1), Part("linear-tasks"))),
)
@dataclass(frozen=True)
class LinearModels:
    """Linear conditionals: `parts` holds models with their positions in the output."""

    parts: tuple[tuple[Indices, int, FittedTasks], ...]
    n_models: int

    def log_prob(self, X: Any, extra: Array | None = None) -> list[Array]:
        """See `ConditionalModels.log_prob`."""
        result: list[Array] = [np.empty(0)] * self.n_models
        for positions, n_classes, fitted in self.parts:
            scores = linear_scores(X, fitted.coef, extra)
            log_prob = fitted.log_prob(loss_for(n_classes), scores)
            for position, table in zip(positions, log_prob, strict=True):
                result[position] = np.ascontiguousarray(table.T)
        return result

    @property
    def n_iter(self) -> int:
        """Most iterations any model took."""
        return max(fitted.n_iter for _, _, fitted in self.parts)

    @property
    def coef(self) -> list[Array]:
        """Coefficients (K, p + 1) of every model, the intercept last."""
        result: list[Array] = [np.empty(0)] * self.n_models
        for positions, _, fitted in self.parts:
            for position, coef in zip(positions, fitted.coef, strict=True):
                result[position] = coef
        return result


class LinearLearner:
    """L2-regularised logistic and softmax regressions, C chosen per target.

    Parameters
    ----------
    grid : (G,)
        Values of C to choose from.
    tol, max_iter
        See `LBFGS`.
    n_jobs : int or None
        Threads; None for all cores.
    verbose : bool
        Whether to show progress.
    """

    def __init__(
        self, grid: Array, tol: float, max_iter: int, n_jobs: int | None, verbose: bool
    ) -> None:
        self._grid = np.asarray(grid, dtype=np.float64)
        self._solver = LBFGS(tol=tol, max_iter=max_iter)
        self._n_jobs = n_jobs
        self._verbose = verbose
        self._data: TrainingData | None = None
        self._design: Design | None = None
        # Coefficients of targets learned from all rows: where other groups start.
        self._like: dict[int, PathCoef] = {}
        self.needs_choice = len(self._grid) > 1

    def _design_of(self, data: TrainingData) -> Design:
        if self._design is None or self._data is not data:
            self._data, self._design = data, as_design(data.X, data.weight, data.extra)
            self._like = {}
        return self._design

    def cross_validate(
        self,
        data: TrainingData,
        groups: Sequence[RowGroup],
        folds: Folds,
        reduce: Callable[[RowGroup, HeldOutScores], Result],
        description: str,
    ) -> list[Result]:
        """See `ConditionalLearner.cross_validate`."""
        design = self._design_of(data)
        if any(like.folds.shape[1] != folds.n_folds for like in self._like.values()):
            self._like = {}  # learned with other folds
        frequencies = [data.class_frequencies(label) for label in range(data.n_labels)]

        def score(index: int) -> tuple[Result, int]:
            group = groups[index]
            return self._score_group(design, data, group, folds, frequencies, reduce)

        order = sorted(range(len(groups)), key=lambda i: -_n_rows(data, groups[i]))
        with progress_bar(description, len(groups), shown=self._verbose) as advance:
            if len(groups) > 1:
                found = map_threads(score, order, self._n_jobs, advance)
            else:
                # A lone group is spread over threads chunk by chunk, inside.
                found = [score(index) for index in order]
        _warn_of_failures(sum(failed for _, failed in found))
        results = dict(zip(order, (result for result, _ in found), strict=True))
        return [results[index] for index in range(len(groups))]

    def _score_group(
        self,
        design: Design,
        data: TrainingData,
        group: RowGroup,
        folds: Folds,
        frequencies: list[Array],
        reduce: Callable[[RowGroup, HeldOutScores], Result],
    ) -> tuple[Result, int]:
        n_group = _n_rows(data, group)
        log_prob = np.zeros((len(group.targets), n_group))
        choice = np.zeros(len(group.targets), dtype=np.intp)
        block = design.block(group.rows)
        of_row = folds.of_row if group.rows is None else folds.of_row[group.rows]
        chunks = list(_chunks(data, [group], folds.n_folds))
        whole = group.rows is None

        def score_chunk(chunk: _Chunk) -> int:
            targets = group.targets[chunk.positions]
            found = held_out_path(
                block,
                loss_for(chunk.n_classes),
                _tasks(data, group, chunk, frequencies),
                self._grid,
                of_row,
                folds.n_folds,
                self._solver,
                start=self._start(targets),
                keep_coef=whole,
            )
            log_prob[chunk.positions], choice[chunk.positions] = found.log_prob, found.choice
            if found.coef is not None:
                for position, target in enumerate(targets):
                    self._like[int(target)] = found.coef.take([position])
            return found.n_failed

        threads = self._n_jobs if whole else 1
        failed = sum(map_threads(score_chunk, chunks, threads, lambda: None))
        return reduce(group, HeldOutScores(log_prob, choice)), failed

    def _start(self, targets: Indices) -> PathCoef | None:
        if not all(int(target) in self._like for target in targets):
            return None
        like = [self._like[int(target)] for target in targets]
        return PathCoef(
            np.concatenate([coef.whole for coef in like], axis=1),
            np.concatenate([coef.folds for coef in like], axis=2),
        )

    def fit(
        self, data: TrainingData, groups: Sequence[RowGroup], choices: Sequence[Indices]
    ) -> LinearModels:
        """See `ConditionalLearner.fit`."""
        design = self._design_of(data)
        frequencies = [data.class_frequencies(label) for label in range(data.n_labels)]
        first = np.cumsum([0, *(len(group.targets) for group in groups)])

        def fit_chunk(chunk: _Chunk) -> FittedTasks:
            group = groups[chunk.group]
            targets = group.targets[chunk.positions]
            chosen = choices[chunk.group][chunk.positions]
            like = self._start(targets)
            start = None if like is None else like.whole[chosen, np.arange(len(targets))]
            return fit_tasks(
                design.block(group.rows),
                loss_for(chunk.n_classes),
                _tasks(data, group, chunk, frequencies),
                self._grid[chosen],
                self._solver,
                start,
            )

        chunks = list(_chunks(data, groups, 1))
        fitted = map_threads(fit_chunk, chunks, self._n_jobs, lambda: None)
        _warn_of_failures(sum(int((~part.converged).sum()) for part in fitted))
        parts = tuple(
            (first[chunk.group] + chunk.positions, chunk.n_classes, part)
            for chunk, part in zip(chunks, fitted, strict=True)
        )
        return LinearModels(parts, int(first[-1]))


def _n_rows(data: TrainingData, group: RowGroup) -> int:
    return data.n_rows if group.rows is None else len(group.rows)


def _tasks(data: TrainingData, group: RowGroup, chunk: _Chunk, frequencies: list[Array]) -> Tasks:
    targets = group.targets[chunk.positions]
    codes = data.codes if group.rows is None else data.codes[group.rows]
    weight = data.weight if data.weight is None or group.rows is None else data.weight[group.rows]
    return Tasks(
        np.ascontiguousarray(codes[:, targets].T, dtype=np.int16),
        chunk.n_classes,
        weight,
        np.stack([frequencies[target] for target in targets]),
        None if group.allowed is None else group.allowed[chunk.positions],
    )


def _chunks(
    data: TrainingData, groups: Sequence[RowGroup], fits_per_target: int
) -> Iterator[_Chunk]:
    for index, group in enumerate(groups):
        sizes = np.array([data.cardinalities[target] for target in group.targets], dtype=np.intp)
        for n_classes in np.unique(sizes):
            positions = np.flatnonzero(sizes == n_classes)
            scores = max(1, _n_rows(data, group)) * (1 if n_classes == 2 else int(n_classes))
            width = max(_NARROWEST_BATCH, _SCORES_PER_BATCH // scores)
            step = max(1, width // fits_per_target)
            for start in range(0, len(positions), step):
                yield _Chunk(index, positions[start : start + step], int(n_classes))


def _warn_of_failures(n_failed: int) -> None:
    if n_failed:
        warnings.warn(
            f"{n_failed} regressions did not reach the tolerance. Scale the features, raise"
            " max_iter, or drop the largest values of C.",
            ConvergenceWarning,
            stacklevel=4,
        )
