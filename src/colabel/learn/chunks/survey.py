"""What one pass says of groups of rows, before regressions on them begin."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from colabel.core.arrays import Array, Flags, Indices, is_sparse
from colabel.learn.chunks.chunked_data import ChunkedData
from colabel.learn.chunks.chunked_design import ChunkedDesign
from colabel.learn.chunks.row_parts import ChunkedFolds, RowPart
from colabel.learn.design import half_way

_MOST_USED = 0.9  # as in `UsedColumns`


class Survey(NamedTuple):
    """What one pass says of G groups of rows.

    Attributes
    ----------
    n_rows, weight : (G,)
    energy : (G, q)
        Weighted sums of squares of the coordinates.
    filled : (G, q)
        Number of rows in which each coordinate is stored; of sparse rows.
    counts : (G, 1 + F, d, K)
        Weight of the rows with each value of each label: never held out, then in each fold.
    """

    n_rows: Indices
    weight: Array
    energy: Array
    filled: Indices
    counts: Array

    @classmethod
    def of(
        cls, data: ChunkedData, design: ChunkedDesign, groups: Any, folds: ChunkedFolds | None
    ) -> Survey:
        """Look at all groups; without folds all rows count as never held out."""
        fold = None if folds is None else folds.at_rows
        n_folds = 0 if folds is None else folds.n_folds
        selected = [group.rows for group in groups]
        return data.total(_survey, design, n_folds, max(data.cardinalities), fold, *selected)

    def scale(self, sparse: bool) -> Array:
        """See `Design.scale`, (G, q)."""
        if not sparse:
            return self.energy
        n_used = self._used().sum(axis=1)
        return np.stack(
            [
                half_way(own, own.sum() / max(1, n))
                for own, n in zip(self.energy, n_used, strict=True)
            ]
        )

    def used(self, sparse: bool) -> Array | None:
        """Which coordinates of a group are not empty, (G, q), where that matters."""
        return self._used().astype(np.float64) if sparse else None

    def _used(self) -> Flags:
        filled = self.filled > 0
        nearly_all = filled.sum(axis=1) > _MOST_USED * filled.shape[1]
        return np.asarray(filled | nearly_all[:, None])


def _survey(
    part: RowPart,
    design: ChunkedDesign,
    n_folds: int,
    n_values: int,
    fold: Indices | None,
    *selected: Flags | None,
) -> Survey:
    found = []
    place = np.zeros(part.n_rows, dtype=np.intp) if fold is None else fold.astype(np.intp) + 1
    rows, weight = design.turned(part), part.row_weights
    label = np.arange(part.n_labels)
    cells = (place[:, None] * part.n_labels + label) * n_values + part.codes
    shape = (1 + n_folds, part.n_labels, n_values)
    for marks in selected:
        at = np.arange(part.n_rows) if marks is None else np.flatnonzero(marks)
        own = rows if marks is None else rows.take(at)
        known = part.codes[at] >= 0
        heavy = np.broadcast_to(weight[at, None], known.shape)[known]
        counts = np.bincount(cells[at][known], heavy, minlength=int(np.prod(shape)))
        filled = np.zeros(design.n_coordinates, dtype=np.intp)
        if is_sparse(own.rows):
            filled = np.bincount(own.rows.indices, minlength=design.n_coordinates)
            filled[-1 - design.n_extra :] = 1
        total = float(weight[at].sum())
        found.append(Survey(len(at), total, own.energy(), filled, counts.reshape(shape)))  # type: ignore[arg-type]
    return Survey(*(np.stack(each) for each in zip(*found, strict=True)))
