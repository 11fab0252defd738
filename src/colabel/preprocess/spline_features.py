"""Columns as curves, so that linear models bend."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted, validate_data

from colabel.core.arrays import Array, Indices, dense, is_sparse, label_columns
from colabel.core.estimators import Parameters, attribute
from colabel.core.parameters import check_annotated, check_magnitude
from colabel.core.schema import Below, Between, Dims, Fields, Is, check_that, stored
from colabel.labels import LabelSpace
from colabel.preprocess._scales import SCALINGS, mean_and_spread

__all__ = ["SplineFeatures"]

_LARGEST_SQUARE = 25.0  # of a standardised number, lest one outlier speaks for a column


@stored("spline-features")
class SplineFeatures(Parameters, TransformerMixin, BaseEstimator):
    r"""Standardised columns, and splines of those that have many values.

    A linear model of these features is a sum of smooth curves, one for each column, at nearly the
    price of straight lines. Beside each column stand its B-splines with knots at the column's
    quantiles, all but the first, each of variance one. Beyond the outermost knots they
    are constant, and the straight part goes on.

    Columns of few values are only standardised. Sparse rows stay as they are, since a column that
    is mostly zero has no curve.

    Parameters
    ----------
    n_knots : int, default=4
        Knots of a curve, the smallest and the largest value among them. A column becomes
        ``n_knots + degree - 1`` columns.
    degree : int, default=2
        Of the polynomials between knots.
    min_values : int, default=8
        Columns of fewer different values stay straight.
    max_columns : int, default=2000
        Where all curves together would be more features than that, fewer columns are curved: those
        whose squares, beyond the columns themselves, are most correlated with the labels y; the
        first of them without y.

    Attributes
    ----------
    mean_, scale_ : (p,) arrays, or None for sparse X
        Of the columns.
    curved_ : (c,) array
        The columns that have curves.
    knots_ : (c, n_knots) array
        Their knots.
    curve_mean_, curve_scale_ : (c * (n_knots + degree - 2),) arrays
        Of the splines.
    n_features_in_ : int
    feature_names_in_ : array of str
        Only where X had string column names.

    References
    ----------
    C. de Boor, A practical guide to splines, 1978. P. Eilers & B. Marx, Flexible smoothing with
    B-splines and penalties, 1996.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.pipeline import make_pipeline
    >>> from colabel import BinaryRelevance, SplineFeatures
    >>> X = np.random.default_rng(0).normal(size=(400, 2))
    >>> Y = np.column_stack([np.abs(X[:, 0]) > 0.7, X[:, 1] > 0]).astype(int)
    >>> BinaryRelevance(random_state=0).fit(X[:300], Y[:300]).score(X[300:], Y[300:]) < 0.7
    True
    >>> model = make_pipeline(SplineFeatures(), BinaryRelevance(random_state=0))
    >>> model.fit(X[:300], Y[:300]).score(X[300:], Y[300:]) > 0.9
    True
    """

    n_knots: Annotated[int, Between(2)] = field(default=4, kw_only=False)
    degree: Annotated[int, Between(1, 10)] = 2
    min_values: Annotated[int, Between(2)] = 8
    max_columns: Annotated[int, Between(0)] = 2000
    n_features_in_: Annotated[int, Between(1), Is("p")] = attribute()
    feature_names_in_: Annotated[NDArray[Any] | None, "p"] = attribute()
    mean_: Annotated[Array | None, "p"] = attribute()
    scale_: Annotated[Array | None, "p", Between(1e-300)] = attribute()
    curved_: Annotated[Indices, "c", Below("p")] = attribute()
    knots_: Annotated[Array, "c k"] = attribute()
    curve_mean_: Annotated[Array, "m"] = attribute()
    curve_scale_: Annotated[Array, "m", Between(1e-300)] = attribute()

    @staticmethod
    def _check_stored(fields: Fields, dims: Dims) -> None:
        curved, knots = fields["curved_"], fields["knots_"]
        check_that((np.diff(curved) > 0).all(), "curved_ does not ascend")
        check_that((np.diff(knots, axis=1) > 0).all(), "the knots of a column do not ascend")
        check_that(dims["k"] >= 2, "a curve has fewer than two knots")
        check_that(
            (fields["mean_"] is None) == (fields["scale_"] is None), "mean_ does not fit scale_"
        )
        made = dims["c"] * (dims["k"] + fields["degree"] - 2)
        check_that(dims["m"] == made, "curve_mean_ does not fit the knots")
        dims["made"] = dims["p"] + made

    out_of_sample = True
    """Whether `fit_transform` sees no labels of the rows it describes."""

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the knots.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, p)
        y : labels of n rows, in any form that `LabelSpace` reads, optional
            Only asked where not all columns can be curved (`max_columns`).
        """
        check_annotated(self)
        X = self._checked(X, reset=True)
        self.mean_ = self.scale_ = None
        self.curved_ = np.empty(0, dtype=np.intp)
        self.knots_ = np.empty((0, self.n_knots))
        if not is_sparse(X):
            self.mean_, self.scale_ = _mean_and_scale(X)
            most = max(0, (self.max_columns - X.shape[1]) // (self.n_knots + self.degree - 2))
            self._find_knots(X, self._most_bent(X, y, most) if most < X.shape[1] else None)
        self.curve_mean_, self.curve_scale_ = _mean_and_scale(self._curves(X))
        return self

    def _most_bent(self, X: Array, y: Any, most: int) -> Indices:
        """Return so many columns whose squares say most of the labels, beyond a straight line."""
        if y is None:
            return np.arange(most)
        assert self.mean_ is not None
        assert self.scale_ is not None
        space, codes = LabelSpace.infer(y)
        labels = label_columns(codes, space.cardinalities)
        straight = (X - self.mean_) / self.scale_
        squares = np.minimum(straight**2, _LARGEST_SQUARE)
        squares -= squares.mean(axis=0)
        squares -= straight * (straight * squares).mean(axis=0)
        labels = (labels - labels.mean(axis=0)) / np.maximum(labels.std(axis=0), 1e-12)
        spread = np.maximum(squares.std(axis=0), 1e-12)
        explained = ((squares.T @ labels / (len(X) * spread[:, None])) ** 2).sum(axis=1)
        return np.sort(np.argsort(-explained, kind="stable")[:most])

    def _find_knots(self, X: Array, columns: Indices | None) -> None:
        """Put the knots of a column at its quantiles, or at those of its distinct values."""
        knots: dict[int, Array] = {}
        at = np.linspace(0.0, 1.0, self.n_knots)
        fewest = max(self.min_values, self.n_knots)
        for column in range(X.shape[1]) if columns is None else columns.tolist():
            values = np.unique(X[:, column])
            if len(values) < fewest:
                continue
            own = np.quantile(X[:, column], at)
            # values that occur often hold several quantiles
            own = own if (np.diff(own) > 0).all() else np.quantile(values, at)
            if (np.diff(own) > 1e-9 * np.abs(own).max()).all():
                knots[column] = own
        if knots:
            self.curved_ = np.fromiter(knots, dtype=np.intp)
            self.knots_ = np.stack(list(knots.values()))

    def transform(self, X: Any) -> Any:
        """Return the features of rows.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, p)

        Returns
        -------
        (n, p + m) array: standardised columns, then splines, one column after the other. Sparse
            rows as they were given.
        """
        check_is_fitted(self)
        X = self._checked(X, reset=False)
        if self.mean_ is None:
            return X
        X = dense(X)
        straight = (X - self.mean_) / self.scale_
        curves = (self._curves(X) - self.curve_mean_) / self.curve_scale_
        return np.hstack([straight, curves]).astype(X.dtype, copy=False)

    def _curves(self, X: Any) -> Array:
        """B-splines (n, m) of the curved columns, the first of each left out."""
        if not len(self.curved_):
            return np.empty((X.shape[0], 0))
        basis = b_splines(
            np.asarray(X[:, self.curved_], dtype=np.float64), self.knots_, self.degree
        )
        return basis[..., 1:].reshape(len(basis), -1)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Names of the features: those of the columns, then with ``_spline1`` and so on."""
        check_is_fitted(self)
        names = _check_feature_names_in(self, input_features)
        n_each = self.n_knots + self.degree - 2
        curves = [f"{names[c]}_spline{k + 1}" for c in self.curved_ for k in range(n_each)]
        return np.asarray([*names, *curves], dtype=object)

    def _checked(self, X: Any, *, reset: bool) -> Any:
        X = validate_data(self, X, reset=reset, accept_sparse="csr", dtype=[np.float64, np.float32])
        check_magnitude(X, getattr(self, "feature_names_in_", None))
        return X

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _mean_and_scale(X: Array) -> tuple[Array, Array]:
    mean, spread = mean_and_spread(X)
    assert mean is not None
    return mean, SCALINGS["columns"](spread)


def b_splines(x: Array, knots: Array, degree: int) -> Array:
    r"""All B-splines (n, c, k + degree - 1) of columns x (n, c) with knots (c, k).

    The recursion of Cox and de Boor. Knots go on beyond the ends with the spacing there, and x
    beyond the outermost knots is taken for these.

    .. math:: B_{i,0} = 1[t_i \le x < t_{i+1}], \quad
        B_{i,q} = \frac{x - t_i}{t_{i+q} - t_i} B_{i,q-1}
                + \frac{t_{i+q+1} - x}{t_{i+q+1} - t_{i+1}} B_{i+1,q-1}
    """
    steps = np.arange(1, degree + 1)
    first, last = np.diff(knots[:, :2]), np.diff(knots[:, -2:])
    t = np.hstack([knots[:, :1] - first * steps[::-1], knots, knots[:, -1:] + last * steps])
    x = np.clip(x, knots[:, 0], knots[:, -1])[..., None]
    n_knots = knots.shape[1]
    # the last interval is closed: its right end is the largest value
    inside = np.clip((x >= knots[:, 1:-1]).sum(axis=-1), 0, n_knots - 2) + degree
    basis = (np.arange(t.shape[1] - 1) == inside[..., None]).astype(np.float64)
    for q in steps:
        rise = (x - t[:, : -q - 1]) / (t[:, q:-1] - t[:, : -q - 1])
        fall = (t[:, q + 1 :] - x) / (t[:, q + 1 :] - t[:, 1:-q])
        basis = rise * basis[..., :-1] + fall * basis[..., 1:]
    return np.asarray(basis)
