"""Classifier chains: the classic algorithm, its parameters, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.multioutput import ClassifierChain as ClassicChain
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

from colabel import ClassifierChain, ProbabilisticClassifierChain
from colabel.learn.conditional import TrainingData
from colabel.models.chain.learning import mutual_information, order_by_dependence
from tests.models.oracle import Unsmoothed

MODELS = [ClassifierChain, ProbabilisticClassifierChain]


@pytest.fixture
def problem(rng):
    """Draw rows with five labels, each tied to the one before."""
    X = rng.normal(size=(200, 4))
    Y = np.zeros((200, 5), dtype=int)
    for i in range(5):
        before = Y[:, i - 1] * 2 - 1 if i else 0
        Y[:, i] = X @ rng.normal(size=4) + 1.5 * before + rng.logistic(size=200) > 0
    return X, Y


def tight(**params):
    return Unsmoothed(tol=1e-12, max_iter=10_000, **params)


@pytest.mark.parametrize("order", [None, [3, 0, 4, 2, 1]])
@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array])
def test_the_classic_chain(problem, order, storage):
    X, Y = problem
    model = ClassifierChain(C=0.7, order=order, tol=1e-9).fit(storage(X[:150]), Y[:150])
    classic = ClassicChain(tight(C=0.7), order=order).fit(X[:150], Y[:150])
    np.testing.assert_array_equal(model.predict(storage(X[150:])), classic.predict(X[150:]))
    np.testing.assert_allclose(
        model.predict_path_proba(storage(X[150:])), classic.predict_proba(X[150:]), atol=1e-5
    )
    for position, label in enumerate(model.order_):
        link, coef = classic.estimators_[position], model.models_.coef[label][0]
        before = model.order_[:position]
        expected = np.concatenate([link.coef_[0], link.intercept_])
        found = np.concatenate([coef[:4], coef[4 + before], coef[-1:]])
        np.testing.assert_allclose(found, expected, atol=1e-5)
        later = 4 + model.order_[position:]
        assert (coef[later] == 0).all()


@pytest.mark.parametrize(
    ("estimator", "order"),
    # a tree breaks ties between features by their places, which only this order leaves alone
    [(DecisionTreeClassifier(max_depth=3, random_state=0), None), (GaussianNB(), [4, 1, 0, 2, 3])],
)
def test_the_classic_chain_of_any_estimator(problem, estimator, order):
    X, Y = problem
    model = ClassifierChain(estimator=estimator, stack=False, order=order).fit(X[:150], Y[:150])
    classic = ClassicChain(estimator, order=order).fit(X[:150], Y[:150])
    np.testing.assert_array_equal(model.predict(X[150:]), classic.predict(X[150:]))


def test_both_kinds_of_links_answer_alike(problem):
    X, Y = problem
    built_in = ProbabilisticClassifierChain(C=1.0, tol=1e-9).fit(X, Y).joint(X)
    other = ProbabilisticClassifierChain(estimator=tight(), stack=False).fit(X, Y).joint(X)
    np.testing.assert_allclose(built_in.log_prob(Y), other.log_prob(Y), atol=1e-5)
    np.testing.assert_allclose(built_in.marginals(), other.marginals(), atol=1e-5)
    np.testing.assert_array_equal(built_in.mode(), other.mode())


def test_scaled_labels_are_penalised_less(problem):
    X, Y = problem
    model = ClassifierChain(C=0.3, label_scale=5.0, tol=1e-9).fit(X, Y)
    columns = np.hstack([X, 5.0 * Y[:, :4]])
    link = tight(C=0.3).fit(columns, Y[:, 4])
    expected = link.coef_[0] * np.repeat([1.0, 5.0], 4)
    np.testing.assert_allclose(model.models_.coef[4][0][:8], expected, atol=1e-5)
    np.testing.assert_array_equal(model.predict_path_proba(X) > 0.5, model.predict(X) == 1)


def test_scales_are_chosen_with_the_penalty(problem):
    X, Y = problem
    model = ClassifierChain([1e-3, 1.0], random_state=0, tol=1e-8).fit(X, Y)
    assert set(model.label_scale_) <= {1.0, 10.0, 100.0}
    assert (model.label_scale_[1:] > 1).any()  # strong labels beside penalised features
    assert ClassifierChain(1.0).fit(X, Y).label_scale_.tolist() == [1.0] * 5
    for label in range(5):  # each link alone, with what was chosen for it
        alone = ClassifierChain(
            float(model.C_[label]), label_scale=float(model.label_scale_[label]), tol=1e-8
        ).fit(X, Y)
        np.testing.assert_allclose(model.models_.coef[label], alone.models_.coef[label], atol=1e-4)


@pytest.mark.parametrize("inference", ["exact", "epsilon", "beam", "monte_carlo"])
@pytest.mark.parametrize("estimator", [None, GaussianNB()])
def test_every_inference_of_an_easy_problem_agrees(problem, inference, estimator):
    X, Y = problem
    model = ProbabilisticClassifierChain(
        1.0, estimator=estimator, inference=inference, epsilon=1e-4, beam_width=32, random_state=0
    ).fit(X, Y)
    joint = model.joint(X)
    assert ("mode" in joint.exact) == (inference == "exact")
    assert {"sums", "log_prob"} <= joint.exact
    every = np.array(np.unravel_index(np.arange(32), (2,) * 5)).T
    best = np.max([joint.log_prob(y) for y in every], axis=0)
    np.testing.assert_allclose(joint.log_prob(model.predict(X)), best, atol=1e-9)


def test_greedy_inference_is_the_classifier_chain(problem):
    X, Y = problem
    greedy = ProbabilisticClassifierChain(1.0, inference="greedy").fit(X, Y)
    np.testing.assert_array_equal(greedy.predict(X), ClassifierChain(1.0).fit(X, Y).predict(X))


def test_many_labels(rng):
    X = rng.normal(size=(100, 3))
    Y = (X @ rng.normal(size=(3, 30)) + rng.logistic(size=(100, 30)) > 0).astype(int)
    model = ProbabilisticClassifierChain(0.1, n_samples=200, random_state=0).fit(X, Y)
    joint = model.joint(X[:5])
    assert joint.exact == {"mode", "log_prob"}
    assert "200 draws" in joint.how
    prob = model.predict_proba(X[:5])
    assert ((prob > 0) & (prob < 1)).all()
    np.testing.assert_array_equal(prob[2:], model.predict_proba(X[2:5]))
    greedy = ClassifierChain(0.1, random_state=0).fit(X, Y).joint(X[:5])
    assert (joint.log_prob(joint.mode()) >= joint.log_prob(greedy.mode())).all()


# -------------------------------------------------------------------------------- orders


def test_orders(problem):
    X, Y = problem
    names = list("abcde")
    named = ClassifierChain(1.0, order=["e", "a", "b", "c", "d"]).fit(X, Y, label_names=names)
    assert named.order_.tolist() == [4, 0, 1, 2, 3]
    assert ClassifierChain(1.0).fit(X, Y).order_.tolist() == [0, 1, 2, 3, 4]
    data = TrainingData(X, Y.astype(np.int32), (2,) * 5)
    documented = order_by_dependence(mutual_information(data))
    by_dependence = ClassifierChain(1.0, order="correlation").fit(X, Y)
    np.testing.assert_array_equal(by_dependence.order_, documented)
    shuffled = [ClassifierChain(1.0, order="random", random_state=s).fit(X, Y) for s in (1, 1, 2)]
    assert shuffled[0].order_.tolist() == shuffled[1].order_.tolist()
    assert shuffled[0].order_.tolist() != shuffled[2].order_.tolist()


def test_order_by_dependence(rng):
    codes = rng.integers(0, 3, size=(500, 4)).astype(np.int32)
    codes[:, 1] = codes[:, 3]
    codes[:, 0] = np.where(rng.random(500) < 0.7, codes[:, 3], codes[:, 0])
    data = TrainingData(np.zeros((500, 1)), codes, (3, 3, 3, 3))
    information = mutual_information(data)
    p = np.bincount(codes[:, 1]) / 500
    np.testing.assert_allclose(information[1, 3], -(p * np.log(p)).sum())
    np.testing.assert_allclose(information, information.T)
    assert order_by_dependence(information).tolist() == [1, 3, 0, 2]
    weighted = TrainingData(np.zeros((500, 1)), codes, (3, 3, 3, 3), np.full(500, 2.0))
    np.testing.assert_allclose(mutual_information(weighted), information)
