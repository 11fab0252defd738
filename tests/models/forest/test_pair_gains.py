"""What pairs of labels gain, against sums over the vectors that agree with a row."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from colabel.models.forest.vector_forest import Evidence, value_columns


def slow_gains(evidence, codes):
    """log P(y_i, y_j) / (P(y_i) P(y_j)) of all rows (n, d, d), NaN where a label is missing."""
    sizes = np.asarray(evidence.cardinalities)
    first = np.cumsum(sizes) - sizes
    columns = value_columns(evidence.vectors, evidence.cardinalities)
    counts = columns.T @ (evidence.counts[:, None] * columns)
    found = np.full((len(codes), len(sizes), len(sizes)), np.nan)
    for row, y in enumerate(codes):
        known = np.flatnonzero(y >= 0)
        prob = evidence.lists[[row]].toarray()[0]
        agrees = (evidence.vectors[:, known] == y[known]) * 1.0
        at = (first + y)[known]
        cells = np.outer(sizes[known], sizes[known])
        np.fill_diagonal(cells, sizes[known])
        own = evidence.own.sum(axis=1)[row]
        far = (counts[np.ix_(at, at)] - own + 1.0 / cells) / (counts[0:2, 0:2].trace() - own + 1.0)
        trust = evidence.trust[row]
        together = trust * (agrees.T * prob) @ agrees + (1.0 - trust) * far
        alone = np.log(np.diag(together))
        found[np.ix_([row], known, known)] = np.log(together) - alone[:, None] - alone
    return found


@pytest.fixture
def many_labels(rng):
    """Rows of 150 labels, mostly absent: lists of all 200 vectors, weights, and codes."""
    sizes = (2, 3) * 75
    vectors = (rng.random((200, 150)) < 0.05) * (1 + (rng.random((200, 150)) < 0.5))
    vectors = np.minimum(vectors, np.array(sizes) - 1).astype(np.int32)
    prob = rng.random((200, 200)) ** 20
    prob[rng.random(200) < 0.05] = 0.0  # rows without a list
    prob /= np.maximum(prob.sum(axis=1, keepdims=True), 1e-300)
    codes = np.where(rng.random((200, 150)) < 0.02, -1, vectors)
    weight = rng.uniform(0.5, 2.0, size=200)
    own = sp.csr_array(np.diag(np.minimum(weight, 1.0)))
    return Evidence(sp.csr_array(prob), vectors, weight, sizes, own), codes, weight


def test_all_rows_are_looked_at_however_many_labels(many_labels):
    evidence, codes, weight = many_labels
    gains = np.nan_to_num(weight[:, None, None] * slow_gains(evidence, codes)) / weight.sum()
    found = evidence.pair_gains(codes, weight, 1)
    apart = ~np.eye(150, dtype=bool)
    np.testing.assert_allclose(found[apart], gains.sum(axis=0)[apart], atol=1e-12)


def test_of_too_many_rows_some_are_drawn(many_labels):
    evidence, codes, weight = many_labels
    drawn = np.sort(np.random.default_rng(0).choice(200, 60, replace=False))
    assert drawn[-1] > 150
    gains = np.nan_to_num(weight[:, None, None] * slow_gains(evidence, codes))[drawn]
    found = evidence.pair_gains(codes, weight, 2, most_steps=1, fewest_rows=60)
    apart = ~np.eye(150, dtype=bool)
    expected = gains.sum(axis=0) / weight[drawn].sum()
    np.testing.assert_allclose(found[apart], expected[apart], atol=1e-12)


def test_of_many_labels_only_pairs_that_occur_gain(many_labels):
    evidence, codes, weight = many_labels
    every = evidence.pair_gains(codes, weight, 1)
    found = evidence.pair_gains(codes, weight, 1, all_pairs=100)
    rare = evidence.vectors > 0  # absent is the most frequent value of each label
    occur = (rare.T.astype(int) @ rare) > 0
    np.fill_diagonal(occur, False)
    assert 0.2 < occur.mean() < 0.6
    np.testing.assert_allclose(found[occur], every[occur], atol=1e-12)
    assert not found[~occur].any()
