"""Constant targets and absent classes follow the documented smoothing, exactly."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from colabel.learn.design import Design, linear_scores
from colabel.learn.glm.losses import Loss
from tests.learn.glm.oracle import TIGHT, Tasks, block_of, fit_tasks, held_out_path


def smoothed(counts, prior=None):
    """(n_c + m pi_c) / (n + m), from the module's docstring."""
    counts = np.asarray(counts, dtype=float)
    m = len(counts)
    prior = np.full(m, 1 / m) if prior is None else np.asarray(prior)
    return (counts + m * prior) / (counts.sum() + m)


def fitted_prob(X, tasks, loss, weight=None):
    """Probabilities (T, K, n) of fitted tasks for the training rows."""
    design = Design.of(X, weight).block()
    fitted = fit_tasks(design, tasks, np.ones(len(tasks.targets)), TIGHT)
    assert fitted.converged.all()
    return np.exp(fitted.log_prob(loss, linear_scores(X, fitted.coef)))


@pytest.mark.parametrize("prior", [None, [0.9, 0.1]])
def test_constant_binary_tasks_get_smoothed_frequencies(rng, prior):
    X = rng.normal(size=(20, 3))
    targets = np.zeros((3, 20), dtype=np.int16)
    targets[1], targets[2, :12] = 1, -1  # all 0, all 1, 8 rows of 0
    priors = None if prior is None else np.tile(prior, (3, 1))
    prob = fitted_prob(X, Tasks(targets, 2, prior=priors), Loss(1))
    for task, counts in enumerate([[20, 0], [0, 20], [8, 0]]):
        expected = np.tile(smoothed(counts, prior)[:, None], (1, 20))
        np.testing.assert_allclose(prob[task], expected, rtol=1e-12)


@pytest.mark.parametrize("prior", [None, [0.2, 0.5, 0.3]])
def test_constant_softmax_tasks_get_smoothed_frequencies(rng, prior):
    X = rng.normal(size=(20, 3))
    targets = np.full((2, 20), 2, dtype=np.int16)
    targets[1, :15] = -1
    priors = None if prior is None else np.tile(prior, (2, 1))
    prob = fitted_prob(X, Tasks(targets, 3, prior=priors), Loss(3))
    np.testing.assert_allclose(prob.sum(axis=1), 1.0, rtol=1e-12)
    for task, counts in enumerate([[0, 0, 20], [0, 0, 5]]):
        expected = np.tile(smoothed(counts, prior)[:, None], (1, 20))
        np.testing.assert_allclose(prob[task], expected, rtol=1e-12)


def test_weights_count_like_rows(rng):
    X = rng.normal(size=(10, 2))
    weight = rng.uniform(size=10)
    targets = np.zeros((1, 10), dtype=np.int16)
    prob = fitted_prob(X, Tasks(targets, 2), Loss(1), weight)
    np.testing.assert_allclose(prob[0, :, 0], smoothed([weight.sum(), 0]), rtol=1e-12)


def test_a_class_of_weight_zero_is_absent():
    tasks = Tasks(np.array([[0, 0, 1]], dtype=np.int16), 2)
    support = block_of(Design.of(np.eye(3), np.array([1.0, 1.0, 0.0])), tasks).support
    assert support.absent.tolist() == [[False, True]]
    assert support.constant.tolist() == [True]


def test_a_task_without_rows_gets_its_prior(rng):
    X = rng.normal(size=(6, 2))
    targets = np.full((1, 6), -1, dtype=np.int16)
    prior = np.array([[0.7, 0.3]])
    prob = fitted_prob(X, Tasks(targets, 2, prior=prior), Loss(1))
    np.testing.assert_allclose(prob[0], np.tile(prior.T, (1, 6)), rtol=1e-12)


def absent_task(rng, n_classes=4, absent=1):
    X = rng.normal(size=(90, 3))
    targets = rng.integers(0, n_classes - 1, size=90).astype(np.int16)
    targets[targets >= absent] += 1
    return X, targets


