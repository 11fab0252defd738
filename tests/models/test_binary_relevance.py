"""Binary relevance against a loop over labels."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.naive_bayes import GaussianNB

from colabel import BinaryRelevance
from tests.models.oracle import floor_of, log_of, regression

TIGHT = {"tol": 1e-10, "max_iter": 3000}


def draw(rng, n_rows=150, sizes=(2, 2, 2)):
    X = rng.normal(size=(n_rows, 4)) * [1, 2, 0.5, 1] + 0.5
    codes = np.empty((n_rows, len(sizes)), dtype=int)
    for label, size in enumerate(sizes):
        scores = X @ rng.normal(size=(4, size)) + 2 * rng.gumbel(size=(n_rows, size))
        codes[:, label] = scores.argmax(axis=1)
    return X, codes


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("C", [0.05, 1.0])
def test_probabilities_equal_a_loop_over_labels(rng, weighted, C):
    X, Y = draw(rng)
    weight = rng.uniform(0.1, 2.0, size=150) if weighted else None
    model = BinaryRelevance(C=C, **TIGHT).fit(X, Y, sample_weight=weight)
    X_new = rng.normal(size=(50, 4))
    for label in range(3):
        alone = regression(C)().fit(X, Y[:, label], weight)
        expected = alone.predict_proba(X_new)[:, 1]
        np.testing.assert_allclose(model.predict_proba(X_new)[:, label], expected, atol=1e-8)
        np.testing.assert_array_equal(model.predict(X_new)[:, label], alone.predict(X_new))
    assert model.C_.tolist() == [C] * 3
    assert model.n_iter_ > 1


def test_class_variables_equal_a_loop_over_variables(rng):
    X, Y = draw(rng, sizes=(3, 2, 4))
    model = BinaryRelevance(C=0.3, **TIGHT).fit(X, Y)
    for label, table in enumerate(model.predict_proba(X)):
        expected = regression(0.3)().fit(X, Y[:, label]).predict_proba(X)
        np.testing.assert_allclose(table, expected, atol=1e-7)


def test_a_single_variable_is_scikit_learns_regression(rng):
    X, Y = draw(rng, sizes=(3,))
    y = np.array(["low", "mid", "top"])[Y[:, 0]]
    model = BinaryRelevance(C=1.0, **TIGHT).fit(X, y)
    expected = regression()().fit(X, y)
    np.testing.assert_array_equal(model.classes_, expected.classes_)
    np.testing.assert_allclose(model.predict_proba(X), expected.predict_proba(X), atol=1e-7)
    np.testing.assert_array_equal(model.predict(X), expected.predict(X))


def test_each_label_chooses_its_own_c_like_scikit_learn(rng):
    X, Y = draw(rng)
    Y[:, 1] = rng.integers(0, 2, size=150)  # noise wants a strong penalty
    Y[:, 2] = X[:, 0] > 0.5  # a clean label wants none
    grid, cv = [10.0, 0.001, 0.1], KFold(4)
    model = BinaryRelevance(C=grid, cv=cv, **TIGHT).fit(X, Y)
    for label in range(3):
        likelihood = []
        for C in grid:
            log_prob = cross_val_predict(
                regression(C)(), X, Y[:, label], cv=cv, method="predict_log_proba"
            )
            likelihood.append(log_prob[np.arange(150), Y[:, label]].sum())
        assert model.C_[label] == grid[int(np.argmax(likelihood))]
    assert len(set(model.C_)) > 1


def test_missing_labels_are_left_out_of_their_label_only(rng):
    X, Y = draw(rng)
    gaps = np.where(rng.random(Y.shape) < 0.3, np.nan, Y)
    prob = BinaryRelevance(C=1.0, **TIGHT).fit(X, gaps).predict_proba(X)
    for label in range(3):
        seen = ~np.isnan(gaps[:, label])
        alone = regression()().fit(X[seen], Y[seen, label])
        np.testing.assert_allclose(prob[:, label], alone.predict_proba(X)[:, 1], atol=1e-8)


def test_any_classifier_can_replace_the_regression(rng):
    X, Y = draw(rng)
    prob = BinaryRelevance(estimator=GaussianNB()).fit(X, Y).predict_proba(X)
    for label in range(3):
        own = GaussianNB().fit(X, Y[:, label]).predict_proba(X)
        expected = np.exp(log_of(own, floor_of(Y[:, label], Y[:, label], 2)))[:, 1]
        np.testing.assert_allclose(prob[:, label], expected, atol=1e-9)


def test_a_classifier_may_draw_at_random_with_a_seed(rng):
    X, Y = draw(rng, n_rows=60)
    estimator = RandomForestClassifier(3, random_state=0)
    first, second = (
        BinaryRelevance(estimator=estimator, n_jobs=n).fit(X, Y).predict_proba(X) for n in (1, 2)
    )
    np.testing.assert_array_equal(first, second)


def test_coefficients_are_those_of_the_labels(rng):
    X, Y = draw(rng)
    coef = BinaryRelevance(C=1.0, **TIGHT).fit(X, Y).models_.coef
    for label in range(3):
        alone = LogisticRegression(tol=1e-10, solver="newton-cg").fit(X, Y[:, label])
        expected = np.append(alone.coef_[0], alone.intercept_)
        np.testing.assert_allclose(coef[label][0], expected, atol=1e-6)
