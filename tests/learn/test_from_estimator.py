"""Any scikit-learn classifier as a learner of conditionals."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression, Perceptron
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.validation import check_is_fitted

from colabel.learn.conditional import Folds, RowGroup, TrainingData
from colabel.learn.from_estimator import EstimatorLearner, EstimatorModel
from tests.models.oracle import floor_of, log_of


class Fixed:
    """A classifier that says the same of every row."""

    def __init__(self, prob):
        self.prob = prob

    def predict_proba(self, X):
        return np.tile(self.prob, (len(X), 1))


ZERO = [np.zeros(1, dtype=np.intp)]


def fit_one(data, estimator, rows=None, target=0):
    group = RowGroup(rows, np.array([target]))
    return EstimatorLearner(estimator, 1, verbose=False).on(data).fit([group], ZERO).models[0]


@pytest.fixture
def data(rng) -> TrainingData:
    X = rng.normal(size=(80, 3))
    codes = (X[:, :2] + 0.5 * rng.normal(size=(80, 2)) > 0).astype(np.int32)
    return TrainingData(X, codes, (2, 2))


def lifted(estimator, data, target=0, rows=slice(None), weight=None):
    """Logarithms of a classifier's probabilities for all rows, lifted to their floor."""
    y = data.codes[rows, target]
    options = {} if weight is None else {"sample_weight": weight}
    prob = clone(estimator).fit(data.X[rows], y, **options).predict_proba(data.X)
    return log_of(prob, floor_of(y, y, 2))


@pytest.mark.parametrize(
    "estimator", [GaussianNB(), make_pipeline(StandardScaler(), GaussianNB())], ids=["", "pipeline"]
)
def test_probabilities_are_the_classifiers_own(data, estimator):
    found = fit_one(data, estimator).log_prob(data.X)
    np.testing.assert_allclose(found, lifted(estimator, data), rtol=1e-9)
    assert (np.exp(found) > GaussianNB().fit(data.X, data.codes[:, 0]).predict_proba(data.X)).any()
    with pytest.raises(NotFittedError):  # the one that was given
        check_is_fitted(estimator)


@pytest.mark.parametrize(
    ("estimator", "classes", "frequency", "expected"),
    [
        # values that it has not seen keep their smoothed frequency
        (Fixed([0.25, 0.75]), [0, 2], [0.5, 0.1, 0.3, 0.1], [0.2, 0.1, 0.6, 0.1]),
        (None, [0], [0.7, 0.3], [0.7, 0.3]),  # the frequencies are all there is
    ],
)
def test_frequencies_stand_in_for_a_classifier(estimator, classes, frequency, expected):
    model = EstimatorModel(estimator, np.array(classes), np.array(frequency))
    prob = np.exp(model.log_prob(np.zeros((2, 1))))
    np.testing.assert_allclose(prob, np.tile(expected, (2, 1)), rtol=1e-12)


def test_zero_probabilities_are_lifted():
    model = EstimatorModel(Fixed([0.0, 1.0]), np.arange(2), np.array([0.5, 0.5]))
    log_prob = model.log_prob(np.zeros((2, 1)))
    np.testing.assert_allclose(log_prob[:, 0], np.log(1e-12), rtol=1e-9)
    known = EstimatorModel(Fixed([0.0, 1.0]), np.arange(2), np.array([0.2, 0.8]), n_rows=99.0)
    np.testing.assert_allclose(known.log_prob(np.zeros((1, 1)))[0, 0], np.log(0.002 / 1.002))
    np.testing.assert_allclose(np.exp(log_prob).sum(axis=1), 1.0, rtol=1e-15)


def test_smoothing_of_a_constant_target_uses_all_rows(rng):
    codes = np.array([[0, 0]] * 6 + [[1, 0]] * 2 + [[1, 1]] * 2, dtype=np.int32)
    data = TrainingData(rng.normal(size=(10, 2)), codes, (2, 2))
    model = fit_one(data, GaussianNB(), rows=np.arange(6), target=1)
    prior = (np.array([8, 2]) + 1) / 12
    expected = (np.array([6, 0]) + 2 * prior) / 8
    assert model.estimator is None
    np.testing.assert_allclose(np.exp(model.log_prob(data.X[:1]))[0], expected, rtol=1e-12)


