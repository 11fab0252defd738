"""The label graph of a fitted model, found and written as text."""

from __future__ import annotations

from typing import Any

from colabel.models.label_graph import LabelGraph
from colabel.models.wrapped import model_inside
from colabel.report.tree_shape import strength_note, tree_text

__all__ = ["graph_text", "label_graph"]

_MOST_LINES = 40


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


def graph_text(graph: LabelGraph) -> str:
    """Return a graph as lines of text: a tree, or its edges, strongest first."""
    if graph.parents is not None:
        return tree_text(graph.parents, graph.names, graph.into_labels)
    if not len(graph.ends):
        return "No edges."
    arrow = "→" if graph.directed else "–"
    shown = graph.pairs[:_MOST_LINES]
    lines = [f"{graph.names[i]} {arrow} {graph.names[j]}" for _, (i, j) in shown]
    width = max(map(len, lines))
    lines = [
        f"{line:<{width}}  {_note(graph, e)}".rstrip()
        for line, (e, _) in zip(lines, shown, strict=True)
    ]
    more = len(graph.ends) - len(lines)
    return "\n".join([*lines, f"and {more} more"] if more else lines)


def _note(graph: LabelGraph, e: int) -> str:
    if graph.strengths is None:
        return ""
    kind = ""
    if graph.signs is not None and graph.signs[e]:
        kind = " attract" if graph.signs[e] > 0 else " repel"
    return strength_note(float(graph.strengths[e])) + kind
