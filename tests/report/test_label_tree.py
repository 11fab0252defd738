"""The label tree as positions, as text and as a figure."""

from __future__ import annotations

import io
import itertools
import sys

import numpy as np
import pytest

from colabel.report import plot_label_tree, tree_layout, tree_text
from colabel.report._tree_drawing import wrapped

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
plt = pytest.importorskip("matplotlib.pyplot")

LONG = "cell growth, cell division and DNA synthesis number {}"


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def random_forest(d: int, seed: int, root_share: float = 0.15) -> np.ndarray:
    rng = np.random.default_rng(seed)
    parents = np.array([-1] + [int(rng.integers(max(0, i - 6), i)) for i in range(1, d)])
    parents[rng.random(d) < root_share] = -1
    names = rng.permutation(d)
    renamed = np.empty(d, dtype=int)
    renamed[names] = np.where(parents < 0, -1, names[parents])
    return renamed


# --------------------------------------------------------------------------------------- layout


@pytest.mark.parametrize("seed", range(10))
def test_leaves_are_even_and_parents_are_centred(seed):
    parents = random_forest(25, seed)
    positions = tree_layout(parents)
    children = [np.flatnonzero(parents == i) for i in range(25)]
    leaves = [i for i in range(25) if not len(children[i])]
    assert sorted(positions[leaves, 1]) == list(range(len(leaves)))
    for i in range(25):
        assert positions[i, 0] == (0 if parents[i] < 0 else positions[parents[i], 0] + 1)
        if len(children[i]):
            across = positions[children[i], 1]
            assert positions[i, 1] == (across.min() + across.max()) / 2
    assert len({tuple(p) for p in positions}) == 25


@pytest.mark.parametrize("seed", range(10))
def test_arcs_do_not_cross(seed):
    parents = random_forest(25, seed)
    positions = tree_layout(parents)
    for i, j in itertools.combinations(np.flatnonzero(parents >= 0), 2):
        if positions[i, 0] == positions[j, 0]:
            below = positions[i, 1] - positions[j, 1]
            above = positions[parents[i], 1] - positions[parents[j], 1]
            assert below * above >= 0


def test_lone_labels_come_last():
    positions = tree_layout([-1, -1, 3, -1])
    assert positions[:, 1].tolist() == [1.0, 2.0, 0.0, 0.0]


def test_deep_trees_need_no_recursion():
    parents = np.arange(-1, 5000)
    assert tree_layout(parents)[-1].tolist() == [5000.0, 0.0]


@pytest.mark.parametrize(
    ("parents", "message"),
    [([1, 0], "never reaches a root"), ([5, -1], "which is no variable"), ([], "vector|empty")],
)
def test_what_is_no_forest_is_refused(parents, message):
    with pytest.raises(ValueError, match=message):
        tree_layout(parents)


# ----------------------------------------------------------------------------------------- text


def test_text_of_a_forest():
    parents = [-1, 0, 0, 1, 1, -1, 5, -1]
    text = tree_text(parents, list("abcdefgh"))
    assert text.split("\n") == [
        "a",
        "├── b",
        "│   ├── d",
        "│   └── e",
        "└── c",
        "f",
        "└── g",
        "h",
    ]


def test_text_shows_strengths_in_one_column():
    text = tree_text([-1, 0, 0, 0], ["a", "long name", "c", "d"], [9, 0.1234, 12.0, np.nan])
    assert text.split("\n") == ["a", "├── long name   0.123", "├── c          12.000", "└── d"]


def test_text_does_not_show_a_small_gain_as_none():
    text = tree_text([-1, 0, 0, 0], list("abcd"), [0, 0.0001, 0.0, -0.02])
    assert [line.split()[-1] for line in text.split("\n")[1:]] == ["<0.001", "0.000", "−0.020"]


def test_names_and_strengths_must_fit():
    with pytest.raises(ValueError, match="there are 2 labels in parents"):
        tree_text([-1, 0], ["a"])
    with pytest.raises(ValueError, match="give a sequence of 2 names"):
        tree_text([-1, 0], "ab")
    with pytest.raises(ValueError, match=r"strengths has shape \(3,\)"):
        tree_text([-1, 0], ["a", "b"], [1, 2, 3])
    with pytest.raises(ValueError, match=r"strengths\[1\] is inf"):
        tree_text([-1, 0], ["a", "b"], [0, np.inf])


def test_long_names_are_broken_and_at_last_cut():
    assert wrapped("short", 10) == "short"
    assert wrapped("a_very_long_name", 10).split("\n") == ["a_very_", "long_name"]
    assert wrapped("x" * 25, 10).split("\n") == ["x" * 10, "x" * 10, "x" * 5]
    cut = wrapped("word " * 40, 10).split("\n")
    assert len(cut) == 4
    assert cut[-1].endswith("…")
    assert max(map(len, cut)) <= 10


