"""Score tests of all pairs of labels against plain loops."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit, softmax

from colabel.learn.structure.screening import best_candidates, label_residuals, score_tests


def draw(rng, n_rows, sizes, missing=0.0):
    scores = [rng.normal(size=(1 if size == 2 else size, n_rows)) for size in sizes]
    codes = np.column_stack([rng.integers(0, size, size=n_rows) for size in sizes])
    codes[rng.random(codes.shape) < missing] = -1
    return scores, codes.astype(np.int32)


def slow_residual(score, code, size, value, row):
    """[y = value] - P(value) of one row and its variance, zero where the label is missing."""
    if code < 0:
        return 0.0, 0.0
    prob = softmax(np.pad(score[:, row], (1, 0)) if size == 2 else score[:, row])[value]
    return float(code == value) - prob, prob * (1 - prob)


def slow_tests(scores, codes, sizes, weight):
    n_rows, n_labels = codes.shape
    found = np.zeros((n_labels, n_labels))
    for i in range(n_labels):
        for j in range(n_labels):
            signal = noise = 0.0
            for a in range(sizes[i]):
                for b in range(sizes[j]):
                    slope = 0.0
                    for n in range(n_rows):
                        r, v = slow_residual(scores[i], codes[n, i], sizes[i], a, n)
                        s, u = slow_residual(scores[j], codes[n, j], sizes[j], b, n)
                        slope += weight[n] * r * s
                        noise += weight[n] ** 2 * (r**2 * s**2 + v * u) / 2
                    signal += slope**2
            found[i, j] = signal / noise if i != j and noise else 0.0
    return found


@pytest.mark.parametrize("sizes", [(2, 2, 2), (2, 3, 2, 4)])
@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.usefixtures("few_rows_at_once")
def test_statistics_are_those_of_plain_loops(rng, sizes, missing):
    scores, codes = draw(rng, 40, sizes, missing)
    weight = rng.uniform(0.0, 3.0, size=40)
    found = score_tests(label_residuals(scores, codes, sizes), sizes, weight)
    np.testing.assert_allclose(found, slow_tests(scores, codes, sizes, weight), rtol=1e-9)


def test_only_dependence_beyond_the_features_counts(rng):
    """Labels 0 and 1 share their cause x; labels 2 and 3 depend on each other beyond it."""
    n_rows = 4000
    shared = rng.normal(size=n_rows)
    scores = np.stack([shared, shared, np.zeros(n_rows), np.zeros(n_rows)])
    codes = (rng.random((n_rows, 4)) < expit(scores.T)).astype(np.int32)
    codes[:, 3] = np.where(rng.random(n_rows) < 0.6, codes[:, 2], codes[:, 3])
    sizes = (2,) * 4
    found = score_tests(label_residuals(scores[:, None], codes, sizes), sizes, np.ones(n_rows))
    assert found[2, 3] > 400
    assert np.delete(found[np.triu_indices(4, 1)], 5).max() < 12  # about one if independent


def test_certain_and_constant_labels_are_no_candidates_by_accident(rng):
    scores, codes = draw(rng, 30, (2, 1, 2))
    scores[2] = np.where(codes[:, 2] == 1, 800.0, -800.0)[None]
    codes[:, 1] = 0
    found = score_tests(label_residuals(scores, codes, (2, 1, 2)), (2, 1, 2), np.ones(30))
    np.testing.assert_array_equal(found, 0.0)


def test_best_candidates_are_the_best_of_each_label():
    worth = np.array([[9.0, 1.0, 2.0], [1.0, 9.0, 3.0], [2.0, 3.0, 9.0]])
    chosen = best_candidates(worth, 1)
    assert chosen.T.tolist() == [[False, False, True], [False, False, True], [False, True, False]]
    everyone = ~np.eye(3, dtype=bool)
    np.testing.assert_array_equal(best_candidates(worth, 7), everyone)
