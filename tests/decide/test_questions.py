"""What to ask next, against the definition."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from colabel.decide import DECISIONS, RiskMinimiser, Seen, decide, next_question
from colabel.decide.questions import Questions
from colabel.joint import Mixture
from tests.decide.test_decisions import (
    GAIN_OF,
    GAINS,
    cases,
    gains_of_pairs,
    probabilities,
    random_joint,
    random_tree,
)
from tests.joint.families import of_marginals
from tests.joint.oracle import make_space


def losses(name, sizes):
    """Loss (v, v) of predicting each vector where each is true."""
    return (name in GAINS) - gains_of_pairs(name, sizes)


def gains_by_hand(joint, name):
    """Expected loss that each label would remove (n, d), and what there is (n,)."""
    vectors, prob = probabilities(joint)
    loss = losses(name, joint.space.cardinalities)

    def least_risk(prob):  # of distributions (n, v) that need not sum to one
        return (prob @ loss).min(axis=1)

    left = np.zeros((len(prob), vectors.shape[1]))
    for label, size in enumerate(joint.space.cardinalities):
        for value in range(size):
            # P(y_j = v) R(P(. | y_j = v)) = min_h sum_{y: y_j = v} P(y) loss(y, h)
            left[:, label] += least_risk(prob * (vectors[:, label] == value))
    return least_risk(prob)[:, None] - left, least_risk(prob)


@pytest.mark.parametrize("style", [1.0, "zeros", "ties"])
@pytest.mark.parametrize(("name", "sizes"), cases((2,) * 5, (3, 4)))
def test_gains_are_those_of_the_definition(rng, name, sizes, style):
    joint = random_joint(rng, sizes, 8, style)
    found = next_question(joint, name)
    gain, risk = gains_by_hand(joint, name)
    np.testing.assert_allclose(found.risk, risk, atol=1e-9)
    np.testing.assert_allclose(found.gain, gain, atol=1e-9)
    assert (found.gain >= 0).all()
    np.testing.assert_allclose(DECISIONS[name].risk(joint), risk, atol=1e-9)
    codes, (vectors, prob) = decide(joint, name), probabilities(joint)
    places = [(vectors == h).all(axis=1).argmax() for h in codes]
    own = (prob * losses(name, sizes)[:, places].T).sum(axis=1)
    np.testing.assert_allclose(own, risk, atol=1e-9)


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
    own = [-(table * np.log(table)).sum(axis=1) for table in mixed.marginal_tables()]
    np.testing.assert_allclose(next_question(mixed, "log").gain, np.transpose(own), atol=1e-9)
    gain, _ = gains_by_hand(mixed, "subset")
    np.testing.assert_allclose(next_question(mixed).gain, gain, atol=1e-9)


def test_every_risk_is_tested():
    named = {name for name, rule in DECISIONS.items() if isinstance(rule, RiskMinimiser)}
    assert named == set(GAIN_OF)


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
    found = next_question(of_marginals([[0.1, 0.4]]), "hamming")
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
