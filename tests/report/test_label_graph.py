"""The label graph and the profile as figures."""

from __future__ import annotations

import builtins

import numpy as np
import pytest

from colabel.report import plot_alpha_profile, plot_label_graph

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
from matplotlib import pyplot as plt  # noqa: E402

NAMES = ["calm", "quiet", "angry", "alone"]
GRAPH = np.array([[0, 1], [0, 2], [1, 2]])


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def edge_lines(ax):
    return [line for line in ax.lines if len(line.get_xdata()) == 2]


def texts(ax):
    return [text.get_text() for text in ax.texts]


def test_every_edge_and_name_is_drawn():
    ax = plot_label_graph(GRAPH, NAMES, [1.0, 0.5, 2.0], [1, -1, 0], title="moods")
    assert len(edge_lines(ax)) == 3
    assert set(NAMES) <= set(texts(ax))
    assert {"1.0", "0.50", "2.0"} <= set(texts(ax))
    assert ax.get_title() == "moods"
    legend = [text.get_text() for text in ax.get_legend().get_texts()]
    assert legend == ["attract", "repel", "depend"]
    ax.figure.canvas.draw()


def test_strong_edges_are_wider_and_repelling_ones_dashed():
    ax = plot_label_graph(GRAPH, NAMES, [1.0, 0.5, 2.0], [1, -1, 1])
    lines = sorted(edge_lines(ax), key=lambda line: line.get_linewidth())
    assert [line.get_linestyle() for line in lines] == ["--", "-", "-"]
    assert lines[0].get_linewidth() < lines[1].get_linewidth() < lines[2].get_linewidth()


def test_a_graph_without_edges_strengths_or_signs():
    ax = plot_label_graph(np.empty((0, 2)), NAMES)
    assert not edge_lines(ax)
    assert ax.get_legend() is None
    assert plot_label_graph(GRAPH, NAMES).get_legend() is None


def test_given_axes_are_used():
    _, ax = plt.subplots()
    assert plot_label_graph(GRAPH, NAMES, ax=ax) is ax
    assert plot_alpha_profile(np.ones((3, 3)), GRAPH, NAMES, ax=ax) is ax


def test_odd_names_are_drawn_as_they_are():
    ax = plot_label_graph(GRAPH[:1], ["$a_1$", "x" * 60, "", "é"])
    assert "$a_1$" in texts(ax)
    assert max(map(len, texts(ax))) == 24
    ax.figure.canvas.draw()
    profile = plot_alpha_profile([[1.0], [2.0]], GRAPH[:1], ["$a_1$", "b$"])
    profile.figure.canvas.draw()


def test_many_labels():
    rng = np.random.default_rng(0)
    pairs = np.stack(np.triu_indices(30, 1), axis=1)
    names = [f"label {i}" for i in range(30)]
    ax = plot_label_graph(pairs, names, rng.random(len(pairs)), rng.integers(-1, 2, len(pairs)))
    assert len(edge_lines(ax)) == len(pairs)
    assert set(texts(ax)) == set(names)  # too many edges for numbers


def test_strongly_connected_labels_are_neighbours():
    ax = plot_label_graph([[0, 5], [1, 4], [2, 3], [0, 1]], list("abcdef"), [9, 8, 7, 1])
    lengths = [
        np.hypot(np.diff(line.get_xdata()), np.diff(line.get_ydata())).item()
        for line in edge_lines(ax)
    ]
    assert sum(abs(length - 1.0) < 1e-9 for length in lengths) >= 3  # sides of the hexagon


def test_absent_edges_of_a_profile_are_grey():
    profile = np.array([[0.5, 0.4, 0.2], [0.7, 0.2, 0.0], [0.8, 0.0, 0.1]])
    ax = plot_alpha_profile(profile, GRAPH, NAMES)
    colours = {line.get_color() for line in ax.lines}
    assert len(ax.lines) == 3
    assert "#c3cad3" in colours
    legend = [text.get_text() for text in ax.get_legend().get_texts()]
    assert legend == ["calm – quiet", "quiet – angry", "1 absent"]


def test_a_profile_of_many_edges_names_the_strongest():
    pairs = np.stack(np.triu_indices(8, 1), axis=1)
    profile = np.tile(np.arange(1.0, len(pairs) + 1), (4, 1))
    ax = plot_alpha_profile(profile, pairs, list("abcdefgh"))
    legend = [text.get_text() for text in ax.get_legend().get_texts()]
    assert legend[0] == "g – h"
    assert legend[-1] == "16 more"


def test_wrong_shapes_are_refused():
    with pytest.raises(ValueError, match="names labels 0 to 2, but there are 2 names"):
        plot_label_graph(GRAPH, NAMES[:2])
    with pytest.raises(ValueError, match="strengths has shape"):
        plot_label_graph(GRAPH, NAMES, [1.0])
    with pytest.raises(ValueError, match="signs has shape"):
        plot_label_graph(GRAPH, NAMES, signs=[1])
    with pytest.raises(ValueError, match="to itself"):
        plot_label_graph([[1, 1]], NAMES)
    with pytest.raises(ValueError, match="one column for each edge"):
        plot_alpha_profile(np.ones((3, 2)), GRAPH, NAMES)


def test_missing_matplotlib_is_a_sentence(monkeypatch):
    actual = builtins.__import__

    def refuse(name, *args, **kwargs):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return actual(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(ImportError, match="pip install matplotlib"):
        plot_label_graph(GRAPH, NAMES)
    with pytest.raises(ImportError, match="pip install matplotlib"):
        plot_alpha_profile(np.ones((3, 3)), GRAPH, NAMES)
