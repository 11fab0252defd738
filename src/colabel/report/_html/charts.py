"""Small charts of comparisons: means with their errors, numbers in tiles, reliability."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from colabel.report._html.markup import Html, join, name_text, tag
from colabel.report._html.numbers import fixed, signed
from colabel.report.reliability import Reliability

_SIDE, _LEFT, _TOP, _BELOW = 290.0, 42.0, 8.0, 24.0  # of a reliability diagram
_SMALLEST, _LARGEST = 2.5, 8.0  # of its dots


class Mean(NamedTuple):
    """A line of a chart of means: whose, the mean, its standard error, and whether to mark it."""

    name: str
    value: float
    error: float
    marked: bool


class Contribution(NamedTuple):
    """A line of a chart of contributions: of what, how much, and its CSS class."""

    name: str
    value: float
    kind: str


def contributions_chart(lines: Sequence[Contribution]) -> Html:
    """Draw contributions as bars to both sides of zero, on one scale."""
    most = max((abs(line.value) for line in lines), default=0.0) or 1.0
    drawn = []
    for name, value, kind in lines:
        width = 50.0 * abs(value) / most
        left = 50.0 if value >= 0 else 50.0 - width
        side = "bar more" if value >= 0 else "bar less"
        bar = tag("div", class_=side, style=f"left:{left:.2f}%;width:{width:.2f}%")
        drawn.append(
            tag(
                "div",
                tag("div", name_text(name), class_="name"),
                tag("div", bar, class_="track"),
                tag("div", signed(value, 2), class_="value"),
                class_=f"line {kind}",
            )
        )
    return tag("div", drawn, class_="contributions")


def tiles(entries: Sequence[tuple[str, str]]) -> Html:
    """Return numbers with what they count."""
    each = [
        tag("div", tag("b", value), tag("span", name), class_="tile") for value, name in entries
    ]
    return tag("div", each, class_="tiles")


def means_chart(means: Sequence[Mean], low: float, high: float, digits: int) -> Html:
    """Draw means as dots and one standard error either way as lines, from `low` to `high`."""
    span = max(high - low, 1e-12)

    def place(value: float) -> float:
        return 100.0 * min(1.0, max(0.0, (value - low) / span))

    lines = []
    for name, value, error, marked in means:
        left, right = place(value - error), place(value + error)
        spread = tag("div", class_="spread", style=f"left:{left:.2f}%;width:{right - left:.2f}%")
        kind = "point marked" if marked else "point"
        dot = tag("div", class_=kind, style=f"left:{place(value):.2f}%")
        lines.append(
            join(
                tag("div", name_text(name), class_="name"),
                tag("div", spread, dot, class_="track"),
                tag("div", f"{value:.{digits}f}", class_="value"),
            )
        )
    ends = [tag("span", f"{end:.{digits}f}") for end in (low, high)]
    axis = join(tag("div", class_="spacer"), tag("div", ends, class_="ends"))
    return tag("div", lines, axis, class_="means")


def reliability_chart(found: Reliability, title: str) -> Html:
    """Draw how often what was said with probability p came true; larger dots for more cases."""
    inner = _SIDE - _LEFT - _LARGEST
    floor = _TOP + inner

    def at(p: float, share: float) -> tuple[float, float]:
        return _LEFT + inner * p, floor - inner * share

    grid = []
    for mark in (0.0, 0.5, 1.0):
        x, y = at(mark, mark)
        grid += [
            tag("path", d=f"M{_LEFT:.0f} {y:.1f}H{_LEFT + inner:.0f}", class_="grid"),
            tag("text", f"{mark:g}", x=_LEFT - 6.0, y=y + 4.0, text_anchor="end", class_="q"),
            tag("text", f"{mark:g}", x=x, y=floor + 17.0, text_anchor="middle", class_="q"),
        ]
    cases = list(
        zip(found.predicted.tolist(), found.observed.tolist(), found.counts.tolist(), strict=True)
    )
    points = [at(p, share) for p, share, _ in cases]
    most = max((n for *_, n in cases), default=1)
    dots = [
        tag(
            "circle",
            tag("title", f"said {p:.2f}, came true {share:.2f}, {n:,} cases"),
            cx=x,
            cy=y,
            r=_SMALLEST + (_LARGEST - _SMALLEST) * math.sqrt(n / most),
            class_="dot",
        )
        for (x, y), (p, share, n) in zip(points, cases, strict=True)
    ]
    line = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    drawing = tag(
        "svg",
        grid,
        tag("path", d=f"M{_LEFT:.0f} {floor:.0f}L{_LEFT + inner:.0f} {_TOP:.0f}", class_="ideal"),
        tag("path", d=line, class_="frontier") if points else None,
        dots,
        class_="chart",
        viewBox=f"0 0 {_SIDE:.0f} {floor + _BELOW:.0f}",
        role="img",
        aria_label=f"Reliability of {title}",
    )
    said = (
        f"{title.capitalize()}: off by {fixed(found.error, 3)} on average. Across: probability "
        "said; up: share that came true."
    )
    return tag("figure", drawing, tag("figcaption", said))