# --------------------------------------------------------------------------------------- figure


def extents(ax):
    """Boxes, numbers and other texts outside of boxes, as rectangles in pixels."""
    ax.figure.canvas.draw()
    boxes = [p for p in ax.patches if type(p).__name__ == "FancyBboxPatch"]
    rectangles = [p.get_window_extent() for p in boxes]
    texts = [t for t in ax.texts if t.get_text()]
    outside = [t.get_window_extent() for t in texts if t.get_ha() != "center"]
    inside = [t.get_window_extent() for t in texts if t.get_ha() == "center"]
    return rectangles, inside, outside


@pytest.mark.parametrize("d", [1, 2, 7, 20, 60])
@pytest.mark.parametrize("name", ["y{}", LONG])
def test_nothing_overlaps_and_all_is_inside(d, name):
    parents = random_forest(d, d)
    rng = np.random.default_rng(d)
    names = [name.format(i) for i in range(d)]
    signs = rng.choice([-1, 1], d)
    ax = plot_label_tree(parents, names, strengths=rng.gamma(1, 0.1, d), signs=signs, title="Tree")
    boxes, inside, outside = extents(ax)
    frame = ax.figure.bbox
    for one, other in itertools.combinations(boxes + outside, 2):
        assert not one.overlaps(other)
    for box in boxes + outside:
        assert frame.x0 <= box.x0
        assert box.x1 <= frame.x1
        assert frame.y0 <= box.y0
        assert box.y1 <= frame.y1
    for text in inside:
        assert any(
            box.x0 <= text.x0 and text.x1 <= box.x1 and box.y0 <= text.y0 and text.y1 <= box.y1
            for box in boxes
        )
    plt.close("all")


def rendered(**options) -> bytes:
    ax = plot_label_tree([-1, 0, 0, 2, -1], ["a", "b", "$x_1$ and $", "d", "e"], **options)
    file = io.BytesIO()
    ax.figure.savefig(file, format="png", metadata={"Software": None})
    return file.getvalue()


def test_figure_is_deterministic():
    options = {"strengths": [0, 0.1, 0.3, np.nan, 0], "signs": [0, 1, -1, 0, 0], "title": "$5"}
    assert rendered(**options) == rendered(**options)
    assert rendered() == rendered()
    assert rendered() != rendered(**options)


def test_width_shows_strength_and_colour_shows_sign():
    ax = plot_label_tree(
        [-1, 0, 0, 0], list("abcd"), strengths=[9, 0.1, 0.4, 0.0], signs=[0, 1, -1, np.nan]
    )
    arcs = [p for p in ax.patches if type(p).__name__ == "PathPatch"][:3]
    widths = [arc.get_linewidth() for arc in arcs]
    assert widths == sorted(widths, reverse=True)
    assert len({arc.get_edgecolor() for arc in arcs}) == 3
    assert arcs[0].get_linestyle() != arcs[1].get_linestyle()  # repelling is dashed
    assert {"0.100", "0.400", "0.000", "attract", "repel"} <= {t.get_text() for t in ax.texts}


def test_roots_are_distinct_and_the_legend_says_only_what_occurs():
    ax = plot_label_tree([-1, 0, -1], ["top", "below", "alone"])
    colours = {t.get_text(): t.get_fontweight() for t in ax.texts}
    assert colours["top"] == "bold"
    assert colours["below"] == "normal"
    boxes = [p.get_facecolor() for p in ax.patches if type(p).__name__ == "FancyBboxPatch"]
    assert len(set(boxes)) == 3
    texts = " ".join(colours)
    assert "label without arrow" in texts
    assert "attract" not in texts
    assert "nats" not in texts


def test_strengths_that_are_not_positive_are_thin():
    ax = plot_label_tree([-1, 0, 0], list("abc"), strengths=[0.0, -0.5, 0.0])
    arcs = [p for p in ax.patches if type(p).__name__ == "PathPatch"]
    assert len({arc.get_linewidth() for arc in arcs}) == 1


def test_drawing_shrinks_into_given_axes():
    figure, axes = plt.subplots(1, 2, figsize=(6, 3))
    names = [LONG.format(i) for i in range(12)]
    returned = plot_label_tree(random_forest(12, 0), names, ax=axes[0], title="Small")
    assert returned is axes[0]
    assert not axes[1].patches
    boxes, inside, outside = extents(returned)
    for one, other in itertools.combinations(boxes + outside, 2):
        assert not one.overlaps(other)
    half = figure.bbox.width / 2
    assert all(box.x1 <= half for box in boxes + inside + outside)


def test_missing_matplotlib_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"pip install matplotlib"):
        plot_label_tree([-1, 0], ["a", "b"])
