"""Regressions one at a time, straight from their definition or by scikit-learn."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg as sla
import scipy.sparse as sp
from scipy.special import expit, softmax
from sklearn.linear_model import LogisticRegression

from colabel.learn.design import Design
from colabel.learn.glm import path
from colabel.learn.glm.lbfgs import LBFGS, Ridge, RowsObjective, Solution
from colabel.learn.glm.losses import Loss, loss_for
from colabel.learn.glm.path import Block, LocalRows, informed_tasks, log_probabilities
from colabel.learn.glm.path import Tasks as SmallTasks

TIGHT = LBFGS(tol=1e-9, max_iter=3000)


@dataclass(frozen=True)
class Problem:
    """Regressions as a user would state them: no coordinates, no blocks.

    Attributes
    ----------
    targets : (T, n)
    penalty : (T,)
    offset : (T, K, n) or None
    start : (T, K, p + 1) or None
    allowed : (T, p) of bool, or None
        Features each task may use.
    """

    targets: np.ndarray
    penalty: np.ndarray
    offset: np.ndarray | None = None
    start: np.ndarray | None = None
    allowed: np.ndarray | None = None


class Solved(NamedTuple):
    """Solutions in the user's features: coef (T, K, p + 1) and scores (T, K, n)."""

    coef: np.ndarray
    scores: np.ndarray
    solution: Solution


def solve(design: Any, loss: Loss, problem: Problem, solver: LBFGS = TIGHT) -> Solved:
    """Solve every task of a problem, straight through objective and solver."""
    n_tasks, q = len(problem.targets), design.n_coordinates
    start = np.zeros((n_tasks, loss.n_scores, q))
    if problem.start is not None:
        start = design.to_basis(problem.start)
    strength = np.repeat(problem.penalty[:, None, None], q, axis=2)
    strength[..., -1] = 0.0
    free = None
    if problem.allowed is not None:
        free = np.ones((n_tasks, 1, q))
        free[:, 0, q - 1 - problem.allowed.shape[1] : q - 1] = problem.allowed
        start = start * free
    objective = RowsObjective(
        design, loss, problem.targets, scores_at(design, start, problem.offset)
    )
    solution = solver.solve(objective, Ridge(strength, free), start)
    scores = scores_at(design, solution.coef, problem.offset)
    return Solved(design.from_basis(solution.coef), scores, solution)


@dataclass(frozen=True)
class Tasks:
    """Regressions, their targets (T, n) and offsets (B, K, n), of which task t has `base[t]`."""

    targets: np.ndarray
    n_classes: int
    prior: np.ndarray | None = None
    allowed: np.ndarray | None = None
    extra_scale: np.ndarray | None = None
    offset: np.ndarray | None = None
    base: np.ndarray | None = None

    def take(self, tasks: np.ndarray) -> Tasks:
        names = ("targets", "prior", "allowed", "extra_scale", "base")
        parts = {name: getattr(self, name) for name in names}
        return replace(self, **{k: v if v is None else v[tasks] for k, v in parts.items()})


def block_of(design: Any, tasks: Tasks, folds: Any = None, n_folds: int = 0) -> Block:
    """The block of tasks on the rows of a design; with folds one task without each of them."""
    label = np.arange(len(tasks.targets))
    small = SmallTasks(
        label,
        tasks.n_classes,
        tasks.prior,
        np.full(len(label), -1),
        np.zeros_like(label),
        tasks.allowed,
        tasks.extra_scale,
    )
    offset = None if tasks.offset is None else tasks.offset[tasks.base]
    rows = LocalRows(design, tasks.targets, folds, offset)
    counts = rows.counts(small, n_folds)
    if not n_folds:
        return Block.of(rows, small, counts)
    return Block.of(rows, small.without_folds(n_folds), np.tile(counts, (n_folds, 1, 1)))


def fit_tasks(design: Any, tasks: Tasks, C: Any, solver: LBFGS, base: Any = None) -> Any:
    """Fit every task with its own C (T,)."""
    return path.fit_block(block_of(design, tasks), C, solver, base)


