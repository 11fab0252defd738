"""Stacked binary relevance against two layers written out."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import KFold
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import SVC, LinearSVC

from colabel import BinaryRelevance, StackedBinaryRelevance
from tests.asserts import assert_each_close
from tests.models.oracle import TIGHT, Unsmoothed, regression


class OnlyPredicts(ClassifierMixin, BaseEstimator):
    """A classifier without scores, which takes no weights either."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.centres_ = np.stack([X[y == c].mean(axis=0) for c in self.classes_])
        return self

    def predict(self, X):
        distance = ((X[:, None, :] - self.centres_) ** 2).sum(axis=2)
        return self.classes_[distance.argmin(axis=1)]


def make_data(rng, n_rows=150, sizes=(2, 2, 2)):
    X = rng.normal(size=(n_rows, 4))
    Y = np.empty((n_rows, len(sizes)), dtype=int)
    for i, size in enumerate(sizes):
        scores = X @ rng.normal(size=(4, size)) + rng.gumbel(size=(n_rows, size))
        if i:
            scores += 2.0 * (Y[:, i - 1, None] % size == np.arange(size))
        Y[:, i] = scores.argmax(axis=1)
    return X, Y


def splits(n_rows, n_folds=3):
    return list(KFold(n_folds, shuffle=True, random_state=0).split(np.zeros(n_rows)))


def tables_by(X, Y, asked, C=1.0):
    return [regression(C)().fit(X, y).predict_proba(asked) for y in Y.T]


def columns_of(tables):
    return np.hstack([t[:, 1:] if t.shape[1] == 2 else t for t in tables])


def held_out_columns(X, Y, folds):
    found = np.zeros((len(X), columns_of(tables_by(X, Y, X[:1])).shape[1]))
    for train, test in folds:
        found[test] = columns_of(tables_by(X[train], Y[train], X[test]))
    return found


@pytest.mark.parametrize("sizes", [(2, 2, 2), (3, 2, 4)])
@pytest.mark.parametrize("first_layer", ["in_sample", "cross_validated"])
def test_two_layers_written_out(rng, first_layer, sizes):
    X, Y = make_data(rng, sizes=sizes)
    asked = rng.normal(size=(20, 4))
    folds = splits(150)
    new = columns_of(tables_by(X, Y, asked))
    if first_layer == "in_sample":
        inputs = columns_of(tables_by(X, Y, X))
    else:
        inputs = held_out_columns(X, Y, folds)
    expected = tables_by(np.hstack([X, inputs]), Y, np.hstack([asked, new]))
    model = StackedBinaryRelevance(1.0, first_layer=first_layer, cv=folds, **TIGHT)
    found = model.fit(X, Y).joint(asked).marginal_tables()
    assert_each_close(found, expected, atol=1e-5)


def test_any_probabilistic_estimator(rng):
    X, Y = make_data(rng)
    folds = splits(150)
    by_own = StackedBinaryRelevance(1.0, cv=folds, **TIGHT).fit(X, Y)
    base = Unsmoothed(**regression()().get_params())
    by_estimator = StackedBinaryRelevance(estimator=base, cv=folds).fit(X, Y)
    np.testing.assert_allclose(by_own.predict_proba(X), by_estimator.predict_proba(X), atol=1e-5)
    assert not hasattr(by_estimator, "C_")
    assert StackedBinaryRelevance(estimator=GaussianNB()).fit(X, Y).score(X, Y) > 0.4


def test_labels_help_each_other(rng):
    """A label that is an easy function of two others' probabilities, but not of x."""
    X = rng.normal(size=(600, 2))
    first = (X[:, 0] > 0).astype(int)
    second = (np.abs(X[:, 0]) > 0.7).astype(int)  # not linear in x
    Y = np.column_stack([first, second, first])
    X = np.column_stack([X, np.abs(X[:, 0])])
    half = slice(None, 300), slice(300, None)
    model = StackedBinaryRelevance(10.0, random_state=0).fit(X[half[0]], Y[half[0]])
    assert model.score(X[half[1]], Y[half[1]]) > 0.9


# ------------------------------------------------------------------------- choosing C


