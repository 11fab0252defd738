"""Where the labels of a graph go in a drawing.

Trees in layers, everything else on a circle; on a phone one label a line.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from colabel.report._html.markup import cut, text_width
from colabel.report.tree_shape import Forest, tree_layout

FONT = 13.0
PAD = 8.0  # between a name and its box
BOX = 24.0  # height of a box
LONGEST = 26
NARROW = 356.0  # what a phone shows without scrolling
_WIDEST_LAYERS = 760.0
_GAP = 54.0  # between layers, for the edges
_INDENT = 34.0
_SMALLEST_INDENT = 14.0
_LINE = BOX + 4.0
_FEW = 12  # labels on a circle whose names stay upright


class Node(NamedTuple):
    """A label in a drawing.

    Attributes
    ----------
    x, y : float
        Middle of the box, or the point on the circle.
    width : float
        Of the box; 0 on a circle.
    anchor : {"middle", "start", "end"}
    turn : float
        Degrees by which the name is turned.
    """

    x: float
    y: float
    width: float
    anchor: str = "middle"
    turn: float = 0.0


class Layout(NamedTuple):
    """A drawing: its kind, size, labels, order of reading and a path for each edge.

    `kind` is "layers", "outline", "circle" or "arcs".
    """

    kind: str
    width: float
    height: float
    nodes: list[Node]
    order: list[int]
    paths: list[str]
    stems: Sequence[str] = ()  # lines that edges share, which say nothing of their own


def lay_out(graph: Mapping[str, Any], *, narrow: bool = False) -> Layout:
    """Place the labels of a graph as described in `colabel.comparing.graphs.label_graph`.

    A `narrow` drawing goes downwards, one label a line, and fits a phone.
    """
    names = [cut(str(name), LONGEST) for name in graph["labels"]]
    ends = [(int(edge["from"]), int(edge["to"])) for edge in graph["edges"]]
    parents = _parents(len(names), ends) if graph["directed"] else None
    if narrow and parents is not None:
        indent = _fitting_indent(names, parents)
        if indent >= _SMALLEST_INDENT:
            return _outline(names, ends, parents, indent)
    if narrow or parents is None:
        changes = [float(edge["given_on"] - edge["given_off"]) for edge in graph["edges"]]
        strengths = [abs(change) if math.isfinite(change) else 0.0 for change in changes]
        return (_arcs if narrow else _circle)(names, ends, strengths)
    layers = _layers(names, ends, parents)
    return layers if layers.width <= _WIDEST_LAYERS else _outline(names, ends, parents)


def _parents(n_labels: int, ends: Sequence[tuple[int, int]]) -> list[int] | None:
    """Return the parent of every label, -1 for roots; None where the graph is no forest."""
    parents = [-1] * n_labels
    for parent, child in ends:
        if parents[child] != -1:
            return None
        parents[child] = parent
    try:
        Forest.from_parents(parents)
    except ValueError:
        return None
    return parents


def _box_widths(names: Sequence[str]) -> list[float]:
    return [text_width(name, FONT) + 2.0 * PAD for name in names]


def _layers(names: Sequence[str], ends: Sequence[tuple[int, int]], parents: list[int]) -> Layout:
    """Depth from left to right; boxes of a layer begin at the same place."""
    widths = _box_widths(names)
    positions = tree_layout(parents)
    depths = [int(depth) for depth in positions[:, 0]]
    starts = [2.0]
    for depth in range(max(depths)):
        widest = max(w for w, d in zip(widths, depths, strict=True) if d == depth)
        starts.append(starts[-1] + widest + _GAP)
    row = BOX + 12.0
    nodes = [
        Node(starts[d] + w / 2.0, row * float(across) + BOX / 2.0 + 2.0, w)
        for w, d, across in zip(widths, depths, positions[:, 1], strict=True)
    ]
    paths = [_curve(nodes[i], nodes[j]) for i, j in ends]
    width = max(node.x + node.width / 2.0 for node in nodes) + 2.0
    height = max(node.y for node in nodes) + BOX / 2.0 + 2.0
    return Layout("layers", width, height, nodes, list(Forest.from_parents(parents).order), paths)


def _curve(one: Node, two: Node) -> str:
    x1, x2 = one.x + one.width / 2.0, two.x - two.width / 2.0
    bend = max(0.5 * (x2 - x1), 20.0)
    return (
        f"M{x1:.1f} {one.y:.1f}C{x1 + bend:.1f} {one.y:.1f} {x2 - bend:.1f} {two.y:.1f} "
        f"{x2:.1f} {two.y:.1f}"
    )


def _outline(
    names: Sequence[str],
    ends: Sequence[tuple[int, int]],
    parents: list[int],
    indent: float = _INDENT,
) -> Layout:
    """One label a line, indented by depth: a deep tree stays narrow."""
    widths = _box_widths(names)
    order = list(Forest.from_parents(parents).order)
    depths = _depths(order, parents)
    nodes = [Node(0.0, 0.0, 0.0)] * len(names)
    for line, i in enumerate(order):
        nodes[i] = Node(2.0 + indent * depths[i] + widths[i] / 2.0, _on_line(line), widths[i])
    # Edges from one label share a stem; what is their own is the last, level piece.
    stems, paths = [], []
    for i, j in ends:
        x, y = nodes[i].x - nodes[i].width / 2.0 + min(11.0, 0.6 * indent), nodes[j].y
        stems.append(f"M{x:.1f} {nodes[i].y + BOX / 2.0:.1f}V{y:.1f}")
        paths.append(f"M{x:.1f} {y:.1f}H{nodes[j].x - nodes[j].width / 2.0:.1f}")
    width = max(node.x + node.width / 2.0 for node in nodes) + 2.0
    return Layout("outline", width, _LINE * len(names) + 2.0, nodes, order, paths, stems)


def _on_line(line: int) -> float:
    return _LINE * line + BOX / 2.0 + 2.0


def _depths(order: Sequence[int], parents: Sequence[int]) -> dict[int, int]:
    depths = {-1: -1}
    for i in order:
        depths[i] = depths[parents[i]] + 1
    return depths


def _fitting_indent(names: Sequence[str], parents: list[int]) -> float:
    """The indent with which an outline is no wider than a phone; it may be too small to be seen."""
    depths = _depths(Forest.from_parents(parents).order, parents)
    widths = _box_widths(names)
    room = [(NARROW - 4.0 - w) / depths[i] for i, w in enumerate(widths) if depths[i]]
    return min([_INDENT, *room])


def _arcs(
    names: Sequence[str], ends: Sequence[tuple[int, int]], strengths: Sequence[float]
) -> Layout:
    """One label a line, strongly connected ones beside each other; edges are arcs at the right."""
    widths = _box_widths(names)
    order = circle_order(len(names), ends, strengths)
    line_of = {label: line for line, label in enumerate(order)}
    right = max(widths) + 2.0
    nodes = [Node(right - w / 2.0, _on_line(line_of[i]), w) for i, w in enumerate(widths)]
    # a cubic reaches three quarters of the way to its handles
    nearest, farthest = 36.0, (NARROW - right - 6.0) / 0.75
    longest = max((abs(line_of[i] - line_of[j]) for i, j in ends), default=1)
    paths = []
    for i, j in ends:
        share = (abs(line_of[i] - line_of[j]) - 1) / max(1, longest - 1)
        x = right + nearest + (farthest - nearest) * math.sqrt(share)
        one, two = nodes[i].y, nodes[j].y
        paths.append(
            f"M{right:.1f} {one:.1f}C{x:.1f} {one:.1f} {x:.1f} {two:.1f} {right:.1f} {two:.1f}"
        )
    return Layout("arcs", NARROW, _LINE * len(names) + 2.0, nodes, order, paths)


def _circle(
    names: Sequence[str], ends: Sequence[tuple[int, int]], strengths: Sequence[float]
) -> Layout:
    """On a circle, strongly connected labels beside each other; edges bend towards the middle."""
    n = len(names)
    order = circle_order(n, ends, strengths)
    radius = max(110.0, 19.0 * n / (2.0 * math.pi))
    longest = max(text_width(name, FONT) for name in names)
    upright = n <= _FEW
    across = radius + longest + 18.0
    down = radius + 34.0 if upright else across
    nodes = [Node(0.0, 0.0, 0.0)] * n
    for place, label in enumerate(order):
        angle = 2.0 * math.pi * place / n - math.pi / 2.0
        nodes[label] = _on_circle(angle, radius, across, down, upright)
    paths = []
    for i, j in ends:
        one, two = nodes[i], nodes[j]
        # Chords bend towards the middle, or the circle would hide those of neighbours.
        bend = 0.25 + 0.1 * min(1.0, math.hypot(one.x - two.x, one.y - two.y) / radius)
        x = (one.x + two.x) / 2.0 + (across - (one.x + two.x) / 2.0) * bend
        y = (one.y + two.y) / 2.0 + (down - (one.y + two.y) / 2.0) * bend
        paths.append(f"M{one.x:.1f} {one.y:.1f}Q{x:.1f} {y:.1f} {two.x:.1f} {two.y:.1f}")
    return Layout("circle", 2.0 * across, 2.0 * down, nodes, order, paths)


def _on_circle(angle: float, radius: float, across: float, down: float, upright: bool) -> Node:
    x, y = across + radius * math.cos(angle), down + radius * math.sin(angle)
    side = math.cos(angle)
    if upright:
        anchor = "middle" if abs(side) < 0.15 else "start" if side > 0.0 else "end"
        return Node(x, y, 0.0, anchor, 0.0)
    turn = math.degrees(angle)
    return Node(x, y, 0.0, "start", turn) if side >= -1e-9 else Node(x, y, 0.0, "end", turn + 180.0)


def circle_order(
    n_labels: int, ends: Sequence[tuple[int, int]], strengths: Sequence[float]
) -> list[int]:
    """Put strongly connected labels beside each other: join chains along the strongest edges.

    Examples
    --------
    >>> circle_order(4, [(0, 2), (1, 3), (2, 3)], [0.9, 0.8, 0.1])
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
    distinct.sort(key=len, reverse=True)
    return [label for chain in distinct for label in chain]
