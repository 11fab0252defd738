"""Chains: searches against their definitions, sums of draws, and what is said of them."""

from __future__ import annotations

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
from tests.joint.families import chain
from tests.joint.oracle import assert_tables, make_space
from tests.joint.test_families import SEEDS, STYLES, sizes_of

pytestmark = pytest.mark.filterwarnings("error")  # -inf must not warn anywhere
SETTINGS = settings(max_examples=80, deadline=None)


def drawn_chain(seed, style, most=3, **options):
    """A random chain of up to five labels, and its distribution."""
    rng = np.random.default_rng(seed)
    sizes = tuple(min(k, most) for k in sizes_of(rng, 5))
    return chain(rng, sizes, 3, style, **options)


def smooth(n_rows=3, **options):
    return chain(np.random.default_rng(1), (2, 3, 2, 2), n_rows, 1.0, **options)


class Watched(TableLinks):
    """Links that count the grids they are asked for."""

    asked = 0

    def log_prob_grid(self, prefixes):
        Watched.asked += 1
        return super().log_prob_grid(prefixes)

    def take(self, rows):
        return Watched(super().take(rows).tables)


@given(SEEDS)
@settings(max_examples=5, deadline=None)
def test_several_pairs_are_read_off_one_enumeration(seed):
    joint, _ = drawn_chain(seed, 1.0, links=Watched)
    joint, d, before = joint[:1], joint.space.n_labels, Watched.asked
    joint.pair_tables([(i, j) for i in range(d) for j in range(d)])
    assert Watched.asked - before == d  # a grid for each position, once


def published_epsilon_search(tables, r, epsilon):
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
@given(SEEDS, st.sampled_from(STYLES), st.sampled_from([0.5, 0.3, 0.125, 0.02]))
def test_epsilon_search_is_the_published_one(seed, style, epsilon):
    joint, exact = drawn_chain(seed, style, inference=EpsilonSearch(epsilon))
    found = np.exp(exact.log_prob(joint.mode_codes()))
    tables = joint.links.tables
    expected = [published_epsilon_search(tables, r, epsilon) for r in range(joint.n_rows)]
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    best = np.exp(exact.best(1)[:, 0])
    above = best > epsilon * (1 + 1e-9)
    np.testing.assert_allclose(found[above], best[above], rtol=1e-9)


@SETTINGS
@given(SEEDS, st.sampled_from(STYLES))
def test_epsilon_one_half_and_beam_of_one_are_greedy_and_wide_beams_exact(seed, style):
    joint, exact = drawn_chain(seed, style, 2, inference="greedy")
    greedy = []
    for r in range(joint.n_rows):
        prefix = ()
        for table in joint.links.tables:
            prefix = (*prefix, int(np.argmax(table[(r, *prefix)])))
        greedy.append(prefix)
    for inference in ("greedy", EpsilonSearch(0.5), BeamSearch(1)):
        same = Chain(joint.space, joint.order, joint.links, inference=inference)
        assert same.mode_codes()[:, joint.order].tolist() == list(map(list, greedy))
    wide = Chain(joint.space, joint.order, joint.links, inference=BeamSearch(2**5))
    best = exact.log_prob(wide.mode_codes())
    np.testing.assert_allclose(best, exact.best(1)[:, 0], rtol=1e-9, atol=1e-9)


def test_sums_by_sampling_come_close_and_say_so():
    joint, exact = smooth(limit=1, n_samples=20_000)
    assert joint.exact == {"mode", "log_prob"}
    assert "20000 draws" in joint.how
    assert_tables(joint.marginal_tables(), exact.marginals(), 0.02)
    assert_tables([t.sum(axis=1) for t in joint.marginal_tables()], [np.ones(3)] * 4, 1e-7)
    np.testing.assert_allclose(joint.entropy(), exact.entropy(), atol=0.03)
    np.testing.assert_allclose(joint.pair_table(0, 1), exact.pair(0, 1), atol=0.02)
    partial = np.array([[-1, 2, 0, -1]] * 3, dtype=np.int32)
    found, expected = np.exp(joint.log_prob_codes(partial)), np.exp(exact.log_prob(partial))
    np.testing.assert_allclose(found, expected, rtol=0.05)


