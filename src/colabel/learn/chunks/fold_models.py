"""What models that have not seen a row say of it, computed where the row is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from colabel.core.arrays import Array, Indices
from colabel.learn.chunks.row_parts import ChunkedFolds, RowPart
from colabel.learn.conditional import ConditionalModels, TrainingData, scores_of

At = Callable[["FoldModels", RowPart, Indices], Any]


@dataclass(frozen=True)
class FoldModels:
    """Models of every label, d for each fold, learned without its rows.

    Attributes
    ----------
    models : ConditionalModels
        Those of a fold together.
    n_labels : int
    """

    models: ConditionalModels
    n_labels: int

    def tables(self, part: TrainingData, fold: Indices) -> list[Array]:
        """Log-probabilities, d arrays (m, K_i), by the models of each row's fold.

        Zero for rows that are never held out.
        """
        found: list[Array] | None = None
        for held in np.unique(fold[fold >= 0]):
            rows = np.flatnonzero(fold == held)
            own = np.arange(held * self.n_labels, (held + 1) * self.n_labels)
            tables = self.models.take(own).log_prob(part.X[rows])
            if found is None:
                found = [np.zeros((part.n_rows, table.shape[1])) for table in tables]
            for whole, table in zip(found, tables, strict=True):
                whole[rows] = table
        return [np.zeros((part.n_rows, k)) for k in part.cardinalities] if found is None else found


def held_out_scores(models: FoldModels, part: RowPart, fold: Indices) -> tuple[Array, ...]:
    """See `Learning.cross_fitted_scores`: d arrays (K_i, m)."""
    return tuple(scores_of(table.T) for table in models.tables(part, fold))


def held_out_log_prob(models: FoldModels, part: RowPart, fold: Indices) -> Array:
    """See `HeldOutScores.log_prob`: (d, m)."""
    found = np.zeros((models.n_labels, part.n_rows))
    for label, table in enumerate(models.tables(part, fold)):
        truth = part.codes[:, label]
        own = table[np.arange(part.n_rows), np.maximum(truth, 0)]
        found[label] = np.where(truth >= 0, own, 0.0)
    return found


@dataclass(frozen=True)
class ByFold:
    """Something that models say of the rows of their folds, as an argument of a pass."""

    at: At
    models: FoldModels
    folds: ChunkedFolds

    def sent(self, place: int) -> _ByFoldAt:
        return _ByFoldAt(self.at, self.models, place)


@dataclass(frozen=True)
class _ByFoldAt:
    at: At
    models: FoldModels
    place: int

    def __call__(self, part: RowPart) -> Any:
        return self.at(self.models, part, part.folds[self.place])
