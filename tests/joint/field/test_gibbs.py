"""Gibbs sampling of a pairwise field, compared with exact answers within the noise."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from colabel.joint import PairwiseField
from tests.joint.field.test_pairwise_field import build, dense_field, fields
from tests.joint.oracle import make_space

pytestmark = pytest.mark.filterwarnings("error")


@settings(max_examples=20, deadline=None)
@given(fields(max_labels=5, styles=("smooth",)))
def test_estimates_are_close(instance):
    sizes, unary, edges, tables, rng = instance
    mild = [0.4 * table for table in tables]
    options = {"engine": "gibbs", "n_sweeps": 2000, "n_chains": 4}
    joint, oracle, _ = build((sizes, unary, edges, mild, rng), **options)
    for table, expected in zip(joint.marginal_tables(), oracle.marginals(), strict=True):
        np.testing.assert_allclose(table.sum(axis=1), 1.0)
        np.testing.assert_allclose(table, expected, atol=0.04)
    for (i, j), table in zip(joint.edges, joint.edge_tables(), strict=True):
        np.testing.assert_allclose(table, oracle.pair(i, j), atol=0.06)
    codes = joint.mode_codes()
    np.testing.assert_allclose(joint.log_prob_codes(codes), oracle.log_prob(codes), atol=0.15)


def test_samples_follow_the_field():
    exact = dense_field(6, scale=0.5)
    joint = dense_field(6, scale=0.5, engine="gibbs")
    drawn = joint.sample_codes(20_000, np.random.default_rng(0))
    np.testing.assert_allclose((drawn == 1).mean(axis=0), exact.marginals(), atol=0.03)
    together = (drawn[..., 1] & drawn[..., 4]).mean(axis=0)
    np.testing.assert_allclose(together, exact.pair_table(1, 4)[:, 1, 1], atol=0.03)
    np.testing.assert_array_equal(joint.sample(3, 7), joint.sample(3, 7))


def test_known_labels_never_change():
    joint = dense_field(6, engine="gibbs", n_sweeps=50)
    evidence = np.array([[1, -1, -1, -1, -1, 0], [-1, 0, -1, -1, -1, -1]], dtype=np.int32)
    given_some = joint.given_codes(evidence)
    drawn = given_some.sample_codes(40, np.random.default_rng(1))
    known = evidence != -1
    assert (drawn[:, known] == evidence[known]).all()
    np.testing.assert_allclose(given_some.marginals()[known], evidence[known], atol=1e-300)


def test_chains_that_disagree_are_reported():
    joint = dense_field(6, engine="gibbs")
    assert joint.report.converged.all()
    assert "R-hat" in joint.report.to_text()
    # two deep valleys that no single change connects: chains stay where they fell
    agree = 40.0 * np.eye(2)[None]
    edges = [(i, i + 1) for i in range(5)]
    unary = [np.zeros((3, 2))] * 6
    options = {"engine": "gibbs", "n_chains": 8}
    stuck = PairwiseField(make_space((2,) * 6), unary, edges, [agree] * 5, **options)
    assert not stuck.report.converged.all()
