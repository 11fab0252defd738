"""Mixtures of trees: EM against a slow version, its ascent, growth, and what users see."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit

from colabel import CTBN, Mixture, MixtureOfTrees
from colabel.labels import LabelSpace
from colabel.learn.conditional import TrainingData, random_folds
from colabel.learn.design import Design
from colabel.learn.glm.lbfgs import LBFGS
from colabel.learn.glm.losses import Loss
from colabel.learn.linear import LinearLearner
from colabel.models.mixture_of_trees.experts import Gate, SoftTargets, Trees
from colabel.models.mixture_of_trees.mixture import EM, responsibilities
from tests.asserts import assert_each_close
from tests.models.mixture_of_trees.oracle import SlowMixture, SlowTree

QUICK = {"C": 1.0, "gate_C": 0.1, "random_state": 0, "cv": 3}


@pytest.fixture
def problem(rng):
    """Labels that follow each other one way where x is low, the other way where it is high."""
    X = rng.normal(size=(300, 3))
    other = rng.random(300) < expit(3 * X[:, 0])
    first = rng.random(300) < expit(X[:, 1])
    copied = np.where(rng.random((300, 3)) < 0.9, first[:, None], ~first[:, None])
    Y = np.column_stack([first, np.where(other[:, None], copied, ~copied)]).astype(int)
    return X, Y


@pytest.fixture
def variables(rng):
    X = rng.normal(size=(200, 3))
    first = (X[:, 0] + rng.normal(size=200) > 0).astype(int)
    second = (first + rng.integers(0, 2, 200) + (X[:, 1] > 0)) % 3
    third = np.where(rng.random(200) < 0.7, second, rng.integers(0, 4, 200))
    return X, np.column_stack([first, second, third])


def em_on(X, Y, weight=None, tol=1e-9):
    space, codes = LabelSpace.infer(Y)
    data = TrainingData(X, codes, space.cardinalities, weight)
    learner = LinearLearner(np.array([1.0]), tol, 1000, 1, False)
    return EM(space, data, random_folds(data, 3, 0), Trees(learner, False, 5), tol, 0.0, 1)


def slow_version(mixture, C, gate_C):
    trees = []
    for tree in mixture.members():
        coef = tree.models.coef
        keys = {
            (label, value): coef[slot][0]
            for label, own in enumerate(tree.slots)
            for value, slot in enumerate(own)
        }
        trees.append(SlowTree(tree.parents, keys))
    strength = None if gate_C is None else 1.0 / gate_C
    return SlowMixture(trees, mixture.gate.coef.copy(), C, strength)


@pytest.mark.parametrize("gate_C", [None, 0.5])
def test_iterations_are_those_of_a_slow_em(rng, gate_C):
    X = rng.normal(size=(80, 2))
    Y = (X @ rng.normal(size=(2, 3)) + rng.logistic(size=(80, 3)) > 0).astype(int)
    Y[:, 1] = np.where(rng.random(80) < 0.8, Y[:, 0], Y[:, 1])
    weight = rng.uniform(0.5, 1.5, 80)
    em = em_on(X, Y, weight)
    start = em.grown(em.first(0), 1)
    start = type(start)(start.experts, Gate(start.gate.coef, gate_C))
    slow = slow_version(start, 1.0, gate_C)
    np.testing.assert_allclose(em.log_terms(start), slow.log_terms(X, Y), atol=1e-9)
    found = replace(em, steps=500).run(start, 3)  # M-steps to the maximum
    values = [slow.objective(X, Y, weight)]
    for _ in range(3):
        slow.step(X, Y, weight)
        values.append(slow.objective(X, Y, weight))
    np.testing.assert_allclose(found.values, values, rtol=1e-6)
    np.testing.assert_allclose(em.log_terms(found.mixture), slow.log_terms(X, Y), atol=2e-3)
    share = responsibilities(em.log_terms(found.mixture))
    np.testing.assert_allclose(share.sum(axis=1), 1.0)


@pytest.mark.parametrize(
    ("labels", "options"),
    [
        ("problem", {}),
        ("problem", {"base": "chains"}),
        ("problem", {"C": (0.01, 0.1, 1.0), "gate": "constant"}),
        ("variables", {}),
        ("variables", {"gate": "constant", "base": "chains"}),
        ("variables", {"pairs": "separate"}),
    ],
    ids=str,
)
def test_em_never_descends(request, labels, options, rng):
    X, Y = request.getfixturevalue(labels)
    model = MixtureOfTrees(3, em_tol=0.0, final_iter=15, **{**QUICK, **options})
    model.fit(X, Y, sample_weight=rng.uniform(0.5, 2.0, len(X)))
    rises = np.diff(model.objective_)
    assert len(rises) == model.n_iter_ or not len(rises)
    assert (rises >= 0).all()
    assert rises.sum() > 0


def test_steps_rise_whether_or_not_em_looks(problem):
    """EM stops before a fall; without labels missing it never has to."""
    X, Y = problem
    em = em_on(X, Y, tol=1e-2)
    mixture = em.grown(em.first(0), 1)
    last = -np.inf
    for _ in range(15):
        terms = em.log_terms(mixture)
        value = np.logaddexp.reduce(terms, axis=1).sum() - mixture.penalty()
        assert value >= last - 1e-9 * abs(value)
        last = value
        mixture = em._maximised(mixture, responsibilities(terms), LBFGS(1e-2, 3))


def test_one_tree_is_a_ctbn(problem):
    X, Y = problem
    model = MixtureOfTrees(1, C=(0.1, 1.0), random_state=0).fit(X, Y)
    tree = CTBN((0.1, 1.0), random_state=0).fit(X, Y)
    np.testing.assert_array_equal(model.trees_[0].parents, tree.tree_)
    np.testing.assert_allclose(model.joint(X).log_prob(Y), tree.joint(X).log_prob(Y), atol=1e-9)


def test_rare_values_of_a_parent_share_the_model_without_it(rng):
    """Each of them needs its own place: all but the last were lost, an IndexError."""
    X, Y = rng.normal(size=(120, 2)), rng.integers(0, 40, size=(120, 2))
    Y[:, 1] = (Y[:, 0] + rng.integers(0, 2, 120)) % 40
    model = MixtureOfTrees(1, C=1.0, random_state=0).fit(X, Y)
    tree = CTBN(1.0, random_state=0).fit(X, Y)
    np.testing.assert_array_equal(model.trees_[0].parents, tree.tree_)
    assert (tree.tree_ >= 0).any()
    np.testing.assert_allclose(model.joint(X).log_prob(Y), tree.joint(X).log_prob(Y), atol=1e-6)
    two = MixtureOfTrees(2, C=1.0, random_state=0).fit(X, Y)
    assert two.joint(X).log_prob(Y).mean() > tree.joint(X).log_prob(Y).mean() - 0.5


def two_trees(rng, n):
    """Labels 1 2 and 3 4 are alike, or 1 3 and 2 4: no one tree can say it."""
    first, second = rng.integers(0, 2, (2, n))
    pairs = np.where(
        (rng.random(n) < 0.5)[:, None],
        np.stack([first, first, second, second], axis=1),
        np.stack([first, second, first, second], axis=1),
    )
    return rng.normal(size=(n, 2)), np.where(rng.random((n, 4)) < 0.03, 1 - pairs, pairs)


def test_held_out_rows_ask_for_what_one_tree_cannot_say(rng):
    X, Y = two_trees(rng, 800)
    model = MixtureOfTrees(gate="constant", **QUICK).fit(X[:400], Y[:400])
    tree = CTBN(1.0, cv=3, random_state=0).fit(X[:400], Y[:400])
    assert model.n_trees_ >= 2
    assert model.held_out_scores_[1] > model.held_out_scores_[0]
    one, more = (m.joint(X[400:]).log_prob(Y[400:]).mean() for m in (tree, model))
    assert more > one + 0.1


def test_independent_labels_need_one_tree(rng):
    X = rng.normal(size=(300, 3))
    Y = (X + rng.logistic(size=X.shape) > 0).astype(int)
    model = MixtureOfTrees(C=0.1, gate="constant", random_state=0).fit(X, Y)
    assert model.n_trees_ == 1
    assert len(model.held_out_scores_) >= 2


def test_an_expert_without_rows_is_dropped(problem):
    X, Y = problem
    em = em_on(X, Y)
    mixture = em.grown(em.first(0), 1)
    coef = mixture.gate.coef.copy()
    coef[1, -1] = -800.0  # responsibilities underflow
    found = em.run(type(mixture)(mixture.experts, Gate(coef)), 5)
    assert len(found.mixture.experts) == 1
    assert (np.diff(found.values) >= 0).all()
    np.testing.assert_array_equal(found.mixture.gate.log_weights(X), np.zeros((len(X), 1)))


def test_the_joint_is_a_mixture_weighted_by_the_gate(problem):
    X, Y = problem
    model = MixtureOfTrees(2, **QUICK).fit(X, Y)
    joint = model.joint(X)
    assert isinstance(joint, Mixture)
    assert joint.exact.all
    scores = X @ model.gate_coef_[:, :-1].T + model.gate_coef_[:, -1]
    weights = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(joint.weights, weights)
    np.testing.assert_allclose(model.weights_, weights.mean(axis=0))
    assert np.ptp(weights[:, 0]) > 0.2  # it does look at x
    constant = MixtureOfTrees(2, gate="constant", **QUICK).fit(X, Y)
    assert not constant.gate_coef_[:, :-1].any()


def test_chains_have_orders_of_their_own(variables):
    X, Y = variables
    model = MixtureOfTrees(3, base="chains", **QUICK).fit(X, Y)
    assert len({tuple(chain.order) for chain in model.trees_}) > 1
    assert len(model.label_graph().ends) == 0


def test_the_graph_is_the_union_of_the_trees(problem):
    X, Y = problem
    model = MixtureOfTrees(3, **QUICK).fit(X, Y)
    graph = model.label_graph()
    shares = {tuple(ends): share for ends, share in zip(graph.ends, graph.strengths, strict=True)}
    for (parent, child), share in shares.items():
        have = [tree.parents[child] == parent for tree in model.trees_]
        assert share == pytest.approx(model.weights_ @ have)
    n_arcs = {(p, c) for tree in model.trees_ for c, p in enumerate(tree.parents) if p >= 0}
    assert len(shares) == len(n_arcs)


def test_soft_targets_that_are_sure_are_classes(rng):
    X, hard = rng.normal(size=(60, 2)), rng.integers(0, 3, 60).astype(np.int16)
    design, weight = Design.of(X), rng.uniform(0.5, 2.0, 60)
    scores, change = rng.normal(size=(1, 3, 60)), rng.normal(size=(1, 3, 60))
    found = []
    for loss in (Loss(3), SoftTargets(np.eye(3)[hard])):
        residual, own = np.empty_like(scores), scores.copy()
        sums = loss.move(own, change, np.array([0.3]), hard[None], weight, residual)
        found.append((*sums, residual, own, *loss.along(residual, change, hard[None], weight)))
    assert_each_close(*found, rtol=1e-9)
    assert design.n_rows == 60


def test_the_gate_is_optimal(rng):
    X, weight = rng.normal(size=(80, 3)), rng.uniform(0.5, 2.0, 80)
    share = rng.dirichlet(np.ones(3), 80)
    gate = Gate(np.zeros((3, 4)), 0.5).refitted(Design.of(X, weight), share, LBFGS(1e-9, 500))
    excess = weight[:, None] * (np.exp(gate.log_weights(X)) - share)
    slope = excess.T @ np.column_stack([X, np.ones(80)])
    slope[:, :-1] += gate.coef[:, :-1] / 0.5
    assert np.abs(slope).max() < 1e-5
