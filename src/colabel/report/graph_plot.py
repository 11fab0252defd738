"""The learned label graph as a figure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from colabel.core.arrays import Array, Indices
from colabel.report._axes import INK, QUIET, SIGN_COLOURS, axes_or_new
from colabel.report._html.graph_layout import circle_order
from colabel.report._html.markup import cut

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_label_graph"]


_MEANING = {1: "attract", -1: "repel", 0: "depend"}
_DASHED = (0, (2.5, 1.2))
_WIDEST, _NARROWEST = 6.0, 0.5  # edges, in points
_MOST_NUMBERS = 15  # edges that are labelled with their strength
_LONGEST_NAME = 24


class _Edges(NamedTuple):
    """Checked edges (E, 2) with strengths (E,) and signs (E,)."""

    ends: Indices
    strengths: Array | None
    signs: Indices


def plot_label_graph(
    graph: ArrayLike,
    names: Sequence[str],
    strengths: ArrayLike | None = None,
    signs: ArrayLike | None = None,
    ax: Axes | None = None,
    *,
    title: str | None = None,
) -> Axes:
    """Draw an undirected label graph on a circle.

    Labels that depend strongly on each other are neighbours on the circle. Strong edges are
    wide, weak ones thin and pale; with up to 15 edges their strengths are printed.

    Parameters
    ----------
    graph : int array of shape (E, 2)
        Pairs of labels, such as `PairwiseCRF.graph_`.
    names : sequence of d str
        Long names are cut after 24 characters.
    strengths : array of shape (E,), optional
        Such as `PairwiseCRF.edge_strengths_`.
    signs : array of shape (E,), optional
        Positive where two labels attract each other, negative where they repel (dashed), 0 for
        neither.
    ax : matplotlib Axes, optional
        Where to draw; by default a new figure.
    title : str, optional

    Returns
    -------
    ax : matplotlib Axes
        Its figure is ``ax.figure``.

    Raises
    ------
    ImportError
        If matplotlib is not installed: ``pip install matplotlib``.

    Examples
    --------
    >>> from colabel.report import plot_label_graph
    >>> names = ["calm", "quiet", "angry"]
    >>> ax = plot_label_graph([(0, 1), (0, 2)], names, strengths=[1.2, 0.8], signs=[1, -1])
    >>> ax.figure.savefig("graph.png")  # doctest: +SKIP
    """
    edges = checked_edges(graph, len(names), strengths, signs)
    ax = axes_or_new(ax, "a label graph", 6.5, 4.8)
    weights = np.ones(len(edges.ends)) if edges.strengths is None else edges.strengths
    order = circle_order(len(names), edges.ends.tolist(), np.nan_to_num(weights).tolist())
    angle = np.empty(len(names))
    angle[order] = np.pi / 2 - 2 * np.pi * np.arange(len(names)) / max(1, len(names))
    place = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    _draw_edges(ax, edges, place)
    _draw_labels(ax, names, place, angle, connected=set(edges.ends.ravel().tolist()))
    _draw_legend(ax, edges)
    # Names stand outside the circle, left and right of it.
    ax.set_xlim(-1.9, 1.9)
    ax.set_ylim(-1.4, 1.25)
    ax.set_aspect("equal")
    ax.set_axis_off()
    if title:
        ax.set_title(title, color=INK, parse_math=False)
    return ax


def checked_edges(
    graph: ArrayLike, n_labels: int, strengths: ArrayLike | None, signs: ArrayLike | None
) -> _Edges:
    ends = np.asarray(graph, dtype=np.intp).reshape(-1, 2)
    if len(ends) and not (ends.min() >= 0 and ends.max() < n_labels):
        raise ValueError(
            f"The graph names labels {ends.min()} to {ends.max()}, but there are {n_labels} names."
        )
    if (ends[:, 0] == ends[:, 1]).any():
        raise ValueError("The graph has an edge from a label to itself.")
    known = None if strengths is None else _one_each(strengths, len(ends), "strengths")
    given = np.zeros(len(ends)) if signs is None else _one_each(signs, len(ends), "signs")
    return _Edges(ends, known, np.sign(np.nan_to_num(given)).astype(np.intp))


def _one_each(values: ArrayLike, n_edges: int, name: str) -> Array:
    array = np.asarray(values, dtype=np.float64)
    if array.shape != (n_edges,):
        raise ValueError(f"{name} has shape {array.shape}, but there are {n_edges} edges.")
    return array


def _draw_edges(ax: Axes, edges: _Edges, place: Array) -> None:
    share = _shares(edges)
    numbered = edges.strengths is not None and len(edges.ends) <= _MOST_NUMBERS
    for e in np.argsort(share, kind="stable"):  # strong edges on top
        (x0, y0), (x1, y1) = place[edges.ends[e]]
        sign = int(edges.signs[e])
        ax.plot(
            [x0, x1],
            [y0, y1],
            color=SIGN_COLOURS[sign],
            linewidth=_NARROWEST + (_WIDEST - _NARROWEST) * share[e],
            alpha=0.25 + 0.65 * share[e],
            linestyle=_DASHED if sign < 0 else "solid",
            solid_capstyle="round",
            dash_capstyle="butt",
            zorder=1 + share[e],
        )
        if numbered and edges.strengths is not None:
            # Off the middle, where edges of a circle cross.
            x, y = place[edges.ends[e, 0]] * 0.62 + place[edges.ends[e, 1]] * 0.38
            ax.text(
                x,
                y,
                _number(float(edges.strengths[e])),
                color=SIGN_COLOURS[sign],
                fontsize=8,
                ha="center",
                va="center",
                zorder=3,
                bbox={"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none"},
            )


def _number(strength: float) -> str:
    return f"{strength:.1f}" if abs(strength) >= 1 else f"{strength:.2f}"


def _shares(edges: _Edges) -> Array:
    """Strengths between 0 and 1."""
    if edges.strengths is None:
        return np.full(len(edges.ends), 0.35)
    known = np.nan_to_num(np.abs(edges.strengths))
    return np.asarray(known / max(float(known.max(initial=0.0)), 1e-300))


def _draw_labels(
    ax: Axes, names: Sequence[str], place: Array, angle: Array, connected: set[int]
) -> None:
    for label, name in enumerate(names):
        x, y = place[label]
        lone = label not in connected
        ax.plot(
            [x],
            [y],
            marker="o",
            markersize=10,
            color="white" if lone else "#2f3e52",
            markeredgecolor="#2f3e52",
            linestyle="none",
            zorder=4,
        )
        side = np.cos(angle[label])
        ax.text(
            1.1 * x,
            1.1 * y,
            cut(name, _LONGEST_NAME),
            color=QUIET if lone else INK,
            fontsize=9,
            ha="center" if abs(side) < 0.15 else "left" if side > 0 else "right",
            va="center" if abs(side) >= 0.15 else "bottom" if y > 0 else "top",
            parse_math=False,
            zorder=5,
        )


def _draw_legend(ax: Axes, edges: _Edges) -> None:
    from matplotlib.lines import Line2D

    found = [sign for sign in (1, -1, 0) if (edges.signs == sign).any()]
    if not len(edges.ends) or found == [0]:
        return
    lines = [
        Line2D(
            [], [], color=SIGN_COLOURS[s], linewidth=3, linestyle=(0, (2.5, 1.2)) if s < 0 else "-"
        )
        for s in found
    ]
    labels = [_MEANING[sign] for sign in found]
    ax.legend(lines, labels, loc="lower center", ncols=len(found), frameon=False, fontsize=9)