def test_evidence_by_importance_weights():
    joint, exact = smooth(limit=1, n_samples=20_000)
    evidence = np.array([[-1, 1, -1, 0], [1, -1, -1, -1], [-1, -1, 1, 1]], dtype=np.int32)
    known, expected = joint.given_codes(evidence), exact.given(evidence)
    assert "weighted by the evidence" in known.how
    assert_tables(known.marginal_tables(), expected.marginals(), 0.03)
    best = known.log_prob_codes(known.mode_codes())
    np.testing.assert_allclose(best, expected.best(1)[:, 0], atol=0.05)
    drawn = known.sample_codes(4000, np.random.default_rng(0))
    assert ((drawn == evidence) | (evidence == -1)).all()
    share = [(drawn == value).mean(axis=0)[:, 0] for value in (0, 1)]
    np.testing.assert_allclose(np.transpose(share), expected.marginals()[0], atol=0.05)


@pytest.mark.parametrize("most", [0, 1])
def test_a_search_cut_short_warns_and_says_so(most):
    joint, exact = smooth(inference=BranchAndBound(max_prefixes=most))
    assert joint.exact.all
    with pytest.warns(RuntimeWarning, match=f"stopped at {most} prefixes in . rows"):
        codes = joint.mode_codes()
    assert joint.exact == {"sums", "log_prob"}
    assert "cut short in" in joint.how
    greedy, _ = smooth(inference="greedy")
    assert (exact.log_prob(codes) >= exact.log_prob(greedy.mode_codes())).all()


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
    joint, exact = smooth(300, inference=BranchAndBound(0, warns=False, beam_width=1))
    greedy, _ = smooth(300, inference="greedy")
    alone = np.stack([table.argmax(axis=1) for table in exact.marginals()], axis=1)
    of_alone = exact.log_prob(alone)
    assert (of_alone > exact.log_prob(greedy.mode_codes()) + 1e-6).any()
    found = joint.log_prob_codes(joint.mode_codes())
    assert (found >= of_alone - 1e-9).all()
    # what is known is kept
    known = joint.given({"y1": 1})
    assert (known.mode_codes()[:, 1] == 1).all()


def test_auto_is_exact_up_to_fourteen_labels():
    joint, exact = smooth(inference="auto")
    np.testing.assert_allclose(exact.log_prob(joint.mode_codes()), exact.best(1)[:, 0])
    assert joint.exact.all
    assert as_search("auto").max_prefixes >= 2**15


def test_an_order_by_names():
    joint, _ = smooth()
    names = [joint.space.names[i] for i in joint.order]
    assert Chain(joint.space, names, joint.links).order.tolist() == joint.order.tolist()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda *c: Chain(*c, inference="best"), "'best' is unknown: choose one of 'exact'"),
        (lambda s, o, links: Chain(s, [0, 1, 2, 2], links), "must name each of the 4 labels once"),
        (lambda s, o, links: Chain(s, o[::-1], links), "one link per label, in the order of the"),
        (
            lambda s, o, links: TableLinks.of([links.tables[0], links.tables[2]]),
            "axes before the last must be",
        ),
        (lambda *_: BeamSearch(0), "must be at least"),
        (lambda *_: EpsilonSearch(1.0), "must be at least"),
        (lambda *_: MonteCarlo(0), "must be at least"),
        (lambda *c: Chain(*c, limit=0), "limit=0 must be an integer of at least 1"),
    ],
)
def test_errors_say_what_to_do(make, message):
    sizes = (2, 2, 2, 3)
    links = TableLinks.of([np.full((3, *(2,) * k, v), -np.log(v)) for k, v in enumerate(sizes)])
    with pytest.raises(ValueError, match=message):
        make(make_space(sizes), [0, 1, 2, 3], links)
