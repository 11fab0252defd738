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
from colabel.comparing import Ask, Task, answer, learn
from colabel.comparing.held_out import cross_validate
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
    model = make_pipeline(StandardScaler(), CTBN(C=0.01, random_state=0))
    found = answer(learn(model, task, TRAIN)[0], task, TEST)
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
    found = answer(learn(BinaryRelevance(C=1.0), task, TRAIN[:60])[0], task, np.arange(60, 80))
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
    fitted, _ = learn(model, task, TRAIN)
    found = answer(fitted, task, TEST)
    np.testing.assert_array_equal(found.codes, fitted.predict(task.X[TEST]))
    has_joint = not isinstance(model, StackedBinaryRelevance | DecisionTreeClassifier)
    assert (found.log_prob is not None) == has_joint
    assert np.isnan(MEASURES["joint_log_loss"].take(found)) != has_joint


def test_a_joint_is_built_once_and_asked_once(task):
    calls = []

    class Counting(CDN):
        def joint(self, X):
            calls.append(len(X))
            return super().joint(X)

    fitted, _ = learn(Counting(C=0.01, random_state=0), task, TRAIN)
    calls.clear()
    answer(fitted, task, TEST)
    assert calls == [100]


def test_times_are_taken_after_a_warm_up_which_may_fail(task):
    fits = []

    class Choosy(BinaryRelevance):
        def fit(self, X, y, sample_weight=None, **options):
            fits.append(len(X))
            if len(X) < 100:
                raise ValueError("more rows")
            return super().fit(X, y, sample_weight, **options)

    for _ in range(2):
        assert learn(Choosy(C=1.0), task, TRAIN)[1] > 0
    assert fits == [60, 200, 200]  # a few rows before the first time that is taken


def test_what_is_not_asked_is_not_worked_out(task):
    fitted, _ = learn(BinaryRelevance(C=1.0), task, TRAIN)
    found = answer(fitted, task, TEST, Ask(log_prob=False, marginals=False, confidence=False))
    assert found.log_prob is found.marginals is found.confidence is found.joint is None
    kept = answer(fitted, task, TEST, Ask(joint=True))
    np.testing.assert_array_equal(kept.joint.mode(), found.codes)


def test_many_rows_are_answered_in_parts(task):
    fitted, _ = learn(BinaryRelevance(C=1.0), task, TRAIN)
    whole = answer(fitted, task, TEST)
    parts = answer(fitted, task, TEST, Ask(rows_at_once=7))
    for name in ("rows", "true", "codes", "log_prob", "marginals", "confidence", "mode_right"):
        np.testing.assert_allclose(getattr(parts, name), getattr(whole, name))


def test_the_loop_goes_through_models_and_folds(task):
    models = {
        "br": BinaryRelevance(C=1.0),
        "f1": BinaryRelevance(C=-1.0),
        "tree": CTBN(C=1.0, random_state=0),
    }
    folds = kfold(300, 3, 0)
    answers = dict(cross_validate(models, task, folds))
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
def test_a_search_answers_as_the_pipeline_that_it_found(task, model):
    pipeline = make_pipeline(KernelFeatures(2.0, 20, random_state=0), model)
    search = GridSearchCV(pipeline, {"kernelfeatures__width": [2.0]}, cv=2)
    plain, *others = [
        answer(learn(own, task, TRAIN)[0], task, TEST)
        for own in (pipeline, search, make_pipeline(StandardScaler(with_std=False), search))
    ]
    for found in others:
        np.testing.assert_array_equal(found.codes, plain.codes)
        for one, other in ((found.log_prob, plain.log_prob), (found.graph, plain.graph)):
            assert (one is None) == (other is None)
        if plain.log_prob is not None:
            np.testing.assert_allclose(found.log_prob, plain.log_prob)
            np.testing.assert_array_equal(found.graph.ends, plain.graph.ends)
            assert found.graph.names == tuple(task.space.names)
