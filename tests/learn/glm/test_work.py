"""What solving costs, where it starts, and that tasks of a batch do not know each other."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from colabel.learn.design import Design
from colabel.learn.glm.lbfgs import LBFGS
from colabel.learn.glm.losses import Loss, loss_for
from tests.learn.glm.oracle import (
    CountingDesign,
    CountingLoss,
    Problem,
    logistic_targets,
    newton_decrement,
    scores_of,
    softmax_targets,
    solve,
)
from tests.learn.glm.shapes import features

# ------------------------------------------------------------------------------ starts


@pytest.mark.parametrize("n_classes", [2, 4])
def test_starts_from_far_away_end_at_the_same_point(rng, store, n_classes):
    X = features(rng, 100, 4)
    loss = loss_for(n_classes)
    problem = Problem(softmax_targets(rng, X, 3, n_classes), np.array([2.0, 1.0, 0.5]))
    design = Design.of(store(X)).block()
    expected = solve(design, loss, problem)
    start = 100.0 * rng.normal(size=expected.coef.shape)
    found = solve(design, loss, replace(problem, start=start))
    assert found.solution.converged.all()
    difference = found.scores - expected.scores
    difference -= difference.mean(axis=1, keepdims=True) if n_classes > 2 else 0.0
    np.testing.assert_allclose(difference, 0, atol=1e-6)


def saturated_problem(rng, n_classes):
    """Targets of 40 tasks and starts whose scores leave next to no curvature."""
    X = rng.normal(size=(90, 4)) + 3.0
    start = 3.0 * rng.normal(size=(40, loss_for(n_classes).n_scores, 5))
    penalty = np.tile([5.0, 0.5], 20)
    return X, Problem(softmax_targets(rng, X, 40, n_classes), penalty, start=start)


@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_saturated_starts_converge(rng, store, n_classes):
    X, problem = saturated_problem(rng, n_classes)
    solver = LBFGS(tol=1e-4)
    found = solve(Design.of(store(X)).block(), loss_for(n_classes), problem, solver)
    assert found.solution.converged.all()
    for task, y in enumerate(problem.targets):
        coef = found.coef[task] - (found.coef[task].mean(axis=0) if n_classes > 2 else 0.0)
        assert newton_decrement(X, y, coef, 1 / problem.penalty[task]) <= 10 * solver.tol


@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_no_solution_is_worse_than_its_start(rng, store, n_classes):
    X, problem = saturated_problem(rng, n_classes)
    loss = loss_for(n_classes)

    def objective(coef):
        scores = np.stack([scores_of(X, task) for task in coef])
        log_prob = loss.log_prob(scores)
        own = np.take_along_axis(log_prob, problem.targets[:, None].astype(int), axis=1)
        return -own.sum(axis=(1, 2)) + 0.5 * problem.penalty * (coef[..., :-1] ** 2).sum((1, 2))

    for max_iter in (1, 3, 1000):
        found = solve(Design.of(store(X)).block(), loss, problem, LBFGS(max_iter=max_iter))
        assert (objective(found.coef) <= objective(problem.start) * (1 + 1e-9)).all()


def test_a_start_outside_the_row_space_is_forgotten(rng, store):
    X = features(rng, 20, 100)
    problem = Problem(logistic_targets(rng, X, 1), np.array([1.0]))
    design = Design.of(store(X)).block()
    expected = solve(design, Loss(1), problem)
    found = solve(design, Loss(1), replace(problem, start=rng.normal(size=(1, 1, 101))))
    np.testing.assert_allclose(found.coef, expected.coef, rtol=1e-5, atol=1e-7)


# ---------------------------------------------------------------------------- products


def test_a_line_search_needs_no_product(rng, store):
    X = features(rng, 100, 5)
    targets = logistic_targets(rng, X, 6)
    problem = Problem(targets, np.full(6, 0.1), start=30.0 * rng.normal(size=(6, 1, 6)))
    design, loss = CountingDesign(Design.of(store(X)).block()), CountingLoss(Loss(1))
    most = solve(design, loss, problem).solution.n_iter.max()
    assert loss.n_moves > most + 1  # some steps were too long at first
    design.scores_calls.pop()  # the oracle's own, of the solution
    assert len(design.scores_calls) == len(design.rmatvec_calls) == most + 1


@pytest.mark.parametrize(("tol", "single"), [(1e-2, True), (1e-3, True), (1e-4, False)])
def test_products_are_in_double_precision_where_the_tolerance_needs_it(rng, tol, single):
    X = sp.csr_array(features(rng, 45_000, 5))  # few rows are read exactly anyway
    design = Design.of(X).block()
    targets = logistic_targets(rng, X.toarray(), 2)
    coef = rng.normal(size=(2, 1, design.n_coordinates))
    start = design.scores(coef[:, 0])[:, None]
    objective = LBFGS(tol=tol).objective(design, Loss(1), targets, start.copy())
    exact = LBFGS(tol=1e-9).objective(design, Loss(1), targets, start.copy())
    np.testing.assert_allclose(objective.gradient(), exact.gradient(), rtol=1e-5, atol=1e-5)
    assert np.array_equal(objective.gradient(), exact.gradient()) != single


def test_converged_tasks_leave_the_batch(rng, store):
    """Those that are optimal from the start cost one pair of products."""
    X = features(rng, 100, 5)
    problem = Problem(logistic_targets(rng, X, 8), np.append(np.full(7, 1.0), 1e-3))
    inner = Design.of(store(X)).block()
    expected = solve(inner, Loss(1), problem).coef
    start = expected.copy()
    start[-1] = 0.0  # one slow task among optimal ones
    design = CountingDesign(inner)
    found = solve(design, Loss(1), replace(problem, start=start), LBFGS(tol=1e-6))
    n_iter = found.solution.n_iter
    assert found.solution.converged.all()
    assert n_iter[:7].tolist() == [0] * 7
    assert n_iter[7] > 3
    assert design.scores_calls[:-1] == design.rmatvec_calls == [8] + [1] * n_iter[7]
    np.testing.assert_allclose(found.coef[:7], expected[:7], rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(found.coef[7], expected[7], rtol=1e-4, atol=1e-6)


def test_each_product_serves_the_tasks_still_at_work(rng, store):
    X = features(rng, 100, 5)
    problem = Problem(logistic_targets(rng, X, 5), 10.0 ** np.arange(-3, 2))
    design = CountingDesign(Design.of(store(X)).block())
    n_iter = solve(design, Loss(1), problem).solution.n_iter
    assert len(set(n_iter)) > 1
    assert sum(design.scores_calls[:-1]) == sum(design.rmatvec_calls) == 5 + n_iter.sum()


def test_a_task_alone_takes_the_same_iterations_as_in_a_batch(rng, store):
    X = features(rng, 100, 5)
    problem = Problem(logistic_targets(rng, X, 5), 10.0 ** np.arange(-3, 2))
    design = Design.of(store(X)).block()
    together = solve(design, Loss(1), problem, LBFGS())  # at a loose tolerance
    for task in range(5):
        own = Problem(problem.targets[task : task + 1], problem.penalty[task : task + 1])
        alone = solve(design, Loss(1), own, LBFGS())
        assert alone.solution.n_iter[0] == together.solution.n_iter[task]
        np.testing.assert_allclose(alone.coef[0], together.coef[task], rtol=1e-8, atol=1e-10)


def test_max_iter_stops_and_says_so(rng):
    X = features(rng, 100, 5)
    problem = Problem(logistic_targets(rng, X, 2), np.array([1e3, 1e-4]))
    found = solve(Design.of(X).block(), Loss(1), problem, LBFGS(tol=1e-8, max_iter=2))
    assert found.solution.n_iter.max() == 2
    assert not found.solution.converged[1]
    assert newton_decrement(X, problem.targets[1], found.coef[1], 1e4) > 1e-8


class Uphill(CountingLoss):
    """A loss that the first task can only make worse."""

    def move(self, *args):
        sums = super().move(*args)
        if self.n_moves > 1 and len(sums.value) == 2:
            sums.value[0] += 1e6
        return sums


def test_a_task_that_cannot_move_stops_alone(rng):
    X = features(rng, 100, 5)
    problem = Problem(logistic_targets(rng, X, 2), np.ones(2))
    design = Design.of(X).block()
    found = solve(design, Uphill(Loss(1)), problem)
    assert found.solution.converged.tolist() == [False, True]
    assert found.solution.n_iter[0] == 1
    np.testing.assert_allclose(found.coef[0], 0.0, atol=1e-8)
    expected = solve(design, Loss(1), problem)
    np.testing.assert_allclose(found.coef[1], expected.coef[1], rtol=1e-6, atol=1e-7)


def test_separable_tasks_converge(rng):
    X = features(rng, 100, 5)
    targets = (X[:, :3] > 0).T.astype(np.int16)
    problem = Problem(targets, np.array([1.0, 1e-2, 1e-6]))
    solver = LBFGS(tol=1e-6, max_iter=2000)
    found = solve(Design.of(X).block(), Loss(1), problem, solver)
    assert found.solution.converged.all()
    for task in range(3):
        true = newton_decrement(X, targets[task], found.coef[task], 1 / problem.penalty[task])
        assert true <= 10 * solver.tol
    assert ((found.scores[2, 0] > 0) == targets[2]).all()
