"""Lists of label vectors; that their answers are right is tested against enumeration."""

from __future__ import annotations

import numpy as np
import pytest

from colabel import VectorList
from colabel.joint.vectors import vector_list as lists
from tests.joint.oracle import make_space

pytestmark = pytest.mark.filterwarnings("error")
VECTORS = np.array([[0, 0, 2], [1, 0, 0], [1, 1, 1]])
SPACE = make_space((2, 2, 3))


def test_one_list_for_all_rows_is_the_same_list_in_each(rng):
    log_weights = rng.normal(size=(4, 3))
    log_weights[1, 2] = -np.inf
    shared = VectorList(SPACE, VECTORS, log_weights)
    indptr, indices = np.arange(5) * 3, np.tile(np.arange(3), 4)
    own = VectorList.of_lists(SPACE, VECTORS, indptr, indices, log_weights.ravel())
    for one, two in zip(shared.marginal_tables(), own.marginal_tables(), strict=True):
        np.testing.assert_array_equal(one, two)
    assert len(shared.indices) == 11  # what has no weight is not kept


def test_log_total_is_the_sum_of_the_weights_left():
    joint = VectorList(SPACE, VECTORS, np.log([[2.0, 3.0, 5.0]]))
    np.testing.assert_allclose(joint.log_total, np.log(10.0))
    np.testing.assert_allclose(joint.given({"y0": 1}).log_total, np.log(8.0))
    np.testing.assert_allclose(joint.given({"y0": 1})[[0, 0]].log_total, np.log([8.0, 8.0]))


def test_tiny_probabilities_are_not_lost():
    joint = VectorList(SPACE, VECTORS, [[0.0, -2000.0, -2001.0]])
    np.testing.assert_allclose(joint.log_prob([1, 0, 0]), -2000.0)
    known = joint.given({"y0": 1})
    np.testing.assert_allclose(known.marginals()[1][:, 1], 1 / (1 + np.e))


@pytest.mark.parametrize("far", [0.0, 1e9, 2e9])
def test_the_largest_weight_of_a_row_is_looked_for_once_also_far_from_zero(monkeypatch, far):
    asked, row_max = [], lists.row_max
    monkeypatch.setattr(lists, "row_max", lambda *a: asked.append(a) or row_max(*a))
    weights = np.log([0.2, 0.3, 0.5]) + far
    joint = VectorList(make_space((2, 2)), [[0, 0], [0, 1], [1, 1]], [weights, weights - 7.0])
    assert len(asked) == 1
    np.testing.assert_allclose(joint.log_total, [far, far - 7.0], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(joint.marginals(), [[0.5, 0.8]] * 2, atol=1e-6)
    for table in joint.marginal_tables():
        np.testing.assert_allclose(table.sum(axis=1), 1.0, atol=1e-14)


def test_few_vectors_are_followed_by_impossible_ones():
    labels, log_prob = VectorList(SPACE, VECTORS[:2], [[0.0, 1.0]]).top_k(4)
    assert labels[0, :2].tolist() == [[1, 0, 0], [0, 0, 2]]
    assert np.isneginf(log_prob[0, 2:]).all()
    assert len({tuple(vector) for vector in labels[0].tolist()}) == 4


def test_a_tie_goes_to_the_first_of_the_list():
    joint = VectorList(SPACE, VECTORS[::-1], np.zeros((2, 3)))
    np.testing.assert_array_equal(joint.mode(), VECTORS[[2, 2]])
    np.testing.assert_array_equal(joint.top_k(3).labels[1], VECTORS[::-1])


def test_draws_never_leave_their_row(rng):
    # rows that are sure, some of them by weights that vanish beside those of the others
    joint = VectorList(SPACE, VECTORS, np.where(np.eye(3, dtype=bool), 0.0, -1e4)[[0, 1, 2, 1]])
    sharp = joint.inverted(np.array([[0.0, np.nextafter(1.0, 0.0)]] * 4))
    for drawn in (joint.sample(500, rng), sharp):
        assert (drawn == VECTORS[[0, 1, 2, 1]]).all()


@pytest.mark.parametrize(
    ("vectors", "log_weights", "match"),
    [
        (VECTORS[:, :2], np.zeros((1, 3)), r"shape \(3, 2\), but must have \(vectors, 3\)"),
        (VECTORS + 1, np.zeros((1, 3)), "must be integer codes"),
        (VECTORS * 1.0, np.zeros((1, 3)), "must be integer codes"),
        (VECTORS, np.zeros((1, 2)), r"\(1, 2\), but must have \(rows, 3\)"),
        (VECTORS, [[0.0, np.nan, 0.0]], "but one is nan"),
        (VECTORS, [[0.0, np.inf, 0.0]], "but one is inf"),
        (VECTORS, [[0.0] * 3, [-np.inf] * 3], r"1 of 2 rows have no label vector .* is row 1\)"),
    ],
)
def test_errors_say_what_to_do(vectors, log_weights, match):
    with pytest.raises(ValueError, match=match):
        VectorList(SPACE, vectors, log_weights)


@pytest.mark.parametrize(
    ("indptr", "indices", "match"),
    [
        ([0, 2], [0, 1, 2], "must ascend from 0 to the number of entries, 3"),
        ([0, 2, 1, 3], [0, 1, 2], "must ascend"),
        ([0, 3], [0, 1, 3], "names vector 3, but there are 3"),
        ([0, 3], [0, 1], "one of each per entry"),
    ],
)
def test_errors_of_lists_say_what_to_do(indptr, indices, match):
    with pytest.raises(ValueError, match=match):
        VectorList.of_lists(SPACE, VECTORS, indptr, indices, np.zeros(3))
