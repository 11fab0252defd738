"""Parts of a member that are components of a stack: the leaves of a forest."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from colabel import BinaryRelevance, JointForest, JointStack
from colabel.learn.pool import LabelPrior
from colabel.models.cross_fitting import part_joints, with_frequencies

FOREST = JointForest(15, min_samples_leaf=1, target="vectors", random_state=0)
ALONE = BinaryRelevance(C=0.1, random_state=0)
NAMES = ["forest", "forest, leaves", "alone", "frequencies"]


def rows(n=90, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    first = X[:, 0] + 0.5 * rng.normal(size=n) > 0
    return X, np.column_stack([first, first ^ (rng.random(n) < 0.2), X[:, 1] > 0.3]).astype(int)


def leaf_shares(forest, X, X_train, Y_train, y):
    """Mean over trees of the share of training rows with label vector y (n, d), leaf by leaf."""
    leaves, of_train = forest.forest_.forest.leaves(X), forest.forest_.forest.leaves(X_train)
    found = np.zeros(len(X))
    for r in range(len(X)):
        for t in range(leaves.shape[1]):
            near = Y_train[of_train[:, t] == leaves[r, t]]
            found[r] += (near == y[r]).all(axis=1).mean() / leaves.shape[1]
    return found


def test_a_forest_is_grown_once_and_asked_out_of_bag():
    X, Y = rows()
    model = JointStack([("forest", FOREST), ("alone", ALONE)], cv=3, random_state=0).fit(X, Y)
    forest = clone(FOREST)
    held = forest.fit_held_out(X, Y)
    every, leaves = held.joints(np.arange(len(X)))
    assert -every.log_prob(Y).mean() == pytest.approx(forest.oob_log_loss_)
    assert model.held_out_log_loss_["forest"] == pytest.approx(forest.oob_log_loss_)
    some, _ = held.joints(np.array([7, 3]))
    np.testing.assert_allclose(some.log_prob(Y[[7, 3]]), every.log_prob(Y)[[7, 3]])
    # the leaves have never seen the row: fully grown ones would hold its own vector alone
    assert np.exp(leaves.log_prob(Y)).mean() < 0.9
    assert list(model.weights_) == model.component_names_ == NAMES
    assert list(model.exponents_ or dict.fromkeys([*NAMES, "new"])) == [*NAMES, "new"]


def test_a_forest_of_rows_with_missing_labels_is_judged_on_rows_held_out():
    """Labels drawn for the rows of a tree come from a chain that knows the row out of bag."""
    rng = np.random.default_rng(0)
    X, Y = rows(200)
    holes = np.where(rng.random(Y.shape) < 0.6, np.nan, Y)
    holes[:, 0] = Y[:, 0]
    folds = list(KFold(2).split(X))
    model = JointStack([("forest", FOREST), ("alone", ALONE)], cv=folds, random_state=0)
    whole = clone(FOREST).fit(X, holes)
    loss = sum(
        -FOREST.reusing(whole).fit(X[train], holes[train]).joint(X[test]).log_prob(holes[test])
        for train, test in folds
    ).sum()
    losses = model.fit(X, holes).held_out_log_loss_
    assert losses["forest"] == pytest.approx(loss / 200)
    assert losses["forest"] > whole.oob_log_loss_ + 0.01


def test_what_a_blank_may_mean_is_said_once_of_all_rows():
    """The rows of some folds have no 0 of the last label, which all rows have."""
    X, Y = rows(60)
    holes = np.where(np.random.default_rng(1).random(Y.shape) < 0.8, np.nan, Y)
    holes[:, 2] = np.where(np.arange(60) % 3 == 0, np.nan, 1.0)
    holes[7, 2] = 0.0
    members = [("forest", FOREST), ("alone", ALONE)]
    with pytest.warns(UserWarning, match="no known label") as caught:
        JointStack(members, cv=3, random_state=0).fit(X, holes)
    assert len(caught) == 1, [str(each.message) for each in caught]


@pytest.mark.parametrize("share", [0.0, 0.4])
def test_forests_of_rows_held_out_take_over_choices_and_have_fewer_trees(share, monkeypatch):
    """Where labels are missing; else the trees out of bag answer, and there are none of them."""
    X, Y = rows(200)
    holes = np.where(np.random.default_rng(0).random(Y.shape) < share, np.nan, Y)
    fitted = JointForest(101, random_state=0).fit(X, holes)
    chosen = []
    monkeypatch.setattr(
        "colabel.models.chain.learning.choose", lambda *_: chosen.append(1) or np.zeros(Y.shape[1])
    )
    again = fitted.reusing(fitted).fit(X, holes)
    assert not chosen
    assert again.n_estimators == (100 if share else 101)
    if share:
        np.testing.assert_array_equal(again._choices.choice, fitted._choices.choice)
        assert again._choices.share == fitted._choices.share
        assert not fitted._choices.models.n_models  # no coefficients are kept


def test_new_rows_are_copies_as_often_as_these_are():
    """Rows of pure chance, each there four times: a copy knows the labels of the next."""
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(40, 3)), rng.integers(0, 2, (40, 4))
    many, labels = np.repeat(X, 4, axis=0), np.repeat(Y, 4, axis=0)
    forest = JointForest(50, min_samples_leaf=1, random_state=0)
    several = forest.fit_held_out(many, labels).joints(np.arange(160))
    alone = forest.fit_held_out(X, Y).joints(np.arange(40))
    for one, other in zip(several, alone, strict=True):
        assert np.exp(one.log_prob(labels)).mean() > 2 * np.exp(other.log_prob(Y)).mean()
    stack = JointStack([("forest", forest), ("alone", ALONE)], random_state=0).fit(many, labels)
    assert stack.held_out_log_loss_["forest, leaves"] < 1.5
    assert stack.joint(X).log_prob(Y).mean() > -1.0


@pytest.mark.parametrize("weight", ["learned", "none", "calibrated"])
def test_leaves_are_a_component_whatever_weight_the_forest_gives_them(weight):
    X, Y = rows()
    forest = JointForest(**FOREST.get_params()).set_params(calibrate=weight == "calibrated")
    forest.fit(X, Y)
    share = leaf_shares(forest, X[:9], X, Y, Y[:9])
    if weight == "none":
        forest.weights_ = np.array([0.0, 1.0, 0.0, 0.0])
    model = make_pipeline(StandardScaler(with_mean=False, with_std=False).fit(X), forest)
    prior: LabelPrior = JointStack([ALONE], random_state=0).fit(X, Y).prior_
    frequencies = prior.joint(forest.label_space_, 9)
    joint = forest.joint(X[:9])
    (part,) = part_joints(model[-1], joint, lambda: model[:-1].transform(X[:9]))
    _, leaves = with_frequencies([joint, part], frequencies)
    expected = 0.8 * share + 0.2 * np.exp(frequencies.log_prob(Y[:9]))
    np.testing.assert_allclose(np.exp(leaves.log_prob(Y[:9])), expected, rtol=1e-9)


def test_a_forest_that_fails_has_no_components():
    X, Y = rows()
    members = [("forest", JointForest(5, max_features="most", random_state=0)), ("alone", ALONE)]
    with pytest.warns(UserWarning, match="'forest' is left out"):
        model = JointStack(members, random_state=0).fit(X, Y)
    assert model.component_names_ == ["alone", "frequencies"]
