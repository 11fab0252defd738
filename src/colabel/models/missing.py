"""Missing labels: rows are completed by draws from their posterior, given the labels they have."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from colabel.core.arrays import Codes, Flags, Indices
from colabel.joint import Joint
from colabel.labels import MISSING
from colabel.learn.conditional import Folds, TrainingData


@dataclass(frozen=True)
class CompletedData(TrainingData):
    """Rows whose labels are all there, some of them drawn; copies of a row share its weight.

    Attributes
    ----------
    origin : TrainingData
        The rows as they were given.
    source : (n,)
        The row of `origin` behind each. Copies of a row share a fold.
    """

    origin: Any = None
    source: Any = None

    def take(self, rows: Indices | Flags | slice) -> Self:
        """Return some of the rows, by position or mark."""
        return replace(super().take(rows), source=self.source[rows])

    def random_folds(self, cv: int | float, seed: int) -> Folds:
        """Assign the rows as they were given to folds."""
        return self.copied(self.origin.random_folds(cv, seed))

    def copied(self, folds: Folds) -> Folds:
        """Return the folds of these rows, from those of the rows as they were given."""
        return Folds(folds.of_row[self.source], folds.n_folds)


def completed(data: TrainingData, drawn: Codes, incomplete: Indices) -> CompletedData:
    """Return the rows with draws (s, m, d) in the place of those that lack labels.

    A row counts as much as before: each of its different completions by the share of its draws.
    """
    n_draws, n_incomplete, n_labels = drawn.shape
    place = np.tile(np.arange(n_incomplete), n_draws)
    keyed = np.column_stack([place, drawn.reshape(-1, n_labels)])
    unique, counts = np.unique(keyed, axis=0, return_counts=True)
    copies = incomplete[unique[:, 0]]
    whole = np.setdiff1d(np.arange(data.n_rows), incomplete)
    source = np.concatenate([whole, copies])
    share = np.concatenate([np.ones(len(whole)), counts / n_draws])
    return CompletedData(
        data.X[source],
        np.concatenate([data.codes[whole], unique[:, 1:].astype(np.int32)]),
        data.cardinalities,
        data.row_weights[source] * share,
        None if data.extra is None else data.extra[source],
        data,
        source,
    )


def posterior_draws(joint: Joint, codes: Codes, n_draws: int, seed: int) -> Codes:
    """Draw vectors (n_draws, n, d) that agree with the known labels of each row."""
    known = joint.given_codes(codes)
    drawn = known.sample_codes(n_draws, np.random.default_rng(seed))
    return np.where(codes == MISSING, drawn, codes)
