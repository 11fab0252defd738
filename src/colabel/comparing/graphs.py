"""The label graph of a model with what its joints say of every edge, as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from colabel.core.arrays import Array
from colabel.joint import Joint, label_dependence
from colabel.models.label_graph import LabelGraph
from colabel.models.wrapped import title_of, unwrapped

# Rows over which the probabilities of pairs are averaged, and draws of each where they are counted.
_ROWS, _DRAWS = 500, 100
# Of graphs that are measured: rows, labels, and what an edge must be worth.
_MEASURED_ROWS, _MOST_LABELS, _LEAST_NATS = 300, 40, 0.005


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
        averaged over the joint distributions of up to 500 rows (counted in 100 draws of each
        where their sums are not exact), and "back_on", "back_off", the same the other way round.
    """
    model, X = unwrapped(model, X)
    if not hasattr(model, "label_graph"):
        return None
    graph: LabelGraph = model.label_graph()
    learns_none = not len(graph.ends) and graph.strengths is None
    if learns_none or set(model.label_space_.cardinalities) != {2}:
        return None
    rows = np.linspace(0, X.shape[0] - 1, min(_ROWS, X.shape[0])).astype(int)
    ends, labels = graph.ends.tolist(), range(len(graph.names))
    tables = _pair_tables(model.joint(X[rows]), [*ends, *((i, i) for i in labels)])
    edges = []
    for (i, j), table in zip(ends, tables[: len(ends)], strict=True):
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
        "probability": [float(table[1, 1]) for table in tables[len(ends) :]],
        "directed": graph.directed,
        "edges": edges,
    }


def dependence_graph(model: Any, X: Any) -> dict[str, Any] | None:
    """Measure which labels depend on each other given x, in the joints of a fitted model.

    Parameters
    ----------
    model : fitted estimator of colabel, or a pipeline or search around one
    X : (n, p)
        Rows, as the outermost estimator takes them.

    Returns
    -------
    dict or None
        As from `averaged_graph`, undirected, where every edge also has "nats", the conditional
        mutual information given x averaged over up to 300 rows, and its probabilities are given x
        too, see `label_dependence`; NaN for class variables. Edges below 0.005 nats, or a
        fiftieth of the strongest, are left out. "n_labels" counts all labels; of more than 40,
        the 40 least certain ones are looked at. None for models without probabilities.
    """
    model, X = unwrapped(model, X)
    if not hasattr(model, "joint"):
        return None
    rows = np.linspace(0, X.shape[0] - 1, min(_MEASURED_ROWS, X.shape[0])).astype(int)
    joint: Joint = model.joint(X[rows])
    try:
        tables = joint.marginal_tables()
    except NotImplementedError:  # of classifiers that only decide
        return None
    unsure = np.array([1.0 - float((table**2).sum(axis=1).mean()) for table in tables])
    labels = np.sort(np.argsort(-unsure, kind="stable")[:_MOST_LABELS])
    found = label_dependence(joint, labels.tolist())
    least = max(_LEAST_NATS, float(found.nats.max()) / 50)
    edges = [
        {
            "from": int(i),
            "to": int(j),
            "nats": float(found.nats[i, j]),
            "given_on": float(found.given_on[i, j]),
            "given_off": float(found.given_off[i, j]),
            "back_on": float(found.given_on[j, i]),
            "back_off": float(found.given_off[j, i]),
        }
        for i, j in np.argwhere(np.triu(found.nats >= least, 1))
    ]
    return {
        "labels": [joint.space.names[i] for i in labels],
        "probability": [float(tables[i][:, -1].mean()) for i in labels],
        "directed": False,
        "edges": sorted(edges, key=lambda edge: -float(edge["nats"])),
        "n_labels": joint.space.n_labels,
        "title": title_of(model),
    }


def _pair_tables(joint: Joint, pairs: Sequence[tuple[int, int]]) -> list[Array]:
    """Return P(y_i, y_j), (2, 2), of pairs of labels (i, j), averaged over the rows."""
    if "sums" in joint.exact:
        return [table.mean(axis=0) for table in joint.pair_tables(pairs)]
    # Estimates would be made anew for every pair: one sample serves all.
    drawn = joint.sample_codes(_DRAWS, np.random.default_rng(0)).reshape(-1, joint.space.n_labels)
    cells = (2 * drawn[:, i] + drawn[:, j] for i, j in pairs)
    return [np.bincount(cell, minlength=4).reshape(2, 2) / len(drawn) for cell in cells]


def _share(part: float, rest: float) -> float:
    total = part + rest
    return float(part / total) if total > 0.0 else 0.0
