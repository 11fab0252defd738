"""Cross-validated paths against a plain loop over folds and penalties."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp

from colabel.learn.glm import (
    LBFGS,
    Logistic,
    Softmax,
    Tasks,
    as_design,
    fit_tasks,
    held_out_path,
    loss_for,
)
from tests.learn.glm.oracle import (
    TIGHT,
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


@pytest.fixture(params=["dense", "csr"])
def store(request):
    return np.asarray if request.param == "dense" else sp.csr_array


@pytest.mark.parametrize("n_classes", [2, 3])
def test_held_out_scores_and_choices_equal_a_plain_loop(rng, store, weight, n_classes):
    X = rng.normal(size=(90, 4))
    targets = (
        logistic_targets(rng, X, 3) if n_classes == 2 else softmax_targets(rng, X, 3, n_classes)
    )
    targets[2, ::5] = -1
    folds = rng.integers(-1, 3, size=90)  # some rows are never held out
    found = held_out_path(
        as_design(store(X), weight).block(),
        loss_for(n_classes),
        Tasks(targets, n_classes, weight),
        GRID,
        folds,
        3,
        TIGHT,
    )
    w = np.ones(90) if weight is None else weight
    for task in range(3):
        expected = loop(X, targets[task], GRID, folds, 3, weight)
        best = int((expected @ w).argmax())
        assert found.choice[task] == best
        np.testing.assert_allclose(found.log_prob[task], expected[best], atol=1e-6)
    assert (found.log_prob[:, folds == -1] == 0).all()
    assert (found.log_prob[targets < 0] == 0).all()
    assert found.n_failed == 0
    assert found.coef is None


def test_every_point_of_the_grid_equals_the_loop(rng):
    X = rng.normal(size=(80, 4))
    targets = logistic_targets(rng, X, 2)
    folds = np.arange(80) % 4
    block = as_design(X).block()
    for g, C in enumerate(GRID):
        found = held_out_path(
            block, Logistic(), Tasks(targets, 2), GRID[g : g + 1], folds, 4, TIGHT
        )
        for task in range(2):
            expected = loop(X, targets[task], [C], folds, 4)[0]
            np.testing.assert_allclose(found.log_prob[task], expected, atol=1e-7)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_warm_starts_do_not_change_the_answer(rng, n_classes):
    X = rng.normal(size=(100, 5))
    targets = softmax_targets(rng, X, 3, n_classes)
    rows = np.sort(rng.permutation(100)[:60])
    folds = np.arange(100) % 3
    loss, design = loss_for(n_classes), as_design(X)
    like = held_out_path(
        design.block(), loss, Tasks(targets, n_classes), GRID, folds, 3, TIGHT, keep_coef=True
    )
    assert like.coef is not None
    part = design.block(rows), loss, Tasks(targets[:, rows], n_classes), GRID, folds[rows], 3
    cold = held_out_path(*part, TIGHT)
    warm = held_out_path(*part, TIGHT, start=like.coef)
    np.testing.assert_array_equal(cold.choice, warm.choice)
    np.testing.assert_allclose(cold.log_prob, warm.log_prob, atol=1e-6)
    strange = like.coef.take([1, 2, 0])
    lost = held_out_path(*part, TIGHT, start=strange)
    np.testing.assert_allclose(cold.log_prob, lost.log_prob, atol=1e-6)


def test_kept_coefficients_are_those_of_each_point_and_fold(rng):
    X = rng.normal(size=(60, 3))
    targets = logistic_targets(rng, X, 2)
    folds = np.arange(60) % 2
    found = held_out_path(
        as_design(X).block(),
        Logistic(),
        Tasks(targets, 2),
        GRID,
        folds,
        2,
        TIGHT,
        keep_coef=True,
    ).coef
    assert found is not None
    assert found.whole.shape == (4, 2, 1, 4)
    assert found.folds.shape == (4, 2, 2, 1, 4)
    for g in range(4):
        for task in range(2):
            expected = sklearn_coef(X, targets[task], GRID[g])
            np.testing.assert_allclose(found.whole[g, task], expected, rtol=1e-5, atol=1e-6)
            for fold in range(2):
                expected = sklearn_coef(X, np.where(folds == fold, -1, targets[task]), GRID[g])
                np.testing.assert_allclose(
                    found.folds[g, fold, task], expected, rtol=1e-5, atol=1e-6
                )


def test_doubling_a_weight_equals_writing_the_row_twice(rng):
    X = rng.normal(size=(50, 3))
    targets = logistic_targets(rng, X, 2)
    folds = np.arange(50) % 3
    weight = 1.0 + (np.arange(50) % 2)
    twice = np.repeat(np.arange(50), weight.astype(int))
    one = held_out_path(
        as_design(X, weight).block(), Logistic(), Tasks(targets, 2, weight), GRID, folds, 3, TIGHT
    )
    two = held_out_path(
        as_design(X[twice]).block(),
        Logistic(),
        Tasks(targets[:, twice], 2),
        GRID,
        folds[twice],
        3,
        TIGHT,
    )
    np.testing.assert_array_equal(one.choice, two.choice)
    np.testing.assert_allclose(one.log_prob[:, twice], two.log_prob, atol=1e-7)


def test_unfinished_regressions_are_counted(rng):
    X = rng.normal(size=(60, 4))
    targets = logistic_targets(rng, X, 3)
    folds = np.arange(60) % 2
    found = held_out_path(
        as_design(X).block(),
        Logistic(),
        Tasks(targets, 2),
        np.array([1.0, 100.0]),
        folds,
        2,
        LBFGS(tol=1e-12, max_iter=1),
    )
    assert found.n_failed == 3 * 2 * (1 + 2)  # tasks x grid x (all rows and two folds)


def test_fitted_tasks_equal_scikit_learn_each_with_its_own_c(rng, store, weight):
    X = rng.normal(size=(90, 4))
    targets = logistic_targets(rng, X, 3)
    C = np.array([0.1, 1.0, 30.0])
    block = as_design(store(X), weight).block()
    fitted = fit_tasks(block, Logistic(), Tasks(targets, 2, weight), C, TIGHT)
    assert fitted.converged.all()
    assert fitted.n_iter > 1
    for task in range(3):
        expected = sklearn_coef(X, targets[task], C[task], weight)
        np.testing.assert_allclose(fitted.coef[task], expected, rtol=1e-6, atol=1e-6)


def test_fitted_softmax_intercepts_have_mean_zero_like_scikit_learns(rng):
    X = rng.normal(size=(90, 4)) + 3.0
    targets = softmax_targets(rng, X, 2, 4)
    start = rng.normal(size=(2, 4, 5)) + 5.0
    fitted = fit_tasks(
        as_design(X).block(), Softmax(4), Tasks(targets, 4), np.array([0.2, 2.0]), TIGHT, start
    )
    np.testing.assert_allclose(fitted.coef[..., -1].mean(axis=1), 0.0, atol=1e-12)
    for task, C in enumerate([0.2, 2.0]):
        expected = sklearn_coef(X, targets[task], C)
        expected -= expected.mean(axis=0)
        np.testing.assert_allclose(fitted.coef[task], expected, rtol=1e-5, atol=1e-6)


def test_constant_and_varied_tasks_share_a_batch(rng):
    X = rng.normal(size=(40, 3))
    targets = np.concatenate([logistic_targets(rng, X, 2), np.ones((1, 40), dtype=np.int16)])
    targets = targets[[0, 2, 1]]
    fitted = fit_tasks(as_design(X).block(), Logistic(), Tasks(targets, 2), np.ones(3), TIGHT)
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
        found = held_out_path(
            as_design(X).block(), Logistic(), Tasks(targets, 2), GRID, folds, 3, TIGHT
        )
    other = 1
    expected = loop(X, targets[other], GRID, folds, 3)
    best = int(expected.sum(axis=1).argmax())
    assert found.choice[other] == best
    np.testing.assert_allclose(found.log_prob[other], expected[best], atol=1e-6)
    held = np.exp(found.log_prob[constant, folds == 0])
    np.testing.assert_allclose(held, [1 / 42] + [41 / 42] * 19, rtol=1e-12)
