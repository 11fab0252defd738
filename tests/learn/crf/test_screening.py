"""Candidate edges come from residual dependence, not from shared features."""

from __future__ import annotations

import numpy as np

from colabel.learn.crf import candidate_edges


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
    assert candidate_edges(log_prob, codes, np.ones(len(codes)), 1).tolist() == [[2, 3]]


def test_constant_labels_and_all_pairs(rng):
    log_prob, codes = draw(rng, n_rows=50)
    codes[:, 1] = 0
    codes[0, 1] = 1
    weight = np.ones(50)
    assert len(candidate_edges(log_prob, codes, weight, 100)) == 6
    weight[0] = 0.0  # the only row in which label 1 is on
    assert candidate_edges(log_prob, codes, weight, 100).tolist() == [[0, 2], [0, 3], [2, 3]]
