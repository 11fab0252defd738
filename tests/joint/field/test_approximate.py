"""Belief propagation, Gibbs sampling and the searches for the mode, against exact answers."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colabel.decide import decide
from colabel.joint import PairwiseField
from colabel.joint.field.approximate import BeliefPropagation
from tests.joint.families import field_of
from tests.joint.field.test_pairwise_field import BP, chain_field, dense_field
from tests.joint.oracle import assert_tables, make_space
from tests.joint.test_families import SEEDS, STYLES, sizes_of

pytestmark = pytest.mark.filterwarnings("error")


@pytest.mark.parametrize(
    ("options", "atol", "of_pairs", "of_mode"),
    [
        ({"engine": BP, "coupling": 0.2}, 0.05, 0.05, 0.1),
        ({"engine": "gibbs", "n_sweeps": 2000, "coupling": 0.4}, 0.04, 0.06, 0.15),
    ],
)
@settings(max_examples=20, deadline=None)
@given(SEEDS)
def test_answers_are_distributions_close_to_the_exact_ones(options, atol, of_pairs, of_mode, seed):
    rng = np.random.default_rng(seed)
    joint, exact = field_of(**options)(rng, sizes_of(rng, 5), 2, 1.0)
    single, pairs = joint.marginal_tables(), joint.edge_tables()
    assert_tables([table.sum(axis=1) for table in single], [np.ones(2)] * len(single), 1e-9)
    assert_tables(single, exact.marginals(), atol)
    for (i, j), table in zip(joint.edges, pairs, strict=True):
        np.testing.assert_allclose(table, exact.pair(i, j), atol=of_pairs)
        if options["engine"] == BP:
            np.testing.assert_allclose(table.sum(axis=2), single[i], atol=1e-4)
            np.testing.assert_allclose(table.sum(axis=1), single[j], atol=1e-4)
    codes = joint.mode_codes()
    np.testing.assert_allclose(joint.log_prob_codes(codes), exact.log_prob(codes), atol=of_mode)


@pytest.mark.parametrize(
    "options", [{"engine": BP}, {"engine": "gibbs", "burn_in": 2, "n_sweeps": 4, "n_chains": 1}]
)
@settings(max_examples=30, deadline=None)
@given(SEEDS, st.sampled_from(STYLES))
def test_a_list_of_all_vectors_holds_them_all(options, seed, style):
    rng = np.random.default_rng(seed)
    joint, exact = field_of(**options)(rng, sizes_of(rng), 2, style)
    total = math.prod(exact.sizes)
    codes, log_prob = joint.top_k_codes(total)
    for r, row in enumerate(codes):
        assert {tuple(y) for y in row.tolist()} == set(exact.rows[r])
    # ratios of probabilities are exact even where the constant is estimated
    expected = exact.best(total)
    np.testing.assert_allclose(log_prob - log_prob[:, :1], expected - expected[:, :1], atol=1e-8)


def test_mode_and_lists_of_a_dense_field_are_mostly_right():
    exact = dense_field(12, n_rows=40, scale=0.6)
    loopy = dense_field(12, n_rows=40, scale=0.6, engine=BP)
    best = exact.log_prob_codes(exact.mode_codes())
    assert (exact.log_prob_codes(loopy.mode_codes()) >= best - 1e-9).mean() >= 0.9
    listed, found = (
        joint.top_k_codes(5)[1] + joint.log_partition()[:, None] for joint in (exact, loopy)
    )  # scores
    assert np.isclose(found, listed, atol=1e-9).mean() >= 0.7
    assert (np.diff(found, axis=1) <= 1e-12).all()


def test_the_mode_is_never_worse_than_the_start():
    """Labels that all shy away from 1, but for one vector, to which each step but the last costs.

    Everything leads away from the ones of every second label: they score only all together.
    """
    edges = list(itertools.combinations(range(15), 2))
    together, apart = (np.array([[[0.0, 0.0], [0.0, score]]]) for score in (3.0, -9.0))
    tables = [together if i % 2 == 0 == j % 2 else apart for i, j in edges]
    parts = make_space((2,) * 15), [np.array([[0.0, -9.0]])] * 15, edges, tables
    hidden = (np.arange(15) % 2 == 0).astype(np.int32)[None]
    joint = PairwiseField(*parts, engine=BP)
    assert joint.score_codes(hidden) > joint.score_codes(joint.mode_codes())  # or nothing is shown
    told = PairwiseField(*parts, engine=BP, start=hidden)
    np.testing.assert_array_equal(told.mode_codes(), hidden)
    np.testing.assert_array_equal(told[[0, 0]].mode_codes(), hidden[[0, 0]])
    # what is known replaces what the start says
    np.testing.assert_array_equal(told.given({"y0": 1}).mode_codes(), hidden)
    assert told.given({"y0": 0}).mode_codes()[0, 0] == 0


def test_the_mode_needs_few_sweeps(monkeypatch):
    swept, propagated = [], BeliefPropagation.propagated

    def counted(self, *args, **options):
        found = propagated(self, *args, **options)
        swept.append(found[2][:, 1].max())
        return found

    monkeypatch.setattr(BeliefPropagation, "propagated", counted)
    dense_field(12, n_rows=20, engine=BP, tol=1e-12, max_iter=500).mode_codes()
    assert 0 < sum(swept) <= 60


def test_convergence_is_reported_per_row():
    rng, edges = np.random.default_rng(1), list(itertools.combinations(range(8), 2))
    # the second row is frustrated: every label wants to differ from all the others
    tables = [-np.array([0.1, 6.0])[:, None, None] * np.eye(2) for _ in edges]
    unary = [rng.normal(scale=0.1, size=(2, 2)) for _ in range(8)]
    options = {"engine": BP, "damping": 0.0, "max_iter": 30}
    joint = PairwiseField(make_space((2,) * 8), unary, edges, tables, **options)
    assert joint.report.converged.tolist() == [True, False]
    part = joint.report.components[0]
    _, iterations, residual = part.ended
    assert iterations[1] == 30
    assert residual[1] > 1e-6 >= residual[0]
    assert "1 of 2 rows converged" in part.to_text()
    assert "log Z is Bethe's estimate" in part.to_text()


def test_damping_can_make_it_converge():
    damped, plain = (
        dense_field(8, n_rows=30, scale=2.0, engine=BP, damping=damping).report.converged.mean()
        for damping in (0.6, 0.0)
    )
    assert damped > plain


def test_chains_that_disagree_are_reported():
    joint = dense_field(6, engine="gibbs")
    assert joint.report.converged.all()
    assert "R-hat" in joint.report.to_text()
    # two deep valleys that no single change connects: chains stay where they fell
    edges, unary = [(i, i + 1) for i in range(5)], [np.zeros((3, 2))] * 6
    options = {"engine": "gibbs", "n_chains": 8}
    stuck = PairwiseField(
        make_space((2,) * 6), unary, edges, [40.0 * np.eye(2)[None]] * 5, **options
    )
    assert not stuck.report.converged.all()


def test_f1_and_entropy_of_a_tree_need_no_draws(monkeypatch):
    exact, joint = (chain_field(8, n_rows=30, engine=engine) for engine in ("auto", BP))
    monkeypatch.setattr(PairwiseField, "sample_codes", None)  # sums are exact here
    for loss in ("hamming", "f1", "jaccard"):
        np.testing.assert_array_equal(decide(joint, loss), decide(exact, loss))
    np.testing.assert_allclose(joint.entropy(), exact.entropy(), atol=1e-9)
    with pytest.raises(NotImplementedError, match="answered by belief_propagation: average"):
        dense_field(5, engine=BP).entropy()
