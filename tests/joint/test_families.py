"""What every family must do, by one table of families and exact arithmetic."""

from __future__ import annotations

import contextlib
import itertools
import pickle

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from colabel.joint import Independent, PairwiseField, Tree
from colabel.labels import MISSING
from tests.joint.families import APPROXIMATE, EXACT, FAMILIES, PARTLY, field_of
from tests.joint.oracle import (
    assert_frequencies,
    assert_tables,
    every_vector,
    possible_evidence,
)

SEEDS = st.integers(0, 2**32 - 1)
SCALES = [1.0, 1e3, 1e7, 1e11, 1e14, 1e16, 1e18, 1e24, 1e30]
STYLES = [1.0, "ties", "zeros"]
CLOSE = {"rtol": 1e-8, "atol": 1e-8}
# without claims about evidence of probability e^-1e20: their sums of logarithms are doubles
PLAIN_LOGS = {*(name for name in EXACT if "chain" in name), "mixture", "reweighted", "repeated"}


def sizes_of(rng, most=4):
    return tuple(rng.integers(1, 4, size=rng.integers(1, most + 1)).tolist())


def slack_of(name):
    """Successive sweeps are not independent draws, nor are those that weights choose."""
    return 3.0 if name in APPROXIMATE or "gibbs" in name or "draws" in name else 1.0


@pytest.mark.parametrize("name", FAMILIES)
@settings(max_examples=15, deadline=None)
@given(SEEDS, st.sampled_from([0, 1, 7]), st.integers(0, 3))
def test_samples_of_any_size(name, seed, size, n_rows):
    rng = np.random.default_rng(seed)
    joint, exact = FAMILIES[name](rng, sizes_of(rng), max(1, n_rows), 1.0)
    joint = joint.rows(np.arange(n_rows))
    drawn = joint.sample(size, seed)
    assert drawn.shape == (size, n_rows, joint.space.n_labels)
    np.testing.assert_array_equal(drawn, joint.sample(size, seed))
    for vectors in drawn:
        assert all(exact.rows[r][tuple(y)] > 0 for r, y in enumerate(vectors.tolist()))


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("known", [{}, {0: 1}, {1: 2, 2: 0}])
def test_frequencies_of_samples(name, known):
    joint, exact = FAMILIES[name](np.random.default_rng(5), (2, 3, 2), 2, 0.7)
    joint, exact = (
        joint.given(known),
        exact.where(lambda r, y: all(y[i] == known[i] for i in known)),
    )
    if name.startswith("lds, "):  # draws are relative to the vectors it looks at
        rows = [dict.fromkeys(row) for row in exact.rows]
        for r, y in itertools.product(range(2), exact.rows[0]):
            rows[r][y] = float(np.exp(joint.log_prob_codes(np.array([y] * 2))[r]))
        exact.rows = rows
    drawn = joint.sample_codes(6000, np.random.default_rng(0))
    assert_frequencies(drawn, exact, slack_of(name))
    if min(drawn.std(axis=0).min(axis=0)) > 0:  # rows are drawn apart
        one, other = drawn[:, 0], drawn[:, 1]
        for i in range(3):
            between = np.corrcoef(one[:, i], other[:, i])[0, 1]
            assert abs(between) < 5 * slack_of(name) / np.sqrt(len(drawn))


def assert_claims(joint, exact, rng):
    """What a joint says is exact agrees with exact arithmetic; its lists are in order."""
    vectors, (n_rows, d) = every_vector(exact.sizes), (joint.n_rows, len(exact.sizes))
    rows = rng.permutation(np.repeat(np.arange(n_rows), 2))
    some = vectors[rng.integers(len(vectors), size=n_rows)]
    partial = np.where(rng.random(some.shape) < 0.5, some, MISSING).astype(np.int32)
    if "log_prob" in joint.exact:
        tiled = [np.tile(y, (n_rows, 1)) for y in vectors]
        each = np.stack([joint.log_prob_codes(codes) for codes in tiled], axis=1)
        np.testing.assert_allclose(np.exp(each).sum(axis=1), 1.0, atol=1e-8)
        expected = np.stack([exact.log_prob(codes) for codes in tiled], axis=1)
        np.testing.assert_allclose(each, expected, **CLOSE)
        own = joint.log_prob_at(rows, some[rows])
        np.testing.assert_allclose(own, exact.log_prob(some)[rows], **CLOSE)
    if "sums" in joint.exact:
        np.testing.assert_allclose(joint.log_prob_codes(partial), exact.log_prob(partial), **CLOSE)
        own = joint.log_prob_at(rows, partial[rows])
        np.testing.assert_allclose(own, exact.log_prob(partial)[rows], **CLOSE)
        assert_tables(joint.marginal_tables(), exact.marginals(), 1e-8)
        i, j = rng.integers(0, d, size=2).tolist()
        pairs = [(i, j), (j, i), (0, d - 1), (i, i)]
        assert_tables([joint.pair_table(i, j)], [exact.pair(i, j)], 1e-8)
        assert_tables(joint.pair_tables(pairs), [exact.pair(*pair) for pair in pairs], 1e-8)
        if isinstance(joint, PairwiseField):
            edges = [exact.pair(i, j) for i, j in joint.edges]
            assert_tables(joint.edge_tables(), edges, 1e-8)
        with contextlib.suppress(NotImplementedError):
            np.testing.assert_allclose(joint.entropy(), exact.entropy(), atol=1e-7)
    for k in (1, 3, len(vectors) + 5):
        codes, log_prob = joint.top_k_codes(k)
        assert codes.dtype == np.int32
        assert (log_prob[:, :-1] >= log_prob[:, 1:] - 1e-9 * np.abs(log_prob[:, :-1])).all()
        assert all(len({tuple(y) for y in row.tolist()}) == len(row) for row in codes)
        own = np.stack([exact.log_prob(codes[:, rank]) for rank in range(codes.shape[1])], axis=1)
        assert np.isfinite(own[:, 0]).all()
        if "mode" in joint.exact:
            np.testing.assert_allclose(own, exact.best(k), **CLOSE)
        if "log_prob" in joint.exact:
            np.testing.assert_allclose(log_prob, own, **CLOSE)
    best = exact.log_prob(joint.mode_codes())
    assert np.isfinite(best).all()
    if "mode" in joint.exact:
        np.testing.assert_allclose(best, exact.best(1)[:, 0], **CLOSE)
    assert np.isfinite([exact.log_prob(codes) for codes in joint.sample_codes(3, rng)]).all()


