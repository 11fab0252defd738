"""What the bins share: features cut at points, values told by the bin they fall into."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from colabel.core.arrays import Array, Indices, dense
from colabel.core.schema import Ascending, Between, Dims, Fields, Is, refuse_unless


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

    n_features_in_: Annotated[int, Between(1), Is("p")]
    feature_names_in_: Annotated[NDArray[Any] | None, "p"]
    n_bins_: Annotated[Indices, "p"]

    cuts_: Annotated[list[Array], "p [bins]", Between(-np.inf, np.inf), Ascending()]

    @staticmethod
    def _check_stored(fields: Fields, dims: Dims) -> None:
        fits = fields["n_bins_"].tolist() == [n + 1 for n in dims["bins"]]
        refuse_unless(fits, "cuts_ do not fit n_bins_")
        dims["made"] = dims["p"]

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
