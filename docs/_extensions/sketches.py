"""Small pictures of the models, drawn into the page so that they follow its light or dark colours.

In a page: a `sketch` directive with the name of a picture and that of the model it is of; the
caption is what the model's docstring says first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from html import escape
from itertools import pairwise
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

import colabel

Point = tuple[float, float]
RADIUS = 13.0
WIDTH, HEIGHT = 260, 130


def _subscript(name: str) -> str:
    """Write y1 as y with a lowered 1."""
    letter, number = name.rstrip("0123456789"), name.lstrip("xyzgwc")
    if not number or number == name:
        return escape(name)
    return f'{escape(letter)}<tspan class="sub" dy="3">{number}</tspan>'


def label(at: Point, name: str) -> str:
    """Draw a label variable."""
    x, y = at
    return (
        f'<circle class="node" cx="{x}" cy="{y}" r="{RADIUS}"/>'
        f'<text class="name" x="{x}" y="{y + 4}">{_subscript(name)}</text>'
    )


def features(at: Point, name: str = "x") -> str:
    """Draw the features, or anything observed."""
    x, y = at
    return (
        f'<rect class="seen" x="{x - 12}" y="{y - 12}" width="24" height="24" rx="4"/>'
        f'<text class="on" x="{x}" y="{y + 4}">{_subscript(name)}</text>'
    )


def words(at: Point, text: str) -> str:
    """Write a remark."""
    return f'<text class="words" x="{at[0]}" y="{at[1]}">{escape(text)}</text>'


def line(start: Point, end: Point, kind: str = "strong", *, arrow: bool = True) -> str:
    """Draw an edge from border to border of two nodes."""
    (x0, y0), (x1, y1) = start, end
    length = math.hypot(x1 - x0, y1 - y0)
    dx, dy = (x1 - x0) / length, (y1 - y0) / length
    head = RADIUS + (4 if arrow else 0)
    mark = f' marker-end="url(#head-{kind})"' if arrow else ""
    return (
        f'<line class="{kind}" x1="{x0 + dx * RADIUS:.1f}" y1="{y0 + dy * RADIUS:.1f}" '
        f'x2="{x1 - dx * head:.1f}" y2="{y1 - dy * head:.1f}"{mark}/>'
    )


def arc(start: Point, end: Point, bend: float, kind: str = "strong") -> str:
    """Draw an arrow that bends around the nodes between its ends."""
    (x0, y0), (x1, y1) = start, end
    middle = f"{(x0 + x1) / 2:.1f} {(y0 + y1) / 2 - bend:.1f}"
    side = -1 if bend > 0 else 1
    return (
        f'<path class="{kind}" d="M{x0 + 6} {y0 + side * 12} Q{middle} {x1 - 8} '
        f'{y1 + side * 14}" marker-end="url(#head-{kind})"/>'
    )


def factor(start: Point, end: Point) -> str:
    """Draw an undirected edge with the small square of its potential."""
    x, y = (start[0] + end[0]) / 2, (start[1] + end[1]) / 2
    square = f'<rect class="factor" x="{x - 4:.1f}" y="{y - 4:.1f}" width="8" height="8"/>'
    return line(start, end, arrow=False) + square


def row_of(names: Iterable[str], y: float, left: float = 60, step: float = 55) -> dict[str, Point]:
    """Place labels on a line."""
    return {name: (left + step * i, y) for i, name in enumerate(names)}


Y4 = ("y1", "y2", "y3", "y4")
SQUARE = {"y1": (110.0, 25.0), "y2": (215.0, 25.0), "y3": (110.0, 105.0), "y4": (215.0, 105.0)}
X_LEFT = (28.0, 65.0)


def _from_x(places: dict[str, Point], x: Point, kind: str = "faint") -> str:
    return "".join(line(x, at, kind) for at in places.values())


def _labels(places: dict[str, Point]) -> str:
    return "".join(label(at, name) for name, at in places.items())


def independent() -> str:
    """Draw x with an arrow to every label."""
    places, x = row_of(Y4, 100, 45), (127.5, 25.0)
    return _from_x(places, x, "strong") + features(x) + _labels(places)


def stacked() -> str:
    """Draw two layers, the second with all outputs of the first."""
    first = {f"g{i}": (95.0, 20.0 + 30 * (i - 1)) for i in range(1, 5)}
    second = {f"y{i}": (215.0, 20.0 + 30 * (i - 1)) for i in range(1, 5)}
    between = "".join(line(a, b, "faint") for a in first.values() for b in second.values())
    outputs = "".join(features(at, name) for name, at in first.items())
    return between + _from_x(first, X_LEFT, "strong") + features(X_LEFT) + outputs + _labels(second)


def tree() -> str:
    """Draw a directed tree over the labels, all of them with x."""
    places = {"y1": (95.0, 65.0), "y2": (165.0, 22.0), "y3": (165.0, 108.0), "y4": (235.0, 108.0)}
    arcs = line(places["y1"], places["y2"]) + line(places["y1"], places["y3"])
    arcs += line(places["y3"], places["y4"])
    return _from_x(places, X_LEFT) + arcs + features(X_LEFT) + _labels(places)


def _chain_arcs(places: list[Point], bend: float = 26) -> str:
    arcs = "".join(line(a, b) for a, b in pairwise(places))
    for i, start in enumerate(places):
        for j in range(i + 2, len(places)):
            arcs += arc(start, places[j], bend * (j - i))
    return arcs


def chain() -> str:
    """Draw a chain in which each label sees all before it."""
    places, x = row_of(Y4, 72, 45), (127.5, 115.0)
    return (
        _from_x(places, x) + _chain_arcs(list(places.values()), 20) + features(x) + _labels(places)
    )


def chain_ensemble() -> str:
    """Draw three chains in different orders and their average."""
    drawn = ""
    for i, order in enumerate((("y1", "y2", "y3"), ("y3", "y1", "y2"), ("y2", "y3", "y1"))):
        places = {name: (24.0 + 48 * k, 22.0 + 43 * i) for k, name in enumerate(order)}
        at = list(places.values())
        drawn += "".join(line(a, b) for a, b in pairwise(at)) + _labels(places)
        drawn += line((at[-1][0] + 4, at[-1][1]), (205.0, 65.0), "faint")
    return drawn + words((222, 62), "mean") + words((222, 76), "of three")


def dependency_network() -> str:
    """Draw every label given all others: arrows both ways."""
    drawn = _from_x(SQUARE, X_LEFT)
    for a, start in SQUARE.items():
        drawn += "".join(line(start, end) for b, end in SQUARE.items() if a != b)
    return drawn + features(X_LEFT) + _labels(SQUARE)


def pairwise_field() -> str:
    """Draw a learned undirected graph whose potentials depend on x."""
    drawn = _from_x(SQUARE, X_LEFT)
    for a, b in (("y1", "y2"), ("y1", "y3"), ("y2", "y4")):
        drawn += factor(SQUARE[a], SQUARE[b])
        middle = tuple((p + q) / 2 for p, q in zip(SQUARE[a], SQUARE[b], strict=True))
        drawn += (
            f'<line class="dotted" x1="{X_LEFT[0] + 12}" y1="{X_LEFT[1]}" '
            f'x2="{middle[0] - 4:.1f}" y2="{middle[1]:.1f}"/>'
        )
    return drawn + features(X_LEFT) + _labels(SQUARE)


def collective_field() -> str:
    """Draw all pairs, with potentials that do not depend on x."""
    names = list(SQUARE)
    pairs = [(a, b) for i, a in enumerate(names) for b in names[i + 1 :]]
    drawn = "".join(line(SQUARE[a], SQUARE[b], arrow=False) for a, b in pairs)
    # the diagonals meet in the middle: their squares stand aside
    for a, b in pairs:
        share = 0.5 if (a, b) not in (("y1", "y4"), ("y2", "y3")) else 0.35
        x, y = (p + (q - p) * share for p, q in zip(SQUARE[a], SQUARE[b], strict=True))
        drawn += f'<rect class="factor" x="{x - 4:.1f}" y="{y - 4:.1f}" width="8" height="8"/>'
    return _from_x(SQUARE, X_LEFT) + drawn + features(X_LEFT) + _labels(SQUARE)


def _neighbours(centre: Point) -> str:
    x, y = centre
    drawn = f'<circle class="dashed" cx="{x}" cy="{y}" r="44"/>'
    for angle, far, has in (
        (20, 26, 1), (80, 32, 1), (150, 24, 0), (205, 34, 1), (270, 30, 1), (320, 36, 0),
        (45, 56, 0), (120, 57, 1), (240, 56, 0),
    ):  # fmt: skip
        dx, dy = math.cos(math.radians(angle)) * far, math.sin(math.radians(angle)) * far
        kind = "dot has" if has else "dot"
        drawn += f'<circle class="{kind}" cx="{x + dx:.1f}" cy="{y + dy:.1f}" r="4.5"/>'
    return drawn + features(centre)


def neighbours() -> str:
    """Draw the nearest rows, and the number of them that have a label."""
    at = (225.0, 65.0)
    drawn = _neighbours((65.0, 65.0)) + words((152, 52), "4 of 6")
    return drawn + line((105.0, 65.0), at) + label(at, "y1")


def neighbour_shares() -> str:
    """Draw the shares of neighbours with each label as features of every label."""
    shares = {f"w{i}": (150.0, 25.0 + 40 * (i - 1)) for i in (1, 2, 3)}
    places = {f"y{i}": (230.0, 25.0 + 40 * (i - 1)) for i in (1, 2, 3)}
    drawn = _neighbours((62.0, 65.0))
    drawn += "".join(line((100.0, 65.0), at, "faint") for at in shares.values())
    drawn += "".join(line(a, b) for a in shares.values() for b in places.values())
    return drawn + "".join(features(at, name) for name, at in shares.items()) + _labels(places)


def vector_leaves() -> str:
    """Draw a tree whose leaves hold label vectors."""
    root, inner = (130.0, 20.0), (80.0, 60.0)
    leaves = {"1 0 1": (40.0, 104.0), "1 1 0": (120.0, 104.0), "0 0 1": (200.0, 104.0)}
    ends = dict(zip(leaves, (inner, inner, root), strict=True))
    drawn = line(root, inner, arrow=False)
    drawn += "".join(line(ends[name], at, arrow=False) for name, at in leaves.items())
    drawn += "".join(words(at, name) for name, at in leaves.items())
    return drawn + features(root) + features(inner)


def thresholds() -> str:
    """Draw a bar for each label's probability and a threshold of its own."""
    drawn = '<line class="strong" x1="30" y1="108" x2="240" y2="108"/>'
    for i, (height, cut) in enumerate(((70, 48), (30, 18), (38, 55), (82, 40))):
        x = 48 + 50 * i
        kind = "bar has" if height > cut else "bar"
        drawn += f'<rect class="{kind}" x="{x}" y="{108 - height}" width="24" height="{height}"/>'
        drawn += f'<line class="cut" x1="{x - 7}" y1="{108 - cut}" x2="{x + 31}" y2="{108 - cut}"/>'
        drawn += f'<text class="name small" x="{x + 12}" y="125">{_subscript(f"y{i + 1}")}</text>'
    return drawn


