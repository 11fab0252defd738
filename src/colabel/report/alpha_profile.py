"""How structure learning keeps and drops candidate edges, as a figure and as SVG for reports."""

from __future__ import annotations

from collections.abc import Sequence
from io import StringIO
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from colabel.core.arrays import Array, Indices
from colabel.core.optional import require
from colabel.report._axes import FAINT, INK, PALETTE, QUIET, axes_or_new
from colabel.report._html.markup import cut
from colabel.report.graph_plot import checked_edges

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["alpha_profile_svg", "plot_alpha_profile"]

_MOST_NAMES, _LONGEST_NAME = 12, 24  # lines that are named, and how long names may be


def alpha_profile_svg(profile: ArrayLike, edges: ArrayLike, names: Sequence[str]) -> str:
    """Return the figure of `plot_alpha_profile` as SVG, for `StudyFigure`.

    Examples
    --------
    >>> from colabel.report import alpha_profile_svg
    >>> svg = alpha_profile_svg([[0.5, 0.4], [0.7, 0.1], [0.8, 0.0]], [(0, 1), (1, 2)], "abc")
    >>> "a – b" in svg, "1 absent" in svg
    (True, True)
    """
    require("matplotlib", "Drawing a profile")
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    # The same figure gives the same text, and names stay text.
    with rc_context({"svg.hashsalt": "colabel", "svg.fonttype": "none"}):
        figure = Figure(figsize=(7.0, 3.4), layout="constrained")
        plot_alpha_profile(profile, edges, names, figure.add_subplot())
        written = StringIO()
        figure.savefig(written, format="svg", metadata={"Date": None})
    return written.getvalue()


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
    pairs = checked_edges(edges, len(names), None, None).ends
    if values.ndim != 2 or values.shape[1] != len(pairs):
        raise ValueError(
            f"The profile has shape {values.shape}, but there are {len(pairs)} edges: give one"
            " column for each edge."
        )
    ax = axes_or_new(ax, "a profile", 7.5, 4.2)
    from matplotlib.ticker import MaxNLocator

    final = values[-1] if len(values) else np.zeros(len(pairs))
    _draw_lines(ax, values, pairs, names, final)
    ax.set_xlim(0, max(1, len(values) - 1))
    ax.set_ylim(0, 1.05 * max(float(values.max(initial=0.0)), 1e-3))
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set_xlabel("iteration", color=INK)
    ax.set_ylabel(r"$\alpha$ of the edge", color=INK)
    ax.spines[["top", "right"]].set_visible(False)
    if title:
        ax.set_title(title, color=INK, parse_math=False)
    return ax


def _draw_lines(
    ax: Axes, values: Array, pairs: Indices, names: Sequence[str], final: Array
) -> None:
    kept = np.flatnonzero(final > 0)
    for e in np.flatnonzero(final <= 0):
        ax.plot(values[:, e], color=FAINT, linewidth=1.2, zorder=1)
    strongest = kept[np.argsort(-final[kept], kind="stable")]
    for rank, e in enumerate(strongest):
        named = rank < _MOST_NAMES
        style = ("-", "--", ":")[(rank // len(PALETTE)) % 3]
        ax.plot(
            values[:, e],
            color=PALETTE[rank % len(PALETTE)] if named else QUIET,
            linestyle=style if named else "-",
            linewidth=1.8 if named else 0.8,
            label=_edge_name(pairs[e], names) if named else None,
            zorder=3 if named else 2,
        )
    n_absent, n_unnamed = len(pairs) - len(kept), max(0, len(kept) - _MOST_NAMES)
    _profile_legend(ax, n_absent, n_unnamed)


def _profile_legend(ax: Axes, n_absent: int, n_unnamed: int) -> None:
    from matplotlib.lines import Line2D

    lines, labels = ax.get_legend_handles_labels()
    if n_unnamed:
        lines.append(Line2D([], [], color=QUIET, linewidth=0.8))
        labels.append(f"{n_unnamed} more")
    if n_absent:
        lines.append(Line2D([], [], color=FAINT, linewidth=1.2))
        labels.append(f"{n_absent} absent")
    if lines:
        ax.legend(
            lines, labels, loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, fontsize=8
        )


def _edge_name(pair: Indices, names: Sequence[str]) -> str:
    one, two = (cut(names[label], _LONGEST_NAME) for label in pair)
    return f"{one} – {two}".replace("$", r"\$")  # not to be read as mathematics
