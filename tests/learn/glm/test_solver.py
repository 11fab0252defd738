"""The batched solver against scikit-learn, task by task, and against its own promises."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize
from scipy.special import expit, log_expit

from colabel.learn.glm import LBFGS, Batch, Logistic, Softmax, as_design, loss_for
from colabel.learn.glm import design as design_module
from tests.learn.glm.oracle import (
    TIGHT,
    CountingBlock,
    CountingLoss,
    gradient,
    logistic_targets,
    probabilities,
    residual,
    scores_of,
    sklearn_coef,
    softmax_targets,
)

STORAGES = {"dense": np.asarray, "csr": sp.csr_array}


@pytest.fixture(params=STORAGES)
def store(request):
    return STORAGES[request.param]


@pytest.fixture(params=[False, True], ids=["unweighted", "weighted"])
def weighted(request) -> bool:
    return request.param


def features(rng, n_rows, n_features):
    """Correlated features of unequal scales and means, a third of them zero."""
    X = rng.normal(size=(n_rows, n_features)) @ rng.normal(size=(n_features, n_features))
    return (X + rng.normal(size=n_features)) * (rng.random(X.shape) < 0.7)


def weights(rng, n_rows, wanted):
    return rng.uniform(0.2, 3.0, size=n_rows) * (rng.random(n_rows) < 0.9) if wanted else None


def assert_optimal(X, batch, solution, solver=TIGHT, slack=1.0 + 1e-6):
    """Every task converged, and its gradient, by the definition, is within the tolerance."""
    assert solution.converged.all()
    for task in range(batch.n_tasks):
        offset = 0.0 if batch.offset is None else batch.offset[task]
        found = residual(
            X,
            batch.targets[task],
            solution.coef[task],
            1 / batch.penalty[task],
            batch.weight,
            offset,
        )
        # rounding of the scores in the user's features
        assert found <= slack * solver.tol + 1e-11


# ------------------------------------------------------------------ against scikit-learn


def test_logistic_tasks_equal_scikit_learn(rng, store, weighted):
    X = features(rng, 120, 6)
    weight = weights(rng, 120, weighted)
    targets = logistic_targets(rng, X, 4)
    C = np.array([0.01, 0.3, 1.0, 20.0])
    solution = TIGHT.solve(
        as_design(store(X), weight).block(), Logistic(), Batch(targets, 1 / C, weight)
    )
    for task in range(4):
        expected = sklearn_coef(X, targets[task], C[task], weight)
        np.testing.assert_allclose(solution.coef[task], expected, rtol=1e-6, atol=1e-7)
    assert_optimal(X, Batch(targets, 1 / C, weight), solution)


def test_every_task_has_its_own_rows(rng, store, weighted):
    X = features(rng, 150, 5)
    weight = weights(rng, 150, weighted)
    targets = logistic_targets(rng, X, 4)
    targets[rng.random(targets.shape) < 0.4] = -1
    targets[:, :2] = [0, 1]
    penalty = np.full(4, 0.5)
    solution = TIGHT.solve(
        as_design(store(X), weight).block(), Logistic(), Batch(targets, penalty, weight)
    )
    for task in range(4):
        expected = sklearn_coef(X, targets[task], 2.0, weight)
        np.testing.assert_allclose(solution.coef[task], expected, rtol=1e-6, atol=1e-7)
    scores = np.stack([scores_of(X, coef) for coef in solution.coef])
    np.testing.assert_allclose(solution.scores, scores, atol=1e-9)  # rows outside too


@pytest.mark.parametrize("n_classes", [3, 4, 5])
def test_softmax_tasks_equal_scikit_learn(rng, store, weighted, n_classes):
    X = features(rng, 150, 4)
    weight = weights(rng, 150, weighted)
    if weight is not None:
        weight[:n_classes] = 1.0  # every class has weight
    targets = softmax_targets(rng, X, 3, n_classes)
    targets[rng.random(targets.shape) < 0.2] = -1
    targets[:, :n_classes] = np.arange(n_classes)
    C = np.array([0.05, 1.0, 5.0])
    batch = Batch(targets, 1 / C, weight)
    solution = TIGHT.solve(as_design(store(X), weight).block(), Softmax(n_classes), batch)
    for task in range(3):
        expected = sklearn_coef(X, targets[task], C[task], weight)
        centred = [coef - coef.mean(axis=0) for coef in (solution.coef[task], expected)]
        np.testing.assert_allclose(*centred, rtol=1e-5, atol=1e-6)
        # the penalty alone already centres the features' coefficients
        np.testing.assert_allclose(solution.coef[task, :, :-1].mean(axis=0), 0, atol=1e-6)
        np.testing.assert_allclose(
            probabilities(solution.scores[task]),
            probabilities(scores_of(X, expected)),
            atol=1e-7,
        )
    assert_optimal(X, batch, solution)


def test_softmax_of_two_classes_gives_the_logistic_probabilities(rng):
    X = features(rng, 90, 3)
    targets = logistic_targets(rng, X, 2)
    block = as_design(X).block()
    one = TIGHT.solve(block, Logistic(), Batch(targets, np.array([1.0, 0.2])))
    # the symmetric form spreads a coefficient over two scores: half the squared norm
    two = TIGHT.solve(block, Softmax(2), Batch(targets, np.array([2.0, 0.4])))
    np.testing.assert_allclose(
        two.scores[:, 1] - two.scores[:, 0], one.scores[:, 0], rtol=1e-6, atol=1e-7
    )


# ------------------------------------------------------------------------- shapes of X


def single(rng):
    return features(rng, 60, 1)


def wide(rng):
    return features(rng, 30, 100)


def wide_and_shifted(rng):
    return rng.normal(size=(30, 100)) + 50.0


def a_little_wide(rng):
    return features(rng, 30, 45)


def tall(rng):
    return features(rng, 300, 5)


def rank_deficient(rng):
    X = features(rng, 80, 3)
    return np.hstack([X, X[:, :1], X @ rng.normal(size=(3, 4))])


def constant_columns(rng):
    X = features(rng, 80, 3)
    return np.hstack([np.full((80, 1), 0.1), X, np.full((80, 1), 7.0), np.zeros((80, 1))])


def only_constant_columns(_):
    return np.tile([0.1, 7.0, 0.0], (50, 1))


def badly_scaled(rng):
    return rng.normal(size=(200, 7)) * 10.0 ** np.arange(-6, 7, 2)


def one_huge_column(rng):
    X = rng.normal(size=(200, 3))
    X[:, 0] *= 1e7
    return X


def shifted(rng):
    return rng.normal(size=(100, 3)) + np.array([1e3, -1e3, 0])


SHAPES = [
    single,
    wide,
    wide_and_shifted,
    a_little_wide,
    tall,
    rank_deficient,
    constant_columns,
    only_constant_columns,
    shifted,
]


@pytest.mark.parametrize("make", SHAPES)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_solutions_are_optimal_in_the_users_features(rng, store, make, n_classes):
    X = make(rng)
    targets = (
        logistic_targets(rng, X, 3) if n_classes == 2 else softmax_targets(rng, X, 3, n_classes)
    )
    batch = Batch(targets, np.array([10.0, 1.0, 0.1]))
    solver = LBFGS(tol=1e-7, max_iter=5000)
    solution = solver.solve(as_design(store(X)).block(), loss_for(n_classes), batch)
    assert_optimal(X, batch, solution, solver)


@pytest.mark.parametrize("make", [badly_scaled, one_huge_column])
def test_solutions_are_optimal_for_features_of_very_different_scales(rng, store, make):
    X = make(rng)
    batch = Batch(logistic_targets(rng, X, 3), np.array([10.0, 1.0, 0.1]))
    solver = LBFGS(tol=1e-5, max_iter=20_000)
    solution = solver.solve(as_design(store(X)).block(), Logistic(), batch)
    assert_optimal(X, batch, solution, solver, slack=1.01)


def test_a_huge_column_does_not_silence_an_informative_one(rng):
    X = np.column_stack([1e7 * rng.normal(size=300), rng.normal(size=300)])
    y = (X[:, 1] + 0.3 * rng.normal(size=300) > 0).astype(np.int16)[None]
    solution = LBFGS(tol=1e-6).solve(as_design(X).block(), Logistic(), Batch(y, np.array([1.0])))
    assert solution.coef[0, 0, 1] > 1.0


@pytest.mark.parametrize("make", [wide, a_little_wide])
def test_more_features_than_rows_equals_scikit_learn(rng, store, make):
    X = make(rng)
    targets = logistic_targets(rng, X, 2)
    batch = Batch(targets, np.array([1.0, 5.0]))
    block = as_design(store(X)).block()
    if make is wide:
        assert block.n_coordinates <= 31  # the row space and the intercept
    solution = TIGHT.solve(block, Logistic(), batch)
    for task in range(2):
        expected = sklearn_coef(X, targets[task], 1 / batch.penalty[task])
        np.testing.assert_allclose(solution.coef[task], expected, rtol=1e-5, atol=1e-7)


def test_blocks_of_some_rows_equal_scikit_learn_on_those_rows(rng, store, weighted):
    X = features(rng, 200, 40)
    weight = weights(rng, 200, weighted)
    targets = logistic_targets(rng, X, 1)
    design = as_design(store(X), weight)
    for rows in (np.arange(0, 200, 2), np.arange(0, 200, 13)):  # the second in its row space
        part = targets[:, rows].copy()
        part[:, :2] = [0, 1]
        own = None if weight is None else np.maximum(weight[rows], 0.1)
        solution = TIGHT.solve(design.block(rows), Logistic(), Batch(part, np.array([1.0]), own))
        expected = sklearn_coef(X[rows], part[0], 1.0, own)
        np.testing.assert_allclose(solution.coef[0], expected, rtol=1e-5, atol=1e-6)


def test_without_rotation_the_answer_is_the_same(rng, monkeypatch):
    X = features(rng, 60, 8)
    batch = Batch(logistic_targets(rng, X, 3), np.array([3.0, 1.0, 0.1]))
    rotated = TIGHT.solve(as_design(X).block(), Logistic(), batch)
    monkeypatch.setattr(design_module, "_LARGEST_ROTATION", 4)
    plain = TIGHT.solve(as_design(X).block(), Logistic(), batch)
    np.testing.assert_allclose(plain.coef, rotated.coef, rtol=1e-6, atol=1e-7)


def test_rows_in_other_integer_types_and_orders(rng):
    X = sp.csr_array(features(rng, 50, 4))
    X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    batch = Batch(logistic_targets(rng, X, 1), np.array([1.0]))
    expected = TIGHT.solve(as_design(X.toarray()).block(), Logistic(), batch)
    for stored in (X, sp.csc_array(X), sp.coo_array(X), sp.csr_matrix(X)):
        found = TIGHT.solve(as_design(stored).block(), Logistic(), batch)
        np.testing.assert_allclose(found.coef, expected.coef, rtol=1e-6, atol=1e-7)


# ------------------------------------------------------------------- offsets and starts


def test_offsets_are_a_fixed_part_of_the_scores(rng, store, weighted):
    X = features(rng, 80, 3)
    weight = weights(rng, 80, weighted)
    targets = logistic_targets(rng, X, 2)
    batch = Batch(targets, np.array([1.0, 0.2]), weight, rng.normal(size=(2, 1, 80)))
    solution = TIGHT.solve(as_design(store(X), weight).block(), Logistic(), batch)
    w = np.ones(80) if weight is None else weight
    for task in range(2):
        sign = 2.0 * targets[task] - 1.0

        def objective(coef, task=task, sign=sign):
            scores = X @ coef[:-1] + coef[-1] + batch.offset[task, 0]
            loss = -w @ log_expit(sign * scores)
            wrong = w * -sign * expit(-sign * scores)
            slope = np.append(X.T @ wrong + batch.penalty[task] * coef[:-1], wrong.sum())
            return loss + 0.5 * batch.penalty[task] * coef[:-1] @ coef[:-1], slope

        found = minimize(objective, np.zeros(4), jac=True, method="BFGS", options={"gtol": 1e-7})
        np.testing.assert_allclose(solution.coef[task, 0], found.x, rtol=1e-5, atol=1e-5)
    assert_optimal(X, batch, solution)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_starts_from_far_away_end_at_the_same_point(rng, store, n_classes):
    X = features(rng, 100, 4)
    targets = softmax_targets(rng, X, 3, n_classes)
    loss = loss_for(n_classes)
    batch = Batch(targets, np.array([2.0, 1.0, 0.5]))
    block = as_design(store(X)).block()
    expected = TIGHT.solve(block, loss, batch)
    start = 100.0 * rng.normal(size=expected.coef.shape)
    found = TIGHT.solve(block, loss, replace(batch, start=start))
    assert_optimal(X, batch, found, slack=100.0)  # scores of thousands leave rounding errors
    difference = found.scores - expected.scores
    difference -= difference.mean(axis=1, keepdims=True) if n_classes > 2 else 0.0
    np.testing.assert_allclose(difference, 0, atol=1e-6)


def saturated_problem(rng, n_classes):
    """Targets of 40 tasks and starts whose scores leave next to no curvature."""
    X = rng.normal(size=(90, 4)) + 3.0
    start = 3.0 * rng.normal(size=(40, loss_for(n_classes).n_scores, 5))
    penalty = np.tile([5.0, 0.5], 20)
    return X, Batch(softmax_targets(rng, X, 40, n_classes), penalty, start=start)


@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_saturated_starts_converge(rng, store, n_classes):
    X, batch = saturated_problem(rng, n_classes)
    solver = LBFGS(tol=1e-4)
    solution = solver.solve(as_design(store(X)).block(), loss_for(n_classes), batch)
    assert_optimal(X, batch, solution, solver)


@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_no_solution_is_worse_than_its_start(rng, store, n_classes):
    X, batch = saturated_problem(rng, n_classes)
    loss = loss_for(n_classes)

    def objective(coef):
        scores = np.stack([scores_of(X, task) for task in coef])
        still = np.zeros(len(coef))
        value = loss.terms(scores, scores, still, batch.targets, None).value
        return value + 0.5 * batch.penalty * (coef[..., :-1] ** 2).sum(axis=(1, 2))

    for max_iter in (1, 3, 1000):
        solution = LBFGS(max_iter=max_iter).solve(as_design(store(X)).block(), loss, batch)
        assert (objective(solution.coef) <= objective(batch.start) * (1 + 1e-9)).all()


def test_a_start_outside_the_row_space_is_forgotten(rng, store):
    X = features(rng, 20, 100)
    batch = Batch(logistic_targets(rng, X, 1), np.array([1.0]))
    block = as_design(store(X)).block()
    expected = TIGHT.solve(block, Logistic(), batch)
    found = TIGHT.solve(block, Logistic(), replace(batch, start=rng.normal(size=(1, 1, 101))))
    np.testing.assert_allclose(found.coef, expected.coef, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("make", [tall, wide, a_little_wide, rank_deficient])
def test_coordinates_keep_scores(rng, store, make):
    X = make(rng)
    block = as_design(store(X)).block()
    coef = rng.normal(size=(2, 3, X.shape[1] + 1))
    inner = block.to_coordinates(coef)
    assert inner.shape == (2, 3, block.n_coordinates)
    scores = np.einsum("tkp,np->tkn", coef[..., :-1], X) + coef[..., -1:]
    np.testing.assert_allclose(block.scores(inner), scores, atol=1e-8)
    back = block.from_coordinates(inner)
    np.testing.assert_allclose(block.scores(block.to_coordinates(back)), scores, atol=1e-8)


@pytest.mark.parametrize("make", [tall, shifted, wide, wide_and_shifted, a_little_wide])
def test_the_stopping_rule_bounds_every_entry_of_the_gradient(rng, store, make):
    X = make(rng)
    with_ones = np.column_stack([X, np.ones(len(X))])
    design = as_design(store(X))
    for rows in (np.arange(len(X)), np.arange(0, len(X), 5), np.arange(2)):
        block = design.block(rows)
        noise = rng.normal(size=len(rows))
        for wrong in (noise, np.ones(len(rows)), noise + 1.0):
            claimed = block.largest(block.pullback(wrong[None, None]))
            assert claimed[0] >= np.abs(wrong @ with_ones[rows]).max() * (1 - 1e-9)


def test_few_rows_far_from_the_origin_are_solved_to_the_tolerance(rng, store):
    X = rng.normal(size=(300, 80)) + 1000.0
    rows = np.arange(30)  # a block in the span of its rows
    batch = Batch(logistic_targets(rng, X[rows], 20), np.full(20, 1.0))
    solver = LBFGS(tol=1e-4, max_iter=5000)
    solution = solver.solve(as_design(store(X)).block(rows), Logistic(), batch)
    assert_optimal(X[rows], batch, solution, solver)


def test_products_are_transposes_of_each_other(rng, store):
    block = as_design(store(features(rng, 40, 6))).block()
    coef = rng.normal(size=(2, 3, block.n_coordinates))
    rows = rng.normal(size=(2, 3, 40))
    np.testing.assert_allclose(
        np.sum(block.scores(coef) * rows), np.sum(coef * block.pullback(rows)), rtol=1e-10
    )


# ------------------------------------------------------------------------ work it does


def test_a_line_search_needs_no_product(rng, store):
    X = features(rng, 100, 5)
    targets = logistic_targets(rng, X, 6)
    batch = Batch(targets, np.full(6, 0.1), start=30.0 * rng.normal(size=(6, 1, 6)))
    block, loss = CountingBlock(as_design(store(X)).block()), CountingLoss(Logistic())
    solution = TIGHT.solve(block, loss, batch)
    most = solution.n_iter.max()
    assert loss.n_terms > most + 1  # some steps were too long at first
    assert len(block.scores_calls) == len(block.pullback_calls) == most + 1


def test_an_optimal_start_costs_one_pair_of_products(rng, store):
    X = features(rng, 100, 5)
    batch = Batch(logistic_targets(rng, X, 4), np.full(4, 1.0))
    inner = as_design(store(X)).block()
    coef = LBFGS(tol=1e-9).solve(inner, Logistic(), batch).coef
    block = CountingBlock(inner)
    solution = LBFGS(tol=1e-6).solve(block, Logistic(), replace(batch, start=coef))
    assert (block.scores_calls, block.pullback_calls) == ([4], [4])
    assert solution.n_iter.tolist() == [0] * 4
    assert solution.converged.all()
    np.testing.assert_allclose(solution.coef, coef, rtol=1e-8, atol=1e-10)


def test_converged_tasks_leave_the_batch(rng, store):
    X = features(rng, 100, 5)
    batch = Batch(logistic_targets(rng, X, 8), np.append(np.full(7, 1.0), 1e-3))
    inner = as_design(store(X)).block()
    start = LBFGS(tol=1e-9).solve(inner, Logistic(), batch).coef
    start[-1] = 0.0  # one slow task among optimal ones
    block = CountingBlock(inner)
    solution = LBFGS(tol=1e-6).solve(block, Logistic(), replace(batch, start=start))
    assert solution.n_iter[:7].tolist() == [0] * 7
    assert solution.n_iter[7] > 3
    assert block.scores_calls == block.pullback_calls == [8] + [1] * solution.n_iter[7]


def test_each_product_serves_the_tasks_still_at_work(rng, store):
    X = features(rng, 100, 5)
    batch = Batch(logistic_targets(rng, X, 5), 10.0 ** np.arange(-3, 2))
    block = CountingBlock(as_design(store(X)).block())
    solution = TIGHT.solve(block, Logistic(), batch)
    assert len(set(solution.n_iter)) > 1
    assert sum(block.scores_calls) == sum(block.pullback_calls) == 5 + solution.n_iter.sum()


def test_a_task_alone_takes_the_same_iterations_as_in_a_batch(rng):
    X = features(rng, 100, 5)
    batch = Batch(logistic_targets(rng, X, 5), 10.0 ** np.arange(-3, 2))
    block = as_design(X).block()
    together = LBFGS(tol=1e-6).solve(block, Logistic(), batch)
    for task in range(5):
        own = Batch(batch.targets[task : task + 1], batch.penalty[task : task + 1])
        alone = LBFGS(tol=1e-6).solve(block, Logistic(), own)
        assert alone.n_iter[0] == together.n_iter[task]
        np.testing.assert_allclose(alone.coef[0], together.coef[task], rtol=1e-6, atol=1e-8)


def test_max_iter_stops_and_says_so(rng):
    X = features(rng, 100, 5)
    batch = Batch(logistic_targets(rng, X, 2), np.array([1e3, 1e-4]))
    solution = LBFGS(tol=1e-8, max_iter=2).solve(as_design(X).block(), Logistic(), batch)
    assert solution.n_iter.max() == 2
    assert not solution.converged[1]
    exact = np.abs(gradient(X, batch.targets[1], solution.coef[1], 1e4)).max()
    assert exact > 1e-8


class Uphill(CountingLoss):
    """A loss that the first task can only make worse."""

    def terms(self, *args):
        terms = super().terms(*args)
        if self.n_terms > 1 and len(terms.value) == 2:
            terms.value[0] += 1e6
        return terms


def test_a_task_that_cannot_move_stops_alone(rng):
    X = features(rng, 100, 5)
    batch = Batch(logistic_targets(rng, X, 2), np.ones(2))
    block = as_design(X).block()
    solution = TIGHT.solve(block, Uphill(Logistic()), batch)
    assert solution.converged.tolist() == [False, True]
    assert solution.n_iter[0] == 1
    np.testing.assert_allclose(solution.coef[0], 0.0, atol=1e-8)
    expected = TIGHT.solve(block, Logistic(), batch)
    np.testing.assert_allclose(solution.coef[1], expected.coef[1], rtol=1e-6, atol=1e-7)


def test_separable_tasks_converge(rng):
    X = features(rng, 100, 5)
    targets = (X[:, :3] > 0).T.astype(np.int16)
    batch = Batch(targets, np.array([1.0, 1e-2, 1e-6]))
    solver = LBFGS(tol=1e-6, max_iter=2000)
    solution = solver.solve(as_design(X).block(), Logistic(), batch)
    assert_optimal(X, batch, solution, solver)
    assert ((solution.scores[2, 0] > 0) == targets[2]).all()


# ----------------------------------------------------------------------- extra features


def test_tasks_use_the_extra_features_they_are_allowed(rng, store, weighted):
    X, extra = features(rng, 150, 4), (rng.random((150, 3)) < 0.4).astype(float)
    weight = weights(rng, 150, weighted)
    targets = logistic_targets(rng, np.hstack([X, extra]), 4)
    allowed = np.array([[1, 1, 1], [0, 1, 0], [0, 0, 0], [1, 0, 1]], dtype=bool)
    batch = Batch(targets, np.full(4, 0.5), weight, allowed=allowed)
    design = as_design(store(X), weight, extra)
    assert design.shape == (150, 7)
    solution = TIGHT.solve(design.block(), Logistic(), batch)
    assert solution.converged.all()
    for task in range(4):
        columns = np.append(np.ones(4, dtype=bool), allowed[task])
        expected = sklearn_coef(np.hstack([X, extra])[:, columns], targets[task], 2.0, weight)
        kept = np.append(columns, True)
        np.testing.assert_allclose(solution.coef[task][:, kept], expected, rtol=1e-6, atol=1e-7)
        assert (solution.coef[task][:, ~kept] == 0.0).all()


def test_forbidden_features_stay_zero_from_any_start(rng, store):
    X, extra = features(rng, 60, 4), rng.normal(size=(60, 2))
    batch = Batch(
        softmax_targets(rng, X, 1, 3),
        np.array([1.0]),
        start=rng.normal(size=(1, 3, 7)),
        allowed=np.array([[False, True]]),
    )
    solution = TIGHT.solve(as_design(store(X), None, extra).block(), Softmax(3), batch)
    assert (solution.coef[0, :, 4] == 0.0).all()
    assert (solution.coef[0, :, 5] != 0.0).all()
    scores = scores_of(np.hstack([X, extra]), solution.coef[0])
    np.testing.assert_allclose(solution.scores[0], scores, atol=1e-9)


def test_few_rows_with_extra_features_equal_scikit_learn(rng, store):
    X, extra = features(rng, 20, 60), rng.normal(size=(20, 3))
    targets = logistic_targets(rng, X, 1)
    batch = Batch(targets, np.array([1.0]), allowed=np.array([[True, False, True]]))
    solution = TIGHT.solve(as_design(store(X), None, extra).block(), Logistic(), batch)
    expected = sklearn_coef(np.hstack([X, extra[:, [0, 2]]]), targets[0], 1.0)
    np.testing.assert_allclose(
        np.delete(solution.coef[0], 61, axis=1), expected, rtol=1e-5, atol=1e-7
    )


@pytest.mark.parametrize("n_extra", [0, 2])
def test_empty_columns_of_sparse_rows_cost_nothing_and_change_nothing(rng, n_extra):
    X = sp.random_array((500, 20), density=0.3, rng=rng, format="csr")
    columns = np.sort(rng.permutation(1000)[:20])
    wide = sp.csr_array((X.data, columns[X.indices], X.indptr), shape=(500, 1000))
    extra = rng.normal(size=(500, n_extra)) if n_extra else None
    batch = Batch(logistic_targets(rng, X, 3), np.ones(3))
    narrow = TIGHT.solve(as_design(X, extra=extra).block(), Logistic(), batch)
    block = as_design(wide, extra=extra).block()
    assert block.n_coordinates == 20 + n_extra + 1
    started = replace(batch, start=rng.normal(size=(3, 1, 1001 + n_extra)))
    kept = np.concatenate([columns, np.arange(1000, 1001 + n_extra)])
    for solution in (TIGHT.solve(block, Logistic(), b) for b in (batch, started)):
        assert solution.coef.shape == (3, 1, 1001 + n_extra)
        np.testing.assert_allclose(solution.coef[..., kept], narrow.coef, atol=1e-6)
        assert not np.delete(solution.coef, kept, axis=2).any()