def test_c_is_chosen_without_looking(rng):
    """Rows are held out from both layers: the choice equals a loop over nested splits."""
    X, Y = make_data(rng, n_rows=90)
    Y[:, 0] = rng.integers(0, 2, size=90)
    folds, grid = splits(90), (0.01, 1.0, 100.0)
    first_C = BinaryRelevance(grid, cv=folds, **TIGHT).fit(X, Y).C_
    model = StackedBinaryRelevance(grid, cv=folds, **TIGHT).fit(X, Y)
    np.testing.assert_array_equal(model.first_C_, first_C)

    def first_tables(train, test):
        pairs = zip(Y.T, first_C, strict=True)
        return [regression(C)().fit(X[train], y[train]).predict_proba(X[test]) for y, C in pairs]

    total = np.zeros((3, 3))
    for seen, held in folds:
        inputs = np.zeros((90, 3))
        inputs[held] = columns_of(first_tables(seen, held))
        for _, test in folds:
            inner = np.setdiff1d(seen, test)
            if len(inner) < len(seen):
                inputs[test] = columns_of(first_tables(inner, test))
        inputs[held] = columns_of(first_tables(seen, held))
        stacked = np.hstack([X, inputs])
        for c, C in enumerate(grid):
            for j, y in enumerate(Y.T):
                prob = regression(C)().fit(stacked[seen], y[seen]).predict_proba(stacked[held])
                total[c, j] += np.log(prob[np.arange(len(held)), y[held]]).sum()
    np.testing.assert_array_equal(model.C_, np.array(grid)[total.argmax(axis=0)])


def test_noise_gets_a_strong_penalty(rng):
    """Held out from the second layer alone, noise would want a large C: labels leak."""
    X = rng.normal(size=(200, 40))
    Y = rng.integers(0, 2, size=(200, 4))
    model = StackedBinaryRelevance((0.001, 0.1, 10.0), random_state=0).fit(X, Y)
    assert (model.C_ == 0.001).all()


# ---------------------------------------------------------------- without probabilities


def test_svm_hf_written_out(rng):
    X, Y = make_data(rng)
    asked = rng.normal(size=(40, 4))
    model = StackedBinaryRelevance(estimator=LinearSVC(random_state=0), first_layer="in_sample")
    first = [LinearSVC(random_state=0).fit(X, y) for y in Y.T]
    scores, new = (np.column_stack([m.decision_function(r) for m in first]) for r in (X, asked))
    expected = [
        LinearSVC(random_state=0).fit(np.hstack([X, scores]), y).predict(np.hstack([asked, new]))
        for y in Y.T
    ]
    found = model.fit(X, Y).predict(asked)
    assert (found == np.column_stack(expected)).mean() > 0.99
    assert model.score(X, Y) > 0.4


@pytest.mark.parametrize(
    "estimator", [LinearSVC(), RidgeClassifier(), SVC(), OnlyPredicts()], ids=str
)
@pytest.mark.parametrize("sizes", [(2, 2, 2), (3, 2, 4)])
def test_estimators_that_only_predict(rng, estimator, sizes):
    X, Y = make_data(rng, sizes=sizes)
    model = StackedBinaryRelevance(estimator=estimator, random_state=0)
    predicted = model.fit(X, Y).predict(X)
    assert predicted.shape == Y.shape
    assert (predicted == Y).mean() > 0.5
    for name in ("joint", "predict_proba", "predict_log_proba"):
        assert not hasattr(model, name)
    with pytest.raises(AttributeError) as error:
        model.predict_proba(X)
    assert "has no predict_proba" in str(error.value.__cause__)


def test_weights_reach_both_layers(rng):
    X, Y = make_data(rng)
    weight = rng.integers(0, 3, size=150)
    svm = StackedBinaryRelevance(estimator=LinearSVC(), first_layer="in_sample")
    weighted = svm.fit(X, Y, sample_weight=weight.astype(float)).predict(X)
    repeated = svm.fit(np.repeat(X, weight, axis=0), np.repeat(Y, weight, axis=0)).predict(X)
    assert (weighted == repeated).mean() > 0.99
    with pytest.raises(ValueError, match="does not accept sample_weight"):
        StackedBinaryRelevance(estimator=OnlyPredicts()).fit(X, Y, sample_weight=weight)
