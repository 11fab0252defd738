"""Probabilities of 0/1 labels by any classifier, one of colabel or of scikit-learn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import has_fit_parameter

from colabel.core.arrays import Array, Codes, Flags, Indices
from colabel.labels import MISSING
from colabel.models.base import JointClassifier


def held_out_prob(
    estimator: BaseEstimator,
    X: Any,
    codes: Codes,
    weight: Array | None,
    is_train: Flags,
    test: Indices,
) -> Array:
    """Probabilities (n_test, d) of the rows held out."""
    if not len(test):
        return np.empty((0, codes.shape[1]))
    train = np.flatnonzero(is_train)
    part = None if weight is None else weight[train]
    labels = plain_labels(estimator, codes[train])
    model = fitted_to(estimator, _safe_indexing(X, train), labels, part, None)
    return prob_of_one(model, _safe_indexing(X, test), codes.shape[1])


def plain_labels(estimator: BaseEstimator, codes: Codes) -> Any:
    """0/1 labels as a matrix, NaN where missing; a single label of scikit-learn's as a vector.

    Models of colabel get a matrix, in which a constant label keeps both its values.
    """
    labels = np.where(codes == MISSING, np.nan, codes) if (codes == MISSING).any() else codes
    alone = labels.shape[1] == 1 and not isinstance(estimator, JointClassifier)
    return labels[:, 0] if alone else labels


def fitted_to(
    estimator: BaseEstimator,
    X: Any,
    labels: Any,
    weight: Array | None,
    names: Sequence[str] | None,
) -> Any:
    """Return a copy of an estimator, fitted; weights are refused where it does not take them."""
    arguments: dict[str, Any] = {} if names is None else {"label_names": names}
    if weight is not None:
        if not has_fit_parameter(estimator, "sample_weight"):
            raise ValueError(
                f"estimator={estimator!r} does not accept sample_weight. Fit without weights or"
                " choose an estimator that takes them."
            )
        arguments["sample_weight"] = weight
    return clone(estimator).fit(X, labels, **arguments)


def prob_of_one(model: Any, X: Any, n_labels: int) -> Array:
    """P(y = 1) of each label (n, d), from whichever form `predict_proba` has.

    scikit-learn's forests and nearest neighbours return a list of (n, 2) tables; a classifier
    of a single label returns one. A label that was constant among the training rows has a table
    of one column.
    """
    found = model.predict_proba(X)
    if isinstance(found, list):
        tables = zip(found, model.classes_, strict=True)
        return np.stack([_of_one(table, classes) for table, classes in tables], axis=1)
    prob: Array = np.asarray(found, dtype=np.float64)
    if isinstance(model, JointClassifier):
        return prob[:, 1:] if model.label_space_.kind == "vector" else prob
    return prob if n_labels > 1 else _of_one(prob, model.classes_)[:, None]


def _of_one(table: Any, classes: Any) -> Array:
    """P(y = 1) from a table (n, K), K of 1 or 2."""
    if table.shape[1] == 1:
        return np.full(len(table), float(np.ravel(classes)[0] == 1))
    positive: Array = np.asarray(table[:, 1], dtype=np.float64)
    return positive
