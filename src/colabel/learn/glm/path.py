"""Fitting tasks, with their penalties chosen by cross-validation along a path."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colabel.core.arrays import Array, Targets
from colabel.core.schema import Dims, Fields, Numbers, Values, Whole, refuse_unless, stored
from colabel.learn.glm.batch import Batch, Memory, Solution
from colabel.learn.glm.degenerate import ClassSupport, class_support, shut_scores, with_floor
from colabel.learn.glm.design import DesignBlock
from colabel.learn.glm.lbfgs import LBFGS
from colabel.learn.glm.losses import Loss


@dataclass(frozen=True)
class Tasks:
    """Regressions on the rows of one block, before their penalties are known.

    Attributes
    ----------
    targets : (T, n)
        Class codes, negative where a row does not belong to the task.
    n_classes : int
        Number of classes of every target.
    weight : (n,) or None
        Row weights.
    prior : (T, n_classes) or None
        Class frequencies towards which those of tasks that lack classes are smoothed.
    allowed : (T, e) of bool, or None
        Which extra features of the design each task may use.
    """

    targets: Targets
    n_classes: int
    weight: Array | None = None
    prior: Array | None = None
    allowed: NDArray[np.bool_] | None = None


def _check_tasks(fields: Fields, dims: Dims) -> None:
    kept = fields["floor"].sum(axis=1)
    most = 0.0 if dims["c"] == 2 else 1.0  # of two values, none is ever without a score
    refuse_unless((kept <= most).all(), "floor holds more probability than there is")
    scores = 1 if dims["c"] == 2 else dims["c"]
    refuse_unless(dims["k"] == scores, "coef does not fit the number of classes")


@stored(
    "linear-tasks",
    check=_check_tasks,
    coef=Numbers("t k q"),
    floor=Numbers("t c", 0.0, 1.0),
    converged=Values("t"),
    n_iter=Whole(),
)
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

    coef: Array
    floor: Array
    converged: NDArray[np.bool_]
    n_iter: int

    def log_prob(self, loss: Loss, scores: Array) -> Array:
        """Log-probabilities (T, n_classes, n) from the models' scores (T, K, n)."""
        return _log_prob(loss, scores, self.floor)


@dataclass(frozen=True)
class PathCoef:
    """Coefficients along a path, for warm starts of like tasks.

    Attributes
    ----------
    whole : (G, T, K, p + 1)
        Fits on all rows, for every point of the grid.
    folds : (G, F, T, K, p + 1)
        Fits without each fold's rows.
    """

    whole: Array
    folds: Array

    def take(self, tasks: Any) -> PathCoef:
        """Return the coefficients of some tasks."""
        return PathCoef(self.whole[:, tasks], self.folds[:, :, tasks])


@dataclass(frozen=True)
class HeldOut:
    """What cross-validation found for every task.

    Attributes
    ----------
    log_prob : (T, n)
        Log-probability of the true class of every row by the model that did not see it, at the
        task's best penalty; zero for rows that are in no fold or outside the task.
    choice : (T,)
        Position of the best C in the grid.
    coef : PathCoef or None
        Coefficients along the path, if they were asked for.
    n_failed : int
        Number of regressions that did not converge.
    """

    log_prob: Array
    choice: NDArray[np.intp]
    coef: PathCoef | None
    n_failed: int


def _log_prob(loss: Loss, scores: Array, floor: Array) -> Array:
    log_prob = loss.log_prob(scores)
    lacking = floor.any(axis=1)
    if lacking.any():
        open_scores = shut_scores(scores[lacking], floor[lacking] > 0)
        log_prob[lacking] = with_floor(loss.log_prob(open_scores), floor[lacking])
    return log_prob


@dataclass
class _Fit:
    """Models of all tasks of a set at one penalty, with what warm starts need."""

    coef: Array  # (T, K, p + 1)
    scores: Array  # (T, K, n)
    converged: NDArray[np.bool_]
    n_iter: int
    memory: Memory | None  # lanes of the tasks in `varied`
    varied: NDArray[np.intp]  # tasks that were solved; the others are constant


