"""The learned label graph and the profile of its edges as figures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from colabel.core.arrays import Array, Indices

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_alpha_profile", "plot_label_graph"]


_INK = "#1b2430"
_QUIET = "#5c6773"
_FAINT = "#c3cad3"
# Okabe and Ito's blue and vermilion, which differ for every kind of colour vision; repelling edges
# are dashed as well, so that a print without colour still tells them apart.
_COLOURS = {1: "#0072b2", -1: "#d55e00", 0: _QUIET}
_MEANING = {1: "attract", -1: "repel", 0: "depend"}
# For the lines of a profile, in this order.
_LINES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
_WIDEST, _NARROWEST = 6.0, 0.5  # edges, in points
_MOST_NUMBERS = 15  # edges that are labelled with their strength
_MOST_NAMES = 12  # lines of a profile that are named
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
    edges = _checked_edges(graph, len(names), strengths, signs)
    _require_matplotlib("Drawing a label graph")
    if ax is None:
        ax = _new_axes(6.5, 4.8)
    order = _circle_order(edges, len(names))
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
        ax.set_title(title, color=_INK, parse_math=False)
    return ax


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
    pairs = _checked_edges(edges, len(names), None, None).ends
    if values.ndim != 2 or values.shape[1] != len(pairs):
        raise ValueError(
            f"The profile has shape {values.shape}, but there are {len(pairs)} edges: give one"
            " column for each edge."
        )
    _require_matplotlib("Drawing a profile")
    from matplotlib.ticker import MaxNLocator

    if ax is None:
        ax = _new_axes(7.5, 4.2)
    final = values[-1] if len(values) else np.zeros(len(pairs))
    _draw_lines(ax, values, pairs, names, final)
    ax.set_xlim(0, max(1, len(values) - 1))
    ax.set_ylim(0, 1.05 * max(float(values.max(initial=0.0)), 1e-3))
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set_xlabel("iteration", color=_INK)
    ax.set_ylabel(r"$\alpha$ of the edge", color=_INK)
    ax.spines[["top", "right"]].set_visible(False)
    if title:
        ax.set_title(title, color=_INK, parse_math=False)
    return ax


def _require_matplotlib(what: str) -> None:
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise ImportError(
            f"{what} needs matplotlib, which is not installed: run pip install matplotlib."
        ) from None


def _new_axes(width: float, height: float) -> Axes:
    from matplotlib import pyplot as plt

    figure = plt.figure(figsize=(width, height), facecolor="white", layout="constrained")
    return figure.add_subplot()


def _checked_edges(
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


def _circle_order(edges: _Edges, n_labels: int) -> list[int]:
    """Put strongly connected labels beside each other: merge chains along the strongest edges."""
    weight = np.ones(len(edges.ends)) if edges.strengths is None else edges.strengths
    chains = [[label] for label in range(n_labels)]
    for e in np.argsort(-np.nan_to_num(weight), kind="stable"):
        left, right = edges.ends[e].tolist()
        one = next(chain for chain in chains if left in chain)
        two = next(chain for chain in chains if right in chain)
        if one is two or left not in (one[0], one[-1]) or right not in (two[0], two[-1]):
            continue
        chains.remove(two)
        if left == one[0]:
            one.reverse()
        one.extend(two if right == two[0] else two[::-1])
    chains.sort(key=len, reverse=True)
    return [label for chain in chains for label in chain]


def _draw_edges(ax: Axes, edges: _Edges, place: Array) -> None:
    share = _shares(edges)
    numbered = edges.strengths is not None and len(edges.ends) <= _MOST_NUMBERS
    for e in np.argsort(share, kind="stable"):  # strong edges on top
        (x0, y0), (x1, y1) = place[edges.ends[e]]
        sign = int(edges.signs[e])
        ax.plot(
            [x0, x1],
            [y0, y1],
            color=_COLOURS[sign],
            linewidth=_NARROWEST + (_WIDEST - _NARROWEST) * share[e],
            alpha=0.25 + 0.65 * share[e],
            linestyle=(0, (2.5, 1.2)) if sign < 0 else "solid",
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
                color=_COLOURS[sign],
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
            _cut(name),
            color=_QUIET if lone else _INK,
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
        Line2D([], [], color=_COLOURS[s], linewidth=3, linestyle=(0, (2.5, 1.2)) if s < 0 else "-")
        for s in found
    ]
    labels = [_MEANING[sign] for sign in found]
    ax.legend(lines, labels, loc="lower center", ncols=len(found), frameon=False, fontsize=9)


def _draw_lines(
    ax: Axes, values: Array, pairs: Indices, names: Sequence[str], final: Array
) -> None:
    kept = np.flatnonzero(final > 0)
    for e in np.flatnonzero(final <= 0):
        ax.plot(values[:, e], color=_FAINT, linewidth=1.2, zorder=1)
    strongest = kept[np.argsort(-final[kept], kind="stable")]
    for rank, e in enumerate(strongest):
        named = rank < _MOST_NAMES
        style = ("-", "--", ":")[(rank // len(_LINES)) % 3]
        ax.plot(
            values[:, e],
            color=_LINES[rank % len(_LINES)] if named else _QUIET,
            linestyle=style if named else "-",
            linewidth=1.8 if named else 0.8,
            label=_escaped(f"{_cut(names[pairs[e, 0]])} – {_cut(names[pairs[e, 1]])}")
            if named
            else None,
            zorder=3 if named else 2,
        )
    n_absent, n_unnamed = len(pairs) - len(kept), max(0, len(kept) - _MOST_NAMES)
    _profile_legend(ax, n_absent, n_unnamed)


def _profile_legend(ax: Axes, n_absent: int, n_unnamed: int) -> None:
    from matplotlib.lines import Line2D

    lines, labels = ax.get_legend_handles_labels()
    if n_unnamed:
        lines.append(Line2D([], [], color=_QUIET, linewidth=0.8))
        labels.append(f"{n_unnamed} more")
    if n_absent:
        lines.append(Line2D([], [], color=_FAINT, linewidth=1.2))
        labels.append(f"{n_absent} absent")
    if lines:
        ax.legend(
            lines, labels, loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, fontsize=8
        )


def _cut(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 1] + "…"


def _escaped(text: str) -> str:
    """Keep dollar signs from being read as mathematics."""
    return text.replace("$", r"\$")
