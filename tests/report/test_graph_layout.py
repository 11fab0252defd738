"""Where labels and edges of a graph are drawn: apart, inside, readable on a phone."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from colabel.report._html.graph_layout import circle_order, lay_out


def make_tree(names: Sequence[str], seed: int = 0, reach: int = 6) -> dict[str, Any]:
    """A random label tree."""
    rng = np.random.default_rng(seed)
    pairs = [(int(rng.integers(max(0, i - reach), i)), i) for i in range(1, len(names))]
    return _graph(names, pairs, True, rng)


def make_graph(names: Sequence[str], share: float = 0.3, seed: int = 0) -> dict[str, Any]:
    """A random undirected label graph."""
    rng = np.random.default_rng(seed)
    pairs = [
        (i, j) for i in range(len(names)) for j in range(i + 1, len(names)) if rng.random() < share
    ]
    return _graph(names, pairs, False, rng)


def _graph(
    names: Sequence[str], pairs: Sequence[tuple[int, int]], directed: bool, rng: np.random.Generator
) -> dict[str, Any]:
    edges = []
    for i, j in pairs:
        on, off = (float(p) for p in rng.beta(0.6, 0.9, size=2))
        edges.append(
            {
                "from": i,
                "to": j,
                "given_on": on,
                "given_off": off,
                "back_on": on * 0.9,
                "back_off": off * 0.8,
            }
        )
    shares = [float(p) for p in rng.beta(1.0, 3.0, size=len(names))]
    return {"labels": list(names), "probability": shares, "directed": directed, "edges": edges}


@pytest.mark.parametrize("n_labels", [1, 2, 6, 14, 53, 150])
@pytest.mark.parametrize("reach", [2, 100])
def test_boxes_of_a_tree_do_not_overlap(n_labels, reach):
    graph = make_tree([f"label number {i}" for i in range(n_labels)], n_labels, reach)
    layout = lay_out(graph)
    assert layout.kind in ("layers", "outline")
    boxes = [(n.x - n.width / 2, n.y - 12, n.x + n.width / 2, n.y + 12) for n in layout.nodes]
    for one, two in itertools.combinations(boxes, 2):
        assert one[2] <= two[0] or two[2] <= one[0] or one[3] <= two[1] or two[3] <= one[1]
    assert all(b[0] >= 0 and b[2] <= layout.width and b[3] <= layout.height for b in boxes)
    assert sorted(layout.order) == list(range(n_labels))
    assert len(layout.paths) == n_labels - 1


def test_wide_trees_become_outlines():
    names = [f"a rather long label {i}" for i in range(12)]
    assert lay_out(make_tree(names, reach=1)).kind == "outline"
    assert lay_out(make_tree(names[:3], reach=1)).kind == "layers"


@pytest.mark.parametrize("n_labels", [1, 2, 14, 53])
@pytest.mark.parametrize("name", ["y{}", "a label with a rather long name, number {}"])
@pytest.mark.parametrize("make", [make_graph, make_tree, lambda names: make_tree(names, reach=1)])
def test_narrow_drawings_fit_a_phone(n_labels, name, make):
    graph = make([name.format(i) for i in range(n_labels)])
    layout = lay_out(graph, narrow=True)
    assert layout.kind in ("outline", "arcs")
    assert layout.width <= 356
    lines = sorted(node.y for node in layout.nodes)
    assert all(two - one >= 28 for one, two in itertools.pairwise(lines))
    for node in layout.nodes:
        assert 0 <= node.x - node.width / 2 < node.x + node.width / 2 <= layout.width
    assert len(layout.paths) == len(graph["edges"])
    assert sorted(layout.order) == list(range(n_labels))


def test_a_tree_too_deep_to_be_indented_on_a_phone_has_arcs():
    deep = make_tree([f"y{i}" for i in range(40)], reach=1)
    assert lay_out(deep, narrow=True).kind == "arcs"
    assert lay_out(make_tree(["a", "b", "c"]), narrow=True).kind == "outline"


@pytest.mark.parametrize("n_labels", [1, 5, 12, 13, 53])
def test_labels_on_a_circle_are_apart_and_inside(n_labels):
    layout = lay_out(make_graph([f"y{i}" for i in range(n_labels)]))
    assert layout.kind == "circle"
    places = np.array([(node.x, node.y) for node in layout.nodes])
    assert (places > 0).all()
    assert (places < [layout.width, layout.height]).all()
    for one, two in itertools.combinations(places, 2):
        assert np.hypot(*(one - two)) > 14


def test_directed_graphs_that_are_no_trees_go_on_a_circle():
    two_parents = make_tree(["a", "b", "c"])
    for edge, (start, end) in zip(two_parents["edges"], [(0, 2), (1, 2)], strict=True):
        edge["from"], edge["to"] = start, end
    assert lay_out(two_parents).kind == "circle"
    cycle = make_tree(["a", "b", "c"])
    for edge, (start, end) in zip(cycle["edges"], [(0, 1), (1, 0)], strict=True):
        edge["from"], edge["to"] = start, end
    assert lay_out(cycle).kind == "circle"


def test_strong_neighbours_are_neighbours_on_the_circle():
    rng = np.random.default_rng(0)
    for _ in range(20):
        ends = [(i, j) for i in range(9) for j in range(i) if rng.random() < 0.5]
        strengths = rng.random(len(ends)).tolist()
        order = circle_order(9, ends, strengths)
        assert sorted(order) == list(range(9))
        i, j = ends[int(np.argmax(strengths))]
        assert abs(order.index(i) - order.index(j)) == 1
