"""Correlation-based feature selection (CFS) for many labels."""

from __future__ import annotations

import warnings
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.feature_selection import SelectorMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from colabel.core.arrays import Array, Flags, is_sparse
from colabel.core.parameters import check_integer
from colabel.core.schema import Between, Dims, Fields, Is, stored
from colabel.preprocess._best_first import add_locally_predictive, best_subset
from colabel.preprocess._targets import Target, TargetColumn, target_columns
from colabel.preprocess._uncertainty import FeatureUncertainty, symmetrical_uncertainty

__all__ = ["CorrelationSelector"]

_MANY_VALUES = 64


@stored("correlation-selector")
class CorrelationSelector(SelectorMixin, BaseEstimator):
    r"""Choose features that say much about the labels and little about each other.

    Hall's CFS: the merit of a set of k features is

    .. math:: \frac{k \bar r_{cf}}{\sqrt{k + k (k - 1) \bar r_{ff}}}

    where :math:`r_{cf}` is the mean symmetrical uncertainty of a feature with the class and
    :math:`r_{ff}` that of two features. The best set is looked for by best-first search from no
    feature on. How two features are related is only computed for features the search adds.

    Features are categorical here, each distinct value a category: put continuous ones into bins
    first, by `FeatureBins` or `EntropyBins`.

    Parameters
    ----------
    target : {"each label", "label set"}, default="each label"
        What the class is. "each label": features are chosen for every label alone, and united.
        "label set": the class has one value for each distinct label vector.
    patience : int, default=5
        Expansions in a row without a better set after which the search stops.
    locally_predictive : bool, default=False
        Whether to add, at the end, features that say more about the class than about any
        feature chosen so far.

    Attributes
    ----------
    support_ : (p,) array of bool
        Which features are chosen.
    merits_ : array of float
        Merit of the set chosen for each label, or for the label set; 0 where no feature says
        anything.
    n_features_in_ : int
    feature_names_in_ : array of str
        Only where X had string column names.

    References
    ----------
    M. Hall, Correlation-based feature selection for machine learning, 1999.

    Examples
    --------
    >>> import numpy as np
    >>> from colabel.preprocess import CorrelationSelector
    >>> rng = np.random.default_rng(0)
    >>> X = rng.integers(0, 2, (200, 5))
    >>> X[:, 1] = X[:, 0]  # a copy says nothing new
    >>> Y = X[:, [0, 3]]
    >>> CorrelationSelector().fit(X, Y).get_support()
    array([ True, False, False,  True, False])
    """

    n_features_in_: Annotated[int, Between(1), Is("p")]
    feature_names_in_: Annotated[NDArray[Any] | None, "p"]
    support_: Annotated[Flags, "p"]
    merits_: Annotated[Array, "_"]

    @staticmethod
    def _check_stored(fields: Fields, dims: Dims) -> None:
        dims["made"] = int(fields["support_"].sum())

    def __init__(
        self,
        target: Target = "each label",
        *,
        patience: int = 5,
        locally_predictive: bool = False,
    ) -> None:
        self.target = target
        self.patience = patience
        self.locally_predictive = locally_predictive

    def fit(self, X: Any, y: Any) -> Self:
        """Choose features.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, p)
            Categorical features, as numbers.
        y : labels of n rows, in any form that `LabelSpace` reads
            Rows with missing labels are left out, for "each label" only where that one misses.
        """
        check_integer("patience", self.patience, 1)
        X = validate_data(self, X, accept_sparse="csc", dtype=np.float64)
        features = _read_features(X)
        targets = target_columns(y, X.shape[0], self.target)
        self.support_ = np.zeros(X.shape[1], dtype=bool)
        self.merits_ = np.zeros(len(targets))
        for place, target in enumerate(targets):
            to_class = _with_class(features, target)
            chosen, self.merits_[place] = best_subset(to_class, features, self.patience)
            if self.locally_predictive:
                chosen = add_locally_predictive(chosen, to_class, features)
            self.support_[list(chosen)] = True
        if not self.support_.any():
            warnings.warn(
                "No feature says anything about the labels, so all features are kept.",
                UserWarning,
                stacklevel=2,
            )
            self.support_[:] = True
        return self

    def _get_support_mask(self) -> Flags:
        check_is_fitted(self)
        return self.support_

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags


def _read_features(X: Any) -> FeatureUncertainty:
    """Codes of each feature's distinct values; says so where they look continuous."""
    n_rows, n_features = X.shape
    columns = np.empty((n_features, n_rows), dtype=np.int32)
    sizes = np.empty(n_features, dtype=np.intp)
    for j in range(n_features):
        column = X[:, [j]].toarray()[:, 0] if is_sparse(X) else X[:, j]
        values, columns[j] = np.unique(column, return_inverse=True)
        sizes[j] = len(values)
    if sizes.max() > _MANY_VALUES:
        warnings.warn(
            f"Feature {int(sizes.argmax())} has {int(sizes.max())} distinct values, each taken as"
            " a category. Put continuous features into bins first, by FeatureBins or EntropyBins.",
            UserWarning,
            stacklevel=3,
        )
    return FeatureUncertainty(columns, sizes)


def _with_class(features: FeatureUncertainty, target: TargetColumn) -> Array:
    """Symmetrical uncertainty of each feature with a class (p,), where the class is known."""
    columns = features.columns
    if len(target.rows) < columns.shape[1]:
        columns = np.ascontiguousarray(columns[:, target.rows])
    codes = target.codes.astype(np.int32)
    result: Array = symmetrical_uncertainty(columns, features.sizes, codes, target.n_values)
    # A feature that is independent of the class up to rounding says nothing.
    return np.where(result > 1e-10, result, 0.0)
