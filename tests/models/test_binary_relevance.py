"""Binary relevance against a loop over labels."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

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


WEIGHTS = {
    "balanced": ("balanced", "balanced"),
    "alike": ({0: 1.0, 1: 5.0}, {0: 1.0, 1: 5.0}),
    "named": ({"rare": {1: 7.0}}, ({1: 7.0}, None)),
    "in part": ({"rare": "balanced", 1: {0: 0.2}}, ("balanced", {0: 0.2})),
}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("form", WEIGHTS)
def test_class_weights_are_those_of_scikit_learn(rng, form, weighted):
    given, alone = WEIGHTS[form]
    X, Y = draw(rng, sizes=(2, 2))
    Y[rng.random(150) < 0.6, 0] = 0
    weight = rng.uniform(0.1, 2.0, size=150) if weighted else None
    model = BinaryRelevance(C=0.3, class_weight=given, **TIGHT)
    prob = model.fit(X, Y, weight, label_names=["rare", "other"]).predict_proba(X)
    for label in range(2):
        own = alone if isinstance(alone, str | dict) else alone[label]
        expected = LogisticRegression(C=0.3, class_weight=own, tol=1e-10, solver="newton-cg")
        expected.fit(X, Y[:, label], weight)
        np.testing.assert_allclose(prob[:, label], expected.predict_proba(X)[:, 1], atol=1e-8)
        coef = np.append(expected.coef_[0], expected.intercept_)
        np.testing.assert_allclose(model.models_.coef[label][0], coef, atol=1e-6)


def test_class_weights_of_variables_with_more_values_and_of_missing_labels(rng):
    X, Y = draw(rng, sizes=(3, 2))
    gaps = np.where(rng.random(Y.shape) < 0.3, np.nan, Y)
    model = BinaryRelevance(C=0.3, class_weight="balanced", **TIGHT).fit(X, gaps)
    for label, table in enumerate(model.predict_proba(X)):
        seen = ~np.isnan(gaps[:, label])
        expected = LogisticRegression(C=0.3, class_weight="balanced", tol=1e-10, max_iter=1000)
        expected.fit(X[seen], Y[seen, label])
        np.testing.assert_allclose(table, expected.predict_proba(X), atol=1e-5)


def test_class_weights_choose_c_by_the_weighted_loss(rng):
    X, Y = draw(rng)
    Y[rng.random(150) < 0.7, 1] = 0
    grid, cv = [0.001, 0.1, 10.0], KFold(4)
    model = BinaryRelevance(C=grid, cv=cv, class_weight={1: 20.0}, **TIGHT).fit(X, Y)
    for label in range(3):
        weight = np.where(Y[:, label] == 1, 20.0, 1.0)
        likelihood = []
        for C in grid:
            own = LogisticRegression(C=C, class_weight={1: 20.0}, tol=1e-8, max_iter=1000)
            found = cross_val_predict(own, X, Y[:, label], cv=cv, method="predict_log_proba")
            likelihood.append(weight @ found[np.arange(150), Y[:, label]])
        assert model.C_[label] == grid[int(np.argmax(likelihood))]


def test_class_weights_reach_any_classifier_and_do_not_depend_on_threads(rng):
    X, Y = draw(rng)
    Y[rng.random(150) < 0.6, 0] = 0
    estimator = DecisionTreeClassifier(max_depth=3, random_state=0)
    prob = [
        BinaryRelevance(estimator=estimator, class_weight="balanced", n_jobs=n)
        .fit(X, Y)
        .predict_proba(X)
        for n in (None, 2)
    ]
    np.testing.assert_array_equal(*prob)
    weighted = DecisionTreeClassifier(max_depth=3, random_state=0, class_weight="balanced")
    for label in range(3):
        expected = weighted.fit(X, Y[:, label]).predict_proba(X)[:, 1]
        # no classifier's probability is below a share of one row
        np.testing.assert_allclose(prob[0][:, label], expected, atol=0.01)
    with pytest.raises(ValueError, match="does not accept sample_weight"):
        BinaryRelevance(estimator=KNeighborsClassifier(), class_weight="balanced").fit(X, Y)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("even", "class_weight='even' is not understood: give None, \"balanced\","),
        ([1, 2], r"class_weight=\[1, 2\] is not understood"),
        ({0: 1.0, "a": {1: 2.0}}, "mixes weights of values with those of labels"),
        ({"a": {1: 0.0}}, "the value 1 the weight 0.0, which must be a positive number"),
        ({1: True}, "the value 1 the weight True, which must be a positive number"),
        ({"a": "even"}, "class_weight='even' is not understood"),
        ({"aa": {1: 2.0}}, "class_weight: There is no label 'aa': did you mean 'a'?"),
        ({"a": {2: 2.0}}, "names the value 2, which the label 'a' never has: its values are 0, 1"),
    ],
)
def test_wrong_class_weights_are_refused_in_a_sentence(rng, given, message):
    X, Y = draw(rng, n_rows=20, sizes=(2, 2))
    with pytest.raises(ValueError, match=message):
        BinaryRelevance(class_weight=given).fit(X, Y, label_names=["a", "b"])


def test_class_weights_need_rows_in_memory(rng):
    array = pytest.importorskip("dask.array")
    X, Y = draw(rng, n_rows=200, sizes=(2, 2))
    rows = array.from_array(np.tile(X, (30, 1)), chunks=(1000, -1))
    labels = array.from_array(np.tile(Y, (30, 1)), chunks=(1000, -1))
    with pytest.raises(TypeError, match="leave class_weight out, or give a sample"):
        BinaryRelevance(C=1.0, class_weight="balanced").fit(rows, labels)
