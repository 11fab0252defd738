"""What labels say of each other given x, against sums over all label vectors."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from colabel import CDN, CTBN, BinaryRelevance, ProbabilisticClassifierChain
from colabel.joint import Tree, label_dependence
from tests.joint.families import of_marginals
from tests.joint.oracle import every_vector, make_space


def brute_force(joint, i, j):
    """Mutual information and pooled conditionals, from the log-probability of every vector."""
    sizes = joint.space.cardinalities
    tables = np.zeros((joint.n_rows, sizes[i], sizes[j]))
    for y in every_vector(sizes):
        tables[:, y[i], y[j]] += np.exp(joint.log_prob_codes(np.tile(y, (joint.n_rows, 1))))
    nats, on, off, weight = 0.0, 0.0, 0.0, 0.0
    for table in tables:
        first, second = table.sum(axis=1), table.sum(axis=0)
        for a, b in itertools.product(range(sizes[i]), range(sizes[j])):
            if table[a, b] > 0:
                nats += table[a, b] * np.log(table[a, b] / (first[a] * second[b])) / len(tables)
        w = first[0] * first[1]
        weight += w
        on += w * table[1, 1] / first[1]
        off += w * table[0, 1] / first[0]
    return nats, on / weight, off / weight


@pytest.fixture
def data(rng):
    X = rng.normal(size=(300, 2))
    first = X[:, 0] + 0.7 * rng.normal(size=300) > 0
    second = first ^ (rng.random(300) < 0.2)
    third = X[:, 0] > 0.3 * rng.normal(size=300)  # of x alone, like the first
    return X, np.column_stack([third, first, second]).astype(int)


@pytest.mark.parametrize(
    "model", [CTBN(C=1.0, random_state=0), ProbabilisticClassifierChain(C=1.0, random_state=0)]
)
def test_exact_families_agree_with_enumeration(model, data):
    X, Y = data
    joint = model.fit(X, Y).joint(X[:20])
    assert "sums" in joint.exact
    found = label_dependence(joint)
    for i, j in itertools.permutations(range(3), 2):
        own = found.nats[i, j], found.given_on[i, j], found.given_off[i, j]
        assert own == pytest.approx(brute_force(joint, i, j), abs=1e-9)
    assert not found.nats.diagonal().any()


def test_what_was_planted_is_found_whatever_the_order_of_the_columns(data):
    X, Y = data
    for order in itertools.permutations(range(3)):
        model = ProbabilisticClassifierChain(C=1.0, random_state=0).fit(X, Y[:, order])
        nats = label_dependence(model.joint(X)).nats
        one, other = order.index(1), order.index(2)
        planted = nats[one, other]
        nats[one, other] = nats[other, one] = 0.0
        assert planted > 0.05 > 5 * nats.max()


def test_counted_pairs_are_close_to_the_truth(data):
    X, Y = data
    joint = CDN(C=1.0, random_state=0).fit(X, Y).joint(X[:100])
    found = label_dependence(joint)
    exact = label_dependence(CTBN(C=1.0, random_state=0).fit(X, Y).joint(X[:100]))
    np.testing.assert_allclose(found.nats, exact.nats, atol=0.03)
    np.testing.assert_array_equal(found.nats, label_dependence(joint).nats)


def test_independent_labels_say_nothing(data):
    X, Y = data
    found = label_dependence(BinaryRelevance(C=1.0).fit(X, Y).joint(X))
    assert found.nats.max() < 1e-12
    np.testing.assert_allclose(found.given_on[0, 1], found.given_off[0, 1])


def test_some_labels_only_and_class_variables():
    a = np.log([[[0.5, 0.5]]])
    b = np.log([[[0.8, 0.1, 0.1], [0.1, 0.1, 0.8]]])
    c = np.log([[[0.9, 0.1], [0.5, 0.5], [0.2, 0.8]]])
    joint = Tree(make_space((2, 3, 2)), [-1, 0, 1], [a, b, c])
    found = label_dependence(joint, [0, 1])
    assert found.nats.shape == (2, 2)
    assert np.isnan(found.given_on).all()
    whole = label_dependence(joint)
    assert whole.nats[0, 1] == found.nats[0, 1]
    assert whole.nats[0, 1] > whole.nats[0, 2] > 0  # the data processing inequality


def test_a_row_that_is_sure_says_nothing():
    found = label_dependence(of_marginals([[0.0, 0.5]]))
    assert found.nats.max() == 0.0
    assert np.isnan(found.given_on[0, 1])
    assert found.given_on[1, 0] == found.given_off[1, 0] == 0.0