def label_sets() -> str:
    """Draw the probabilities of label vectors, most probable first, and how many are listed."""
    drawn = '<line class="strong" x1="25" y1="108" x2="245" y2="108"/>'
    for i, height in enumerate((84, 50, 26, 14, 8, 5, 3)):
        x, kind = 36 + 30 * i, "bar has" if i < 3 else "bar"
        drawn += f'<rect class="{kind}" x="{x}" y="{108 - height}" width="20" height="{height}"/>'
    drawn += '<line class="dotted wide" x1="121" y1="18" x2="121" y2="116"/>'
    return drawn + words((73, 125), "listed") + words((185, 125), "too strange")


def ruled() -> str:
    """Draw the probabilities of label vectors, of which some are ruled out."""
    drawn = '<line class="strong" x1="25" y1="108" x2="245" y2="108"/>'
    for i, (height, allowed) in enumerate(((84, 1), (66, 0), (50, 1), (30, 0), (26, 1), (12, 1))):
        x, kind = 44 + 34 * i, "bar has" if allowed else "bar"
        drawn += f'<rect class="{kind}" x="{x}" y="{108 - height}" width="20" height="{height}"/>'
        if not allowed:
            drawn += f'<line class="cut" x1="{x - 5}" y1="112" x2="{x + 25}" y2="{100 - height}"/>'
    return drawn + words((135, 125), "label sets that obey")


