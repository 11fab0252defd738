"""What to ask next, against the definition."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from colabel.decide import DECISIONS, RiskMinimiser, Seen, decide, next_question
from colabel.decide.questions import Questions
from colabel.joint import Independent, Mixture, Tree
from tests.decide.test_decisions import GAINS, LOSSES, make_space, random_tree

LOSS_OF = {**LOSSES, **{n: (lambda y, h, g=g: 1.0 - g(y, h)) for n, g in GAINS.items()}}


def least_risk(prob, loss):
    """Least expected loss of a distribution (v,) that need not sum to one."""
    return (prob @ loss).min()


def gains_by_hand(joint, name):
    """Expected loss that each label would remove (n, d), and what there is (n,)."""
    vectors = np.array(list(itertools.product(*map(range, joint.space.cardinalities))), np.int32)
    prob = np.stack([np.exp(joint.log_prob(y)) for y in vectors], axis=1)
    loss = np.array([[LOSS_OF[name](y, h) for h in vectors] for y in vectors])
    risk = np.array([least_risk(p, loss) for p in prob])
    left = np.zeros((len(prob), vectors.shape[1]))
    for row, label in np.ndindex(left.shape):
        for value in range(joint.space.cardinalities[label]):
            # P(y_j = v) R(P(. | y_j = v)) = min_h sum_{y: y_j = v} P(y) loss(y, h)
            left[row, label] += least_risk(prob[row] * (vectors[:, label] == value), loss)
    return risk[:, None] - left, risk


@pytest.mark.parametrize("style", ["smooth", "zeros", "ties"])
@pytest.mark.parametrize("name", sorted(LOSS_OF))
def test_gains_are_those_of_the_definition(rng, name, style):
    joint = random_tree(rng, 5, n_rows=8, style=style)
    found = next_question(joint, name)
    gain, risk = gains_by_hand(joint, name)
    np.testing.assert_allclose(found.risk, risk, atol=1e-9)
    np.testing.assert_allclose(found.gain, gain, atol=1e-9)
    assert (found.gain >= 0).all()


@pytest.mark.parametrize("name", ["subset", "hamming"])
def test_class_variables(rng, name):
    root, leaf = (np.log(rng.dirichlet(np.ones(k), size=(9, p))) for p, k in ((1, 3), (3, 4)))
    joint = Tree(make_space((3, 4)), [-1, 0], [root, leaf])
    gain, _ = gains_by_hand(joint, name)
    np.testing.assert_allclose(next_question(joint, name).gain, gain, atol=1e-9)


def test_log_loss_is_removed_by_the_entropy_of_the_label(rng):
    joint = random_tree(rng, 4, n_rows=6)
    left = np.zeros((6, 4))
    for label, value in itertools.product(range(4), (0, 1)):
        prob = joint.marginal_tables()[label][:, value]
        left[:, label] += prob * joint.given({label: value}).entropy()
    found = next_question(joint, "log")
    np.testing.assert_allclose(found.gain, joint.entropy()[:, None] - left, atol=1e-9)
    np.testing.assert_allclose(found.risk, joint.entropy())
    mixed = Mixture([joint, random_tree(rng, 4, n_rows=6)])  # which does not know its entropy
    assert np.isnan(next_question(mixed, "log").risk).all()
    assert (next_question(mixed, "log").gain > 0).all()


def test_a_mixture_of_trees(rng):
    joint = Mixture([random_tree(rng, 4, n_rows=6), random_tree(rng, 4, n_rows=6)])
    gain, _ = gains_by_hand(joint, "subset")
    np.testing.assert_allclose(next_question(joint).gain, gain, atol=1e-9)


def test_risk_is_the_expected_loss_of_the_decision(rng):
    joint = random_tree(rng, 5, n_rows=10)
    vectors = np.array(list(itertools.product((0, 1), repeat=5)))
    prob = np.stack([np.exp(joint.log_prob(y)) for y in vectors], axis=1)
    assert {name for name, rule in DECISIONS.items() if isinstance(rule, RiskMinimiser)} == {
        *LOSS_OF
    }
    for name in LOSS_OF:
        rule = DECISIONS[name]
        lost = [[LOSS_OF[name](y, h) for y in vectors] for h in decide(joint, name)]
        np.testing.assert_allclose(rule.risk(joint), (prob * lost).sum(axis=1), atol=1e-9)


def test_known_labels_come_last_and_are_never_asked(rng):
    joint = random_tree(rng, 4, n_rows=5).given({"y1": 1})
    found = next_question(joint)
    assert (found.gain[:, 1] == 0).all()
    assert (found.order[:, -1] == 1).all()
    assert set(found.labels) <= {"y0", "y2", "y3"}
    everything = joint.given(dict.fromkeys(("y0", "y2", "y3"), 0))
    assert next_question(everything).labels.tolist() == [None] * 5


def test_the_most_useful_label_comes_first(rng):
    joint = random_tree(rng, 6, n_rows=20)
    found = next_question(joint, "f1")
    ranked = np.take_along_axis(found.gain, found.order, axis=1)
    assert (np.diff(ranked, axis=1) <= 0).all()
    names = [joint.space.names[i] for i in found.gain.argmax(axis=1)]
    assert found.labels.tolist() == names
    frame = pytest.importorskip("pandas") and found.to_frame()
    assert frame["ask"].tolist() == names
    np.testing.assert_allclose(frame["gain"], ranked[:, 0])


def test_independent_labels_are_asked_by_their_own_doubt():
    joint = Independent(make_space((2, 2)), [np.log([[0.9, 0.1]]), np.log([[0.6, 0.4]])])
    found = next_question(joint, "hamming")
    np.testing.assert_allclose(found.gain, [[0.05, 0.2]])


def test_a_decision_without_a_risk_is_refused(rng):
    joint = random_tree(rng, 3)
    with pytest.raises(ValueError, match=r"has no risk\(joint\).*'subset', 'hamming'"):
        next_question(joint, Seen(np.zeros((1, 3), np.int32)))
    with pytest.raises(ValueError, match="no decision for the loss 'square'"):
        next_question(joint, "square")


def test_ties_but_for_rounding_errors_go_by_the_order_of_labels():
    space = make_space((2,) * 5)
    gain = np.array([[0.2, 0.3, 0.3 + 2e-16, 0.2 + 1e-15, 0.3 - 1e-15]])
    found = Questions(space, np.ones(1), gain, np.ones((1, 5), dtype=bool))
    assert found.order.tolist() == [[1, 2, 4, 0, 3]]
    assert found.labels.tolist() == ["y1"]
    some = Questions(space, np.ones(1), gain, np.array([[True, False, True, True, False]]))
    assert some.order.tolist() == [[2, 0, 3, 1, 4]]
