"""Lists of experts, priors and pools, against plain loops."""

from __future__ import annotations

import itertools
import tracemalloc

import numpy as np
import pytest

from colabel.joint import Chain, Independent, Mixture, Tree, VectorList
from colabel.joint.chain import TableLinks
from colabel.labels import MISSING
from colabel.learn.conditional import TrainingData
from colabel.learn.pool import HeldOutExperts, LabelPrior, Pool, expert_lists, learn_pool
from tests.joint.oracle import make_space, random_log_table

SIZES = (2, 3, 2)
EVERY = np.array(list(itertools.product(*(range(k) for k in SIZES))), dtype=np.int32)


def joints(n_rows=5, seed=0):
    rng = np.random.default_rng(seed)
    space = make_space(SIZES)
    alone = Independent(space, [random_log_table(rng, (n_rows, k), "smooth") for k in SIZES])
    tables = [
        random_log_table(rng, (n_rows, a, k), "smooth")
        for a, k in zip([1, *SIZES[:-1]], SIZES, strict=True)
    ]
    return [alone, Tree(space, [-1, 0, 1], tables)], rng


def every_log_prob(joint):
    """Log-probabilities (n, V) of all label vectors."""
    return np.stack([joint.log_prob_codes(np.tile(y, (joint.n_rows, 1))) for y in EVERY], axis=1)


def test_experts_list_what_some_joint_finds_probable():
    members, _ = joints()
    lists = expert_lists(members, 2)
    for r in range(5):
        own = slice(lists.indptr[r], lists.indptr[r + 1])
        wanted = {tuple(y) for m in members for y in m.top_k_codes(2)[0][r].tolist()}
        assert sorted(wanted) == list(map(tuple, lists.codes[own].tolist()))
        for m, joint in enumerate(members):
            one = joint.rows(np.array([r]))
            expected = [one.log_prob_codes(y[None])[0] for y in lists.codes[own]]
            np.testing.assert_allclose(lists.log_prob[own, m], expected)
    np.testing.assert_allclose(lists.most_unlisted[:, 1], members[1].top_k_codes(2)[1][:, -1])
    weights = np.array([0.25, 0.75])
    mixed = np.exp(lists.log_prob) @ weights
    np.testing.assert_allclose(np.exp(lists.mixed(weights)), mixed)
    np.testing.assert_allclose(
        lists.listed_mass(weights), np.add.reduceat(mixed, lists.indptr[:-1])
    )
    assert np.isneginf(expert_lists(members, len(EVERY)).most_left(weights)).all()


def many_labels(d, n_rows=6, seed=0):
    """Two members, each with tables of its own for d labels, all of them about one half."""
    rng = np.random.default_rng(seed)
    on = rng.uniform(0.4, 0.6, size=(2, d, n_rows))
    space = make_space((2,) * d)
    tables = [[np.log(np.stack([1 - p, p], axis=1)) for p in own] for own in on]
    return [Independent(space, own) for own in tables]


def test_modes_of_many_labels_are_no_ties():
    """The mode of 300 labels is far below e^-40, and yet the next ones are less probable."""
    members = many_labels(300)
    lists = expert_lists(members, 4)
    assert lists.log_prob.max() < -100
    features = lists.features(np.zeros(len(lists.codes), dtype=bool))
    for r in range(lists.n_rows):
        own = slice(lists.indptr[r], lists.indptr[r + 1])
        expected = lists.log_prob[own] - lists.log_prob[own].max(axis=0)
        np.testing.assert_allclose(features[own, :2], np.maximum(expected, -40.0))
        assert len(np.unique(features[own, 0])) > 4


def test_what_a_member_finds_impossible_is_far_below_its_best():
    space = make_space((2, 2))
    sure = VectorList(space, [[0, 0]], np.zeros((1, 1)))
    alone = Independent(space, [np.log([[0.5, 0.5]])] * 2)
    features = expert_lists([sure, alone], 4).features(np.zeros(4, dtype=bool))
    np.testing.assert_array_equal(features[:, 0], [0.0, -40.0, -40.0, -40.0])


@pytest.mark.filterwarnings("error")
def test_a_thousand_labels():
    members = many_labels(1100, 1)
    lists = expert_lists(members, 2)
    # what is not listed is at most as probable as the second of a member's own list
    second = np.stack([member.top_k_codes(2)[1][:, 1] for member in members], axis=1)
    np.testing.assert_allclose(lists.most_unlisted, second)


