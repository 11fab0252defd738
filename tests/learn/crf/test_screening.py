"""Candidate edges come from residual dependence, not from shared features."""

from __future__ import annotations

import numpy as np

from colabel.learn.crf import candidate_edges, residual_dependence


def log_tables(prob):
    return [np.log(np.column_stack([1 - p, p])) for p in prob.T]


def draw(rng, n_rows=4000):
    """Labels 0 and 1 share their cause x; labels 2 and 3 depend on each other beyond it."""
    shared = rng.uniform(0.1, 0.9, size=n_rows)
    prob = np.column_stack([shared, shared, np.full(n_rows, 0.5), np.full(n_rows, 0.5)])
    codes = (rng.random((n_rows, 4)) < prob).astype(np.int32)
    codes[:, 3] = np.where(rng.random(n_rows) < 0.6, codes[:, 2], codes[:, 3])
    return log_tables(prob), codes


def test_only_dependence_beyond_the_features_counts(rng):
    log_prob, codes = draw(rng)
    dependence = residual_dependence(log_prob, codes, np.ones(len(codes)))
    np.testing.assert_allclose(dependence, dependence.T)
    assert dependence[2, 3] > 20
    assert dependence[0, 1] < 4  # about one under independence
    assert candidate_edges(log_prob, codes, np.ones(len(codes)), 1).tolist() == [[2, 3]]


def test_dependence_is_that_of_the_formula(rng):
    log_prob, codes = draw(rng, n_rows=30)
    weight = rng.integers(1, 4, size=30).astype(float)
    found = residual_dependence(log_prob, codes, weight)
    left, right = (
        [(codes[:, i] == a) - np.exp(log_prob[i][:, a]) for a in range(2)] for i in (0, 2)
    )
    signal = sum((weight @ (r * s)) ** 2 for r in left for s in right)
    noise = sum((weight**2 @ (r * s) ** 2) for r in left for s in right)
    np.testing.assert_allclose(found[0, 2], np.sqrt(signal / noise))


def test_constant_labels_and_all_pairs(rng):
    log_prob, codes = draw(rng, n_rows=50)
    codes[:, 1] = 0
    codes[0, 1] = 1
    weight = np.ones(50)
    assert len(candidate_edges(log_prob, codes, weight, 100)) == 6
    weight[0] = 0.0  # the only row in which label 1 is on
    assert candidate_edges(log_prob, codes, weight, 100).tolist() == [[0, 2], [0, 3], [2, 3]]
