"""Binary relevance against a loop over labels."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.class_weight import compute_sample_weight

from colabel import BinaryRelevance
from tests.asserts import assert_each_close
from tests.models.oracle import TIGHT, floor_of, log_of, regression


def draw(rng, n_rows=150, sizes=(2, 2, 2)):
    X = rng.normal(size=(n_rows, 4)) * [1, 2, 0.5, 1] + 0.5
    codes = np.empty((n_rows, len(sizes)), dtype=int)
    for label, size in enumerate(sizes):
        scores = X @ rng.normal(size=(4, size)) + 2 * rng.gumbel(size=(n_rows, size))
        codes[:, label] = scores.argmax(axis=1)
    return X, codes


def tables_of(prob):
    """Probabilities as one table (n, K) per label."""
    return prob if isinstance(prob, list) else [np.column_stack([1 - p, p]) for p in prob.T]


@pytest.mark.parametrize("sizes", [(2, 2, 2), (3, 2, 4), (3,)])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("class_weight", [None, "balanced"])
@pytest.mark.parametrize("C", [0.05, 1.0])
def test_probabilities_equal_a_loop_over_labels(rng, sizes, weighted, missing, class_weight, C):
    X, Y = draw(rng, sizes=sizes)
    gaps = np.where(rng.random(Y.shape) < missing, np.nan, Y)
    weight = rng.uniform(0.1, 2.0, size=150) if weighted else None
    model = BinaryRelevance(C=C, class_weight=class_weight, **TIGHT)
    model.fit(X, gaps if missing else Y, sample_weight=weight)
    X_new = rng.normal(size=(50, 4))
    tables = model.joint(X_new).marginal_tables()
    for label, table in enumerate(tables):
        seen = ~np.isnan(gaps[:, label])
        own = None if weight is None else weight[seen]
        alone = regression(C)().set_params(class_weight=class_weight)
        alone.fit(X[seen], Y[seen, label], own)
        np.testing.assert_allclose(table, alone.predict_proba(X_new), atol=1e-6)
        np.testing.assert_array_equal(model.predict(X_new)[:, label], alone.predict(X_new))
    assert_each_close(tables_of(model.predict_proba(X_new)), tables, rtol=1e-12)
    assert model.C_.tolist() == [C] * len(sizes)
    assert model.n_iter_ > 1


def test_a_single_variable_comes_back_as_scikit_learns(rng):
    X, Y = draw(rng, sizes=(3,))
    y = np.array(["low", "mid", "top"])[Y[:, 0]]
    model, expected = BinaryRelevance(C=1.0, **TIGHT).fit(X, y), regression()().fit(X, y)
    np.testing.assert_array_equal(model.classes_, expected.classes_)
    np.testing.assert_allclose(model.predict_proba(X), expected.predict_proba(X), atol=1e-7)
    np.testing.assert_array_equal(model.predict(X), expected.predict(X))


@pytest.mark.parametrize("class_weight", [None, {1: 20.0}])
def test_each_label_chooses_its_own_c_like_scikit_learn(rng, class_weight):
    """By the loss in which classes have their weights."""
    X, Y = draw(rng)
    Y[:, 1] = rng.random(150) < 0.3  # noise wants a strong penalty
    Y[:, 2] = X[:, 0] > 0.5  # a clean label wants none
    grid, cv = [10.0, 0.001, 0.1], KFold(4)
    model = BinaryRelevance(C=grid, cv=cv, class_weight=class_weight, **TIGHT).fit(X, Y)
    for label, y in enumerate(Y.T):
        weight = np.where((y == 1) & (class_weight is not None), 20.0, 1.0)
        likelihood = []
        for C in grid:
            own = regression(C)().set_params(class_weight=class_weight)
            log_prob = cross_val_predict(own, X, y, cv=cv, method="predict_log_proba")
            likelihood.append(weight @ log_prob[np.arange(150), y])
        assert model.C_[label] == grid[int(np.argmax(likelihood))]
    assert len(set(model.C_)) > 1


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


@pytest.mark.parametrize(
    "estimator", [GaussianNB(), DecisionTreeClassifier(max_depth=3, random_state=0)], ids=str
)
def test_any_classifier_can_replace_the_regression(rng, estimator):
    """With class weights as weights of rows, whatever the threads."""
    X, Y = draw(rng)
    Y[rng.random(150) < 0.6, 0] = 0
    for class_weight in (None, "balanced"):
        model = BinaryRelevance(estimator=estimator, class_weight=class_weight)
        prob = [model.set_params(n_jobs=n).fit(X, Y).predict_proba(X) for n in (None, 2)]
        np.testing.assert_array_equal(*prob)
        for label, y in enumerate(Y.T):
            weight = compute_sample_weight(class_weight, y)
            own = clone(estimator).fit(X, y, sample_weight=weight).predict_proba(X)
            if class_weight is None:
                own = np.exp(log_of(own, floor_of(y, y, 2)))
            # no classifier's probability is below a share of one row
            tolerance = 1e-9 if class_weight is None else 0.01
            np.testing.assert_allclose(prob[0][:, label], own[:, 1], atol=tolerance)
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
