"""Elimination orders, and the junction tree against pyAgrum on graphs of 30 labels."""

from __future__ import annotations

import math

import networkx as nx
import numpy as np
import pytest

from colabel.joint import PairwiseField
from colabel.joint.elimination import eliminate, eliminate_listed
from colabel.joint.field.engine import FieldOptions, JunctionTree
from colabel.joint.field.tables import FieldTables
from tests.joint.oracle import assert_tables, make_space


def field_on(graph, rng, sizes=None, n_rows=2):
    sizes = sizes or (2,) * len(graph)
    edges = tuple(sorted((min(e), max(e)) for e in graph.edges))
    unary = tuple(rng.normal(size=(n_rows, k)) for k in sizes)
    tables = tuple(rng.normal(size=(n_rows, sizes[i], sizes[j])) for i, j in edges)
    return FieldTables(unary, edges, tables)


def eliminated(field, most):
    return eliminate(field.cardinalities, field.edges, most)


def joint_of(field):
    return PairwiseField(make_space(field.cardinalities), field.unary, field.edges, field.tables)


@pytest.mark.parametrize(
    ("graph", "width"),
    [
        (nx.path_graph(9), 1),
        (nx.star_graph(8), 1),
        (nx.cycle_graph(9), 2),
        (nx.convert_node_labels_to_integers(nx.grid_2d_graph(4, 4)), 4),
        (nx.complete_graph(6), 5),
    ],
)
def test_width_of_known_graphs(graph, width, rng):
    found = eliminated(field_on(graph, rng), 10**6)
    assert found.width == width
    # every label sends its message to a table that holds its whole scope
    for scope in found.scopes:
        if scope:
            assert set(scope[1:]) <= set(found.scopes[scope[0]])


def test_the_budget_ends_the_search(rng):
    field = field_on(nx.complete_graph(10), rng)
    entries = sum(2 ** (k + 1) for k in range(10))
    assert eliminated(field, entries).n_entries == entries
    assert eliminated(field, entries - 1) is None


def test_labels_of_one_value_do_not_make_too_many_axes(rng):
    field = field_on(nx.complete_graph(70), rng, sizes=(1,) * 70, n_rows=1)
    assert eliminated(field, 10**6) is None
    joint = joint_of(field)
    assert joint.engine == "enumeration"
    np.testing.assert_array_equal(joint.mode_codes(), np.zeros((1, 70)))
    np.testing.assert_allclose(joint.pair_table(3, 60), 1.0)


def agrum_answers(field, row, codes):
    """Marginals, pair marginals of edges, log P(codes) of a row, by pyAgrum."""
    gum = pytest.importorskip(
        "pyagrum", reason="pyAgrum is not installed: pip install pyagrum compares with it"
    )
    network = gum.MarkovRandomField()
    for i, size in enumerate(field.cardinalities):
        network.add(gum.RangeVariable(f"y{i}", "", 0, size - 1))

    def add(labels, weights):
        factor = gum.Tensor()
        for i in labels:
            factor.add(network.variable(f"y{i}"))
        factor[:] = np.ascontiguousarray(np.exp(weights).T)  # its first label changes fastest
        network.addFactor(factor)

    for i, unary in enumerate(field.unary):
        add([i], unary[row])
    for edge, table in zip(field.edges, field.tables, strict=True):
        add(edge, table[row])
    engine = gum.ShaferShenoyMRFInference(network)
    for i, j in field.edges:
        engine.addJointTarget({f"y{i}", f"y{j}"})
    engine.makeInference()
    single = [np.array(engine.posterior(f"y{i}").tolist()) for i in range(len(field.unary))]
    pairs = []
    for i, j in field.edges:
        table = engine.jointPosterior({f"y{i}", f"y{j}"})
        values = np.array(table.tolist())  # the last name is the first axis
        pairs.append(values.T if table.names == (f"y{i}", f"y{j}") else values)
    known = gum.ShaferShenoyMRFInference(network)
    known.setEvidence({f"y{i}": int(v) for i, v in enumerate(codes)})
    known.makeInference()
    return single, pairs, math.log(known.evidenceProbability())


@pytest.mark.parametrize("kind", ["tree", "sparse", "grid", "multi-valued"])
def test_against_pyagrum_on_thirty_labels(kind, rng, seed):
    graph = {
        "tree": nx.from_prufer_sequence(list(rng.integers(0, 30, size=28))),
        "sparse": nx.gnm_random_graph(30, 45, seed=seed),
        "grid": nx.convert_node_labels_to_integers(nx.grid_2d_graph(5, 6)),
        "multi-valued": nx.gnm_random_graph(30, 38, seed=seed + 1),
    }[kind]
    sizes = tuple(rng.integers(2, 5, size=30)) if kind == "multi-valued" else (2,) * 30
    field = field_on(graph, rng, tuple(int(k) for k in sizes))
    joint = joint_of(field)
    assert joint.exact.all
    codes = joint.mode_codes()
    log_prob = joint.log_prob_codes(codes)
    for row in range(2):
        single, pairs, expected = agrum_answers(field, row, codes[row])
        assert log_prob[row] == pytest.approx(expected, rel=1e-8)
        assert_tables([table[row] for table in joint.marginal_tables()], single, 1e-10)
        assert_tables([table[row] for table in joint.edge_tables()], pairs, 1e-10)


@pytest.mark.parametrize("seed", range(30))
def test_listed_states_give_what_whole_tables_give(seed):
    """Pairs of values that are impossible in every row: all answers of both eliminations agree."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 4, size=rng.integers(1, 8))
    d = len(sizes)
    edges = tuple((i, j) for i in range(d) for j in range(i + 1, d) if rng.random() < 0.5)

    def scores(n_rows, *shape):
        zeros = np.where(rng.random(shape) < rng.choice([0.0, 0.2, 0.4]), -np.inf, 0.0)
        return rng.normal(size=(n_rows, *shape)) + zeros

    unary = tuple(rng.normal(size=(3, k)) for k in sizes)
    tables = tuple(scores(rng.choice([1, 3]), sizes[i], sizes[j]) for i, j in edges)
    field = FieldTables(unary, edges, tables)
    orders = (
        eliminated(field, 10**6),
        eliminate_listed(field.cardinalities, edges, field.possible, 10**6),
    )
    assert orders[1].n_entries <= orders[0].n_entries
    whole, listed = (JunctionTree(field, FieldOptions(), order) for order in orders)
    log_partition = whole.sums().log_partition
    np.testing.assert_allclose(listed.sums().log_partition, log_partition)
    if np.isneginf(log_partition).any():
        return
    expected, found = (
        [*tree.sums().marginals, *tree.edge_tables(), tree.entropy()] for tree in (whole, listed)
    )
    assert_tables(found, expected, 1e-9)
    for k in (1, 2, 7):
        (expected, score), (codes, found) = whole.k_best(k), listed.k_best(k)
        np.testing.assert_allclose(found, score)
        np.testing.assert_array_equal(codes[score > -np.inf], expected[score > -np.inf])
        assert all(len(np.unique(row, axis=0)) == len(row) for row in codes)
    drawn = listed.sample(1000, rng)
    assert np.isfinite(field.score(drawn)).all()
    share = [(drawn[:, :, i, None] == np.arange(k)).mean(axis=0) for i, k in enumerate(sizes)]
    assert_tables(share, whole.sums().marginals, 0.08)


def test_too_many_states_are_not_listed(rng):
    field = field_on(nx.complete_graph(8), rng)
    assert eliminate_listed(field.cardinalities, field.edges, field.possible, 100) is None
