"""Losses: every derivative numerically, extreme scores, and the inlined exponential."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from scipy.special import log_expit, log_softmax

from colabel.core.exponential import log_one_plus
from colabel.learn.glm.losses import Loss, loss_for, move_and_decay
from tests.asserts import assert_each_close

LOSSES = {"logistic": Loss(1), "softmax3": Loss(3), "softmax5": Loss(5)}


@pytest.fixture(params=LOSSES)
def loss(request):
    return LOSSES[request.param]


@pytest.fixture(params=[False, True], ids=["unweighted", "weighted"])
def weight(request, rng):
    return rng.uniform(0.0, 3.0, size=7) if request.param else None


def problem(rng, loss, n_tasks=3, n_rows=7):
    n_classes = max(2, loss.n_scores)
    scores = 3.0 * rng.normal(size=(n_tasks, loss.n_scores, n_rows))
    targets = rng.integers(-1, n_classes, size=(n_tasks, n_rows)).astype(np.int16)
    targets[:, 0], targets[:, 1] = -1, n_classes - 1
    return scores, targets


class Terms(NamedTuple):
    """Sums of a pass over the rows, and the residuals (T, K, n) it left."""

    value: np.ndarray
    curvature: np.ndarray
    absolute: np.ndarray
    residual: np.ndarray


def at(loss, scores, targets, weight, change=None, length=None):
    """The loss at some scores, after a step if there is one."""
    residual = np.full_like(scores, np.nan)
    change = np.zeros_like(scores) if change is None else change
    length = np.zeros(len(scores)) if length is None else length
    return Terms(*loss.move(scores.copy(), change, length, targets, weight, residual), residual)


def test_value_is_the_weighted_log_loss_of_the_tasks_rows(rng, loss, weight):
    scores, targets = problem(rng, loss)
    value = at(loss, scores, targets, weight).value
    log_prob = loss.log_prob(scores)
    for task in range(len(scores)):
        rows = np.flatnonzero(targets[task] >= 0)
        w = np.ones(7) if weight is None else weight
        expected = -(w[rows] @ log_prob[task, targets[task, rows], rows])
        np.testing.assert_allclose(value[task], expected, rtol=1e-12)


def test_residual_is_the_derivative_of_the_value(rng, loss, weight):
    scores, targets = problem(rng, loss)
    residual = at(loss, scores, targets, weight).residual
    step = 1e-5
    for k in range(loss.n_scores):
        for row in range(7):
            moved = [scores.copy(), scores.copy()]
            moved[0][:, k, row] -= step
            moved[1][:, k, row] += step
            low, high = (at(loss, s, targets, weight).value for s in moved)
            np.testing.assert_allclose(
                residual[:, k, row], (high - low) / (2 * step), rtol=1e-6, atol=1e-8
            )


def test_along_is_the_second_derivative_along_a_change(rng, loss, weight):
    scores, targets = problem(rng, loss)
    change = rng.normal(size=scores.shape)
    terms = at(loss, scores, targets, weight)
    step = 1e-5
    slopes = [
        np.sum(at(loss, scores + s * change, targets, weight).residual * change, axis=(1, 2))
        for s in (-step, step)
    ]
    curvature, largest = loss.along(terms.residual, change, targets, weight)
    np.testing.assert_allclose(
        curvature, (slopes[1] - slopes[0]) / (2 * step), rtol=1e-6, atol=1e-8
    )
    np.testing.assert_array_equal(largest, np.abs(change).max(axis=(1, 2)))


def test_sums_of_curvatures_and_of_absolute_residuals(rng, loss, weight):
    scores, targets = problem(rng, loss)
    terms = at(loss, scores, targets, weight)
    np.testing.assert_allclose(terms.absolute, np.abs(terms.residual).sum(axis=2), rtol=1e-12)
    for k in range(loss.n_scores):  # diagonal second derivatives
        along = np.zeros_like(scores)
        along[:, k] = 1.0
        expected, _ = loss.along(terms.residual, along, targets, weight)
        np.testing.assert_allclose(terms.curvature[:, k], expected, rtol=1e-10)


def test_rows_of_weight_zero_contribute_nothing(rng, loss):
    scores, targets = problem(rng, loss)
    weight = np.array([1.0, 2.0, 0.0, 0.5, 0.0, 1.0, 1.0])
    terms, change = at(loss, scores, targets, weight), rng.normal(size=scores.shape)
    kept = np.flatnonzero(weight)
    alone = at(loss, scores[..., kept], targets[:, kept], weight[kept])
    assert (terms.residual[..., weight == 0] == 0).all()
    np.testing.assert_allclose(terms.value, alone.value, rtol=1e-12)
    curvature, _ = loss.along(terms.residual, change, targets, weight)
    expected, _ = loss.along(
        alone.residual, change[..., kept].copy(), targets[:, kept].copy(), weight[kept]
    )
    np.testing.assert_allclose(curvature, expected, rtol=1e-12)


def test_rows_outside_a_task_contribute_nothing(rng, loss, weight):
    scores, targets = problem(rng, loss)
    outside = np.broadcast_to((targets < 0)[:, None], scores.shape)
    here = at(loss, scores, targets, weight)
    there = at(loss, np.where(outside, 99.0, scores), targets, weight)
    assert (here.residual[outside] == 0).all()
    np.testing.assert_array_equal(here.value, there.value)
    np.testing.assert_array_equal(here.curvature, there.curvature)


def test_a_step_equals_the_loss_at_the_moved_scores(rng, loss, weight):
    scores, targets = problem(rng, loss)
    change, length = rng.normal(size=scores.shape), np.array([0.0, 0.5, -2.0])
    stepped = at(loss, scores, targets, weight, change, length)
    direct = at(loss, scores + length[:, None, None] * change, targets, weight)
    assert_each_close(stepped, direct, rtol=1e-12, atol=1e-14)


def test_extreme_scores_are_finite_and_right(loss, weight):
    n_classes = max(2, loss.n_scores)
    scores = np.zeros((4, loss.n_scores, 7))
    scores[0], scores[1], scores[2], scores[3] = 1000.0, -1000.0, 1e6, -1e6
    if loss.n_scores > 1:
        scores[:, 0] = 0.0
    targets = np.full((4, 7), n_classes - 1, dtype=np.int16)
    terms = at(loss, scores, targets, weight)
    for part in terms:
        assert np.isfinite(part).all()
    total = 7.0 if weight is None else weight.sum()
    # the target's score is the low one in tasks 1 and 3
    np.testing.assert_allclose(terms.value[[1, 3]], np.array([1e3, 1e6]) * total, rtol=1e-12)
    share = max(1, loss.n_scores - 1)  # equal scores share the probability
    np.testing.assert_allclose(terms.value[[0, 2]], np.log(share) * total, atol=1e-12)
    assert np.isfinite(loss.log_prob(scores)).all()


def test_log_probabilities_equal_scipy(rng):
    assert (loss_for(2).n_scores, loss_for(4).n_scores) == (1, 4)
    scores = 10.0 * rng.normal(size=(3, 1, 50))
    expected = np.concatenate([log_expit(-scores), log_expit(scores)], axis=1)
    np.testing.assert_allclose(Loss(1).log_prob(scores), expected, rtol=1e-12)
    scores = 10.0 * rng.normal(size=(3, 4, 50))
    np.testing.assert_allclose(Loss(4).log_prob(scores), log_softmax(scores, axis=1), rtol=1e-11)


@pytest.mark.parametrize("n_rows", [1, 511, 512, 513, 1500])
def test_long_sums_of_losses_do_not_overflow(rng, n_rows):
    # log(1 + e) of 512 rows is one logarithm of a product
    scores = 1e-3 * rng.normal(size=(2, 1, n_rows))
    targets = rng.integers(-1, 2, size=(2, n_rows)).astype(np.int16)
    value = at(Loss(1), scores, targets, None).value
    log_prob = np.take_along_axis(Loss(1).log_prob(scores), np.maximum(targets, 0)[:, None], 1)
    np.testing.assert_allclose(value, -(log_prob[:, 0] * (targets >= 0)).sum(axis=1), rtol=1e-12)
    weighted = at(Loss(1), scores, targets, np.ones(n_rows)).value
    np.testing.assert_allclose(value, weighted, rtol=1e-12)


def test_inlined_exponential_is_accurate(rng):
    scores = np.concatenate(
        [
            np.linspace(-708.0, 708.0, 20_001),
            rng.uniform(-40, 40, size=20_000),
            10.0 ** rng.uniform(-300, 2, size=5000),
            [0.0, -0.0],
        ]
    )
    moved, decay = scores.copy(), np.empty_like(scores)
    move_and_decay(moved, np.zeros_like(scores), 0.0, decay)
    np.testing.assert_array_equal(moved, scores)
    exact = np.exp(-np.abs(scores))
    assert np.abs(decay / exact - 1.0).max() <= 1e-15
    assert decay.max() <= 1.0
    far = np.array([709.0, 745.0, 1e4, 1e308])  # it ends near zero
    move_and_decay(far, np.zeros(4), 0.0, decay[:4])
    assert ((decay[:4] >= 0) & (decay[:4] < 1e-307)).all()


def test_inlined_logarithm_is_accurate(rng):
    values = np.concatenate([[0.0, 1.0], rng.random(500), 10.0 ** -rng.uniform(0, 300, 500)])
    found = np.array([log_one_plus(e) for e in values])
    np.testing.assert_allclose(found, np.log1p(values), rtol=1e-15, atol=0)
