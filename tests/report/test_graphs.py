"""The label graph: one layout, drawn as SVG and by matplotlib, and its text."""

from __future__ import annotations

import itertools
import re
import sys
from xml.etree import ElementTree

import numpy as np
import pytest

from colabel.report import LabelGraph, graph_svg, graph_text, plot_label_graph
from colabel.report.graphs import NARROW, WIDE, forest_of, lay_out

LONG = "cell growth, cell division & DNA <synthesis> {}"
BOX = 24.0


def random_tree(d: int, seed: int, name: str = "y{}") -> LabelGraph:
    """A forest whose labels have been shuffled."""
    rng = np.random.default_rng(seed)
    parents = np.array([-1] + [int(rng.integers(max(0, i - 6), i)) for i in range(1, d)])
    parents[rng.random(d) < 0.15] = -1
    place = rng.permutation(d)
    shuffled = np.empty(d, dtype=int)
    shuffled[place] = np.where(parents < 0, -1, place[parents])
    names = tuple(name.format(i) for i in range(d))
    return LabelGraph.of_tree(names, shuffled, rng.gamma(1, 0.1, (d, d)))


def random_field(d: int, seed: int, name: str = "y{}") -> LabelGraph:
    rng = np.random.default_rng(seed)
    edges = [pair for pair in itertools.combinations(range(d), 2) if rng.random() < 4 / d]
    strengths = rng.gamma(1, 1, len(edges))
    names = tuple(name.format(i) for i in range(d))
    return LabelGraph.of_field(names, edges, strengths, rng.choice([-1, 0, 1], len(edges)))


GRAPHS = [
    pytest.param(kind(d, d, name), id=f"{kind.__name__}-{d}-{name[:4]}")
    for kind in (random_tree, random_field)
    for d in (1, 2, 7, 40)
    for name in ("y{}", LONG)
]


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("widest", [NARROW, WIDE])
def test_everything_is_inside_and_no_label_hides_another(graph, widest):
    drawing = lay_out(graph, widest)
    assert sorted(drawing.order) == list(range(len(graph.names)))
    for (one, y, width), (other, z, wide) in itertools.combinations(drawing.boxes, 2):
        assert abs(y - z) >= BOX or one + width <= other or other + wide <= one
    for left, y, width in drawing.boxes:
        assert left >= 0
        assert left + width <= drawing.width
        assert BOX / 2 <= y <= drawing.height - BOX / 2
    for x, y in (
        point for line in (*drawing.stems, *drawing.curves) for point in (line[0], line[-1])
    ):
        assert 0 <= x <= drawing.width
        assert 0 <= y <= drawing.height
    assert len(drawing.curves) == len(graph.ends)
    for (_, j), curve in zip(graph.ends, drawing.curves, strict=True):
        left, y, width = drawing.boxes[j]
        assert abs(curve[-1][1] - y) < BOX / 2
        assert curve[-1][0] in (pytest.approx(left), pytest.approx(left + width))
    # forty names of forty characters in a deep tree are wider, and so are numbers beside arcs
    assert drawing.width <= widest + 60


@pytest.mark.parametrize("seed", range(10))
def test_trees_grow_from_left_to_right_without_crossing(seed):
    graph = random_tree(25, seed)
    drawing = lay_out(graph, np.inf)
    forest = forest_of(graph)
    assert forest.parents == graph.parents.tolist()
    for i, j in graph.ends.tolist():
        assert drawing.boxes[i][0] + drawing.boxes[i][2] < drawing.boxes[j][0]
    for (a, b), (c, d) in itertools.combinations(graph.ends.tolist(), 2):
        if forest.depths[b] == forest.depths[d]:
            below = drawing.boxes[b][1] - drawing.boxes[d][1]
            assert below * (drawing.boxes[a][1] - drawing.boxes[c][1]) >= 0
    children = [own for own in forest.children[:-1] if own]
    for own in children:
        ys = [drawing.boxes[i][1] for i in own]
        parent = forest.parents[own[0]]
        assert drawing.boxes[parent][1] == pytest.approx((ys[0] + ys[-1]) / 2)


def test_a_deep_tree_becomes_an_outline_and_then_arcs():
    names = tuple(f"label {i}" for i in range(60))
    chain = LabelGraph.of_tree(names[:12], np.arange(-1, 11), np.ones((12, 12)))
    outline = lay_out(chain, NARROW)
    assert outline.stems
    assert outline.width <= NARROW
    assert [y for _, y, _ in outline.boxes] == sorted(y for _, y, _ in outline.boxes)
    deeper = LabelGraph.of_tree(names, np.arange(-1, 59), np.ones((60, 60)))
    assert not lay_out(deeper, NARROW).stems
    assert len(graph_text(deeper).split("\n")) == 60


@pytest.mark.parametrize(
    "ends", [[(0, 1), (1, 0)], [(0, 2), (1, 2)], [(1, 2), (2, 1)]], ids=["circle", "two", "far"]
)
def test_what_is_no_forest_is_drawn_by_arcs(ends):
    graph = LabelGraph(("a", "b", "c"), np.array(ends), "", directed=True)
    assert forest_of(graph) is None
    assert len(lay_out(graph).curves) == 2


def test_strongly_connected_labels_are_neighbours():
    edges, strengths = [(0, 5), (1, 4), (2, 3), (0, 1)], [9, 8, 7, 1]
    graph = LabelGraph.of_field(tuple("abcdef"), edges, strengths, [1] * 4)
    order = lay_out(graph).order
    for i, j in edges[:3]:
        assert abs(order.index(i) - order.index(j)) == 1


