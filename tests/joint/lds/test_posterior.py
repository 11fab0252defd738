"""Posteriors of a generative network: all answers against enumeration, and honest searching."""

from __future__ import annotations

import math

import numpy as np
import pytest

from colabel.joint import LDSPosterior
from colabel.joint.base import APPROXIMATE
from colabel.joint.lds.posterior import chosen_inference
from colabel.labels import MISSING
from tests.joint.lds.oracle import draw_rows, random_network, slow_copy
from tests.joint.oracle import Enumerated, make_space

pytestmark = pytest.mark.filterwarnings("error")

CASES = {
    "labels": (((), (0,), (0, 1), (1, 2)), (2,) * 4, (3, 2, 4), 6),
    "class variables": (((1,), (), (0, 1)), (3, 2, 4), (2, 5), 7),
    "one label": (((),), (3,), (2, 2), 2),
}
SEARCHES = ["search", "coordinate ascent"]


@pytest.fixture(params=CASES)
def case(request, rng):
    """A network, six rows of features, and the oracle of the posterior."""
    network = random_network(rng, *CASES[request.param])
    _, features = draw_rows(network, 6, rng)
    return network, features, oracle_of(network, features)


def oracle_of(network, features):
    slow = slow_copy(network)
    return Enumerated.of_scores(
        network.sets.cardinalities, len(features), lambda r, y: [slow.log_joint(y, features[r])]
    )


def make(network, features, inference="exact"):
    space = make_space(network.sets.cardinalities)
    return LDSPosterior(space, network, features, inference=inference)


def test_chunks_do_not_change_the_answers(case):
    network, features, _ = case
    for inference in ("exact", "search"):
        whole = make(network, features, inference)
        expected = whole.top_k_codes(3), whole.marginal_tables(), whole.sample_codes(4, fixed())
        parts = make(network, features, inference)
        parts.rows_at_once = 1
        found = parts.top_k_codes(3), parts.marginal_tables(), parts.sample_codes(4, fixed())
        np.testing.assert_array_equal(found[0][0], expected[0][0])
        np.testing.assert_allclose(found[0][1], expected[0][1])
        for one, two in zip(found[1], expected[1], strict=True):
            np.testing.assert_allclose(one, two)
        np.testing.assert_array_equal(found[2], expected[2])


def fixed():
    return np.random.default_rng(5)


@pytest.mark.parametrize("inference", SEARCHES)
def test_approximate_answers_belong_together(case, rng, inference):
    network, features, oracle = case
    joint = make(network, features, inference)
    assert joint.exact == APPROXIMATE
    assert "coordinate ascent" in joint.how
    mode = joint.mode_codes()
    np.testing.assert_array_equal(network.ascend(features, mode), mode)
    codes, log_prob = joint.top_k_codes(5)
    assert (np.diff(log_prob, axis=1) <= 0).all()
    for rank in range(codes.shape[1]):
        listed = np.isfinite(log_prob[:, rank])
        own = joint.log_prob_codes(codes[:, rank])
        np.testing.assert_allclose(own[listed], log_prob[listed, rank], atol=1e-9)
    # the total is a lower bound, so no probability is too small
    assert (joint.log_prob_codes(mode) >= oracle.log_prob(mode) - 1e-9).all()
    for table in joint.marginal_tables():
        np.testing.assert_allclose(table.sum(axis=1), 1.0)
    pairs = joint.pair_table(0, len(oracle.sizes) - 1)
    if len(oracle.sizes) > 1:
        np.testing.assert_allclose(pairs.sum(axis=2), joint.marginal_tables()[0])
    drawn = joint.sample_codes(2000, rng)
    for i, table in enumerate(joint.marginal_tables()):
        share = (drawn[:, :, i] == table.shape[1] - 1).mean(axis=0)
        np.testing.assert_allclose(share, table[:, -1], atol=5 * 0.5 / math.sqrt(2000))


