"""Belief propagation and the searches for the mode, compared with exact answers."""

from __future__ import annotations

import itertools
import math

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colabel.joint import PairwiseField
from colabel.joint.field.approximate import BeliefPropagation
from tests.joint.field.test_pairwise_field import build, dense_field, fields
from tests.joint.oracle import make_space, random_evidence

pytestmark = pytest.mark.filterwarnings("error")
SETTINGS = settings(max_examples=60, deadline=None)
BP = "belief_propagation"


@st.composite
def forests(draw, styles=("smooth", "zeros")):
    """A field on a random forest, possible in every row."""
    sizes, unary, edges, tables, rng = draw(fields(max_labels=7, styles=styles))
    graph = nx.Graph(edges)
    kept = {tuple(sorted(e)) for e in nx.minimum_spanning_edges(graph, data=False)}
    where = [e for e, edge in enumerate(edges) if tuple(sorted(edge)) in kept]
    return sizes, unary, [edges[e] for e in where], [tables[e] for e in where], rng


@SETTINGS
@given(forests())
def test_trees_are_exact(instance):
    joint, oracle, rng = build(instance, engine=BP)
    for table, expected in zip(joint.marginal_tables(), oracle.marginals(), strict=True):
        np.testing.assert_allclose(table, expected, atol=1e-10)
    for (i, j), table in zip(joint.edges, joint.edge_tables(), strict=True):
        np.testing.assert_allclose(table, oracle.pair(i, j), atol=1e-10)
    i, j = rng.integers(0, len(oracle.sizes), size=2)  # also pairs that are not edges
    np.testing.assert_allclose(joint.pair_table(i, j), oracle.pair(i, j), atol=1e-10)
    for known in (0.0, 0.5, 1.0):
        codes = random_evidence(rng, joint.n_rows, oracle.sizes, known)
        np.testing.assert_allclose(
            joint.log_prob_codes(codes), oracle.log_prob(codes), rtol=1e-9, atol=1e-9
        )
    converged = joint.report.converged
    assert converged is None or converged.all()


@SETTINGS
@given(fields(max_labels=6, styles=("smooth",)))
def test_loopy_answers_are_distributions_close_to_the_exact_ones(instance):
    sizes, unary, edges, tables, rng = instance
    weak = [0.2 * table for table in tables]
    joint, oracle, _ = build((sizes, unary, edges, weak, rng), engine=BP)
    for table, expected in zip(joint.marginal_tables(), oracle.marginals(), strict=True):
        np.testing.assert_allclose(table.sum(axis=1), 1.0)
        np.testing.assert_allclose(table, expected, atol=0.05)
    for (i, j), table in zip(joint.edges, joint.edge_tables(), strict=True):
        single = joint.marginal_tables()
        np.testing.assert_allclose(table.sum(axis=2), single[i], atol=1e-4)
        np.testing.assert_allclose(table.sum(axis=1), single[j], atol=1e-4)
    codes = joint.mode_codes()
    np.testing.assert_allclose(joint.log_prob_codes(codes), oracle.log_prob(codes), atol=0.1)


@SETTINGS
@given(fields(max_labels=4, styles=("smooth", "zeros", "ties")), st.sampled_from([BP, "gibbs"]))
def test_a_list_of_all_vectors_holds_them_all(instance, engine):
    options = {"burn_in": 2, "n_sweeps": 4, "n_chains": 1} if engine == "gibbs" else {}
    joint, oracle, _ = build(instance, engine=engine, **options)
    total = math.prod(oracle.sizes)
    codes, log_prob = joint.top_k_codes(total)
    for r, row in enumerate(codes):
        assert {tuple(y) for y in row.tolist()} == set(oracle.rows[r])
    # ratios of probabilities are exact even where the constant is estimated
    shifted = log_prob - log_prob[:, :1]
    expected = oracle.best(total)
    np.testing.assert_allclose(shifted, expected - expected[:, :1], atol=1e-8)


def test_mode_and_lists_of_a_dense_field_are_mostly_right():
    exact = dense_field(12, n_rows=40, scale=0.6)
    loopy = dense_field(12, n_rows=40, scale=0.6, engine=BP)
    best = exact.score_codes(exact.mode_codes())
    assert (loopy.score_codes(loopy.mode_codes()) >= best - 1e-9).mean() >= 0.9
    listed = exact.top_k_codes(5)[1] + exact.log_partition()[:, None]  # scores
    found = loopy.top_k_codes(5)[1] + loopy.log_partition()[:, None]
    right = np.isclose(found, listed, atol=1e-9)
    assert right.mean() >= 0.7
    assert (np.diff(found, axis=1) <= 1e-12).all()


