"""Mixtures: every answer against enumeration of the averaged distributions."""

from __future__ import annotations

import itertools
import tracemalloc

import numpy as np
import pytest

from colabel import ProbabilisticClassifierChain
from colabel.joint import Chain, Independent, Mixture, PairwiseField, VectorList
from colabel.joint.base import APPROXIMATE
from colabel.joint.chain import TableLinks
from tests.joint.oracle import Enumerated, make_space, random_log_table

pytestmark = pytest.mark.filterwarnings("error")


class Short(Chain):
    """A chain that lists next to nothing."""

    most_listed, few_listed = 1, 2


def smooth(n_members=6, n_rows=4, d=6, inference="exact", chain=Chain):
    rng = np.random.default_rng(1)
    space = make_space((2,) * d)
    members = []
    for _ in range(n_members):
        tables = [random_log_table(rng, (n_rows, *(2,) * (k + 1)), "smooth") for k in range(d)]
        members.append(chain(space, rng.permutation(d), TableLinks.of(tables), inference=inference))
    return Mixture(members)


def enumerated(joint):
    codes = np.array(np.unravel_index(np.arange(64), (2,) * 6)).T.astype(np.int32)
    log_prob = [joint.log_prob_codes(np.tile(y, (joint.n_rows, 1))) for y in codes]
    return Enumerated(
        (2,) * 6,
        [
            {tuple(y): np.exp(p[r]) for y, p in zip(codes.tolist(), log_prob, strict=True)}
            for r in range(joint.n_rows)
        ],
    )


def test_the_mode_need_not_be_any_members_mode():
    space = make_space((3,))
    tables = np.log([[[0.5, 0.4, 0.1]], [[0.1, 0.4, 0.5]]])
    joint = Mixture([Independent(space, [table]) for table in tables])
    assert joint.mode().tolist() == [[1]]


def test_lists_grow_until_they_prove_it():
    joint = smooth()
    oracle = enumerated(joint)
    for k in (1, 3, 20):
        codes, log_prob = joint.top_k_codes(k)
        np.testing.assert_allclose(log_prob, oracle.best(k), atol=1e-9)
        np.testing.assert_allclose(oracle.log_prob(codes[:, -1]), log_prob[:, -1], atol=1e-9)


def test_lists_too_short_to_prove_it_take_the_proof_back():
    joint = smooth(chain=Short)
    assert joint.exact.all
    joint.mode_codes()
    assert joint.exact == {"sums", "log_prob"}
    assert "too many to prove it" in joint.how
    assert joint[0].exact == {"sums", "log_prob"}


def test_lists_of_a_mixture_that_cannot_prove_them_are_cut():
    least = np.log(np.full(4, 1e-3))
    assert not smooth().listed_above(least).cut.any()
    joint = smooth(chain=Short)
    assert joint.exact.all  # it has not been asked yet: only some rows of it
    assert joint.listed_above(least).cut.any()


def test_long_lists_of_the_best_are_asked_for_a_few_rows_at_a_time():
    space, rng = make_space((2,) * 8), np.random.default_rng(0)
    on = rng.uniform(0.2, 0.8, size=(8, 9))
    joint = Independent(space, [np.log(np.stack([1 - p, p], axis=1)) for p in on])
    least = joint.top_k_codes(40)[1][:, -1] - 1e-12
    whole = joint.listed_above(least)
    asked = []

    class Small(Independent):
        codes_at_once = 64 * 8 * 2

        def top_k_codes(self, k):
            asked.append((self.n_rows, k))
            return super().top_k_codes(k)

    parts = Small(space, joint.log_tables).listed_above(least)
    assert max(rows * k for rows, k in asked) <= 64 * 2
    assert not parts.cut.any()
    for found in (whole, parts):
        assert np.bincount(found.rows).tolist() == [40] * 9
    one, other = (
        {(r, *y) for r, y in zip(found.rows.tolist(), found.codes.tolist(), strict=True)}
        for found in (whole, parts)
    )
    assert one == other


class CostlyLinks(TableLinks):
    """Tables that claim to be classifiers."""

    costly = True


