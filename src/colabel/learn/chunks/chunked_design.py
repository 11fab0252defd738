"""The coordinates of rows in chunks; the rows themselves are only centred.

Scores are linear: instead of turning every row to the principal axes in every pass, coefficients
and gradients are turned, which are small.

A `Survey` is what one pass says of groups of rows before regressions on them begin.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from colabel.core.arrays import Array, Flags, Indices, UsedColumns, is_sparse
from colabel.learn.chunks.chunked_data import ChunkedData, ChunkedFolds
from colabel.learn.conditional import TrainingData
from colabel.learn.design import (
    LARGEST_ROTATION,
    Axes,
    Columns,
    Coordinates,
    Design,
    Moments,
    half_way,
)


def _moments(part: TrainingData, with_gram: bool) -> Moments:
    return Moments.of(part.X, part.weight, with_gram)


def _extra_sums(part: TrainingData) -> Array:
    assert part.extra is not None
    return np.asarray(part.row_weights @ part.extra)


def _filled_columns(part: TrainingData) -> Indices:
    return np.bincount(part.X.indices, minlength=part.n_features)


@dataclass(frozen=True)
class ChunkedDesign:
    """Coordinates of all rows of some data; see `Design`.

    Attributes
    ----------
    axes : Axes or None
        Of dense rows.
    used : UsedColumns or None
        Columns of sparse rows that are not empty; None for all, and for dense rows.
    n_features : int
        Number of features p, the extra ones included.
    n_extra : int
    bare : bool
        Whether the constant is the only coordinate.
    """

    axes: Axes | None
    used: UsedColumns | None
    n_features: int
    n_extra: int
    bare: bool = False

    @classmethod
    def of(cls, data: ChunkedData) -> ChunkedDesign:
        """Find the coordinates: at most one pass, and one for extra features."""
        n_features = data.n_features + data.n_extra
        if data.sparse:
            return cls(None, _used_columns(data), n_features, data.n_extra)
        if "axes" not in data.known:
            with_gram = data.n_features <= LARGEST_ROTATION
            moments = data.total(_moments, with_gram, combine=Moments.pooled)
            data.known["axes"] = moments.axes(data.n_rows)
        axes = data.known["axes"]
        if data.n_extra:
            mean = data.total(_extra_sums) / data.total_weight
            axes = Axes(np.concatenate([axes.mean, mean]), axes.basis, data.n_extra)
        return cls(axes, None, n_features, data.n_extra)

    @property
    def coordinates(self) -> Coordinates:
        """The map between coefficients of features and of coordinates."""
        return Columns(self.used) if self.axes is None else self.axes

    @property
    def n_coordinates(self) -> int:
        """Number of coordinates q, the constant included."""
        if self.bare:
            return 1
        if self.used is not None:
            return len(self.used.positions)
        if self.axes is None or self.axes.basis is None:
            return self.n_features + 1
        return int(self.axes.basis.shape[1]) + self.n_extra + 1

    def constants(self) -> ChunkedDesign:
        """Return the design without all features."""
        return replace(self, axes=Axes(np.zeros(0), None), used=None, n_extra=0, bare=True)

    def enter(self, coef: Array) -> Array:
        return self.coordinates.enter(coef)

    def leave(self, coef: Array) -> Array:
        return self.coordinates.leave(coef)

    def rows(self, part: TrainingData) -> Design:
        """Rows of a part, centred but not turned."""
        if self.bare:
            return Design(np.ones((part.n_rows, 1)), None, part.weight, self.coordinates)
        if is_sparse(part.X):
            csr = _stacked(part) if self.used is None else self.used.gather(_stacked(part))
            columns = sp.csr_array(csr.T)
            return Design(csr, columns, part.weight, self.coordinates, n_extra=self.n_extra)
        assert self.axes is not None
        rows = np.ones((part.n_rows, self.n_features + 1))
        cut = part.n_features
        np.subtract(part.X, self.axes.mean[:cut], out=rows[:, :cut])
        if part.extra is not None:
            np.subtract(part.extra, self.axes.mean[cut:], out=rows[:, cut:-1])
        return Design(rows, None, part.weight, self.coordinates, n_extra=self.n_extra)

    def turned(self, part: TrainingData) -> Design:
        """Rows of a part in the coordinates, as `Design.of` all rows would have them."""
        design = self.rows(part)
        if self.axes is None or self.axes.basis is None:
            return design
        rows = np.hstack([self.axes.rotate(design.rows[:, :-1]), design.rows[:, -1:]])
        return replace(design, rows=rows)

    def of_rows(self, coef: Array) -> Array:
        """Coefficients (..., q) of coordinates as those of the rows of `rows`."""
        if self.axes is None or self.axes.basis is None:
            return coef
        cut = self.axes.basis.shape[1]
        return np.concatenate([coef[..., :cut] @ self.axes.basis.T, coef[..., cut:]], axis=-1)

    def gradient(self, slope: Array) -> Array:
        """Gradients by coefficients of the rows of `rows` as gradients by coordinates."""
        if self.axes is None or self.axes.basis is None:
            return slope
        cut = self.axes.basis.shape[0]
        return np.concatenate([slope[..., :cut] @ self.axes.basis, slope[..., cut:]], axis=-1)


def _stacked(part: TrainingData) -> sp.csr_array:
    ones = np.ones((part.n_rows, 1))
    more = ones if part.extra is None else np.hstack([part.extra, ones])
    whole = sp.csr_array(sp.hstack([sp.csr_array(part.X), sp.csr_array(more)], "csr"))
    whole.sort_indices()
    return whole


def _used_columns(data: ChunkedData) -> UsedColumns | None:
    if "filled" not in data.known:
        data.known["filled"] = data.total(_filled_columns)
    return UsedColumns.among(data.known["filled"] > 0, data.n_extra + 1)


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
    part: TrainingData,
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
