"""Sets with a guarantee: against the formulas, by brute force."""

from __future__ import annotations

import numpy as np
import pytest

from colabel.decide import (
    CalibrationScores,
    HeldOutErrors,
    Nonconformity,
    conformal_sets,
    measured_coverage,
    p_value,
)
from colabel.decide.conformal import NONCONFORMITIES
from colabel.joint import Independent, Tree
from colabel.joint.base import Exactness
from colabel.labels import LabelSpace
from tests.decide.test_decisions import probabilities, random_tree
from tests.joint.families import of_marginals
from tests.joint.oracle import every_vector
from tests.joint.test_mixture import Short, enumerated, smooth


def score_by_hand(prob, y, kind, max_listed, chance):
    """Score of vector y of one row with probabilities (2^d,)."""
    if kind == "probability":
        return -np.log(prob[y])
    above = prob[prob > prob[y] + 1e-12]
    # vectors at the place of the last one listed, or behind it, are as strange as can be
    if max_listed < len(prob) and (prob >= prob[y] - 1e-12).sum() >= max_listed:
        return 1.0
    return above.sum() + (chance * prob[y] if kind == "random mass" else 0.0)


def set_by_hand(prob_of, held_out, kind, max_listed, chance, alpha):
    """Vectors of one row whose p-value exceeds alpha; `prob_of` has a row (2^d,) a joint."""
    kept = []
    for y in range(len(prob_of[0])):
        count, total = 1, 1
        for prob, scores in zip(prob_of, held_out, strict=True):
            count += (scores >= score_by_hand(prob, y, kind, max_listed, chance) - 1e-9).sum()
            total += len(scores)
        if count / total > alpha + 1e-12:
            kept.append(y)
    return kept


@pytest.mark.parametrize("n_joints", [1, 3])
@pytest.mark.parametrize("max_listed", [20, 1000])
@pytest.mark.parametrize("kind", ["mass", "random mass", "probability"])
def test_sets_are_those_of_the_formula(rng, kind, max_listed, n_joints):
    joints = [random_tree(rng, 5, n_rows=25) for _ in range(n_joints)]
    probs = [probabilities(joint)[1] for joint in joints]
    vectors, chance = every_vector((2,) * 5), rng.random(25)
    truth = [joint.sample_codes(1, rng)[0] for joint in joints]
    rule = Nonconformity(kind, max_listed)
    scores = [rule.of_codes(j, y, chance) for j, y in zip(joints, truth, strict=True)]
    for prob, codes, found in zip(probs, truth, scores, strict=True):
        places = [(vectors == y).all(axis=1).argmax() for y in codes]
        expected = [
            score_by_hand(prob[i], y, kind, max_listed, chance[i]) for i, y in enumerate(places)
        ]
        np.testing.assert_allclose(found, expected, atol=1e-9)
    held_out = [CalibrationScores.of(own, np.ones(25)) for own in scores]
    for coverage in (0.3, 0.7, 0.9):
        sets = conformal_sets(joints, held_out, coverage, rule, chance, allow_empty=True)
        for row in range(25):
            of_row = [prob[row] for prob in probs]
            wanted = set_by_hand(of_row, scores, kind, max_listed, chance[row], 1 - coverage)
            listed = {tuple(y) for y in sets.codes[sets.rows == row].tolist()}
            whole = {tuple(vectors[y].tolist()) for y in wanted}
            assert listed <= whole
            assert sets.cut[row] or listed == whole
            np.testing.assert_array_equal(sets[row], sets.codes[sets.rows == row])
        if max_listed == 1000:
            assert not sets.cut.any()


class Asked(Tree):
    """A tree that notes what lists it is asked for."""

    asked = ()

    def top_k_codes(self, k):
        Asked.asked += ((self.n_rows, k),)
        return super().top_k_codes(k)


def test_longer_lists_are_asked_for_only_where_needed(rng):
    tree = random_tree(rng, 12, n_rows=40)
    joint = Asked(tree.space, tree.parents, tree.log_tables)
    held_out = CalibrationScores.of(np.linspace(0, 0.5, 99), np.ones(99))
    sets = conformal_sets([joint], [held_out], 0.9, Nonconformity("mass", 4096))
    assert not sets.cut.any()
    lengths = [k for _, k in Asked.asked]
    assert lengths == sorted(lengths)
    assert Asked.asked[0] == (40, 16)
    # no row was asked for more than four times the list it needed
    assert max(lengths) <= 4 * max(16, sets.sizes.max() + 1)