class HeldOut(NamedTuple):
    """See `HeldOutPath`; with the log-probabilities (G, T, n) of the rows held out."""

    log_prob: np.ndarray
    total: np.ndarray
    coef: np.ndarray | None
    floor: np.ndarray
    n_failed: int
    informed: np.ndarray


def held_out_path(
    design: Any,
    tasks: Tasks,
    grid: Any,
    folds: Any,
    n_folds: int,
    solver: LBFGS,
    start: Any = None,
    keep: bool = False,
    patience: int | None = None,
) -> HeldOut:
    """Score tasks over a grid; each row's log-probability is computed from the coefficients."""
    block = block_of(design, tasks, folds, n_folds)
    found = path.held_out_path(block, grid, n_folds, solver, start, True, patience)
    n_tasks, n_rows = tasks.targets.shape
    slope = block.calibrated(solver)[0].slope if block.deviates else block.slope
    slope = slope.reshape(n_folds, n_tasks, -1)
    floor = block.floor.reshape(n_folds, n_tasks, -1)
    log_prob = np.zeros((len(grid), n_tasks, n_rows))
    for g, fold in np.ndindex(len(grid), n_folds):
        scores = scores_at(design, design.to_basis(found.coef[g, fold]))
        if tasks.offset is not None:
            scores = scores + slope[fold][:, :, None] * tasks.offset[tasks.base]
        every = log_probabilities(loss_for(tasks.n_classes), scores, floor[fold])
        own = np.take_along_axis(every, np.maximum(tasks.targets, 0)[:, None], axis=1)[:, 0]
        shown = (folds == fold) & (tasks.targets >= 0) & np.isfinite(found.sums[0, g])[:, None]
        log_prob[g][shown] = own[shown]
    looked = np.isfinite(found.sums[0])
    weight = np.ones(n_rows) if design.weight is None else design.weight
    np.testing.assert_allclose((log_prob @ weight)[looked], found.sums[0][looked], atol=1e-8)
    counts = block.rows.counts(block.tasks.take(np.arange(n_tasks)), n_folds)
    informed = informed_tasks(counts, block.support)
    coef = found.coef if keep else None
    return HeldOut(log_prob, found.sums[0], coef, floor, found.n_failed, informed)


def scores_at(design: Any, coef: np.ndarray, offset: np.ndarray | None = None) -> np.ndarray:
    """Scores (T, K, n) of coefficients (T, K, q) in a design's coordinates."""
    flat = design.scores(coef.reshape(-1, coef.shape[2]))
    scores = flat.reshape(*coef.shape[:2], design.n_rows)
    return scores if offset is None else scores + offset