def test_rows_are_asked_a_few_at_a_time(request):
    members, _ = joints(30)
    whole = expert_lists(members, 3)
    request.getfixturevalue("few_rows_at_once")
    parts = expert_lists(members, 3)
    for name in ("indptr", "codes", "log_prob", "most_unlisted"):
        np.testing.assert_array_equal(getattr(parts, name), getattr(whole, name))


def test_entries_that_agree_with_what_is_known():
    members, _ = joints()
    lists = expert_lists(members, 3)
    best = members[0].mode_codes()
    np.testing.assert_array_equal(lists.codes[lists.agreeing(best)], best)
    partial = best.copy()
    partial[:, 1:] = MISSING
    found = lists.agreeing(partial)
    expected = [k for k, r in enumerate(lists.row) if lists.codes[k, 0] == best[r, 0]]
    assert found.tolist() == expected
    unlisted = np.stack(
        [
            next(y for y in EVERY if not (lists.codes[lists.row == r] == y).all(axis=1).any())
            for r in range(5)
        ]
    )
    assert not lists.agreeing(unlisted).size


def prior_of(codes, weight=None):
    return LabelPrior.of(TrainingData(np.zeros((len(codes), 1)), codes, SIZES, weight))


def test_the_prior_sums_to_one_and_knows_what_is_new():
    codes = EVERY[[0, 0, 0, 3, 3, 7]]
    prior = prior_of(codes)
    prob = np.exp(every_log_prob(prior.joint(make_space(SIZES), 2)))
    np.testing.assert_allclose(prob.sum(axis=1), 1)
    assert (prob > 0).all()
    assert (prob.argmax(axis=1) == 0).all()
    np.testing.assert_array_equal(prior.is_new(EVERY[[0, 1, 7]]), [False, True, False])


def test_weights_of_a_row_are_those_of_its_repetitions():
    codes = EVERY[[0, 0, 0, 3, 3, 7, 8, 9]]
    weight = np.array([1.0, 2.0, 1.0, 1.0, 1.0, 2.0, 1.0, 1.0])
    weighted, repeated = prior_of(codes, weight), prior_of(np.repeat(codes, weight.astype(int), 0))
    np.testing.assert_allclose(weighted.weights, repeated.weights, atol=1e-6)
    np.testing.assert_allclose(weighted.counts, repeated.counts)


@pytest.mark.parametrize(
    ("each", "least", "most"),
    # of three rows' worth of evidence the floor is one row of five
    [(1.0, 0.98, 1.0), (0.3, 0.98, 1.0), (0.01, 0.825, 0.842)],
)
def test_small_weights_leave_a_vector_seen(each, least, most):
    codes = np.repeat(EVERY[:10], 30, axis=0)
    assert least < prior_of(codes, np.full(300, each)).weights[0] < most


@pytest.mark.parametrize("scale", [1.0, 0.5, 0.01])
def test_what_occurs_once_is_new_whatever_its_weight(scale):
    weights = prior_of(EVERY, np.full(len(EVERY), scale)).weights
    assert weights[0] < weights[1]


def test_incomplete_rows_are_no_vectors():
    codes = EVERY[[0, 3, 7]].copy()
    codes[:, 1] = MISSING
    prior = prior_of(codes)
    assert len(prior.vectors) == 0
    assert prior.weights.tolist() == [0.0, 1.0]
    assert isinstance(prior.joint(make_space(SIZES), 1).shared, Independent)


def written_out(prior, space, n_rows):
    """The prior as it was: a copy of all vectors for every row."""
    alone = Independent(space, [np.tile(np.log(t), (n_rows, 1)) for t in prior.frequencies])
    listed = np.tile(np.log(prior.counts), (n_rows, 1))
    return Mixture([VectorList(space, prior.vectors, listed), alone], prior.weights)


