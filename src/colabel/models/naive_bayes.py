"""Naive Bayes over discrete features, as a base of chains and of one classifier per label."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import Tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from colabel._typing import is_sparse

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]

# Whole numbers within such a range are looked up directly; others by a search.
_WIDEST_RANGE = 4096


class DiscreteNaiveBayes(ClassifierMixin, BaseEstimator):
    r"""Naive Bayes for features whose distinct values are categories; one class variable.

    .. math:: P(c \mid x) \propto P(c) \prod_j P(x_j \mid c), \qquad
        P(x_j = v \mid c) = \frac{N_{cv} + \alpha}{N_c + \alpha K_j}

    with :math:`K_j` values of feature j seen in training. A value not seen there has
    :math:`N_{cv} = 0`, where scikit-learn's `CategoricalNB` raises an error; values may be any
    numbers, so features put into bins and label columns of a chain can stand side by side.

    Meant as the `estimator` of `BinaryRelevance`, `EnsembleOfChains` and the others: with bins
    from `colabel.preprocess` these are the BR-NB and ECC-NB of the literature.

    Parameters
    ----------
    alpha : float, default=1.0
        Rows added to every count, also to those of the classes (Laplace).

    Attributes
    ----------
    classes_ : (K,) array
        Values of the class.
    class_count_ : (K,) array
        Weight of the rows of each class.
    class_log_prior_ : (K,) array
    n_categories_ : (p,) array of int
        Number of values of each feature.
    n_features_in_ : int
    feature_names_in_ : array of str
        Only where X had string column names.

    Examples
    --------
    >>> from colabel.models import DiscreteNaiveBayes
    >>> X, y = [[0, 1], [0, 1], [2, 0], [2, 1]], [0, 0, 1, 1]
    >>> model = DiscreteNaiveBayes().fit(X, y)
    >>> model.predict_proba([[0, 1], [7, 0]]).round(2).tolist()  # 7 was never seen
    [[0.82, 0.18], [0.33, 0.67]]
    """

    def __init__(self, alpha: float = 1.0) -> None:
        self.alpha = alpha

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Count values by class.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, p)
        y : (n,) array of class values
        sample_weight : (n,) array, optional
        """
        if not (np.isfinite(self.alpha) and self.alpha > 0):
            raise ValueError(f"alpha={self.alpha!r} must be positive and finite.")
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64)
        check_classification_targets(y)
        weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        kept = weight > 0  # a row without weight must not bring a category
        if not kept.any():
            raise ValueError("All sample weights are zero. Give a row a positive weight.")
        self.classes_, of_row = np.unique(y, return_inverse=True)
        rows, of_row, weight = _dense(X)[kept], of_row[kept], weight[kept]
        self._cells = _Cells.of_rows(rows)
        counts = self._counts(rows, of_row, weight)
        self.class_count_ = np.bincount(of_row, weight, minlength=len(self.classes_))
        prior = self.class_count_ + self.alpha
        self.class_log_prior_ = np.log(prior / prior.sum())
        self.n_categories_ = self._cells.per_feature(counts.sum(axis=0) > 0)
        smoothed = self.class_count_[:, None] + self.alpha * self.n_categories_  # (K, p)
        sizes = np.diff(self._cells.first)
        self._log_prob = np.log(counts + self.alpha) - np.repeat(np.log(smoothed), sizes, axis=1)
        return self

    def _counts(self, rows: FloatArray, of_row: IntArray, weight: FloatArray) -> FloatArray:
        """Weight of the rows of each class in each cell, (K, cells)."""
        cells, n_cells = self._cells.places(rows), int(self._cells.first[-1])
        return np.stack(
            [
                np.bincount(
                    cells[of_row == c].ravel(),
                    np.repeat(weight[of_row == c], rows.shape[1]),
                    minlength=n_cells,
                )
                for c in range(len(self.classes_))
            ]
        )

    def predict_joint_log_proba(self, X: Any) -> FloatArray:
        """Return log P(c, x) of each class, (n, K)."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, accept_sparse="csr", dtype=np.float64)
        cells = self._cells.places(_dense(X))
        evidence = np.stack([table[cells].sum(axis=1) for table in self._log_prob], axis=1)
        result: FloatArray = self.class_log_prior_ + evidence
        return result

    def predict_log_proba(self, X: Any) -> FloatArray:
        """Return log P(c | x) of each class, (n, K)."""
        scores = self.predict_joint_log_proba(X)
        result: FloatArray = scores - logsumexp(scores, axis=1, keepdims=True)
        return result

    def predict_proba(self, X: Any) -> FloatArray:
        """Return P(c | x) of each class, (n, K)."""
        return np.exp(self.predict_log_proba(X))

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class of each row, (n,)."""
        scores = self.predict_joint_log_proba(X)
        best: NDArray[Any] = self.classes_[scores.argmax(axis=1)]
        return best

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class _Cells(NamedTuple):
    """Where each value of each feature is counted; the last cell of a feature is for the unseen.

    Attributes
    ----------
    first : (p + 1,)
        The cells of feature j stand from ``first[j]`` to ``first[j + 1]``.
    low : (p,)
        Smallest value of a feature of whole numbers: its cells are the numbers from there on.
    searched : dict
        Sorted values of each of the other features, a cell each.
    """

    first: IntArray
    low: FloatArray
    searched: dict[int, FloatArray]

    @classmethod
    def of_rows(cls, rows: FloatArray) -> _Cells:
        low, high = rows.min(axis=0), rows.max(axis=0)
        direct = (high - low < _WIDEST_RANGE) & (rows == np.floor(rows)).all(axis=0)
        searched = {int(j): np.unique(rows[:, j]) for j in np.flatnonzero(~direct)}
        sizes = np.where(direct, high - low + 1, 0).astype(np.intp)
        for j, values in searched.items():
            sizes[j] = len(values)
        return cls(np.concatenate([[0], np.cumsum(sizes + 1)]), low, searched)

    def places(self, rows: FloatArray) -> IntArray:
        """Cell of each value, (n, p)."""
        unseen = np.diff(self.first) - 1
        with np.errstate(invalid="ignore", over="ignore"):
            shifted = rows - self.low
            inside = (shifted >= 0) & (shifted < unseen) & (shifted == np.floor(shifted))
        codes = np.where(inside, shifted, unseen).astype(np.intp)
        for j, values in self.searched.items():
            found = np.minimum(np.searchsorted(values, rows[:, j]), len(values) - 1)
            codes[:, j] = np.where(values[found] == rows[:, j], found, len(values))
        places: IntArray = codes + self.first[:-1]
        return places

    def per_feature(self, seen: NDArray[np.bool_]) -> IntArray:
        """Count the cells of each feature that are marked (cells,)."""
        counts: IntArray = np.add.reduceat(seen.astype(np.intp), self.first[:-1])
        return counts


def _dense(X: Any) -> FloatArray:
    rows: FloatArray = X.toarray() if is_sparse(X) else X
    return rows
