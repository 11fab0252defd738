"""Chains: every exact answer against enumeration, every approximate one against its definition."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colabel.joint import Chain
from colabel.joint.chain import (
    BeamSearch,
    BranchAndBound,
    EpsilonSearch,
    MonteCarlo,
    TableLinks,
    as_search,
)
from tests.joint.oracle import Enumerated, make_space, possible_evidence, random_log_table

pytestmark = pytest.mark.filterwarnings("error")  # -inf must not warn anywhere
SETTINGS = settings(max_examples=80, deadline=None)


@st.composite
def chains(draw, max_labels=5, max_values=3, max_rows=4):
    """Cardinalities, order, links by table (in chain order), and a generator for the rest."""
    d = draw(st.integers(1, max_labels))
    cardinalities = tuple(draw(st.lists(st.integers(1, max_values), min_size=d, max_size=d)))
    order = draw(st.permutations(range(d)))
    style = draw(st.sampled_from(["smooth", "zeros", "ties"]))
    n_rows = draw(st.integers(1, max_rows))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    sizes = [cardinalities[label] for label in order]
    tables = [random_log_table(rng, (n_rows, *sizes[: k + 1]), style) for k in range(d)]
    return cardinalities, list(order), tables, rng


def oracle_of(cardinalities, order, tables):
    rows = []
    for r in range(len(tables[0])):
        row = {}
        for y in itertools.product(*map(range, cardinalities)):
            prefix = tuple(y[label] for label in order)
            row[y] = math.prod(math.exp(t[(r, *prefix[: k + 1])]) for k, t in enumerate(tables))
        rows.append(row)
    return Enumerated(cardinalities, rows)


def build(instance, links=TableLinks.of, **options):
    cardinalities, order, tables, rng = instance
    joint = Chain(make_space(cardinalities), order, links(tables), **options)
    return joint, oracle_of(cardinalities, order, tables), rng


@SETTINGS
@given(chains(), st.sampled_from(["greedy", BeamSearch(2), EpsilonSearch(0.2), MonteCarlo(5)]))
def test_approximate_searches_obey_evidence_and_score_rightly(instance, inference):
    joint, oracle, rng = build(instance, inference=inference)
    assert "mode" not in joint.exact
    assert {"sums", "log_prob"} <= joint.exact
    evidence = possible_evidence(joint, oracle, rng)
    conditioned, expected = joint.given_codes(evidence), oracle.given(evidence)
    for k in (1, 3):
        codes, log_prob = conditioned.top_k_codes(k)
        for rank in range(codes.shape[1]):
            own = expected.log_prob(codes[:, rank])
            np.testing.assert_allclose(log_prob[:, rank], own, rtol=1e-9, atol=1e-9)
        assert np.isfinite(log_prob[:, 0]).all()
        assert (log_prob[:, :-1] >= log_prob[:, 1:]).all()
        for row in codes:
            assert len({tuple(y) for y in row.tolist()}) == len(row)


class Watched(TableLinks):
    """Links that count the grids they are asked for."""

    asked = 0

    def log_prob_grid(self, prefixes):
        Watched.asked += 1
        return super().log_prob_grid(prefixes)

    def take(self, rows):
        return Watched(super().take(rows).tables)


@given(chains(max_labels=3))
@settings(max_examples=5, deadline=None)
def test_several_pairs_are_read_off_one_enumeration(instance):
    joint, _, _ = build(instance, links=Watched.of)
    joint, d, before = joint[:1], joint.space.n_labels, Watched.asked
    joint.pair_tables([(i, j) for i in range(d) for j in range(d)])
    assert Watched.asked - before == d  # a grid for each position, once


def published_epsilon_search(joint_row, tables, r, epsilon):
    """Algorithm of Dembczynski, Waegeman & Huellermeier (2012), word for word, for one row."""
    d = len(tables)

    def prob(prefix):
        return math.exp(
            math.fsum(t[(r, *prefix[: k + 1])] for k, t in enumerate(tables[: len(prefix)]))
        )

    queue, lost = [((), 1.0)], []
    while queue:
        queue.sort(key=lambda item: (-item[1], item[0]))
        prefix, p = queue.pop(0)
        if len(prefix) == d:
            return p
        kids = [(*prefix, v) for v in range(tables[len(prefix)].shape[-1])]
        alive = [(kid, prob(kid)) for kid in kids if prob(kid) > epsilon]
        queue += alive
        if not alive:
            lost.append(prefix)
    best = 0.0
    for prefix in lost:
        while len(prefix) < d:
            table = tables[len(prefix)][(r, *prefix)]
            prefix = (*prefix, int(np.argmax(table)))
        best = max(best, prob(prefix))
    return best


@SETTINGS
@given(chains(), st.sampled_from([0.5, 0.3, 0.125, 0.02]))
def test_epsilon_search_is_the_published_one(instance, epsilon):
    joint, oracle, _ = build(instance, inference=EpsilonSearch(epsilon))
    tables = instance[2]
    found = np.exp(oracle.log_prob(joint.mode_codes()))
    expected = [published_epsilon_search(joint, tables, r, epsilon) for r in range(joint.n_rows)]
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    best = np.exp(oracle.best(1)[:, 0])
    above = best > epsilon * (1 + 1e-9)
    np.testing.assert_allclose(found[above], best[above], rtol=1e-9)


@SETTINGS
@given(chains(max_values=2))
def test_epsilon_one_half_and_beam_of_one_are_greedy(instance):
    joint, _, _ = build(instance, inference="greedy")
    halved, _, _ = build(instance, inference=EpsilonSearch(0.5))
    order, tables = joint.order, instance[2]
    for r in range(joint.n_rows):
        prefix = ()
        for table in tables:
            prefix = (*prefix, int(np.argmax(table[(r, *prefix)])))
        assert joint.mode_codes()[r, order].tolist() == list(prefix)
    np.testing.assert_array_equal(joint.mode_codes(), halved.mode_codes())


@SETTINGS
@given(chains())
def test_wide_beams_are_exact(instance):
    joint, oracle, _ = build(instance, inference=BeamSearch(3**5))
    found = oracle.log_prob(joint.mode_codes())
    np.testing.assert_allclose(found, oracle.best(1)[:, 0], rtol=1e-9, atol=1e-9)


def smooth(seed=0, cardinalities=(2, 3, 2, 2), n_rows=3):
    rng = np.random.default_rng(seed)
    order = [2, 0, 3, 1]
    sizes = [cardinalities[label] for label in order]
    tables = [random_log_table(rng, (n_rows, *sizes[: k + 1]), "smooth") for k in range(4)]
    return cardinalities, order, tables, rng


def test_a_search_cut_short_says_so():
    joint, *_ = build(smooth(), inference=BranchAndBound(max_prefixes=1))
    assert joint.exact.all
    with pytest.warns(RuntimeWarning, match="stopped at 1 prefixes"):
        joint.mode_codes()
    assert joint.exact == {"sums", "log_prob"}
    assert "cut short in" in joint.how


def test_sums_by_sampling_come_close_and_say_so():
    joint, oracle, _ = build(smooth(), limit=1, n_samples=20_000)
    assert joint.exact == {"mode", "log_prob"}
    assert "20000 draws" in joint.how
    for table, expected in zip(joint.marginal_tables(), oracle.marginals(), strict=True):
        np.testing.assert_allclose(table, expected, atol=0.02)
        np.testing.assert_allclose(table.sum(axis=1), 1.0)
    np.testing.assert_allclose(joint.entropy(), oracle.entropy(), atol=0.03)
    np.testing.assert_allclose(joint.pair_table(0, 1), oracle.pair(0, 1), atol=0.02)
    partial = np.array([[-1, 2, 0, -1]] * 3, dtype=np.int32)
    np.testing.assert_allclose(
        np.exp(joint.log_prob_codes(partial)), np.exp(oracle.log_prob(partial)), rtol=0.05
    )


def test_evidence_by_importance_weights():
    joint, oracle, rng = build(smooth(), limit=1, n_samples=20_000)
    evidence = np.array([[-1, 1, -1, 0], [1, -1, -1, -1], [-1, -1, 1, 1]], dtype=np.int32)
    conditioned, expected = joint.given_codes(evidence), oracle.given(evidence)
    assert "weighted by the evidence" in conditioned.how
    for table, wanted in zip(conditioned.marginal_tables(), expected.marginals(), strict=True):
        np.testing.assert_allclose(table, wanted, atol=0.03)
    np.testing.assert_allclose(
        conditioned.log_prob_codes(conditioned.mode_codes()), expected.best(1)[:, 0], atol=0.05
    )
    drawn = conditioned.sample_codes(4000, rng)
    assert ((drawn == evidence) | (evidence == -1)).all()
    wanted = expected.marginals()[0][:, 1]
    np.testing.assert_allclose((drawn[:, :, 0] == 1).mean(axis=0), wanted, atol=0.05)


@pytest.mark.parametrize("evidence", [None, (1, -1, -1, -1), (-1, -1, 1, -1), (-1, 2, -1, 0)])
def test_frequencies_of_samples(evidence):
    joint, oracle, _ = build(smooth())
    if evidence is not None:
        codes = np.tile(np.array(evidence, dtype=np.int32), (3, 1))
        joint, oracle = joint.given_codes(codes), oracle.given(codes)
    size = 20_000
    drawn = joint.sample_codes(size, np.random.default_rng(0))
    for r, row in enumerate(oracle.rows):
        for y, p in row.items():
            count = (drawn[:, r] == y).all(axis=1).sum()
            assert abs(count - size * p) <= 5 * math.sqrt(size * p * (1 - p)) + 1
    free = (drawn[:, 0, 3] == 1).astype(float), (drawn[:, 1, 3] == 1).astype(float)
    if min(map(np.std, free)) > 0:
        assert abs(np.corrcoef(*free)[0, 1]) < 5 / math.sqrt(size)


def test_sampled_answers_do_not_depend_on_the_other_rows():
    joint, _, _ = build(smooth(), limit=1, n_samples=50, inference=MonteCarlo(20))
    alone = joint.rows(np.array([2]))
    np.testing.assert_array_equal(joint.mode_codes()[2:], alone.mode_codes())
    for table, whole in zip(alone.marginal_tables(), joint.marginal_tables(), strict=True):
        np.testing.assert_array_equal(table, whole[2:])


def test_a_cut_search_warns_and_returns_the_best_seen():
    joint, oracle, _ = build(smooth(), inference=BranchAndBound(max_prefixes=0))
    with pytest.warns(RuntimeWarning, match="stopped at 0 prefixes in 3 rows"):
        codes = joint.mode_codes()
    greedy, *_ = build(smooth(), inference="greedy")
    assert (oracle.log_prob(codes) >= oracle.log_prob(greedy.mode_codes())).all()


def test_a_search_cut_short_is_never_worse_than_greedy_search():
    """A beam of 32 drops the first label's likelier value, whose prefixes are all alike."""

    def link(k):
        given_0, given_1 = ((0.7, 0.3), (0.5, 0.5)) if k <= 10 else ((0.5, 0.5), (1 - 1e-9, 1e-9))
        table = np.log([given_0, given_1]).reshape(1, 2, *(1,) * (k - 1), 2)
        return np.broadcast_to(table, (1, *(2,) * (k + 1)))

    links = TableLinks.of([np.log([[0.4, 0.6]]), *map(link, range(1, 17))])
    space, order = make_space((2,) * 17), range(17)
    greedy = Chain(space, order, links, inference="greedy")
    beam = Chain(space, order, links, inference=BeamSearch(32))
    joint = Chain(space, order, links, inference=BranchAndBound(1000, warns=False))
    mode = joint.mode_codes()
    assert joint.log_prob_codes(mode) >= greedy.top_k_codes(1)[1][:, 0]
    assert joint.log_prob_codes(mode) > beam.top_k_codes(1)[1][:, 0] + 0.1
    assert "exact in rows that need at most 1000 prefixes, else by beam search" in joint.how
    assert "cut short in 1 rows" in joint.how
    assert "mode" not in joint.exact


