"""Cutting planes for the metric, against brute force and a generic solver."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.optimize import minimize

from studies.methods.box_qp import box_minimise, corner_search
from studies.methods.output_coding import (
    code_of_metric,
    decode,
    learn_metric,
    most_violated,
    project_psd,
)


def corners(n_labels):
    return np.array(list(itertools.product((0.0, 1.0), repeat=n_labels)))


def random_metric(rng, n_labels, rank):
    factor = rng.normal(size=(n_labels, rank))
    return factor @ factor.T


def regression_problem(rng, n_rows=30, n_labels=4):
    labels = (rng.random((n_rows, n_labels)) < 0.4).astype(float)
    fitted = 0.3 + 0.5 * (labels - 0.3) + 0.2 * rng.normal(size=labels.shape)
    return fitted, labels


def slack(metric, fitted, labels, vectors):
    """Violation (n,) of the margin by one vector per row."""

    def squared(away):
        return np.einsum("ij,jk,ik->i", away, metric, away)

    return (
        np.abs(labels - vectors).sum(axis=1) - squared(fitted - vectors) + squared(fitted - labels)
    )


def objective(metric, fitted, labels, C):
    vectors = most_violated(metric, fitted, labels, labels)
    return 0.5 * np.trace(metric) + C * slack(metric, fitted, labels, vectors).mean()


# ------------------------------------------------------------------ the quadratic problems


@pytest.mark.parametrize("rank", [1, 3, 6])
def test_box_problem_equals_a_generic_solver(rng, rank):
    Q, linear = random_metric(rng, 6, rank), 3 * rng.normal(size=(8, 6))
    found = box_minimise(Q, linear, np.full((8, 6), 0.5))
    for y, c in zip(found, linear, strict=True):
        best = min(
            minimize(
                lambda v, c=c: v @ Q @ v - c @ v,
                start,
                jac=lambda v, c=c: 2 * Q @ v - c,
                bounds=[(0, 1)] * 6,
                method="L-BFGS-B",
                options={"ftol": 1e-15, "gtol": 1e-10},
            ).fun
            for start in (np.zeros(6), np.ones(6))
        )
        np.testing.assert_allclose(y @ Q @ y - c @ y, best, atol=1e-7)


def test_box_solutions_satisfy_the_optimality_conditions(rng):
    Q = random_metric(rng, 14, 5) + 1e-6 * np.eye(14)
    linear = rng.normal(size=(300, 14))
    y = box_minimise(Q, linear, rng.random((300, 14)))
    gradient = 2 * y @ Q - linear
    # a projected gradient step leads nowhere
    np.testing.assert_allclose(np.clip(y - gradient, 0, 1), y, atol=1e-4)


def test_box_problem_with_dependent_labels(rng):
    # half the directions count for nothing: factors of such a matrix must not blow up
    basis = np.linalg.qr(rng.normal(size=(45, 45)))[0][:, :22]
    Q = (basis * np.geomspace(10.0, 0.01, 22)) @ basis.T
    linear = 2 * rng.random((200, 45)) @ Q + 0.003 * rng.normal(size=(200, 45))
    y = box_minimise(0.5 * (Q + Q.T), linear, np.full((200, 45), 0.5))
    gradient = 2 * y @ Q - linear
    np.testing.assert_allclose(np.clip(y - gradient, 0, 1), y, atol=1e-4)


def test_box_problem_without_curvature():
    zero = np.zeros((3, 3))
    found = box_minimise(zero, np.array([[1.0, -1.0, 0.0]]), np.full((1, 3), 0.5))
    np.testing.assert_array_equal(found, [[1.0, 0.0, 0.5]])


def test_local_search_ends_where_no_pair_of_flips_helps(rng):
    Q, linear = random_metric(rng, 6, 4), 3 * rng.normal(size=(50, 6))
    found = corner_search(Q, linear, np.zeros((50, 6)))
    for y, c in zip(found, linear, strict=True):
        value = y @ Q @ y - c @ y
        for i, j in itertools.product(range(6), repeat=2):
            other = y.copy()
            other[[i, j]] = 1 - other[[i, j]]
            assert other @ Q @ other - c @ other >= value - 1e-9


# ------------------------------------------------------------------------- the separation


@pytest.mark.parametrize("rank", [1, 4])
def test_relaxed_separation_bounds_all_corners(rng, rank):
    fitted, labels = regression_problem(rng)
    metric = random_metric(rng, 4, rank)
    relaxed = slack(metric, fitted, labels, most_violated(metric, fitted, labels, labels))
    for corner in corners(4):
        vectors = np.tile(corner, (len(labels), 1))
        assert (relaxed >= slack(metric, fitted, labels, vectors) - 1e-7).all()
    assert (relaxed >= -1e-9).all()  # the true vector itself violates nothing


def test_separation_beats_a_fine_grid(rng):
    fitted, labels = regression_problem(rng, n_rows=5, n_labels=2)
    metric = random_metric(rng, 2, 2)
    found = slack(metric, fitted, labels, most_violated(metric, fitted, labels, labels))
    grid = np.array(list(itertools.product(np.linspace(0, 1, 41), repeat=2)))
    best = np.max([slack(metric, fitted, labels, np.tile(y, (5, 1))) for y in grid], axis=0)
    assert (found >= best - 1e-9).all()
    np.testing.assert_allclose(found, best, atol=0.02)


# ----------------------------------------------------------------------------- the metric


def test_projection_on_the_cone(rng):
    matrix = rng.normal(size=(5, 5))
    matrix = matrix + matrix.T
    projected = project_psd(matrix)
    assert np.linalg.eigvalsh(projected).min() >= -1e-12
    np.testing.assert_allclose(project_psd(projected), projected, atol=1e-12)
    # the residual is orthogonal to the projection and points out of the cone
    np.testing.assert_allclose(np.sum((matrix - projected) * projected), 0, atol=1e-10)
    assert np.linalg.eigvalsh(matrix - projected).max() <= 1e-12


@pytest.mark.parametrize("C", [1.0, 10.0, 100.0])
def test_metric_equals_a_generic_solver(rng, C):
    fitted, labels = regression_problem(rng, n_rows=40, n_labels=3)
    found = learn_metric(fitted, labels, C, tol=1e-4)
    assert found.converged
    np.testing.assert_allclose(
        found.objective, objective(found.metric, fitted, labels, C), rtol=1e-6
    )
    assert np.linalg.eigvalsh(found.metric).min() >= -1e-12
    values = [
        minimize(
            lambda v: objective(v.reshape(3, 3) @ v.reshape(3, 3).T, fitted, labels, C),
            start.ravel(),
            method="Nelder-Mead",
            options={"maxiter": 6000, "maxfev": 6000, "fatol": 1e-10, "xatol": 1e-8},
        ).fun
        for start in (np.eye(3), np.linalg.cholesky(found.metric + 0.01 * np.eye(3)))
    ]
    assert found.bound <= min(values) + 1e-9
    assert found.objective <= min(values) * (1 + 2e-4)


def test_learned_metric_meets_every_constraint(rng):
    fitted, labels = regression_problem(rng, n_rows=60, n_labels=5)
    C = 30.0
    found = learn_metric(fitted, labels, C, tol=1e-3)
    # one slack per row, taken from the objective's own definition ...
    slacks = slack(
        found.metric, fitted, labels, most_violated(found.metric, fitted, labels, labels)
    )
    paid = 0.5 * np.trace(found.metric) + C * slacks.mean()
    np.testing.assert_allclose(found.objective, paid, rtol=1e-6)

    def squared(away):
        return np.einsum("ij,jk,ik->i", away, found.metric, away)

    # ... is enough for each of the 2^5 published constraints of each row
    for y in corners(5):
        distance = squared(fitted - y) - squared(fitted - labels)
        margin = np.abs(labels - y).sum(axis=1)
        assert (distance >= margin - slacks - 1e-6).all()


def test_objective_falls_and_bound_holds(rng):
    fitted, labels = regression_problem(rng, n_rows=200, n_labels=6)
    best = learn_metric(fitted, labels, 50.0, tol=1e-4)
    rough = learn_metric(fitted, labels, 50.0, tol=1e-2)
    assert (np.diff(best.history) <= 1e-12).all()
    assert best.converged
    assert best.gap <= 1e-4 * best.objective
    assert rough.bound <= best.objective + 1e-9
    assert rough.n_iter <= best.n_iter
    for _ in range(20):  # no metric at all goes below the bound
        metric = random_metric(rng, 6, 6) * rng.exponential()
        assert objective(metric, fitted, labels, 50.0) >= best.bound


def test_limit_of_planes_is_reported(rng):
    fitted, labels = regression_problem(rng, n_rows=100, n_labels=5)
    found = learn_metric(fitted, labels, 10.0, tol=1e-9, max_iter=3)
    assert not found.converged
    assert found.n_iter == 3
    assert found.gap > 0


def test_code_reproduces_the_metric(rng):
    metric = random_metric(rng, 6, 3)
    code = code_of_metric(metric)
    assert code.shape == (6, 3)
    np.testing.assert_allclose(code @ code.T, metric, atol=1e-10)
    norms = np.linalg.norm(code, axis=0)
    assert (np.diff(norms) <= 0).all()
    assert code_of_metric(np.zeros((2, 2))).shape == (2, 0)


# ------------------------------------------------------------------------------ decoding


def test_decoding_nearly_always_finds_the_best_corner(rng):
    precision = random_metric(rng, 6, 6) + 0.5 * np.eye(6)
    fitted, odds = rng.normal(0.5, 0.5, size=(300, 6)), 2 * rng.normal(size=(300, 6))
    found = decode(precision, fitted, odds)

    def value(y):
        away = y - fitted
        return 0.5 * np.einsum("ij,jk,ik->i", away, precision, away) - (odds * y).sum(axis=1)

    best = np.min([value(np.tile(y, (300, 1))) for y in corners(6)], axis=0)
    assert (value(found) >= best - 1e-9).all()
    assert np.mean(value(found) <= best + 1e-9) > 0.97


def test_decoding_without_a_code_follows_the_classifiers(rng):
    odds = rng.normal(size=(20, 3))
    found = decode(np.zeros((3, 3)), rng.normal(size=(20, 3)), odds)
    np.testing.assert_array_equal(found, odds > 0)
