"""Designs: how the rows x are stored, and the products that learning needs of them.

Learning works in the *coordinates* of a design, not in the user's features. Dense rows are
centred and rotated to their principal axes: an L2 penalty, of single coefficients or of groups, is
blind to rotations, and along principal axes a diagonal preconditioner comes close to the true
curvature. Sparse rows keep those of their columns that are not empty. The last coordinate is
constant.

Everything is computed when a design is made: designs are values that threads may share.

Products with sparse rows are compiled. They take C-contiguous arrays and check nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from colabel.core.arrays import (
    Array,
    Codes,
    Flags,
    Indices,
    UsedColumns,
    dense,
    is_sparse,
    like,
    row_slices,
)
from colabel.core.compiling import njit
from colabel.core.numeric import eigenvectors

# Reassociation lets sums and products be vectorised; infinities keep their meaning.
_SUMS = {"reassoc", "contract", "nsz", "arcp"}


@njit(nogil=True, cache=True, error_model="numpy", fastmath=_SUMS)
def csr_times(indptr: Codes, indices: Codes, data: Array, dense: Array, out: Array) -> None:
    """Compute out (n, c) = A (n, q) @ dense (q, c).

    Four entries of a row are taken together, so that a sum is loaded and stored once for four.
    """
    n_columns = dense.shape[1]
    for row in range(out.shape[0]):
        target = out[row]
        target[:] = 0.0
        position = indptr[row]
        stop = indptr[row + 1]
        while position + 4 <= stop:
            x0, x1 = data[position], data[position + 1]
            x2, x3 = data[position + 2], data[position + 3]
            s0, s1 = dense[indices[position]], dense[indices[position + 1]]
            s2, s3 = dense[indices[position + 2]], dense[indices[position + 3]]
            for column in range(n_columns):
                target[column] += (
                    x0 * s0[column] + x1 * s1[column] + x2 * s2[column] + x3 * s3[column]
                )
            position += 4
        while position < stop:
            x0 = data[position]
            s0 = dense[indices[position]]
            for column in range(n_columns):
                target[column] += x0 * s0[column]
            position += 1


# Above this many coordinates, the cubic cost of finding principal axes outweighs their use.
LARGEST_ROTATION = 1500
# Below this many rows a design is solved in the span of its rows, where that is the smaller space.
_LARGEST_ROW_SPACE = 400
# Features whose sums of squares differ by more have no principal axes: rounding would drown the
# weakest.
_WIDEST_RANGE = 1e8
# Directions whose variance is below this share of the largest are numerically absent.
_RANK_TOLERANCE = 1e-12
# A sparse column's curvature is never taken for more than this many times its own.
_STEEPEST = 10.0
_ROWS_AT_ONCE = 1 << 13
_SOON_READ = 1 << 17  # stored numbers of sparse rows, which a cache holds


@dataclass(frozen=True)
class Axes:
    """z = (x - mean) @ basis; the last `n_extra` features are centred but not rotated.

    Scores are linear: where rows are in chunks, they are only centred, and coefficients and
    gradients, which are small, are rotated in every pass.
    """

    mean: Array  # (p,); of none, the constant is the only coordinate
    basis: Array | None  # (p - n_extra, r) orthonormal columns, None for the identity
    n_extra: int = 0

    @property
    def n_coordinates(self) -> int:
        """Number of coordinates q, the constant included."""
        return 1 + (len(self.mean) if self.basis is None else self.basis.shape[1] + self.n_extra)

    def rotate(self, vectors: Array) -> Array:
        """Vectors (..., p + 1) of centred features and a constant, along the axes: (..., q)."""
        if self.basis is None:
            return vectors
        cut = len(self.basis)
        return np.concatenate([vectors[..., :cut] @ self.basis, vectors[..., cut:]], axis=-1)

    def rotate_back(self, vectors: Array) -> Array:
        """Inverse of `rotate` for coefficients."""
        if self.basis is None:
            return vectors
        cut = self.basis.shape[1]
        return np.concatenate([vectors[..., :cut] @ self.basis.T, vectors[..., cut:]], axis=-1)

    def to_basis(self, coef: Array) -> Array:
        """Coefficients (..., p + 1) of features as coordinates (..., q)."""
        centred = coef.copy()
        centred[..., -1] += coef[..., :-1] @ self.mean
        return self.rotate(centred)

    def from_basis(self, coef: Array) -> Array:
        """Inverse of `to_basis` for a solution: (..., q) -> (..., p + 1)."""
        features = self.rotate_back(coef).copy()
        features[..., -1] -= features[..., :-1] @ self.mean
        return features

    def rows(self, X: Array, extra: Array | None, rotated: bool) -> Array:
        """Rows X (n, p), extra features (n, e) and a constant; centred, and rotated or not."""
        if not len(self.mean):
            return np.ones((X.shape[0], 1))
        rows = np.ones((len(X), self.n_coordinates if rotated else len(self.mean) + 1))
        for part in row_slices(len(X), _ROWS_AT_ONCE):  # no second array as large as X
            joined = X[part] if extra is None else np.hstack([X[part], extra[part]])
            centred = joined - self.mean
            rows[part, :-1] = self.rotate(centred) if rotated else centred
        return rows


@dataclass(frozen=True)
class Columns:
    """Coordinates are features, or those of another map: the ones in use, or all (None)."""

    used: UsedColumns | None
    outer: Any = None
    n_coordinates: int = 0
    n_extra: int = 0

    def to_basis(self, coef: Array) -> Array:
        coef = coef if self.outer is None else self.outer.to_basis(coef)
        return np.array(coef) if self.used is None else coef[..., self.used.positions]

    def from_basis(self, coef: Array) -> Array:
        spread = coef if self.used is None else self.used.spread(coef)
        return spread if self.outer is None else self.outer.from_basis(spread)

    def rotate(self, vectors: Array) -> Array:
        """See `Axes`: nothing is rotated."""
        return vectors

    rotate_back = rotate

    def rows(self, X: Any, extra: Array | None, rotated: bool) -> sp.csr_array:
        """Rows X (n, p), extra features (n, e) and a constant."""
        ones = np.ones((X.shape[0], 1))
        more = ones if extra is None else np.hstack([extra, ones])
        whole = sp.hstack([sp.csr_array(X, dtype=np.float64), sp.csr_array(more)], "csr")
        whole.sort_indices()
        return sp.csr_array(whole) if self.used is None else self.used.gather(sp.csr_array(whole))


@dataclass(frozen=True)
class RowSpace:
    """Coordinates in the span of the rows: an L2-regularised solution lies in it.

    With rows R = U S V', the coordinates of w are V'w = S^-1 U' R w, and w = R' U S^-1 a.
    """

    outer: Any  # Axes or Columns
    rows: Any  # (n, q - 1) dense or CSR, in outer coordinates
    scaled_left: Array  # U S^-1, (n, r)

    def to_basis(self, coef: Array) -> Array:
        outer = self.outer.to_basis(coef)
        flat = outer[..., :-1].reshape(-1, outer.shape[-1] - 1)
        inner = np.asarray(self.rows @ flat.T).T @ self.scaled_left
        return np.concatenate(
            [inner.reshape(*coef.shape[:-1], inner.shape[1]), outer[..., -1:]], axis=-1
        )

    def from_basis(self, coef: Array) -> Array:
        inner = coef[..., :-1].reshape(-1, coef.shape[-1] - 1)
        flat = np.asarray(self.rows.T @ (self.scaled_left @ inner.T)).T
        outer = np.concatenate(
            [flat.reshape(*coef.shape[:-1], flat.shape[1]), coef[..., -1:]], axis=-1
        )
        features: Array = self.outer.from_basis(outer)
        return features


@dataclass(frozen=True)
class Design:
    """Rows in coordinates, with a constant column at the end.

    Attributes
    ----------
    rows : (n, q) array or CSR, (P, n, q) tensor, or None
        Coordinates of the rows; the last column is `level`. Those of P groups are padded to n each
        and lie on a device, where products are batched; of rows in chunks there are none here.
    columns : (q, n) CSR or None
        The transposed rows where they are sparse: gathering from it is faster than scattering.
    weight : (n,), (P, n) or None
        Weights of the rows; zero for padding.
    coordinates : Axes, Columns or RowSpace
        Linear map between coefficients of features and of coordinates, the constant last.
    level : float
        Value of the constant coordinate.
    n_extra : int
        Number of coordinates before the constant that are extra features as they are.
    shared : bool
        Whether all rows of the data share one row of features.
    single : bool
        Whether products with sparse rows may read their argument in single precision.
    squares : (q,) or None
        What `sum_of_squares` says, where that is known: rows on a device are torch's, dense or CSR.
    lanes : (group, place), (c,) each, or None
        Group of each score, and its place among the scores of the group, where there are groups.

    Examples
    --------
    >>> import numpy as np
    >>> design = Design.of(np.array([[0.0], [2.0]]))
    >>> abs(design.matmat(np.array([[1.0], [0.0]]))).ravel()  # centred
    array([1., 1.])
    """

    rows: Any
    columns: Any
    weight: Any
    coordinates: Any
    level: float = 1.0
    n_extra: int = 0
    shared: bool = False
    single: bool = False
    squares: Any = None
    lanes: Any = None

    @classmethod
    def of(cls, X: Any, weight: Array | None = None, extra: Array | None = None) -> Design:
        """Wrap a dense array or SciPy sparse matrix of shape (n, p).

        Row weights (n,) shape the coordinates, so that a row of weight 2 counts like two rows.
        Further features `extra` (n, e), such as the labels in a chain, come after those of X and
        are coordinates of their own, so that a task may leave some of them out or penalise them
        differently.
        """
        n_extra = 0 if extra is None else extra.shape[1]
        if is_sparse(X):
            every = Columns(None)
            return _sparse(every.rows(X, extra, True), weight, every, n_extra)
        X = np.asarray(X, dtype=np.float64)
        axes = _principal_axes(X, weight)
        if extra is not None:
            mean = np.average(extra, axis=0, weights=weight)
            axes = Axes(np.concatenate([axes.mean, mean]), axes.basis, n_extra)
        return cls.at(axes, X, weight, extra)

    @classmethod
    def at(
        cls,
        coordinates: Axes | Columns,
        X: Any,
        weight: Array | None,
        extra: Array | None = None,
        rotated: bool = True,
    ) -> Design:
        """Rows in coordinates that are known; not `rotated`, dense ones are only centred."""
        rows = coordinates.rows(X, extra, rotated)
        columns = sp.csr_array(rows.T) if is_sparse(rows) else None
        return cls(rows, columns, weight, coordinates, n_extra=coordinates.n_extra)

    @classmethod
    def constant(cls, n_features: int, weight: Array | None = None) -> Design:
        """No features at all: one row of one constant, shared by all rows, of weights (n,)."""
        axes = Axes(np.zeros(n_features), np.zeros((n_features, 0)))
        return cls(np.ones((1, 1)), None, weight, axes, shared=True)

    @property
    def n_rows(self) -> int:
        """Number of rows n."""
        return int(self.rows.shape[-2])

    @property
    def n_coordinates(self) -> int:
        """Number of coordinates q, the constant included."""
        return int((self.squares if self.rows is None else self.rows).shape[-1])

    @property
    def score_weight(self) -> Any:
        """Weights of the rows of every score: (n,), (c, n) where there are groups, or None."""
        return self.weight if self.lanes is None else self.weight[self.lanes[0]]

    def matmat(self, coef: Array) -> Array:
        """(n, q) @ (q, c)."""
        if is_sparse(self.rows):
            return _csr_product(self.rows, coef, self.single)
        return np.asarray(self.rows @ coef)

    def rmatmat(self, slope: Array) -> Array:
        """(q, n) @ (n, c), the transposed product."""
        if is_sparse(self.rows):
            return _csr_product(self.columns, slope, self.single)
        return np.asarray(self.rows.T @ slope)

    def scores(self, coef: Array) -> Array:
        """Scores (c, n) of coefficients (c, q), one row of them for each task."""
        product: Array = self._product(coef, forward=True)
        return product

    def rmatvec(self, residual: Array) -> Array:
        """Residuals (c, n) times the rows, (c, q): the transposed product."""
        product = self._product(residual, forward=False)
        return product if isinstance(product, np.ndarray) else product.double()

    def _product(self, factor: Any, *, forward: bool) -> Any:
        matrix = self.rows if forward or self.columns is None else self.columns
        if is_sparse(matrix):
            return np.ascontiguousarray(_csr_product(matrix, factor.T, self.single).T)
        if not isinstance(matrix, np.ndarray):
            factor = factor.to(matrix.dtype)
            if self.columns is not None:
                return (matrix @ factor.T).T.contiguous()
        matrix = matrix.swapaxes(-1, -2) if forward else matrix
        if self.lanes is None:
            return factor @ matrix
        spread = factor.new_zeros(len(matrix), int(self.lanes[1].max()) + 1, factor.shape[1])
        spread[self.lanes] = factor
        return (spread @ matrix)[self.lanes]

    def in_single(self) -> Design:
        """Return the same rows for a solver that may read steps and residuals rounded.

        A product of sparse rows waits for memory: half the bytes take little more than half the
        time. Sums are in double precision, so that rounding stays far below a tolerance of 1e-3.
        What is small is quick anyway, and stays as it is.
        """
        large = is_sparse(self.rows) and self.rows.nnz > _SOON_READ
        return replace(self, single=True) if large else self

    def for_groups(self, group: Indices) -> Design:
        """Return the rows for scores of groups (c,), where the rows are those of groups."""
        if self.rows.ndim == 2:
            return self
        order = np.argsort(group, kind="stable")
        place = np.empty(len(group), dtype=np.intp)
        place[order] = np.arange(len(group)) - np.searchsorted(group[order], group[order])
        return replace(self, lanes=(like(group, self.rows), like(place, self.rows)))

    def of_tasks(self, scores: Flags) -> Design:
        """Return the rows for some of the scores; without groups they serve all alike."""
        if self.lanes is None:
            return self
        return replace(self, lanes=tuple(part[scores] for part in self.lanes))

    def sum_of_squares(self) -> Array:
        """Weighted sum of squares of every coordinate, (q,), or (P, q) of groups."""
        if self.squares is not None:
            known: Array = self.squares
            return known
        if self.rows.ndim == 3:
            squares = (self.rows**2).transpose(1, 2) @ self.weight[:, :, None]
            of_groups: Array = squares[:, :, 0].double()
            return of_groups
        weight = np.ones(self.n_rows) if self.weight is None else self.weight
        if self.shared:
            return np.asarray(self.rows[0] ** 2 * weight.sum())
        if is_sparse(self.rows):
            return np.asarray(self.rows.power(2).T @ weight)
        return np.asarray(np.einsum("nq,n,nq->q", self.rows, weight, self.rows, optimize=False))

    def scale(self) -> Array:
        """Curvature of every coordinate if each row had curvature one, roughly: (q,) or (c, q).

        Sparse columns are far from principal axes: half way (geometrically) between the columns'
        own scales and a common one takes fewer iterations than either. Not far above its own,
        though: beside a huge column all others would look steep, and soon converged.
        """
        squares = self.sum_of_squares()
        if isinstance(self.coordinates, Columns):
            squares = half_way(squares, squares.mean(-1)[..., None])
        return squares if self.lanes is None else squares[self.lanes[0]]

    def take(self, rows: Indices | slice) -> Design:
        """Return some of the rows, in the same coordinates."""
        weight = None if self.weight is None else self.weight[rows]
        if self.shared:
            return replace(self, weight=weight)
        gathered = self.rows[rows]
        columns = None if self.columns is None else sp.csr_array(gathered.T)
        return replace(self, rows=gathered, columns=columns, weight=weight)

    def block(self, rows: Indices | None = None) -> Design:
        """Return some rows (all by default) in as few coordinates as they need.

        A solution found in these coordinates is one for these rows alone.
        """
        weight = self.weight if self.weight is None or rows is None else self.weight[rows]
        gathered = self.rows if rows is None else self.rows[rows]
        if self.columns is None:
            design = replace(self, rows=gathered, weight=weight)
        else:
            design = _sparse(gathered, weight, self.coordinates, self.n_extra)
        few = prefers_row_space(design.n_rows, design.n_coordinates, design.n_extra)
        return _in_row_space(design) if few else design

    def constants(self, rows: Indices) -> Design:
        """Return some rows with nothing but their constant."""
        weight = None if self.weight is None else self.weight[rows]
        return Design(np.ones((len(rows), 1)), None, weight, Axes(np.zeros(0), None))

    def balanced(self) -> Design:
        """Return the same rows with a constant of their root mean square length.

        Where the constant is penalised like the features: with p features of unit variance a
        constant of one would be shrunk as if it were one feature among p.
        """
        weight = self.n_rows if self.weight is None else self.weight.sum()
        length = float(np.sqrt(self.sum_of_squares()[:-1].sum() / weight))
        return self if self.shared or length == 0.0 else self.with_level(length)

    def with_level(self, level: float) -> Design:
        """Return the same rows with another value of the constant; zero leaves it out."""
        if is_sparse(self.rows):
            constant = sp.csr_array(np.full((self.n_rows, 1), level))
            rows = sp.csr_array(sp.hstack([self.rows[:, :-1], constant], format="csr"))
            return replace(self, rows=rows, columns=sp.csr_array(rows.T), level=level)
        rows = self.rows.copy()
        rows[:, -1] = level
        return replace(self, rows=rows, level=level)

    def to_basis(self, coef: Array) -> Array:
        """Coefficients (..., p + 1) of features and a constant of one as coordinates (..., q)."""
        inner: Array = self.coordinates.to_basis(coef)
        if self.level != 1.0:
            inner[..., -1] /= self.level or np.inf
        return inner

    def from_basis(self, coef: Array) -> Array:
        """Inverse of `to_basis` for a solution."""
        if self.level != 1.0:
            coef = coef.copy()
            coef[..., -1] *= self.level
        features: Array = self.coordinates.from_basis(coef)
        return features


def half_way(squares: Any, mean: Any) -> Any:
    """Scales (..., q) of sparse columns, see `Design.scale`; the constant keeps its own."""
    scaled = ((squares * mean) ** 0.5).clip(max=_STEEPEST * squares)
    scaled[..., -1] = squares[..., -1]
    return scaled


def linear_scores(X: Any, coef: Array, extra: Array | None = None) -> Array:
    """Scores (T, K, n) of coefficients (T, K, p + e + 1) for rows X (n, p) and extra (n, e)."""
    flat = coef.reshape(-1, coef.shape[2])
    of_features = flat[:, : X.shape[1]]
    product = np.asarray((X @ of_features.T).T if is_sparse(X) else of_features @ X.T)
    scores = np.ascontiguousarray(product + flat[:, -1:])
    if extra is not None:
        scores += flat[:, X.shape[1] : -1] @ extra.T
    return scores.reshape(*coef.shape[:2], -1)


def _sparse(rows: sp.csr_array, weight: Array | None, outer: Columns, n_extra: int) -> Design:
    """Wrap sparse rows without their empty columns; the extra ones and the constant always stay."""
    used = UsedColumns.of(rows, n_extra + 1)
    coordinates = outer if used is None else Columns(used, outer)
    kept = rows if used is None else used.gather(rows)
    return Design(kept, sp.csr_array(kept.T), weight, coordinates, n_extra=n_extra)


class Moments(NamedTuple):
    """Weight, mean (p,), Gram matrix (p, p) or its diagonal, and largest absolutes (p,) of rows.

    Those of parts of the rows can be `pooled`.
    """

    weight: float
    mean: Array
    gram: Array
    largest: Array

    @classmethod
    def of(cls, X: Array, weight: Array | None, with_gram: bool) -> Moments:
        """Of rows X (m, p) with weights (m,)."""
        heavy = np.ones(len(X)) if weight is None else weight
        total = float(heavy.sum())
        mean = heavy @ X / max(total, np.finfo(float).tiny)
        centred = X - mean
        scaled = centred if weight is None else centred * np.sqrt(heavy)[:, None]
        gram = scaled.T @ scaled if with_gram else np.einsum("np,np->p", scaled, scaled)
        return cls(total, mean, gram, np.abs(X).max(axis=0, initial=0.0))

    def pooled(self, other: Moments) -> Moments:
        """Moments of two parts together (Chan, Golub & LeVeque, 1979)."""
        total = self.weight + other.weight
        share = other.weight / max(total, np.finfo(float).tiny)
        gap = other.mean - self.mean
        between = np.outer(gap, gap) if self.gram.ndim == 2 else gap**2
        gram = self.gram + other.gram + self.weight * share * between
        largest = np.maximum(self.largest, other.largest)
        return Moments(total, self.mean + share * gap, gram, largest)

    def axes(self, n_rows: int) -> Axes:
        """Principal axes, unless features are too many or their sums of squares too far apart."""
        if self.gram.ndim == 1 or _squares_differ(np.diag(self.gram), n_rows, self.largest):
            return Axes(self.mean, None)
        squares, basis = eigenvectors(self.gram)
        return Axes(self.mean, basis[:, _distinct(squares)])


def _principal_axes(X: Array, weight: Array | None) -> Axes:
    n_rows, n_features = X.shape
    with_gram = n_features <= min(n_rows, LARGEST_ROTATION)
    parts = row_slices(n_rows, _ROWS_AT_ONCE)
    some = (Moments.of(X[at], None if weight is None else weight[at], with_gram) for at in parts)
    moments = reduce(Moments.pooled, some)
    if with_gram or n_rows > LARGEST_ROTATION:
        return moments.axes(n_rows)
    if _squares_differ(moments.gram, n_rows, moments.largest):
        return Axes(moments.mean, None)
    rows = X - moments.mean
    rows = rows if weight is None else rows * np.sqrt(weight)[:, None]
    squares, left = eigenvectors(rows @ rows.T)
    kept = _distinct(squares)
    return Axes(moments.mean, (rows.T @ left[:, kept]) / np.sqrt(squares[kept]))


def _distinct(squares: Array) -> Flags:
    """Directions (r,) of ascending sums of squares that are more than rounding."""
    distinct: Flags = squares > _RANK_TOLERANCE * max(squares[-1], 1e-300)
    return distinct


def _squares_differ(squares: Array, n_rows: int, largest: Array) -> bool:
    """Whether sums of squares (p,) of features are too far apart for principal axes.

    Features of largest absolute values (p,) that vary no more than by rounding do not count.
    """
    varied = squares[squares > n_rows * (1e-14 * largest) ** 2]
    return bool(len(varied) and varied.max() > _WIDEST_RANGE * varied.min())


def prefers_row_space(n_rows: int, n_coordinates: int, n_extra: int) -> bool:
    """Whether rows are so few that they are better solved in their own span."""
    return 0 < n_rows <= min(_LARGEST_ROW_SPACE, n_coordinates // 2) and not n_extra


def _in_row_space(design: Design) -> Design:
    rows = design.rows[:, :-1]
    outer = rows @ rows.T
    squares, left = eigenvectors(dense(outer))
    kept = _distinct(squares)
    length = np.sqrt(squares[kept])
    inner = np.hstack([left[:, kept] * length, np.ones((design.n_rows, 1))])
    space = RowSpace(design.coordinates, rows, left[:, kept] / length)
    return Design(inner, None, design.weight, space)


def _csr_product(matrix: Any, dense: Array, single: bool = False) -> Array:
    out = np.empty((matrix.shape[0], dense.shape[1]))
    read: Any = np.ascontiguousarray(dense, dtype=np.float32 if single else np.float64)
    csr_times(matrix.indptr, matrix.indices, matrix.data, read, out)
    return out