def dependency_sets() -> str:
    """Draw a network over labels, and features that come from sets of a label and its parents."""
    places, below = row_of(Y4[:3], 28, 50, 80), row_of(("x1", "x2", "x3"), 104, 50, 80)
    y1, y2, y3 = places.values()
    drawn = ""
    for x, sets in zip(below.values(), ((y1,), (y1, y2), (y2, y3)), strict=True):
        drawn += "".join(line(y, x, "faint") for y in sets)
    drawn += line(y1, y2) + line(y2, y3)
    return drawn + "".join(features(at, name) for name, at in below.items()) + _labels(places)


def network_ensemble() -> str:
    """Draw naive networks with a different root each, pooled."""
    drawn = ""
    for i, (root, left, right) in enumerate(
        (("y1", "y2", "y3"), ("y2", "y1", "y3"), ("y3", "y1", "y2"))
    ):
        middle = 44.0 + 86 * i
        places = {root: (middle, 24.0), left: (middle - 23, 72.0), right: (middle + 23, 72.0)}
        drawn += line(places[root], places[left]) + line(places[root], places[right])
        drawn += _labels(places)
    return drawn + words((130, 116), "geometric mean of all roots")


def tree_mixture() -> str:
    """Draw three trees with arcs of their own under a gate that looks at x."""
    gate = (130.0, 20.0)
    drawn = ""
    for i, (root, *below) in enumerate(
        (("y1", "y2", "y3"), ("y3", "y2", "y1"), ("y2", "y1", "y3"))
    ):
        middle = 44.0 + 86 * i
        places = {root: (middle, 64.0), below[0]: (middle - 23, 108.0)}
        places[below[1]] = (middle + 23, 108.0)
        drawn += line(gate, (middle, 64.0), "faint")
        drawn += "".join(line(places[root], places[name]) for name in below)
        drawn += _labels(places)
    return drawn + features(gate, "x")