def test_rows_without_weight_or_label_are_left_out(data):
    weight = np.ones(80)
    weight[:10] = 0.0
    codes = data.codes.copy()
    codes[10:20, 0] = -1
    used = TrainingData(data.X, codes, (2, 2), weight)
    found = fit_one(used, GaussianNB()).log_prob(data.X)
    np.testing.assert_allclose(found, lifted(GaussianNB(), used, 0, slice(20, None)), rtol=1e-9)


def test_weights_reach_the_classifier(data, rng):
    weight = rng.uniform(0.1, 5.0, size=80)
    weighted = TrainingData(data.X, data.codes, (2, 2), weight)
    expected = GaussianNB().fit(data.X, data.codes[:, 1], weight).predict_proba(data.X)
    found = fit_one(weighted, GaussianNB(), target=1).log_prob(data.X)
    np.testing.assert_allclose(np.exp(found), expected, atol=0.01)
    unweighted = fit_one(data, GaussianNB(), target=1).log_prob(data.X)
    assert np.abs(np.exp(unweighted) - expected).max() > 0.02


def test_held_out_scores_by_hand(data):
    folds = Folds(np.where(np.arange(80) < 60, np.arange(80) % 2, -1), 2)
    rows = np.arange(5, 75)
    found = (
        EstimatorLearner(GaussianNB(), 1, verbose=False)
        .on(data)
        .cross_validate([RowGroup(rows, np.array([1]))], folds, lambda _, scores: scores, "")[0]
    )
    expected = np.zeros(80)
    for fold in range(2):
        train = rows[folds.of_row[rows] != fold]
        held = rows[folds.of_row[rows] == fold]
        model = GaussianNB().fit(data.X[train], data.codes[train, 1])
        floor = floor_of(data.codes[train, 1], data.codes[:, 1], 2)
        log_prob = log_of(model.predict_proba(data.X[held]), floor)
        expected[held] = log_prob[np.arange(len(held)), data.codes[held, 1]]
    np.testing.assert_allclose(found.log_prob[0], expected[rows], atol=1e-8)
    assert (found.log_prob[0, -15:] == 0).all()
    assert found.choice.tolist() == [0]
    learning = EstimatorLearner(GaussianNB(), 1, verbose=False).on(data)
    assert learning.cross_validate([], folds, lambda _, scores: scores, "") == []


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_workers_do_not_change_the_answer(data, n_jobs):
    learner = EstimatorLearner(LogisticRegression(), n_jobs, verbose=False)
    tables = learner.on(data).fit([RowGroup(None, np.arange(2))], ZERO).log_prob(data.X)
    for label in range(2):
        expected = lifted(LogisticRegression(), data, label)
        np.testing.assert_allclose(tables[label], expected, atol=1e-9)


@pytest.mark.parametrize("estimator", [LinearSVC(), Perceptron()])
def test_classifiers_without_probabilities_are_refused(estimator):
    with pytest.raises(ValueError, match=r"has no predict_proba\. Use a probabilistic"):
        EstimatorLearner(estimator, None, verbose=False)


def test_weights_for_a_classifier_without_them_are_refused(data, rng):
    weighted = TrainingData(data.X, data.codes, (2, 2), rng.uniform(size=80))
    learner = EstimatorLearner(KNeighborsClassifier(), 1, verbose=False)
    with pytest.raises(ValueError, match="does not accept sample_weight"):
        learner.on(weighted)


def test_folds_without_rows_of_a_group_are_skipped(data):
    folds = Folds(np.where(np.arange(80) < 40, 0, 1), 2)
    learner = EstimatorLearner(GaussianNB(), 1, verbose=False)
    group = RowGroup(np.arange(50, 80), np.array([0]))  # none of them in fold 0
    found = learner.on(data).cross_validate([group], folds, lambda _, scores: scores, "")[0]
    frequency = data.class_frequencies(0)  # fold 1 leaves no rows to learn from
    expected = np.log(frequency[data.codes[50:, 0]])
    np.testing.assert_allclose(found.log_prob[0], expected, rtol=1e-12)


def test_weights_that_are_shares_of_one_are_not_fewer_rows(rng):
    """The floor of one row in n + 1 is that of the rows, not of their weights' sum."""
    X = rng.normal(size=(200, 2))
    codes = (X[:, :1] > 0).astype(np.int32)
    found = [
        fit_one(TrainingData(X, codes, (2,), weight), DecisionTreeClassifier()).log_prob(X)
        for weight in (np.ones(200), np.full(200, 1 / 200))
    ]
    np.testing.assert_allclose(found[0], found[1], rtol=0.05)  # frequencies differ a little
