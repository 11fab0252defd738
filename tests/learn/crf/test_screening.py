"""Candidate edges come from residual dependence, not from shared features."""

from __future__ import annotations

import numpy as np

from colabel.learn.crf.learner import candidate_edges
from colabel.learn.crf.pseudo_likelihood import FieldData, FieldLayout
from colabel.learn.design import Design

ALONE = FieldLayout((2,) * 4, np.empty((0, 2), dtype=np.intp))


def draw(rng, n_rows=4000):
    """Labels 0 and 1 share their cause x; labels 2 and 3 depend on each other beyond it.

    Returns rows of a field and the parameters of independent models, which are the true ones.
    """
    shared = rng.uniform(0.1, 0.9, size=n_rows)
    prob = np.column_stack([shared, shared, np.full(n_rows, 0.5), np.full(n_rows, 0.5)])
    codes = (rng.random((n_rows, 4)) < prob).astype(np.int32)
    codes[:, 3] = np.where(rng.random(n_rows) < 0.6, codes[:, 2], codes[:, 3])
    features = Design.of(np.log((1 - shared) / shared)[:, None])
    node = features.to_basis(np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 0.0], [0.0, 0.0]])).T
    return FieldData(features, features, codes, np.ones(n_rows)), node


def test_only_dependence_beyond_the_features_counts(rng):
    data, node = draw(rng)
    assert candidate_edges(data, node, ALONE, 1).tolist() == [[2, 3]]


def test_constant_labels_and_all_pairs(rng):
    data, node = draw(rng, n_rows=50)
    data.codes[:, 1] = 0
    data.codes[0, 1] = 1
    assert len(candidate_edges(data, node, ALONE, 100)) == 6
    data.weight[0] = 0.0  # the only row in which label 1 is on
    assert candidate_edges(data, node, ALONE, 100).tolist() == [[0, 2], [0, 3], [2, 3]]
