"""The label graph a model has learned, as plain data that can be stored and drawn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from colabel.models._label_arcs import label_arcs

# Rows over which the probabilities of pairs are averaged.
_ROWS = 500


def label_graph(model: Any, X: Any, names: Sequence[str]) -> dict[str, Any] | None:
    """Describe the labels (`names`) and edges of a fitted model; None where it has no graph.

    Returns
    -------
    dict
        "labels": names; "probability": P(y = 1) of each label averaged over rows; "directed":
        whether edges point from parent to child; "edges": list of dicts with "from", "to"
        (positions), "given_on" and "given_off": P(to = 1 | from = 1) and P(to = 1 | from = 0),
        averaged over the joint distributions of up to 500 rows, and "back_on", "back_off", the
        same the other way round.
    """
    arcs = label_arcs(model)
    if arcs is None or set(model.label_space_.cardinalities) != {2}:
        return None
    rows = np.linspace(0, X.shape[0] - 1, min(_ROWS, X.shape[0])).astype(int)
    joint = model.joint(X[rows])
    edges = []
    for i, j in arcs.ends:
        table = np.asarray(joint.pair_table(i, j)).mean(axis=0)  # P(y_i, y_j)
        edges.append(
            {
                "from": int(i),
                "to": int(j),
                "given_on": _share(table[1, 1], table[1, 0]),
                "given_off": _share(table[0, 1], table[0, 0]),
                "back_on": _share(table[1, 1], table[0, 1]),
                "back_off": _share(table[1, 0], table[0, 0]),
            }
        )
    return {
        "labels": [str(name) for name in names],
        "probability": [float(p) for p in np.asarray(joint.marginals()).mean(axis=0)],
        "directed": arcs.directed,
        "edges": edges,
    }


def _share(part: float, rest: float) -> float:
    total = part + rest
    return float(part / total) if total > 0.0 else 0.0
