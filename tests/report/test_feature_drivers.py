"""What drives a feature, drawn."""

from __future__ import annotations

import numpy as np
import pytest

from colabel import LDSMixture
from colabel.report import plot_feature_drivers

pytest.importorskip("matplotlib")


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
