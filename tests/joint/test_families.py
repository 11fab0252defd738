"""What every family must do, by one table of families and exact arithmetic."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colabel.joint import Independent, PairwiseField, Tree
from colabel.labels import MISSING
from tests.joint.families import APPROXIMATE, EXACT, FAMILIES
from tests.joint.oracle import make_space, possible_evidence

SCALES = [1.0, 1e3, 1e7, 1e11, 1e14, 1e16, 1e18, 1e24, 1e30]
STYLES = [1.0, "ties", "zeros"]
# without claims about evidence of probability e^-1e20: their sums of logarithms are doubles
PLAIN_LOGS = {*(name for name in EXACT if "chain" in name), "mixture", "reweighted", "repeated"}


def sizes_of(rng, most=4):
    return tuple(rng.integers(1, 4, size=rng.integers(1, most + 1)).tolist())


@pytest.mark.parametrize("name", FAMILIES)
@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0, 1, 7]), st.integers(0, 3))
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
def test_frequencies_of_samples(name):
    rng = np.random.default_rng(5)
    joint, exact = FAMILIES[name](rng, (2, 3, 2), 2, 0.7)
    size = 6000
    drawn = joint.sample_codes(size, np.random.default_rng(0))
    slack = 3.0 if name in APPROXIMATE else 1.0  # successive sweeps are not independent
    for r, row in enumerate(exact.rows):
        if name == "lds, search":  # draws are relative to the vectors it looks at
            row = {y: float(np.exp(joint.log_prob_codes(np.array([y] * 2))[r])) for y in row}
        for y, p in row.items():
            count = (drawn[:, r] == y).all(axis=1).sum()
            assert abs(count - size * p) <= 5 * slack * math.sqrt(size * p * (1 - p)) + 1


def assert_exact(joint, exact, rng):
    """All answers agree with exact arithmetic; probabilities sum to one."""
    vectors = np.array(list(itertools.product(*map(range, exact.sizes))), dtype=np.int32)
    n_rows, d = joint.n_rows, len(exact.sizes)
    close = {"rtol": 1e-8, "atol": 1e-8}
    each = np.stack([joint.log_prob_codes(np.tile(y, (n_rows, 1))) for y in vectors], axis=1)
    np.testing.assert_allclose(np.exp(each).sum(axis=1), 1.0, atol=1e-8)
    expected = np.stack([exact.log_prob(np.tile(y, (n_rows, 1))) for y in vectors], axis=1)
    np.testing.assert_allclose(each, expected, **close)
    some = vectors[rng.integers(len(vectors), size=n_rows)]
    some = np.where(rng.random(some.shape) < 0.5, some, MISSING).astype(np.int32)
    np.testing.assert_allclose(joint.log_prob_codes(some), exact.log_prob(some), **close)
    rows = rng.permutation(np.repeat(np.arange(n_rows), 2))
    np.testing.assert_allclose(
        joint.log_prob_at(rows, some[rows]), exact.log_prob(some)[rows], **close
    )
    for table, wanted in zip(joint.marginal_tables(), exact.marginals(), strict=True):
        np.testing.assert_allclose(table, wanted, atol=1e-8)
    i, j = rng.integers(0, d, size=2).tolist()
    np.testing.assert_allclose(joint.pair_table(i, j), exact.pair(i, j), atol=1e-8)
    pairs = [(j, i), (0, d - 1), (i, i)]
    for pair, table in zip(pairs, joint.pair_tables(pairs), strict=True):
        np.testing.assert_allclose(table, exact.pair(*pair), atol=1e-8)
    for k in (1, 3, len(vectors) + 5):
        codes, log_prob = joint.top_k_codes(k)
        np.testing.assert_allclose(log_prob, exact.best(k), **close)
        own = np.stack([exact.log_prob(codes[:, rank]) for rank in range(codes.shape[1])], axis=1)
        np.testing.assert_allclose(log_prob, own, **close)
        assert codes.dtype == np.int32
        assert (log_prob[:, :-1] >= log_prob[:, 1:] - 1e-9 * np.abs(log_prob[:, :-1])).all()
        assert all(len({tuple(y) for y in row.tolist()}) == len(row) for row in codes)
    best = exact.log_prob(joint.mode_codes())
    np.testing.assert_allclose(best, exact.best(1)[:, 0], **close)
    assert np.isfinite([exact.log_prob(codes) for codes in joint.sample_codes(3, rng)]).all()
    try:
        entropy = joint.entropy()
    except NotImplementedError:
        return
    np.testing.assert_allclose(entropy, exact.entropy(), atol=1e-7)


@pytest.mark.filterwarnings("error")  # -inf must not warn anywhere
@pytest.mark.parametrize("name", EXACT)
@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([*STYLES, *SCALES]))
def test_every_answer(name, seed, scale):
    """By itself, and given evidence: possible, in two steps, improbable and impossible."""
    rng = np.random.default_rng(seed)
    joint, exact = EXACT[name](rng, sizes_of(rng), 2, scale)
    if not joint.exact.all:  # belief propagation on a tree says so where scores are far from zero
        assert scale == "zeros" or scale > 1e3
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


@pytest.mark.parametrize("name", EXACT)
@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([1.0, "ties"]))
def test_rows_answer_as_in_the_batch_and_longer_lists_begin_with_the_shorter(name, seed, scale):
    rng = np.random.default_rng(seed)
    joint, _ = EXACT[name](rng, sizes_of(rng), 3, scale)
    index = rng.integers(0, 3, size=4)
    part = joint.rows(index)
    np.testing.assert_array_equal(part.mode_codes(), joint.mode_codes()[index])
    for table, whole in zip(part.marginal_tables(), joint.marginal_tables(), strict=True):
        np.testing.assert_allclose(table, whole[index], atol=1e-12)
    long_codes, long_log_prob = joint.top_k_codes(6)
    codes, log_prob = joint.top_k_codes(3)
    np.testing.assert_allclose(log_prob, long_log_prob[:, :3], atol=1e-12)
    np.testing.assert_array_equal(codes, long_codes[:, :3])


def test_a_row_of_large_scores_among_others():
    """In chunks of a few rows, of which one has scores far from zero."""
    rng = np.random.default_rng(8)
    sizes, pairs = (2, 3, 2, 2), [(0, 1), (1, 2), (2, 3), (0, 3)]
    unary = [rng.normal(size=(12, k)) for k in sizes]
    tables = [rng.normal(size=(12, sizes[i], sizes[j])) for i, j in pairs]
    whole = PairwiseField(make_space(sizes), unary, pairs, tables, engine="junction_tree")
    unary[0][5] *= 1e20
    scaled = PairwiseField(
        make_space(sizes), unary, pairs, tables, engine="junction_tree", memory=700
    )
    others = np.delete(np.arange(12), 5)
    for found, expected in zip(scaled.marginal_tables(), whole.marginal_tables(), strict=True):
        np.testing.assert_allclose(found.sum(axis=1), 1.0)
        np.testing.assert_allclose(found[others], expected[others], atol=1e-12)
    vector = np.tile([1, 2, 0, 1], (12, 1)).astype(np.int32)
    found, expected = scaled.log_prob_codes(vector), whole.log_prob_codes(vector)
    np.testing.assert_allclose(found[others], expected[others], atol=1e-12)
    np.testing.assert_allclose(scaled.entropy()[others], whole.entropy()[others], atol=1e-12)


@pytest.mark.parametrize("name", APPROXIMATE)
@pytest.mark.parametrize("scale", SCALES)
def test_approximations_of_scores_of_any_size_are_distributions(name, scale):
    rng = np.random.default_rng(3)
    joint, _ = APPROXIMATE[name](rng, (2, 3, 2), 3, scale)
    evidence = np.array([[0, MISSING, MISSING], [MISSING, 2, MISSING], [MISSING, 1, 0]], np.int32)
    for known in (joint, joint.given_codes(evidence)):
        for table in known.marginal_tables():
            np.testing.assert_allclose(table.sum(axis=1), 1.0, atol=1e-6)
            assert (table >= 0).all()
        assert np.isfinite(known.log_prob_codes(known.mode_codes())).all()
        assert not np.isnan(known.log_prob_codes(np.zeros((3, 3), dtype=np.int32))).any()
