"""Designs: how the rows x are stored, and the products a solver needs of them.

A solver works in the *coordinates* of a design, not in the user's features. Dense rows are
centred and rotated to their principal axes: an L2 penalty is blind to rotations, and along
principal axes a diagonal preconditioner comes close to the true curvature. Sparse rows keep
those of their columns that are not empty. The last coordinate is the intercept, the only one
that is not penalised.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import scipy.linalg as sla
import scipy.sparse as sp
from numpy.typing import NDArray

from colabel.core.arrays import Array, Indices, is_sparse
from colabel.core.used_columns import UsedColumns
from colabel.learn.glm._kernels import csr_times

# Above this many coordinates, the cubic cost of finding principal axes outweighs their use.
_LARGEST_ROTATION = 1500
# Below this many rows a block is solved in the span of its rows, where that is the smaller space.
_LARGEST_ROW_SPACE = 400
# Principal axes of features whose energies differ by more would drown the weakest in rounding.
_WIDEST_ENERGY_RANGE = 1e8
# Directions whose variance is below this share of the largest are numerically absent.
_RANK_TOLERANCE = 1e-12


class DesignBlock(Protocol):
    """Some rows of a design, ready for products. Arrays are (T, K, n) or (T, K, q)."""

    n_rows: int
    n_coordinates: int

    def scores(self, coef: Array) -> Array:
        """(T, K, q) -> (T, K, n)."""
        ...

    def pullback(self, residual: Array) -> Array:
        """(T, K, n) -> (T, K, q), the transposed product."""
        ...

    @property
    def scale(self) -> Array:
        """Curvature of every coordinate (q,) if each row had curvature one, roughly."""
        ...

    def largest(self, gradient: Array) -> Array:
        """Largest entry (T,) of a gradient (T, K, q), seen in the user's features."""
        ...

    def to_coordinates(self, coef: Array) -> Array:
        """Coefficients of features and intercept (T, K, p + 1) -> coordinates (T, K, q)."""
        ...

    def from_coordinates(self, coef: Array) -> Array:
        """Inverse of `to_coordinates` for a solution."""
        ...


class Design(Protocol):
    """All rows of X behind one interface."""

    shape: tuple[int, int]

    def block(self, rows: Indices | None = None) -> DesignBlock:
        """Gather some rows (all by default)."""
        ...


def as_design(X: Any, weight: Array | None = None, extra: Array | None = None) -> Design:
    """Wrap a dense array or SciPy sparse matrix of shape (n, p).

    Row weights (n,) shape the coordinates, so that a row of weight 2 counts like two rows.
    Further features `extra` (n, e), such as the labels in a chain, come after those of X and
    are coordinates of their own, so that a task may leave some of them out (`Batch.allowed`).

    Examples
    --------
    >>> import numpy as np
    >>> as_design(np.eye(3)).shape
    (3, 3)
    """
    if is_sparse(X):
        return SparseDesign(sp.csr_array(X, dtype=np.float64), weight, extra)
    return DenseDesign(np.asarray(X, dtype=np.float64), weight, extra)


def linear_scores(X: Any, coef: Array, extra: Array | None = None) -> Array:
    """Scores (T, K, n) of coefficients (T, K, p + e + 1) for rows X (n, p) and extra (n, e)."""
    flat = coef.reshape(-1, coef.shape[2])
    of_features = flat[:, : X.shape[1]]
    product = np.asarray((X @ of_features.T).T if is_sparse(X) else of_features @ X.T)
    scores = np.ascontiguousarray(product + flat[:, -1:])
    if extra is not None:
        scores += flat[:, X.shape[1] : -1] @ extra.T
    return scores.reshape(*coef.shape[:2], -1)


