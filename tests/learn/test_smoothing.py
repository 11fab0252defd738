"""Choosing a pseudo-count on rows held out."""

from __future__ import annotations

import numpy as np
import pytest

from colabel.models.discrete_features import choose_smoothing, held_out_weights


def test_weights_are_dealt_out_completely(rng):
    weight = rng.integers(0, 9, size=40) + rng.choice([0.0, 0.25], size=40)
    for n_folds in (2, 3, 7):
        parts = held_out_weights(weight, n_folds)
        np.testing.assert_allclose(parts.sum(axis=1), weight)
        assert (parts >= 0).all()
        assert (parts.max(axis=1) - parts.min(axis=1) <= 2).all()
    parts = held_out_weights(np.ones(9), 3)  # rows of weight one are held out once
    assert ((parts == 0) | (parts == 1)).all()
    assert parts.sum(axis=0).tolist() == [3, 3, 3]


def test_copies_of_a_row_share_a_fold(rng):
    source = rng.permutation(np.repeat(np.arange(20), 2))
    weight = rng.random(40)
    parts = held_out_weights(weight, 3, source)
    np.testing.assert_allclose(parts.sum(axis=1), weight)
    for row in range(20):
        share = parts[source == row] / weight[source == row][:, None]
        np.testing.assert_allclose(share[0], share[1])
    whole = rng.integers(1, 9, size=40).astype(float)
    np.testing.assert_allclose(
        held_out_weights(whole, 3, np.arange(40)), held_out_weights(whole, 3)
    )


def test_the_best_held_out_score_wins():
    seen = []

    def scorer(left, held_out):
        seen.append((left.copy(), held_out.copy()))
        return np.array([[-3.0], [-1.0], [-2.0]]) * np.ones(len(held_out))

    assert choose_smoothing([0.1, 0.3, 1.0], np.ones(7), 3, scorer) == 0.3
    assert len(seen) == 3
    for left, held_out in seen:
        assert (left[held_out] == 0).all()
        assert left.sum() == 7 - len(held_out)
    assert sorted(np.concatenate([rows for _, rows in seen]).tolist()) == list(range(7))


def test_scores_count_by_the_weight_held_out():
    def scorer(left, held_out):
        # the first row prefers the first value, all others the second
        return np.where(held_out == 0, [[0.0], [-1.0]], [[-1.0], [0.0]])

    assert choose_smoothing([0.1, 1.0], np.array([1.0, 1.0, 1.0]), 3, scorer) == 1.0
    assert choose_smoothing([0.1, 1.0], np.array([9.0, 1.0, 1.0]), 3, scorer) == 0.1


@pytest.mark.parametrize("grid", [[0.1, 1.0], [1.0, 0.1]])
def test_the_largest_wins_a_tie_and_where_nothing_can_be_held_out(grid):
    def flat(left, held_out):
        return np.zeros((2, len(held_out)))

    def never(left, held_out):
        raise AssertionError

    assert choose_smoothing(grid, np.ones(5), 2, flat) == 1.0
    assert choose_smoothing(grid, np.ones(1), 3, never) == 1.0
