"""The two-loop recursion against a dense inverse Hessian."""

from __future__ import annotations

import numpy as np
import pytest

from colabel.learn.glm._kernels import quasi_newton_direction
from colabel.learn.glm.batch import Memory

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


def direction(memory, lanes, gradient, diagonal):
    return quasi_newton_direction(
        gradient,
        memory.steps,
        memory.changes,
        memory.inverse_products,
        lanes,
        memory.newest,
        diagonal,
    )


@pytest.fixture
def pairs_of(rng):
    """Draw a step and the gradient change of a random quadratic for each of T tasks."""
    roots = rng.normal(size=(3, N, N))
    hessians = roots @ roots.transpose(0, 2, 1) + 0.1 * np.eye(N)

    def draw(lanes):
        step = rng.normal(size=(len(lanes), N))
        return step, np.einsum("tij,tj->ti", hessians[lanes], step)

    return draw


@pytest.mark.parametrize("n_pairs", [0, 1, 3, 4, 11])
def test_direction_equals_dense_bfgs(rng, pairs_of, n_pairs):
    memory, lanes = Memory.empty(3, 4, N), np.arange(3)
    seen = []
    for _ in range(n_pairs):
        step, change = pairs_of(lanes)
        memory.remember(lanes, step, change)
        seen.append((step, change))
    gradient, diagonal = rng.normal(size=(3, N)), rng.uniform(0.5, 2, size=(3, N))
    found = direction(memory, lanes, gradient, diagonal)
    for task in range(3):
        kept = [(step[task], change[task]) for step, change in seen[-4:]]
        expected = dense_direction(gradient[task], kept, diagonal[task])
        np.testing.assert_allclose(found[task], expected, rtol=1e-8, atol=1e-10)


def test_tasks_that_left_forget_nothing_but_time(rng, pairs_of):
    """A lane that skips a round loses the oldest pair, and only that."""
    memory = Memory.empty(3, 3, N)
    seen: list[list] = [[] for _ in range(3)]
    for lanes in (np.arange(3), np.arange(3), np.array([0, 2]), np.array([2])):
        step, change = pairs_of(lanes)
        memory.remember(lanes, step, change)
        for lane in range(3):
            where = np.flatnonzero(lanes == lane)
            seen[lane].append((step[where[0]], change[where[0]]) if len(where) else None)
    gradient, diagonal = rng.normal(size=(2, N)), np.ones((2, N))
    found = direction(memory, np.array([2, 1]), gradient, diagonal)
    for row, lane in enumerate([2, 1]):
        kept = [pair for pair in seen[lane][-3:] if pair is not None]
        expected = dense_direction(gradient[row], kept, diagonal[row])
        np.testing.assert_allclose(found[row], expected, rtol=1e-8, atol=1e-10)


def test_pairs_of_negative_curvature_are_skipped(rng, pairs_of):
    memory, lanes = Memory.empty(3, 4, N), np.arange(3)
    step, change = pairs_of(lanes)
    memory.remember(lanes, step, change)
    memory.remember(lanes, step, np.array([[-1.0], [0.0], [1.0]]) * change)
    gradient, diagonal = rng.normal(size=(3, N)), np.ones((3, N))
    found = direction(memory, lanes, gradient, diagonal)
    for task in range(3):
        kept = [(step[task], change[task])] * (2 if task == 2 else 1)
        expected = dense_direction(gradient[task], kept, diagonal[task])
        np.testing.assert_allclose(found[task], expected, rtol=1e-8, atol=1e-10)


def test_direction_descends(rng, pairs_of):
    memory, lanes = Memory.empty(3, 4, N), np.arange(3)
    for _ in range(6):
        memory.remember(lanes, *pairs_of(lanes))
    gradient = rng.normal(size=(3, N))
    found = direction(memory, lanes, gradient, np.ones((3, N)))
    assert (np.sum(found * gradient, axis=1) < 0).all()


def test_taken_lanes_are_copies_in_the_order_asked_for(pairs_of):
    memory, lanes = Memory.empty(3, 2, N), np.arange(3)
    memory.remember(lanes, *pairs_of(lanes))
    taken = memory.take(np.array([2, 2, 0]))
    np.testing.assert_array_equal(taken.steps[:, 0], memory.steps[[2, 2, 0], 0])
    assert taken.newest == memory.newest
    before = memory.steps[:, 0].copy()
    taken.remember(lanes, *pairs_of(lanes))
    taken.remember(lanes, *pairs_of(lanes))  # overwrites the first slot of the copy
    np.testing.assert_array_equal(memory.steps[:, 0], before)