def assert_exact(joint, exact, rng):
    """All answers agree with exact arithmetic."""
    assert joint.exact.all, joint.how
    assert_claims(joint, exact, rng)


@pytest.mark.filterwarnings("error")  # -inf must not warn anywhere
@pytest.mark.parametrize("name", EXACT)
@settings(max_examples=40, deadline=None)
@given(SEEDS, st.sampled_from([*STYLES, *SCALES]))
def test_every_answer(name, seed, scale):
    """By itself, and given evidence: possible, in two steps, improbable and impossible."""
    rng = np.random.default_rng(seed)
    joint, exact = EXACT[name](rng, sizes_of(rng), 2, scale)
    if not joint.exact.all:  # belief propagation on a tree says so where scores are far from zero
        assert scale == "zeros" or scale > 1e3
        assert_claims(joint, exact, rng)
        return
    assert_exact(joint, exact, rng)
    codes = joint.sample_codes(1, rng)[0]
    first, second = (
        np.where(rng.random(codes.shape) < 0.4, codes, MISSING).astype(np.int32) for _ in range(2)
    )
    known = joint.given_codes(first)
    assert_exact(known, exact.given(first), rng)
    both = np.where(first == MISSING, second, first)
    assert_exact(known.given_codes(second), exact.given(both), rng)
    if type(joint) in (Tree, Independent):  # tables that pass the checks of a user's tables
        parents = (known.parents,) if type(joint) is Tree else ()
        type(joint)(joint.space, *parents, known.log_tables)
    if scale in STYLES or name not in PLAIN_LOGS:
        evidence = possible_evidence(joint, exact, rng)
        assert_exact(joint.given_codes(evidence), exact.given(evidence), rng)


