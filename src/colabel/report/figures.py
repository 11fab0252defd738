"""Figures of what models have learned: label dependency sets, and edges that come and go."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from colabel.core.lazy import require
from colabel.models.lds.mixture import FeatureDrivers
from colabel.report.displays import ACCENT, INK, QUIET, axes_or_new
from colabel.report.pages import cut

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_FAINT = "#c3cad3"
# Okabe and Ito's colours, which differ for every kind of colour vision.
_PALETTE = (ACCENT, "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
_MOST_STATES = 16  # rows of the table of a label dependency set
_MOST_NAMES = 12  # lines that are named


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
    k, order = int(order[0]), order[:n_sets]
    # states of the strongest set that occur, the most frequent ones, in their order
    frequent = np.argsort(-drivers.state_prob[k], kind="stable")[:_MOST_STATES]
    shown = np.sort(frequent[drivers.state_prob[k][frequent] > 0])
    n_rows = max(len(order), len(shown))
    figure = Figure(figsize=(12.0, 1.9 + 0.4 * n_rows), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=[1.0, 1.4])

    places = np.arange(len(order))
    left.barh(places, drivers.strength[order], color=ACCENT)
    left.set_yticks(places, [", ".join(drivers.sets[s]) for s in order], parse_math=False)
    left.invert_yaxis()
    left.set_xlabel("weight times information (nats)")
    for place, s in enumerate(order):
        at = (drivers.strength[s], place)
        left.annotate(f" {drivers.weights[s]:.0%}", at, va="center", color=INK, fontsize=8)
    left.margins(x=0.15)
    left.set_title("label dependency sets, with their weights", fontsize=10)
    left.spines[["top", "right"]].set_visible(False)

    table = drivers.tables[k][shown]
    right.imshow(table, cmap="Blues", vmin=0.0, vmax=1.0, aspect="auto")
    names = [
        f"{', '.join(drivers.states[k][s])}  ({drivers.state_prob[k][s]:.0%} of rows)"
        for s in shown
    ]
    right.set_yticks(np.arange(len(shown)), names, parse_math=False)
    values = [value.replace(" to ", " to\n").replace(" and ", "\nand ") for value in drivers.values]
    right.set_xticks(np.arange(len(values)), values, parse_math=False, fontsize=8)
    for (row, column), prob in np.ndenumerate(table):
        colour = "white" if prob > 0.6 else INK
        right.annotate(f"{prob:.2f}", (column, row), ha="center", va="center", color=colour)
    title = f"its values given {', '.join(drivers.sets[k])}"
    right.set_title(title, parse_math=False, fontsize=10)
    figure.suptitle(f"What drives {drivers.feature}", color=INK, parse_math=False)
    return figure


def plot_alpha_profile(
    profile: ArrayLike,
    edges: ArrayLike,
    names: Sequence[str],
    ax: Axes | None = None,
    *,
    title: str | None = None,
) -> Axes:
    r"""Draw how structure learning kept and dropped edges, as in Figure 2 of the MLCRF paper.

    One line per candidate edge: its slack :math:`\alpha_e` (or norm) after each iteration.
    Edges that end at zero are absent from the graph and drawn grey; the strongest of the others
    are named.

    Parameters
    ----------
    profile : array of shape (iterations + 1, E)
        Such as `PairwiseCRF.alpha_profile_`.
    edges : int array of shape (E, 2)
        Pairs of labels, such as `PairwiseCRF.candidates_`.
    names : sequence of d str
        Names of the labels.
    ax : matplotlib Axes, optional
        Where to draw; by default a new figure.
    title : str, optional

    Returns
    -------
    ax : matplotlib Axes
        Its figure is ``ax.figure``.

    Examples
    --------
    >>> from colabel.report import plot_alpha_profile
    >>> ax = plot_alpha_profile([[0.5, 0.4], [0.7, 0.1], [0.8, 0.0]], [(0, 1), (1, 2)], "abc")
    >>> len(ax.lines)
    2
    """
    values = np.asarray(profile, dtype=np.float64)
    pairs = np.asarray(edges, dtype=np.intp).reshape(-1, 2)
    if len(pairs) and not 0 <= pairs.min() <= pairs.max() < len(names):
        raise ValueError(
            f"The edges join labels {pairs.min()} to {pairs.max()}, but there are {len(names)}"
            " names."
        )
    if values.ndim != 2 or values.shape[1] != len(pairs):
        raise ValueError(
            f"The profile has shape {values.shape}, but there are {len(pairs)} edges: give one"
            " column for each edge."
        )
    ax = axes_or_new(ax, "a profile", 7.5, 4.2)
    from matplotlib.lines import Line2D
    from matplotlib.ticker import MaxNLocator

    final = values[-1] if len(values) else np.zeros(len(pairs))
    absent = np.flatnonzero(final <= 0)
    kept = np.argsort(-final, kind="stable")[: len(final) - len(absent)]
    for e in absent:
        ax.plot(values[:, e], color=_FAINT, linewidth=1.2, zorder=1)
    for e in kept[_MOST_NAMES:]:
        ax.plot(values[:, e], color=QUIET, linewidth=0.8, zorder=2)
    for rank, e in enumerate(kept[:_MOST_NAMES]):
        one, two = (cut(names[label], 24) for label in pairs[e])
        ax.plot(
            values[:, e],
            color=_PALETTE[rank % len(_PALETTE)],
            linestyle=("-", "--", ":")[rank // len(_PALETTE) % 3],
            linewidth=1.8,
            label=f"{one} – {two}".replace("$", r"\$"),  # not to be read as mathematics
            zorder=3,
        )
    lines, labels = ax.get_legend_handles_labels()
    for count, colour, what in (
        (len(kept) - _MOST_NAMES, QUIET, "more"),
        (len(absent), _FAINT, "absent"),
    ):
        if count > 0:
            lines.append(Line2D([], [], color=colour, linewidth=1.0))
            labels.append(f"{count} {what}")
    if lines:
        ax.legend(
            lines, labels, loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, fontsize=8
        )
    ax.set_xlim(0, max(1, len(values) - 1))
    ax.set_ylim(0, 1.05 * max(float(values.max(initial=0.0)), 1e-3))
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set_xlabel("iteration", color=INK)
    ax.set_ylabel(r"$\alpha$ of the edge", color=INK)
    ax.spines[["top", "right"]].set_visible(False)
    if title:
        ax.set_title(title, color=INK, parse_math=False)
    return ax
