"""Ensembles of chains: members, resampling, reproducibility."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

from colabel import ClassifierChain, EnsembleOfChains, Mixture
from colabel.learn.conditional import TrainingData
from colabel.models.chain.chains import resampled


@pytest.fixture
def problem(rng):
    X = rng.normal(size=(150, 4))
    Y = (X @ rng.normal(size=(4, 5)) + rng.logistic(size=(150, 5)) > 0).astype(int)
    return X, Y


@pytest.mark.parametrize("estimator", [None, GaussianNB(), DecisionTreeClassifier()])
def test_bases(problem, estimator):
    X, Y = problem
    model = EnsembleOfChains(4, C=1.0, estimator=estimator, random_state=0).fit(X, Y)
    assert model.orders_.shape == (4, 5)
    assert len({tuple(order) for order in model.orders_.tolist()}) > 1
    joint = model.joint(X)
    assert isinstance(joint, Mixture)
    members = [member.marginals() for member in joint.members]
    np.testing.assert_allclose(model.predict_proba(X), np.mean(members, axis=0))
    assert (model.predict(X) == Y).mean() > 0.7


def test_same_seed_same_answer_whatever_n_jobs(problem):
    X, Y = problem
    tree = DecisionTreeClassifier(max_features=2)
    model = EnsembleOfChains(4, estimator=tree, bootstrap=True, random_state=3)
    found = [model.set_params(n_jobs=n).fit(X, Y).predict_proba(X) for n in (1, 2)]
    np.testing.assert_array_equal(*found)


def test_one_chain_on_all_rows_is_a_classifier_chain(problem):
    X, Y = problem
    model = EnsembleOfChains(1, C=1.0, max_samples=1.0, decision="vote", random_state=0).fit(X, Y)
    single = ClassifierChain(1.0, order=model.orders_[0]).fit(X, Y)
    np.testing.assert_array_equal(model.predict(X), single.predict(X))
    np.testing.assert_allclose(model.joint(X).log_prob(Y), single.joint(X).log_prob(Y))


def test_majority_vote(problem):
    X, Y = problem
    model = EnsembleOfChains(5, C=1.0, decision="vote", random_state=0).fit(X, Y)
    votes = np.mean([member.mode() for member in model.joint(X).members], axis=0)
    np.testing.assert_array_equal(model.predict(X), votes > 0.5)


def test_rows_are_resampled_by_content(problem):
    X, Y = problem
    codes, sizes = Y.astype(np.int32), (2,) * 5
    rows, single = resampled(TrainingData(X, codes, sizes), 0.5, False, 7)
    assert single.n_rows == 75
    np.testing.assert_array_equal(X[rows], single.X)
    shuffle = np.random.default_rng(0).permutation(150)
    _, again = resampled(TrainingData(X[shuffle], codes[shuffle], sizes), 0.5, False, 7)
    assert {row.tobytes() for row in again.X} == {row.tobytes() for row in single.X}
    _, other = resampled(TrainingData(X, codes, sizes), 0.5, False, 8)
    assert {row.tobytes() for row in other.X} != {row.tobytes() for row in single.X}


def test_a_weight_of_two_is_a_row_written_twice_in_a_bootstrap_too(problem):
    X, Y = problem
    weight = 1 + (np.arange(150) < 40)
    model = EnsembleOfChains(3, C=1.0, bootstrap=True, tol=1e-8, random_state=0)
    weighted = model.fit(X, Y, sample_weight=weight).predict_proba(X)
    repeated = model.fit(np.repeat(X, weight, axis=0), np.repeat(Y, weight, axis=0))
    np.testing.assert_allclose(weighted, repeated.predict_proba(X), atol=1e-4)


def test_a_bootstrap_has_the_right_size(problem):
    X, Y = problem
    _, drawn = resampled(TrainingData(X, Y.astype(np.int32), (2,) * 5), 1.0, True, 0)
    np.testing.assert_allclose(drawn.weight.sum(), 150)
    np.testing.assert_allclose(drawn.weight, np.round(drawn.weight))
    assert 80 < drawn.n_rows < 110  # 1 - 1/e of the rows