def costly(joint):
    return Mixture(
        [
            type(m)(m.space, m.order, CostlyLinks(m.links.tables), inference=m.inference)
            for m in joint.members
        ]
    )


def test_members_that_cannot_list_all_give_candidates():
    joint = costly(smooth(inference="greedy", chain=Short))
    assert joint.exact == {"sums", "log_prob"}
    assert "scored by the mixture" in joint.how
    own = [joint.log_prob_codes(member.mode_codes()) for member in joint.members]
    assert (joint.log_prob_codes(joint.mode_codes()) >= np.max(own, axis=0) - 1e-12).all()


@pytest.mark.parametrize("make", [lambda joint: joint, costly])
@pytest.mark.parametrize("inference", ["exact", "greedy", "beam"])
def test_the_mode_is_never_worse_than_top_k_also_under_evidence(make, inference):
    whole = make(smooth(n_rows=20, inference=inference))
    evidence = np.full((20, 6), -1, dtype=np.int32)
    evidence[:10, 1], evidence[5:, 4] = 1, 0
    for joint in (whole, whole.given_codes(evidence)):
        best = joint.log_prob_codes(joint.mode_codes())
        for k in (1, 2, 7, 40, 64):
            np.testing.assert_allclose(joint.top_k_codes(k)[1][:, 0], best, atol=1e-12)


def test_evidence_whose_probability_is_estimated_leaves_nothing_exact():
    members = [Chain(m.space, m.order, m.links, limit=4, n_samples=50) for m in smooth().members]
    joint = Mixture(members)
    assert joint.exact == {"mode", "log_prob"}
    evidence = np.full((4, 6), -1, dtype=np.int32)
    evidence[:, 2] = 1
    known = joint.given_codes(evidence)
    assert known.exact == APPROXIMATE
    assert "estimates" in known.how


def test_a_member_that_says_less_is_asked_once(rng):
    """A loopy field lists what it has; its mixture does not claim a proof."""
    space = make_space((2,) * 4)
    unary = [rng.normal(size=(3, 2)) for _ in range(4)]
    edges = [(0, 1), (1, 2), (2, 3), (0, 3)]
    tables = [rng.normal(size=(3, 2, 2)) for _ in edges]
    field = PairwiseField(space, unary, edges, tables, engine="belief_propagation")
    joint = Mixture([field, Independent(space, [np.log(np.full((3, 2), 0.5))] * 4)])
    assert joint.exact == APPROXIMATE
    for k in (2, 5, 16):
        np.testing.assert_array_equal(joint.mode_codes(), joint.top_k_codes(k)[0][:, 0])


def test_votes():
    joint = smooth(n_members=3, inference="greedy")
    modes = np.stack([member.mode_codes() for member in joint.members])
    np.testing.assert_allclose(joint.vote_tables()[2][:, 1], modes[:, :, 2].mean(axis=0))
    np.testing.assert_array_equal(joint.vote_codes(), (modes.mean(axis=0) > 0.5).astype(int))


def test_errors_say_what_to_do():
    space = make_space((2,))
    member = Independent(space, [np.log([[0.5, 0.5]])])
    with pytest.raises(ValueError, match="at least one member"):
        Mixture([])
    with pytest.raises(ValueError, match="one weight per member, or one per row and member"):
        Mixture([member], [0.5, 0.5])
    with pytest.raises(ValueError, match="finite and not negative"):
        Mixture([member], [0.0])
    with pytest.raises(ValueError, match="same rows and labels"):
        Mixture([member, Independent(make_space((3,)), [np.log(np.full((1, 3), 1 / 3))])])


def test_no_rows():
    space = make_space((2, 3))
    alone = Independent(space, [np.empty((0, 2)), np.empty((0, 3))])
    joint = Mixture([alone, VectorList(space, [[0, 0], [1, 2]], np.empty((0, 2)))])
    assert joint.mode().shape == (0, 2)
    assert joint.top_k(3).labels.shape == (0, 3, 2)


