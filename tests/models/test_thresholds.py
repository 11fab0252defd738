"""Thresholds tuned on held-out rows."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import Perceptron
from sklearn.metrics import f1_score
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from colabel import CTBN, BinaryRelevance, MLkNN, ThresholdedClassifier, joint_of
from colabel.decide.decisions import best_threshold
from colabel.models.around import thresholded

BY_DESIGN = {
    "check_classifier_multioutput": "labels are predicted above their thresholds, not above 1/2",
    "check_classifiers_train": "labels are predicted above their thresholds, not above 1/2",
}


def make_data(rng, n_rows=300, rare=1.8):
    X = rng.normal(size=(n_rows, 3))
    scores = X @ rng.normal(size=(3, 3)) + rng.logistic(size=(n_rows, 3))
    return X, (scores > [0.0, rare, 2 * rare]).astype(int)


@parametrize_with_checks(
    [ThresholdedClassifier(BinaryRelevance(C=1.0))], expected_failed_checks=lambda _: BY_DESIGN
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


# ------------------------------------------------------------------------ one threshold


@pytest.mark.parametrize("ties", [False, True])
def test_no_threshold_has_a_larger_f1(rng, ties):
    for _ in range(30):
        n = int(rng.integers(2, 30))
        prob = np.round(rng.random(n), 1) if ties else rng.random(n)
        truth, weight = rng.integers(0, 2, size=n), rng.random(n)
        threshold, f1 = best_threshold(prob, truth, weight)
        every = [0.0, *prob]
        options = {"sample_weight": weight, "zero_division": 0.0}
        best = max(f1_score(truth, prob > t, **options) for t in every)
        assert f1 == pytest.approx(best)
        assert f1_score(truth, prob > threshold, **options) == pytest.approx(best)


@pytest.mark.parametrize(
    ("prob", "truth", "expected"),
    [
        ([0.1, 0.2, 0.4, 0.6, 0.9], [0, 0, 0, 1, 1], (0.5, 1.0)),  # ties go to one half
        ([0.2, 0.7], [0, 0], (0.5, 0.0)),  # and so does a label that never occurs
        ([0.1, 0.95, 0.3, 0.2], [0, -1, 1, 0], (0.25, 1.0)),  # missing labels do not count
        ([0.3, np.nextafter(0.3, 1)], [0, 1], (0.3, 1.0)),  # neighbouring floats stay apart
    ],
)
def test_thresholds_by_hand(prob, truth, expected):
    assert best_threshold(np.array(prob), np.array(truth)) == pytest.approx(expected)
    threshold, f1 = best_threshold(np.array(prob), np.array(truth))
    known = np.array(truth) >= 0
    assert f1 == f1_score(
        np.array(truth)[known], (np.array(prob) > threshold)[known], zero_division=0.0
    )


# ------------------------------------------------------------------------- the wrapper


def test_rare_labels_gain(rng):
    gains = []
    for _ in range(4):
        X, Y = make_data(rng, n_rows=1500)
        train, test = slice(None, 750), slice(750, None)
        plain = BinaryRelevance(C=1.0).fit(X[train], Y[train])
        tuned = ThresholdedClassifier(BinaryRelevance(C=1.0), random_state=0)
        tuned.fit(X[train], Y[train])
        macro = [f1_score(Y[test], m.predict(X[test]), average="macro") for m in (plain, tuned)]
        gains.append(macro[1] - macro[0])
        assert tuned.thresholds_[2] < 0.4
        np.testing.assert_allclose(tuned.predict_proba(X), plain.predict_proba(X), atol=1e-6)
        np.testing.assert_array_equal(tuned.predict(X), tuned.predict_proba(X) > tuned.thresholds_)
    assert np.mean(gains) > 0.05


def test_thresholds_come_from_held_out_rows(rng):
    X, Y = make_data(rng, n_rows=90)
    folds = [(np.arange(30, 90), np.arange(30)), (np.arange(60), np.arange(60, 90))]
    folds.append((np.r_[:30, 60:90], np.arange(30, 60)))
    prob = np.empty(Y.shape)
    for seen, held in folds:
        prob[held] = BinaryRelevance(C=1.0).fit(X[seen], Y[seen]).predict_proba(X[held])
    model = ThresholdedClassifier(BinaryRelevance(C=1.0), cv=folds).fit(X, Y)
    expected = [best_threshold(p, y)[0] for p, y in zip(prob.T, Y.T, strict=True)]
    np.testing.assert_allclose(model.thresholds_, expected, atol=1e-6)


@pytest.mark.parametrize(
    "estimator",
    [
        BinaryRelevance(estimator=GaussianNB()),
        make_pipeline(StandardScaler(), CTBN(C=1.0, random_state=0)),
        CTBN(C=1.0, random_state=0),
    ],
    ids=lambda e: type(e).__name__,
)
def test_any_model_with_a_joint(rng, estimator):
    X, Y = make_data(rng)
    Y[:, 2] = 0
    Y[0, 2] = 1  # constant in most folds
    model = ThresholdedClassifier(estimator, random_state=0).fit(X, Y)
    expected = model.estimator_.predict_proba(X)
    np.testing.assert_array_equal(model.predict_proba(X), expected)
    np.testing.assert_array_equal(model.predict(X), expected > model.thresholds_)


def test_labels_come_back_as_they_were(rng):
    X, Y = make_data(rng)
    model = ThresholdedClassifier(BinaryRelevance(C=1.0), random_state=0)
    codes = model.fit(X, Y).predict(X)
    names, words = np.array(["a", "b", "c"]), np.array(["no", "yes"])
    sets = [[set(names[row == 1].tolist()) for row in each] for each in (Y, codes)]
    assert model.fit(X, sets[0]).predict(X) == sets[1]
    assert model.label_names_ == ("a", "b", "c")
    np.testing.assert_array_equal(model.fit(X, words[Y]).predict(X), words[codes])
    column = model.fit(X, Y[:, :1]).predict(X)
    np.testing.assert_array_equal(model.fit(X, words[Y[:, 0]]).predict(X), words[column[:, 0]])


def test_sparse_rows_and_texts(rng):
    X, Y = make_data(rng)
    dense = ThresholdedClassifier(BinaryRelevance(C=1.0), cv=[*_halves(300)]).fit(X, Y)
    sparse = ThresholdedClassifier(BinaryRelevance(C=1.0), cv=[*_halves(300)])
    sparse.fit(sp.coo_array(X), Y)
    np.testing.assert_allclose(dense.thresholds_, sparse.thresholds_, atol=1e-3)
    texts = ["good day" if y else "bad night" for y in Y[:, 0]]
    tuned = ThresholdedClassifier(BinaryRelevance(C=1.0), random_state=0)
    model = make_pipeline(CountVectorizer(), tuned).fit(texts, Y)
    np.testing.assert_array_equal(model.predict(texts)[:, 0], Y[:, 0])


def _halves(n):
    return [(np.arange(n // 2, n), np.arange(n // 2)), (np.arange(n // 2), np.arange(n // 2, n))]


def test_one_row_keeps_one_half(rng):
    """Nothing can be held out; the message was of an array without samples."""
    X, Y = make_data(rng, n_rows=30)
    one = ThresholdedClassifier(BinaryRelevance(C=1.0)).fit(X[:1], Y[:1])
    assert one.thresholds_.tolist() == [0.5] * 3
    weights = (np.arange(30) == 4).astype(float)
    weighted = ThresholdedClassifier(BinaryRelevance(C=1.0)).fit(X, Y, sample_weight=weights)
    assert weighted.thresholds_.tolist() == [0.5] * 3


class Unweighted(MLkNN):
    """A model whose fit takes no weights."""

    def fit(self, X, y=None):
        return super().fit(X, y)


def test_refusals(rng):
    X, Y = make_data(rng)
    with pytest.raises(TypeError, match="Perceptron has no joint"):
        ThresholdedClassifier(Perceptron()).fit(X, Y)
    with pytest.raises(ValueError, match="Label 'y0' has 3 classes"):
        ThresholdedClassifier(BinaryRelevance()).fit(X, np.column_stack([np.arange(300) % 3, Y]))
    with pytest.raises(ValueError, match="X has 300 rows but y has 299"):
        ThresholdedClassifier(BinaryRelevance()).fit(X, Y[:-1])
    with pytest.raises(ValueError, match="does not accept sample_weight"):
        ThresholdedClassifier(Unweighted()).fit(X, Y, sample_weight=np.arange(300))


def test_the_rule_decides_as_predict_does(rng):
    X, Y = make_data(rng)
    model = thresholded(make_pipeline(StandardScaler(), BinaryRelevance(C=1.0)), 0).fit(X, Y)
    rule = model[-1].decision_rule()
    np.testing.assert_array_equal(rule(joint_of(model, X)), model.predict(X))
    assert not np.allclose(rule.thresholds, 0.5)