def logistic_targets(rng: np.random.Generator, X: Any, n_tasks: int) -> np.ndarray:
    """Draw targets (T, n) of 0/1 from random logistic models, both values in every task."""
    dense = X.toarray() if sp.issparse(X) else np.asarray(X)
    spread = np.ptp(dense, axis=0)
    scaled = (dense - dense.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    log_odds = 4.0 * rng.normal(size=(n_tasks, dense.shape[1])) @ scaled.T
    targets = (rng.random(log_odds.shape) < expit(log_odds)).astype(np.int16)
    targets[:, 0], targets[:, 1] = 0, 1
    return targets


def softmax_targets(
    rng: np.random.Generator, X: np.ndarray, n_tasks: int, n_classes: int
) -> np.ndarray:
    """Draw targets (T, n) of K values, all of them in every task."""
    scores = np.einsum("tkp,np->tkn", rng.normal(size=(n_tasks, n_classes, X.shape[1])), X)
    targets = (scores + rng.gumbel(size=scores.shape)).argmax(axis=1).astype(np.int16)
    targets[:, :n_classes] = np.arange(n_classes)
    return targets


def scores_of(X: Any, coef: np.ndarray) -> np.ndarray:
    """Scores (K, n) of coefficients (K, p + 1)."""
    return np.asarray(X @ coef[:, :-1].T).T + coef[:, -1:]


def probabilities(scores: np.ndarray) -> np.ndarray:
    """Class probabilities (n_classes, n) from scores (K, n), K = 1 for two classes."""
    if len(scores) == 1:
        return np.concatenate([expit(-scores), expit(scores)])
    return softmax(scores, axis=0)


def newton_decrement(
    X: Any,
    y: np.ndarray,
    coef: np.ndarray,
    C: float,
    weight: np.ndarray | None = None,
    offset: np.ndarray | None = None,
) -> float:
    """sqrt(g' H^-1 g) of one task with the exact dense Hessian H.

    Along directions without curvature (the common shift of softmax intercepts) the gradient is zero
    too, and they do not count.
    """
    slope, hessian = _derivatives(X, y, coef, C, weight, offset)
    g, H = slope.ravel(), hessian.reshape(slope.size, slope.size)
    scale = np.sqrt(np.maximum(np.diag(H), 1e-300))  # features of any units
    values, vectors = sla.eigh(H / np.outer(scale, scale))
    kept = values > 1e-13 * values[-1]
    return float(np.linalg.norm((g / scale) @ vectors[:, kept] / np.sqrt(values[kept])))


def _derivatives(
    X: Any,
    y: np.ndarray,
    coef: np.ndarray,
    C: float,
    weight: np.ndarray | None,
    offset: np.ndarray | None,
) -> tuple[np.ndarray, np.ndarray]:
    """Gradient (K, p + 1) and Hessian (K, p + 1, K, p + 1) of one task."""
    rows = np.flatnonzero(y >= 0)
    dense = np.asarray((X.toarray() if sp.issparse(X) else X)[rows], dtype=np.float64)
    Z = np.column_stack([dense, np.ones(len(rows))])
    w = np.ones(len(rows)) if weight is None else weight[rows]
    scores = coef @ Z.T + (0.0 if offset is None else offset[:, rows])
    prob = probabilities(scores)
    wrong = (prob - (y[rows] == np.arange(len(prob))[:, None]))[-len(coef) :] * w
    own = prob[-len(coef) :]
    ridge = np.append(np.full(dense.shape[1], 1.0 / C), 0.0)
    slope = wrong @ Z + ridge * coef
    same = np.eye(len(coef))[:, :, None]
    bend = w * (same * own[:, None] - own[:, None] * own[None])  # (K, K, n)
    hessian = np.stack([[(Z * each[:, None]).T @ Z for each in row] for row in bend])
    hessian = hessian.transpose(0, 2, 1, 3).copy()  # (K, p + 1, K, p + 1)
    for k in range(len(coef)):
        hessian[k, :, k, :] += np.diag(ridge)
    return slope, hessian


def sklearn_model(
    X: Any, y: np.ndarray, C: float, weight: np.ndarray | None = None, tol: float = 1e-10
) -> LogisticRegression:
    """scikit-learn's regression of one task; rows with negative targets are left out."""
    rows = np.flatnonzero(y >= 0)
    solver = "newton-cholesky" if y.max() == 1 else "newton-cg"
    model = LogisticRegression(C=C, tol=tol, solver=solver, max_iter=10_000)
    return model.fit(X[rows], y[rows], None if weight is None else weight[rows])


def sklearn_coef(X: Any, y: np.ndarray, C: float, weight: np.ndarray | None = None) -> np.ndarray:
    """Coefficients (K, p + 1) by scikit-learn, the intercept last."""
    model = sklearn_model(X, y, C, weight)
    return np.column_stack([model.coef_, model.intercept_])


class CountingDesign:
    """A design that writes down how many scores each product served."""

    def __init__(self, design: Design) -> None:
        self._design = design
        self.scores_calls: list[int] = []
        self.rmatvec_calls: list[int] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._design, name)

    def scores(self, coef: np.ndarray) -> np.ndarray:
        self.scores_calls.append(len(coef))
        return self._design.scores(coef)

    def rmatvec(self, residual: np.ndarray) -> np.ndarray:
        self.rmatvec_calls.append(len(residual))
        return self._design.rmatvec(residual)

    def of_tasks(self, _: np.ndarray) -> CountingDesign:
        return self


class CountingLoss:
    """A loss that counts how often it was evaluated."""

    def __init__(self, loss: Any) -> None:
        self._loss = loss
        self.n_scores = loss.n_scores
        self.n_moves = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loss, name)

    def move(self, *args: Any) -> Any:
        self.n_moves += 1
        return self._loss.move(*args)
