"""Reweighted joints: every answer against enumeration of the reweighted distribution."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colabel.joint import Independent, Mixture, Reweighted, Tree, VectorList
from tests.joint.oracle import Oracle, make_space, random_evidence, random_log_table
from tests.joint.test_against_enumeration import assert_best, assert_same
from tests.joint.test_mixture import Short, mixtures, smooth

pytestmark = pytest.mark.filterwarnings("error")
SETTINGS = settings(max_examples=60, deadline=None)


@st.composite
def reweighted(draw, max_rows=3):
    """A mixture, some of whose vectors have new weights, its oracle and a generator."""
    base, oracle, rng = draw(mixtures(max_rows=max_rows))
    vectors = np.array(sorted(oracle.rows[0]), dtype=np.int32)
    # each row lists some vectors, be they possible in the base or not
    listed = rng.random((base.n_rows, len(vectors))) < draw(st.sampled_from([0.2, 0.6, 1.0]))
    listed[np.arange(base.n_rows), rng.integers(len(vectors), size=base.n_rows)] = True
    weights = np.where(listed, rng.uniform(0.01, 0.6, listed.shape), 0.0)
    with np.errstate(divide="ignore"):
        joint = Reweighted(base, VectorList(base.space, vectors, np.log(weights)))
    rows = []
    for r, row in enumerate(oracle.rows):
        new = {
            y: weights[r, v] if listed[r, v] else row[y]
            for v, y in enumerate(map(tuple, vectors.tolist()))
        }
        total = sum(new.values())
        rows.append({y: p / total for y, p in new.items()})
    return joint, Oracle(oracle.cardinalities, rows), rng


@SETTINGS
@given(reweighted())
def test_every_answer(case):
    joint, oracle, rng = case
    for codes in (random_evidence(rng, joint.n_rows, oracle.cardinalities), joint.mode_codes()):
        np.testing.assert_allclose(
            np.exp(joint.log_prob_codes(codes)), np.exp(oracle.log_prob(codes)), atol=1e-9
        )
        rows = np.repeat(np.arange(joint.n_rows), 2)
        np.testing.assert_allclose(
            joint.log_prob_at(rows, codes[rows]), joint.log_prob_codes(codes)[rows], atol=1e-12
        )
    for found, expected in zip(joint.marginal_tables(), oracle.marginals(), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-9)
    assert_best(joint, oracle, 1)
    assert_best(joint, oracle, 5)


@SETTINGS
@given(reweighted())
def test_every_answer_given_evidence(case):
    joint, oracle, rng = case
    evidence = random_evidence(rng, joint.n_rows, oracle.cardinalities)
    possible = oracle.log_prob(evidence) > -700
    evidence[~possible] = -1
    known, expected = joint.given_codes(evidence), oracle.given(evidence)
    for found, table in zip(known.marginal_tables(), expected.marginals(), strict=True):
        np.testing.assert_allclose(found, table, atol=1e-9)
    assert_best(known, expected, 3)


def trees(n_rows=4, sizes=(2, 3, 2), seed=0):
    rng = np.random.default_rng(seed)
    above = [1, *sizes[:-1]]
    tables = [
        random_log_table(rng, (n_rows, a, k), "smooth") for a, k in zip(above, sizes, strict=True)
    ]
    parents = [-1, *range(len(sizes) - 1)]
    return Tree(make_space(sizes), parents, tables), Oracle.of_tree(sizes, parents, tables), rng


def test_entropy_pairs_and_sums_over_a_tree():
    tree, oracle, rng = trees()
    vectors = np.array(sorted(oracle.rows[0]), dtype=np.int32)[[0, 3, 7]]
    weights = rng.uniform(0.05, 0.3, (4, 3))
    rows = [
        {**row, **{tuple(v): w for v, w in zip(vectors.tolist(), weights[r], strict=True)}}
        for r, row in enumerate(oracle.rows)
    ]
    rows = [{y: p / sum(row.values()) for y, p in row.items()} for row in rows]
    joint = Reweighted(tree, VectorList(tree.space, vectors, np.log(weights)))
    assert_same(joint, Oracle(oracle.cardinalities, rows), rng)


def test_the_same_weights_change_nothing():
    tree, oracle, rng = trees()
    codes, log_prob = tree.top_k_codes(4)
    indptr = np.arange(5) * 4
    listed = VectorList.of_lists(
        tree.space, codes.reshape(-1, 3), indptr, np.arange(16), log_prob.ravel()
    )
    assert_same(Reweighted(tree, listed, log_prob[:, -1]), oracle, rng)


def test_nobody_searches_the_base_where_the_bound_settles_the_mode(monkeypatch):
    tree, _, _ = trees()
    codes, log_prob = tree.top_k_codes(4)
    listed = VectorList.of_lists(
        tree.space, codes.reshape(-1, 3), np.arange(5) * 4, np.arange(16), log_prob.ravel()
    )
    joint = Reweighted(tree, listed, log_prob[:, -1])
    monkeypatch.setattr(Tree, "top_k_codes", None)
    np.testing.assert_array_equal(joint.mode_codes(), codes[:, 0])


def test_a_search_of_the_base_that_is_cut_short_takes_the_proof_back():
    base = smooth(chain=Short)
    joint = Reweighted(base, VectorList(base.space, [[0] * 6], np.full((4, 1), -9.0)))
    assert joint.exact.all
    joint.mode_codes()
    assert joint.exact == {"sums", "log_prob"}
    assert "not proven" in joint.how


def test_other_rows_are_refused():
    tree, _, _ = trees()
    listed = VectorList(tree.space, [[0, 0, 0]], np.zeros((3, 1)))
    with pytest.raises(ValueError, match="both must describe the same"):
        Reweighted(tree, listed)
    listed = VectorList(tree.space, [[0, 0, 0]], np.zeros((4, 1)))
    with pytest.raises(ValueError, match="one log-probability per row"):
        Reweighted(tree, listed, [0.0])


def test_a_base_that_excludes_the_evidence_leaves_the_list():
    space = make_space((2, 2))
    base = Independent(space, [np.log([[0.5, 0.5]]), np.array([[0.0, -np.inf]])])
    joint = Reweighted(
        Mixture([base]), VectorList(space, [[0, 1], [1, 1]], np.log([[0.1, 0.3]]))
    ).given_codes(np.array([[-1, 1]], dtype=np.int32))
    np.testing.assert_allclose(joint.marginals(), [[0.75, 1.0]])
