"""Columns of sparse rows that hold anything."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from colabel.core.arrays import Array, Flags, Indices

# Leaving empty columns out does not pay when more than this share of the columns is in use.
_MOST_USED = 0.9


@dataclass(frozen=True)
class UsedColumns:
    """Some of the columns of a matrix.

    An L2 penalty leaves the coefficient of an empty column at zero, so a solver can do without
    it. Text has many words that the rows of a fold never use.

    Attributes
    ----------
    positions : (m,)
        Ascending.
    n_columns : int
        How many columns there are in all.

    Examples
    --------
    >>> rows = sp.csr_array([[0, 5, 0, 1], [0, 0, 0, 1]])
    >>> used = UsedColumns.of(rows)
    >>> used.gather(rows).toarray().tolist(), used.spread(np.array([7.0, 8.0])).tolist()
    ([[5, 1], [0, 1]], [0.0, 7.0, 0.0, 8.0])
    """

    positions: Indices
    n_columns: int

    @classmethod
    def of(cls, rows: sp.csr_array, n_kept: int = 0) -> UsedColumns | None:
        """Return the columns that are not empty and the last `n_kept`; None if nearly all."""
        filled = np.zeros(rows.shape[1] - n_kept, dtype=bool)
        filled[rows.indices[rows.indices < len(filled)]] = True
        return cls.among(filled, n_kept)

    @classmethod
    def among(cls, filled: Flags, n_kept: int) -> UsedColumns | None:
        """Return the columns marked (p,) and `n_kept` more behind them; None if nearly all."""
        n_columns = len(filled) + n_kept
        positions = np.flatnonzero(np.concatenate([filled, np.ones(n_kept, dtype=bool)]))
        return None if len(positions) > _MOST_USED * n_columns else cls(positions, n_columns)

    def gather(self, rows: sp.csr_array) -> sp.csr_array:
        """Rows (n, p) without the other columns, which must be empty: (n, m)."""
        place = np.zeros(self.n_columns, dtype=rows.indices.dtype)
        place[self.positions] = np.arange(len(self.positions))
        parts = (rows.data, place[rows.indices], rows.indptr)
        return sp.csr_array(parts, shape=(rows.shape[0], len(self.positions)))

    def spread(self, values: Array) -> Array:
        """Put values (..., m) into their columns (..., p), zero elsewhere."""
        spread = np.zeros((*values.shape[:-1], self.n_columns))
        spread[..., self.positions] = values
        return spread
