"""MaxMarginOutputCoding: the contract, decoding, dependence between labels, errors."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Ridge
from sklearn.preprocessing import StandardScaler

from colabel import BinaryRelevance
from colabel.metrics import exact_match
from studies.datasets import kfold, load
from studies.methods import MaxMarginOutputCoding
from studies.methods.output_coding import mean_field

FAST = {"alphas": 1.0, "logistic_C": 1.0, "random_state": 0}


def exclusive_labels(rng, n_rows=400):
    """Three labels of which exactly one holds, hard to tell apart, and a copy of the first."""
    X = rng.normal(size=(n_rows, 4))
    scores = X @ rng.normal(size=(4, 3)) + 1.5 * rng.gumbel(size=(n_rows, 3))
    Y = np.eye(3, dtype=int)[scores.argmax(axis=1)]
    return X, np.column_stack([Y, Y[:, 0]])


def test_predicts_label_vectors_that_go_together(rng):
    X, Y = exclusive_labels(rng, 800)
    train, test = slice(0, 600), slice(600, None)
    model = MaxMarginOutputCoding(random_state=0).fit(X[train], Y[train])
    alone = BinaryRelevance(random_state=0).fit(X[train], Y[train])
    predicted = model.predict(X[test])
    assert exact_match(Y[test], predicted) > exact_match(Y[test], alone.predict(X[test])) + 0.05
    assert (predicted[:, 0] == predicted[:, 3]).mean() > 0.95
    assert (predicted[:, :3].sum(axis=1) == 1).mean() > 0.9


def test_fitted_parts_are_the_documented_ones(rng):
    X, Y = exclusive_labels(rng)
    model = MaxMarginOutputCoding(**FAST).fit(X, Y)
    expected = Ridge(alpha=1.0).fit(X, Y)
    np.testing.assert_allclose(model.regression_.coef_, expected.coef_, atol=1e-8)
    assert np.linalg.eigvalsh(model.metric_).min() >= -1e-9
    np.testing.assert_allclose(model.code_ @ model.code_.T, model.metric_, atol=1e-4)
    assert 0 <= model.duality_gap_ <= model.tol * model.objective_
    assert model.regression_.alpha == 1.0
    assert model.n_iter_ >= 1


def test_prediction_minimises_the_documented_objective(rng):
    X, Y = exclusive_labels(rng)
    model = MaxMarginOutputCoding(weight=0.7, **FAST).fit(X, Y)
    fitted = model.regression_.predict(X)
    prob = model.models_.predict_proba(X)
    odds = np.log(prob / (1 - prob))

    def value(y):
        away = y - fitted
        quadratic = 0.5 * np.einsum("ij,jk,ik->i", away, model.precision_, away)
        return quadratic - 0.7 * (odds * y).sum(axis=1)

    corners = np.array(list(itertools.product((0, 1), repeat=4)))
    best = np.min([value(np.tile(y, (len(X), 1))) for y in corners], axis=0)
    assert np.mean(value(model.predict(X)) <= best + 1e-8) > 0.97


def test_decoding_by_mean_field(rng):
    X, Y = exclusive_labels(rng)
    search = MaxMarginOutputCoding(weight=0.7, **FAST).fit(X, Y)
    model = MaxMarginOutputCoding(weight=0.7, decoding="mean field", **FAST).fit(X, Y)
    np.testing.assert_allclose(model.precision_, search.precision_)
    prob = model.models_.predict_proba(X)
    odds = np.log(prob / (1 - prob))
    fitted = model.regression_.predict(X)
    expected = mean_field(model.precision_, fitted, 0.7 * odds) > 0.5
    np.testing.assert_array_equal(model.predict(X), expected)
    assert 0 < (model.predict(X) != search.predict(X)).any(axis=1).mean() < 0.3


def test_covariances_of_the_code(rng):
    X = rng.normal(size=(300, 3))
    shared = rng.normal(size=(300, 1))  # correlates the errors
    Y = (X + shared + 0.5 * rng.normal(size=(300, 3)) > 0).astype(int)
    full = MaxMarginOutputCoding(**FAST).fit(X, Y)
    diagonal = MaxMarginOutputCoding(code_covariance="diagonal", **FAST).fit(X, Y)
    np.testing.assert_allclose(full.metric_, diagonal.metric_)
    errors = (Y - full.regression_.predict(X)) @ full.code_
    expected = (full.code_ / errors.var(axis=0)) @ full.code_.T
    np.testing.assert_allclose(diagonal.precision_, expected, rtol=0.05, atol=0.05)
    expected = full.code_ @ np.linalg.inv(np.cov(errors.T)) @ full.code_.T
    np.testing.assert_allclose(full.precision_, expected, rtol=0.05, atol=0.05)
    assert not np.allclose(full.precision_, diagonal.precision_, rtol=0.05)
    # M leaves the rotation of the code open: in one of them variances alone are the covariance
    _, rotation = np.linalg.eigh(np.cov(errors.T))
    turned = full.code_ @ rotation
    np.testing.assert_allclose(turned @ turned.T, full.code_ @ full.code_.T)
    expected = (turned / (errors @ rotation).var(axis=0)) @ turned.T
    np.testing.assert_allclose(full.precision_, expected, rtol=0.05, atol=0.05)


def test_weight_zero_and_a_great_weight(rng):
    X, Y = exclusive_labels(rng)
    sure = MaxMarginOutputCoding(weight=1e6, **FAST).fit(X, Y)
    alone = BinaryRelevance(C=1.0, random_state=0).fit(X, Y)
    assert (sure.predict(X) == alone.predict(X)).mean() > 0.99
    MaxMarginOutputCoding(weight=0.0, **FAST).fit(X, Y).predict(X)


def test_sparse_features_give_the_answers_of_dense_ones(rng):
    X, Y = exclusive_labels(rng)
    X[np.abs(X) < 0.5] = 0.0
    dense = MaxMarginOutputCoding(**FAST).fit(X, Y)
    sparse = MaxMarginOutputCoding(**FAST).fit(sp.csr_array(X), Y)
    np.testing.assert_allclose(sparse.regression_.coef_, dense.regression_.coef_, atol=1e-3)
    assert (sparse.predict(sp.csr_array(X)) == dense.predict(X)).mean() > 0.95


def test_more_features_than_rows_and_constant_labels(rng):
    X, Y = rng.normal(size=(30, 60)), (rng.random((30, 3)) < 0.5).astype(int)
    Y[:, 1], Y[:, 2] = 0, 1
    predicted = MaxMarginOutputCoding(random_state=0).fit(X, Y).predict(X)
    np.testing.assert_array_equal(predicted[:, 1:], Y[:, 1:])


def test_a_fit_that_does_not_converge_says_so(rng):
    X, Y = exclusive_labels(rng)
    with pytest.warns(ConvergenceWarning, match="1 cutting planes") as caught:
        MaxMarginOutputCoding(max_iter=1, tol=1e-9, **FAST).fit(X, Y)
    assert caught[0].filename == __file__


def test_emotions_as_published(data_home):
    data = load("emotions", data_home=data_home)
    scores = []
    for train, test in kfold(len(data.X), 10, seed=0):
        scaler = StandardScaler().fit(data.X[train])
        model = MaxMarginOutputCoding(random_state=0)
        model.fit(scaler.transform(data.X[train]), data.Y[train])
        scores.append(model.score(scaler.transform(data.X[test]), data.Y[test]))
    assert np.mean(scores) > 0.336 - 0.02
