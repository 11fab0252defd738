"""Values of discrete features as cells of one long table, compiled."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from colabel.core.arrays import Array, Flags, Indices
from colabel.core.compiling import njit
from colabel.core.schema import Dims, Fields, Numbers, Positions, Table, refuse_unless, stored

# Whole numbers within such a range are looked up directly; others by a search.
_WIDEST_RANGE = 4096


def _check_cells(fields: Fields, dims: Dims) -> None:
    first = fields["first"]
    sizes = np.diff(first)
    refuse_unless(first[0] == 0 and (sizes > 0).all(), "the cells of a feature are damaged")
    for j, values in fields["searched"].items():
        known = type(j) is int and 0 <= j < dims["p"] and isinstance(values, np.ndarray)
        flat = known and values.dtype == np.float64 and values.ndim == 1
        refuse_unless(flat, "the values of a feature are damaged")
        fits = len(values) == sizes[j] - 1 and len(values) and (np.diff(values) > 0).all()
        refuse_unless(fits, "the values of a feature do not fit its cells")
    dims["cells"] = int(first[-1])


@stored(
    "value-cells",
    check=_check_cells,
    first=Positions("p+1", below=2**53),
    low=Numbers("p", -np.inf, np.inf),
    searched=Table(),
)
class ValueCells(NamedTuple):
    """Where each value of each feature is counted; the last cell of a feature is for the unseen.

    Attributes
    ----------
    first : (p + 1,)
        The cells of feature j stand from ``first[j]`` to ``first[j + 1]``.
    low : (p,)
        Smallest value of a feature of whole numbers: its cells are the numbers from there on.
    searched : dict
        Sorted values of each of the other features, a cell each.
    """

    first: Indices
    low: Array
    searched: dict[int, Array]

    @classmethod
    def of_rows(cls, rows: Array) -> ValueCells:
        """Cells for the values of rows (n, p)."""
        low, high, direct = _ranges(rows)
        searched = {int(j): np.unique(rows[:, j]) for j in np.flatnonzero(~direct)}
        sizes = np.where(direct, high - low + 1, 0).astype(np.intp)
        for j, values in searched.items():
            sizes[j] = len(values)
        return cls(np.concatenate([[0], np.cumsum(sizes + 1)]), low, searched)

    def places(self, rows: Array) -> Indices:
        """Cell of each value, (n, p)."""
        places: Indices = _direct_places(rows, self.low, self.first)
        for j, values in self.searched.items():
            found = np.minimum(np.searchsorted(values, rows[:, j]), len(values) - 1)
            codes = np.where(values[found] == rows[:, j], found, len(values))
            places[:, j] = self.first[j] + codes
        return places

    def per_feature(self, marked: Flags) -> Indices:
        """Count the cells of each feature that are marked (cells,)."""
        counts: Indices = np.add.reduceat(marked.astype(np.intp), self.first[:-1])
        return counts


@njit(nogil=True, cache=True)
def _ranges(rows: Array) -> tuple[Array, Array, Flags]:
    """Smallest and largest value of each feature, and whether it is of whole numbers close by."""
    low, high = rows[0].copy(), rows[0].copy()
    whole = np.ones(rows.shape[1], dtype=np.bool_)
    for row in rows:
        for j in range(len(low)):
            value = row[j]
            low[j], high[j] = min(low[j], value), max(high[j], value)
            whole[j] &= value == math.floor(value)
    return low, high, whole & (high - low < _WIDEST_RANGE)


@njit(nogil=True, cache=True)
def _direct_places(rows: Array, low: Array, first: Indices) -> Indices:
    """Cell of each value of features of whole numbers."""
    places = np.empty(rows.shape, dtype=np.intp)
    for i in range(len(rows)):
        for j in range(len(low)):
            shifted, unseen = rows[i, j] - low[j], first[j + 1] - first[j] - 1
            place = unseen
            if 0 <= shifted < unseen and shifted == math.floor(shifted):
                place = np.intp(shifted)
            places[i, j] = first[j] + place
    return places


@njit(nogil=True, cache=True)
def count_by_class(
    places: Indices, of_row: Indices, weight: Array, n_classes: int, n_cells: int
) -> Array:
    """Weight of the rows of each class in each cell, (K, cells)."""
    counts = np.zeros((n_classes, n_cells))
    for i in range(len(places)):
        for place in places[i]:
            counts[of_row[i], place] += weight[i]
    return counts


@njit(nogil=True, cache=True)
def sum_by_class(places: Indices, tables: Array) -> Array:
    """Sum over the features of each class's entry (K, cells) at a row's cells, (n, K)."""
    sums = np.zeros((len(places), len(tables)))
    for i in range(len(places)):
        for c in range(len(tables)):
            for place in places[i]:
                sums[i, c] += tables[c, place]
    return sums
