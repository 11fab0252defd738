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
from tests.joint.oracle import Enumerated, assert_tables, make_space

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


@pytest.mark.parametrize("inference", ["exact", "search"])
def test_chunks_do_not_change_the_answers(case, inference):
    network, features, _ = case
    whole, parts = (make(network, features, inference) for _ in range(2))
    parts.rows_at_once = 1
    for one, two in zip(whole.top_k_codes(3), parts.top_k_codes(3), strict=True):
        np.testing.assert_allclose(one, two)
    assert_tables(whole.marginal_tables(), parts.marginal_tables(), 1e-9)
    drawn = (joint.sample_codes(4, np.random.default_rng(5)) for joint in (whole, parts))
    np.testing.assert_array_equal(*drawn)


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
    tables, last = joint.marginal_tables(), len(oracle.sizes) - 1
    assert_tables([table.sum(axis=1) for table in tables], [np.ones(6)] * len(tables), 1e-7)
    if last:
        np.testing.assert_allclose(joint.pair_table(0, last).sum(axis=2), tables[0])
    drawn = joint.sample_codes(2000, rng)
    share = [(drawn[:, :, i] == table.shape[1] - 1).mean(axis=0) for i, table in enumerate(tables)]
    assert_tables(share, [table[:, -1] for table in tables], 5 * 0.5 / math.sqrt(2000))


def test_a_list_that_holds_every_vector_is_exact(case, rng):
    """Where all vectors were seen the list is complete, and the answers are those of sums."""
    network, features, _ = case
    sets, columns = network.sets, network.columns
    full = random_network(rng, sets.parents, sets.cardinalities, columns.n_values, 10**6)
    oracle = oracle_of(full, features)
    joint = make(full, features, "search")
    assert_tables(joint.marginal_tables(), oracle.marginals(), 1e-12)
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


def test_partly_observed_vectors_without_any_listed_one(rng):
    """Evidence that no seen vector agrees with starts a search of its own."""
    network = random_network(rng, ((), (0,), (1,), (2,)), (2,) * 4, (2, 2), 1)
    network.vectors[:] = 0
    search, exact = (make(network, np.zeros((2, 2), np.int32), how) for how in ("search", "exact"))
    partial = np.array([[1, 1, 1, MISSING]] * 2, dtype=np.int32)
    # the total is a lower bound, so no probability is too small; here it is nearly complete
    excess = search.log_prob_codes(partial) - exact.log_prob_codes(partial)
    assert ((excess >= -1e-9) & (excess < 0.3)).all()
    best = (joint.given_codes(partial).mode_codes() for joint in (search, exact))
    np.testing.assert_array_equal(*best)


@pytest.mark.parametrize(
    ("asked", "n_labels", "n_columns", "answer"),
    [
        ("auto", 14, 1, "exact"),
        ("auto", 15, 1, "search"),
        ("exact", 15, 1, "exact"),
        ("auto", 14, 2048, "exact"),
        ("auto", 14, 2049, "search"),
        ("exact", 14, 20_000, r"14 labels have 16384 of them.*20000 values"),
        ("exact", 40, 1, "40 labels have 1099511627776"),
        ("greedy", 2, 1, "'greedy' must be one of 'auto'"),
    ],
)
def test_the_way_to_answer_follows_the_number_of_vectors(asked, n_labels, n_columns, answer):
    if answer in ("exact", "search"):
        assert chosen_inference(asked, (2,) * n_labels, n_columns) == answer
        return
    with pytest.raises(ValueError, match=answer):
        chosen_inference(asked, (2,) * n_labels, n_columns)


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
