"""The Gaussian kernel, and coordinates whose inner products are the kernel (Nyström)."""

from __future__ import annotations

from typing import Any

import numpy as np

from colabel.core.arrays import Array, dense, is_sparse
from colabel.core.numeric import eigenvectors

# Eigenvalues below this share of the largest are rounding: dividing by their root would show it.
_RANK_TOLERANCE = 1e-10


def squared_distances(rows: Any, landmarks: Any) -> Array:
    """|x - l|^2 (n, m) of rows (n, p) and landmarks (m, p), either of them dense or CSR."""
    inner = rows @ landmarks.T
    product: Array = dense(inner)
    distances = squared_norms(rows)[:, None] + squared_norms(landmarks) - 2.0 * product
    return np.maximum(distances, 0.0, out=distances)


def squared_norms(rows: Any) -> Array:
    """|x|^2 (n,) of dense or sparse rows (n, p)."""
    if is_sparse(rows):
        return np.asarray(rows.multiply(rows).sum(axis=1), dtype=np.float64).ravel()
    return np.asarray(np.einsum("np,np->n", rows, rows))


def gaussian(distances: Array, width: float) -> Array:
    """k(x, l) = exp(-|x - l|^2 / (2 width^2)), of squared distances (n, m)."""
    # divided twice: the square of a tiny width would be zero
    return np.asarray(np.exp(distances / width / (-2.0 * width)))


def inverse_root(kernel: Array) -> Array:
    """R (m, r) with R' K R = I for a kernel matrix K (m, m) of numerical rank r.

    With K = U S U', R = U S^(-1/2), widest eigenvalue first. Then phi(x) = k(x, landmarks) R has
    phi(x)'phi(z) = k(x, landmarks) K^-1 k(landmarks, z): the kernel itself where x or z is a
    landmark, and its projection on the landmarks elsewhere.
    """
    if not len(kernel):
        return np.zeros((0, 0))
    values, vectors = eigenvectors(kernel)
    kept = np.flatnonzero(values > _RANK_TOLERANCE * values[-1])[::-1]
    chosen = vectors[:, kept]
    # an eigenvector's sign is arbitrary: its largest entry is made positive
    largest = chosen[np.abs(chosen).argmax(axis=0), np.arange(len(kept))]
    return np.asarray(chosen * (np.sign(largest) / np.sqrt(values[kept])))
