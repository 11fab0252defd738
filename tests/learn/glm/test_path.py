"""Cross-validated paths against a plain loop over folds and penalties."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from colabel.learn.design import Design
from colabel.learn.glm.lbfgs import LBFGS
from colabel.learn.glm.path import best_points
from tests.learn.glm.oracle import (
    TIGHT,
    Tasks,
    fit_tasks,
    held_out_path,
    logistic_targets,
    sklearn_coef,
    sklearn_model,
    softmax_targets,
)

GRID = np.array([1.0, 0.01, 0.1, 10.0])  # in no order


def loop(X, y, grid, folds, n_folds, weight=None):
    """Held-out log-probabilities (G, n) of one task by scikit-learn, with zeros elsewhere."""
    result = np.zeros((len(grid), len(y)))
    for g, C in enumerate(grid):
        for fold in range(n_folds):
            held = np.flatnonzero((folds == fold) & (y >= 0))
            model = sklearn_model(X, np.where(folds == fold, -1, y), C, weight)
            column = np.searchsorted(model.classes_, y[held])
            result[g, held] = model.predict_log_proba(X[held])[np.arange(len(held)), column]
    return result


@pytest.fixture(params=[False, True], ids=["unweighted", "weighted"])
def weight(request, rng):
    return rng.integers(1, 4, size=90) / 2.0 if request.param else None


@pytest.mark.parametrize("n_classes", [2, 3])
def test_held_out_scores_and_choices_equal_a_plain_loop(rng, store, weight, n_classes):
    X = rng.normal(size=(90, 4))
    targets = (
        logistic_targets(rng, X, 3) if n_classes == 2 else softmax_targets(rng, X, 3, n_classes)
    )
    targets[2, ::5] = -1
    folds = rng.integers(-1, 3, size=90)  # some rows are never held out
    design = Design.of(store(X), weight).block()
    found = held_out_path(design, Tasks(targets, n_classes), GRID, folds, 3, TIGHT)
    w = np.ones(90) if weight is None else weight
    best = best_points(found.total, GRID)
    for task in range(3):
        expected = loop(X, targets[task], GRID, folds, 3, weight)
        np.testing.assert_allclose(found.log_prob[:, task], expected, atol=1e-6)
        np.testing.assert_allclose(found.total[:, task], expected @ w, atol=1e-4)
        assert best[task] == (expected @ w).argmax()
    assert (found.log_prob[:, :, folds == -1] == 0).all()
    assert (found.log_prob[:, targets < 0] == 0).all()
    assert found.n_failed == 0
    assert found.coef is None


# ------------------------------------------------------------------------------ starts


@pytest.mark.parametrize("n_classes", [2, 3])
def test_warm_starts_do_not_change_the_answer(rng, n_classes):
    X = rng.normal(size=(100, 5))
    targets = softmax_targets(rng, X, 3, n_classes)
    rows = np.sort(rng.permutation(100)[:60])
    folds = np.arange(100) % 3
    design = Design.of(X)
    like = held_out_path(
        design.block(), Tasks(targets, n_classes), GRID, folds, 3, TIGHT, keep=True
    )
    assert like.coef is not None
    part = design.block(rows), Tasks(targets[:, rows], n_classes), GRID, folds[rows], 3
    cold = held_out_path(*part, TIGHT)
    warm = held_out_path(*part, TIGHT, start=like.coef)
    np.testing.assert_array_equal(best_points(cold.total, GRID), best_points(warm.total, GRID))
    np.testing.assert_allclose(cold.log_prob, warm.log_prob, atol=1e-6)
    strange = like.coef[:, :, [1, 2, 0]]
    lost = held_out_path(*part, TIGHT, start=strange)
    np.testing.assert_allclose(cold.log_prob, lost.log_prob, atol=1e-6)


def test_starts_may_meet_constant_folds(rng):
    X = rng.normal(size=(60, 3))
    targets = logistic_targets(rng, X, 2)
    targets[1] = np.arange(60) == 0  # without fold 0, all zero
    folds = np.arange(60) % 3
    arguments = Design.of(X).block(), Tasks(targets, 2), GRID, folds, 3, TIGHT
    cold = held_out_path(*arguments, keep=True)
    warm = held_out_path(*arguments, start=cold.coef, keep=True)
    np.testing.assert_allclose(warm.log_prob, cold.log_prob, atol=1e-6)
    np.testing.assert_allclose(warm.coef, cold.coef, atol=1e-6)


def test_kept_coefficients_are_those_of_each_point_and_fold(rng):
    X = rng.normal(size=(60, 3))
    targets = logistic_targets(rng, X, 2)
    folds = np.arange(60) % 2
    found = held_out_path(
        Design.of(X).block(), Tasks(targets, 2), GRID, folds, 2, TIGHT, keep=True
    ).coef
    assert found is not None
    assert found.shape == (4, 2, 2, 1, 4)
    for g in range(4):
        for task in range(2):
            for fold in range(2):
                expected = sklearn_coef(X, np.where(folds == fold, -1, targets[task]), GRID[g])
                np.testing.assert_allclose(found[g, fold, task], expected, rtol=1e-5, atol=1e-6)


# ------------------------------------------------------------------------------ honesty


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("tol", [1.0, 1e-2])
def test_a_fit_cannot_know_the_rows_it_is_scored_on(rng, store, n_classes, tol):
    """To the last bit: whatever the labels of held-out rows are, the fit without them is one."""
    X = rng.normal(size=(90, 6))
    targets = softmax_targets(rng, X, 4, n_classes)
    folds = np.where(np.arange(90) < 30, 0, -1)
    other = targets.copy()
    other[:, folds == 0] = rng.permutation(n_classes)[targets[:, folds == 0]]
    other[:, folds == 0] = np.where(rng.random((4, 30)) < 0.2, -1, other[:, folds == 0])
    design, solver = Design.of(store(X)).block(), LBFGS(tol=tol)
    found = [
        held_out_path(design, Tasks(each, n_classes), GRID, folds, 1, solver, keep=True).coef
        for each in (targets, other)
    ]
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("fold", [0, 1, 2])
def test_no_fold_tells_another_what_it_has_seen(rng, store, fold):
    """Other folds do see the rows; but for the rounding of shared products nothing reaches this."""
    X = rng.normal(size=(90, 6))
    targets = logistic_targets(rng, X, 4)
    folds = np.arange(90) % 3
    other = np.where(folds == fold, 1 - targets, targets).astype(np.int16)
    design, solver = Design.of(store(X)).block(), LBFGS(tol=0.1)
    found = [
        held_out_path(design, Tasks(each, 2), GRID, folds, 3, solver, keep=True).coef
        for each in (targets, other)
    ]
    np.testing.assert_allclose(found[0][:, fold], found[1][:, fold], rtol=1e-9, atol=1e-12)
    away = np.delete(np.arange(3), fold)
    assert np.abs(found[0][:, away] - found[1][:, away]).max() > 0.01


# ------------------------------------------------------------------------ weights, counts


def test_unfinished_regressions_are_counted(rng):
    X = rng.normal(size=(60, 4))
    found = held_out_path(
        Design.of(X).block(),
        Tasks(logistic_targets(rng, X, 3), 2),
        np.array([1.0, 100.0]),
        np.arange(60) % 2,
        2,
        LBFGS(tol=1e-12, max_iter=1),
    )
    assert found.n_failed == 3 * 2 * 2  # tasks x grid x folds


def test_fitted_softmax_intercepts_have_mean_zero_like_scikit_learns(rng):
    X = rng.normal(size=(90, 4)) + 3.0
    targets = softmax_targets(rng, X, 2, 4)
    fitted = fit_tasks(Design.of(X).block(), Tasks(targets, 4), np.array([0.2, 2.0]), TIGHT)
    np.testing.assert_allclose(fitted.coef[..., -1].mean(axis=1), 0.0, atol=1e-12)
    for task, C in enumerate([0.2, 2.0]):
        expected = sklearn_coef(X, targets[task], C)
        expected -= expected.mean(axis=0)
        np.testing.assert_allclose(fitted.coef[task], expected, rtol=1e-5, atol=1e-6)


def test_constant_and_varied_tasks_share_a_batch(rng):
    X = rng.normal(size=(40, 3))
    targets = np.concatenate([logistic_targets(rng, X, 2), np.ones((1, 40), dtype=np.int16)])
    targets = targets[[0, 2, 1]]
    fitted = fit_tasks(Design.of(X).block(), Tasks(targets, 2), np.ones(3), TIGHT)
    np.testing.assert_array_equal(fitted.coef[1, 0, :-1], 0.0)
    np.testing.assert_allclose(fitted.coef[1, 0, -1], np.log(41.0), rtol=1e-12)
    for task in (0, 2):
        expected = sklearn_coef(X, targets[task], 1.0)
        np.testing.assert_allclose(fitted.coef[task], expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("constant", [0, 2])
def test_a_fold_may_be_constant_beside_varied_ones(rng, constant):
    X = rng.normal(size=(60, 3))
    targets = logistic_targets(rng, X, 3)
    folds = np.arange(60) % 3
    targets[constant] = (np.arange(60) == 0).astype(np.int16)  # without fold 0, all zero
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = held_out_path(Design.of(X).block(), Tasks(targets, 2), GRID, folds, 3, TIGHT)
    expected = loop(X, targets[1], GRID, folds, 3)
    np.testing.assert_allclose(found.log_prob[:, 1], expected, atol=1e-6)
    held = np.exp(found.log_prob[:, constant, folds == 0])
    np.testing.assert_allclose(held, np.tile([1 / 42] + [41 / 42] * 19, (4, 1)), rtol=1e-12)


# ----------------------------------------------------------------------------- patience


@pytest.mark.parametrize("patience", [1, 2, 5])
def test_a_task_leaves_after_so_many_points_without_improvement_or_a_clear_fall(rng, patience):
    X = rng.normal(size=(90, 8))
    targets = logistic_targets(rng, X, 6)
    targets[3:] = rng.integers(0, 2, size=(3, 90))  # noise: the strongest penalty is best
    grid = np.array([100.0, 1e-3, 1e-2, 10.0, 0.1, 1.0])
    folds = np.arange(90) % 3
    arguments = Design.of(X).block(), Tasks(targets, 2), grid, folds, 3, TIGHT
    whole = held_out_path(*arguments, keep=True)
    found = held_out_path(*arguments, keep=True, patience=patience)
    order = np.argsort(grid)
    left = fallen = 0
    for task in range(6):
        totals, best, idle, gone = whole.total[order, task], -np.inf, 0, False
        last = np.zeros(0)
        for position, total in zip(order, totals, strict=True):
            if gone:
                assert found.total[position, task] == -np.inf
                assert not found.log_prob[position, task].any()
                # where others may start is the last point that was looked at
                np.testing.assert_array_equal(found.coef[position, :, task], last)
                left += 1
                continue
            np.testing.assert_allclose(found.total[position, task], total, atol=1e-5)
            last = found.coef[position, :, task]
            np.testing.assert_allclose(last, whole.coef[position, :, task], atol=1e-5)
            idle = 0 if total > best else idle + 1
            best = max(best, total)
            fallen += idle < patience and total < best - 5.0
            gone = idle >= patience or total < best - 5.0
    assert left > 3
    assert patience == 1 or fallen
