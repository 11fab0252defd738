"""Any scikit-learn classifier as a learner of conditionals."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Perceptron
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

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


def test_probabilities_are_the_classifiers_own(data):
    expected = GaussianNB().fit(data.X, data.codes[:, 0]).predict_proba(data.X)
    found = fit_one(data, GaussianNB()).log_prob(data.X)
    floor = floor_of(data.codes[:, 0], data.codes[:, 0], 2)
    assert (expected < floor).any()
    np.testing.assert_allclose(found, log_of(expected, floor), rtol=1e-9)


def test_unseen_values_keep_their_smoothed_frequency():
    frequency = np.array([0.5, 0.1, 0.3, 0.1])
    model = EstimatorModel(Fixed([0.25, 0.75]), np.array([0, 2]), frequency)
    prob = np.exp(model.log_prob(np.zeros((2, 1))))
    np.testing.assert_allclose(prob, np.tile([0.2, 0.1, 0.6, 0.1], (2, 1)), rtol=1e-12)


def test_without_a_classifier_the_frequencies_are_all_there_is():
    frequency = np.array([0.7, 0.3])
    model = EstimatorModel(None, np.array([0]), frequency)
    np.testing.assert_allclose(np.exp(model.log_prob(np.zeros((3, 1)))), np.tile(frequency, (3, 1)))


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
    used = np.arange(20, 80)
    found = fit_one(TrainingData(data.X, codes, (2, 2), weight), GaussianNB()).log_prob(data.X)
    expected = GaussianNB().fit(data.X[used], codes[used, 0]).predict_proba(data.X)
    floor = floor_of(codes[used, 0], codes[used, 0], 2)
    np.testing.assert_allclose(found, log_of(expected, floor), rtol=1e-9)


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


def test_the_given_estimator_stays_unfitted(data):
    estimator = DecisionTreeClassifier()
    fit_one(data, estimator)
    assert not hasattr(estimator, "tree_")


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_workers_do_not_change_the_answer(data, n_jobs):
    group = RowGroup(None, np.arange(2))
    learner = EstimatorLearner(LogisticRegression(), n_jobs, verbose=False)
    tables = learner.on(data).fit([group], ZERO).log_prob(data.X)
    for label in range(2):
        expected = LogisticRegression().fit(data.X, data.codes[:, label])
        floor = floor_of(data.codes[:, label], data.codes[:, label], 2)
        lifted = log_of(expected.predict_proba(data.X), floor)
        np.testing.assert_allclose(tables[label], lifted, atol=1e-9)


@pytest.mark.parametrize("estimator", [LinearSVC(), Perceptron()])
def test_classifiers_without_probabilities_are_refused(estimator):
    with pytest.raises(ValueError, match=r"has no predict_proba\. Use a probabilistic"):
        EstimatorLearner(estimator, None, verbose=False)


def test_weights_for_a_classifier_without_them_are_refused(data, rng):
    weighted = TrainingData(data.X, data.codes, (2, 2), rng.uniform(size=80))
    learner = EstimatorLearner(KNeighborsClassifier(), 1, verbose=False)
    with pytest.raises(ValueError, match="does not accept sample_weight"):
        learner.on(weighted)


def test_no_groups_have_no_scores(data):
    learner = EstimatorLearner(GaussianNB(), 1, verbose=False)
    folds = Folds(np.arange(80) % 2, 2)
    assert learner.on(data).cross_validate([], folds, lambda _, scores: scores, "") == []


def test_folds_without_rows_of_a_group_are_skipped(data):
    folds = Folds(np.where(np.arange(80) < 40, 0, 1), 2)
    learner = EstimatorLearner(GaussianNB(), 1, verbose=False)
    group = RowGroup(np.arange(50, 80), np.array([0]))  # none of them in fold 0
    found = learner.on(data).cross_validate([group], folds, lambda _, scores: scores, "")[0]
    frequency = data.class_frequencies(0)  # fold 1 leaves no rows to learn from
    expected = np.log(frequency[data.codes[50:, 0]])
    np.testing.assert_allclose(found.log_prob[0], expected, rtol=1e-12)


def test_pipelines_are_classifiers_too(data):
    pipeline = make_pipeline(StandardScaler(), GaussianNB())
    expected = pipeline.fit(data.X, data.codes[:, 0]).predict_proba(data.X)
    found = fit_one(data, make_pipeline(StandardScaler(), GaussianNB())).log_prob(data.X)
    floor = floor_of(data.codes[:, 0], data.codes[:, 0], 2)
    np.testing.assert_allclose(found, log_of(expected, floor), rtol=1e-9)


def test_weights_that_are_shares_of_one_are_not_fewer_rows(rng):
    """The floor of one row in n + 1 is that of the rows, not of their weights' sum."""
    X = rng.normal(size=(200, 2))
    codes = (X[:, :1] > 0).astype(np.int32)
    found = [
        fit_one(TrainingData(X, codes, (2,), weight), DecisionTreeClassifier()).log_prob(X)
        for weight in (np.ones(200), np.full(200, 1 / 200))
    ]
    np.testing.assert_allclose(found[0], found[1], rtol=0.05)  # frequencies differ a little
