"""Which label depends on which: laid out once, drawn as SVG or by matplotlib, written as text.

A forest grows from left to right or, where that is too wide, goes down one label a line, indented
by depth. Any other graph has one label a line and its edges as arcs beside them. So every drawing
can be made narrow enough for a phone.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from colabel.core.arrays import Array
from colabel.models.label_graph import LabelGraph
from colabel.models.wrapped import model_inside
from colabel.report.pages import counted, cut, fixed, rendered, signed

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["graph_svg", "graph_text", "label_graph", "lay_out", "page_graph", "plot_label_graph"]

NARROW, WIDE = 356.0, 760.0  # what a phone shows without scrolling, and what a page does
ATTRACT, REPEL, NEITHER = "#2783c4", "#d0621b", "#7b8794"  # on white and on black alike
_FONT, _PAD, _BOX, _LINE = 13.0, 8.0, 24.0, 28.0  # pixels
_INDENT, _LEAST_INDENT = 34.0, 14.0
_LONGEST_NAME = 26
_MOST_NUMBERS = 15  # edges of a graph whose arcs carry numbers
_MOST_LINES = 40  # of text
_THIN, _THICK = 1.2, 5.0


def label_graph(model: Any) -> LabelGraph:
    """Return which label depends on which, as a fitted model has learned it.

    Parameters
    ----------
    model : fitted estimator of colabel, or a pipeline, search or table model around one

    Returns
    -------
    LabelGraph
        Without edges for models that learn none; its `meaning` says so.

    Examples
    --------
    >>> from colabel import CTBN
    >>> from colabel.datasets import load_digit_traits
    >>> from colabel.report import label_graph
    >>> data = load_digit_traits()
    >>> model = CTBN(C=0.01, random_state=0)
    >>> model = model.fit(data.X[:300], data.Y[:300], label_names=data.label_names)
    >>> graph = label_graph(model)
    >>> graph.names[graph.ends[0, 0]] in data.label_names, graph.directed
    (True, True)
    """
    inner = model_inside(model)
    if not hasattr(inner, "label_graph"):
        raise TypeError(
            f"{type(inner).__name__} has no label graph: give a fitted model of colabel, or a "
            "pipeline or a search with one at its end."
        )
    graph: LabelGraph = inner.label_graph()
    return graph


# ----------------------------------------------------------------------------------- the layout


class Forest(NamedTuple):
    """A forest in reading order: each label directly before those below it, larger trees first."""

    order: list[int]
    depths: list[int]  # of each label
    parents: list[int]  # -1 for roots
    children: list[list[int]]  # of each label, and last the roots


def forest_of(graph: LabelGraph) -> Forest | None:
    """Sort the labels of a directed graph; None where it is no forest."""
    if not graph.directed:
        return None
    n = len(graph.names)
    parents = [-1] * n
    for above, below in graph.ends.tolist():
        if parents[below] != -1:
            return None
        parents[below] = above
    children: list[list[int]] = [[] for _ in range(n + 1)]
    for label, parent in enumerate(parents):
        children[parent].append(label)

    def walk() -> list[int]:
        order, stack = [], children[-1][::-1]
        while stack:
            order.append(stack.pop())
            stack += children[order[-1]][::-1]
        return order

    order = walk()
    if len(order) < n:  # the others go round in a circle
        return None
    sizes, depths = [1] * (n + 1), [0] * n
    for label in reversed(order):
        sizes[parents[label]] += sizes[label]
    for siblings in children:
        siblings.sort(key=lambda label: (-sizes[label], label))
    order = walk()
    for label in order:
        depths[label] = depths[parents[label]] + 1 if parents[label] >= 0 else 0
    return Forest(order, depths, parents, children)


class Note(NamedTuple):
    """A number beside an edge."""

    x: float
    y: float
    text: str
    anchor: str  # "start", "middle" or "end"


@dataclass
class Drawing:
    """Where everything goes, in pixels from the top left corner.

    Attributes
    ----------
    width, height : float
    boxes : list of d tuples (left, middle, width)
        Of each label: the left end of its box and the height of its middle.
    order : list of d int
        In which the labels are read.
    curves : list of E tuples of four points
        A cubic curve for each edge; it ends level.
    stems : list of pairs of points
        Lines that edges share.
    notes : list of Note
    """

    width: float
    height: float
    boxes: list[tuple[float, float, float]]
    order: list[int]
    curves: list[tuple[tuple[float, float], ...]] = field(default_factory=list)
    stems: list[tuple[tuple[float, float], ...]] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)


def lay_out(graph: LabelGraph, widest: float = WIDE, *, numbers: bool = True) -> Drawing:
    """Place the labels and the edges of a graph in a drawing of at most some width, if possible.

    Parameters
    ----------
    graph : LabelGraph
    widest : float
        In pixels, at 13 pixels the letter.
    numbers : bool
        Whether the strengths stand beside the edges.
    """
    widths = [_text_width(cut(name, _LONGEST_NAME)) + 2.0 * _PAD for name in graph.names]
    notes = [""] * len(graph.ends)
    if numbers and graph.strengths is not None:
        notes = [strength_note(s) for s in graph.strengths.tolist()]
    forest = forest_of(graph)
    if forest is not None:
        drawing = _layers(graph, forest, widths, notes)
        if drawing.width <= widest:
            return drawing
        deepest = [(i, depth) for i, depth in enumerate(forest.depths) if depth]
        room = widest - 4.0 - max(map(_text_width, notes), default=0.0) - 6.0
        indent = min([_INDENT, *((room - widths[i]) / depth for i, depth in deepest)])
        if indent >= _LEAST_INDENT:
            return _outline(graph, forest, widths, notes, indent)
    return _arcs(graph, widths, notes if len(notes) <= _MOST_NUMBERS else [], widest)


def _layers(
    graph: LabelGraph, forest: Forest, widths: Sequence[float], notes: Sequence[str]
) -> Drawing:
    """Depth from left to right; parents stand halfway between their first and last child."""
    across = [0.0] * len(widths)
    n_leaves = 0
    for i in forest.order:
        if not forest.children[i]:
            across[i], n_leaves = float(n_leaves), n_leaves + 1
    for i in reversed(forest.order):
        if forest.children[i]:
            across[i] = (across[forest.children[i][0]] + across[forest.children[i][-1]]) / 2.0
    gap = 54.0 + max(map(_text_width, notes), default=0.0)
    lefts = [2.0]
    for depth in range(max(forest.depths)):
        lefts.append(
            lefts[-1] + gap + max(widths[i] for i in forest.order if forest.depths[i] == depth)
        )
    pitch = _BOX + 12.0
    boxes = [
        (lefts[depth], 2.0 + _BOX / 2.0 + pitch * place, width)
        for depth, place, width in zip(forest.depths, across, widths, strict=True)
    ]
    drawing = Drawing(
        max(left + width for left, _, width in boxes) + 2.0,
        max(y for _, y, _ in boxes) + _BOX / 2.0 + 2.0,
        boxes,
        forest.order,
    )
    for (i, j), note in zip(graph.ends.tolist(), notes, strict=True):
        (left, y0, width), (x1, y1, _) = boxes[i], boxes[j]
        x0 = left + width
        drawing.curves.append(((x0, y0), (x0 + 26.0, y0), (x1 - 26.0, y1), (x1, y1)))
        if note:
            drawing.notes.append(Note(x1 - 12.0, y1 - 6.0, note, "end"))
    return drawing


def _outline(
    graph: LabelGraph,
    forest: Forest,
    widths: Sequence[float],
    notes: Sequence[str],
    indent: float,
) -> Drawing:
    """One label a line, indented by depth; edges from one label share a stem."""
    boxes = [(0.0, 0.0, 0.0)] * len(widths)
    for line, i in enumerate(forest.order):
        boxes[i] = (2.0 + indent * forest.depths[i], _middle(line), widths[i])
    right = [left + width for left, _, width in boxes]
    drawing = Drawing(max(right) + 2.0, _LINE * len(widths) + 2.0, boxes, forest.order)
    for (i, j), note in zip(graph.ends.tolist(), notes, strict=True):
        x, y = boxes[i][0] + min(11.0, 0.6 * indent), boxes[j][1]
        end = boxes[j][0]
        drawing.stems.append(((x, boxes[i][1] + _BOX / 2.0), (x, y)))
        drawing.curves.append(((x, y), (x, y), (end, y), (end, y)))
        if note:
            drawing.notes.append(Note(right[j] + 6.0, y + 4.5, note, "start"))
            drawing.width = max(drawing.width, right[j] + 8.0 + _text_width(note))
    return drawing


def _arcs(
    graph: LabelGraph, widths: Sequence[float], notes: Sequence[str], widest: float
) -> Drawing:
    """One label a line, strongly connected ones beside each other; edges are arcs at the right."""
    ends = graph.ends.tolist()
    order = _neighbouring(len(widths), ends, _shares(graph).tolist())
    line_of = {label: line for line, label in enumerate(order)}
    right = max(widths, default=0.0) + 2.0
    boxes = [(right - width, _middle(line_of[i]), width) for i, width in enumerate(widths)]
    longest = max((abs(line_of[i] - line_of[j]) for i, j in ends), default=1)
    # a cubic reaches three quarters of the way to its handles
    room = max(widest - right - 36.0 if any(notes) else widest - right, 60.0)
    nearest, farthest = 56.0, min(room, 60.0 + 40.0 * longest) / 0.75
    drawing = Drawing(right + 2.0, _LINE * len(widths) + 2.0, boxes, order)
    for e, (i, j) in enumerate(ends):
        span = (abs(line_of[i] - line_of[j]) - 1) / max(1, longest - 1)
        x = right + nearest + (farthest - nearest) * math.sqrt(span)
        # edges to labels below leave the lower half of a box, those to labels above the upper
        down = 4.0 if line_of[i] < line_of[j] else -4.0
        one, two = boxes[i][1] + down, boxes[j][1] - down
        drawing.curves.append(((right, one), (x, one), (x, two), (right, two)))
        reach = right + 0.75 * (x - right)
        if notes and notes[e]:
            drawing.notes.append(Note(reach + 3.0, (one + two) / 2.0 + 4.5, notes[e], "start"))
            reach += 3.0 + _text_width(notes[e])
        drawing.width = max(drawing.width, reach + 4.0)
    return drawing


def _middle(line: int) -> float:
    return _LINE * line + _BOX / 2.0 + 2.0


def _neighbouring(
    n_labels: int, ends: Sequence[Sequence[int]], strengths: Sequence[float]
) -> list[int]:
    """Put strongly connected labels beside each other: join chains along the strongest edges.

    >>> _neighbouring(4, [(0, 2), (1, 3), (2, 3)], [0.9, 0.8, 0.1])
    [0, 2, 3, 1]
    """
    chains = {label: [label] for label in range(n_labels)}  # every label's chain, shared
    for e in sorted(range(len(ends)), key=lambda e: (-strengths[e], e)):
        left, right = ends[e]
        one, two = chains[left], chains[right]
        if one is two or left not in (one[0], one[-1]) or right not in (two[0], two[-1]):
            continue
        if left == one[0]:
            one.reverse()
        one.extend(two if right == two[0] else two[::-1])
        for label in two:
            chains[label] = one
    distinct = list({id(chain): chain for chain in chains.values()}.values())
    return [label for chain in sorted(distinct, key=len, reverse=True) for label in chain]


def _shares(graph: LabelGraph) -> Array:
    """Strengths (E,) between 0 and 1, which is the strongest."""
    if graph.strengths is None:
        return np.full(len(graph.ends), 0.2)
    known = np.nan_to_num(np.abs(graph.strengths))
    return np.asarray(known / max(float(known.max(initial=0.0)), 1e-300))


def _text_width(text: str) -> float:
    """Estimate the width of text in a common sans-serif face, on the generous side."""

    def letter(one: str) -> float:
        if one in "iljtfrI.,:;'|!()[] ":
            return 0.38
        if one in "mwMW@%" or one.isupper():
            return 0.88 if one in "mwMW@%" else 0.72
        return 1.05 if unicodedata.east_asian_width(one) in "WF" else 0.6

    return _FONT * sum(map(letter, text))


# ---------------------------------------------------------------------------------- the drawings


def graph_svg(
    graph: LabelGraph,
    widest: float = WIDE,
    *,
    numbers: bool = True,
    spoken: Sequence[str] | None = None,
    alone: bool = False,
) -> str:
    """Draw a label graph as SVG, legible on white and on black.

    Parameters
    ----------
    graph : LabelGraph
    widest : float
        Width in pixels that it should not exceed: 356 fits a phone.
    numbers : bool
        Whether the strengths stand beside the edges.
    spoken : sequence of d str, optional
        What is read aloud of each label, on a page whose script lets labels be chosen.
    alone : bool
        Whether it is a file of its own, which takes its colours from no page around it.

    Examples
    --------
    >>> from colabel.report import LabelGraph, graph_svg
    >>> import numpy as np
    >>> graph = LabelGraph(("calm", "quiet"), np.array([[0, 1]]), "", directed=True)
    >>> graph_svg(graph)[:4], ">quiet</text>" in graph_svg(graph)
    ('<svg', True)
    """
    drawing = lay_out(graph, widest, numbers=numbers)
    shares, joined = _shares(graph), set(graph.ends.ravel().tolist())
    edges = []
    for e in np.argsort(shares, kind="stable").tolist():  # strong ones on top
        curve, sign = drawing.curves[e], _sign(graph, e)
        before, end = curve[2], curve[3]
        edges.append(
            {
                "path": "M{} {}C{} {} {} {} {} {}".format(*(f"{v:.1f}" for p in curve for v in p)),
                "head": (end, -7 if end[0] >= before[0] else 7) if graph.directed else None,
                "width": _THIN + (_THICK - _THIN) * shares[e],
                "kind": ("", "more", "less")[sign],
                "colour": (NEITHER, ATTRACT, REPEL)[sign],
                "ends": graph.ends[e].tolist(),
            }
        )
    nodes = [
        {
            "label": i,
            "box": drawing.boxes[i],
            "name": graph.names[i],
            "shown": cut(graph.names[i], _LONGEST_NAME),
            "spoken": spoken[i] if spoken is not None else None,
            "lone": i not in joined,
        }
        for i in drawing.order
    ]
    content = {"drawing": drawing, "edges": edges, "nodes": nodes, "alone": alone}
    return rendered("graph.svg", **content, height=_BOX)


def _sign(graph: LabelGraph, e: int) -> int:
    return 0 if graph.signs is None else int(np.sign(np.nan_to_num(graph.signs[e])))


def plot_label_graph(
    graph: LabelGraph, ax: Axes | None = None, *, title: str | None = None
) -> Axes:
    """Draw a label graph by matplotlib: the same drawing as `graph_svg`.

    Parameters
    ----------
    graph : LabelGraph
        From `label_graph(model)`.
    ax : matplotlib Axes, optional
        Where to draw; the drawing is made smaller if need be. By default a new figure of the size
        that the graph needs.
    title : str, optional

    Returns
    -------
    ax : matplotlib Axes
        Its figure is ``ax.figure``.

    Examples
    --------
    >>> import numpy as np
    >>> from colabel.report import LabelGraph, plot_label_graph
    >>> ends = np.array([[0, 1], [0, 2]])
    >>> graph = LabelGraph(("calm", "quiet", "angry"), ends, "", strengths=np.array([1.2, 0.8]))
    >>> plot_label_graph(graph).figure.savefig("graph.png")  # doctest: +SKIP
    """
    from colabel.report.displays import INK, QUIET, axes_or_new

    drawing = lay_out(graph)
    width, height = max(drawing.width, 320.0) + 16.0, drawing.height + 44.0  # with a legend below
    ax = axes_or_new(ax, "a label graph", width / 96.0, (height + 30.0 * bool(title)) / 96.0)
    from matplotlib.lines import Line2D
    from matplotlib.patches import FancyBboxPatch, PathPatch, Polygon
    from matplotlib.path import Path

    window = ax.get_window_extent()
    inches = window.width / ax.figure.dpi, window.height / ax.figure.dpi
    point = 72.0 * min(1.0 / 96.0, inches[0] / width, inches[1] / height)  # of a pixel
    ax.set(xlim=(-8.0, width - 8.0), ylim=(height - 4.0, -4.0))
    ax.set_aspect("equal")
    ax.set_axis_off()
    for stem in drawing.stems:
        ax.plot(*zip(*stem, strict=True), color=NEITHER, linewidth=1.2 * point, zorder=0)
    shares = _shares(graph)
    dashed = (0, (2.5, 1.2))
    for e in np.argsort(shares, kind="stable").tolist():
        curve, sign = drawing.curves[e], _sign(graph, e)
        colour = (NEITHER, ATTRACT, REPEL)[sign]
        path = Path(curve, [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4])
        line = "solid" if sign >= 0 else dashed
        thick = point * (_THIN + (_THICK - _THIN) * shares[e])
        ax.add_patch(
            PathPatch(path, fill=False, ec=colour, lw=thick, ls=line, alpha=0.85, zorder=1)
        )
        if graph.directed:
            (x, y), back = curve[3], -8 if curve[3][0] >= curve[2][0] else 8
            ax.add_patch(
                Polygon([(x, y), (x + back, y - 5), (x + back, y + 5)], fc=colour, zorder=2)
            )
    small, normal = 8.5 * point / 0.75, 9.75 * point / 0.75
    for i, (left, y, wide) in enumerate(drawing.boxes):
        style = "round,pad=0,rounding_size=4"
        box = FancyBboxPatch((left, y - _BOX / 2), wide, _BOX, style, fc="#f1f4f7", ec="#8a97a6")
        box.set(linewidth=point, zorder=3)
        ax.add_patch(box)
        place: dict[str, Any] = {"ha": "center", "va": "center", "zorder": 4, "parse_math": False}
        name = cut(graph.names[i], _LONGEST_NAME)
        ax.text(left + wide / 2, y, name, fontsize=normal, color=INK, **place)
    sides = {"start": "left", "middle": "center", "end": "right"}
    for note in drawing.notes:
        at = (note.x, note.y)
        ax.text(*at, note.text, fontsize=small, color=QUIET, ha=sides[note.anchor], va="baseline")
    signs = {_sign(graph, e) for e in range(len(graph.ends))} - {0}
    words = {1: "attract", -1: "repel"}
    lines = [
        Line2D([], [], color=(ATTRACT, REPEL)[s < 0], lw=3 * point, ls=dashed if s < 0 else "-")
        for s in sorted(signs, reverse=True)
    ]
    if lines:
        shown = [words[s] for s in sorted(signs, reverse=True)]
        ax.legend(lines, shown, loc="lower left", ncols=2, frameon=False, fontsize=small)
    if title:
        ax.set_title(title, color=INK, parse_math=False, fontsize=11)
    return ax


# -------------------------------------------------------------------------------------- the text


def graph_text(graph: LabelGraph) -> str:
    """Return a graph as lines of text: a tree, or its edges, strongest first.

    Examples
    --------
    >>> import numpy as np
    >>> from colabel.report import LabelGraph, graph_text
    >>> gains = np.zeros((4, 4))
    >>> gains[0, 1], gains[0, 2], gains[2, 3] = 0.25, 0.031, 0.5
    >>> names = ("calm", "sad", "quiet", "slow")
    >>> print(graph_text(LabelGraph.of_tree(names, [-1, 0, 0, 2], gains)))
    calm
    ├── quiet     0.031
    │   └── slow  0.500
    └── sad       0.250
    """
    forest = None if graph.parents is None else forest_of(graph)
    names = [" ".join(name.split()) for name in graph.names]
    if forest is not None:
        into = graph.into_labels.tolist()
        indents = {-1: ""}  # what the lines below a label begin with
        lines = []
        for i in forest.order:
            parent = forest.parents[i]
            last = i == forest.children[parent][-1]
            branch, below = ("└── ", "    ") if last else ("├── ", "│   ")
            if parent < 0:
                branch, below = "", ""
            lines.append((indents[parent] + branch + names[i], strength_note(into[i])))
            indents[i] = indents[parent] + below
        return _aligned(lines)
    if not len(graph.ends):
        return "No edges."
    arrow = "→" if graph.directed else "–"
    lines = []
    for e, (i, j) in graph.pairs[:_MOST_LINES]:
        note = "" if graph.strengths is None else strength_note(float(graph.strengths[e]))
        kind = ("", " attract", " repel")[_sign(graph, e)]
        lines.append((f"{names[i]} {arrow} {names[j]}", note + kind))
    more = len(graph.ends) - len(lines)
    return _aligned(lines) + (f"\nand {more} more" if more else "")


def _aligned(lines: Sequence[tuple[str, str]]) -> str:
    """Write numbers in a column behind what they say something about."""
    width = max(len(line) for line, _ in lines)
    return "\n".join(f"{line:<{width}}  {note}".rstrip() for line, note in lines)


def strength_note(strength: float) -> str:
    """Write a strength with three decimals; nothing if it is unknown.

    >>> strength_note(0.0312), strength_note(0.0001), strength_note(float("nan"))
    ('0.031', '<0.001', '')
    """
    if math.isnan(strength):
        return ""
    if 0 < strength < 0.0005:
        return "<0.001"  # "0.000" would read as none at all
    return f"{strength + 0.0:.3f}".replace("-", "−")


# ---------------------------------------------------------------------------- the part of a page

_MOST_DRAWN = 200
_PROBABILITIES = ("given_on", "given_off", "back_on", "back_off")


def page_graph(graph: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a page shows of a label graph: drawings, a table, data for choosing labels.

    Parameters
    ----------
    graph : mapping
        See `colabel.comparing.dependence_graph`.
    """
    from markupsafe import Markup

    edges = sorted(graph["edges"], key=lambda edge: -abs(_change(edge)))
    drawn = edges[:_MOST_DRAWN]
    changes = np.array([_change(edge) for edge in drawn])
    ends = np.array([(edge["from"], edge["to"]) for edge in drawn], dtype=np.intp).reshape(-1, 2)
    names = tuple(map(str, graph["labels"]))
    record = LabelGraph(names, ends, "", False, np.abs(changes), np.where(changes < 0, -1.0, 1.0))
    chances = [float(p) for p in graph["probability"]]
    spoken = [f"{name}, probability {fixed(p, 2)}" for name, p in zip(names, chances, strict=True)]
    sizes = [WIDE, NARROW] if lay_out(record, numbers=False).width > NARROW else [NARROW]
    svgs = [Markup(graph_svg(record, s, numbers=False, spoken=spoken)) for s in sizes]
    caption = (
        "A wide edge: one label says much about the other once the features are known. Solid: it"
        " makes the other likelier; dashed: less likely."
    )
    n_lone = len(names) - len({edge[end] for edge in edges for end in ("from", "to")})
    if n_lone:
        caption += f" {counted(n_lone, 'label has', 'labels have')} no edge."
    if len(edges) > len(drawn):
        caption += f" The strongest {len(drawn)} edges are drawn; the table has the others."
    rows = []
    for edge in edges:
        values = [float(edge[key]) for key in _PROBABILITIES]
        cells: list[Any] = [{"text": fixed(value, 2), "key": value} for value in values]
        rows.append(
            [
                names[edge["from"]],
                names[edge["to"]],
                {"text": fixed(edge["nats"], 3), "key": edge["nats"]},
                *cells[:2],
                {"text": signed(values[0] - values[1], 2), "key": values[0] - values[1]},
                *cells[2:],
            ]
        )
    columns = ["one", "other", "#nats", "#P(other | one on)", "#off", "#change"]
    columns += ["#P(one | other on)", "#off"]

    def rounded(value: float) -> float | None:
        return round(float(value), 4) if math.isfinite(value) else None

    data = {
        "labels": names,
        "probability": [rounded(p) for p in chances],
        "edges": [
            [int(edge["from"]), int(edge["to"]), *(rounded(edge[key]) for key in _PROBABILITIES)]
            for edge in edges
        ],
    }
    narrow = svgs[1] if len(svgs) > 1 else None
    return {
        "wide": svgs[0],
        "narrow": narrow,
        "caption": caption,
        "columns": columns,
        "rows": rows,
        "data": data,
    }


def _change(edge: Mapping[str, Any]) -> float:
    """What labels say of each other, I nats: ``sqrt(1 - exp(-2 I))``, with the sign of the change.

    That is the correlation of two normal variables that say as much of each other (Linfoot, 1957).
    """
    change = float(edge["given_on"] - edge["given_off"])
    return math.copysign(math.sqrt(1.0 - math.exp(-2.0 * float(edge["nats"]))), change)