def _fit_at(
    block: DesignBlock,
    loss: Loss,
    tasks: Tasks,
    support: ClassSupport,
    penalty: Array,
    solver: LBFGS,
    start: Array | None,
    memory: Memory | None,
) -> _Fit:
    n_tasks, n_rows = tasks.targets.shape
    intercepts = support.constant_intercepts()
    varied = np.flatnonzero(~support.constant)
    scores = np.repeat(intercepts[:, :, None], n_rows, axis=2)
    converged = np.ones(n_tasks, dtype=bool)
    if not len(varied):
        return _Fit(_intercepts_only(block, intercepts), scores, converged, 1, None, varied)
    absent = support.absent[varied]
    lacking = loss.n_scores > 1 and bool(absent.any())
    nothing = np.zeros((len(varied), loss.n_scores, n_rows))
    batch = Batch(
        np.ascontiguousarray(tasks.targets[varied]),
        penalty[varied],
        tasks.weight,
        offset=shut_scores(nothing, absent) if lacking else None,
        start=None if start is None else start[varied],
        allowed=None if tasks.allowed is None else tasks.allowed[varied],
        absent=absent if lacking else None,
        memory=memory,
    )
    solution: Solution = solver.solve(block, loss, batch)
    coef = _intercepts_only(block, intercepts)
    coef[varied], scores[varied] = solution.coef, solution.scores
    converged[varied] = solution.converged
    n_iter = max(1, int(solution.n_iter.max()))
    return _Fit(coef, scores, converged, n_iter, solution.memory, varied)


def _intercepts_only(block: DesignBlock, intercepts: Array) -> Array:
    zero = np.zeros((*intercepts.shape, block.n_coordinates))
    zero[..., -1] = intercepts
    coef = block.from_coordinates(zero)
    coef[..., -1] = intercepts
    return coef


def fit_tasks(
    block: DesignBlock,
    loss: Loss,
    tasks: Tasks,
    C: Array,
    solver: LBFGS,
    start: Array | None = None,
) -> FittedTasks:
    """Fit every task with its own C (T,), starting from `start` (T, K, p + 1) if given."""
    support = class_support(tasks.targets, tasks.n_classes, tasks.weight, tasks.prior)
    fit = _fit_at(block, loss, tasks, support, 1.0 / C, solver, start, None)
    coef = fit.coef
    if loss.n_scores > 1:
        coef[..., -1] -= coef[..., -1].mean(axis=1, keepdims=True)
    return FittedTasks(coef, support.floor, fit.converged, fit.n_iter)


def held_out_path(
    block: DesignBlock,
    loss: Loss,
    tasks: Tasks,
    grid: Array,
    folds: NDArray[np.intp],
    n_folds: int,
    solver: LBFGS,
    start: PathCoef | None = None,
    keep_coef: bool = False,
) -> HeldOut:
    """Cross-validate every task over a grid of C.

    All folds of a task are tasks of their own that skip the fold's rows, so one batch holds
    them all and the held-out scores come with the solution. The path goes from small to large
    C, each point starting from the last.

    Parameters
    ----------
    folds : (n,)
        Fold of every row of the block; negative for rows that are never held out.
    start : PathCoef or None
        Solutions of like tasks (the same targets on other rows) with the same grid and folds.
    keep_coef : bool
        Whether to return the coefficients.
    """
    n_tasks, n_rows = tasks.targets.shape
    folded = _fold_tasks(tasks, folds, n_folds)
    support = class_support(tasks.targets, tasks.n_classes, tasks.weight, tasks.prior)
    folded_support = class_support(folded.targets, tasks.n_classes, tasks.weight, folded.prior)
    best = np.full(n_tasks, -np.inf)
    found = HeldOut(np.zeros((n_tasks, n_rows)), np.zeros(n_tasks, dtype=np.intp), None, 0)
    fits: dict[int, tuple[_Fit, _Fit]] = {}
    whole: _Fit | None = None
    n_failed = 0
    for position in np.argsort(grid, kind="stable"):
        penalty = np.full(n_tasks, 1.0 / grid[position])
        first = start.whole[position] if start else whole.coef if whole else None
        whole = _fit_at(block, loss, tasks, support, penalty, solver, first, None)
        parts = _fit_at(
            block,
            loss,
            folded,
            folded_support,
            np.tile(penalty, n_folds),
            solver,
            _fold_start(whole, start, position, n_folds),
            _fold_memory(whole, folded_support),
        )
        n_failed += int((~whole.converged).sum() + (~parts.converged).sum())
        scored = _held_out_log_prob(loss, tasks.targets, parts.scores, folded_support, folds)
        total = scored.sum(axis=1) if tasks.weight is None else scored @ tasks.weight
        better = total > best
        best[better], found.choice[better] = total[better], position
        found.log_prob[better] = scored[better]
        if keep_coef:
            fits[position] = whole, parts
    return replace(found, coef=_path_coef(fits, n_folds) if keep_coef else None, n_failed=n_failed)


