"""Hessians of the losses, and Newton steps from them."""

from __future__ import annotations

import numpy as np
import pytest

from colabel.learn.design import Design
from colabel.learn.glm.lbfgs import LBFGS, RowsObjective
from colabel.learn.glm.losses import loss_for
from tests.learn.glm.oracle import Tasks, fit_tasks


def objective_at(design, targets, n_classes, coef):
    flat = design.scores(coef.reshape(-1, coef.shape[2]))
    scores = flat.reshape(*coef.shape[:2], design.n_rows)
    return RowsObjective(design, loss_for(n_classes), targets, scores)


@pytest.mark.parametrize("n_classes", [2, 3, 5])
@pytest.mark.parametrize("weighted", [False, True])
def test_hessians_are_the_derivatives_of_gradients(rng, n_classes, weighted):
    X = rng.normal(size=(50, 3)) * [1.0, 100.0, 0.01]
    weight = rng.integers(0, 4, 50).astype(float) if weighted else None
    design = Design.of(X, weight)
    targets = rng.integers(-1, n_classes, size=(2, 50)).astype(np.int16)
    shape = (2, loss_for(n_classes).n_scores, design.n_coordinates)
    coef = rng.normal(size=shape) / np.sqrt(design.sum_of_squares() / 50)
    size = shape[1] * shape[2]
    found = objective_at(design, targets, n_classes, coef).hessian(np.arange(2))
    for place in range(size):
        step = 1e-5 / np.sqrt(design.sum_of_squares()[place % shape[2]] / 50)
        moved = [coef.reshape(2, -1).copy() for _ in range(2)]
        moved[0][:, place] += step
        moved[1][:, place] -= step
        up, down = (
            objective_at(design, targets, n_classes, own.reshape(shape)).gradient() for own in moved
        )
        expected = ((up - down) / (2 * step)).reshape(2, -1)
        scale = np.sqrt(np.abs(np.einsum("tqq->tq", found)))
        unit = scale * scale[:, place : place + 1] + 1e-12
        np.testing.assert_allclose(found[:, place] / unit, expected / unit, atol=1e-6)


def test_narrow_separable_tasks_take_few_iterations(rng):
    cause = rng.normal(size=(600, 3))
    X = np.sinh(1.2 * cause @ rng.normal(size=(3, 12)) + 0.3 * rng.normal(size=(600, 12)))
    y = np.digitize(cause[:, 0] + 0.05 * rng.normal(size=600), [0.0, 2.0])
    tasks = Tasks(y[None].astype(np.int16), 3)
    found = fit_tasks(Design.of(X), tasks, np.array([100.0]), LBFGS(1e-4))
    assert found.converged.all()
    assert found.n_iter <= 60  # L-BFGS alone takes hundreds
