"""Features as a reader knows them: columns with their values, words that stand in a text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from colabel.core.arrays import Array, Indices, is_sparse


@dataclass(frozen=True)
class FeatureTerms:
    """What the evidence of a row is told by: G terms, each of one or several features.

    Attributes
    ----------
    names : tuple of G str
    values : tuple of G str
        What the row has there, as it is shown; "" where the name says it all.
    owner : (p,) array of int
        The term that each feature belongs to.
    """

    names: tuple[str, ...]
    values: tuple[str, ...]
    owner: Indices

    @property
    def n_terms(self) -> int:
        """Number of terms G."""
        return len(self.names)

    def sums(self, of_features: Array) -> Array:
        """Sum numbers (m, p) of features by term, (m, G)."""
        total = np.zeros((len(of_features), self.n_terms))
        np.add.at(total.T, self.owner, of_features.T)
        return total


def plain_terms(x: Any, names: Sequence[str] | None = None) -> FeatureTerms:
    """Return the terms of a row x (1, p): each feature; of sparse rows the zeros together."""
    n_features = int(x.shape[1])
    if names is None:
        names = [f"x{i}" for i in range(n_features)]
    if not is_sparse(x):
        values = tuple(f"{value:.4g}" for value in np.asarray(x)[0].tolist())
        return FeatureTerms(tuple(names), values, np.arange(n_features))
    row = np.asarray(x.toarray())[0]
    present = np.flatnonzero(row)
    owner = np.full(n_features, len(present), dtype=np.intp)
    owner[present] = np.arange(len(present))
    absent = [] if len(present) == n_features else ["features that are 0"]
    return FeatureTerms(
        (*(names[int(i)] for i in present), *absent),
        (*(f"{row[i]:.4g}" for i in present), *([""] * len(absent))),
        owner,
    )
