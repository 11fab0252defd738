"""Mixtures: how they search among their members' lists, and what they prove."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from colabel import ProbabilisticClassifierChain
from colabel.joint import Chain, Independent, Mixture, VectorList
from colabel.joint.base import APPROXIMATE
from colabel.joint.chain import TableLinks
from tests.joint.families import field_of, of_marginals
from tests.joint.oracle import Enumerated, every_vector, make_space, random_log_table

pytestmark = pytest.mark.filterwarnings("error")


class Short(Chain):
    """A chain that lists next to nothing."""

    most_listed, few_listed = 1, 2


class CostlyLinks(TableLinks):
    """Tables that claim to be classifiers."""

    costly = True


def smooth(n_members=6, n_rows=4, chain=Chain, links=TableLinks, **options):
    rng, members = np.random.default_rng(1), []
    for _ in range(n_members):
        tables = [random_log_table(rng, (n_rows, *(2,) * (k + 1)), "smooth") for k in range(6)]
        order = rng.permutation(6)
        members.append(chain(make_space((2,) * 6), order, links.of(tables), **options))
    return Mixture(members)


def enumerated(joint):
    codes = every_vector((2,) * 6)
    log_prob = [joint.log_prob_codes(np.tile(y, (joint.n_rows, 1))) for y in codes]
    vectors = list(map(tuple, codes.tolist()))
    rows = [dict(zip(vectors, prob, strict=True)) for prob in np.exp(log_prob).T]
    return Enumerated((2,) * 6, rows)


def listed_vectors(found):
    """What is listed, as a set of (row, vector): nothing twice."""
    listed = {(r, *y) for r, y in zip(found.rows.tolist(), found.codes.tolist(), strict=True)}
    assert len(listed) == len(found.rows)
    return listed


def test_lists_too_short_to_prove_it_take_the_proof_back():
    joint, least = smooth(chain=Short), np.log(np.full(4, 1e-3))
    assert not smooth().listed_above(least).cut.any()
    assert joint.exact.all
    assert joint.listed_above(least).cut.any()
    assert joint.exact.all  # it has not been asked yet: only some rows of it
    joint.mode_codes()
    assert joint.exact == {"sums", "log_prob"}
    assert "too many to prove it" in joint.how
    assert joint[0].exact == {"sums", "log_prob"}


def test_long_lists_of_the_best_are_asked_for_a_few_rows_at_a_time():
    joint = of_marginals(np.random.default_rng(0).uniform(0.2, 0.8, size=(9, 8)))
    least = joint.top_k_codes(40)[1][:, -1] - 1e-12
    asked = []

    class Small(Independent):
        codes_at_once = 64 * 8 * 2

        def top_k_codes(self, k):
            asked.append((self.n_rows, k))
            return super().top_k_codes(k)

    whole = joint.listed_above(least)
    parts = Small(joint.space, joint.log_tables).listed_above(least)
    assert max(rows * k for rows, k in asked) <= 64 * 2
    assert not parts.cut.any()
    assert np.bincount(whole.rows).tolist() == [40] * 9
    assert listed_vectors(whole) == listed_vectors(parts)


def test_a_list_is_no_longer_than_all_vectors():
    """The 16 best are as probable as each other, the others far less: no estimate of thousands."""
    joint = of_marginals(np.array([[0.45, 0.5, 0.5, 0.5, 1e-6, 1e-6]]))
    listed = joint.listed_above(np.array([-60.0]))
    assert not listed.cut.any()
    assert len(listed_vectors(listed)) == 64


def test_members_that_cannot_list_all_give_candidates():
    joint = smooth(inference="greedy", chain=Short, links=CostlyLinks)
    assert joint.exact == {"sums", "log_prob"}
    assert "scored by the mixture" in joint.how
    own = [joint.log_prob_codes(member.mode_codes()) for member in joint.members]
    assert (joint.log_prob_codes(joint.mode_codes()) >= np.max(own, axis=0) - 1e-12).all()


@pytest.mark.parametrize("links", [TableLinks, CostlyLinks])
@pytest.mark.parametrize("inference", ["exact", "greedy", "beam"])
def test_the_mode_is_never_worse_than_top_k_also_under_evidence(links, inference):
    whole = smooth(n_rows=20, inference=inference, links=links)
    evidence = np.full((20, 6), -1, dtype=np.int32)
    evidence[:10, 1], evidence[5:, 4] = 1, 0
    for joint in (whole, whole.given_codes(evidence)):
        best = joint.log_prob_codes(joint.mode_codes())
        for k in (1, 2, 7, 40, 64):
            np.testing.assert_allclose(joint.top_k_codes(k)[1][:, 0], best, atol=1e-12)


def test_evidence_whose_probability_is_estimated_leaves_nothing_exact():
    joint = smooth(limit=4, n_samples=50)
    assert joint.exact == {"mode", "log_prob"}
    known = joint.given({"y2": 1})
    assert known.exact == APPROXIMATE
    assert "estimates" in known.how


def test_a_member_that_says_less_is_asked_once():
    """A loopy field lists what it has; its mixture does not claim a proof."""
    rng = np.random.default_rng(4)
    field, _ = field_of(engine="belief_propagation")(rng, (2,) * 4, 3, 1.0)
    assert field.exact == APPROXIMATE
    joint = Mixture([field, of_marginals(np.full((3, 4), 0.5))])
    assert joint.exact == APPROXIMATE
    for k in (2, 5, 16):
        np.testing.assert_array_equal(joint.mode_codes(), joint.top_k_codes(k)[0][:, 0])


def test_votes():
    joint = smooth(n_members=3, inference="greedy")
    modes = np.stack([member.mode_codes() for member in joint.members])
    np.testing.assert_allclose(joint.vote_tables()[2][:, 1], modes[:, :, 2].mean(axis=0))
    np.testing.assert_array_equal(joint.vote_codes(), (modes.mean(axis=0) > 0.5).astype(int))


HALF, THIRDS = ([np.log(np.full((1, k), 1 / k))] for k in (2, 3))


@pytest.mark.parametrize(
    ("others", "weights", "message"),
    [
        (None, None, "at least one member"),
        ([], [0.5, 0.5], "one weight per member, or one per row and member"),
        ([], [0.0], "finite and not negative"),
        ([Independent(make_space((3,)), THIRDS)], None, "same rows and labels"),
    ],
)
def test_errors_say_what_to_do(others, weights, message):
    members = [] if others is None else [Independent(make_space((2,)), HALF), *others]
    with pytest.raises(ValueError, match=message):
        Mixture(members, weights)


def test_long_lists_are_not_copied_for_every_vector_asked_about(rng):
    space, vectors = make_space([2] * 12), every_vector((2,) * 12)
    members = [VectorList(space, vectors, rng.normal(size=(20, len(vectors)))) for _ in range(2)]
    joint = Mixture(members)
    one_list = members[0].log_weights.nbytes
    tracemalloc.start()
    codes, _ = joint.top_k_codes(50)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert codes.shape == (20, 50, 12)
    assert peak < 25 * one_list  # a copy for each vector that a member names would be 100 of them


@pytest.fixture
def lengths(monkeypatch):
    """How many vectors each call of `VectorList.listed_above` lists."""
    lengths, listed_above = [], VectorList.listed_above

    def noting(self, least):
        found = listed_above(self, least)
        lengths.append(len(found.rows))
        return found

    monkeypatch.setattr(VectorList, "listed_above", noting)
    return lengths


def test_light_members_are_spared_long_lists(lengths):
    """All vectors of the list are more probable than the mixture's mode, but have little weight."""
    vectors = every_vector((2,) * 10)
    alone = of_marginals(np.random.default_rng(0).uniform(0.45, 0.55, size=(5, 10)))
    listed = VectorList(alone.space, vectors[::2], np.zeros((5, 512)))
    joint = Mixture([alone, listed], [0.999, 0.001])
    log_prob = joint.top_k_codes(3)[1]
    assert sum(lengths) == 0
    every = np.stack([joint.log_prob_codes(np.tile(y, (5, 1))) for y in vectors], axis=1)
    np.testing.assert_allclose(log_prob, -np.sort(-every, axis=1)[:, :3])
    assert joint.exact.all


def test_long_lists_are_made_for_a_few_rows_at_a_time(lengths, rng):
    space, vectors = make_space((2,) * 8), every_vector((2,) * 8)
    members = [VectorList(space, vectors, table) for table in rng.normal(size=(2, 40, 256))]

    class Small(Mixture):
        codes_at_once = 1 << 13

    parts = Small(members).top_k_codes(200)
    assert max(lengths) <= 8 * 256
    assert max(lengths[2:]) <= 2 * 256
    whole = Mixture(members).top_k_codes(200)
    np.testing.assert_array_equal(parts[0], whole[0])
    np.testing.assert_allclose(parts[1], whole[1])


def test_lists_that_would_be_hopelessly_long_are_not_begun():
    """Forty labels of about one half: millions of vectors are as probable as a member's mode."""
    asked = []

    class Asked(Independent):
        def top_k_codes(self, k):
            asked.append(k)
            return super().top_k_codes(k)

    on = np.random.default_rng(0).uniform(0.4, 0.6, size=(2, 3, 40))
    members = [Asked(one.space, one.log_tables) for one in map(of_marginals, on)]
    joint = Mixture(members)
    best = joint.log_prob_codes(joint.mode_codes())
    assert 0 < max(asked) <= 256
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