def test_a_list_that_is_too_short_says_so(rng):
    joint = random_tree(rng, 10, n_rows=30)
    truth = joint.sample_codes(1, rng)[0]
    for kind in ("mass", "probability"):
        rule = Nonconformity(kind, 4)
        held_out = CalibrationScores.of(rule.of_codes(joint, truth), np.ones(30))
        sets = conformal_sets([joint], [held_out], 0.95, rule)
        assert sets.cut.all()
        assert (sets.sizes <= 4).all()
        assert "30 not listed within 4" in repr(sets)
        assert "not listed within 4" in str(sets)


def test_lists_cut_at_their_longest_keep_the_promise_where_they_can(rng):
    # beyond the list a vector counts as most strange: rows are covered by what is listed
    covered, cut = [], []
    for _ in range(60):
        joint = random_tree(rng, 8, n_rows=80)
        truth = joint.sample_codes(1, rng)[0]
        found = measured_coverage(joint, truth, 0.5, Nonconformity("mass", 40), seed=1)
        covered.append(found.covered.mean())
        cut.append(found.cut.any())
        assert found.size.max() <= 40
    assert not np.all(cut)
    mean, error = np.mean(covered), np.std(covered) / np.sqrt(60)
    assert mean > 0.5 - 3 * error


@pytest.mark.parametrize("kind", ["random mass", "probability"])
def test_coverage_is_what_was_asked_for(rng, kind):
    # a model that is wrong: its probabilities are of other labels
    covered = []
    for _ in range(80):
        joint, other = random_tree(rng, 4, n_rows=100), random_tree(rng, 4, n_rows=100)
        truth = other.sample_codes(1, rng)[0]
        rule = Nonconformity(kind)
        seed = int(rng.integers(100))
        covered.append(measured_coverage(joint, truth, 0.8, rule, seed=seed).covered.mean())
    error = np.std(covered) / np.sqrt(80)
    # (n + 1)-correction: between coverage and coverage + 1 / (n + 1), n = 50
    assert 0.8 - 3 * error < np.mean(covered) < 0.8 + 1 / 51 + 3 * error


class Approximate(Tree):
    """A tree that misses every other of its most probable vectors."""

    exact = Exactness(["sums", "log_prob"])

    def top_k_codes(self, k):
        codes, log_prob = super().top_k_codes(2 * k)
        return codes[:, ::2], log_prob[:, ::2]


@pytest.mark.parametrize("kind", ["mass", "probability"])
def test_vectors_that_an_approximate_joint_does_not_list_are_not_promised(rng, kind):
    tree = random_tree(rng, 6, n_rows=300)
    joint = Approximate(tree.space, tree.parents, tree.log_tables)
    truth = tree.sample_codes(1, rng)[0]
    rule = Nonconformity(kind, 16)
    scores = rule.of_codes(joint, truth)
    listed = (joint.top_k_codes(16)[0] == truth[:, None]).all(axis=2).any(axis=1)
    worst = np.inf if kind == "probability" else 1.0
    np.testing.assert_array_equal(scores >= worst, ~listed | (scores >= worst))
    assert (scores[~listed] == worst).all()
    assert (scores[listed] < worst).mean() > 0.8
    # more than half of the rows are not listed, so no list can promise 0.9
    held_out = CalibrationScores.of(scores, np.ones(300))
    assert conformal_sets([joint], [held_out], 0.9, rule).cut.all()
    few = conformal_sets([joint, joint], [held_out, held_out], 0.2, rule)
    assert not few.cut.any()
    assert len(np.unique(np.column_stack([few.rows, few.codes]), axis=0)) == len(few.rows)


def test_few_rows_give_everything():
    joint = of_marginals([[0.1, 0.1]])
    for n_rows, size in ((8, 4), (9, 1)):
        held_out = CalibrationScores.of(np.zeros(n_rows), np.ones(n_rows))
        assert conformal_sets([joint], [held_out], 0.9, Nonconformity()).sizes.tolist() == [size]


def test_weights_count_as_rows(rng):
    scores, weights = rng.random(20), rng.integers(1, 4, size=20)
    one = CalibrationScores.of(scores, weights.astype(float))
    many = CalibrationScores.of(np.repeat(scores, weights), np.ones(weights.sum()))
    at = rng.random((3, 4))
    np.testing.assert_allclose(p_value([one], [at]), p_value([many], [at]))


@pytest.mark.parametrize("allow_empty", [False, True])
def test_a_set_is_never_empty_unless_it_may_be(allow_empty):
    joint, rule = of_marginals([[0.45, 0.45]]), Nonconformity("probability")
    held_out = CalibrationScores.of(np.full(99, 0.1), np.ones(99))  # all were very probable
    sets = conformal_sets([joint], [held_out], 0.9, rule, allow_empty=allow_empty)
    assert sets.sizes.tolist() == [0 if allow_empty else 1]


