"""Bins of equal frequency or equal width."""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np
from sklearn.utils.validation import _check_sample_weight

from colabel.core.arrays import Array
from colabel.core.estimators import fits_afresh
from colabel.core.parameters import check_choice, check_integer
from colabel.core.schema import stored
from colabel.preprocess._cut_points import CutPoints, between

__all__ = ["FeatureBins"]


@stored("feature-bins")
class FeatureBins(CutPoints):
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

    def __init__(
        self, n_bins: int = 4, *, strategy: Literal["quantile", "width"] = "quantile"
    ) -> None:
        self.n_bins = n_bins
        self.strategy = strategy

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
        check_integer("n_bins", self.n_bins, 2)
        check_choice("strategy", self.strategy, ("quantile", "width"))
        rows = self._dense(X, reset=True)
        weight: Array = _check_sample_weight(
            sample_weight, rows, dtype=np.float64, ensure_non_negative=True
        )
        present = weight > 0
        if not present.any():
            raise ValueError(
                "All sample weights are zero. Give at least one row a positive weight."
            )
        rows, weight = rows[present], weight[present]
        self._set_cuts([self._cuts_of(column, weight) for column in rows.T])
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