class DenseDesign:
    """Rows of a dense array, centred and turned to principal axes."""

    def __init__(
        self, X: NDArray[np.float64], weight: Array | None = None, extra: Array | None = None
    ) -> None:
        self._X = X
        self._extra = extra
        self._weight = weight
        self.shape: tuple[int, int] = (X.shape[0], X.shape[1] + _n_columns(extra))

    @cached_property
    def _axes(self) -> _Axes:
        axes = _principal_axes(self._X, self._weight)
        if self._extra is None:
            return axes
        mean = np.average(self._extra, axis=0, weights=self._weight)
        return _Axes(np.concatenate([axes.mean, mean]), axes.basis, len(mean))

    @cached_property
    def _all_rows(self) -> Array:
        joined = self._X if self._extra is None else np.hstack([self._X, self._extra])
        return np.hstack([self._axes.rotate(joined - self._axes.mean), np.ones((len(joined), 1))])

    def block(self, rows: Indices | None = None) -> DesignBlock:
        """See `Design.block`."""
        gathered = self._all_rows if rows is None else self._all_rows[rows]
        dense = DenseBlock(gathered, self._axes, _weight_of(self._weight, rows))
        reduced = self._extra is None and _prefers_row_space(dense)
        return dense.in_row_space() if reduced else dense


class SparseDesign:
    """Rows of a CSR matrix; coordinates are its columns and the intercept."""

    def __init__(
        self, X: sp.csr_array, weight: Array | None = None, extra: Array | None = None
    ) -> None:
        self._X = X
        self._extra = extra
        self._weight = weight
        self.shape: tuple[int, int] = (X.shape[0], X.shape[1] + _n_columns(extra))

    @cached_property
    def _all_rows(self) -> sp.csr_array:
        ones = np.ones((self.shape[0], 1))
        added = ones if self._extra is None else np.hstack([self._extra, ones])
        joined = sp.hstack([self._X, sp.csr_array(added)], format="csr")
        joined.sort_indices()
        return sp.csr_array(joined)

    def block(self, rows: Indices | None = None) -> DesignBlock:
        """See `Design.block`."""
        gathered = self._all_rows if rows is None else self._all_rows[rows]
        n_kept = _n_columns(self._extra) + 1
        sparse = SparseBlock(gathered, _weight_of(self._weight, rows), n_kept)
        reduced = self._extra is None and _prefers_row_space(sparse)
        return sparse.in_row_space() if reduced else sparse


def _n_columns(extra: Array | None) -> int:
    return 0 if extra is None else extra.shape[1]


def _weight_of(weight: Array | None, rows: Indices | None) -> Array | None:
    return weight if weight is None or rows is None else weight[rows]


