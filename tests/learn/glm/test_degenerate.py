"""Constant targets and absent classes follow the documented smoothing, exactly."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from colabel.learn.design import Design, linear_scores
from colabel.learn.glm.losses import Loss, loss_for
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


@pytest.mark.parametrize("with_prior", [False, True])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("weighted", [False, True])
def test_constant_tasks_get_smoothed_frequencies(rng, with_prior, n_classes, weighted):
    """All rows of the first class, all of the last, some of it, and no row at all: the prior."""
    prior = rng.dirichlet(np.ones(n_classes)) if with_prior else None
    X, last = rng.normal(size=(20, 3)), n_classes - 1
    weight = rng.uniform(size=20) if weighted else None
    targets = np.full((4, 20), last, dtype=np.int16)
    targets[0], targets[2, :12], targets[3] = 0, -1, -1
    priors = None if prior is None else np.tile(prior, (4, 1))
    prob = fitted_prob(X, Tasks(targets, n_classes, prior=priors), loss_for(n_classes), weight)
    w = np.ones(20) if weight is None else weight
    for task, own in enumerate(targets):
        counts = [w[own == value].sum() for value in range(n_classes)]
        expected = np.tile(smoothed(counts, prior)[:, None], (1, 20))
        np.testing.assert_allclose(prob[task], expected, rtol=1e-12)


def test_a_class_of_weight_zero_is_absent():
    tasks = Tasks(np.array([[0, 0, 1]], dtype=np.int16), 2)
    support = block_of(Design.of(np.eye(3), np.array([1.0, 1.0, 0.0])), tasks).support
    assert support.absent.tolist() == [[False, True]]
    assert support.constant.tolist() == [True]


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
    for trial in range(10):
        X, targets = absent_task(rng)
        targets[:5] = 1  # a class that lives in the held-out rows only
        folds = np.where(np.arange(90) < 10, 0, -1)
        design, tasks = Design.of(X).block(), Tasks(targets[None], 4)
        found = held_out_path(design, tasks, np.ones(1), folds, 1, TIGHT, keep=True)
        # it does not keep the others from converging: no coefficient runs off
        assert found.n_failed == 0
        assert np.abs(found.coef).max() < 1e3
        if trial:
            continue
        floor = smoothed(np.bincount(targets[10:], minlength=4))[1]
        prob = np.exp(found.log_prob[0, 0])
        np.testing.assert_allclose(prob[:5], floor, rtol=1e-9)
        model = LogisticRegression(tol=1e-10, solver="newton-cg", max_iter=10_000)
        expected = model.fit(X[10:], targets[10:]).predict_proba(X[5:10]) * (1 - floor)
        column = np.searchsorted(model.classes_, targets[5:10])
        np.testing.assert_allclose(prob[5:10], expected[np.arange(5), column], atol=1e-6)
        assert (found.log_prob[0, 0, 10:] == 0).all()


def test_constant_folds_are_scored_by_smoothed_frequencies(rng):
    design, solver = Design.of(rng.normal(size=(12, 2))).block(), TIGHT
    targets = np.array([[1, 1] + [0] * 10], dtype=np.int16)
    folds = (np.arange(12) >= 2).astype(np.intp)  # without fold 0 only zeros remain
    found = held_out_path(design, Tasks(targets, 2), np.array([0.1, 1.0]), folds, 2, solver)
    for log_prob in found.log_prob[:, 0]:
        np.testing.assert_allclose(np.exp(log_prob[:2]), smoothed([10, 0])[1], rtol=1e-12)
        np.testing.assert_allclose(np.exp(log_prob[2:]), smoothed([0, 2])[0], rtol=1e-12)
    targets[0, 1] = 2
    found = held_out_path(design, Tasks(targets, 3), np.ones(1), -folds, 1, solver)
    prob = np.exp(found.log_prob[0, 0, :2])
    np.testing.assert_allclose(prob, smoothed([10, 0, 0])[1:], rtol=1e-12)


def test_perfectly_separable_tasks_keep_proper_probabilities(rng):
    X = rng.normal(size=(60, 2))
    targets = np.stack([X[:, 0] > 0, X[:, 1] > 0]).astype(np.int16)
    fitted = fit_tasks(Design.of(X).block(), Tasks(targets, 2), np.array([1.0, 1e6]), TIGHT)
    log_prob = fitted.log_prob(Loss(1), linear_scores(X, fitted.coef))
    np.testing.assert_allclose(np.exp(log_prob).sum(axis=1), 1.0, rtol=1e-12)
    assert log_prob.min() > -1e4
    assert (log_prob.argmax(axis=1)[1] == targets[1]).all()
