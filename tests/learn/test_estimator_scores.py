"""Scores of classifiers of x alone, held out for the training rows."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import RandomForestClassifier
from sklearn.naive_bayes import GaussianNB

from colabel import CDN, CTBN, ClassifierChain, EnsembleOfChains, ProbabilisticClassifierChain
from colabel.learn.conditional import Folds, TrainingData
from colabel.learn.from_estimator import EstimatorLearner, stack
from tests.models.oracle import floor_of, log_of


class Counting(ClassifierMixin, BaseEstimator):
    """Says the frequencies of what it was taught, and how often it was."""

    n_fits = 0

    def fit(self, X, y):
        Counting.n_fits += 1
        self.classes_, counts = np.unique(y, return_counts=True)
        self.prob_ = counts / len(y)
        return self

    def predict_proba(self, X):
        return np.tile(self.prob_, (X.shape[0], 1))


def draw(rng, n_rows=90, n_labels=4, sizes=None):
    X = rng.normal(size=(n_rows, 3))
    sizes = sizes or (2,) * n_labels
    codes = np.column_stack(
        [(np.abs(X[:, i % 3] + 0.3 * rng.normal(size=n_rows)) * 2).astype(int) % k
         for i, k in enumerate(sizes)]
    )  # fmt: skip
    return TrainingData(X, codes.astype(np.int32), tuple(sizes))


def test_scores_are_those_of_classifiers_that_have_not_seen_the_row(rng):
    data = draw(rng, sizes=(2, 3))
    codes = data.codes.copy()
    codes[::7, 0] = -1  # missing
    data = TrainingData(data.X, codes, data.cardinalities)
    folds = Folds(np.arange(90) % 3, 3)
    scores, fitted = stack(EstimatorLearner(GaussianNB(), 1, verbose=False), data, folds)
    assert scores.shape == (90, 4)
    for label, size in enumerate(data.cardinalities):
        y = codes[:, label]
        expected = np.zeros((90, size))
        for fold in range(3):
            train = np.flatnonzero((folds.of_row != fold) & (y >= 0))
            held = folds.of_row == fold
            prob = GaussianNB().fit(data.X[train], y[train]).predict_proba(data.X[held])
            expected[held] = log_of(prob, floor_of(y[train], y, size))
        if size == 2:
            np.testing.assert_allclose(scores[:, 0], expected[:, 1] - expected[:, 0], rtol=1e-9)
        else:
            centred = expected - expected.mean(axis=1, keepdims=True)
            np.testing.assert_allclose(scores[:, 1:], centred, rtol=1e-9, atol=1e-12)
    y = codes[:, 0]
    whole = GaussianNB().fit(data.X[y >= 0], y[y >= 0]).predict_proba(data.X)
    lifted = log_of(whole, floor_of(y[y >= 0], y, 2))
    np.testing.assert_allclose(fitted(data.X)[:, 0], lifted[:, 1] - lifted[:, 0], rtol=1e-9)


MODELS = {
    "CC": ClassifierChain(cv=3, random_state=0),
    "PCC": ProbabilisticClassifierChain(cv=3, random_state=0),
    "ECC": EnsembleOfChains(3, cv=3, random_state=0),
    "CTBN": CTBN(cv=3, random_state=0),
    "CDN": CDN(cv=3, burn_in=2, n_sweeps=5, random_state=0),
}


@pytest.mark.parametrize("name", MODELS)
def test_the_number_of_fits_is_linear_in_the_labels(rng, name):
    for n_labels in (3, 6):
        data = draw(rng, n_labels=n_labels)
        Counting.n_fits = 0
        model = MODELS[name].set_params(estimator=Counting(), n_jobs=1)
        model.fit(data.X, data.codes)
        assert Counting.n_fits == n_labels * (3 + 1)
        assert (model.joint(data.X).log_prob(data.codes) > -n_labels).mean() > 0.5


def test_arcs_of_an_estimator_are_screened(rng):
    """Alone twice (scores and residuals), two parents of two values each; and the tree."""
    data = draw(rng, n_labels=6)
    Counting.n_fits = 0
    model = CTBN(estimator=Counting(), stack=False, max_parents=2, cv=3, random_state=0, n_jobs=1)
    model.fit(data.X, data.codes)
    assert 6 * 3 * (2 + 4) <= Counting.n_fits <= 6 * 3 * (2 + 4) + 2 * 6
    assert np.isnan(model.edge_scores_).sum() == 6 * 3


def test_forests_use_the_labels_and_are_never_certain(rng):
    """A label that x does not tell, and a copy of it among many features."""
    n_rows = 300
    X = rng.normal(size=(n_rows, 30))
    coin = rng.integers(0, 2, size=n_rows)
    flipped = np.where(rng.random(n_rows) < 0.9, coin, 1 - coin)
    Y = np.column_stack([coin, flipped])
    forest = RandomForestClassifier(20, random_state=0)
    for model in (ProbabilisticClassifierChain, CTBN):
        fitted = model(estimator=forest, cv=3, random_state=0).fit(X[:200], Y[:200])
        joint = fitted.joint(X[200:])
        agree = np.exp([joint.log_prob([0, 0]), joint.log_prob([1, 1])]).sum(axis=0)
        assert (agree > 0.75).all()
        assert (joint.log_prob([0, 1]) > -12).all()


def test_a_single_row_has_scores(rng):
    model = CTBN(estimator=GaussianNB()).fit(np.ones((2, 2)), np.array([[0, 1], [0, 1]]))
    np.testing.assert_array_equal(model.predict(np.ones((1, 2))), [[0, 1]])
    assert model.joint(np.ones((1, 2))).log_prob([0, 1])[0] > np.log(0.5)
