"""Scores and coordinate ascent of the compiled network, against loops over the formulas."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from colabel.joint.lds.network import DependencySets, FeatureColumns
from colabel.labels import MISSING
from tests.joint.lds.oracle import draw_rows, random_network, slow_copy

CASES = {
    "labels": (((), (0,), (0, 1), (1, 2), (3,)), (2,) * 5, (3, 2, 4), 9),
    "class variables": (((1,), (), (0, 1)), (3, 2, 4), (2, 5), 7),
    "one label": (((),), (3,), (2, 2), 2),
    "all seen": (((), (0,), (0, 1)), (2, 2, 2), (3, 2), 8),
    "no arcs": (((), (), ()), (2, 2, 2), (3, 1), 1),
}


@pytest.fixture(params=CASES)
def case(request, rng):
    """A network, the same by loops, and 30 rows of features and labels drawn from it."""
    network = random_network(rng, *CASES[request.param])
    labels, features = draw_rows(network, 30, rng)
    return network, slow_copy(network), features, labels


def test_scores(case):
    network, slow, features, labels = case
    expected = [slow.log_joint(y, f) for y, f in zip(labels, features, strict=True)]
    np.testing.assert_allclose(network.log_joint(features, labels), expected, rtol=1e-10)
    expected = [[slow.log_joint(y, f) for y in network.vectors] for f in features]
    np.testing.assert_allclose(network.seen_scores(features), expected, rtol=1e-10)


def test_chunks_do_not_change_the_scores(case):
    network, _, features, labels = case
    expected = network.log_joint(features, labels)
    np.testing.assert_array_equal(network.log_joint(features, labels, 1), expected)


def test_every_vector_is_listed_once_with_its_score_and_those_seen_are_found(case):
    network, slow, features, _ = case
    vectors, scores = network.every_vector(features[:4])
    assert len({tuple(y) for y in vectors.tolist()}) == np.prod(network.sets.cardinalities)
    expected = [[slow.log_joint(y, f) for y in vectors] for f in features[:4]]
    np.testing.assert_allclose(scores, expected, rtol=1e-10)
    places = {y: u for u, y in enumerate(slow.seen)}
    expected = [places.get(tuple(y), -1) for y in vectors.tolist()]
    assert network.seen_positions(vectors).tolist() == expected


@pytest.mark.parametrize("known", [0.0, 0.4])
def test_ascent_ends_where_the_loops_end(case, rng, known):
    network, slow, features, labels = (part[:12] if i > 1 else part for i, part in enumerate(case))
    evidence = np.where(rng.random(labels.shape) < known, labels, MISSING).astype(np.int32)
    found = network.ascend(features, np.zeros_like(labels), evidence=evidence)
    for row, f in enumerate(features):
        end = slow.ascend(f, [0] * labels.shape[1], evidence[row].tolist())
        assert found[row].tolist() == end


def test_ascent_never_falls_and_ends_at_a_fixed_point_whatever_the_threads(case):
    network, _, features, labels = case
    one = network.ascend(features, labels, max_sweeps=1)
    end = network.ascend(features, labels)
    scores = [network.log_joint(features, codes) for codes in (labels, one, end)]
    assert (np.diff(scores, axis=0) >= -1e-9).all()
    np.testing.assert_array_equal(network.ascend(features, end), end)
    features, labels = np.tile(features, (20, 1)), np.tile(labels, (20, 1))
    for options in ({"n_jobs": 1}, {"n_jobs": 2, "seen_scores": network.seen_scores(features)}):
        found = network.ascend(features, labels, **options)
        np.testing.assert_array_equal(found, np.tile(end, (20, 1)))


def test_some_of_the_sets_can_be_improved_alone(case):
    network, _, features, labels = case
    last = network.sets.n_labels - 1
    found = network.ascend(features, labels, sets=[last], max_sweeps=1)
    others = [i for i in range(network.sets.n_labels) if i not in network.sets.members[last]]
    np.testing.assert_array_equal(found[:, others], labels[:, others])
    scores = network.log_joint(features, found)
    for state in network.sets.assignments(last):
        other = labels.copy()
        other[:, network.sets.members[last]] = state
        assert (scores >= network.log_joint(features, other) - 1e-9).all()


def test_neighbours_are_the_unseen_vectors_within_one_set(case, rng):
    network, slow, features, labels = case
    evidence = np.where(rng.random(labels.shape) < 0.2, labels, MISSING).astype(np.int32)
    codes, scores = network.neighbours(features, labels, evidence=evidence)
    for row, f in enumerate(features):
        expected = {}
        for k, members in enumerate(network.sets.members):
            for state in network.sets.assignments(k):
                other = labels[row].copy()
                other[list(members)] = state
                agrees = ((evidence[row] == MISSING) | (evidence[row] == other)).all()
                if agrees and tuple(other.tolist()) not in slow.theta:
                    expected[tuple(other.tolist())] = slow.log_joint(other, f)
        counted = np.isfinite(scores[row])
        found = [tuple(y) for y in codes[row, counted].tolist()]
        assert len(found) == len(set(found))
        assert set(found) == set(expected)
        np.testing.assert_allclose(scores[row, counted], [expected[y] for y in found], rtol=1e-9)


def test_a_table_of_all_vectors_is_not_pickled(case):
    network, _, features, labels = case
    size = len(pickle.dumps(network))
    before = network.every_vector(features)[1]
    network.ascend(features, labels)
    stored = pickle.dumps(network)
    assert len(stored) == size
    np.testing.assert_array_equal(pickle.loads(stored).every_vector(features)[1], before)


def test_impossible_values_score_minus_infinity(rng):
    network = random_network(rng, ((), ()), (2, 2), (2,), 3)
    network.phi[:] = 0.0
    network.phi[:, :, 0] = 1.0
    features = np.array([[0], [1]], dtype=np.int32)
    scores = network.every_vector(features)[1]
    assert np.isfinite(scores[0]).all()
    assert np.isneginf(scores[1]).all()


def test_states_and_columns():
    sets = DependencySets.of([(2, 1), (), ()], (2, 3, 2))
    assert sets.parents == ((1, 2), (), ())
    assert sets.n_states.tolist() == [12, 3, 2]
    for k, members in enumerate(sets.members):
        every = np.zeros((sets.n_states[k], 3), dtype=np.int32)
        every[:, members] = sets.assignments(k)
        assert sets.states(every)[:, k].tolist() == list(range(sets.n_states[k]))
    columns = FeatureColumns((2, 1, 3))
    assert columns.n_columns == 6
    rows = columns.one_hot(np.array([[1, 0, 2]]))
    assert rows.tolist() == [[0, 1, 1, 0, 0, 1]]
