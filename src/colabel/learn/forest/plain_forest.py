"""A fitted forest classifier of scikit-learn as plain arrays that answer as it does."""

from __future__ import annotations

from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from colabel.core.arrays import Array
from colabel.core.schema import Between, Distribution, Is, stored
from colabel.learn.forest.contents import tree_means
from colabel.learn.forest.forest import Forest

__all__ = ["PlainForest"]


@stored("plain-forest")
class PlainForest(ClassifierMixin, BaseEstimator):
    """What a model file gives back for a fitted forest, or tree, of scikit-learn.

    It answers as the forest did, but cannot be fitted.

    Attributes
    ----------
    forest_ : Forest
    probabilities_ : (L, K)
        Of the classes in every leaf.
    classes_ : (K,)
    n_features_in_ : int

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from colabel.learn.forest import PlainForest
    >>> X, y = load_iris(return_X_y=True)
    >>> grown = RandomForestClassifier(5, random_state=0).fit(X, y)
    >>> bool((PlainForest.of(grown).predict_proba(X) == grown.predict_proba(X)).all())
    True
    """

    forest_: Annotated[Forest, "leaves p"]
    probabilities_: Annotated[Array, "leaves k", Distribution()]
    classes_: Annotated[NDArray[Any], "k"]
    n_features_in_: Annotated[int, Between(1), Is("p")]

    @classmethod
    def of(cls, grown: Any) -> PlainForest:
        """Take the trees of a fitted classifier with one output."""
        made = cls()
        trees = getattr(grown, "estimators_", [grown])
        made.forest_ = Forest.of(grown)
        values = np.concatenate([tree.tree_.value[:, 0] for tree in trees])
        made.probabilities_ = np.ascontiguousarray(values[made.forest_.leaf_nodes])
        made.classes_ = np.asarray(grown.classes_)
        made.n_features_in_ = int(grown.n_features_in_)
        return made

    def fit(self, X: Any, y: Any) -> Self:
        """Refuse: nothing is known here of how the forest was grown."""
        raise TypeError(
            "This forest came from a file and only answers. To learn from new rows, give the model"
            " a new RandomForestClassifier, or what it was, as its estimator and fit that."
        )

    def predict_proba(self, X: Any) -> Array:
        """Probabilities (n, K) of the classes: the average of what the leaves of a row hold."""
        check_is_fitted(self)
        rows = validate_data(
            self, X, reset=False, accept_sparse="csr", ensure_all_finite="allow-nan"
        )
        return tree_means(self.forest_.leaves(rows), self.probabilities_)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class (n,) of each row."""
        best: NDArray[Any] = self.classes_[self.predict_proba(X).argmax(axis=1)]
        return best
