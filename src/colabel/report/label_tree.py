"""The learned label tree as a figure.

A figure is laid out first and drawn second. The drawing is in inches, from the top left corner: the
trees grow from left to right, because names are wide and flat, so that many rows fit one page.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from colabel.core.optional import require
from colabel.report._axes import INK, QUIET, SIGN_COLOURS
from colabel.report._tree_drawing import LINE, NAME_SIZE, Arc, Box, Drawing, make_drawing
from colabel.report.tree_shape import Forest, arc_values, checked_names, tree_layout, tree_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_label_tree", "tree_layout", "tree_text"]

_BACKGROUND = "white"
# Fill, edge and text of the boxes.
_BOX_COLOURS = {
    "root": ("#2f3e52", "#2f3e52", "white"),
    "child": ("#f3f5f8", "#8a97a6", INK),
    "lone": (_BACKGROUND, "#2f3e52", INK),
}


def plot_label_tree(
    parents: ArrayLike,
    names: Sequence[str],
    *,
    strengths: ArrayLike | None = None,
    signs: ArrayLike | None = None,
    ax: Axes | None = None,
    title: str | None = None,
) -> Axes:
    """Draw a label tree (or forest) from left to right.

    Parameters
    ----------
    parents : int array of shape (d,)
        Parent of each label, -1 for roots.
    names : sequence of d str
        Long names are broken over up to four lines, and cut after that.
    strengths : array of shape (d,), optional
        Gain in held-out log-likelihood per row (nats) of the arc into each label, shown by the
        width of the arrow and as a number; NaN for unknown. What stands at roots is ignored.
    signs : array of shape (d,), optional
        Positive where a label and its parent attract each other, negative where they repel, 0 or
        NaN for neither. What stands at roots is ignored.
    ax : matplotlib Axes, optional
        Where to draw; the drawing is made smaller if need be. By default a new figure of the size
        that the tree needs.
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
    >>> from colabel.report import plot_label_tree
    >>> ax = plot_label_tree([-1, 0, 0], ["calm", "quiet", "sad"], strengths=[0, 0.12, 0.03])
    >>> ax.figure.savefig("tree.png")  # doctest: +SKIP
    """
    forest = Forest.from_parents(parents)
    labels = checked_names(names, len(forest.parents))
    gains = arc_values(strengths, forest, "strengths")
    directions = np.sign(np.nan_to_num(arc_values(signs, forest, "signs"))).astype(int)
    require("matplotlib", "Drawing a label tree", ", or print colabel.report.tree_text instead")
    drawing = make_drawing(forest, labels, gains, directions, title)
    if ax is None:
        ax = _new_axes(drawing)
    _draw(ax, drawing)
    return ax


def _new_axes(drawing: Drawing) -> Axes:
    from matplotlib import pyplot as plt

    figure = plt.figure(figsize=(drawing.width, drawing.height), facecolor=_BACKGROUND)
    return figure.add_axes((0.0, 0.0, 1.0, 1.0))


def _draw(ax: Axes, drawing: Drawing) -> None:
    """Draw in inches; all sizes in points shrink with the axes if these are too small."""
    window = ax.get_window_extent()
    inches = window.width / ax.figure.dpi, window.height / ax.figure.dpi
    scale = min(1.0, inches[0] / drawing.width, inches[1] / drawing.height)
    ax.set_xlim(0.0, drawing.width)
    ax.set_ylim(drawing.height, 0.0)
    ax.set_aspect("equal", adjustable="box")
    ax.set_axis_off()
    for arc in drawing.arcs:
        _draw_arc(ax, arc, scale)
    for box in drawing.boxes:
        _draw_box(ax, box, scale)
    for text in drawing.texts:
        ax.text(
            text.x,
            text.y,
            text.text,
            fontsize=text.size * scale,
            fontweight="bold" if text.bold else "normal",
            color=INK if text.bold else QUIET,
            ha=text.align,
            va="center",
            parse_math=False,
            zorder=3,
        )


def _draw_arc(ax: Axes, arc: Arc, scale: float) -> None:
    from matplotlib.patches import PathPatch, Polygon
    from matplotlib.path import Path

    colour = SIGN_COLOURS[arc.sign]
    length, half = 0.08 + 0.014 * arc.width, 0.03 + 0.011 * arc.width  # of the arrow's head
    (x0, y0), (x1, y1) = arc.start, arc.end
    middle = (x0 + arc.lane) / 2.0
    curve = Path.CURVE4
    path = Path(
        [(x0, y0), (middle, y0), (middle, y1), (arc.lane, y1), (x1 - length, y1)],
        [Path.MOVETO, curve, curve, curve, Path.LINETO],
    )
    ax.add_patch(
        PathPatch(
            path,
            fill=False,
            edgecolor=colour,
            linewidth=arc.width * scale,
            linestyle=(0, (2.5, 1.2)) if arc.sign < 0 else "solid",
            capstyle="butt",
            zorder=1,
        )
    )
    head = [(x1, y1), (x1 - length, y1 - half), (x1 - length, y1 + half)]
    ax.add_patch(Polygon(head, closed=True, facecolor=colour, edgecolor="none", zorder=1))


def _draw_box(ax: Axes, box: Box, scale: float) -> None:
    from matplotlib.patches import FancyBboxPatch

    fill, edge, ink = _BOX_COLOURS[box.kind]
    ax.add_patch(
        FancyBboxPatch(
            (box.x, box.y - box.height / 2.0),
            box.width,
            box.height,
            boxstyle="round,pad=0,rounding_size=0.07",
            facecolor=fill,
            edgecolor=edge,
            linewidth=1.0 * scale,
            zorder=2,
        )
    )
    ax.text(
        box.x + box.width / 2.0,
        box.y,
        box.text,
        fontsize=NAME_SIZE * scale,
        fontweight="bold" if box.kind == "root" else "normal",
        color=ink,
        ha="center",
        va="center",
        linespacing=LINE,
        parse_math=False,
        zorder=3,
    )
