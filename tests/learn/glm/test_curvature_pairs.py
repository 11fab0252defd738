"""The two-loop recursion against a dense inverse Hessian, and pairs at another penalty."""

from __future__ import annotations

import numpy as np
import pytest

from colabel.learn.glm.lbfgs import CurvaturePairs
from colabel.learn.glm.losses import quasi_newton_direction

N = 5


def dense_direction(gradient, pairs, diagonal):
    """Minus the BFGS inverse Hessian times the gradient, pairs from old to new."""
    H = np.diag(1.0 / diagonal)
    for step, change in pairs:
        if step @ change <= 0:
            continue
        rho = 1.0 / (step @ change)
        left = np.eye(N) - rho * np.outer(step, change)
        H = left @ H @ left.T + rho * np.outer(step, step)
    return -H @ gradient


def single(array):
    """Round to single precision, in which pairs are kept."""
    return array.astype(np.float32).astype(np.float64)


def direction(pairs, lanes, gradient, diagonal):
    return quasi_newton_direction(
        gradient,
        pairs.steps,
        pairs.changes,
        pairs.inverse_products,
        lanes,
        pairs.newest,
        diagonal,
        pairs.inverse,
        pairs.known,
    )


@pytest.fixture
def pairs_of(rng):
    """Draw a step and the gradient change of a random quadratic for each of T tasks."""
    roots = rng.normal(size=(3, N, N))
    hessians = roots @ roots.transpose(0, 2, 1) + 0.1 * np.eye(N)

    def draw(lanes):
        step = single(rng.normal(size=(len(lanes), N)))
        return step, single(np.einsum("tij,tj->ti", hessians[lanes], step))

    return draw


@pytest.mark.parametrize("n_pairs", [0, 1, 3, 4, 11])
def test_direction_equals_dense_bfgs(rng, pairs_of, n_pairs):
    pairs, lanes = CurvaturePairs.empty(3, 4, N), np.arange(3)
    seen = []
    for _ in range(n_pairs):
        step, change = pairs_of(lanes)
        pairs.remember(lanes, step, change)
        seen.append((step, change))
    gradient, diagonal = rng.normal(size=(3, N)), rng.uniform(0.5, 2, size=(3, N))
    found = direction(pairs, lanes, gradient, diagonal)
    for task in range(3):
        kept = [(step[task], change[task]) for step, change in seen[-4:]]
        expected = dense_direction(gradient[task], kept, diagonal[task])
        np.testing.assert_allclose(found[task], expected, rtol=1e-8, atol=1e-10)


def test_tasks_that_left_forget_nothing_but_time(rng, pairs_of):
    """A lane that skips a round loses the oldest pair, and only that."""
    pairs = CurvaturePairs.empty(3, 3, N)
    seen: list[list] = [[] for _ in range(3)]
    for lanes in (np.arange(3), np.arange(3), np.array([0, 2]), np.array([2])):
        step, change = pairs_of(lanes)
        pairs.remember(lanes, step, change)
        for lane in range(3):
            where = np.flatnonzero(lanes == lane)
            seen[lane].append((step[where[0]], change[where[0]]) if len(where) else None)
    gradient, diagonal = rng.normal(size=(2, N)), np.ones((2, N))
    found = direction(pairs, np.array([2, 1]), gradient, diagonal)
    for row, lane in enumerate([2, 1]):
        kept = [pair for pair in seen[lane][-3:] if pair is not None]
        expected = dense_direction(gradient[row], kept, diagonal[row])
        np.testing.assert_allclose(found[row], expected, rtol=1e-8, atol=1e-10)


def test_pairs_of_negative_curvature_are_skipped(rng, pairs_of):
    pairs, lanes = CurvaturePairs.empty(3, 4, N), np.arange(3)
    step, change = pairs_of(lanes)
    pairs.remember(lanes, step, change)
    pairs.remember(lanes, step, np.array([[-1.0], [0.0], [1.0]]) * change)
    gradient, diagonal = rng.normal(size=(3, N)), np.ones((3, N))
    found = direction(pairs, lanes, gradient, diagonal)
    for task in range(3):
        kept = [(step[task], change[task])] * (2 if task == 2 else 1)
        expected = dense_direction(gradient[task], kept, diagonal[task])
        np.testing.assert_allclose(found[task], expected, rtol=1e-8, atol=1e-10)


