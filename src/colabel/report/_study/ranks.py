"""Critical-difference diagrams: methods on an axis of average ranks (Demšar, 2006)."""

from __future__ import annotations

import math
from typing import NamedTuple

from colabel.experiments import Ranking, Results
from colabel.experiments.measures import MEASURES
from colabel.experiments.results import LEVEL
from colabel.report._html.markup import Html, cut, details, join, paragraph, tag, text_width
from colabel.report._html.numbers import fixed, p_value
from colabel.report._html.tables import EMPTY, Column, Field, table

_FONT = 13.0
_AXIS = 42.0  # y of the axis
_LANE = 8.0  # between bars of groups
_ROW = 19.0  # between names
_PER_RANK = 36.0
_FEWEST = 5  # data sets below which Nemenyi's test says little


def ranks_section(results: Results, measure: str) -> Html:
    """Draw the ranks of one measure, or say why not."""
    ranking = results.ranking(measure)
    if ranking is None:
        return paragraph(TOO_FEW, class_="legend")
    title = MEASURES[measure].title
    caption = tag("figcaption", _sentence(ranking, _ranked(results, measure, ranking), title))
    figure = tag("figure", tag("div", diagram(ranking, title), class_="scroll"), caption)
    return join(figure, _wilcoxon(ranking))


def _ranked(results: Results, measure: str, ranking: Ranking) -> int:
    """Count the data sets that took part."""
    entries = results.table(measure)
    return sum(
        all((d, m) in entries and entries[d, m].splits for m in ranking.methods)
        for d in results.datasets
    )


def _sentence(ranking: Ranking, n_datasets: int, title: str) -> Html:
    critical = fixed(ranking.critical_difference, 2)
    said = [
        f"Average ranks by {title} over {n_datasets} data sets; 1 is best. Methods under the same "
        f"bar lie within Nemenyi’s critical difference of {critical} (level {fixed(LEVEL, 2)}) and "
        "are not told apart."
    ]
    if not ranking.groups:
        said.append("Here no two methods do.")
    if not math.isnan(ranking.friedman_p):
        said.append(
            f"Friedman’s test whether all methods are alike: p {_equals(ranking.friedman_p)}."
        )
    if n_datasets < _FEWEST:
        said.append(f"With only {n_datasets} data sets, large differences can go unnoticed.")
    return join(" ".join(said))


def _equals(p: float) -> str:
    text = p_value(p)
    return text.replace("<", "< ") if text.startswith("<") else f"= {text}"


TOO_FEW = (
    "Ranks are not compared: that takes at least two methods measured on the same two data sets."
)


class _Frame(NamedTuple):
    """Where things are: ranks 1 to k on an axis from `margin` to `margin + span`."""

    k: int
    margin: float
    span: float
    top: float

    def x(self, rank: float) -> float:
        return self.margin + self.span * (rank - 1.0) / max(self.k - 1, 1)

    @property
    def width(self) -> float:
        return self.span + 2.0 * self.margin


def diagram(ranking: Ranking, title: str) -> Html:
    """Draw the diagram.

    Names stand left and right below the axis, each joined to its rank by a line; bars right below
    the axis join the groups.
    """
    k = len(ranking.methods)
    margin = 14.0 + max(text_width(_name(ranking, i), _FONT) for i in range(k))
    top = _AXIS + 16.0 + _LANE * len(ranking.groups)
    frame = _Frame(k, margin, max(_PER_RANK * (k - 1), 180.0), top)
    height = top + _ROW * ((k + 1) // 2) + 2.0
    size = f"max-width:{frame.width * 1.1:.0f}px;min-width:{frame.width * 0.75:.0f}px"
    return tag(
        "svg",
        tag("title", f"Critical-difference diagram: average ranks by {title}"),
        _axis(frame),
        _critical(ranking.critical_difference, frame),
        [_method(ranking, i, frame) for i in range(k)],
        _bars(ranking, frame),
        class_="chart",
        viewBox=f"0 0 {frame.width:.0f} {height:.0f}",
        role="img",
        style=f"width:100%;{size}",
    )


def _name(ranking: Ranking, i: int) -> str:
    return f"{cut(ranking.methods[i], 18)} {fixed(float(ranking.ranks[i]), 2)}"


def _axis(frame: _Frame) -> Html:
    ticks = []
    for rank in range(1, frame.k + 1):
        x = frame.x(rank)
        ticks.append(tag("line", x1=x, x2=x, y1=_AXIS - 5.0, y2=_AXIS, class_="axis"))
        ticks.append(tag("text", str(rank), x=x, y=_AXIS - 9.0, text_anchor="middle", class_="q"))
    line = tag("line", x1=frame.x(1), x2=frame.x(frame.k), y1=_AXIS, y2=_AXIS, class_="axis")
    return join(line, ticks)


def _critical(critical: float, frame: _Frame) -> Html:
    """Draw how long the critical difference is, above the axis; as long as the axis at most."""
    x1, x2 = frame.x(1), min(frame.x(1 + critical), frame.x(frame.k))
    ends = [tag("line", x1=x, x2=x, y1=6.0, y2=14.0, class_="axis") for x in (x1, x2)]
    said = f"CD {fixed(critical, 2)}"
    beside = tag("text", said, x=x2 + 6.0, y=14.0, class_="q")
    return join(tag("line", x1=x1, x2=x2, y1=10.0, y2=10.0, class_="axis"), ends, beside)


def _method(ranking: Ranking, i: int, frame: _Frame) -> Html:
    half = (frame.k + 1) // 2
    left = i < half
    y = frame.top + _ROW * (i if left else frame.k - 1 - i)
    x, end = frame.x(float(ranking.ranks[i])), frame.x(1 if left else frame.k)
    end += -8.0 if left else 8.0
    line = tag("path", d=f"M{x:.1f} {_AXIS:.1f}V{y:.1f}H{end:.1f}", class_="elbow")
    side = -4.0 if left else 4.0
    anchor = "end" if left else "start"
    text = tag("text", _name(ranking, i), x=end + side, y=y + 4.5, text_anchor=anchor)
    return tag("g", tag("title", ranking.methods[i]), line, text)


def _bars(ranking: Ranking, frame: _Frame) -> list[Html]:
    bars = []
    for lane, (first, last) in enumerate(ranking.groups):
        y = _AXIS + 9.0 + _LANE * lane
        x1, x2 = frame.x(float(ranking.ranks[first])), frame.x(float(ranking.ranks[last]))
        bars.append(tag("line", x1=x1 - 3.0, x2=x2 + 3.0, y1=y, y2=y, class_="bar"))
    return bars


def _wilcoxon(ranking: Ranking) -> Html:
    columns = [Column("method", is_text=True), *(Column(name) for name in ranking.methods)]
    rows = []
    for i, name in enumerate(ranking.methods):
        values = [float(p) for p in ranking.wilcoxon_p[i]]
        fields = [
            EMPTY if math.isnan(p) else Field(p_value(p), p, "low" if p < LEVEL else None)
            for p in values
        ]
        rows.append([Field(name), *fields])
    return details(
        "Wilcoxon’s signed ranks, pair by pair",
        table("p-values of Wilcoxon’s signed-rank test, corrected by Holm", columns, rows),
        paragraph(f"Bold: below {fixed(LEVEL, 2)}.", class_="legend"),
    )
