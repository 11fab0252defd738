"""Seconds of learning against what they buy: a panel for each data set, and the run times."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from colabel.experiments import Results
from colabel.experiments.measures import MEASURES
from colabel.report._html.markup import Html, cut, join, paragraph, tag, text_width
from colabel.report._html.numbers import digits_for, fixed, seconds
from colabel.report._html.tables import EMPTY, Column, Field, table

_WIDTH, _HEIGHT = 340.0, 240.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 44.0, 20.0, 12.0, 34.0
_FONT = 11.5
_DOT = 4.0


class Point(NamedTuple):
    """A method in a panel."""

    name: str
    seconds: float
    value: float


class _Box(NamedTuple):
    x1: float
    y1: float
    x2: float
    y2: float

    def overlap(self, other: _Box) -> float:
        across = min(self.x2, other.x2) - max(self.x1, other.x1)
        down = min(self.y2, other.y2) - max(self.y1, other.y1)
        return max(0.0, across) * max(0.0, down)


def speed_section(results: Results) -> Html:
    """Write panels and table, or a sentence where nothing was timed."""
    times = {key: value for key, value in results.seconds().items() if value > 0.0}
    if not times:
        return paragraph("Nothing has been timed yet.")
    measure = results.plan.measures[0]
    entries = results.table(measure)
    low, high = min(times.values()), max(times.values())
    panels = []
    for dataset in results.datasets:
        points = [
            Point(m, times[dataset, m], entries[dataset, m].mean)
            for m in results.methods
            if (dataset, m) in times and (dataset, m) in entries and entries[dataset, m].splits
        ]
        if len(points) > 1:
            panels.append(_figure(dataset, points, measure, (low, high)))
    title = MEASURES[measure].title
    better = "top" if MEASURES[measure].higher_is_better else "bottom"
    if not panels:
        return _times(results, times)
    return join(
        paragraph(
            "Across: median seconds of learning one split, on a logarithmic scale that all panels "
            f"share. Up: {title}, on each panel’s own scale. The {better} left corner is best; the "
            "line joins the methods that no other beats in both.",
            class_="legend",
        ),
        tag("div", panels, class_="panels"),
        _times(results, times),
    )


def _times(results: Results, times: dict[tuple[str, str], float]) -> Html:
    columns = [Column("data set", is_text=True), *(Column(m) for m in results.methods)]
    rows = []
    for dataset in results.datasets:
        found = [times.get((dataset, m)) for m in results.methods]
        fields = [EMPTY if t is None else Field(seconds(t), t) for t in found]
        rows.append([Field(dataset), *fields])
    return table("Run times: median seconds of learning one split", columns, rows)


def _figure(
    dataset: str, points: Sequence[Point], measure: str, limits: tuple[float, float]
) -> Html:
    return tag("figure", tag("figcaption", dataset), panel(dataset, points, measure, limits))


class _Scale(NamedTuple):
    """Seconds to x, logarithmic; values to y."""

    low: float
    high: float
    bottom: float
    top: float

    def x(self, time: float) -> float:
        share = (math.log10(time) - self.low) / (self.high - self.low)
        return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        share = (value - self.bottom) / (self.top - self.bottom)
        return _HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM)


def panel(dataset: str, points: Sequence[Point], measure: str, limits: tuple[float, float]) -> Html:
    """Draw one data set; `limits` are the shortest and the longest time of all panels."""
    low, high = (math.log10(limit) for limit in limits)
    middle, half = (low + high) / 2.0, max((high - low) / 2.0, 0.15) * 1.1
    values = [point.value for point in points]
    room = max(0.12 * (max(values) - min(values)), 0.02 * max(map(abs, values)), 1e-6)
    scale = _Scale(middle - half, middle + half, min(values) - room, max(values) + room)
    better = 1.0 if MEASURES[measure].higher_is_better else -1.0
    digits = digits_for(values)
    return tag(
        "svg",
        tag("title", f"{dataset}: {MEASURES[measure].title} against seconds of learning"),
        _frame(scale, digits),
        _frontier(points, scale, better),
        [_dot(point, scale, digits, MEASURES[measure].title) for point in points],
        _labels(points, scale),
        class_="chart",
        viewBox=f"0 0 {_WIDTH:.0f} {_HEIGHT:.0f}",
        role="img",
    )


def _frame(scale: _Scale, digits: int) -> Html:
    floor, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
    parts = [tag("path", d=f"M{_LEFT:.0f} {_TOP:.0f}V{floor:.0f}H{right:.0f}", class_="frame")]
    for time in _decades(scale.low, scale.high):
        x = scale.x(time)
        parts.append(tag("line", x1=x, x2=x, y1=floor, y2=floor + 4.0, class_="frame"))
        said = f"{time:g} s"
        parts.append(tag("text", said, x=x, y=floor + 17.0, text_anchor="middle", class_="q"))
    for value in _ticks(scale.bottom, scale.top):
        y = scale.y(value)
        parts.append(tag("line", x1=_LEFT, x2=right, y1=y, y2=y, class_="grid"))
        said = fixed(value, max(digits - 1, 0) if _coarse(scale) else digits)
        parts.append(tag("text", said, x=_LEFT - 6.0, y=y + 4.0, text_anchor="end", class_="q"))
    return join(parts)


def _coarse(scale: _Scale) -> bool:
    return _step(scale.bottom, scale.top) >= 0.01


def _decades(low: float, high: float) -> list[float]:
    """Powers of ten within, and 2 and 5 times them where there are fewer than two."""
    for factors in ((1.0,), (1.0, 3.0), (1.0, 2.0, 5.0)):
        found = [
            factor * 10.0**power
            for power in range(math.floor(low), math.ceil(high) + 1)
            for factor in factors
            if low <= math.log10(factor) + power <= high
        ]
        if len(found) >= 2:
            break
    return found


def _step(bottom: float, top: float) -> float:
    rough = (top - bottom) / 4.0
    power = 10.0 ** math.floor(math.log10(rough))
    return next(power * factor for factor in (1.0, 2.0, 5.0, 10.0) if power * factor >= rough)


def _ticks(bottom: float, top: float) -> list[float]:
    step = _step(bottom, top)
    first, last = math.ceil(bottom / step - 1e-9), math.floor(top / step + 1e-9)
    return [step * i for i in range(first, last + 1)]


def _frontier(points: Sequence[Point], scale: _Scale, better: float) -> Html | None:
    """Join the points that none is both faster and better than."""
    best, kept = -math.inf, []
    for point in sorted(points, key=lambda p: (p.seconds, -better * p.value)):
        if better * point.value > best:
            best = better * point.value
            kept.append(f"{scale.x(point.seconds):.1f} {scale.y(point.value):.1f}")
    return tag("path", d="M" + "L".join(kept), class_="frontier") if len(kept) > 1 else None


def _dot(point: Point, scale: _Scale, digits: int, title: str) -> Html:
    said = f"{point.name}: {title} {fixed(point.value, digits)}, {seconds(point.seconds)} s"
    x, y = scale.x(point.seconds), scale.y(point.value)
    return tag("circle", tag("title", said), cx=x, cy=y, r=_DOT, class_="dot")


def _labels(points: Sequence[Point], scale: _Scale) -> list[Html]:
    """Put every name beside its point, where it covers least of points and other names."""
    taken = [
        _Box(x - _DOT, y - _DOT, x + _DOT, y + _DOT)
        for x, y in ((scale.x(p.seconds), scale.y(p.value)) for p in points)
    ]
    texts = []
    for point in points:
        name = cut(point.name, 14)
        x, y = scale.x(point.seconds), scale.y(point.value)
        boxes = _places(x, y, text_width(name, _FONT))
        costs = [sum(box.overlap(other) for other in taken) + 4.0 * _outside(box) for box in boxes]
        box = boxes[costs.index(min(costs))]
        taken.append(box)
        texts.append(tag("text", name, x=box.x1, y=box.y2 - 3.0, font_size=_FONT, class_="name"))
    return texts


def _places(x: float, y: float, width: float) -> list[_Box]:
    """Boxes around a point, the preferred ones first."""
    gap, tall = _DOT + 2.0, _FONT + 2.0
    lefts = (x + gap, x - gap - width, x - width / 2.0)
    middle = y - tall / 2.0
    above, below = y - gap - tall + 2.0, y + gap - 2.0
    corners = [(lefts[0], middle), (lefts[1], middle), (lefts[2], above), (lefts[2], below)]
    corners += [(left, top) for left in lefts[:2] for top in (above, below)]
    corners += [(left, top) for left in lefts[:2] for top in (middle - tall, middle + tall)]
    return [_Box(left, top, left + width, top + tall) for left, top in corners]


def _outside(box: _Box) -> float:
    across = max(0.0, _LEFT - box.x1) + max(0.0, box.x2 - _WIDTH)
    down = max(0.0, -box.y1) + max(0.0, box.y2 - (_HEIGHT - _BOTTOM))
    return across * (box.y2 - box.y1) + down * (box.x2 - box.x1)