def test_coverage_of_incomplete_rows_is_not_measured(rng):
    joint = random_tree(rng, 3, n_rows=9)
    Y = joint.mode().astype(float)
    Y[:5, 0] = np.nan
    assert len(measured_coverage(joint, Y).covered) == 4
    Y[:8, 0] = np.nan
    with pytest.raises(ValueError, match="1 rows have all their labels"):
        measured_coverage(joint, Y)


def test_sets_for_people(rng):
    space = LabelSpace(("a", "b"), (np.array(["n", "y"]), np.array([0, 1])), "matrix")
    joint = Independent(space, [np.log(np.tile([0.4, 0.6], (7, 1)))] * 2)
    held_out = CalibrationScores.of(np.linspace(0, 1, 99), np.ones(99))
    sets = conformal_sets([joint], [held_out], 0.5, Nonconformity())
    assert len(sets) == 7
    assert sets[0].tolist() == [["y", 1], ["n", 1], ["y", 0]] or sets.sizes[0] == 3
    np.testing.assert_array_equal(sets[-1], sets[6])
    assert sets.contains([["y", 1]] * 7).all()
    assert not sets.contains([["n", 0]] * 7).any()
    assert "and 2 more rows" in str(sets)
    with pytest.raises(IndexError, match="Row 7 does not exist"):
        sets[7]
    frame = pytest.importorskip("pandas") and sets.to_frame()
    assert frame.loc[3].shape == (3, 3)
    assert list(frame.columns) == ["p_value", "a", "b"]


# ------------------------------------------------------------------ yes, no or unsure


def loss_by_hand(joint, truth, threshold, per):
    tables = np.stack(joint.marginal_tables(), axis=1)
    wrong = (tables.max(axis=2) > threshold) & (tables.argmax(axis=2) != truth)
    return wrong.any(axis=1) if per == "row" else wrong.mean(axis=1)


@pytest.mark.parametrize("style", [1.0, "ties"])
@pytest.mark.parametrize("per", ["row", "label"])
def test_the_threshold_is_the_least_that_controls_the_risk(rng, per, style):
    joint = random_tree(rng, 5, n_rows=60, style=style)
    truth = joint.sample_codes(1, rng)[0]
    errors = HeldOutErrors.of_codes(joint, truth, np.ones(60), per)
    grid = np.unique(np.append(np.concatenate(joint.marginal_tables()).ravel(), 0.0))
    for coverage in (0.5, 0.8, 0.9, 0.95):
        risk = [(1 + loss_by_hand(joint, truth, t, per).sum()) / 61 for t in grid]
        allowed = grid[np.array(risk) <= 1 - coverage + 1e-9]
        stated = errors.stated_codes(joint, coverage)
        by_hand = np.stack([t.max(axis=1) > allowed.min() for t in joint.marginal_tables()], 1)
        np.testing.assert_array_equal(stated >= 0, by_hand)
        assert errors.threshold(coverage) <= allowed.min() + 1e-12
    assert errors.threshold(0.99) == np.inf
    assert (errors.stated_codes(joint, 0.99) == -1).all()


def test_errors_of_folds_are_joined(rng):
    joint = random_tree(rng, 5, n_rows=60)
    truth = joint.sample_codes(1, rng)[0]
    whole = HeldOutErrors.of_codes(joint, truth, np.ones(60), "label")
    halves = [
        HeldOutErrors.of_codes(joint[part], truth[part], np.ones(30), "label")
        for part in (slice(0, 30), slice(30, 60))
    ]
    assert HeldOutErrors.joined(*halves).threshold(0.9) == whole.threshold(0.9)


@pytest.mark.parametrize("kind", NONCONFORMITIES)
def test_whether_lists_are_approximate_is_asked_after_the_search(kind):
    """A mixture finds out while it searches that it cannot prove which vectors are the best."""
    joint = smooth()
    rarest = enumerated(joint)
    codes = np.array([min(row, key=row.get) for row in rarest.rows], dtype=np.int32)
    rule = Nonconformity(kind, max_listed=20)
    proven = rule.of_codes(joint, codes, np.full(4, 0.5))
    joint = smooth(chain=Short)
    assert "mode" in joint.exact
    scores = rule.of_codes(joint, codes, np.full(4, 0.5))
    if kind == "probability":
        np.testing.assert_allclose(proven, -joint.log_prob_codes(codes))
        assert np.isposinf(scores).all()  # not listed, so that no set could have them
    else:
        np.testing.assert_array_equal(scores, np.ones(4))
