"""Every answer of the exact families, compared with enumeration of all the label vectors."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colabel.joint import Independent, Tree, VectorList
from colabel.joint.vectors import WrittenOut
from tests.joint.oracle import (
    Oracle,
    instances,
    make_space,
    possible_evidence,
    random_evidence,
    random_log_table,
)

pytestmark = pytest.mark.filterwarnings("error")  # -inf must not warn anywhere
FAMILIES = st.sampled_from([Tree, Independent, VectorList, WrittenOut])
SETTINGS = settings(max_examples=120, deadline=None)


def build(family, instance):
    """The joint of a random instance, its oracle and its generator."""
    cardinalities, parents, tables, rng = instance
    space = make_space(cardinalities)
    if family is Tree:
        return Tree(space, parents, tables), Oracle.of_tree(cardinalities, parents, tables), rng
    if family is VectorList:
        oracle = Oracle.of_tree(cardinalities, parents, tables)
        return lists_of(space, oracle, rng), oracle, rng
    if family is WrittenOut:
        oracle = Oracle.of_tree(cardinalities, parents, tables)
        return written_out(space, oracle), oracle, rng
    singles = [table[:, 0, :] for table in tables]
    return Independent(space, singles), Oracle.of_independent(cardinalities, singles), rng


def lists_of(space, oracle, rng):
    """Lists of each row's own, in any order, some vectors named twice, weights up to a constant."""
    pool = np.array(sorted(oracle.rows[0]), dtype=np.int32)
    pool = np.concatenate([pool, pool[: len(pool) // 2]])  # with equal vectors in it
    indices, log_weights, indptr = [], [], [0]
    for row in oracle.rows:
        for position in rng.permutation(len(oracle.rows[0])).tolist():
            p = row[tuple(pool[position].tolist())]
            if p and rng.random() < 0.3:
                indices += [position, position]
                log_weights += [math.log(0.25 * p) + 7.0, math.log(0.75 * p) + 7.0]
            elif p:
                indices.append(position)
                log_weights.append(math.log(p) + 7.0)
        indptr.append(len(indices))
    return VectorList.of_lists(space, pool, indptr, indices, log_weights)


def written_out(space, oracle):
    """Scores of all vectors, up to a constant."""
    with np.errstate(divide="ignore"):
        scores = np.log([[row[y] for y in sorted(row)] for row in oracle.rows]) + 7.0
    return WrittenOut(space, lambda rows: scores[rows], len(scores))


def assert_best(joint, oracle, k):
    """The k best vectors: right scores, scores that belong to the vectors, all different."""
    codes, log_prob = joint.top_k_codes(k)
    expected = oracle.best(k)
    np.testing.assert_allclose(log_prob, expected, rtol=1e-9, atol=1e-9)
    assert codes.shape == (*expected.shape, len(joint.space.names))
    assert codes.dtype == np.int32
    assert (log_prob[:, :-1] >= log_prob[:, 1:]).all()
    for rank in range(codes.shape[1]):
        own = oracle.log_prob(codes[:, rank])
        np.testing.assert_allclose(log_prob[:, rank], own, rtol=1e-9, atol=1e-9)
    for row in codes:
        assert len({tuple(y) for y in row.tolist()}) == len(row)


def assert_same(joint, oracle, rng):
    """All the answers of a joint agree with the oracle."""
    n_vectors = math.prod(oracle.cardinalities)
    n_rows, d = len(oracle.rows), len(oracle.cardinalities)
    best = oracle.log_prob(joint.mode_codes())
    np.testing.assert_allclose(best, oracle.best(1)[:, 0], rtol=1e-9, atol=1e-9)
    for k in {1, 2, 3, 7, n_vectors, n_vectors + 5}:
        assert_best(joint, oracle, k)
    for table, expected in zip(joint.marginal_tables(), oracle.marginals(), strict=True):
        np.testing.assert_allclose(table, expected, atol=1e-12)
    i, j = rng.integers(0, d, size=2)
    np.testing.assert_allclose(joint.pair_table(i, j), oracle.pair(i, j), atol=1e-12)
    pairs = [(j, i), (0, d - 1), (i, i)]
    for pair, table in zip(pairs, joint.pair_tables(pairs), strict=True):
        np.testing.assert_allclose(table, oracle.pair(*pair), atol=1e-12)
    np.testing.assert_allclose(joint.entropy(), oracle.entropy(), atol=1e-9)
    for known in (0.0, 0.5, 1.0):
        codes = random_evidence(rng, n_rows, oracle.cardinalities, known)
        np.testing.assert_allclose(
            joint.log_prob_codes(codes), oracle.log_prob(codes), rtol=1e-9, atol=1e-9
        )
        rows = rng.permutation(np.repeat(np.arange(n_rows), 2))
        np.testing.assert_allclose(
            joint.log_prob_at(rows, codes[rows]), oracle.log_prob(codes)[rows], rtol=1e-9, atol=1e-9
        )
    drawn = joint.sample_codes(5, rng)
    assert drawn.shape == (5, n_rows, d)
    assert np.isfinite([oracle.log_prob(codes) for codes in drawn]).all()


@SETTINGS
@given(FAMILIES, instances())
def test_every_answer(family, instance):
    joint, oracle, rng = build(family, instance)
    assert_same(joint, oracle, rng)


@SETTINGS
@given(FAMILIES, instances(max_labels=4))
def test_every_answer_given_evidence(family, instance):
    joint, oracle, rng = build(family, instance)
    evidence = possible_evidence(joint, oracle, rng)
    conditioned = joint.given_codes(evidence)
    assert type(conditioned) is family
    assert_same(conditioned, oracle.given(evidence), rng)
    # tables made by conditioning must pass the checks that a user's tables pass
    if family is Tree:
        Tree(joint.space, conditioned.parents, conditioned.log_tables)
    elif family is Independent:
        Independent(joint.space, conditioned.log_tables)


@SETTINGS
@given(FAMILIES, instances(max_labels=4))
def test_conditioning_in_two_steps_is_conditioning_once(family, instance):
    joint, oracle, rng = build(family, instance)
    # evidence that is possible: part of a vector drawn from the joint itself
    codes = joint.sample_codes(1, rng)[0]
    first = np.where(rng.random(codes.shape) < 0.4, codes, -1).astype(np.int32)
    second = np.where(rng.random(codes.shape) < 0.4, codes, -1).astype(np.int32)
    both = np.where(first == -1, second, first)
    assert_same(joint.given_codes(first).given_codes(second), oracle.given(both), rng)


def test_many_rows_are_taken_some_at_a_time():
    rng = np.random.default_rng(0)
    tables = [random_log_table(rng, (700, a, 4), "ties") for a in (1, 4, 4, 4, 4)]
    joint = Tree(make_space((4,) * 5), [-1, 0, 0, 1, 1], tables)
    whole, part = joint.top_k_codes(300), joint[600:].top_k_codes(300)
    np.testing.assert_array_equal(whole[0][600:], part[0])
    np.testing.assert_array_equal(whole[1][600:], part[1])


@SETTINGS
@given(FAMILIES, instances())
def test_rows_answer_as_in_the_batch(family, instance):
    joint, _, rng = build(family, instance)
    index = rng.integers(0, joint.n_rows, size=3)
    part = joint.rows(index)
    assert part.n_rows == 3
    np.testing.assert_array_equal(part.mode_codes(), joint.mode_codes()[index])
    for table, whole in zip(part.marginal_tables(), joint.marginal_tables(), strict=True):
        np.testing.assert_array_equal(table, whole[index])


@SETTINGS
@given(FAMILIES, instances())
def test_longer_lists_begin_with_the_shorter(family, instance):
    joint, _, _ = build(family, instance)
    long_codes, long_log_prob = joint.top_k_codes(6)  # ties included: exactly equal
    codes, log_prob = joint.top_k_codes(3)
    np.testing.assert_array_equal(codes, long_codes[:, :3])
    np.testing.assert_array_equal(log_prob, long_log_prob[:, :3])
    np.testing.assert_array_equal(joint.mode_codes(), long_codes[:, 0])