def hidden_mode(n_labels=15, **options):
    """Labels that all shy away from 1, but for one vector, to which each step but the last costs.

    Everything leads away from the ones of every second label: they score only all together.
    """
    edges = list(itertools.combinations(range(n_labels), 2))
    together = np.array([[[0.0, 0.0], [0.0, 3.0]]])
    apart = np.array([[[0.0, 0.0], [0.0, -9.0]]])
    tables = [together if i % 2 == 0 == j % 2 else apart for i, j in edges]
    unary = [np.array([[0.0, -9.0]])] * n_labels
    return PairwiseField(make_space((2,) * n_labels), unary, edges, tables, **options)


def test_the_mode_is_never_worse_than_the_start():
    hidden = (np.arange(15) % 2 == 0).astype(np.int32)[None]
    joint = hidden_mode(engine=BP)
    assert joint.score_codes(hidden) > joint.score_codes(joint.mode_codes())  # or nothing is shown
    told = hidden_mode(engine=BP, start=hidden)
    np.testing.assert_array_equal(told.mode_codes(), hidden)
    np.testing.assert_array_equal(told[[0, 0]].mode_codes(), hidden[[0, 0]])
    # what is known replaces what the start says
    np.testing.assert_array_equal(told.given({"y0": 1}).mode_codes(), hidden)
    assert told.given({"y0": 0}).mode_codes()[0, 0] == 0


def test_the_mode_needs_few_sweeps(monkeypatch):
    swept = []
    run = BeliefPropagation._propagated

    def counted(self, most, maximise, with_pairs):
        found = run(self, most, maximise=maximise, with_pairs=with_pairs)
        swept.append(found[2][:, 1].max())
        return found

    monkeypatch.setattr(BeliefPropagation, "_propagated", counted)
    dense_field(12, n_rows=20, engine=BP, tol=1e-12, max_iter=500).mode_codes()
    assert sum(swept) <= 60


@pytest.mark.parametrize("start", [[[0, 2]], [[0]], [[0.0, 1.0]], [[0, -1]]])
def test_a_start_that_holds_no_codes_is_refused(start):
    unary = [np.zeros((1, 2))] * 2
    with pytest.raises(ValueError, match=r"start has shape .* must hold codes \(1, 2\)"):
        PairwiseField(make_space((2, 2)), unary, [], [], start=start)


def test_convergence_is_reported_per_row():
    rng = np.random.default_rng(1)
    edges = list(itertools.combinations(range(8), 2))
    # the second row is frustrated: every label wants to differ from all the others
    strength = np.array([0.1, 6.0])[:, None, None]
    tables = [-strength * np.eye(2) for _ in edges]
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
    rng = np.random.default_rng(0)
    edges = list(itertools.combinations(range(8), 2))
    unary = [rng.normal(scale=0.3, size=(30, 2)) for _ in range(8)]
    tables = [rng.normal(scale=1.2, size=(30, 2, 2)) for _ in edges]

    def share(damping):
        joint = PairwiseField(
            make_space((2,) * 8), unary, edges, tables, engine=BP, damping=damping
        )
        return joint.report.converged.mean()

    assert share(0.6) > share(0.0)


def test_impossible_evidence_is_noticed():
    differ = np.array([[[-np.inf, 0.0], [0.0, -np.inf]]])
    edges = [(0, 1), (1, 2), (2, 3)]
    unary = [np.zeros((1, 2))] * 4
    joint = PairwiseField(make_space((2,) * 4), unary, edges, [differ] * 3, engine=BP)
    np.testing.assert_allclose(joint.given({"y0": 1}).marginals(), [[1, 0, 1, 0]])
    with pytest.raises(ValueError, match="probability zero"):
        joint.given({"y0": 1, "y3": 1})


def test_entropy_is_refused():
    with pytest.raises(NotImplementedError, match="answered by belief_propagation: average"):
        dense_field(5, engine=BP).entropy()


@pytest.mark.parametrize("engine", [BP, "gibbs"])
def test_threads_and_rows_do_not_change_the_answer(engine):
    options = {"engine": engine, "n_sweeps": 30, "burn_in": 5}
    one = dense_field(7, n_rows=9, n_jobs=1, **options)
    two = dense_field(7, n_rows=9, n_jobs=2, **options)
    part = one[[5, 2]]
    np.testing.assert_array_equal(one.marginals(), two.marginals())
    np.testing.assert_array_equal(one.marginals()[[5, 2]], part.marginals())
    np.testing.assert_array_equal(one.log_partition()[[5, 2]], part.log_partition())
    np.testing.assert_array_equal(one.sample(7, 3), two.sample(7, 3))
    np.testing.assert_array_equal(one.mode(), two.mode())
