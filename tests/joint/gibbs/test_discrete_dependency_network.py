"""Algorithm 2: fixed points, cycles and caps."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from colabel.joint import DiscreteDependencyNetwork, LinearConditionals
from colabel.joint.base import APPROXIMATE
from colabel.joint.gibbs.dependency_network import fixed_point, one_pass
from colabel.labels import MISSING
from tests.joint.families import random_network
from tests.joint.oracle import make_space, random_evidence

pytestmark = pytest.mark.filterwarnings("error")


class Rules:
    """Labels set by a function of (label vector, label) that knows no probabilities."""

    def __init__(self, rule, n_rows, cardinalities):
        self.rule, self.n_rows, self.cardinalities = rule, n_rows, cardinalities

    def log_prob(self, labels, i):
        value = np.array([[self.rule(y, i) for y in chain] for chain in labels.tolist()])
        return np.where(value[..., None] == np.arange(self.cardinalities[i]), 0.0, -27.0)

    def rows(self, index):
        return Rules(self.rule, len(np.arange(self.n_rows)[index]), self.cardinalities)


@pytest.mark.parametrize(
    ("rule", "sizes", "initial", "order", "most", "status", "passes", "ends"),
    [
        # y0 copies y1, y1 contradicts y0: from (0, 0) to (0, 1) to (1, 0) and round again; a
        # majority decides: halves, and ties go to the smaller code
        (lambda y, i: y[1] if i == 0 else 1 - y[0], (2, 2), [[0, 0]], [0, 1], 50,
         ["cycled"], [3], [[0, 0]]),
        # a longer cycle of labels of three values: each of them equally often
        (lambda y, i: (y[1] + 1) % 3 if i == 0 else y[0], (3, 3), [[0, 0], [1, 1]], [0, 1], 50,
         ["cycled"] * 2, [3, 3], [[0, 0]] * 2),
        # y1 = 0 keeps things still, y1 = 1 makes y0 count up to 9, which a cap of 3 cuts short
        (lambda y, i: y[1] if i == 1 else min(y[0] + y[1], 9), (10, 2), [[4, 0], [0, 1], [8, 1]],
         [1, 0], 3, ["converged", "capped", "converged"], [1, 3, 2], [[4, 0], [3, 1], [9, 1]]),
    ],
)  # fmt: skip
def test_rows_end_each_in_its_own_way(rule, sizes, initial, order, most, status, passes, ends):
    rules, unknown = Rules(rule, len(initial), sizes), np.full((len(initial), 2), MISSING)
    labels, found = fixed_point(rules, np.array(initial), np.array(order), unknown, most)
    assert found.status.tolist() == status
    assert found.passes.tolist() == passes
    assert labels.tolist() == ends


@pytest.mark.parametrize("seed", range(5))
def test_converged_rows_are_fixed_points_and_rows_are_independent(seed):
    rng = np.random.default_rng(seed)
    network = random_network(rng, 60, (2, 3, 2, 2, 2), strength=2.0, symmetric=False)
    evidence = random_evidence(rng, 60, network.cardinalities, 0.2)
    order = rng.permutation(5)
    initial = np.zeros((60, 5), dtype=np.int32)
    labels, found = fixed_point(network, initial, order, evidence, 100)
    again = one_pass(network, labels, order, evidence)
    fixed = (again == labels).all(axis=1)
    assert fixed[found.status == "converged"].all()
    assert (found.status == "converged").any()
    known = evidence != MISSING
    np.testing.assert_array_equal(labels[known], evidence[known])
    for row in range(0, 60, 7):
        one = np.array([row])
        alone, _ = fixed_point(network.rows(one), initial[one], order, evidence[one], 100)
        np.testing.assert_array_equal(alone[0], labels[row])


def test_symmetric_networks_always_converge():
    # Each update raises p(y) of the pairwise field behind, so there is no cycle.
    network = random_network(np.random.default_rng(0), 200, (2,) * 6, strength=2.0)
    joint = DiscreteDependencyNetwork(make_space((2,) * 6), network)
    assert joint.report.counts == {"converged": 200, "cycled": 0, "capped": 0}


def test_the_joint():
    rng = np.random.default_rng(0)
    network = random_network(rng, 50, (2,) * 5, strength=3.0, symmetric=False)
    joint = DiscreteDependencyNetwork(make_space((2,) * 5), network, initial=[1, 0, 0, 1, 0])
    report = joint.report
    assert sum(report.counts.values()) == 50
    assert report.counts["cycled"] > 0
    assert f"50 rows: {report.counts['converged']} converged" in repr(report)
    given = joint.given({"y2": 1})
    assert (given.mode()[:, 2] == 1).all()
    np.testing.assert_array_equal(joint[[3, 1]].mode(), joint.mode()[[3, 1]])
    assert joint.exact == APPROXIMATE
    assert "until none changes" in joint.how


def test_capped_rows_warn():
    rules = Rules(lambda y, i: min(y[0] + 1, 9), 2, (10,))
    joint = DiscreteDependencyNetwork(make_space((10,)), rules, max_iterations=2)
    with pytest.warns(ConvergenceWarning, match="2 of 2 rows had not settled after 2 passes"):
        assert joint.report.counts["capped"] == 2


@pytest.mark.parametrize(
    "ask",
    [
        lambda joint: joint.marginals(),
        lambda joint: joint.log_prob([0, 0]),
        lambda joint: joint.top_k(2),
        lambda joint: joint.sample(2),
        lambda joint: joint.pair_marginals(0, 1),
    ],
)
def test_what_it_cannot_give_it_refuses(ask):
    network = LinearConditionals(np.zeros((1, 2)), np.zeros((2, 2)), (2, 2))
    joint = DiscreteDependencyNetwork(make_space((2, 2)), network)
    with pytest.raises(NotImplementedError, match=r"it answers mode.*CalibratedClassifierCV"):
        ask(joint)


def test_iterations_are_checked():
    network = LinearConditionals(np.zeros((1, 1)), np.zeros((1, 1)), (2,))
    with pytest.raises(ValueError, match="max_iterations=0"):
        DiscreteDependencyNetwork(make_space((2,)), network, max_iterations=0)