# ------------------------------------------------------------------------------------- drawings


def svg_of(graph, **options):
    tree = ElementTree.fromstring(graph_svg(graph, **options))
    return list(tree.iter())


@pytest.mark.parametrize("graph", GRAPHS)
def test_both_drawings_are_the_same(graph):
    plt = pytest.importorskip("matplotlib.pyplot")
    drawing = lay_out(graph)
    elements = svg_of(graph)
    rectangles = [e for e in elements if e.tag.endswith("rect")]
    drawn = sorted((float(r.get("x")), float(r.get("y")) + BOX / 2) for r in rectangles)
    expected = sorted((left, y) for left, y, _ in drawing.boxes)
    np.testing.assert_allclose(drawn, expected, atol=0.06)
    ax = plot_label_graph(graph, title="$5 & more")
    boxes = [p for p in ax.patches if type(p).__name__ == "FancyBboxPatch"]
    np.testing.assert_allclose(sorted((b.get_x(), b.get_y() + BOX / 2) for b in boxes), expected)
    curves = [p for p in ax.patches if type(p).__name__ == "PathPatch"]
    paths = [e for e in elements if "edge" in e.get("class", "").split() and e.get("stroke-width")]
    assert len(curves) == len(paths) == len(graph.ends)
    ax.figure.canvas.draw()
    frame = ax.figure.bbox
    for text in ax.texts:
        extent = text.get_window_extent()
        assert frame.x0 <= extent.x0
        assert extent.x1 <= frame.x1
    plt.close("all")


def test_width_is_strength_colour_is_sign_and_what_repels_is_dashed():
    graph = LabelGraph.of_field(tuple("abc"), [(0, 1), (0, 2), (1, 2)], [1, 0.5, 2], [1, -1, 0])
    edges = {
        (int(e.get("data-from")), int(e.get("data-to"))): e
        for e in svg_of(graph)
        if "edge" in e.get("class", "").split()
    }
    widths = {ends: float(e.get("stroke-width")) for ends, e in edges.items()}
    assert widths[0, 2] < widths[0, 1] < widths[1, 2]
    assert len({e.get("stroke") for e in edges.values()}) == 3
    assert [ends for ends, e in edges.items() if e.get("stroke-dasharray")] == [(0, 2)]
    numbers = {e.text for e in svg_of(graph) if "note" in e.get("class", "")}
    assert numbers == {"1.000", "0.500", "2.000"}
    assert not {e.text for e in svg_of(graph, numbers=False) if "note" in e.get("class", "")}
    plt = pytest.importorskip("matplotlib.pyplot")
    legend = plot_label_graph(graph).get_legend()
    assert [text.get_text() for text in legend.get_texts()] == ["attract", "repel"]
    plt.close("all")


def test_colours_are_legible_on_white_and_on_black():
    """Names take the colour of the page; all others have a contrast of at least 3 to both."""

    def luminance(colour):
        channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
        return float(np.dot(linear, [0.2126, 0.7152, 0.0722]))

    text = graph_svg(random_field(7, 0))
    assert "currentColor" in text
    for colour in set(re.findall(r"#[0-9a-f]{6}", text)):
        own = luminance(colour)
        assert 1.05 / (own + 0.05) >= 3
        assert (own + 0.05) / 0.05 >= 3


def test_names_are_text_and_whole_in_the_tooltip():
    graph = random_tree(2, 0, LONG)
    text = graph_svg(graph)
    assert "<synthesis>" not in text
    titles = [e.text for e in svg_of(graph) if e.tag.endswith("title")]
    assert sorted(titles) == sorted(graph.names)


def test_given_axes_are_used_and_the_drawing_shrinks_into_them():
    plt = pytest.importorskip("matplotlib.pyplot")
    figure, axes = plt.subplots(1, 2, figsize=(6, 3))
    assert plot_label_graph(random_tree(12, 0, LONG), axes[0]) is axes[0]
    figure.canvas.draw()
    assert not axes[1].patches
    half = figure.bbox.width / 2
    assert all(text.get_window_extent().x1 <= half for text in axes[0].texts)
    plt.close("all")


def test_missing_matplotlib_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match="pip install matplotlib"):
        plot_label_graph(random_tree(3, 0))


# ----------------------------------------------------------------------------------------- text


def test_text_of_a_forest():
    gains = np.full((8, 8), np.nan)
    gains[0, 1], gains[0, 2], gains[1, 3], gains[1, 4] = 0.1234, 12.0, 0.0001, -0.02
    graph = LabelGraph.of_tree(tuple("abcdefgh"), [-1, 0, 0, 1, 1, -1, 5, -1], gains)
    assert graph_text(graph).split("\n") == [
        "a",
        "├── b      0.123",
        "│   ├── d  <0.001",
        "│   └── e  −0.020",
        "└── c      12.000",
        "f",
        "└── g",
        "h",
    ]


def test_text_of_other_graphs_is_their_edges_strongest_first():
    graph = LabelGraph.of_field(("a", "b\nc"), [(0, 1)], [0.25], [-1])
    assert graph_text(graph) == "a – b c  0.250 repel"
    assert graph_text(LabelGraph.without_edges(("a",), "")) == "No edges."
    edges = list(itertools.combinations(range(10), 2))
    many = LabelGraph.of_field(tuple("abcdefghij"), edges, np.arange(45.0), np.ones(45))
    lines = graph_text(many).split("\n")
    assert lines[0].startswith("i – j")
    assert lines[-1] == "and 5 more"