def test_a_search_cut_short_is_never_worse_than_the_marginals():
    instance = smooth(n_rows=300)
    joint, oracle, _ = build(instance, inference=BranchAndBound(0, warns=False, beam_width=1))
    greedy, *_ = build(instance, inference="greedy")
    alone = np.stack([table.argmax(axis=1) for table in oracle.marginals()], axis=1)
    of_alone = oracle.log_prob(alone)
    assert (of_alone > oracle.log_prob(greedy.mode_codes()) + 1e-6).any()
    found = joint.log_prob_codes(joint.mode_codes())
    assert (found >= of_alone - 1e-9).all()
    # what is known is kept
    known = joint.given({"y1": 1})
    assert (known.mode_codes()[:, 1] == 1).all()


def test_auto_is_exact_up_to_fourteen_labels():
    joint, oracle, _ = build(smooth(), inference="auto")
    np.testing.assert_allclose(oracle.log_prob(joint.mode_codes()), oracle.best(1)[:, 0])
    assert joint.exact.all
    assert as_search("auto").max_prefixes >= 2**15


def test_errors_say_what_to_do():
    cardinalities, order, tables, _ = smooth()
    space, links = make_space(cardinalities), TableLinks.of(tables)
    with pytest.raises(ValueError, match="inference='best' is unknown: choose one of 'exact'"):
        Chain(space, order, links, inference="best")
    with pytest.raises(ValueError, match="must name each of the 4 labels once"):
        Chain(space, [0, 1, 2, 2], links)
    with pytest.raises(ValueError, match="one link per label, in the order of the chain"):
        Chain(space, [0, 1, 2, 3], links)
    with pytest.raises(ValueError, match="axes before the last must be"):
        TableLinks.of([tables[0], tables[2]])
    for bad in (lambda: BeamSearch(0), lambda: EpsilonSearch(1.0), lambda: MonteCarlo(0)):
        with pytest.raises(ValueError, match="must be at least"):
            bad()
    with pytest.raises(ValueError, match="limit=0 must be an integer of at least 1"):
        Chain(space, order, links, limit=0)


def test_an_order_by_names_and_no_rows():
    cardinalities, order, tables, _ = smooth()
    space = make_space(cardinalities)
    joint = Chain(space, ["y2", "y0", "y3", "y1"], TableLinks.of(tables))
    assert joint.order.tolist() == order
    empty = joint[:0]
    assert empty.mode().shape == (0, 4)
    assert empty.top_k(2).labels.shape == (0, 2, 4)
    assert empty.sample(3, 0).shape == (3, 0, 4)
    assert [t.shape for t in empty.marginals()] == [(0, k) for k in cardinalities]
