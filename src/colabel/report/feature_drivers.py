"""Which labels drive a feature, as a figure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from colabel.core.arrays import Indices
from colabel.core.optional import require
from colabel.models.lds.mixture import FeatureDrivers
from colabel.report._axes import ACCENT, INK

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["plot_feature_drivers"]

_MOST_STATES = 16  # rows of the table


def plot_feature_drivers(drivers: FeatureDrivers, *, n_sets: int = 8) -> Figure:
    """Draw how much each label dependency set drives a feature, and how the strongest does.

    On the left the strength of the sets: the probability that the feature's value comes from the
    set times what the set says about it, in nats. On the right the strongest set: the probability
    of each value of the feature in each of the set's states.

    Parameters
    ----------
    drivers : FeatureDrivers
        From `LDSMixture.drivers`.
    n_sets : int, default=8
        Most sets on the left.

    Returns
    -------
    matplotlib Figure

    Raises
    ------
    ImportError
        If matplotlib is not installed: ``pip install matplotlib``.

    Examples
    --------
    >>> import numpy as np
    >>> from colabel import LDSMixture
    >>> from colabel.report import plot_feature_drivers
    >>> Y = np.array([[0, 0], [0, 1], [1, 0], [1, 1]] * 10)
    >>> model = LDSMixture(bins=None).fit(Y.sum(axis=1, keepdims=True), Y)
    >>> figure = plot_feature_drivers(model.drivers(0))
    >>> figure.savefig("drivers.png")  # doctest: +SKIP
    """
    if n_sets < 1:
        raise ValueError(f"n_sets={n_sets!r} must be at least 1.")
    require("matplotlib", "Drawing what drives a feature")
    from matplotlib.figure import Figure

    order = np.argsort(-drivers.strength, kind="stable")
    strongest = int(order[0])
    shown = _shown_states(drivers, strongest)
    n_rows = max(min(n_sets, len(order)), len(shown))
    figure = Figure(figsize=(12.0, 1.9 + 0.4 * n_rows), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=[1.0, 1.4])
    _draw_strengths(left, drivers, order[:n_sets])
    _draw_table(right, drivers, strongest, shown)
    figure.suptitle(f"What drives {drivers.feature}", color=INK, parse_math=False)
    return figure


def _shown_states(drivers: FeatureDrivers, k: int) -> Indices:
    """States of a set that occur, the most frequent ones, in their order."""
    frequent = np.argsort(-drivers.state_prob[k], kind="stable")[:_MOST_STATES]
    return np.sort(frequent[drivers.state_prob[k][frequent] > 0])


def _draw_strengths(ax: Axes, drivers: FeatureDrivers, order: Indices) -> None:
    """Bars of weight times information, the largest on top."""
    names = [", ".join(drivers.sets[k]) for k in order]
    places = np.arange(len(order))
    ax.barh(places, drivers.strength[order], color=ACCENT)
    ax.set_yticks(places, names, parse_math=False)
    ax.invert_yaxis()
    ax.set_xlabel("weight times information (nats)")
    for place, k in enumerate(order):
        ax.annotate(
            f" {drivers.weights[k]:.0%}",
            (drivers.strength[k], place),
            va="center",
            color=INK,
            fontsize=8,
        )
    ax.margins(x=0.15)
    ax.set_title("label dependency sets, with their weights", fontsize=10)
    ax.spines[["top", "right"]].set_visible(False)


def _draw_table(ax: Axes, drivers: FeatureDrivers, k: int, shown: Indices) -> None:
    """Probabilities of the feature's values in some states of a set."""
    table = drivers.tables[k][shown]
    ax.imshow(table, cmap="Blues", vmin=0.0, vmax=1.0, aspect="auto")
    names = [
        f"{', '.join(drivers.states[k][s])}  ({drivers.state_prob[k][s]:.0%} of rows)"
        for s in shown
    ]
    ax.set_yticks(np.arange(len(shown)), names, parse_math=False)
    values = [value.replace(" to ", " to\n").replace(" and ", "\nand ") for value in drivers.values]
    ax.set_xticks(np.arange(len(values)), values, parse_math=False, fontsize=8)
    for (row, column), prob in np.ndenumerate(table):
        colour = "white" if prob > 0.6 else INK
        ax.annotate(f"{prob:.2f}", (column, row), ha="center", va="center", color=colour)
    ax.set_title(f"its values given {', '.join(drivers.sets[k])}", parse_math=False, fontsize=10)
