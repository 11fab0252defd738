"""Objectives: gradients and curvatures numerically, moving, and dropping tasks."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from colabel.learn.design import Design
from colabel.learn.glm.lbfgs import OwnScores, Ridge, RowsObjective
from colabel.learn.glm.losses import loss_for
from tests.asserts import assert_each_close
from tests.learn.glm.oracle import softmax_targets
from tests.learn.glm.shapes import features, weights

N_ROWS = 60


@pytest.fixture(params=[2, 3], ids=["logistic", "softmax"])
def n_classes(request):
    return request.param


@pytest.fixture(params=["dense", "csr", "own scores"])
def make(request, rng, weighted, n_classes):
    """A function that begins an objective of three tasks at coefficients (T, K, q)."""
    X = features(rng, N_ROWS, 4)
    weight = weights(rng, N_ROWS, weighted)
    loss = loss_for(n_classes)
    targets = softmax_targets(rng, X, 3, n_classes)
    targets[rng.random(targets.shape) < 0.2] = -1
    if request.param == "own scores":
        design = OwnScores(rng.normal(size=(3 * loss.n_scores, N_ROWS)), weight)
    else:
        design = Design.of(X if request.param == "dense" else sp.csr_array(X), weight)
    offset = rng.normal(size=(3, loss.n_scores, N_ROWS))

    def begin(coef, tasks=slice(None)):
        flat = design.scores(coef.reshape(-1, coef.shape[2]))
        scores = flat.reshape(*coef.shape[:2], -1) + offset
        return RowsObjective(design, loss, targets[tasks], scores[tasks])

    begin.shape = (3, loss.n_scores, design.n_coordinates)
    return begin


def test_the_gradient_is_the_derivative_of_the_value(rng, make):
    coef, step = 0.3 * rng.normal(size=make.shape), 1e-5
    objective = make(coef)
    assert objective.shape == make.shape
    gradient = objective.gradient()
    for k in range(make.shape[1]):
        for j in range(make.shape[2]):
            move = np.zeros(make.shape)
            move[:, k, j] = step
            numeric = (make(coef + move).value() - make(coef - move).value()) / (2 * step)
            np.testing.assert_allclose(gradient[:, k, j], numeric, rtol=1e-5, atol=1e-6)


def test_curvature_along_a_line_is_the_second_derivative(rng, make):
    coef, direction, step = *0.3 * rng.normal(size=(2, *make.shape)), 1e-5
    curvature, farthest = make(coef).along(direction)
    slopes = [
        (make(coef + s * direction).gradient() * direction).sum(axis=(1, 2)) for s in (step, -step)
    ]
    np.testing.assert_allclose(curvature, (slopes[0] - slopes[1]) / (2 * step), rtol=1e-5)
    assert (farthest > 0).all()


def test_the_diagonal_is_mean_curvature_times_scale(rng, make):
    """Exact where every row has the same curvature: at scores of zero, with all rows inside."""
    design = Design.of(features(rng, N_ROWS, 4))
    targets = np.zeros((1, N_ROWS), dtype=np.int16)
    targets[0, ::2] = 1
    for n_classes in (2, 3):
        loss = loss_for(n_classes)
        scores = np.zeros((1, loss.n_scores, N_ROWS))
        found = RowsObjective(design, loss, targets, scores).diagonal()
        p = 1 / n_classes
        expected = np.broadcast_to(p * (1 - p) * design.sum_of_squares(), found.shape)
        np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert (make(0.3 * rng.normal(size=make.shape)).diagonal() > 0).all()


def test_saturated_rows_keep_a_diagonal(make):
    coef = np.zeros(make.shape)
    coef[..., -1] = 60.0
    if make.shape[1] > 1:
        coef[:, 0, -1] = -60.0
    assert (make(coef).diagonal().max(axis=(1, 2)) > 0).all()


def test_moving_again_starts_from_where_the_line_began(rng, make):
    coef, direction = 0.3 * rng.normal(size=(2, *make.shape))
    objective = make(coef)
    objective.along(direction)
    for length in ([1.0, 0.5, 2.0], [0.0, 0.25, 2.0], [-1.0, 0.0, 0.1]):
        losses = objective.move(np.array(length))
        there = make(coef + np.array(length)[:, None, None] * direction)
        np.testing.assert_allclose(losses, there.value(), rtol=1e-10)
        np.testing.assert_allclose(objective.value(), there.value(), rtol=1e-10)
        np.testing.assert_allclose(objective.gradient(), there.gradient(), rtol=1e-8, atol=1e-9)
        np.testing.assert_allclose(objective.diagonal(), there.diagonal(), rtol=1e-9)


def test_tasks_that_are_kept_go_on_as_before(rng, make):
    coef, direction, second = 0.3 * rng.normal(size=(3, *make.shape))
    objective, kept = make(coef), np.array([True, False, True])
    objective.along(direction)
    objective.move(np.array([0.5, 1.0, 0.7]))
    expected = objective.value()[kept], objective.gradient()[kept], objective.diagonal()[kept]
    objective.keep(kept)
    assert objective.shape == (2, *make.shape[1:])
    assert_each_close(
        (objective.value(), objective.gradient(), objective.diagonal()),
        expected,
        rtol=1e-12,
        atol=1e-12,
    )
    objective.along(second[kept])
    losses = objective.move(np.array([0.3, 0.4]))
    lengths = np.array([0.5, 0.0, 0.7])[:, None, None]
    then = np.array([0.3, 0.0, 0.4])[:, None, None]
    there = make(coef + lengths * direction + then * second)
    np.testing.assert_allclose(losses, there.value()[kept], rtol=1e-10)
    np.testing.assert_allclose(objective.gradient(), there.gradient()[kept], rtol=1e-8, atol=1e-9)


def test_own_scores_are_a_design_with_one_feature_each(rng, weighted):
    feature = rng.normal(size=(3, 20))
    weight = weights(rng, 20, weighted)
    own = OwnScores(feature, weight)
    coef, residual = rng.normal(size=(3, 2)), rng.normal(size=(3, 20))
    assert (own.n_rows, own.n_coordinates) == (20, 2)
    for c in range(3):
        rows = np.column_stack([feature[c], np.ones(20)])
        w = np.ones(20) if weight is None else weight
        np.testing.assert_allclose(own.scores(coef)[c], rows @ coef[c])
        np.testing.assert_allclose(own.rmatvec(residual)[c], rows.T @ residual[c])
        np.testing.assert_allclose(own.scale()[c], w @ rows**2)
    kept = own.of_tasks(np.array([True, False, True]))
    np.testing.assert_array_equal(kept.feature, feature[[0, 2]])


def test_a_ridge_adds_value_and_gradient_and_holds_coordinates(rng):
    strength = rng.uniform(size=(3, 1, 4))
    free = np.ones((3, 1, 4))
    free[1, 0, 2] = 0.0
    coef, slope = rng.normal(size=(2, 3, 2, 4))
    ridge = Ridge(strength, free)
    expected = 0.5 * (strength * coef**2).sum(axis=(1, 2))
    np.testing.assert_allclose(ridge.value(coef), expected)
    np.testing.assert_allclose(
        ridge.add_gradient(coef, slope.copy()), (slope + strength * coef) * free
    )
    taken = ridge.take(np.array([2, 1]))
    np.testing.assert_array_equal(taken.strength, strength[[2, 1]])
    np.testing.assert_array_equal(taken.free, free[[2, 1]])