def test_the_prior_of_many_rows_is_kept_once():
    rng = np.random.default_rng(0)
    space = make_space((2,) * 20)
    codes = np.unique(rng.integers(2, size=(3000, 20)).astype(np.int32), axis=0)
    prior = LabelPrior.of(TrainingData(np.zeros((len(codes), 1)), codes, (2,) * 20))
    expected = written_out(prior, space, 2)
    asked = codes[rng.integers(len(codes), size=4000)]
    tracemalloc.start()
    joint = prior.joint(space, 4000)
    best, log_prob = joint.top_k_codes(5)
    of_asked = joint.log_prob_codes(asked)
    tables = joint.marginal_tables()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 50e6  # 4000 rows of 3000 vectors are 144 MB, at 12 bytes each
    np.testing.assert_array_equal(best[[0, -1]], expected.top_k_codes(5)[0])
    np.testing.assert_allclose(log_prob[[0, -1]], expected.top_k_codes(5)[1])
    np.testing.assert_allclose(of_asked[:2], expected.log_prob_codes(asked[:2]))
    for table, other in zip(tables, expected.marginal_tables(), strict=True):
        np.testing.assert_allclose(table[:2], other)


@pytest.mark.parametrize("outside", [0.0, 0.7])
def test_a_pool_is_its_formula(outside):
    members, rng = joints()
    weights, coef = np.array([0.4, 0.6, 0.0]), np.array([0.5, 0.9, -0.2, -0.7])
    prior = prior_of(EVERY[rng.integers(len(EVERY), size=6)])
    members = [*members, prior.joint(make_space(SIZES), 5)]
    pool = Pool(weights, coef, outside, 2)
    found = np.exp(every_log_prob(pool.joint(members, prior)))
    each = np.exp(np.stack([every_log_prob(m) for m in members], axis=2))
    for r in range(5):
        listed = {tuple(y) for m in members for y in m.top_k_codes(2)[0][r].tolist()}
        mixed = each[r] @ weights
        score = np.array(
            [
                (each[r, v] ** coef[:3]).prod() * np.exp(coef[3] * prior.is_new(y[None])[0])
                if tuple(y) in listed
                else 0.0
                for v, y in enumerate(EVERY)
            ]
        )
        mass = mixed[score > 0].sum()
        expected = np.where(score > 0, np.exp(-outside) * mass * score / score.sum(), mixed)
        np.testing.assert_allclose(found[r], expected / expected.sum(), rtol=1e-9)


@pytest.mark.parametrize("inference", ["greedy", "exact"])
def test_members_that_do_not_name_their_best_prove_no_mode(inference):
    """What a greedy chain has not named may be more probable than what it has."""
    rng = np.random.default_rng(0)
    tables = [random_log_table(rng, (5, *SIZES[: i + 1]), "smooth") for i in range(3)]
    chain = Chain(make_space(SIZES), [0, 1, 2], TableLinks.of(tables), inference=inference)
    pool = Pool(np.array([0.5, 0.5]), np.array([0.5, 0.5, 0.0]), 0.0, 2)
    joint = pool.joint([chain, joints()[0][1]], prior_of(EVERY))
    assert "mode" in joint.base.exact
    assert ("mode" in joint.exact) == (inference == "exact")


def held_out(members, codes, n_listed=3):
    lists = expert_lists(members, n_listed)
    return HeldOutExperts(
        lists,
        np.zeros(len(lists.codes), dtype=bool),
        np.stack([m.log_prob_codes(codes) for m in members], axis=1),
        lists.agreeing(codes),
        (codes != MISSING).all(axis=1),
        np.ones(len(codes)),
    )


@pytest.mark.parametrize("missing", [0.0, 0.4])
def test_log_prob_of_what_was_true_is_that_of_the_joint(missing):
    members, rng = joints(40)
    codes = EVERY[rng.integers(len(EVERY), size=40)]
    codes = np.where(rng.random(codes.shape) < missing, MISSING, codes).astype(np.int32)
    held = held_out(members, codes)
    prior = prior_of(EVERY)  # nothing is new
    for coef in (None, np.array([0.7, 0.2, 0.0])):
        pool = Pool(np.array([0.3, 0.7]), coef, 0.4 if coef is not None else 0.0, 3)
        joint = pool.joint(members, prior)
        np.testing.assert_allclose(pool.log_prob(held), joint.log_prob_codes(codes), atol=1e-12)


def experts(n_rows, seed):
    """Two members that each know one of two labels, and labels drawn from what they know."""
    rng = np.random.default_rng(seed)
    space = make_space((2, 2))
    sure = rng.uniform(0.05, 0.95, (n_rows, 2))
    known = [np.log(np.stack([1 - p, p], axis=1)) for p in sure.T]
    half = np.log(np.full((n_rows, 2), 0.5))
    codes = (rng.random((n_rows, 2)) < sure).astype(np.int32)
    return [Independent(space, [known[0], half]), Independent(space, [half, known[1]])], codes


