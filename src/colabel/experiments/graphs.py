"""The label graph of a model with what its joints say of every edge, as plain data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from colabel.core.arrays import Array
from colabel.joint import Chain, DependencyNetwork, DiscreteDependencyNetwork, Joint
from colabel.models.label_graph import LabelGraph
from colabel.models.wrapped import unwrapped

# Rows over which the probabilities of pairs are averaged, and draws of each where they are counted.
_ROWS, _DRAWS = 500, 100


def averaged_graph(model: Any, X: Any) -> dict[str, Any] | None:
    """Describe the labels and edges of a fitted model; None where it learns no graph.

    Parameters
    ----------
    model : fitted estimator of colabel, or a pipeline or search around one
    X : (n, p)
        Rows, as the outermost estimator takes them.

    Returns
    -------
    dict
        "labels": names; "probability": P(y = 1) of each label averaged over rows; "directed":
        whether edges point from parent to child; "edges": list of dicts with "from", "to"
        (positions), "given_on" and "given_off": P(to = 1 | from = 1) and P(to = 1 | from = 0),
        averaged over the joint distributions of up to 500 rows, and "back_on", "back_off", the
        same the other way round.
    """
    model, X = unwrapped(model, X)
    if not hasattr(model, "label_graph"):
        return None
    graph: LabelGraph = model.label_graph()
    learns_none = not len(graph.ends) and graph.strengths is None
    if learns_none or set(model.label_space_.cardinalities) != {2}:
        return None
    rows = np.linspace(0, X.shape[0] - 1, min(_ROWS, X.shape[0])).astype(int)
    pair = _pair_tables(model.joint(X[rows]))
    edges = []
    for i, j in graph.ends.tolist():
        table = pair(i, j)
        edges.append(
            {
                "from": i,
                "to": j,
                "given_on": _share(table[1, 1], table[1, 0]),
                "given_off": _share(table[0, 1], table[0, 0]),
                "back_on": _share(table[1, 1], table[0, 1]),
                "back_off": _share(table[1, 0], table[0, 0]),
            }
        )
    return {
        "labels": list(graph.names),
        "probability": [float(pair(i, i)[1, 1]) for i in range(len(graph.names))],
        "directed": graph.directed,
        "edges": edges,
    }


def _pair_tables(joint: Joint) -> Callable[[int, int], Array]:
    """Return a function from two labels to P(y_i, y_j), (2, 2), averaged over the rows."""
    if not isinstance(joint, Chain | DependencyNetwork | DiscreteDependencyNetwork):
        return lambda i, j: np.asarray(joint.pair_table(i, j)).mean(axis=0)
    # These families would draw anew for every pair: one sample serves all.
    drawn = joint.sample_codes(_DRAWS, np.random.default_rng(0)).reshape(-1, joint.space.n_labels)

    def counted(i: int, j: int) -> Array:
        return np.bincount(2 * drawn[:, i] + drawn[:, j], minlength=4).reshape(2, 2) / len(drawn)

    return counted


def _share(part: float, rest: float) -> float:
    total = part + rest
    return float(part / total) if total > 0.0 else 0.0