def pool() -> str:
    """Draw three models that answer for a row, weighed into one distribution."""
    whole = (225.0, 65.0)
    drawn = ""
    for y, bars in ((24.0, (18, 6)), (65.0, (10, 14)), (106.0, (22, 4))):
        drawn += line(X_LEFT, (95.0, y), "faint")
        for k, height in enumerate(bars):
            kind = "bar has" if k == 0 else "bar"
            x = 90 + 14 * k
            drawn += (
                f'<rect class="{kind}" x="{x}" y="{y + 12 - height}" width="11" height="{height}"/>'
            )
        drawn += line((110.0, y), whole)
    return drawn + words((190, 118), "weights") + features(X_LEFT) + label(whole, "y")


SKETCHES: dict[str, Callable[[], str]] = {
    "independent": independent,
    "stacked": stacked,
    "tree": tree,
    "chain": chain,
    "chain-ensemble": chain_ensemble,
    "dependency-network": dependency_network,
    "pairwise-field": pairwise_field,
    "collective-field": collective_field,
    "neighbours": neighbours,
    "neighbour-shares": neighbour_shares,
    "vector-leaves": vector_leaves,
    "pool": pool,
    "thresholds": thresholds,
    "label-sets": label_sets,
    "ruled": ruled,
    "dependency-sets": dependency_sets,
    "network-ensemble": network_ensemble,
    "tree-mixture": tree_mixture,
}

_HEADS = "".join(
    f'<marker id="head-{kind}" viewBox="0 0 8 8" refX="4" refY="4" markerWidth="6" '
    f'markerHeight="6" orient="auto"><path class="head-{kind}" d="M0 0 L8 4 L0 8 z"/></marker>'
    for kind in ("strong", "faint")
)


def picture(name: str, caption: str) -> str:
    """Return the SVG of a sketch; the caption is read out for those who do not see it."""
    return (
        f'<figure class="sketch"><svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{escape(caption, quote=True)}"><defs>{_HEADS}</defs>{SKETCHES[name]()}</svg>'
        f"<figcaption>{escape(caption)}</figcaption></figure>"
    )


class Sketch(SphinxDirective):
    """Put a sketch into the page."""

    required_arguments = 2

    def run(self) -> list[nodes.Node]:
        """Return the figure, or an error that lists the pictures there are."""
        name, model = self.arguments
        if name not in SKETCHES:
            raise self.error(f"There is no sketch {name!r}: choose from {', '.join(SKETCHES)}.")
        caption = getattr(colabel, model).__doc__.strip().partition("\n")[0]
        return [nodes.raw("", picture(name, caption), format="html")]


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive."""
    app.add_directive("sketch", Sketch)
    return {"version": "1", "parallel_read_safe": True}
