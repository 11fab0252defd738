"""Features of nodes and edges, in coordinates that suit a solver.

Dense features are centred and turned to their principal axes: ridge and group penalties are
blind to rotations, and along principal axes a diagonal preconditioner is close to the curvature.
Centring gives the constant of an edge a meaning: the table at the average x. Sparse features
stay as they are, but for empty columns, which are left out. The last coordinate is constant. For
edges, whose constant is penalised with the features, it is as long as a row is on average: with p
features of unit variance a constant of one would be shrunk as if it were one feature among p,
though it carries most of an edge.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg as sla
import scipy.sparse as sp

from colabel.core.arrays import Array, Indices, is_sparse
from colabel.core.used_columns import UsedColumns
from colabel.learn.glm._kernels import csr_times

# Above this many coordinates, the cubic cost of finding principal axes outweighs their use.
_LARGEST_ROTATION = 1500
_RANK_TOLERANCE = 1e-12


@dataclass(frozen=True)
class Features:
    """Rows of features in coordinates, with a constant column at the end.

    Attributes
    ----------
    matrix : (n, q) array or CSR
        Coordinates of the rows; the last column is `level`.
    mean : (p,) or None
        What was subtracted from the features.
    basis : (p, q - 1) or None
        Orthonormal directions of the coordinates; None for the features themselves.
    level : float
        Value of the constant coordinate.
    used : UsedColumns or None
        Which features are coordinates, where not all are.

    Examples
    --------
    >>> import numpy as np
    >>> features = Features.of(np.array([[0.0], [2.0]]))
    >>> features.times(np.array([[1.0], [0.0]])).ravel()
    array([-1.,  1.])
    """

    matrix: Any
    mean: Array | None
    basis: Array | None
    level: float = 1.0
    used: UsedColumns | None = None

    @classmethod
    def of(cls, X: Any, weight: Array | None = None) -> Features:
        """Wrap dense or sparse rows X (n, p), weighted by `weight` (n,)."""
        n_rows = X.shape[0]
        if is_sparse(X):
            ones = sp.csr_array(np.ones((n_rows, 1)))
            joined = sp.hstack([sp.csr_array(X, dtype=np.float64), ones], format="csr")
            joined.sort_indices()
            used = UsedColumns.of(joined, n_kept=1)
            return cls(joined if used is None else used.gather(joined), None, None, used=used)
        X = np.asarray(X, dtype=np.float64)
        mean = np.average(X, axis=0, weights=weight)
        basis = _principal_axes(X - mean, weight)
        turned = X - mean if basis is None else (X - mean) @ basis
        return cls(np.hstack([turned, np.ones((n_rows, 1))]), mean, basis)

    @classmethod
    def constant(cls, n_features: int) -> Features:
        """No features at all: one row of one constant, shared by all rows of the data."""
        return cls(np.ones((1, 1)), np.zeros(n_features), np.zeros((n_features, 0)))

    def balanced(self, weight: Array) -> Features:
        """Return the same features with a constant of the root mean square length of the rows."""
        length = float(np.sqrt(self.energy(weight)[:-1].sum() / weight.sum()))
        if self.shared or length == 0.0:
            return self
        if is_sparse(self.matrix):
            ones = sp.csr_array(np.full((self.matrix.shape[0], 1), length))
            matrix = sp.csr_array(sp.hstack([self.matrix[:, :-1], ones], format="csr"))
        else:
            matrix = self.matrix.copy()
            matrix[:, -1] = length
        return replace(self, matrix=matrix, level=length)

    @property
    def n_coordinates(self) -> int:
        """Number of coordinates q, the constant included."""
        return int(self.matrix.shape[1])

    @property
    def shared(self) -> bool:
        """Whether all rows of the data share one row of features."""
        return bool(self.matrix.shape[0] == 1)

    def rows(self, index: Indices) -> Features:
        """Return some of the rows."""
        if self.shared:
            return self
        return replace(self, matrix=self.matrix[index])

    @cached_property
    def _transposed(self) -> Any:
        return sp.csr_array(self.matrix.T)

    def times(self, coef: Array) -> Array:
        """(n, q) @ (q, c)."""
        if is_sparse(self.matrix):
            return _csr_product(self.matrix, coef)
        return np.asarray(self.matrix @ coef)

    def pullback(self, slope: Array) -> Array:
        """(q, n) @ (n, c), the transposed product."""
        if is_sparse(self.matrix):
            return _csr_product(self._transposed, slope)
        return np.asarray(self.matrix.T @ slope)

    def energy(self, weight: Array) -> Array:
        """Weighted sum of squares (q,) of every coordinate."""
        if self.shared:
            return np.array([weight.sum()])
        if is_sparse(self.matrix):
            squares = self.matrix.power(2)
            return np.asarray(squares.T @ weight)
        return np.asarray(weight @ self.matrix**2)

    def curvature(self, weight: Array) -> Array:
        """About the curvature (q,) of every coordinate if each row had curvature 1/4.

        Sparse columns are far from principal axes: half way (geometrically) between the columns'
        own scales and a common one takes fewer iterations than either.
        """
        energy = self.energy(weight)
        if is_sparse(self.matrix) and len(energy) > 1:
            energy[:-1] = np.sqrt(energy[:-1] * energy[:-1].mean())
        return 0.25 * energy

    def to_coordinates(self, coef: Array) -> Array:
        """Coefficients (p + 1, c) of features and a constant of one as coordinates (q, c)."""
        if self.mean is None:
            kept = coef if self.used is None else coef[self.used.positions]
            return np.concatenate([kept[:-1], kept[-1:] / self.level])
        constant = coef[-1:] + self.mean @ coef[:-1]
        turned = coef[:-1] if self.basis is None else self.basis.T @ coef[:-1]
        return np.concatenate([turned, constant / self.level])

    def from_coordinates(self, coef: Array) -> Array:
        """Inverse of `to_coordinates` for a solution."""
        constant = coef[-1:] * self.level
        if self.mean is None:
            whole = np.concatenate([coef[:-1], constant])
            return whole if self.used is None else np.asarray(self.used.spread(whole, axis=0))
        features = coef[:-1] if self.basis is None else self.basis @ coef[:-1]
        return np.concatenate([features, constant - self.mean @ features])


def _principal_axes(centred: Array, weight: Array | None) -> Array | None:
    n_rows, n_features = centred.shape
    if min(n_rows, n_features) > _LARGEST_ROTATION:
        return None
    scaled = centred if weight is None else centred * np.sqrt(weight)[:, None]
    if n_features <= n_rows:
        energy, basis = sla.eigh(scaled.T @ scaled)
        return np.asarray(basis[:, energy > _RANK_TOLERANCE * max(energy[-1], 1e-300)])
    energy, left = sla.eigh(scaled @ scaled.T)
    kept = energy > _RANK_TOLERANCE * max(energy[-1], 1e-300)
    return np.asarray((scaled.T @ left[:, kept]) / np.sqrt(energy[kept]))


def _csr_product(matrix: Any, dense: Array) -> Array:
    out = np.empty((matrix.shape[0], dense.shape[1]))
    csr_times(matrix.indptr, matrix.indices, matrix.data, np.ascontiguousarray(dense), out)
    return out