def test_a_list_that_holds_every_vector_is_exact(case, rng):
    """Where all vectors were seen the list is complete, and the answers are those of sums."""
    network, features, _ = case
    sets, columns = network.sets, network.columns
    full = random_network(rng, sets.parents, sets.cardinalities, columns.n_values, 10**6)
    oracle = oracle_of(full, features)
    joint = make(full, features, "search")
    for table, other in zip(joint.marginal_tables(), oracle.marginals(), strict=True):
        np.testing.assert_allclose(table, other, atol=1e-12)
    np.testing.assert_allclose(oracle.log_prob(joint.mode_codes()), oracle.best(1)[:, 0], atol=1e-9)
    np.testing.assert_allclose(joint.entropy(), oracle.entropy(), atol=1e-9)


def test_searching_from_a_seen_vector_is_never_worse(rng):
    network = random_network(rng, *CASES["labels"], sharpness=0.3)
    _, features = draw_rows(network, 200, rng)
    exact, search, published = (
        make(network, features, how).mode_codes() for how in ("exact", *SEARCHES)
    )
    scores = [network.log_joint(features, codes) for codes in (published, search, exact)]
    assert (np.diff(scores, axis=0) >= -1e-9).all()


@pytest.mark.parametrize("inference", ["exact", *SEARCHES])
def test_known_labels_stay_known(case, inference):
    network, features, oracle = case
    last = len(oracle.sizes) - 1
    joint = make(network, features, inference)
    given = joint.given({last: 1})
    assert (given.mode()[:, last] == 1).all()
    assert (given.sample(4, 0)[..., last] == 1).all()
    assert given.inference == inference
    with pytest.raises(ValueError, match="probability zero"):
        given.given({last: 0})
    impossible = np.zeros((len(features), last + 1), dtype=np.int32)
    assert np.isneginf(given.log_prob_codes(impossible)).all()


def test_partly_observed_vectors_without_any_listed_one(rng):
    """Evidence that no seen vector agrees with starts a search of its own."""
    network = random_network(rng, ((), (0,), (1,), (2,)), (2,) * 4, (2, 2), 1)
    network.vectors[:] = 0
    joint = make(network, np.zeros((2, 2), dtype=np.int32), "search")
    partial = np.array([[1, 1, 1, MISSING]] * 2, dtype=np.int32)
    assert np.isfinite(joint.log_prob_codes(partial)).all()
    assert (joint.given_codes(partial).mode_codes()[:, :3] == 1).all()


def test_the_way_to_answer_follows_the_number_of_vectors():
    assert chosen_inference("auto", (2,) * 14) == "exact"
    assert chosen_inference("auto", (2,) * 15) == "search"
    assert chosen_inference("exact", (2,) * 15) == "exact"
    assert chosen_inference("auto", (2,) * 14, 2048) == "exact"
    assert chosen_inference("auto", (2,) * 14, 2049) == "search"
    with pytest.raises(ValueError, match=r"14 labels have 16384 of them.*20000 values"):
        chosen_inference("exact", (2,) * 14, 20_000)
    with pytest.raises(ValueError, match="40 labels have 1099511627776"):
        chosen_inference("exact", (2,) * 40)
    with pytest.raises(ValueError, match="'greedy' must be one of 'auto'"):
        chosen_inference("greedy", (2, 2))


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (np.zeros((2, 3), dtype=int), r"shape \(2, 3\), but the network has 2 features"),
        (np.zeros((2, 2)), "integer codes"),
        (np.full((2, 2), 9), "integer codes"),
        (np.full((2, 2), -1), "integer codes"),
    ],
)
def test_wrong_features_are_refused(rng, features, message):
    network = random_network(rng, ((), (0,)), (2, 2), (2, 2), 2)
    with pytest.raises(ValueError, match=message):
        LDSPosterior(make_space((2, 2)), network, features)
    with pytest.raises(ValueError, match=r"labels have \(2, 3\) values"):
        LDSPosterior(make_space((2, 3)), network, np.zeros((2, 2), dtype=int))
