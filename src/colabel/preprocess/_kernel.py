"""The Gaussian kernel, its landmarks, and coordinates whose inner products are the kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

from colabel.core.arrays import Array, Indices, dense, is_sparse
from colabel.core.chunks import row_slices
from colabel.core.hashing import row_keys
from colabel.core.numeric import eigenvectors
from colabel.core.threads import map_threads, one_blas_thread

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


Sampling = Literal["kmeans", "leverage", "uniform"]
SAMPLINGS: tuple[Sampling, ...] = ("kmeans", "leverage", "uniform")

# Means of clusters hardly move after that (Zhang, Tsang & Kwok, 2008, take as many).
_LLOYD_STEPS = 5
_ROWS_AT_ONCE = 1 << 11


def find_landmarks(
    rows: Any,
    n_landmarks: int,
    sampling: Sampling,
    width: float,
    random: np.random.RandomState,
    n_jobs: int | None,
) -> Any:
    """Landmarks (m, p) among rows (n, p), dense or CSR as the rows are.

    Where there are no more distinct rows than landmarks asked for, all of them are landmarks, and
    the features are exact. `width` matters for "leverage" alone.
    """
    _, first = np.unique(row_keys(rows), return_index=True)
    distinct = rows[np.sort(first)]
    if distinct.shape[0] <= n_landmarks:
        return distinct
    if sampling == "leverage":
        return _by_leverage(distinct, n_landmarks, width, random, n_jobs)
    drawn = _drawn(distinct, n_landmarks, random)
    return drawn if sampling == "uniform" else _cluster_means(rows, drawn, n_jobs)


def _drawn(rows: Any, size: int, random: np.random.RandomState, odds: Array | None = None) -> Any:
    """Return some rows, each at most once and in their order."""
    return rows[np.sort(random.choice(rows.shape[0], size, replace=False, p=odds))]


def _parts(rows: Any) -> list[Any]:
    return [rows[part] for part in row_slices(rows.shape[0], _ROWS_AT_ONCE)]


def _cluster_means(rows: Any, centres: Any, n_jobs: int | None) -> Any:
    """Means of clusters (m, p): a few of Lloyd's steps from the centres given."""
    n_rows, size = rows.shape[0], centres.shape[0]
    parts = _parts(rows)
    for _ in range(_LLOYD_STEPS):
        nearest = np.concatenate(map_threads(_nearest_to(centres), parts, n_jobs, lambda: None))
        counts = np.bincount(nearest, minlength=size)
        members = (1.0 / counts[nearest], (nearest, np.arange(n_rows)))
        means = sp.csr_array(members, shape=(size, n_rows)) @ rows
        empty = np.flatnonzero(counts == 0)
        # a centre without rows stays where it is
        stay = sp.csr_array((np.ones(len(empty)), (empty, empty)), shape=(size, size))
        centres = means + stay @ centres
    return centres


def _nearest_to(centres: Any) -> Callable[[Any], Indices]:
    half_norms = squared_norms(centres) / 2.0

    def nearest(part: Any) -> Indices:
        inner = part @ centres.T
        product = dense(inner)
        return np.asarray((half_norms - product).argmin(axis=1))

    return nearest


def _by_leverage(
    rows: Any, size: int, width: float, random: np.random.RandomState, n_jobs: int | None
) -> Any:
    """Rows drawn by approximate ridge leverage and at random, with equal shares."""
    pilot = _drawn(rows, min(2 * size, rows.shape[0]), random)
    with one_blas_thread:
        root = inverse_root(gaussian(squared_distances(pilot, pilot), width))

    def features(part: Any) -> Array:
        return np.asarray(gaussian(squared_distances(part, pilot), width) @ root)

    phi = np.concatenate(map_threads(features, _parts(rows), n_jobs, lambda: None))
    with one_blas_thread:
        scores = ridge_leverage(phi, size)
    # half at random, so that a crowd whose rows each matter little is not missed altogether
    return _drawn(rows, size, random, 0.5 * scores / scores.sum() + 0.5 / len(scores))


def ridge_leverage(phi: Array, n_landmarks: int) -> Array:
    r"""Approximate ridge leverage scores (n,) of rows with Nyström features phi (n, r).

    .. math:: \ell_i = k_i' (K + \lambda I)^{-1} e_i \approx
        \phi_i' (\Phi'\Phi + \lambda I)^{-1} \phi_i + (k(x_i, x_i) - \phi_i'\phi_i) / \lambda

    at most one, where the second term is what the pilot landmarks cannot see, and
    :math:`\lambda` is the energy of K beyond its leading m / 2 eigenvalues, by their number
    (Musco & Musco, 2017).
    """
    values, vectors = eigenvectors(phi.T @ phi)
    leading = max(1, n_landmarks // 2)
    ridge = max((len(phi) - values[-leading:].sum()) / leading, 1e-12 * len(phi))
    turned = phi @ vectors
    seen = np.einsum("nr,nr,r->n", turned, turned, 1.0 / (np.maximum(values, 0.0) + ridge))
    unseen = np.maximum(1.0 - np.einsum("nr,nr->n", phi, phi), 0.0) / ridge
    return np.asarray(np.clip(seen + unseen, 1e-12, 1.0))
