"""Hashes of 64 bits, which serve as random numbers of rows.

The hash of a row is the same whatever rows stand beside it and in whatever order, whether it is
stored dense or sparse, on one machine or another.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from colabel.core.arrays import Array, Keys, is_sparse, row_slices

# Factors of SplitMix64 (Steele, Lea & Flood, 2014).
FIRST_FACTOR = 0xBF58476D1CE4E5B9
SECOND_FACTOR = 0x94D049BB133111EB

_NUMBERS_AT_ONCE = 1 << 22


def mix(words: Keys) -> Keys:
    """Scramble words of 64 bits; a bijection, so different words stay different.

    Examples
    --------
    >>> import numpy as np
    >>> mix(np.array([0, 1], dtype=np.uint64))
    array([                   0, 6238072747940578789], dtype=uint64)
    """
    words = (words ^ (words >> np.uint64(30))) * np.uint64(FIRST_FACTOR)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(SECOND_FACTOR)
    return words ^ (words >> np.uint64(31))


def row_keys(X: Any, units: Array | None = None) -> Keys:
    """Return a number of 64 bits for each row of X (n, p), dense or sparse.

    It is the sum, over the entries that are not zero, of a hash of position and value. With
    `units` (p,) values count as equal when they round to the same multiple of their column's unit.

    Examples
    --------
    >>> import numpy as np
    >>> keys = row_keys(np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]))
    >>> bool(keys[0] == keys[2] != keys[1])
    True
    """
    n_rows, n_columns = X.shape
    places = mix(np.arange(1, n_columns + 1, dtype=np.uint64))
    if is_sparse(X):
        csr = sp.csr_array(X, copy=True)
        csr.sum_duplicates()
        own = None if units is None else units[csr.indices]
        hashes = _entry_hashes(csr.data, places[csr.indices], own)
        # Sums of 64 bits wrap around, so differences of running sums are exact.
        running = np.concatenate([np.zeros(1, np.uint64), np.cumsum(hashes, dtype=np.uint64)])
        return np.asarray(running[csr.indptr[1:]] - running[csr.indptr[:-1]])
    keys = np.empty(n_rows, dtype=np.uint64)
    for part in row_slices(n_rows, _NUMBERS_AT_ONCE, n_columns):
        keys[part] = _entry_hashes(X[part], places, units).sum(axis=1, dtype=np.uint64)
    return keys


def _entry_hashes(values: Any, places: Keys, units: Array | None) -> Keys:
    values = np.ascontiguousarray(values, dtype=np.float64)
    if units is not None:
        values = np.rint(values / units)
    words: NDArray[np.uint64] = values.view(np.uint64)
    return np.where(values == 0, np.uint64(0), mix(mix(words ^ places)))
