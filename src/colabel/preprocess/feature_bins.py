"""Bins of equal frequency or equal width."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from colabel.core.arrays import Array, Indices, dense
from colabel.core.estimators import Parameters, attribute, fits_afresh
from colabel.core.parameters import check_annotated, checked_weights
from colabel.core.schema import ASCENDING, Between, Dims, Fields, Is, check_that, stored

__all__ = ["FeatureBins"]


@stored("feature-bins")
class FeatureBins(Parameters, OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Cut each feature into a few bins of about equal frequency, or of equal width.

    Unlike scikit-learn's `KBinsDiscretizer`, a feature with no more distinct values than bins
    keeps them all, and a value that most rows share, such as the zero of word counts, gets a bin
    of its own instead of swallowing its neighbours.

    Parameters
    ----------
    n_bins : int, default=4
        Most bins of a feature.
    strategy : {"quantile", "width"}, default="quantile"
        "quantile": cuts lie between the distinct values where the share of rows below comes
        nearest to k / n_bins. "width": the range is cut into n_bins equal parts.

    Attributes
    ----------
    cuts_ : list of p arrays
        Ascending points at which each feature is cut; a value on a point belongs above it.
    n_bins_ : (p,) array of int
        Number of bins of each feature; 1 for a constant one.
    n_features_in_ : int
    feature_names_in_ : array of str
        Only where X had string column names.

    Examples
    --------
    >>> from colabel.preprocess import FeatureBins
    >>> X = [[0.0, 0], [0.1, 0], [0.2, 0], [0.9, 1]]
    >>> FeatureBins(n_bins=2).fit_transform(X).tolist()
    [[0, 0], [0, 0], [1, 0], [1, 1]]
    >>> FeatureBins(n_bins=2, strategy="width").fit_transform(X).tolist()
    [[0, 0], [0, 0], [0, 0], [1, 1]]
    """

    n_bins: Annotated[int, Between(2)] = field(default=4, kw_only=False)
    strategy: Literal["quantile", "width"] = "quantile"
    n_features_in_: Annotated[int, Between(1), Is("p")] = attribute()
    feature_names_in_: Annotated[NDArray[Any] | None, "p"] = attribute()
    n_bins_: Annotated[Indices, "p"] = attribute()

    cuts_: Annotated[list[Array], "p [bins]", Between(-np.inf, np.inf), ASCENDING] = attribute()

    @staticmethod
    def _check_stored(fields: Fields, dims: Dims) -> None:
        fits = fields["n_bins_"].tolist() == [n + 1 for n in dims["bins"]]
        check_that(fits, "cuts_ do not fit n_bins_")
        dims["made"] = dims["p"]

    @fits_afresh
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Find the cuts of every feature.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, p)
        y : ignored
        sample_weight : array of shape (n,), optional
            How many rows each row stands for; a row of weight zero does not exist.
        """
        check_annotated(self)
        rows = self._dense(X, reset=True)
        weight = checked_weights(sample_weight, rows)
        present = weight > 0
        rows, weight = rows[present], weight[present]
        self.cuts_ = [self._cuts_of(column, weight) for column in rows.T]
        self.n_bins_ = np.array([len(points) + 1 for points in self.cuts_], dtype=np.intp)
        return self

    def _cuts_of(self, column: Array, weight: Array) -> Array:
        values, position = np.unique(column, return_inverse=True)
        if len(values) <= self.n_bins:
            return between(values[:-1], values[1:])
        if self.strategy == "width":
            parts = np.arange(1, self.n_bins) / self.n_bins
            return np.unique(values[0] * (1 - parts) + values[-1] * parts)
        cumulated = np.bincount(position.reshape(-1), weight).cumsum()
        below = cumulated[:-1] / cumulated[-1]  # share of rows under the cut after each value
        wanted = np.arange(1, self.n_bins) / self.n_bins
        nearest = np.unique(np.abs(below[:, None] - wanted).argmin(axis=0))
        return between(values[nearest], values[nearest + 1])

    def transform(self, X: Any) -> Indices:
        """Say into which bin each value falls.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, p)

        Returns
        -------
        (n, p) array of int
            From 0 to ``n_bins_[j] - 1`` in column j. Values beyond those seen fall into the
            outermost bins.
        """
        check_is_fitted(self)
        rows = self._dense(X, reset=False)
        codes = np.empty(rows.shape, dtype=np.intp)
        for j, cuts in enumerate(self.cuts_):
            codes[:, j] = np.searchsorted(cuts, rows[:, j], side="right")
        return codes

    def _dense(self, X: Any, *, reset: bool) -> Array:
        """Check X; a sparse one is made dense, as zero need not be the lowest bin."""
        X = validate_data(self, X, reset=reset, accept_sparse="csc", dtype=np.float64)
        rows: Array = dense(X)
        return rows

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = []  # numbers of bins, whatever X is
        return tags


def between(below: Array, above: Array) -> Array:
    """Points midway, each above `below` and at most `above` also where they are neighbours."""
    # Halves first: the sum of two large values could overflow.
    middle = below / 2 + above / 2
    points: Array = np.where(middle > below, middle, above)
    return points
