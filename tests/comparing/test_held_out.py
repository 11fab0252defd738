"""The loop that demo and comparisons share: each answer is worked out once, and right."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

from colabel import (
    CDN,
    CTBN,
    BayesNetEnsemble,
    BinaryRelevance,
    KernelFeatures,
    StackedBinaryRelevance,
    ThresholdedClassifier,
    metrics,
)
from colabel.comparing import held_out
from colabel.comparing.held_out import Ask, Method, Task, answer, cross_validate, learn
from colabel.comparing.result import COMPARED, MEASURES
from studies.datasets import kfold, load_digit_traits


@pytest.fixture
def data():
    return load_digit_traits()


@pytest.fixture
def task(data):
    return Task.of(data.X[:300], data.Y[:300], data.label_names)


TRAIN, TEST = np.arange(200), np.arange(200, 300)


def test_answers_are_those_of_the_model(task, data):
    method = Method(CTBN(C=0.01, random_state=0), (StandardScaler(),))
    found = answer(learn(method, task, TRAIN), task, TEST)
    scaler = StandardScaler().fit(data.X[TRAIN])
    model = CTBN(C=0.01, random_state=0).fit(scaler.transform(data.X[TRAIN]), data.Y[TRAIN])
    X, Y = scaler.transform(data.X[TEST]), data.Y[TEST]
    joint = model.joint(X)
    np.testing.assert_array_equal(found.codes, model.predict(X))
    np.testing.assert_allclose(found.log_prob, joint.log_prob(Y))
    np.testing.assert_allclose(found.marginals, model.predict_proba(X))
    np.testing.assert_allclose(found.confidence, np.exp(joint.log_prob(joint.mode())))
    np.testing.assert_array_equal(found.graph.parents, model.tree_)
    for name, metric in {
        "exact_match": metrics.exact_match,
        "hamming_accuracy": metrics.hamming_accuracy,
        "multilabel_accuracy": metrics.multilabel_accuracy,
    }.items():
        assert MEASURES[name].take(found) == metric(Y, model.predict(X))
    assert MEASURES["joint_log_loss"].take(found) == pytest.approx(-joint.log_prob(Y).mean())
    assert COMPARED["seconds"].take(found) == found.seconds >= found.predict_seconds > 0


def test_values_of_class_variables_are_not_taken_for_labels(rng):
    X = rng.normal(size=(80, 2))
    Y = np.stack([np.where(X[:, 0] > 0, "high", "low"), rng.integers(0, 3, 80)], axis=1)
    task = Task.of(X, Y, ("risk", "grade"))
    found = answer(learn(Method(BinaryRelevance(C=1.0)), task, TRAIN[:60]), task, np.arange(60, 80))
    predicted = BinaryRelevance(C=1.0).fit(X[:60], Y[:60]).predict(X[60:])
    for name, average in (("micro_f1", "micro"), ("macro_f1", "macro")):
        expected = metrics.f1_score(Y[60:], predicted, average=average)
        assert MEASURES[name].take(found) == pytest.approx(expected)


@pytest.mark.parametrize(
    "model",
    [
        StackedBinaryRelevance(estimator=LinearSVC(random_state=0), cv=2, random_state=0),
        BayesNetEnsemble(smoothing=1.0, decision="pooled"),
        ThresholdedClassifier(BinaryRelevance(C=1.0), cv=2, random_state=0),
        GridSearchCV(BinaryRelevance(), {"C": [0.1, 1.0]}, cv=2),
        DecisionTreeClassifier(random_state=0),
    ],
    ids=lambda model: type(model).__name__,
)
def test_models_that_decide_without_a_joint_or_behind_a_search(model, task):
    fitted = learn(Method(model), task, TRAIN)
    found = answer(fitted, task, TEST)
    np.testing.assert_array_equal(found.codes, fitted.model.predict(task.X[TEST]))
    has_joint = not isinstance(model, StackedBinaryRelevance | DecisionTreeClassifier)
    assert (found.log_prob is not None) == has_joint
    assert np.isnan(MEASURES["joint_log_loss"].take(found)) != has_joint


def test_a_joint_is_built_once_and_asked_once(task, monkeypatch):
    calls = []
    joint = CDN.joint
    monkeypatch.setattr(CDN, "joint", lambda self, X: calls.append(len(X)) or joint(self, X))
    fitted = learn(Method(CDN(C=0.01, random_state=0)), task, TRAIN)
    calls.clear()
    answer(fitted, task, TEST)
    assert calls == [100]


def test_times_are_taken_after_a_warm_up(task, monkeypatch):
    fits = []

    class Slow(BinaryRelevance):
        def fit(self, X, y, sample_weight=None, **options):
            fits.append(len(X))
            return super().fit(X, y, sample_weight, **options)

    method = Method(Slow(C=1.0))
    monkeypatch.setattr(held_out, "_warm", set())
    for _ in range(2):
        learn(method, task, TRAIN)
    assert fits == [60, 200, 200]  # a few rows before the first time that is taken


def test_a_warm_up_that_fails_does_not_matter(task, monkeypatch):
    class Choosy(BinaryRelevance):
        def fit(self, X, y, sample_weight=None, **options):
            if len(X) < 100:
                raise ValueError("more rows")
            return super().fit(X, y, sample_weight, **options)

    monkeypatch.setattr(held_out, "_warm", set())
    assert learn(Method(Choosy(C=1.0)), task, TRAIN).learn_seconds > 0


def test_what_is_not_asked_is_not_worked_out(task):
    fitted = learn(Method(BinaryRelevance(C=1.0)), task, TRAIN)
    found = answer(fitted, task, TEST, Ask(log_prob=False, marginals=False, confidence=False))
    assert found.log_prob is found.marginals is found.confidence is found.joint is None
    kept = answer(fitted, task, TEST, Ask(joint=True))
    np.testing.assert_array_equal(kept.joint.mode(), found.codes)


def test_many_rows_are_answered_in_parts(task, monkeypatch):
    fitted = learn(Method(BinaryRelevance(C=1.0)), task, TRAIN)
    whole = answer(fitted, task, TEST)
    monkeypatch.setattr("colabel.core.arrays.MOST_ROWS", 7)
    parts = answer(fitted, task, TEST)
    for name in ("rows", "true", "codes", "log_prob", "marginals", "confidence", "mode_right"):
        np.testing.assert_allclose(getattr(parts, name), getattr(whole, name))


def test_the_loop_goes_through_methods_and_folds(task):
    methods = {
        "br": Method(BinaryRelevance(C=1.0)),
        "f1": Method(BinaryRelevance(C=-1.0)),
        "tree": Method(CTBN(C=1.0, random_state=0)),
    }
    folds = kfold(300, 3, 0)
    answers = dict(cross_validate(methods, task, folds))
    first = [
        ("br", 0),
        ("f1", 0),
        ("tree", 0),
    ]  # of all methods; one that failed is not asked again
    assert list(answers) == [*first, ("br", 1), ("br", 2), ("tree", 1), ("tree", 2)]
    assert isinstance(answers["f1", 0], ValueError)
    own = [answers["br", fold] for fold in range(3)]
    together = own[0].in_order(*own[1:])
    np.testing.assert_array_equal(together.rows, np.arange(300))
    np.testing.assert_array_equal(together.true, task.codes)
    for (_, test), part in zip(folds, own, strict=True):
        np.testing.assert_array_equal(together.codes[test], part.codes)


@pytest.mark.parametrize(
    "model",
    [
        CTBN(C=0.01, random_state=0),
        DecisionTreeClassifier(random_state=0),
    ],
    ids=lambda model: type(model).__name__,
)
def test_a_pipeline_answers_as_its_steps_before_the_model_do(task, model):
    features = KernelFeatures(2.0, 20, random_state=0)
    pipeline = make_pipeline(features, model)
    search = GridSearchCV(pipeline, {"kernelfeatures__width": [2.0]}, cv=2)
    stepwise, *others = [
        answer(learn(method, task, TRAIN), task, TEST)
        for method in (
            Method(model, (features,)),
            Method(pipeline),
            Method(search),
            Method(make_pipeline(model), (features,)),
        )
    ]
    for found in others:
        np.testing.assert_array_equal(found.codes, stepwise.codes)
        for one, other in ((found.log_prob, stepwise.log_prob), (found.graph, stepwise.graph)):
            assert (one is None) == (other is None)
        if stepwise.log_prob is not None:
            np.testing.assert_allclose(found.log_prob, stepwise.log_prob)
            np.testing.assert_array_equal(found.graph.ends, stepwise.graph.ends)
            assert found.graph.names == tuple(task.space.names)