CLAIMS = {name: {"sums", "log_prob"} for name in PARTLY} | {
    "chain, sums of draws": {"mode", "log_prob"},
    "field, gibbs on a tree": {"mode"},
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", PARTLY)
@settings(max_examples=40, deadline=None)
@given(SEEDS, st.sampled_from(STYLES))
@example(18211, "zeros")  # evidence that no vector of a sampled tree agrees with
def test_what_is_said_to_be_exact_is(name, seed, scale):
    """By itself, and given evidence; what is not exact is in order, and possible."""
    rng = np.random.default_rng(seed)
    joint, exact = PARTLY[name](rng, sizes_of(rng, 5), 2, scale)
    assert joint.exact >= CLAIMS[name]
    assert_claims(joint, exact, rng)
    evidence = possible_evidence(joint, exact, rng)
    known = joint.given_codes(evidence)
    assert_claims(known, exact.given(evidence), rng)
    given = evidence != MISSING
    np.testing.assert_array_equal(known.mode_codes()[given], evidence[given])


@pytest.mark.parametrize("name", EXACT)
@settings(max_examples=10, deadline=None)
@given(SEEDS, st.sampled_from([1.0, "ties"]))
def test_rows_answer_as_in_the_batch_and_longer_lists_begin_with_the_shorter(name, seed, scale):
    rng = np.random.default_rng(seed)
    joint, _ = EXACT[name](rng, sizes_of(rng), 3, scale)
    index = rng.integers(0, 3, size=4)
    part = joint.rows(index)
    np.testing.assert_array_equal(part.mode_codes(), joint.mode_codes()[index])
    whole = [table[index] for table in joint.marginal_tables()]
    assert_tables(part.marginal_tables(), whole, 1e-12)
    long_codes, long_log_prob = joint.top_k_codes(6)
    codes, log_prob = joint.top_k_codes(3)
    np.testing.assert_allclose(log_prob, long_log_prob[:, :3], atol=1e-12)
    np.testing.assert_array_equal(codes, long_codes[:, :3])


@pytest.mark.parametrize("name", [*PARTLY, *APPROXIMATE])
def test_random_streams_belong_to_rows(name):
    """Where answers are drawn: the same again, alone and in the batch."""
    joint, _ = FAMILIES[name](np.random.default_rng(10), (2, 3, 2), 6, 1.0)
    assert joint.exact == CLAIMS.get(name, set())
    for index in (slice(1, 4), [5, 0], np.array([True, False] * 3)):
        part = joint[index]
        np.testing.assert_array_equal(part.mode(), joint.mode()[index])
        for own, whole in zip(part.marginal_tables(), joint.marginal_tables(), strict=True):
            np.testing.assert_array_equal(own, whole[index])
        np.testing.assert_array_equal(part.top_k(2).labels, joint.top_k(2).labels[index])


@pytest.mark.parametrize("name", FAMILIES)
def test_no_rows_and_copies(name):
    joint, _ = FAMILIES[name](np.random.default_rng(2), (2, 3, 2), 2, 1.0)
    if name != "written out":  # which is of a function
        copy = pickle.loads(pickle.dumps(joint))
        for own, other in zip(joint.marginal_tables(), copy.marginal_tables(), strict=True):
            np.testing.assert_array_equal(own, other)
    empty, codes = joint[:0], np.empty((0, 3), dtype=np.int32)
    assert len(empty) == empty.given_codes(codes).n_rows == 0
    assert [table.shape for table in empty.marginal_tables()] == [(0, 2), (0, 3), (0, 2)]
    assert empty.mode().shape == (0, 3)
    assert empty.top_k(2).labels.shape == (0, 2, 3)
    assert empty.sample(2, 0).shape == (2, 0, 3)
    assert empty.log_prob_codes(codes).shape == (0,)
    with contextlib.suppress(NotImplementedError):
        assert empty.entropy().shape == (0,)


def test_a_row_of_large_scores_among_others():
    """In chunks of a few rows, of which one has scores far from zero."""
    rng, others = np.random.default_rng(8), np.delete(np.arange(12), 5)
    while True:
        whole, _ = field_of(engine="junction_tree")(rng, (2, 3, 2, 2), 12, 1.0)
        if len(whole.edges) > 3:
            break
    unary = [table.copy() for table in whole.unary]
    unary[0][5] *= 1e20
    pairs = whole.edges, whole.tables
    options = {"engine": "junction_tree", "memory": 700}
    scaled = PairwiseField(whole.space, unary, *pairs, **options)
    assert_tables([t.sum(axis=1) for t in scaled.marginal_tables()], [np.ones(12)] * 4, 1e-12)
    vector = np.tile([1, 2, 0, 1], (12, 1)).astype(np.int32)
    for found, expected in (
        *zip(scaled.marginal_tables(), whole.marginal_tables(), strict=True),
        (scaled.log_prob_codes(vector), whole.log_prob_codes(vector)),
        (scaled.entropy(), whole.entropy()),
    ):
        np.testing.assert_allclose(found[others], expected[others], atol=1e-12)


@pytest.mark.parametrize("name", APPROXIMATE)
@pytest.mark.parametrize("scale", SCALES)
def test_approximations_of_scores_of_any_size_are_distributions(name, scale):
    joint, _ = APPROXIMATE[name](np.random.default_rng(3), (2, 3, 2), 3, scale)
    evidence = np.array([[0, MISSING, MISSING], [MISSING, 2, MISSING], [MISSING, 1, 0]], np.int32)
    known, told = joint.given_codes(evidence), evidence != MISSING
    for one in (joint, known):
        for table in one.marginal_tables():
            np.testing.assert_allclose(table.sum(axis=1), 1.0, atol=1e-6)
            assert (table >= 0).all()
        assert np.isfinite(one.log_prob_codes(one.mode_codes())).all()
        assert not np.isnan(one.log_prob_codes(np.zeros((3, 3), dtype=np.int32))).any()
    for codes in (known.mode_codes(), *known.sample_codes(20, np.random.default_rng(0))):
        np.testing.assert_array_equal(codes[told], evidence[told])
    tables = known.marginal_tables()
    np.testing.assert_allclose([tables[i][r, evidence[r, i]] for r, i in np.argwhere(told)], 1.0)
    other = np.where(told, (evidence + 1) % [2, 3, 2], 0).astype(np.int32)
    assert np.isneginf(known.log_prob_codes(other)).all()
    with pytest.raises(ValueError, match="probability zero in 3 of 3 rows"):
        known.given_codes(other)