def _fold_start(whole: _Fit, start: PathCoef | None, position: int, n_folds: int) -> Array:
    """Where to start the fits without each fold, (F T, K, p + 1).

    Leaving out a fold moves the solution of a like task by a known amount; leaving it out moves
    this one by about as much.
    """
    if start is None:
        return np.tile(whole.coef, (n_folds, 1, 1))
    moved: Array = whole.coef + (start.folds[position] - start.whole[position])
    return moved.reshape(-1, *whole.coef.shape[1:])


def _path_coef(fits: dict[int, tuple[_Fit, _Fit]], n_folds: int) -> PathCoef:
    ordered = [fits[position] for position in sorted(fits)]
    whole = np.stack([fit.coef for fit, _ in ordered])
    folds = np.stack([fit.coef for _, fit in ordered])
    return PathCoef(whole, folds.reshape(len(ordered), n_folds, *whole.shape[1:]))


def _fold_tasks(tasks: Tasks, folds: NDArray[np.intp], n_folds: int) -> Tasks:
    masked = [np.where(folds == fold, np.int16(-1), tasks.targets) for fold in range(n_folds)]
    prior = None if tasks.prior is None else np.tile(tasks.prior, (n_folds, 1))
    allowed = None if tasks.allowed is None else np.tile(tasks.allowed, (n_folds, 1))
    return replace(tasks, targets=np.concatenate(masked), prior=prior, allowed=allowed)


def _fold_memory(whole: _Fit, folded: ClassSupport) -> Memory | None:
    """The curvature of each fold's task is close to that of the task on all rows."""
    if whole.memory is None:
        return None
    n_tasks = len(whole.coef)
    lane = np.zeros(n_tasks, dtype=np.intp)
    lane[whole.varied] = np.arange(len(whole.varied))
    varied = np.flatnonzero(~folded.constant)
    memory = whole.memory.take(lane[varied % n_tasks])
    # Where a fold takes a class away, coordinates are frozen that the memory knows as free.
    memory.inverse_products[folded.absent[varied].any(axis=1)] = 0.0
    return memory


def _held_out_log_prob(
    loss: Loss, targets: Targets, scores: Array, support: ClassSupport, folds: NDArray[np.intp]
) -> Array:
    n_tasks, n_rows = targets.shape
    result = np.zeros((n_tasks, n_rows))
    for fold in range(len(scores) // n_tasks):
        rows = np.flatnonzero(folds == fold)
        part = slice(fold * n_tasks, (fold + 1) * n_tasks)
        prob = _log_prob(loss, np.ascontiguousarray(scores[part][:, :, rows]), support.floor[part])
        wanted = targets[:, rows]
        picked = np.take_along_axis(prob, np.maximum(wanted, 0)[:, None, :], axis=1)[:, 0]
        result[:, rows] = np.where(wanted >= 0, picked, 0.0)
    return result
