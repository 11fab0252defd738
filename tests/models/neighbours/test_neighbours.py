"""ML-kNN and IBLR against loops written from the papers, and how ties are broken."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from colabel import IBLR, MLkNN
from colabel.learn.conditional import TrainingData
from colabel.models.neighbours import Neighbours
from studies.methods import LiblinearRegression


def make_data(rng, n_rows=60, n_features=3, n_labels=4):
    X = rng.normal(size=(n_rows, n_features))
    scores = X @ rng.normal(size=(n_features, n_labels)) + rng.normal(size=(n_rows, n_labels))
    return X, (scores > 0.3).astype(int)


def nearest(X, x, k, own=None, **metric):
    """Positions of the k nearest rows, without ties."""
    distance = cdist(X, x[None], **metric)[:, 0]
    if own is not None:
        distance[own] = np.inf
    return np.argsort(distance)[:k]


class PaperMLkNN:
    """The pseudo-code of Zhang & Zhou (2007), figure 1."""

    def __init__(self, k, s, **metric):
        self.k, self.s, self.metric = k, s, metric

    def fit(self, X, Y):
        self.X, self.Y = X, Y
        n, d = Y.shape
        self.prior = [(self.s + Y[:, j].sum()) / (2 * self.s + n) for j in range(d)]
        self.with_label = np.zeros((d, self.k + 1))
        self.without = np.zeros((d, self.k + 1))
        for i in range(n):
            counts = Y[nearest(X, X[i], self.k, own=i, **self.metric)].sum(axis=0)
            for j in range(d):
                table = self.with_label if Y[i, j] else self.without
                table[j, counts[j]] += 1
        return self

    def predict_proba(self, X):
        prob = np.empty((len(X), self.Y.shape[1]))
        for i, x in enumerate(X):
            counts = self.Y[nearest(self.X, x, self.k, **self.metric)].sum(axis=0)
            for j, c in enumerate(counts):
                one, zero = (
                    (self.s + t[j, c]) / (self.s * (self.k + 1) + t[j].sum())
                    for t in (self.with_label, self.without)
                )
                one, zero = self.prior[j] * one, (1 - self.prior[j]) * zero
                prob[i, j] = one / (one + zero)
        return prob


@pytest.mark.parametrize(("k", "smoothing"), [(1, 1.0), (5, 1.0), (10, 0.3)])
def test_mlknn_is_the_papers(rng, k, smoothing):
    X, Y = make_data(rng)
    asked = rng.normal(size=(25, 3))
    paper = PaperMLkNN(k, smoothing).fit(X, Y)
    model = MLkNN(k, smoothing=smoothing).fit(X, Y)
    np.testing.assert_allclose(model.predict_proba(asked), paper.predict_proba(asked), atol=1e-12)
    np.testing.assert_allclose(model.priors_, paper.prior)
    assert model.likelihoods_.shape == (2, 4, k + 1)
    np.testing.assert_allclose(model.likelihoods_.sum(axis=2), 1.0)


def shares(X, Y, asked, k, own=False):
    rows = [Y[nearest(X, x, k, own=i if own else None)].mean(axis=0) for i, x in enumerate(asked)]
    return np.array(rows)


@pytest.mark.parametrize("features", [False, True])
@pytest.mark.parametrize(
    ("storage", "estimator"),
    [(np.asarray, None), (sp.csr_array, None), (np.asarray, LiblinearRegression(C=2.0))],
)
def test_iblr_is_a_regression_on_shares(rng, features, storage, estimator):
    X, Y = make_data(rng)
    asked = rng.normal(size=(25, 3))
    inputs, new = shares(X, Y, X, 5, own=True), shares(X, Y, asked, 5)
    if features:
        inputs, new = np.hstack([X, inputs]), np.hstack([asked, new])
    model = IBLR(5, features=features, C=2.0, tol=1e-10, estimator=estimator).fit(storage(X), Y)
    found = model.predict_proba(storage(asked))
    regression = LogisticRegression(C=2.0, tol=1e-10, solver="newton-cg", max_iter=1000)
    for j in range(Y.shape[1]):
        own = clone(estimator or regression).fit(inputs, Y[:, j])
        np.testing.assert_allclose(found[:, j], own.predict_proba(new)[:, 1], atol=1e-6)
    assert getattr(model, "C_", np.full(4, 2.0)).tolist() == [2.0] * 4
    assert hasattr(model, "C_") == (estimator is None)


def test_iblr_chooses_c_for_each_label(rng):
    X, Y = make_data(rng, n_rows=600)
    Y[:, 0] = rng.integers(0, 2, size=600)  # noise wants a strong penalty
    model = IBLR(C=(0.01, 1.0, 100.0), random_state=0).fit(X, Y)
    assert model.C_[0] == 0.01
    assert model.C_.max() > 0.01


# ------------------------------------------------------------------- more than two values


def test_two_values_are_two_values(rng):
    """One value against the rest, scaled to sum to one, is the binary method for two values."""
    X, Y = make_data(rng)
    third = np.zeros((60, 1), dtype=int)
    third[:2] = [[1], [2]]
    words = np.array(["no", "yes"])[Y]
    by_words = MLkNN(5).fit(X, words).predict_proba(X)
    np.testing.assert_allclose(by_words, MLkNN(5).fit(X, Y).predict_proba(X))
    several = MLkNN(5).fit(X, np.hstack([Y, third])).predict_proba(X)
    for j in range(4):
        np.testing.assert_allclose(several[j][:, 1], by_words[:, j])
    assert several[4].shape == (60, 3)


def test_values_are_learned_one_against_the_rest(rng):
    X = rng.normal(size=(80, 2))
    values = rng.integers(0, 3, size=(80, 1)) + (X[:, :1] > 0)
    one_hot = (values == np.arange(4)).astype(int)
    each = MLkNN(5).fit(X, one_hot).predict_proba(X)
    found = MLkNN(5).fit(X, values).joint(X).marginal_tables()[0]
    np.testing.assert_allclose(found, each / each.sum(axis=1, keepdims=True))


# --------------------------------------------------------------------------- neighbours


def neighbours_of(X, k=3, seed=0, metric="euclidean", algorithm="auto", **data):
    codes = np.zeros((X.shape[0], 1), dtype=np.int32)
    data = TrainingData(X, codes, (2,))
    return Neighbours.of(data, k, metric, None, algorithm, None, seed)


@pytest.mark.parametrize("algorithm", ["brute", "kd_tree"])
def test_a_row_is_not_its_own_neighbour_but_its_twin_is(rng, algorithm):
    X = np.repeat(rng.normal(size=(10, 20)) * 1e3, 2, axis=0)
    found = neighbours_of(X, k=1, algorithm=algorithm).indices(X, np.arange(20))
    np.testing.assert_array_equal(found[:, 0], np.arange(20) ^ 1)


@pytest.mark.parametrize("algorithm", ["brute", "kd_tree"])
@pytest.mark.parametrize("n_copies", [4, 40])
def test_ties_are_broken_by_the_seed(rng, n_copies, algorithm):
    """Copies of a row compete for two places: the seed alone says which win."""
    near, copied = rng.normal(size=(1, 30)), rng.normal(size=(1, 30)) + 5
    X = np.vstack([near, np.repeat(copied, n_copies, axis=0), rng.normal(size=(9, 30)) + 30])
    asked, nobody = near + 0.01, np.array([-1])

    def chosen(seed):
        search = neighbours_of(X, k=3, seed=seed, algorithm=algorithm)
        return sorted(search.indices(asked, nobody)[0].tolist())

    found = [chosen(seed) for seed in range(20)]
    assert all(rows[0] == 0 and rows[-1] <= n_copies for rows in found)
    winners = {row for rows in found for row in rows[1:]}
    assert len(winners) >= min(n_copies, 15)
    assert chosen(19) == found[-1]


def test_dense_and_sparse_rows_have_the_same_neighbours(rng):
    X = rng.integers(0, 2, size=(50, 6)).astype(float)  # full of ties
    own = np.arange(50)
    dense = neighbours_of(X).indices(X, own)
    for search, rows in [
        (neighbours_of(sp.csr_array(X)), sp.csr_array(X)),
        (neighbours_of(X), sp.csr_array(X)),
        (neighbours_of(sp.csr_array(X)), X),
    ]:
        np.testing.assert_array_equal(np.sort(search.indices(rows, own)), np.sort(dense))


@pytest.mark.parametrize(
    ("metric", "ours"),
    [
        ({"metric": "cityblock"}, {"metric": "manhattan"}),
        ({"metric": "cosine"}, {"metric": "cosine"}),
        ({"metric": "chebyshev"}, {"metric": lambda a, b: np.abs(a - b).max()}),
        ({"metric": "minkowski", "p": 1}, {"metric": "minkowski", "metric_params": {"p": 1}}),
    ],
)
def test_other_metrics(rng, metric, ours):
    X, Y = make_data(rng)
    asked = rng.normal(size=(25, 3))
    expected = PaperMLkNN(5, 1.0, **metric).fit(X, Y).predict_proba(asked)
    np.testing.assert_allclose(MLkNN(5, **ours).fit(X, Y).predict_proba(asked), expected)


@pytest.mark.parametrize("model", [MLkNN(), IBLR(C=1.0)])
def test_fewer_rows_than_neighbours(rng, model):
    X, Y = make_data(rng, n_rows=6)
    found = model.fit(X, Y).predict_proba(X)
    assert model.k_ == 5
    np.testing.assert_allclose(found, clone(model).set_params(k=5).fit(X, Y).predict_proba(X))
    alone = model.fit(X[:1], Y[:1])
    assert alone.k_ == 0
    np.testing.assert_array_equal(alone.predict(X), np.repeat(Y[:1], 6, axis=0))


@pytest.mark.parametrize("model", [MLkNN(), IBLR(C=1.0, tol=1e-9)])
def test_labels_of_weight_zero_are_missing(rng, model):
    X, Y = make_data(rng)
    gone = rng.random(Y.shape) < 0.3
    holes = np.where(gone, np.nan, Y)
    expected = clone(model).fit(X, holes).predict_proba(X)
    found = clone(model).fit(X, Y, sample_weight=np.where(gone, 0.0, 1.0)).predict_proba(X)
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_neighbours_and_rows_count_by_their_weights(rng):
    X, Y = make_data(rng)
    weight = rng.integers(1, 4, size=Y.shape).astype(float)
    model = MLkNN(k=5, random_state=0).fit(X, Y, sample_weight=weight)
    distance = ((X[:, None] - X) ** 2).sum(axis=2)
    np.fill_diagonal(distance, np.inf)
    near = np.argsort(distance, axis=1)[:, :5]
    counts = 5 * (weight * Y)[near].sum(axis=1) / weight[near].sum(axis=1)
    np.testing.assert_allclose(model._neighbours.counts_in_training(), counts)
    has = weight * Y
    expected = (1.0 + has.sum(axis=0)) / (2.0 + weight.sum(axis=0))
    np.testing.assert_allclose(model.priors_, expected)
    rounded = np.rint(counts)
    for label in range(Y.shape[1]):
        seen = [has[rounded[:, label] == c, label].sum() for c in range(6)]
        of_label = (1.0 + np.array(seen)) / (6.0 + has[:, label].sum())
        np.testing.assert_allclose(model.likelihoods_[1, label], of_label)
