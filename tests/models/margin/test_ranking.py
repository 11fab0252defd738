"""The ranking solver against a generic one, its gap, and the thresholds against enumeration."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import LinearConstraint, minimize

from colabel.models.margin._ranking import (
    KernelRows,
    LinearRows,
    best_thresholds,
    fit_threshold,
    label_pairs,
    solve_ranking,
)

TIGHT = {"tol": 1e-9, "max_iter": 20000, "seed": 0}


def small_problem(rng, n_rows=12, n_features=3, n_labels=4):
    X = rng.normal(size=(n_rows, n_features))
    relevant = rng.random((n_rows, n_labels)) < 0.5
    relevant[0], relevant[1] = True, False  # rows without pairs
    return X, relevant


def slow_objective(coef, X, relevant, C, weight):
    """The published objective, pair by pair."""
    total = 0.5 * np.sum(coef**2)
    for x, labels, w in zip(X, relevant, weight, strict=True):
        on, off = np.flatnonzero(labels), np.flatnonzero(~labels)
        for k, m in itertools.product(on, off):
            hinge = max(0.0, 1.0 - (coef[k] - coef[m]) @ x)
            total += C * w / (len(on) * len(off)) * hinge
    return total


def oracle(X, relevant, C, weight):
    """Solve the primal as a quadratic program with one slack per pair."""
    n_labels, n_features = relevant.shape[1], X.shape[1]
    size = n_labels * n_features
    rows, costs = [], []
    for x, labels, w in zip(X, relevant, weight, strict=True):
        on, off = np.flatnonzero(labels), np.flatnonzero(~labels)
        for k, m in itertools.product(on, off):
            row = np.zeros((n_labels, n_features))
            row[k], row[m] = x, -x
            rows.append(row.ravel())
            costs.append(C * w / (len(on) * len(off)))
    A, costs = np.array(rows), np.array(costs)
    n_pairs = len(costs)
    constraint = LinearConstraint(np.hstack([A, np.eye(n_pairs)]), lb=1.0)
    found = minimize(
        lambda v: 0.5 * v[:size] @ v[:size] + costs @ v[size:],
        np.concatenate([np.zeros(size), np.ones(n_pairs)]),
        jac=lambda v: np.concatenate([v[:size], costs]),
        bounds=[(None, None)] * size + [(0, None)] * n_pairs,
        constraints=[constraint],
        method="SLSQP",
        options={"ftol": 1e-12, "maxiter": 1000},
    )
    return found.x[:size].reshape(n_labels, n_features), found.fun


@pytest.mark.parametrize("C", [0.1, 2.0])
def test_linear_solution_equals_a_generic_solver(rng, C):
    X, relevant = small_problem(rng, n_rows=8)
    weight = rng.uniform(0.5, 2.0, size=len(X))
    rows = LinearRows(X, relevant.shape[1])
    found = solve_ranking(rows, label_pairs(relevant, C, weight), **TIGHT)
    coef, value = oracle(X, relevant, C, weight)
    assert found.converged
    np.testing.assert_allclose(found.primal, value, rtol=1e-6)
    np.testing.assert_allclose(rows.coef, coef, atol=1e-4)


def test_reported_objective_is_the_published_one(rng):
    X, relevant = small_problem(rng)
    weight = rng.uniform(size=len(X))
    rows = LinearRows(X, relevant.shape[1])
    found = solve_ranking(rows, label_pairs(relevant, 0.7, weight), 1e-3, 100, 0)
    expected = slow_objective(rows.coef, X, relevant, 0.7, weight)
    np.testing.assert_allclose(found.primal, expected, rtol=1e-12)


def test_gap_bounds_the_distance_to_the_optimum(rng):
    X, relevant = small_problem(rng, n_rows=40)
    pairs = label_pairs(relevant, 5.0)
    best = solve_ranking(LinearRows(X, 4), pairs, **TIGHT).primal
    previous = np.inf
    for sweeps in (1, 3, 10, 100):
        found = solve_ranking(LinearRows(X, 4), pairs, 1e-12, sweeps, 0)
        assert found.dual <= best + 1e-8
        assert found.primal >= best - 1e-8
        assert found.gap <= previous * 1.5
        previous = found.gap


@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array])
def test_sweeps_keep_the_dual_feasible_and_the_weights_true(rng, storage):
    X, relevant = small_problem(rng)
    pairs = label_pairs(relevant, 3.0, rng.uniform(size=len(X)))
    rows, alpha = LinearRows(storage(X), 4), np.zeros(pairs.first[-1])
    for _ in range(30):
        rows.sweep(pairs.with_pairs, pairs, alpha)
    coef = np.zeros((4, 3))
    for i, x in enumerate(X):
        on, off = np.flatnonzero(relevant[i]), np.flatnonzero(~relevant[i])
        own = alpha[pairs.first[i] : pairs.first[i + 1]].reshape(len(on), len(off))
        assert (own >= 0).all()
        assert (own <= pairs.cost[i]).all()
        coef[on] += np.outer(own.sum(axis=1), x)
        coef[off] -= np.outer(own.sum(axis=0), x)
    np.testing.assert_allclose(rows.coef, coef, atol=1e-12)
    assert alpha.any()


def test_the_dual_ascends(rng):
    X, relevant = small_problem(rng, n_rows=40)
    pairs = label_pairs(relevant, 1.0)
    duals = [solve_ranking(LinearRows(X, 4), pairs, 1e-12, s, 0).dual for s in range(1, 12)]
    assert (np.diff(duals) >= -1e-10).all()


def test_storages_agree(rng):
    X, relevant = small_problem(rng, n_rows=30)
    X[np.abs(X) < 0.5] = 0.0
    X[3] = 0.0  # a row of zeros violates its margins whatever the weights
    pairs = label_pairs(relevant, 1.0)
    dense, sparse, kernel = LinearRows(X, 4), LinearRows(sp.csr_array(X), 4), KernelRows(X @ X.T, 4)
    values = [solve_ranking(rows, pairs, **TIGHT).primal for rows in (dense, sparse, kernel)]
    np.testing.assert_allclose(values, values[0], rtol=1e-7)
    np.testing.assert_allclose(sparse.coef, dense.coef, atol=1e-4)
    np.testing.assert_allclose(kernel.dual_coef.T @ X, dense.coef, atol=1e-4)
    np.testing.assert_allclose(kernel.scores(), dense.scores(), atol=1e-3)


def test_scores_of_a_row_sum_to_zero(rng):
    X, relevant = small_problem(rng, n_rows=30)
    rows = LinearRows(X, 4)
    solve_ranking(rows, label_pairs(relevant, 1.0), 1e-3, 100, 0)
    np.testing.assert_allclose(rows.coef.sum(axis=0), 0.0, atol=1e-10)


def test_rows_with_all_or_no_labels_have_no_pair(rng):
    relevant = np.array([[True, True], [False, False]])
    pairs = label_pairs(relevant, 1.0)
    assert not len(pairs.with_pairs)
    rows = LinearRows(rng.normal(size=(2, 3)), 2)
    found = solve_ranking(rows, pairs, 1e-3, 10, 0)
    assert found.converged
    assert found.primal == found.dual == 0.0
    assert not rows.coef.any()


def test_best_thresholds_equal_enumeration(rng):
    scores = rng.normal(size=(200, 5)).round(1)  # with ties
    relevant = rng.random(scores.shape) < 0.5
    found = best_thresholds(scores, relevant)

    def errors(row, cut):
        return np.sum(relevant[row] & (scores[row] <= cut)) + np.sum(
            ~relevant[row] & (scores[row] > cut)
        )

    for row, cut in enumerate(found):
        candidates = np.concatenate([scores[row] - 1e-6, scores[row] + 1e-6])
        assert errors(row, cut) == min(errors(row, other) for other in candidates)


def test_threshold_is_the_least_squares_fit(rng):
    scores = rng.normal(size=(50, 3))
    relevant = scores > 0.2
    weight = rng.integers(0, 3, size=50).astype(float)
    repeated = np.repeat(np.arange(50), weight.astype(int))
    np.testing.assert_allclose(
        fit_threshold(scores, relevant, weight),
        fit_threshold(scores[repeated], relevant[repeated]),
        atol=1e-10,
    )
    coef = fit_threshold(scores, relevant)
    residual = best_thresholds(scores, relevant) - scores @ coef[:-1] - coef[-1]
    np.testing.assert_allclose(residual @ np.column_stack([scores, np.ones(50)]), 0, atol=1e-9)
