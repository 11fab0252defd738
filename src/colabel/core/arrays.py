"""Names of array types, each defined once, and functions that serve every kind of array.

Labels are features of other labels as 0/1 columns (`label_columns`).

Code that works on NumPy arrays and on torch tensors asks an array for its module (`xp_of`).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

Array = NDArray[np.float64]
Indices = NDArray[np.intp]
Flags = NDArray[np.bool_]
Codes = NDArray[np.int32]  # of labels
Targets = NDArray[np.int16]  # classes of regressions, negative where a row is not the task's
Keys = NDArray[np.uint64]  # of counter-based random numbers
Rows = slice | NDArray[np.intp]
# A slice has at most so many rows, however much memory there is; a test lowers it to see seams.
MOST_ROWS = sys.maxsize


def is_sparse(X: Any) -> bool:
    """Whether X is a SciPy sparse array or matrix.

    Unlike `scipy.sparse.issparse` this does not narrow the type: rows are Any, dense or CSR.

    Examples
    --------
    >>> is_sparse([[1.0]])
    False
    """
    return bool(sp.issparse(X))


def dense(X: Any) -> Any:
    """X as a dense array; the same object where it is one.

    Examples
    --------
    >>> dense(sp.csr_array([[0.0, 1.0]]))
    array([[0., 1.]])
    """
    return X.toarray() if is_sparse(X) else np.asarray(X)


def one_entry_each(X: Any) -> Any:
    """Return rows whose entries mean one thing: hidden ones are NaN, repeated ones are summed.

    Examples
    --------
    >>> one_entry_each(np.ma.masked_equal([[1.0, 2.0]], 2.0))
    array([[ 1., nan]])
    """
    if isinstance(X, np.ma.MaskedArray):
        return np.ma.filled(X.astype(np.float64), np.nan)
    if is_sparse(X) and X.format == "csr" and not X.has_canonical_format:
        X = X.copy()  # a caller's matrix stays as it is
        X.sum_duplicates()
    return X


def is_dask(collection: Any) -> bool:
    """Whether something is a Dask collection, without importing Dask.

    Examples
    --------
    >>> is_dask([1, 2, 3])
    False
    """
    if "dask" not in sys.modules:
        return False
    from dask.base import is_dask_collection

    return bool(is_dask_collection(collection))


def xp_of(array: Any) -> Any:
    """Return the module of an array: NumPy or torch."""
    if isinstance(array, np.ndarray):
        return np
    import torch

    return torch


def positions(flags: Any) -> Any:
    """Return the positions where the flags (n,) are true, as an array of the same module."""
    return np.flatnonzero(flags) if isinstance(flags, np.ndarray) else flags.nonzero()[:, 0]


def like(array: Any, other: Any) -> Any:
    """Return a NumPy array on the device of another array."""
    if array is None or isinstance(other, np.ndarray) or not isinstance(array, np.ndarray):
        return array
    import torch

    return torch.as_tensor(np.ascontiguousarray(array)).to(other.device)


def zeros(shape: Sequence[int], other: Any, dtype: str = "float64") -> Any:
    """Return zeros where another array is."""
    if isinstance(other, np.ndarray):
        return np.zeros(shape, dtype)
    return other.new_zeros(shape, dtype=getattr(xp_of(other), dtype))


def host(array: Any) -> Any:
    """Return an array as a NumPy array."""
    return array if isinstance(array, np.ndarray) else array.cpu().numpy()


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


def cast(array: Any, dtype: Any) -> Any:
    """Convert the numbers of an array to another type."""
    return array.astype(dtype) if isinstance(array, np.ndarray) else array.to(dtype)


def row_slices(n_rows: int, numbers: int, numbers_each: float = 1.0) -> list[slice]:
    """Cut rows into slices; each needs at most so many numbers, or is a single row.

    Without rows there is one empty slice, so that results still have their shape.

    Examples
    --------
    >>> row_slices(5, 2)
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    >>> row_slices(2, 100, numbers_each=80)
    [slice(0, 1, None), slice(1, 2, None)]
    >>> row_slices(0, 100)
    [slice(0, 0, None)]
    """
    step = min(max(1, int(numbers // max(numbers_each, 1.0))), MOST_ROWS)
    return [slice(start, min(start + step, n_rows)) for start in range(0, max(1, n_rows), step)]


def column_owner(cardinalities: Sequence[int]) -> Indices:
    """Say which variable each label column belongs to.

    A variable of two values gives one column, a variable of K != 2 values gives
    K one-hot columns; the columns of a variable stand side by side, variables in order.

    Parameters
    ----------
    cardinalities : (d,) number of values of each variable

    Returns
    -------
    (e,) integer array, variable index of each column

    Examples
    --------
    >>> column_owner([2, 3, 2])
    array([0, 1, 1, 1, 2])
    """
    sizes = np.asarray(cardinalities, dtype=np.intp)
    # one column describes a binary variable; a second would only split its weight
    return np.repeat(np.arange(len(sizes)), np.where(sizes == 2, 1, sizes))


def n_label_columns(cardinalities: Sequence[int]) -> int:
    """Number of label columns e.

    Examples
    --------
    >>> n_label_columns((2, 3))
    4
    """
    return sum(1 if size == 2 else size for size in cardinalities)


def label_columns(codes: Codes, cardinalities: Sequence[int]) -> Array:
    """Write label codes as 0/1 columns, in the order of `column_owner`.

    Parameters
    ----------
    codes : (n, d) integer codes, each in ``range(cardinalities[j])``; a code
        outside that range (such as -1, unknown) gives zeros in all its columns
    cardinalities : (d,) number of values of each variable

    Returns
    -------
    (n, e) float array of zeros and ones

    Examples
    --------
    >>> label_columns(np.array([[1, 2], [0, 0]]), [2, 3])
    array([[1., 0., 0., 1.],
           [0., 1., 0., 0.]])
    """
    owner = column_owner(cardinalities)
    sizes = np.asarray(cardinalities, dtype=np.intp)
    first = np.searchsorted(owner, owner)  # where the columns of the same variable begin
    value = np.where(sizes[owner] == 2, 1, np.arange(len(owner)) - first)
    columns: Array = (np.asarray(codes)[:, owner] == value).astype(np.float64)
    return columns
