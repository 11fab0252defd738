"""What is special to trees: their shape, their tables, the cost of a pass, the paper's examples."""

from __future__ import annotations

import math

import numpy as np
import pytest

from colabel.core.numeric import log_sum_exp
from colabel.joint import Independent, Tree
from colabel.joint.elimination import draw, leading, merged
from tests.joint.oracle import make_space, random_log_table


def half(n_rows: int, n_above: int) -> np.ndarray:
    return np.full((n_rows, n_above, 2), -math.log(2))


# The paper's examples (Batal, Hong, Hauskrecht 2013)


def test_example_2_max_sum_finds_what_a_greedy_chain_misses():
    # Figure 2's tables are not in our copy; these give both of its probabilities. Y3 is the root,
    # Y2 its child, Y1 and Y4 the children of Y2.
    y3 = np.log([[[0.4, 0.6]]])
    y2 = np.log([[[0.1, 0.9], [0.6, 0.4]]])
    y1 = np.log([[[0.4, 0.6], [0.7, 0.3]]])
    y4 = np.log([[[0.7, 0.3], [0.8, 0.2]]])
    tables, parents = [y1, y2, y3, y4], [1, 2, -1, 1]
    joint = Tree(make_space((2, 2, 2, 2)), parents, tables)

    greedy = [0] * 4
    for i in (2, 1, 0, 3):
        above = 0 if parents[i] == -1 else greedy[parents[i]]
        greedy[i] = int(tables[i][0, above].argmax())
    assert greedy == [1, 0, 1, 0]
    assert math.isclose(np.exp(joint.log_prob(greedy))[0], 0.1512)

    assert joint.mode_codes().tolist() == [[0, 1, 0, 0]]
    assert math.isclose(np.exp(joint.top_k(1).log_prob)[0, 0], 0.2016)


def test_long_chains_need_no_recursion_and_do_not_underflow():
    d = 3000
    space = make_space((2,) * d)
    joint = Tree(space, np.arange(-1, d - 1), [half(1, 1), *[half(1, 2)] * (d - 1)])
    np.testing.assert_allclose(joint.top_k_codes(2)[1], [[-d * math.log(2)] * 2])
    first_unknown = np.zeros((1, d), dtype=np.int32)
    first_unknown[0, 0] = -1
    np.testing.assert_allclose(joint.log_prob_codes(first_unknown), -(d - 1) * math.log(2))
    assert not joint.given_codes(first_unknown).mode_codes().any()


@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 5, 4), (10, 2, 7), (6, 6, 40)])
def test_merged_lists_are_the_best_sums(shape, rng):
    n_left, n_right, k = shape
    lists = [-np.sort(rng.integers(0, 5, size=(2, 3, m))) * 1.0 for m in (n_left, n_right, 3)]
    found = merged(lists, k)
    sums = (
        lists[0][..., :, None, None] + lists[1][..., None, :, None] + lists[2][..., None, None, :]
    )
    expected = -np.sort(-sums.reshape(2, 3, -1))[..., :k]
    np.testing.assert_array_equal(found.score, expected)
    for r, state in np.ndindex(2, 3):  # the ranks in the three lists are told back, all different
        rank = np.arange(expected.shape[2])[None]
        ranks = found.ranks(np.array([[r]]), np.array([[state]]), rank)
        own = sum(part[r, state, place[0]] for part, place in zip(lists, ranks, strict=True))
        np.testing.assert_array_equal(own, expected[r, state])
        assert len(set(zip(*(place[0].tolist() for place in ranks), strict=True))) == rank.size


# Ties, extremes, and shapes


def test_ties_go_to_the_smaller_code_nearest_the_root():
    joint = Tree(make_space((2, 2, 2)), [1, -1, 1], [half(2, 2), half(2, 1), half(2, 2)])
    assert joint.mode_codes().tolist() == [[0, 0, 0]] * 2
    again = Tree(joint.space, [1, -1, 1], joint.log_tables)
    np.testing.assert_array_equal(joint.top_k_codes(8)[0], again.top_k_codes(8)[0])
    np.testing.assert_array_equal(joint.top_k_codes(1)[0][:, 0], joint.top_k_codes(5)[0][:, 0])