def test_taken_lanes_are_copies_in_the_order_asked_for(pairs_of):
    pairs, lanes = CurvaturePairs.empty(3, 2, N), np.arange(3)
    pairs.remember(lanes, *pairs_of(lanes))
    taken = pairs.take(np.array([2, 2, 0]))
    np.testing.assert_array_equal(taken.steps[:, 0], pairs.steps[[2, 2, 0], 0])
    assert taken.newest == pairs.newest
    before = pairs.steps[:, 0].copy()
    taken.remember(lanes, *pairs_of(lanes))
    taken.remember(lanes, *pairs_of(lanes))  # overwrites the first slot of the copy
    np.testing.assert_array_equal(pairs.steps[:, 0], before)


def test_pairs_are_kept_in_single_precision(rng, pairs_of):
    pairs, lanes = CurvaturePairs.empty(3, 4, N), np.arange(3)
    step, change = (part + 1e-12 * rng.normal(size=part.shape) for part in pairs_of(lanes))
    pairs.remember(lanes, step, change)
    assert (pairs.steps.dtype, pairs.changes.dtype) == (np.float32, np.float32)
    np.testing.assert_array_equal(pairs.steps[:, 0], step.astype(np.float32))
    # their product is that of the steps as they were
    np.testing.assert_allclose(1 / pairs.inverse_products[:, 0], (step * change).sum(axis=1))


def test_products_too_small_for_single_precision_are_not_used():
    pairs = CurvaturePairs.empty(1, 2, N)
    pairs.remember(np.arange(1), np.full((1, N), 1e-25), np.full((1, N), 1e-25))
    assert not pairs.inverse_products.any()


@pytest.mark.parametrize("n_scores", [1, 3])
def test_penalised_pairs_are_those_of_the_other_penalty(rng, n_scores):
    """A pair of f + strength |w|^2 / 2, from one of f + old strength |w|^2 / 2."""
    q, lanes = 4, np.arange(2)
    root = rng.normal(size=(2, n_scores * q, n_scores * q))
    hessian = root @ root.transpose(0, 2, 1)
    old, new = rng.uniform(0.5, 2.0, size=(2, 2, 1, q))
    old[..., -1] = new[..., -1] = 0.0
    pairs = [CurvaturePairs.empty(2, 3, n_scores * q) for _ in range(2)]
    for _ in range(4):
        step = rng.normal(size=(2, n_scores, q))
        flat = step.reshape(2, -1)
        smooth = np.einsum("tij,tj->ti", hessian, flat)
        for own, strength in zip(pairs, (old, new), strict=True):
            own.remember(lanes, flat, smooth + (strength * step).reshape(2, -1))
    found = pairs[0].penalised(new - old)
    assert found.newest == pairs[1].newest
    np.testing.assert_array_equal(found.steps, pairs[1].steps)
    np.testing.assert_allclose(found.changes, pairs[1].changes, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(found.inverse_products, pairs[1].inverse_products, rtol=1e-4)


def test_empty_slots_and_unusable_pairs_stay_so_under_another_penalty(rng, pairs_of):
    pairs, lanes = CurvaturePairs.empty(3, 4, N), np.arange(3)
    step, change = pairs_of(lanes)
    pairs.remember(lanes, step, -change)
    pairs.remember(np.array([0, 2]), *pairs_of(np.array([0, 2])))
    found = pairs.penalised(np.full((3, 1, N), 1e3))
    assert ((found.inverse_products > 0) == (pairs.inverse_products > 0)).all()
    before = pairs.changes.copy()
    found.remember(lanes, *pairs_of(lanes))
    np.testing.assert_array_equal(pairs.changes, before)  # what is penalised is a copy
