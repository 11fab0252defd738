"""Which label depends on which, read off a fitted model."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class LabelArcs(NamedTuple):
    """Edges between labels.

    Attributes
    ----------
    ends : (E, 2) array of int
        Positions of the labels; of an arrow, first where it starts.
    directed : bool
    """

    ends: NDArray[np.intp]
    directed: bool


def label_arcs(model: Any) -> LabelArcs | None:
    """Return the edges of a model's tree, field or network; None where it has none of these."""
    if hasattr(model, "tree_"):  # the parent of every label, -1 for roots
        parents = np.asarray(model.tree_, dtype=np.intp)
        children = np.flatnonzero(parents >= 0)
        return LabelArcs(np.stack([parents[children], children], axis=1), True)
    if hasattr(model, "graph_"):
        return LabelArcs(np.asarray(model.graph_, dtype=np.intp).reshape(-1, 2), False)
    if hasattr(model, "network_"):  # the parents of every label
        arcs = [(parent, child) for child, own in enumerate(model.network_) for parent in own]
        return LabelArcs(np.array(arcs, dtype=np.intp).reshape(-1, 2), True)
    return None