def test_ties_in_long_lists_keep_their_order():
    scores = np.arange(1000.0) % 3
    score, position = leading(scores[None], 900)
    expected = sorted(range(1000), key=lambda i: (-scores[i], i))[:900]
    assert position[0].tolist() == expected
    np.testing.assert_array_equal(score[0], scores[expected])


def test_a_value_of_probability_zero_is_never_drawn():
    # the first two probabilities sum to a little less than one, as tables may
    with np.errstate(divide="ignore"):
        log_prob = np.log([0.0, 0.5, 0.5 - 1e-9, 0.0])
    almost_one = np.nextafter(1.0, 0.0)
    assert draw(log_prob, np.array([0.0, 0.25, 0.75, almost_one])).tolist() == [1, 1, 2, 2]


def test_log_sum_exp_copes_with_impossible_and_extreme_values():
    scores = np.array([[-np.inf, -np.inf], [-np.inf, -3.0], [-2000.0, -2000.0], [0.0, -np.inf]])
    expected = [-np.inf, -3.0, -2000.0 + math.log(2), 0.0]
    np.testing.assert_allclose(log_sum_exp(scores), expected)


@pytest.mark.parametrize(
    ("parents", "message"),
    [
        ([1, 0, -1], r"from variables \[0, 1\] never reaches a root"),
        ([0, -1, -1], r"from variables \[0\] never reaches a root"),
        ([1, 2, 0], r"from variables \[0, 1, 2\] never reaches a root"),
        ([-1, 3, 0], r"parents\[1\] is 3, which is no variable"),
        ([-2, 0, 0], r"parents\[0\] is -2, which is no variable"),
        ([-1.0, 0, 0], "vector of integers"),
        ([[-1, 0, 0]], "vector of integers"),
        (np.array([], dtype=int), "parents is empty"),
        ([-1, 0], "parents has 2 entries but there are 3 labels"),
    ],
)
def test_parents_that_make_no_forest(parents, message):
    with pytest.raises(ValueError, match=message):
        Tree(make_space((2, 2, 2)), parents, [half(1, 1)] * 3)


WRONG = half(3, 2)
WRONG[2, 1] = 0.0


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ([half(3, 1)], "1 tables but 2 labels"),
        ([half(3, 1), half(3, 1)], r"'y1' has shape \(3, 1, 2\) but must have \(3, 2, 2\)"),
        ([half(3, 1), half(4, 2)], r"'y1' has shape \(4, 2, 2\) but must have \(3, 2, 2\)"),
        ([half(3, 1), WRONG], r"'y1' .* sum to 2 at \(2, 1\)"),
        ([half(3, 1) * np.nan, half(3, 2)], "sum to nan"),
    ],
)
def test_tables_are_checked(tables, message):
    with pytest.raises(ValueError, match=message):
        Tree(make_space((2, 2)), [-1, 0], tables)


def test_tables_of_independent_labels_are_checked():
    space = make_space((2, 2))
    with pytest.raises(ValueError, match="log-probabilities"):
        Independent(space, [np.full((1, 2), 0.5)] * 2)
    with pytest.raises(ValueError, match=r"'y0' has shape \(\)"):
        Independent(space, [0.0, 0.0])
    Tree(space, [-1, 0], [half(3, 1).astype(np.float32), half(3, 2).astype(np.float32)])


def test_many_rows_are_taken_some_at_a_time(rng):
    tables = [random_log_table(rng, (700, a, 4), "ties") for a in (1, 4, 4, 4, 4)]
    joint = Tree(make_space((4,) * 5), [-1, 0, 0, 1, 1], tables)
    whole, part = joint.top_k_codes(300), joint[600:].top_k_codes(300)
    np.testing.assert_array_equal(whole[0][600:], part[0])
    np.testing.assert_array_equal(whole[1][600:], part[1])
