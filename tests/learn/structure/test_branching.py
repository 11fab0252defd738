"""maximum_branching: against enumeration, against networkx, and how much work it does."""

from __future__ import annotations

import itertools

import networkx as nx
import numpy as np
import pytest

from colabel.learn.structure.screening import maximum_branching


def total(parents, weights, root_weights) -> float:
    return sum(
        root_weights[i] if parent < 0 else weights[parent, i] for i, parent in enumerate(parents)
    )


def is_forest(parents) -> bool:
    for start in range(len(parents)):
        node, steps = start, 0
        while node >= 0:
            node, steps = parents[node], steps + 1
            if steps > len(parents):
                return False
    return True


def forests(d: int) -> list[tuple[int, ...]]:
    choices = [[p for p in range(-1, d) if p != i] for i in range(d)]
    return [parents for parents in itertools.product(*choices) if is_forest(parents)]


def by_networkx(weights, root_weights) -> float:
    d = len(weights)
    graph = nx.DiGraph()
    graph.add_nodes_from(range(d))
    for i in range(d):
        if np.isfinite(root_weights[i]):
            graph.add_edge("root", i, weight=float(root_weights[i]))
        for j in range(d):
            if i != j and np.isfinite(weights[j, i]):
                graph.add_edge(j, i, weight=float(weights[j, i]))
    tree = nx.maximum_spanning_arborescence(graph)
    return sum(data["weight"] for _, _, data in tree.edges(data=True))


def nested_cycles(d: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes 0 and 1 form a cycle, which forms a cycle with 2, which forms one with 3, …."""
    weights = np.full((d, d), -1e6)
    for i in range(1, d):
        weights[i - 1, i] = 1000.0
        weights[i, 0] = 1000.0 - i
    return weights, np.zeros(d)


def check_optimal(weights, root_weights) -> None:
    before = weights.copy(), root_weights.copy()
    parents = maximum_branching(weights, root_weights)
    assert parents.dtype == np.intp
    assert is_forest(parents)
    expected = by_networkx(weights, root_weights)
    assert total(parents, weights, root_weights) == pytest.approx(expected, rel=1e-12, abs=1e-9)
    for own, other in zip((weights, root_weights), before, strict=True):  # inputs stay as they are
        np.testing.assert_array_equal(own, other)


# ------------------------------------------------------------------------------- enumeration


@pytest.mark.parametrize("d", [1, 2, 3, 4])
def test_total_and_ties_agree_with_enumeration(d):
    rng = np.random.default_rng(d)
    every = forests(d)
    for high in [2] * 60 + [4] * 60 + [100] * 30:
        weights, roots = rng.integers(0, high, (d, d)), rng.integers(0, high, d)

        def rank(parents, weights=weights, roots=roots):
            given = [p for p in parents if p >= 0]
            return total(parents, weights, roots), -len(given), -sum(given)

        found = tuple(maximum_branching(weights, roots).tolist())
        assert rank(found) == max(map(rank, every))


@pytest.mark.parametrize("d", [2, 3, 4])
def test_forbidden_arcs_agree_with_enumeration(d):
    rng = np.random.default_rng(d)
    every = forests(d)
    allowed = 0
    for _ in range(150):
        weights, roots = rng.normal(size=(d, d)), rng.normal(size=d)
        weights[rng.random((d, d)) < 0.5] = -np.inf
        roots[rng.random(d) < 0.6] = -np.inf
        best = max(total(parents, weights, roots) for parents in every)
        if best > -np.inf:
            allowed += 1
            found = total(maximum_branching(weights, roots), weights, roots)
            assert found == pytest.approx(best)
    assert allowed > 0


# ---------------------------------------------------------------------------------- networkx


def sparse(rng, d):
    weights = rng.integers(1, 6, (d, d)).astype(float)
    weights[rng.random((d, d)) < 0.8] = -np.inf
    return weights, rng.normal(size=d) - 10.0


def symmetric(rng, d):
    """As of mutual information: every arc closes a cycle with its reverse."""
    weights = rng.gamma(1.0, size=(d, d))
    return weights + weights.T, np.full(d, -2.0)


# weights (d, d) and those of roots (d,)
GRAPHS = {
    "real": lambda rng, d: (rng.normal(size=(d, d)), rng.normal(size=d) - 1.0),
    "integer": lambda rng, d: (rng.integers(-3, 4, (d, d)) * 1.0, rng.integers(-6, 1, d) * 1.0),
    "sparse": sparse,
    "symmetric": symmetric,
    # all arcs are better than roots by far: all contractions happen, and one root is left
    "far": lambda rng, d: (1e6 + rng.normal(size=(d, d)), np.zeros(d)),
}


@pytest.mark.parametrize(("d", "trials"), [(2, 20), (3, 20), (5, 20), (8, 20), (13, 10), (25, 3)])
@pytest.mark.parametrize("kind", GRAPHS)
def test_graphs_agree_with_networkx(kind, d, trials):
    rng = np.random.default_rng(d)
    for _ in range(trials):
        check_optimal(*GRAPHS[kind](rng, d))


@pytest.mark.parametrize("d", [2, 3, 7, 20])
def test_nested_cycles(d):
    weights, roots = nested_cycles(d)
    check_optimal(weights, roots)
    permutation = np.random.default_rng(d).permutation(d)
    check_optimal(weights[np.ix_(permutation, permutation)], roots)


def test_order_of_the_nodes_does_not_matter():
    rng = np.random.default_rng(3)
    weights, roots = rng.normal(size=(15, 15)), rng.normal(size=15)
    parents = maximum_branching(weights, roots)
    order = rng.permutation(15)
    renamed = maximum_branching(weights[np.ix_(order, order)], roots[order])
    expected = [-1 if parents[i] < 0 else order.tolist().index(parents[i]) for i in order]
    assert renamed.tolist() == expected


# -------------------------------------------------------------------------------- special cases


def test_no_parent_wins_ties_then_the_smallest_parent():
    assert maximum_branching([[np.nan]], [3.0]).tolist() == [-1]
    assert maximum_branching(np.zeros((4, 4)), np.zeros(4)).tolist() == [-1] * 4
    assert maximum_branching(np.ones((4, 4)), np.zeros(4)).tolist() == [-1, 0, 0, 0]
    assert maximum_branching(np.ones((3, 3)), [0.0, 0.0, 1.0]).tolist() == [2, 0, -1]
