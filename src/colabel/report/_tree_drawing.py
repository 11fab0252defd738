"""Where everything in the figure of a label tree goes, in inches from the top left corner."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from colabel.core.arrays import Array, Indices
from colabel.joint.tree.wiring import ROOT
from colabel.report.tree_shape import Forest, strength_note, tree_layout

BoxKind = Literal["root", "child", "lone"]

NAME_SIZE, NOTE_SIZE, TITLE_SIZE = 10.0, 8.0, 12.0  # points
LINE = 1.25  # distance of lines, in multiples of the font size
_POINT = 1.0 / 72.0

_MARGIN = 0.2
_PAD_X, _PAD_Y = 0.1, 0.07  # between a name and its box
_ROW_GAP = 0.14
_TREE_GAP = 0.16
_CURVE, _LANE = 0.34, 0.3  # an arrow crosses rows within the first, and is level in the second
_HEAD, _AIR = 0.17, 0.05  # right and left of a number in the lane
_LEAST_WIDTH = 5.0
_LONE_GAP = 0.15
_WIDEST_NAME, _MOST_LINES = 22, 4  # characters, lines
_WIDEST_IF_DEEP, _DEEP = 15, 5  # many columns make a wide figure: narrow ones keep it readable
_THIN, _THICK, _PLAIN = 0.9, 4.2, 1.5  # widths of arrows, in points


@dataclass(frozen=True)
class Box:
    """A label: its left edge, the height of its middle, its size, its name."""

    x: float
    y: float
    width: float
    height: float
    text: str
    kind: BoxKind


@dataclass(frozen=True)
class Arc:
    """An arrow: in a curve to the height of its end, which it has at `lane`, level from there."""

    start: tuple[float, float]
    lane: float
    end: tuple[float, float]
    width: float  # points
    sign: int


@dataclass(frozen=True)
class Text:
    """A line of text by its left (or right) end and the height of its middle."""

    x: float
    y: float
    text: str
    size: float
    align: Literal["left", "right"] = "left"
    bold: bool = False


@dataclass
class Drawing:
    """Everything there is to draw, and the room it takes."""

    width: float = _LEAST_WIDTH
    height: float = _MARGIN
    boxes: list[Box] = field(default_factory=list)
    arcs: list[Arc] = field(default_factory=list)
    texts: list[Text] = field(default_factory=list)


def make_drawing(
    forest: Forest, names: list[str], gains: Array, signs: Indices, title: str | None
) -> Drawing:
    """Drawing the title, then the trees, the lone labels, and the legend below each other.

    Parameters
    ----------
    forest : Forest of d labels
    names : list of d str
    gains : array of shape (d,)
        Of the arc into each label, NaN where there is none or it is unknown.
    signs : int array of shape (d,)
        1, -1 or 0 for the arc into each label.
    title : str, optional
    """
    drawing = Drawing()
    if title:
        drawing.height += TITLE_SIZE * _POINT
        drawing.texts.append(
            Text(_MARGIN, drawing.height - 0.5 * TITLE_SIZE * _POINT, title, TITLE_SIZE, bold=True)
        )
        drawing.width = max(drawing.width, _text_width(title, TITLE_SIZE, bold=True) + 2 * _MARGIN)
        drawing.height += 0.2
    depth = 1 + tree_layout(forest.parents)[:, 0].max()
    widest = _WIDEST_IF_DEEP if depth >= _DEEP else _WIDEST_NAME
    sized = [_sized(forest, i, wrapped(name, widest)) for i, name in enumerate(names)]
    in_trees = [i for i in forest.order if not forest.is_lone(i)]
    if in_trees:
        _add_trees(drawing, forest, in_trees, sized, gains, signs)
    _add_lone(drawing, [sized[i] for i in forest.order if forest.is_lone(i)])
    _add_legend(drawing, gains)
    drawing.height += _MARGIN
    return drawing


# ---------------------------------------------------------------------------------- the trees


def _sized(forest: Forest, i: int, text: str) -> Box:
    """Make the box of a label, at no place yet."""
    kind: BoxKind = "lone" if forest.is_lone(i) else "child"
    if kind == "child" and forest.parents[i] == ROOT:
        kind = "root"
    lines = text.split("\n")
    width = max(_text_width(line, NAME_SIZE, bold=kind == "root") for line in lines)
    height = len(lines) * LINE * NAME_SIZE * _POINT
    return Box(0.0, 0.0, width + 2 * _PAD_X, height + 2 * _PAD_Y, text, kind)


def _add_trees(
    drawing: Drawing,
    forest: Forest,
    labels: list[int],
    sized: list[Box],
    gains: Array,
    signs: Indices,
) -> None:
    layout = tree_layout(forest.parents)
    notes = [strength_note(gain) for gain in gains]
    longest = max(_text_width(note, NOTE_SIZE) for note in notes)
    gap = _CURVE + (longest + _HEAD + _AIR if longest else _LANE)
    left, right = _columns(layout, labels, sized, gap)
    pitch = max(sized[i].height for i in labels) + _ROW_GAP
    boxes: dict[int, Box] = {}
    drop = -_TREE_GAP
    for i in labels:  # parents before their children
        drop += _TREE_GAP if forest.parents[i] == ROOT else 0.0
        y = drawing.height + (layout[i, 1] + 0.5) * pitch + drop
        column, box = int(layout[i, 0]), sized[i]
        # as wide as the column, so that arrows bend right where they leave the box
        extent = right[column] - left[column]
        boxes[i] = Box(left[column], y, extent, box.height, box.text, box.kind)
        if forest.parents[i] == ROOT:
            continue
        above = boxes[forest.parents[i]]
        start, end = (above.x + above.width, above.y), (left[column], y)
        width = _arc_width(gains[i], gains)
        drawing.arcs.append(Arc(start, start[0] + _CURVE, end, width, int(signs[i])))
        if notes[i]:
            height = y - 0.5 * width * _POINT - 0.6 * NOTE_SIZE * _POINT
            drawing.texts.append(
                Text(left[column] - _HEAD, height, notes[i], NOTE_SIZE, align="right")
            )
    drawing.boxes.extend(boxes.values())
    drawing.arcs.sort(key=lambda arc: -arc.width)  # thin ones on top, where siblings leave a box
    n_rows = 1 + max(layout[i, 1] for i in labels)
    drawing.height += n_rows * pitch + drop
    drawing.width = max(drawing.width, right[-1] + _MARGIN)


def _columns(
    layout: Array, labels: list[int], sized: list[Box], gap: float
) -> tuple[list[float], list[float]]:
    """Left and right end of each depth, as wide as its widest box."""
    widths = [0.0] * (1 + int(layout[labels, 0].max()))
    for i in labels:
        depth = int(layout[i, 0])
        widths[depth] = max(widths[depth], sized[i].width)
    left, right = [], []
    x = _MARGIN
    for width in widths:
        left.append(x)
        right.append(x + width)
        x += width + gap
    return left, right


def _arc_width(gain: float, gains: Array) -> float:
    if np.isnan(gains).all():
        return _PLAIN
    largest = float(np.nanmax(gains))
    if np.isnan(gain) or largest <= 0:
        return _THIN
    return _THIN + (_THICK - _THIN) * max(float(gain), 0.0) / largest


# ------------------------------------------------------------------- lone labels and the legend


def _add_lone(drawing: Drawing, lone: list[Box]) -> None:
    """Set labels without any arc side by side, in as many rows as they need."""
    if not lone:
        return
    tallest = max(box.height for box in lone)
    drawing.width = max(drawing.width, max(box.width for box in lone) + 2 * _MARGIN)
    if drawing.boxes:
        drawing.height += _TREE_GAP
    else:
        # no tree gives the width: about as wide as high
        area = sum(box.width + _LONE_GAP for box in lone) * (tallest + _ROW_GAP)
        drawing.width = max(drawing.width, 1.3 * area**0.5)
    x, y = _MARGIN, drawing.height + 0.5 * (tallest + _ROW_GAP)
    for box in lone:
        if x > _MARGIN and x + box.width > drawing.width - _MARGIN:
            x, y = _MARGIN, y + tallest + _ROW_GAP
        drawing.boxes.append(Box(x, y, box.width, box.height, box.text, box.kind))
        x += box.width + _LONE_GAP
    drawing.height = y + 0.5 * (tallest + _ROW_GAP)


def _add_legend(drawing: Drawing, gains: Array) -> None:
    """Explain the marks that occur in this figure, and no others."""
    size, swatch, pad = NOTE_SIZE, 0.32, 0.08
    entries: list[tuple[BoxKind | int | None, str]] = []
    kinds = {box.kind for box in drawing.boxes}
    explained: tuple[tuple[BoxKind, str], ...] = (("root", "root"), ("lone", "label without arrow"))
    entries += [(kind, text) for kind, text in explained if kind in kinds]
    drawn = {arc.sign for arc in drawing.arcs}
    if drawn - {0}:
        words = ((1, "attract"), (-1, "repel"), (0, "neither"))
        entries += [(sign, text) for sign, text in words if sign in drawn]
    if not np.isnan(gains).all():
        entries.append((None, "number, line width: gain in held-out log-likelihood (nats per row)"))
    if not entries:
        return
    line = 2.2 * size * _POINT
    x, y = _MARGIN, drawing.height + 0.1 + 0.5 * line
    for mark, text in entries:
        shift = 0.0 if mark is None else swatch + pad
        length = _text_width(text, size) + shift
        if x > _MARGIN and x + length > drawing.width - _MARGIN:
            x, y = _MARGIN, y + line
        if isinstance(mark, int):
            drawing.arcs.append(Arc((x, y), x, (x + swatch, y), _PLAIN + 0.5, mark))
        elif mark is not None:
            drawing.boxes.append(Box(x, y, swatch, 1.2 * size * _POINT, "", mark))
        drawing.texts.append(Text(x + shift, y, text, size))
        x += length + 0.25
    drawing.height = y + 0.5 * line


# ----------------------------------------------------------------------------------------- text


def wrapped(name: str, widest: int) -> str:
    """Break a long name after spaces and punctuation, into lines of at most `widest` characters.

    Examples
    --------
    >>> print(wrapped("quiet-still", 22))
    quiet-still
    >>> print(wrapped("cell growth, cell division and DNA synthesis", 22))
    cell growth, cell
    division and DNA
    synthesis
    """
    pieces = [
        piece[at : at + widest]
        for piece in re.findall(r".+?(?:[\s\-_/.,:;|]+|$)", name) or [name]
        for at in range(0, len(piece), widest)
    ]
    lines = [""]
    for piece in pieces:
        if lines[-1] and len((lines[-1] + piece).rstrip()) > widest:
            lines.append("")
        lines[-1] += piece
    if len(lines) > _MOST_LINES:
        last = lines[_MOST_LINES - 1].rstrip()[: widest - 1]
        lines = [*lines[: _MOST_LINES - 1], last + "…"]
    return "\n".join(line.rstrip() for line in lines)


def _text_width(text: str, size: float, *, bold: bool = False) -> float:
    """Measure a line of text in the figure's font, without a figure."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextPath

    if not text:
        return 0.0
    font = FontProperties(size=size, weight="bold" if bold else "normal")
    # a dollar sign would start a formula here; a letter is about as wide
    path = TextPath((0.0, 0.0), text.replace("$", "S"), prop=font)
    return float(path.get_extents().x1) * _POINT