def test_members_that_know_different_labels_are_multiplied():
    members, codes = experts(400, 0)
    fold = np.arange(400) % 4
    held = held_out(members, codes, 4)
    pool = learn_pool(held, fold, 4)
    assert pool.coef is not None
    np.testing.assert_allclose(pool.coef[:2], 1.0, atol=0.3)
    plain = Pool(pool.weights, None, 0.0, 4)
    new, truth = experts(2000, 1)
    fresh = held_out(new, truth, 4)
    assert pool.log_prob(fresh).mean() > plain.log_prob(fresh).mean() + 0.05


def test_rows_that_lack_labels_say_how_to_pool():
    members, codes = experts(600, 5)
    rng = np.random.default_rng(0)
    codes[np.arange(600), rng.integers(2, size=600)] = MISSING  # no row has both
    pool = learn_pool(held_out(members, codes, 4), np.arange(600) % 4, 4)
    assert pool.coef is not None
    assert (pool.coef[:2] > 0.7).all()
    fresh, truth = experts(2000, 6)
    asked = held_out(fresh, truth, 4)
    plain = Pool(pool.weights, None, 0.0, 4)
    assert pool.log_prob(asked).mean() > plain.log_prob(asked).mean() + 0.05


@pytest.mark.filterwarnings("error")
def test_rows_that_say_nothing_of_lists_change_nothing():
    members, codes = experts(300, 7)
    fold = np.arange(300) % 3
    nothing = np.full_like(codes, MISSING)
    assert learn_pool(held_out(members, nothing, 4), fold, 4).coef is None
    # the mixture finds the first row impossible: a pool that does not is no better for it
    right = Mixture(members)
    codes = right.sample_codes(1, np.random.default_rng(0))[0]
    codes[0] = 1
    never = VectorList(right.space, [[1, 1]], np.zeros((300, 1)))
    held = held_out([right, never], codes, 4)
    held.truth[0, 0], held.truth[1:, 1] = -np.inf, -50.0
    assert learn_pool(held, fold, 4).coef is None


def test_a_member_too_sure_of_itself_is_tempered():
    members, codes = experts(400, 2)
    tables = [np.log(table) for table in members[0].marginal_tables()]
    sharp = np.exp([4.0 * table for table in tables])
    sharp = Independent(members[0].space, list(np.log(sharp / sharp.sum(axis=2, keepdims=True))))
    pool = learn_pool(held_out([sharp], codes, 4), np.arange(400) % 4, 4)
    assert pool.coef is not None
    assert 0.1 < pool.coef[0] < 0.5


def test_a_member_that_is_always_wrong_keeps_the_least_exponent():
    """What it finds improbable is true; beside it is one that is too sure, and needs the pool."""
    (first, second), codes = experts(300, 4)
    wrong = Independent(first.space, [table[:, ::-1] for table in first.log_tables])
    sharp = [4.0 * table for table in second.log_tables]
    sharp = [table - np.logaddexp.reduce(table, axis=1, keepdims=True) for table in sharp]
    held = held_out([wrong, Independent(first.space, sharp)], codes, 4)
    fold = np.arange(300) % 3
    assert learn_pool(held, fold, 4).coef[0] < 0
    assert learn_pool(held, fold, 4, least=[0.05]).coef[0] == pytest.approx(0.05)


def test_where_a_pool_is_no_better_the_mixture_stays():
    members, _ = experts(60, 3)
    right = Mixture(members)
    drawn = right.sample_codes(1, np.random.default_rng(0))[0]
    pool = learn_pool(held_out([right, right], drawn, 4), np.zeros(60, dtype=np.intp), 4)
    assert pool.coef is None  # one fold: nothing is left to judge by


def test_lists_that_never_hold_the_truth():
    space = make_space((2, 2))
    wrong = VectorList(space, [[0, 0]], np.zeros((6, 1)))
    alone = Independent(space, [np.log(np.full((6, 2), 0.5))] * 2)
    codes = np.ones((6, 2), dtype=np.int32)
    held = held_out([wrong, alone], codes, 1)
    log_prob = learn_pool(held, np.arange(6) % 2, 1).log_prob(held)
    np.testing.assert_allclose(log_prob, log_prob[0])  # the rows are alike
    assert np.log(0.1) < log_prob[0] <= np.log(0.5)
