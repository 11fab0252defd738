"""Rows in several storages and chunkings, for tests of fits on Dask arrays."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import dask.array as da
import numpy as np
import scipy.sparse as sp
from dask import delayed


def labels_that_depend(X: Any, rng: np.random.Generator, n_labels: int = 4) -> np.ndarray:
    """0/1 labels (n, d), each depending on x and on the one before it."""
    dense = X.toarray() if sp.issparse(X) else np.asarray(X)
    Y = np.zeros((len(dense), n_labels), dtype=int)
    before = np.zeros(len(dense))
    for label in range(n_labels):
        score = dense @ rng.normal(size=dense.shape[1]) + 1.5 * before
        Y[:, label] = rng.random(len(dense)) < 1 / (1 + np.exp(0.5 - score))
        before = Y[:, label] - 0.5
    return Y


def in_chunks(array: Any, lengths: Sequence[int]) -> Any:
    """A Dask array of rows (n, p) or (n,), dense or CSR, in chunks of some lengths."""
    assert sum(lengths) == array.shape[0]
    if not sp.issparse(array):
        return da.from_array(array, chunks=(tuple(lengths), *((m,) for m in array.shape[1:])))
    cuts = np.cumsum([0, *lengths]).tolist()
    meta = sp.csr_array((0, 0))
    blocks = [
        da.from_delayed(
            delayed(array[start:stop], traverse=False), (stop - start, array.shape[1]), meta=meta
        )
        for start, stop in pairwise(cuts)
    ]
    return da.concatenate(blocks, axis=0)


def equal_lengths(n_rows: int, size: int) -> tuple[int, ...]:
    """Chunks of `size` rows, the last perhaps shorter."""
    return tuple(min(size, n_rows - start) for start in range(0, n_rows, size))
