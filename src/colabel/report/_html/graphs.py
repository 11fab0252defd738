"""Learned label graphs as drawings that answer: which labels go with this one, and how much."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from colabel.report._html.graph_layout import BOX, LONGEST, NARROW, Layout, lay_out
from colabel.report._html.markup import Html, counted, cut, details, paragraph, tag
from colabel.report._html.numbers import fixed, signed
from colabel.report._html.page import data_block
from colabel.report._html.tables import Column, Field, table

_MOST_DRAWN = 200
_NARROWEST, _WIDEST = 1.0, 7.0
_PROBABILITIES = ("given_on", "given_off", "back_on", "back_off")
_LEGEND = (
    "Wide edges: the one label changes the probability of the other much. Solid: it makes it "
    "likelier; dashed: less likely."
)
_MEASURED_LEGEND = (
    "Wide edges: the one label says much of the other once the features are known. Solid: it makes "
    "it likelier; dashed: less likely."
)


def graph_figure(graph: Mapping[str, Any], name: str, key: str) -> Html:
    """Draw a label graph with a panel that describes the label under pointer or focus.

    Parameters
    ----------
    graph : mapping
        See `averaged_graph` and `dependence_graph` in `colabel.comparing.graphs`; the edges of
        the latter are measured in nats.
    name : str
        For readers that do not see it.
    key : str
        Part of the ids.
    """
    if not graph["labels"]:
        return paragraph("There are no labels.")
    drawn = _strongest(graph)
    hint = tag("p", "Choose a label (point, tap or arrow keys) to see its neighbours.", class_="q")
    panel = tag("div", hint, class_="panel", aria_live="polite", role="status")
    left_out = len(graph["edges"]) - len(drawn["edges"])
    caption = [_MEASURED_LEGEND if _is_measured(graph) else _LEGEND, _lone(graph)]
    if left_out:
        caption.append(
            f"Drawn are the strongest {_MOST_DRAWN:,} edges; {left_out:,} more are in the table."
        )
    return tag(
        "figure",
        tag(
            "div",
            _drawings(drawn, name),
            panel,
            class_="graph",
        ),
        tag("figcaption", " ".join(part for part in caption if part)),
        _data(graph),
        _edge_table(graph, name),
        class_="label-graph",
        id=key,
    )


def strength(edge: Mapping[str, Any]) -> float:
    """By how much the probability of the end changes with the beginning, or its like in nats.

    Of I nats it is ``sqrt(1 - exp(-2 I))``, the correlation of two normal variables that say as
    much of each other (Linfoot, 1957).
    """
    change = float(edge["given_on"] - edge["given_off"])
    if "nats" in edge:
        return math.copysign(math.sqrt(1.0 - math.exp(-2.0 * float(edge["nats"]))), change)
    return change if math.isfinite(change) else 0.0


def _is_measured(graph: Mapping[str, Any]) -> bool:
    return any("nats" in edge for edge in graph["edges"])


def _strongest(graph: Mapping[str, Any]) -> dict[str, Any]:
    edges = sorted(graph["edges"], key=lambda edge: -abs(strength(edge)))[:_MOST_DRAWN]
    kept = {id(edge) for edge in edges}
    return {**graph, "edges": [edge for edge in graph["edges"] if id(edge) in kept]}


def _lone(graph: Mapping[str, Any]) -> str:
    joined = {edge[end] for edge in graph["edges"] for end in ("from", "to")}
    lone = len(graph["labels"]) - len(joined)
    return f"{counted(lone, 'label has', 'labels have')} no edge." if lone else ""


def _drawings(graph: Mapping[str, Any], name: str) -> Html:
    """The drawing, and where it is too wide for a phone another one for phones."""
    layout = lay_out(graph)
    if layout.width <= NARROW:
        return tag("div", _drawing(graph, layout, name), class_="scroll")
    return tag(
        "div",
        tag("div", _drawing(graph, layout, name), class_="scroll wide"),
        tag("div", _drawing(graph, lay_out(graph, narrow=True), name), class_="narrow"),
    )


def _drawing(graph: Mapping[str, Any], layout: Layout, name: str) -> Html:
    order = sorted(range(len(graph["edges"])), key=lambda e: abs(strength(graph["edges"][e])))
    edges = [_edge(graph["edges"][e], layout.paths[e], bool(graph["directed"])) for e in order]
    joined = {edge[end] for edge in graph["edges"] for end in ("from", "to")}
    first = layout.order[0]
    nodes = [_node(graph, layout, label, label in joined, label == first) for label in layout.order]
    return tag(
        "svg",
        tag("path", d="".join(layout.stems), class_="stem") if layout.stems else None,
        tag("g", edges, aria_hidden="true"),
        tag("g", nodes, role="listbox", aria_label=f"Labels of {name}"),
        class_="chart",
        viewBox=f"0 0 {layout.width:.0f} {layout.height:.0f}",
        style=f"width:{layout.width:.0f}px",
        role="group",
        aria_label=f"Label graph: {name}",
    )


def _edge(edge: Mapping[str, Any], path: str, directed: bool) -> Html:
    change = strength(edge)
    return tag(
        "path",
        d=path,
        class_="edge less" if change < 0.0 else "edge more",
        stroke_width=_NARROWEST + (_WIDEST - _NARROWEST) * min(1.0, abs(change)),
        data_from=str(edge["from"]),
        data_to=str(edge["to"]),
        data_directed="1" if directed else None,
    )


def _node(graph: Mapping[str, Any], layout: Layout, label: int, joined: bool, first: bool) -> Html:
    name = str(graph["labels"][label])
    on = fixed(float(graph["probability"][label]), 2)
    place = layout.nodes[label]
    text = cut(name, LONGEST)
    if place.width:
        shape = tag(
            "rect",
            x=place.x - place.width / 2.0,
            y=place.y - BOX / 2.0,
            width=place.width,
            height=BOX,
            rx=4.0,
        )
        words = tag("text", text, x=place.x, y=place.y + 4.5, text_anchor="middle")
    else:
        shape = tag("circle", cx=place.x, cy=place.y, r=5.0)
        words = _circle_words(layout, label, text)
    return tag(
        "g",
        shape,
        words,
        class_="node" if joined else "node lone",
        role="option",
        tabindex="0" if first else "-1",
        aria_selected="false",
        aria_label=f"{name}, probability {on}",
        data_label=str(label),
    )


def _circle_words(layout: Layout, label: int, text: str) -> Html:
    place = layout.nodes[label]
    if place.turn or place.anchor != "middle":
        shift = 11.0 if place.anchor == "start" else -11.0
        turned = f"translate({place.x:.1f} {place.y:.1f}) rotate({place.turn:.1f})"
        return tag("text", text, x=shift, y=4.5, text_anchor=place.anchor, transform=turned)
    above = place.y < layout.height / 2.0
    y = place.y - 12.0 if above else place.y + 21.0
    return tag("text", text, x=place.x, y=y, text_anchor="middle")


def _data(graph: Mapping[str, Any]) -> Html:
    """Write what the panel shows."""
    edges = [
        [
            int(edge["from"]),
            int(edge["to"]),
            *(_rounded(edge[key]) for key in _PROBABILITIES),
        ]
        for edge in graph["edges"]
    ]
    return data_block(
        {
            "labels": [str(name) for name in graph["labels"]],
            "probability": [_rounded(p) for p in graph["probability"]],
            "edges": edges,
        }
    )


def _rounded(value: float) -> float | None:
    return round(float(value), 4) if math.isfinite(value) else None


def _edge_table(graph: Mapping[str, Any], name: str) -> Html | None:
    if not graph["edges"]:
        return paragraph("The graph has no edges.")
    names = [str(label) for label in graph["labels"]]
    arrow = ("from", "to") if graph["directed"] else ("one", "other")
    measured = _is_measured(graph)
    columns = [
        Column(arrow[0], is_text=True),
        Column(arrow[1], is_text=True),
        *([Column("nats")] if measured else []),
        Column(f"P({arrow[1]} | {arrow[0]} on)"),
        Column("off"),
        Column("change"),
        Column(f"P({arrow[0]} | {arrow[1]} on)"),
        Column("off"),
    ]
    rows = []
    for edge in sorted(graph["edges"], key=lambda edge: -abs(strength(edge))):
        values = [float(edge[key]) for key in _PROBABILITIES]
        numbers = [Field(fixed(value, 2), value) for value in values]
        change = values[0] - values[1]
        ends = [Field(names[edge["from"]]), Field(names[edge["to"]])]
        if measured:
            ends.append(Field(fixed(edge["nats"], 3), edge["nats"]))
        rows.append([*ends, *numbers[:2], Field(signed(change, 2), change), *numbers[2:]])
    return details(
        f"All {counted(len(rows), 'edge')} as a table" if len(rows) > 1 else "The edge as a table",
        table(f"Edges of {name}, strongest first", columns, rows),
    )
