"""Decisions on a joint: which vector each loss asks for."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from colabel.decide import DECISIONS, Hamming, Subset, decide
from colabel.joint import Independent, Tree
from colabel.labels import LabelSpace


def make_space(cardinalities):
    names = tuple(f"y{i}" for i in range(len(cardinalities)))
    return LabelSpace(names, tuple(np.arange(k) for k in cardinalities), "matrix")


@pytest.fixture
def tree():
    rng = np.random.default_rng(11)
    root, left, right = (
        np.log(rng.dirichlet(np.ones(k), size=(40, p))) for p, k in ((1, 3), (3, 2), (3, 4))
    )
    return Tree(make_space((3, 2, 4)), [-1, 0, 0], [root, left, right])


LOSSES = {
    "subset": lambda y, h: float((y != h).any()),
    "hamming": lambda y, h: float((y != h).mean()),
}


@pytest.mark.parametrize("name", sorted(LOSSES))
def test_the_decision_has_the_least_expected_loss(tree, name):
    vectors = np.array(list(itertools.product(range(3), range(2), range(4))), dtype=np.int32)
    prob = np.stack([np.exp(tree.log_prob(y)) for y in vectors], axis=1)
    loss = np.array([[LOSSES[name](y, h) for h in vectors] for y in vectors])
    risk = prob @ loss
    codes = decide(tree, name)
    assert codes.dtype == np.int32
    chosen = [(vectors == h).all(axis=1).argmax() for h in codes]
    np.testing.assert_allclose(risk[np.arange(len(codes)), chosen], risk.min(axis=1), atol=1e-12)


def test_every_named_loss_is_tested():
    assert set(LOSSES) == set(DECISIONS)


def test_subset_is_the_default(tree):
    np.testing.assert_array_equal(decide(tree), tree.mode_codes())


def test_hamming_resolves_ties_as_rounding_does():
    p = np.array([0.5, np.nextafter(0.5, 1), np.nextafter(0.5, 0), 0.0, 1.0])
    with np.errstate(divide="ignore"):
        table = np.log(np.stack([1 - p, p], axis=1))
    # P(y=0) a rounding error below one half must not tip a probability of exactly one half
    table[0, 0] = np.nextafter(table[0, 0], -1)
    joint = Independent(make_space((2,)), [table])
    np.testing.assert_array_equal(decide(joint, "hamming"), np.round(joint.marginals()))
    assert decide(joint, "hamming")[:, 0].tolist() == [0, 1, 0, 0, 1]


def test_mode_and_hamming_agree_under_independence():
    rng = np.random.default_rng(2)
    tables = [np.log(rng.dirichlet(np.ones(k), size=50)) for k in (2, 3, 2)]
    joint = Independent(make_space((2, 3, 2)), tables)
    np.testing.assert_array_equal(decide(joint, "subset"), decide(joint, "hamming"))


def test_decisions_say_what_they_need():
    assert {name: set(rule.needs) for name, rule in DECISIONS.items()} == {
        "subset": {"mode"},
        "hamming": {"marginals"},
    }


def test_decisions_and_functions_are_accepted(tree):
    np.testing.assert_array_equal(decide(tree, Subset()), decide(tree, "subset"))
    np.testing.assert_array_equal(decide(tree, Hamming()), decide(tree, "hamming"))
    zeros = decide(tree, lambda joint: np.zeros((joint.n_rows, 3), dtype=np.int64))
    assert zeros.shape == (40, 3)
    assert zeros.dtype == np.int32


def test_what_is_no_decision(tree):
    with pytest.raises(ValueError, match="no decision for the loss 'zero-one'") as error:
        decide(tree, "zero-one")
    assert "'subset', 'hamming'" in str(error.value)
    with pytest.raises(ValueError, match="but it is 3"):
        decide(tree, 3)
    with pytest.raises(ValueError, match=r"must return integer codes of shape \(40, 3\)"):
        decide(tree, lambda joint: np.zeros(3, dtype=np.int32))
    with pytest.raises(ValueError, match="float64"):
        decide(tree, lambda joint: np.zeros((40, 3)))
