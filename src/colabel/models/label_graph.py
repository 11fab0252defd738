"""Which label depends on which: what every model's `label_graph()` returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from colabel.core.arrays import Array, Indices
from colabel.core.lazy import require

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class LabelGraph:
    """The label graph of a fitted model.

    Attributes
    ----------
    names : tuple of d str
    ends : (E, 2) array of int
        Labels at the ends of every edge; of an arrow, first where it starts.
    meaning : str
        What the graph says, in a sentence.
    directed : bool
    strengths : (E,) array or None
        What an edge is worth; `meaning` says in what.
    signs : (E,) array or None
        Positive where labels attract, negative where they repel each other.
    parents : (d,) array or None
        For a tree: the parent of each label, -1 for roots.
    """

    names: tuple[str, ...]
    ends: Indices
    meaning: str
    directed: bool = False
    strengths: Array | None = None
    signs: Array | None = None
    parents: Indices | None = None

    @classmethod
    def without_edges(cls, names: tuple[str, ...], meaning: str) -> Self:
        """Return the graph of a model that learns none."""
        return cls(names, np.zeros((0, 2), dtype=np.intp), meaning)

    @classmethod
    def of_tree(cls, names: tuple[str, ...], parents: ArrayLike, gains: Array) -> Self:
        """Return a tree, from the parents (d,) and what each arc adds, gains[parent, child]."""
        above = np.asarray(parents, dtype=np.intp)
        children = np.flatnonzero(above >= 0)
        ends = np.stack([above[children], children], axis=1)
        meaning = (
            "The number beside a label says what knowing the label above it adds: nats of "
            "log-likelihood per row, on rows held out."
        )
        return cls(names, ends, meaning, True, gains[ends[:, 0], ends[:, 1]], parents=above)

    @classmethod
    def of_field(
        cls, names: tuple[str, ...], edges: ArrayLike, strengths: ArrayLike, signs: ArrayLike
    ) -> Self:
        """Return the graph of a random field."""
        meaning = (
            "An edge joins two labels that depend on each other whatever the others are; the "
            "number is how strongly, in log-odds."
        )
        return cls(
            names,
            np.asarray(edges, dtype=np.intp).reshape(-1, 2),
            meaning,
            strengths=np.asarray(strengths, dtype=np.float64),
            signs=np.asarray(signs, dtype=np.float64),
        )

    @property
    def pairs(self) -> list[tuple[int, tuple[int, int]]]:
        """Every edge and the labels at its ends, strongest first."""
        order = np.arange(len(self.ends))
        if self.strengths is not None:
            order = np.argsort(-np.abs(self.strengths), kind="stable")
        return [(int(e), (int(self.ends[e, 0]), int(self.ends[e, 1]))) for e in order]

    @property
    def into_labels(self) -> Array:
        """Strength of the arrow into each label (d,), NaN without one."""
        into = np.full(len(self.names), np.nan)
        if self.strengths is not None:
            into[self.ends[:, 1]] = self.strengths
        return into

    def to_frame(self) -> pd.DataFrame:
        """Return the edges as a data frame, strongest first (needs pandas)."""
        require("pandas", "A data frame")
        import pandas as pd

        rows = [
            {
                "from" if self.directed else "label": self.names[i],
                "to" if self.directed else "other": self.names[j],
                **({} if self.strengths is None else {"strength": self.strengths[e]}),
                **({} if self.signs is None else {"sign": int(np.sign(self.signs[e]))}),
            }
            for e, (i, j) in self.pairs
        ]
        return pd.DataFrame(rows)

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
                for e, (i, j) in self.pairs
            ],
        }