def _prefers_row_space(block: DesignBlock) -> bool:
    return 0 < block.n_rows <= min(_LARGEST_ROW_SPACE, block.n_coordinates // 2)


@dataclass(frozen=True)
class _Axes:
    """Affine map from features to coordinates: z = (x - mean) @ basis.

    The last `n_plain` features are centred but not rotated.
    """

    mean: Array  # (p,)
    basis: Array | None  # (p - n_plain, r) orthonormal columns, None for the identity
    n_plain: int = 0

    @property
    def largest_mean(self) -> float:
        return float(np.abs(self.mean).max(initial=0.0))

    def rotate(self, features: Array) -> Array:
        """Turn features (..., p) to the axes."""
        if self.basis is None:
            return features
        cut = features.shape[-1] - self.n_plain
        return np.concatenate([features[..., :cut] @ self.basis, features[..., cut:]], axis=-1)

    def rotate_back(self, coordinates: Array) -> Array:
        """Transposed map of `rotate`."""
        if self.basis is None:
            return coordinates
        cut = coordinates.shape[-1] - self.n_plain
        turned = coordinates[..., :cut] @ self.basis.T
        return np.concatenate([turned, coordinates[..., cut:]], axis=-1)

    def to_coordinates(self, coef: Array) -> Array:
        weights, intercept = coef[..., :-1], coef[..., -1:]
        intercept = intercept + (weights @ self.mean)[..., None]
        return np.concatenate([self.rotate(weights), intercept], axis=-1)

    def from_coordinates(self, coef: Array) -> Array:
        weights, intercept = self.rotate_back(coef[..., :-1]), coef[..., -1:]
        intercept = intercept - (weights @ self.mean)[..., None]
        return np.concatenate([weights, intercept], axis=-1)

    def largest(self, gradient: Array) -> Array:
        """Derivatives by features: the transposed map, d/dw = basis @ d/dz + mean d/db."""
        rotated, intercept = gradient[..., :-1], gradient[..., -1:]
        features = self.rotate_back(rotated) + intercept * self.mean
        largest: Array = np.maximum(
            np.abs(features).max(axis=2, initial=0.0), np.abs(intercept[..., 0])
        )
        return np.asarray(largest.max(axis=1))


def _principal_axes(X: Array, weight: Array | None) -> _Axes:
    n_rows, n_features = X.shape
    mean = np.average(X, axis=0, weights=weight)
    if min(n_rows, n_features) > _LARGEST_ROTATION:
        return _Axes(mean, None)
    centred = X - mean
    if weight is not None:
        centred *= np.sqrt(weight)[:, None]
    energy = (centred**2).sum(axis=0)
    rounding = n_rows * (1e-14 * np.abs(X).max(axis=0, initial=0.0)) ** 2
    varied = energy[energy > rounding]
    if len(varied) and varied.max() > _WIDEST_ENERGY_RANGE * varied.min():
        return _Axes(mean, None)
    if n_features <= n_rows:
        energy, basis = sla.eigh(centred.T @ centred)
        return _Axes(mean, basis[:, energy > _RANK_TOLERANCE * max(energy[-1], 1e-300)])
    energy, left = sla.eigh(centred @ centred.T)
    kept = energy > _RANK_TOLERANCE * max(energy[-1], 1e-300)
    return _Axes(mean, (centred.T @ left[:, kept]) / np.sqrt(energy[kept]))


class DenseBlock:
    """Rows in dense coordinates (n, q), the intercept's ones last."""

    def __init__(self, rows: Array, axes: _Axes | _RowSpace, weight: Array | None = None) -> None:
        self._rows = rows
        self._axes = axes
        self._weight = weight
        self.n_rows, self.n_coordinates = rows.shape

    def scores(self, coef: Array) -> Array:
        """See `DesignBlock.scores`."""
        flat = coef.reshape(-1, self.n_coordinates) @ self._rows.T
        return flat.reshape(*coef.shape[:2], self.n_rows)

    def pullback(self, residual: Array) -> Array:
        """See `DesignBlock.pullback`."""
        flat = residual.reshape(-1, self.n_rows) @ self._rows
        return flat.reshape(*residual.shape[:2], self.n_coordinates)

    @cached_property
    def scale(self) -> Array:
        """See `DesignBlock.scale`."""
        squares = self._rows**2
        scale: Array = squares.sum(axis=0) if self._weight is None else self._weight @ squares
        return scale

    def largest(self, gradient: Array) -> Array:
        """See `DesignBlock.largest`."""
        return self._axes.largest(gradient)

    def to_coordinates(self, coef: Array) -> Array:
        """See `DesignBlock.to_coordinates`."""
        return self._axes.to_coordinates(coef)

    def from_coordinates(self, coef: Array) -> Array:
        """See `DesignBlock.from_coordinates`."""
        return self._axes.from_coordinates(coef)

    def in_row_space(self) -> DenseBlock:
        """Return the same rows in coordinates of their own span."""
        rows = self._rows[:, :-1]
        largest_mean = self._axes.largest_mean
        return _row_space_block(self, rows, rows @ rows.T, self._weight, largest_mean)


class SparseBlock:
    """Rows in sparse coordinates: CSR (n, q), the intercept's ones last.

    Empty columns are no coordinates, but the last `n_kept` columns always are.
    """

    def __init__(self, rows: sp.csr_array, weight: Array | None = None, n_kept: int = 1) -> None:
        self._used = UsedColumns.of(rows, n_kept)
        self._csr = rows if self._used is None else self._used.gather(rows)
        self._weight = weight
        self.n_rows, self.n_coordinates = self._csr.shape

    @cached_property
    def _transposed(self) -> sp.csr_array:
        # Gathering rows of the transposed matrix is faster than scattering to them.
        return sp.csr_array(self._csr.T)

    def scores(self, coef: Array) -> Array:
        """See `DesignBlock.scores`."""
        return _csr_product(self._csr, coef)

    def pullback(self, residual: Array) -> Array:
        """See `DesignBlock.pullback`."""
        return _csr_product(self._transposed, residual)

    @cached_property
    def scale(self) -> Array:
        """See `DesignBlock.scale`.

        Sparse columns are far from principal axes: half way (geometrically) between the
        columns' own scales and a common one takes fewer iterations than either.
        """
        squares = self._csr.data**2
        if self._weight is not None:
            squares *= np.repeat(self._weight, np.diff(self._csr.indptr))
        energy = np.bincount(self._csr.indices, weights=squares, minlength=self.n_coordinates)
        scale: Array = np.sqrt(energy * energy.mean())
        return scale

    def largest(self, gradient: Array) -> Array:
        """See `DesignBlock.largest`."""
        largest: Array = np.abs(gradient).max(axis=(1, 2))
        return largest

    def to_coordinates(self, coef: Array) -> Array:
        """See `DesignBlock.to_coordinates`."""
        return coef.astype(np.float64) if self._used is None else coef[..., self._used.positions]

    def from_coordinates(self, coef: Array) -> Array:
        """See `DesignBlock.from_coordinates`."""
        return coef if self._used is None else self._used.spread(coef)

    def in_row_space(self) -> DenseBlock:
        """Return the same rows in coordinates of their own span."""
        rows = self._csr[:, :-1]
        return _row_space_block(self, rows, (rows @ rows.T).toarray(), self._weight, 0.0)


def _csr_product(matrix: sp.csr_array, tasks: Array) -> Array:
    """Matrix (m, n) times every row of `tasks` (T, K, n): (T, K, m)."""
    # The kernel runs along tasks, so tasks come last there.
    dense = np.ascontiguousarray(tasks.reshape(-1, tasks.shape[2]).T)
    out = np.empty((matrix.shape[0], dense.shape[1]))
    csr_times(matrix.indptr, matrix.indices, matrix.data, dense, out)
    return np.ascontiguousarray(out.T).reshape(*tasks.shape[:2], -1)


@dataclass(frozen=True)
class _RowSpace:
    """Coordinates in the span of a block's rows: an L2-regularised solution lies in it.

    With rows R = U S V', the coordinates of w are V'w = S^-1 U' R w, and w = R' U S^-1 a.
    """

    outer: DesignBlock
    rows: Any  # (n, q - 1) dense or CSR
    scaled_left: Array  # U S^-1, (n, r)
    largest_mean: float  # of the outer coordinates' features

    def to_coordinates(self, coef: Array) -> Array:
        outer = self.outer.to_coordinates(coef)
        flat = outer[..., :-1].reshape(-1, outer.shape[2] - 1)
        inner = (self.rows @ flat.T).T @ self.scaled_left
        return np.concatenate([inner.reshape(*coef.shape[:2], -1), outer[..., -1:]], axis=-1)

    def from_coordinates(self, coef: Array) -> Array:
        inner = coef[..., :-1].reshape(-1, coef.shape[2] - 1)
        flat = (self.rows.T @ (self.scaled_left @ inner.T)).T
        outer = np.concatenate([flat.reshape(*coef.shape[:2], -1), coef[..., -1:]], axis=-1)
        return self.outer.from_coordinates(outer)

    def largest(self, gradient: Array) -> Array:
        """A bound that needs no product with the rows.

        The derivative by a feature is that by a turned coordinate, at most the Euclidean norm,
        plus the feature's mean times the derivative by the intercept.
        """
        turned = np.sqrt((gradient[..., :-1] ** 2).sum(axis=(1, 2)))
        intercept = np.abs(gradient[..., -1]).max(axis=1)
        bound: Array = np.maximum(turned + self.largest_mean * intercept, intercept)
        return bound


def _row_space_block(
    outer: DesignBlock, rows: Any, gram: Array, weight: Array | None, largest_mean: float
) -> DenseBlock:
    energy, left = sla.eigh(gram)
    kept = energy > _RANK_TOLERANCE * max(energy[-1], 1e-300)
    length = np.sqrt(energy[kept])
    inner = np.hstack([left[:, kept] * length, np.ones((outer.n_rows, 1))])
    space = _RowSpace(outer, rows, left[:, kept] / length, largest_mean)
    return DenseBlock(inner, space, weight)
