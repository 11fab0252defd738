"""Correlation-based feature selection (CFS) for many labels.

Symmetrical uncertainty of two categorical columns is

    SU(A, B) = 2 (H(A) + H(B) - H(A, B)) / (H(A) + H(B)),

0 for independent columns, 1 where each is a function of the other, and 0 for two constants.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
from numba import njit
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.feature_selection import SelectorMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from colabel.labels import MISSING, LabelSpace
from studies.methods.arrays import Array, Flags, Indices

Codes: TypeAlias = NDArray[np.int32]

_MANY_VALUES = 64
_IMPROVEMENT = 1e-5  # by which a set must be better to count


class CorrelationSelector(SelectorMixin, BaseEstimator):
    r"""Choose features that say much about the labels and little about each other.

    Hall's CFS: the merit of a set of k features is

    .. math:: \frac{k \bar r_{cf}}{\sqrt{k + k (k - 1) \bar r_{ff}}}

    where :math:`r_{cf}` is the mean symmetrical uncertainty of a feature with the class and
    :math:`r_{ff}` that of two features. The best set is looked for by best-first search from no
    feature on. How two features are related is only computed for features the search adds.

    Features are categorical here, each distinct value a category: put continuous ones into bins
    first, by `FeatureBins`.

    Parameters
    ----------
    target : {"each label", "label set"}, default="each label"
        What the class is. "each label": features are chosen for every label alone, and united.
        "label set": the class has one value for each distinct label vector.
    patience : int, default=5
        Expansions in a row without a better set after which the search stops.

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
    >>> from studies.methods.selection import CorrelationSelector
    >>> rng = np.random.default_rng(0)
    >>> X = rng.integers(0, 2, (200, 5))
    >>> X[:, 1] = X[:, 0]  # a copy says nothing new
    >>> Y = X[:, [0, 3]]
    >>> CorrelationSelector().fit(X, Y).get_support()
    array([ True, False, False,  True, False])
    """

    def __init__(
        self,
        target: str = "each label",
        *,
        patience: int = 5,
    ) -> None:
        self.target = target
        self.patience = patience

    def fit(self, X: Any, y: Any) -> Self:
        """Choose features.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, p)
            Categorical features, as numbers.
        y : labels of n rows, in any form that `LabelSpace` reads
            Rows with missing labels are left out, for "each label" only where that one misses.
        """
        X = validate_data(self, X, accept_sparse="csc", dtype=np.float64)
        features = _read_features(X)
        targets = target_columns(y, self.target)
        self.support_ = np.zeros(X.shape[1], dtype=bool)
        self.merits_ = np.zeros(len(targets))
        for place, target in enumerate(targets):
            to_class = _with_class(features, target)
            chosen, self.merits_[place] = best_subset(to_class, features, self.patience)
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
        column = X[:, [j]].toarray()[:, 0] if hasattr(X, "toarray") else X[:, j]
        values, columns[j] = np.unique(column, return_inverse=True)
        sizes[j] = len(values)
    if sizes.max() > _MANY_VALUES:
        warnings.warn(
            f"Feature {int(sizes.argmax())} has {int(sizes.max())} distinct values, each taken as"
            " a category. Put continuous features into bins first, by FeatureBins.",
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


class TargetColumn(NamedTuple):
    """One class variable: the rows where it is known (m,), its codes there (m,), its size."""

    rows: Indices
    codes: Indices
    n_values: int


def target_columns(Y: Any, target: str) -> list[TargetColumn]:
    """Return the class variables to measure features against: every label, or all as one."""
    if target not in ("label set", "each label"):
        raise ValueError(f"target={target!r} is not known: give 'each label' or 'label set'.")
    _, codes = LabelSpace.infer(Y)
    each = [codes[:, [i]] for i in range(codes.shape[1])]
    found = []
    for own in each if target == "each label" else [codes]:
        rows = np.flatnonzero((own != MISSING).all(axis=1))
        distinct, place = np.unique(own[rows], axis=0, return_inverse=True)
        found.append(TargetColumn(rows, place.ravel().astype(np.intp), len(distinct)))
    return found


class _Subset(NamedTuple):
    """A set of features with the sums its merit and that of its supersets need.

    Attributes
    ----------
    merit : float
    features : frozenset of int
    to_class : float
        Sum of the members' uncertainty with the class.
    among : float
        Sum of the uncertainty over pairs of members.
    with_members : (p,)
        Sum of each feature's uncertainty with the members.
    """

    merit: float
    features: frozenset[int]
    to_class: float
    among: float
    with_members: Array


class _Child(NamedTuple):
    """A set made by adding one feature; its sums are taken when it is expanded."""

    merit: float
    features: frozenset[int]
    parent: _Subset
    added: int


def best_subset(
    to_class: Array, features: FeatureUncertainty, patience: int
) -> tuple[frozenset[int], float]:
    r"""Features of the highest merit found, and the merit.

    .. math:: \frac{\sum_i SU(i, class)}{\sqrt{k + 2 \sum_{i < j} SU(i, j)}}

    which is :math:`k r_{cf} / \sqrt{k + k (k - 1) r_{ff}}` by means. The best set not yet expanded
    is expanded by every feature; the search ends after `patience` expansions in a row without a
    better set. Only the `patience` best sets wait to be expanded: later ones would hardly be.

    Parameters
    ----------
    to_class : (p,)
        Uncertainty of each feature with the class. A feature without any is never added: it
        could only lower the merit.
    features : FeatureUncertainty
    patience : int
    """
    useful = np.flatnonzero(to_class > 0)
    start = _Subset(0.0, frozenset(), 0.0, 0.0, np.zeros(len(to_class)))
    waiting: list[_Child] = []
    seen: set[frozenset[int]] = {start.features}
    best: tuple[frozenset[int], float] = (start.features, 0.0)
    subset, idle = start, 0
    while idle < patience:
        children = _children(subset, useful, to_class, seen, patience)
        seen.update(child.features for child in children)
        waiting = sorted([*waiting, *children], key=_worth)[:patience]
        idle += 1
        if waiting and waiting[0].merit > best[1] + _IMPROVEMENT:
            best, idle = (waiting[0].features, waiting[0].merit), 0
        if not waiting:
            break
        subset = _expanded(waiting.pop(0), to_class, features)
    return best


def _worth(child: _Child) -> tuple[float, list[int]]:
    """Sort key: the best first, then the smaller features."""
    return -child.merit, sorted(child.features)


def _children(
    subset: _Subset,
    useful: Indices,
    to_class: Array,
    seen: set[frozenset[int]],
    most: int,
) -> list[_Child]:
    """The best sets with one feature more that have not been seen, `most` of them at most."""
    k = len(subset.features) + 1
    pairs = subset.among + subset.with_members[useful]
    merits = (subset.to_class + to_class[useful]) / np.sqrt(k + 2.0 * pairs)
    found: list[_Child] = []
    for place in np.argsort(-merits, kind="stable"):
        feature = int(useful[place])
        if feature in subset.features or (grown := subset.features | {feature}) in seen:
            continue
        found.append(_Child(float(merits[place]), grown, subset, feature))
        if len(found) == most:
            break
    return found


def _expanded(child: _Child, to_class: Array, features: FeatureUncertainty) -> _Subset:
    parent, added = child.parent, child.added
    return _Subset(
        child.merit,
        child.features,
        parent.to_class + float(to_class[added]),
        parent.among + float(parent.with_members[added]),
        parent.with_members + features.with_all(added),
    )


@dataclass(frozen=True, eq=False)
class FeatureUncertainty:
    """Symmetrical uncertainty of features, a row at a time, each computed once.

    Attributes
    ----------
    columns : (p, n)
        Codes of each feature from 0 on.
    sizes : (p,)
        Number of values of each feature.
    rows : dict
        Feature -> its uncertainty with all features (p,), as far as asked for.
    """

    columns: Codes
    sizes: Indices
    rows: dict[int, Array] = field(default_factory=dict)

    def with_all(self, feature: int) -> Array:
        """Symmetrical uncertainty of one feature with each (p,)."""
        if feature not in self.rows:
            column, size = self.columns[feature], int(self.sizes[feature])
            self.rows[feature] = symmetrical_uncertainty(self.columns, self.sizes, column, size)
        return self.rows[feature]


@njit(nogil=True, cache=True)
def symmetrical_uncertainty(columns: Codes, sizes: Indices, other: Codes, other_size: int) -> Array:
    """Symmetrical uncertainty of each column (p, n) with another (n,).

    Sums of N log N stand for entropies: n H = n log n - sum of N log N.
    """
    n_columns, n = columns.shape
    count_log_count = np.zeros(n + 1)
    for count in range(1, n + 1):
        count_log_count[count] = count * math.log(count)
    largest = 0
    for size in sizes:
        largest = max(largest, size)
    both = np.zeros((largest, other_size), dtype=np.int64)
    of_column, of_other = np.zeros(largest, dtype=np.int64), np.zeros(other_size, dtype=np.int64)
    for row in range(n):
        of_other[other[row]] += 1
    other_sum = 0.0
    for value in range(other_size):
        other_sum += count_log_count[of_other[value]]
    result = np.zeros(n_columns)
    for j in range(n_columns):
        size = sizes[j]
        both[:size] = 0
        of_column[:size] = 0
        for row in range(n):
            both[columns[j, row], other[row]] += 1
            of_column[columns[j, row]] += 1
        column_sum, joint_sum = 0.0, 0.0
        for value in range(size):
            column_sum += count_log_count[of_column[value]]
            for other_value in range(other_size):
                joint_sum += count_log_count[both[value, other_value]]
        whole = count_log_count[n]
        entropies = 2 * whole - column_sum - other_sum
        if entropies > 1e-12 * (whole + 1.0):
            shared = whole + joint_sum - column_sum - other_sum
            share = float(2.0 * shared / entropies)
            result[j] = min(max(share, 0.0), 1.0)
    return result