@pytest.mark.parametrize("n_classes", [3, 4])
@pytest.mark.parametrize("with_prior", [False, True])
def test_absent_softmax_classes_keep_their_smoothed_frequency(rng, n_classes, with_prior):
    X, targets = absent_task(rng, n_classes)
    prior = rng.dirichlet(np.ones(n_classes)) if with_prior else None
    tasks = Tasks(targets[None], n_classes, prior=None if prior is None else prior[None])
    prob = fitted_prob(X, tasks, Loss(n_classes))[0]
    floor = smoothed(np.bincount(targets, minlength=n_classes), prior)[1]
    np.testing.assert_allclose(prob.sum(axis=0), 1.0, rtol=1e-12)
    np.testing.assert_allclose(prob[1], floor, rtol=1e-9)
    present = np.delete(np.arange(n_classes), 1)
    # two classes left: the symmetric softmax has half the penalty of a logistic regression
    C = 2.0 if n_classes == 3 else 1.0
    model = LogisticRegression(C=C, tol=1e-10, solver="newton-cg", max_iter=10_000)
    expected = model.fit(X, targets).predict_proba(X).T * (1 - floor)
    np.testing.assert_allclose(prob[present], expected, atol=1e-6)


def test_held_out_rows_of_an_absent_class_get_its_smoothed_frequency(rng):
    X, targets = absent_task(rng)
    targets[:5] = 1  # a class that lives in the held-out rows only
    folds = np.where(np.arange(90) < 10, 0, -1)
    found = held_out_path(
        Design.of(X).block(),
        Tasks(targets[None], 4),
        np.array([1.0]),
        folds,
        1,
        TIGHT,
    )
    counts = np.bincount(targets[10:], minlength=4)
    floor = smoothed(counts)[1]
    np.testing.assert_allclose(np.exp(found.log_prob[0, 0, :5]), floor, rtol=1e-9)
    model = LogisticRegression(tol=1e-10, solver="newton-cg", max_iter=10_000)
    prob = model.fit(X[10:], targets[10:]).predict_proba(X[5:10]) * (1 - floor)
    column = np.searchsorted(model.classes_, targets[5:10])
    np.testing.assert_allclose(
        np.exp(found.log_prob[0, 0, 5:10]), prob[np.arange(5), column], atol=1e-6
    )
    assert (found.log_prob[0, 0, 10:] == 0).all()


def test_absent_classes_do_not_keep_the_others_from_converging(rng):
    for _ in range(10):
        X, targets = absent_task(rng)
        targets[:5] = 1  # absent without fold 0 only
        folds = np.where(np.arange(90) < 10, 0, -1)
        design, tasks = Design.of(X).block(), Tasks(targets[None], 4)
        found = held_out_path(design, tasks, np.array([1.0]), folds, 1, TIGHT, keep=True)
        assert found.n_failed == 0
        assert found.coef is not None
        assert np.abs(found.coef).max() < 1e3  # no coefficient runs off


def test_constant_folds_are_scored_by_smoothed_frequencies(rng):
    X = rng.normal(size=(12, 2))
    targets = np.array([1, 1] + [0] * 10, dtype=np.int16)
    folds = (np.arange(12) >= 2).astype(np.intp)  # without fold 0 only zeros remain
    found = held_out_path(
        Design.of(X).block(),
        Tasks(targets[None], 2),
        np.array([0.1, 1.0]),
        folds,
        2,
        TIGHT,
    )
    for log_prob in found.log_prob[:, 0]:
        np.testing.assert_allclose(np.exp(log_prob[:2]), smoothed([10, 0])[1], rtol=1e-12)
        np.testing.assert_allclose(np.exp(log_prob[2:]), smoothed([0, 2])[0], rtol=1e-12)


def test_constant_softmax_folds_are_scored_by_smoothed_frequencies(rng):
    X = rng.normal(size=(12, 2))
    targets = np.array([1, 2] + [0] * 10, dtype=np.int16)
    folds = np.where(np.arange(12) < 2, 0, -1)
    found = held_out_path(
        Design.of(X).block(),
        Tasks(targets[None], 3),
        np.array([1.0]),
        folds,
        1,
        TIGHT,
    )
    np.testing.assert_allclose(
        np.exp(found.log_prob[0, 0, :2]), smoothed([10, 0, 0])[1:], rtol=1e-12
    )


def test_perfectly_separable_tasks_keep_proper_probabilities(rng):
    X = rng.normal(size=(60, 2))
    targets = np.stack([X[:, 0] > 0, X[:, 1] > 0]).astype(np.int16)
    C = np.array([1.0, 1e6])
    fitted = fit_tasks(Design.of(X).block(), Tasks(targets, 2), C, TIGHT)
    log_prob = fitted.log_prob(Loss(1), linear_scores(X, fitted.coef))
    assert np.isfinite(log_prob).all()
    np.testing.assert_allclose(np.exp(log_prob).sum(axis=1), 1.0, rtol=1e-12)
    assert (log_prob.argmax(axis=1)[1] == targets[1]).all()
