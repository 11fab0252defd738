r"""Ridge regression of many targets on one X, for many penalties.

.. math:: \min_{B, b} \; \sum_i v_i \|y_i - B^\top x_i - b\|^2 + \alpha \|B\|^2

One eigendecomposition, of the smaller of :math:`X^\top X` and :math:`X X^\top`, serves all
targets and all penalties. Where X is sparse and both are large, conjugate gradients need only
products with X.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from colabel.core.arrays import Array, Indices, dense, is_sparse
from colabel.core.threads import map_threads

__all__ = ["ConjugateRidge", "RidgePath", "best_penalty", "ridge_path"]

# An eigendecomposition of more rows and columns than this takes minutes.
_MOST_DECOMPOSED = 2500
# An eigendecomposition errs by a rounding of its largest eigenvalue. Where the sums of squares of
# the columns differ by more than this factor, that is more than the small columns have to say.
_MOST_SPREAD = 1e12
# Residuals of conjugate gradients beside the right-hand side; regressions that differ by less
# decode alike.
_RESIDUAL, _MOST_STEPS = 1e-5, 2000


class RidgePath:
    """Ridge regressions of targets Y (n, q) on X (n, p), dense or CSR, by penalty.

    Examples
    --------
    >>> import numpy as np
    >>> from colabel.models.margin._ridge import RidgePath
    >>> path = RidgePath(np.array([[0.0], [1.0], [2.0]]), np.array([[1.0], [3.0], [5.0]]))
    >>> coef, intercept = path.at(1e-9)
    >>> coef.round(3), intercept.round(3)
    (array([[2.]]), array([1.]))
    """

    def __init__(self, X: Any, Y: Array, weight: Array | None = None) -> None:
        weight = np.ones(len(Y)) if weight is None else weight
        self._root = np.sqrt(weight)
        self._mean: Array = np.asarray(weight @ X).ravel() / weight.sum()
        # Dense rows are centred at once, which keeps digits where means are large; sparse rows
        # would fill up, and are centred in each product.
        self._X = X if is_sparse(X) else X - self._mean
        self._shift = self._mean if is_sparse(X) else np.zeros_like(self._mean)
        self._target_mean = weight @ Y / weight.sum()
        self._dual = X.shape[1] > X.shape[0]
        targets = self._root[:, None] * (Y - self._target_mean)
        matrix = self._outer() if self._dual else self._gram()
        self._values, self._vectors = np.linalg.eigh(matrix)
        right = targets if self._dual else self._pullback(targets)
        self._rotated = self._vectors.T @ right
        self._uneven = None if self._dual or not _is_uneven(matrix) else (matrix, right)

    @property
    def eigenvalues(self) -> Array:
        """Eigenvalues of the centred Gram matrix that may differ from zero."""
        found: Array = np.maximum(self._values, 0.0)
        return found

    def _gram(self) -> Array:
        scaled = _scale_rows(self._X, self._root)
        centre = self._root @ self._root * np.outer(self._shift, self._shift)
        gram: Array = dense(scaled.T @ scaled) - centre
        return gram

    def _outer(self) -> Array:
        scaled = _scale_rows(self._X, self._root)
        cross = np.outer(self._root, np.asarray(scaled @ self._shift).ravel())
        centre = np.outer(self._root, self._root) * (self._shift @ self._shift)
        outer: Array = dense(scaled @ scaled.T) - cross - cross.T + centre
        return outer

    def _pullback(self, residual: Array) -> Array:
        """Transposed product (p, q) of the weighted and centred X with a residual (n, q)."""
        scaled = self._root[:, None] * residual
        result: Array = dense(self._X.T @ scaled) - np.outer(self._shift, scaled.sum(axis=0))
        return result

    def at(self, alpha: float) -> tuple[Array, Array]:
        """Coefficients (p, q) and intercepts (q,) for a positive penalty."""
        if self._uneven is not None:
            coef = _solve_scaled(*self._uneven, alpha)
        else:
            # rounding may leave eigenvalues just below zero
            shrunk = self._rotated / (np.maximum(self._values, 0.0) + alpha)[:, None]
            solution = self._vectors @ shrunk
            coef = self._pullback(solution) if self._dual else solution
        return coef, self._target_mean - self._mean @ coef


class ConjugateRidge:
    """The same regressions by conjugate gradients, for sparse X; each starts from the last one.

    The normal equations of all targets are solved side by side, every target with steps of its
    own: with A = X' V X of centred rows, (A + alpha) B = X' V Y.
    """

    def __init__(self, X: Any, Y: Array, weight: Array | None = None) -> None:
        self._weight = np.ones(len(Y)) if weight is None else weight
        self._X = X
        self._mean: Array = np.asarray(self._weight @ X).ravel() / self._weight.sum()
        self._target_mean = self._weight @ Y / self._weight.sum()
        self._right = self._pullback(Y - self._target_mean)
        self._coef = np.zeros_like(self._right)

    def _pullback(self, residual: Array) -> Array:
        scaled = self._weight[:, None] * residual
        result: Array = np.asarray(self._X.T @ scaled) - np.outer(self._mean, scaled.sum(axis=0))
        return result

    def _product(self, coef: Array, alpha: float) -> Array:
        return self._pullback(np.asarray(self._X @ coef) - self._mean @ coef) + alpha * coef

    def at(self, alpha: float) -> tuple[Array, Array]:
        """Coefficients (p, q) and intercepts (q,) for a positive penalty."""
        coef = self._coef.copy()
        residual = self._right - self._product(coef, alpha)
        direction, norm = residual.copy(), np.square(residual).sum(axis=0)
        wanted = _RESIDUAL**2 * np.square(self._right).sum(axis=0)
        for _ in range(_MOST_STEPS):
            if (norm <= wanted).all():
                break
            image = self._product(direction, alpha)
            curvature = np.einsum("ij,ij->j", direction, image)
            step = np.divide(norm, curvature, out=np.zeros_like(norm), where=norm > wanted)
            coef += step * direction
            residual -= step * image
            new_norm = np.square(residual).sum(axis=0)
            direction = residual + direction * np.divide(
                new_norm, norm, out=np.zeros_like(norm), where=norm > 0
            )
            norm = new_norm
        self._coef = coef
        return coef, self._target_mean - self._mean @ coef


def ridge_path(X: Any, Y: Array, weight: Array | None = None) -> RidgePath | ConjugateRidge:
    """Return regressions of Y (n, q) on X (n, p) by the way that is quick for its size."""
    large = is_sparse(X) and min(X.shape) > _MOST_DECOMPOSED
    return ConjugateRidge(X, Y, weight) if large else RidgePath(X, Y, weight)


def best_penalty(
    X: Any,
    Y: Array,
    alphas: Array,
    fold_of_row: Indices,
    n_folds: int,
    weight: Array | None = None,
    n_jobs: int | None = 1,
) -> float:
    """Return the penalty with the smallest squared error on held-out rows, over all targets.

    Parameters
    ----------
    X : (n, p) array or CSR
    Y : (n, q)
    alphas : (G,)
        Penalties to choose from.
    fold_of_row : (n,)
        Fold in which each row is held out; negative for never.
    n_folds : int
    weight : (n,), optional
    n_jobs : int or None
        Threads, over folds.
    """
    weight = np.ones(len(Y)) if weight is None else weight

    def errors(fold: int) -> Array:
        held, kept = np.flatnonzero(fold_of_row == fold), np.flatnonzero(fold_of_row != fold)
        if not weight[held].any() or not weight[kept].any():
            return np.zeros(len(alphas))
        path = ridge_path(X[kept], Y[kept], weight[kept])
        found = np.empty(len(alphas))
        # from the strongest: a weak penalty is quicker from the one before
        for place in np.argsort(alphas)[::-1]:
            coef, intercept = path.at(alphas[place])
            missed = Y[held] - np.asarray(X[held] @ coef) - intercept
            found[place] = float(weight[held] @ np.square(missed).sum(axis=1))
        return found

    total = np.sum(map_threads(errors, range(n_folds), n_jobs, lambda: None), axis=0)
    return float(alphas[total.argmin()])


def _scale_rows(X: Any, scale: Array) -> Any:
    return X.multiply(scale[:, None]).tocsr() if is_sparse(X) else X * scale[:, None]


def _is_uneven(gram: Array) -> bool:
    squares = np.diag(gram)
    squares = squares[squares > 0]
    return bool(len(squares)) and bool(squares.max() > _MOST_SPREAD * squares.min())


def _solve_scaled(gram: Array, right: Array, alpha: float) -> Array:
    r"""Solve (A + alpha I) B = R after the columns are brought to the same size.

    With :math:`s_j = (A_{jj} + \alpha)^{-1/2}` and S = diag(s), S (A + alpha I) S has ones on its
    diagonal, and rounding costs a small column no more digits than a large one. Directions that
    then vanish (columns that say the same) get nothing.
    """
    scale = 1.0 / np.sqrt(np.maximum(np.diag(gram), 0.0) + alpha)
    scaled = scale[:, None] * (gram + alpha * np.eye(len(gram))) * scale
    coef: Array = scale[:, None] * np.linalg.lstsq(scaled, scale[:, None] * right, rcond=None)[0]
    return coef
