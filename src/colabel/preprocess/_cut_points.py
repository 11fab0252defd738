"""What the bins share: features cut at points, values told by the bin they fall into."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from colabel.core.arrays import Array, Indices, dense
from colabel.core.schema import (
    Dims,
    Fields,
    Kind,
    Many,
    Maybe,
    Numbers,
    Positions,
    Values,
    Whole,
    refuse_unless,
)


def check_cuts(fields: Fields, dims: Dims) -> None:
    """Refuse cuts that do not ascend, or are not as many as the bins say."""
    for cuts, n_bins in zip(fields["cuts_"], fields["n_bins_"], strict=True):
        refuse_unless((np.diff(cuts) > 0).all(), "cuts_ do not ascend")
        refuse_unless(n_bins == len(cuts) + 1, "cuts_ do not fit n_bins_")
    dims["made"] = dims["p"]


class CutPoints(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Base of the bins: a subclass's `fit` sets `cuts_`.

    Attributes
    ----------
    cuts_ : list of p arrays
        Ascending points at which each feature is cut; a value on a point belongs above it.
    n_bins_ : (p,) array of int
        Number of bins of each feature.
    n_features_in_ : int
    feature_names_in_ : array of str
        Only where X had string column names.
    """

    stored_fields: ClassVar[Mapping[str, Kind]] = {
        "n_features_in_": Whole(1, size="p"),
        "feature_names_in_": Maybe(Values("p")),
        "cuts_": Many(Numbers("_", -np.inf, np.inf), "p"),
        "n_bins_": Positions("p", below=2**53),
    }
    cuts_: list[Array]

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

    def _set_cuts(self, cuts: list[Array]) -> None:
        self.cuts_ = cuts
        self.n_bins_ = np.array([len(points) + 1 for points in cuts], dtype=np.intp)

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
