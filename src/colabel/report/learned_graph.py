"""Which label depends on which, as a fitted model has learned it: numbers first, text second."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from colabel.core.arrays import Array, Indices
from colabel.joint.views import require_pandas
from colabel.models._label_arcs import label_arcs
from colabel.report.tree_shape import strength_note, tree_text

if TYPE_CHECKING:
    import pandas as pd


_MOST_LINES = 40


@dataclass(frozen=True, eq=False)
class LabelGraph:
    """The label graph of a fitted model.

    Attributes
    ----------
    names : tuple of d str
    ends : (E, 2) array of int
        Labels at the ends of every edge; of an arrow, first where it starts.
    strengths : (E,) array or None
        What an edge is worth; `meaning` says in what.
    signs : (E,) array or None
        Positive where labels attract, negative where they repel each other.
    directed : bool
    parents : (d,) array or None
        For a tree: the parent of each label, -1 for roots.
    meaning : str
        What the graph says, in a sentence.
    """

    names: tuple[str, ...]
    ends: Indices
    strengths: Array | None
    signs: Array | None
    directed: bool
    parents: Indices | None
    meaning: str

    def to_frame(self) -> pd.DataFrame:
        """Return the edges as a data frame, strongest first (needs pandas)."""
        require_pandas()
        import pandas as pd

        rows = [
            {
                "from" if self.directed else "label": self.names[i],
                "to" if self.directed else "other": self.names[j],
                **({} if self.strengths is None else {"strength": self.strengths[e]}),
                **({} if self.signs is None else {"sign": int(np.sign(self.signs[e]))}),
            }
            for e, (i, j) in self._ordered()
        ]
        return pd.DataFrame(rows)

    def text(self) -> str:
        """Return the graph as lines of text: a tree, or its edges, strongest first."""
        if self.parents is not None:
            return tree_text(self.parents, self.names, self._into_labels())
        if not len(self.ends):
            return "No edges."
        arrow = "→" if self.directed else "–"
        lines = [f"{self.names[i]} {arrow} {self.names[j]}" for _, (i, j) in self._ordered()]
        width = max(map(len, lines))
        shown = [
            f"{line:<{width}}  {self._note(e)}".rstrip()
            for line, (e, _) in zip(lines, self._ordered(), strict=True)
        ]
        more = [f"and {len(shown) - _MOST_LINES} more"] if len(shown) > _MOST_LINES else []
        return "\n".join(shown[:_MOST_LINES] + more)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return {
            "meaning": self.meaning,
            "directed": self.directed,
            "edges": [
                {
                    "from": self.names[i],
                    "to": self.names[j],
                    "strength": None if self.strengths is None else float(self.strengths[e]),
                    "sign": None if self.signs is None else int(np.sign(self.signs[e])),
                }
                for e, (i, j) in self._ordered()
            ],
        }

    def _ordered(self) -> list[tuple[int, tuple[int, int]]]:
        order = np.arange(len(self.ends))
        if self.strengths is not None:
            order = np.argsort(-np.abs(self.strengths), kind="stable")
        return [(int(e), (int(self.ends[e, 0]), int(self.ends[e, 1]))) for e in order]

    def _note(self, e: int) -> str:
        if self.strengths is None:
            return ""
        kind = ""
        if self.signs is not None and self.signs[e]:
            kind = " attract" if self.signs[e] > 0 else " repel"
        return strength_note(float(self.strengths[e])) + kind

    def _into_labels(self) -> Array:
        """Strength of the arrow into each label (d,), NaN without one."""
        into = np.full(len(self.names), np.nan)
        if self.strengths is not None:
            into[self.ends[:, 1]] = self.strengths
        return into


def label_graph(model: Any) -> LabelGraph:
    """Return which label depends on which, as a fitted model has learned it.

    Parameters
    ----------
    model : fitted estimator of colabel, or a pipeline or table model around one

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
    last = innermost(model)
    check_is_fitted(last)
    names = tuple(last.label_names_)
    arcs = label_arcs(last)
    if arcs is not None and hasattr(last, "tree_"):
        return _of_tree(last, arcs.ends, names)
    if arcs is not None and arcs.directed:
        meaning = "An arrow points to a label from a label that it depends on."
        return LabelGraph(names, arcs.ends, None, None, True, None, meaning)
    if arcs is not None and hasattr(last, "edge_strengths_"):
        return LabelGraph(
            names,
            arcs.ends,
            np.asarray(last.edge_strengths_, dtype=np.float64),
            np.asarray(last.edge_signs_, dtype=np.float64),
            directed=False,
            parents=None,
            meaning="An edge joins two labels that depend on each other whatever the others are; "
            "the number is how strongly, in log-odds.",
        )
    if hasattr(last, "label_weights_") and len(last.label_weights_) == len(names):
        return _of_weights(np.asarray(last.label_weights_), names)
    return _of_order(last, names)


def innermost(model: Any) -> Any:
    """Return the estimator with the labels: the model in a table model, pipeline or wrapper."""
    if hasattr(model, "preprocessor") and hasattr(model, "model"):
        model = model.model
    while hasattr(model, "steps"):
        model = model.steps[-1][-1]
    inner = getattr(model, "estimator_", None)
    return innermost(inner) if hasattr(inner, "label_names_") else model


def _of_tree(model: Any, ends: Indices, names: tuple[str, ...]) -> LabelGraph:
    parents = np.asarray(model.tree_, dtype=np.intp)
    gains = getattr(model, "edge_gains_", None)
    strengths = None if gains is None else np.asarray(gains)[ends[:, 0], ends[:, 1]]
    meaning = (
        "The number beside a label says what knowing the label above it adds: nats of "
        "log-likelihood per row, on rows held out."
    )
    return LabelGraph(names, ends, strengths, None, True, parents, meaning)


def _of_weights(weights: Array, names: tuple[str, ...]) -> LabelGraph:
    """Edges of a dependency network: the mean of the weights in both directions."""
    mean = (weights + weights.T) / 2.0
    ends = np.argwhere(np.triu(np.abs(mean) > 0, k=1)).astype(np.intp)
    values = mean[ends[:, 0], ends[:, 1]]
    meaning = (
        "Every label is predicted from all others; the number is the mean of the two weights "
        "between two labels, in log-odds."
    )
    return LabelGraph(names, ends, np.abs(values), np.sign(values), False, None, meaning)


def _of_order(model: Any, names: tuple[str, ...]) -> LabelGraph:
    none = np.zeros((0, 2), dtype=np.intp)
    order = getattr(model, "order_", None)
    if order is not None:
        order = np.asarray(order, dtype=np.intp)
        ends = np.stack([order[:-1], order[1:]], axis=1)
        meaning = (
            "A chain: each label is predicted from the features and all labels before it, in this "
            "order: " + ", ".join(names[i] for i in order) + "."
        )
        return LabelGraph(names, ends, None, None, True, None, meaning)
    if hasattr(model, "orders_"):
        meaning = f"A mixture of {len(model.orders_)} chains in random orders: it has no one graph."
    elif hasattr(model, "arc_log_prob_"):
        meaning = f"{len(names)} networks, each with another label as root: it has no one graph."
    else:
        meaning = f"{type(model).__name__} learns no graph of the labels."
    return LabelGraph(names, none, None, None, False, None, meaning)
