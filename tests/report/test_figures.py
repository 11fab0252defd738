"""Figures of what models have learned: what drives a feature, how edges come and go."""

from __future__ import annotations

import numpy as np
import pytest

from colabel import LDSMixture
from colabel.report import plot_alpha_profile, plot_feature_drivers

plt = pytest.importorskip("matplotlib.pyplot")
NAMES = ["calm", "quiet", "angry", "alone"]
GRAPH = np.array([[0, 1], [0, 2], [1, 2]])


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


@pytest.fixture
def drivers(rng):
    Y = rng.integers(0, 2, size=(300, 3))
    Y[:, 1] |= Y[:, 0]
    X = (Y[:, 0] + Y[:, 1] + (rng.random(300) < 0.1)).reshape(-1, 1)
    names = ["calm", "$quiet$", "loud"]
    return LDSMixture(None, random_state=0).fit(X, Y, label_names=names).drivers(0)


def test_bars_are_the_strengths_in_order(drivers):
    figure = plot_feature_drivers(drivers)
    left, right = figure.axes
    widths = [bar.get_width() for bar in left.patches]
    np.testing.assert_allclose(widths, sorted(drivers.strength, reverse=True))
    strongest = int(drivers.strength.argmax())
    assert left.get_yticklabels()[0].get_text() == ", ".join(drivers.sets[strongest])
    table = right.images[0].get_array()
    occurs = drivers.state_prob[strongest] > 0
    np.testing.assert_allclose(table, drivers.tables[strongest][occurs])
    assert len(right.texts) == table.size
    figure.canvas.draw()


def test_fewer_sets_can_be_drawn(drivers):
    figure = plot_feature_drivers(drivers, n_sets=1)
    assert len(figure.axes[0].patches) == 1
    with pytest.raises(ValueError, match="n_sets=0 must be at least 1"):
        plot_feature_drivers(drivers, n_sets=0)


def test_only_the_most_frequent_states_of_a_large_set_are_drawn(drivers):
    many = drivers._replace(
        states=tuple(tuple((f"s{i}",) for i in range(40)) for _ in drivers.sets),
        tables=tuple(np.full((40, 4), 0.25) for _ in drivers.sets),
        state_prob=tuple(np.arange(40.0) / 780 for _ in drivers.sets),
    )
    right = plot_feature_drivers(many).axes[1]
    shown = [label.get_text().split()[0] for label in right.get_yticklabels()]
    assert shown == [f"s{i}" for i in range(24, 40)]


def legend_of(ax):
    ax.figure.canvas.draw()
    return [text.get_text() for text in ax.get_legend().get_texts()]


def test_absent_edges_of_a_profile_are_counted():
    profile = np.array([[0.5, 0.4, 0.2], [0.7, 0.2, 0.0], [0.8, 0.0, 0.1]])
    _, own = plt.subplots()
    ax = plot_alpha_profile(profile, GRAPH, NAMES, own)
    assert ax is own
    assert len(ax.lines) == 3
    assert legend_of(ax) == ["calm – quiet", "quiet – angry", "1 absent"]


def test_a_profile_of_many_edges_names_the_strongest():
    pairs = np.stack(np.triu_indices(8, 1), axis=1)
    profile = np.tile(np.arange(1.0, len(pairs) + 1), (4, 1))
    names = legend_of(plot_alpha_profile(profile, pairs, ["$a_1$", *"bcdefgh"]))
    assert names[0] == "g – h"
    assert names[-1] == "16 more"


def test_profiles_of_other_edges_are_refused():
    with pytest.raises(ValueError, match="one column for each edge"):
        plot_alpha_profile(np.ones((3, 2)), GRAPH, NAMES)
    with pytest.raises(ValueError, match="join labels 0 to 2, but there are 2 names"):
        plot_alpha_profile(np.ones((3, 3)), GRAPH, NAMES[:2])