def test_long_lists_are_not_copied_for_every_vector_asked_about(rng):
    space = make_space([2] * 12)
    vectors = np.array(list(itertools.product(range(2), repeat=12)), dtype=np.int32)
    members = [VectorList(space, vectors, rng.normal(size=(20, len(vectors)))) for _ in range(2)]
    joint = Mixture(members)
    one_list = members[0].log_weights.nbytes
    tracemalloc.start()
    codes, _ = joint.top_k_codes(50)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert codes.shape == (20, 50, 12)
    assert peak < 25 * one_list  # a copy for each vector that a member names would be 100 of them


def noted_lengths(monkeypatch):
    """How many vectors each later call of `VectorList.listed_above` lists."""
    lengths, listed_above = [], VectorList.listed_above

    def noting(self, least):
        found = listed_above(self, least)
        lengths.append(len(found.rows))
        return found

    monkeypatch.setattr(VectorList, "listed_above", noting)
    return lengths


def test_light_members_are_spared_long_lists(monkeypatch):
    """All vectors of the list are more probable than the mixture's mode, but have little weight."""
    space, rng = make_space((2,) * 10), np.random.default_rng(0)
    vectors = np.array(list(itertools.product(range(2), repeat=10)), dtype=np.int32)
    on = rng.uniform(0.45, 0.55, size=(10, 5))
    alone = Independent(space, [np.log(np.stack([1 - p, p], axis=1)) for p in on])
    listed = VectorList(space, vectors[::2], np.zeros((5, 512)))
    joint = Mixture([alone, listed], [0.999, 0.001])
    lengths = noted_lengths(monkeypatch)
    log_prob = joint.top_k_codes(3)[1]
    assert sum(lengths) == 0
    every = np.stack([joint.log_prob_codes(np.tile(y, (5, 1))) for y in vectors], axis=1)
    np.testing.assert_allclose(log_prob, -np.sort(-every, axis=1)[:, :3])
    assert joint.exact.all


def test_long_lists_are_made_for_a_few_rows_at_a_time(monkeypatch, rng):
    space = make_space((2,) * 8)
    vectors = np.array(list(itertools.product(range(2), repeat=8)), dtype=np.int32)
    tables = rng.normal(size=(2, 40, 256))
    members = [VectorList(space, vectors, table) for table in tables]
    whole = Mixture(members).top_k_codes(200)

    class Small(Mixture):
        codes_at_once = 1 << 13

    lengths = noted_lengths(monkeypatch)
    parts = Small(members).top_k_codes(200)
    assert max(lengths) <= 8 * 256
    assert max(lengths[2:]) <= 2 * 256
    np.testing.assert_array_equal(parts[0], whole[0])
    np.testing.assert_allclose(parts[1], whole[1])


def test_lists_that_would_be_hopelessly_long_are_not_begun(monkeypatch):
    """Forty labels of about one half: millions of vectors are as probable as a member's mode."""
    space, rng = make_space((2,) * 40), np.random.default_rng(0)
    on = rng.uniform(0.4, 0.6, size=(2, 3, 40))
    members = [
        Independent(space, [np.log(np.stack([1 - p, p], axis=1)) for p in own.T]) for own in on
    ]
    asked = []
    top_k = Independent.top_k_codes
    monkeypatch.setattr(
        Independent, "top_k_codes", lambda self, k: (asked.append(k), top_k(self, k))[1]
    )
    joint = Mixture(members)
    best = joint.log_prob_codes(joint.mode_codes())
    assert max(asked) <= 256
    assert "too many to prove it" in joint.how
    for member in members:
        assert (best >= joint.log_prob_codes(member.mode_codes())).all()


def test_a_chain_that_cannot_list_all_lists_few(rng):
    X, Y = rng.normal(size=(60, 2)), rng.integers(0, 2, size=(60, 30))
    joint = ProbabilisticClassifierChain(C=0.01).fit(X, Y).joint(X[:3])
    least = joint.log_prob_codes(joint.mode_codes()) - 20.0
    listed = joint.listed_above(least)
    assert listed.cut.all()
    assert (np.bincount(listed.rows) <= 256).all()
    assert (joint.log_prob_at(listed.rows, listed.codes) >= least[listed.rows] - 1e-6).all()
