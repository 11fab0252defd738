"""Deviations from scores that are there already, against direct optimisation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from colabel.learn.design import Design, linear_scores
from colabel.learn.glm.losses import loss_for
from colabel.learn.glm.path import best_points
from tests.learn.glm.oracle import TIGHT, Tasks, block_of, fit_tasks, held_out_path, softmax_targets
from tests.learn.glm.shapes import weights

WEAK = 1.0 / 2.5**2  # half a nat for a log-odds ratio of 2.5
N, P = 80, 3


def log_loss(loss, scores, y, w):
    """Weighted log-loss of scores (K, n)."""
    rows = np.flatnonzero(y >= 0)
    log_prob = loss.log_prob(scores[None])[0]
    return -(w[rows] @ log_prob[y[rows], rows])


def best(objective, size):
    found = minimize(objective, np.zeros(size), method="BFGS", options={"gtol": 1e-6})
    return found.x


def best_line(loss, offset, y, w, total_rows):
    """Slopes and intercepts (K, 2) of one task under the weak penalty."""
    scale = total_rows @ (offset**2).T / total_rows.sum()  # mean square of each score

    def objective(flat):
        more, level = flat.reshape(2, -1)
        penalty = 0.5 * WEAK * (scale @ more**2 + level @ level)
        scores = (1 + more)[:, None] * offset + level[:, None]
        return log_loss(loss, scores, y, w) + penalty

    more, level = best(objective, 2 * len(offset)).reshape(2, -1)
    return 1 + more, level


def best_deviation(loss, X, offset, y, w, C):
    """Scores (K, n) of the best penalised deviation from an offset."""

    def scores(flat):
        coef = flat.reshape(len(offset), -1)
        return offset + coef[:, :-1] @ X.T + coef[:, -1:]

    def objective(flat):
        coef = flat.reshape(len(offset), -1)[:, :-1]
        return log_loss(loss, scores(flat), y, w) + (coef**2).sum() / (2 * C)

    return scores(best(objective, len(offset) * (X.shape[1] + 1)))


@pytest.fixture(params=[2, 3], ids=["logistic", "softmax"])
def n_classes(request):
    return request.param


@pytest.fixture
def problem(rng, n_classes, weighted):
    """Rows, weights, tasks that deviate from the scores of two models, and those models."""
    X = rng.normal(size=(N, P)) + 1.0
    loss = loss_for(n_classes)
    models = rng.normal(size=(2, loss.n_scores, P + 1))
    if loss.n_scores > 1:  # scores of several classes are given less their mean
        models -= models.mean(axis=1, keepdims=True)
    targets = softmax_targets(rng, X, 3, n_classes)
    targets[rng.random(targets.shape) < 0.1] = -1
    targets[:, :n_classes] = np.arange(n_classes)
    weight = weights(rng, N, weighted)
    if weight is not None:
        weight[:n_classes] = 1.0
    tasks = Tasks(targets, n_classes, offset=linear_scores(X, models), base=np.array([1, 0, 1]))
    return X, weight, tasks, models


def test_slope_and_intercept_are_the_best_under_a_weak_penalty(problem, store):
    X, weight, tasks, _ = problem
    block = block_of(Design.of(store(X), weight), tasks)
    w = np.ones(N) if weight is None else weight
    calibrated, point = block.calibrated(TIGHT)
    assert point.converged.all()
    assert not point.coef[..., :-1].any()
    for task in range(3):
        offset = tasks.offset[tasks.base[task]]
        slope, level = best_line(loss_for(tasks.n_classes), offset, tasks.targets[task], w, w)
        np.testing.assert_allclose(calibrated.slope[task], slope, atol=1e-4)
        np.testing.assert_allclose(point.coef[task, :, -1], level, atol=1e-4)


def test_slope_and_intercept_stay_finite_where_a_class_is_absent(problem):
    X, weight, tasks, _ = problem
    tasks.targets[0] = np.where(tasks.targets[0] >= 0, 1, -1)
    calibrated, point = block_of(Design.of(X, weight), tasks).calibrated(TIGHT)
    assert point.converged.all()
    assert np.abs(calibrated.slope).max() < 20
    assert np.abs(point.coef).max() < 20
    assert calibrated.solved.tolist() == [1, 2]  # the first deviates by no more than that


@pytest.mark.parametrize("C", [0.0, 0.3, 10.0])
def test_fitted_deviations_are_the_best_beside_slope_and_base(problem, store, C):
    X, weight, tasks, models = problem
    loss = loss_for(tasks.n_classes)
    w = np.ones(N) if weight is None else weight
    base = models[tasks.base]
    design = Design.of(store(X), weight).block()
    fitted = fit_tasks(design, tasks, np.full(3, C), TIGHT, base)
    assert fitted.converged.all()
    assert not fitted.floor.any()
    scores = linear_scores(X, fitted.coef)
    for task, y in enumerate(tasks.targets):
        offset = tasks.offset[tasks.base[task]]
        slope, level = best_line(loss, offset, y, w, w)
        expected = slope[:, None] * offset + level[:, None]
        if C > 0:
            expected = best_deviation(loss, X, slope[:, None] * offset, y, w, C)
        found = loss.log_prob(scores[task : task + 1])[0]
        np.testing.assert_allclose(found, loss.log_prob(expected[None])[0], atol=2e-3)


def test_every_task_has_its_own_c_and_may_have_none(problem):
    X, weight, tasks, models = problem
    base = models[tasks.base]
    design = Design.of(X, weight).block()
    C = np.array([10.0, 0.0, 0.1])
    together = fit_tasks(design, tasks, C, TIGHT, base)
    for task in range(3):
        one = np.array([task])
        alone = fit_tasks(design, tasks.take(one), C[one], TIGHT, base[one])
        np.testing.assert_allclose(together.coef[task], alone.coef[0], atol=1e-6)


def test_held_out_deviations_equal_a_plain_loop(problem):
    X, weight, tasks, _ = problem
    loss, grid = loss_for(tasks.n_classes), np.array([1.0, 0.0])
    w = np.ones(N) if weight is None else weight
    folds = np.arange(N) % 2
    for y in tasks.targets:  # all classes without either fold
        y[: 2 * tasks.n_classes] = np.repeat(np.arange(tasks.n_classes), 2)
    w[: 2 * tasks.n_classes] = 1.0
    found = held_out_path(Design.of(X, weight).block(), tasks, grid, folds, 2, TIGHT)
    assert found.n_failed == 0
    for task, y in enumerate(tasks.targets):
        offset = tasks.offset[tasks.base[task]]
        for fold in range(2):
            seen = np.where(folds == fold, -1, y)
            slope, level = best_line(loss, offset, seen, w, w)
            line = slope[:, None] * offset
            held = np.flatnonzero((folds == fold) & (y >= 0))
            for at, scores in (
                (1, line + level[:, None]),
                (0, best_deviation(loss, X, line, seen, w, 1.0)),
            ):
                expected = loss.log_prob(scores[None])[0][y[held], held]
                np.testing.assert_allclose(found.log_prob[at, task, held], expected, atol=5e-3)


def test_a_label_that_needs_no_deviation_takes_none(rng):
    X = rng.normal(size=(400, 20))
    coef = rng.normal(size=(1, 1, 21))
    offset = linear_scores(X, coef)
    targets = (rng.random((6, 400)) < 1 / (1 + np.exp(-0.5 * offset[0]))).astype(np.int16)
    tasks = Tasks(targets, 2, offset=offset, base=np.zeros(6, dtype=np.intp))
    grid = np.array([0.0, 0.01, 0.1, 1.0, 10.0])
    found = held_out_path(
        Design.of(X).block(), tasks, grid, np.arange(400) % 5, 5, TIGHT, patience=2
    )
    choice = best_points(found.total, grid)
    assert (grid[choice] <= 0.1).all()
    assert (found.total[-1] == -np.inf).any()  # some left the path
