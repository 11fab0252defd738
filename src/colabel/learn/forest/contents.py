"""What the leaves of a forest hold: counts of label values, and averages of them over trees.

`LabelForest` averages log-odds of every label's values over the trees of one forest. `PlainForest`
is a fitted forest classifier of scikit-learn as plain arrays that answer as it does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from colabel.core.arrays import Array, Codes, Flags, column_owner, label_columns, row_slices
from colabel.core.hashing import row_keys
from colabel.core.schema import Between, Dims, Distribution, Fields, Is, check_that, stored
from colabel.core.threads import map_threads
from colabel.labels import MISSING
from colabel.learn.conditional import TrainingData
from colabel.learn.forest import forest as growing
from colabel.learn.row_hashing import copies

_BYTES_AT_ONCE = 1 << 25  # of counts in leaves; those of all trees would fill the memory


def label_frequencies(
    grown: growing.Forest,
    leaves: Codes,
    used: Flags,
    codes: Codes,
    cardinalities: Sequence[int],
    weight: Array,
    itself: Array,
    prior: Array,
    strength: float,
    n_jobs: int | None = None,
    bytes_at_once: int = _BYTES_AT_ONCE,
) -> tuple[growing.Singles, Array]:
    """Smoothed frequencies in all leaves, and their averages out of bag, each row left out.

    Label values stand in columns (`core.arrays`): one for the value 1 of a variable of two
    values, K for one of K. Trees share no leaf, so that some at a time are counted and forgotten.

    Parameters
    ----------
    grown : Forest
    leaves : (n, T)
        Leaves of the rows, see `Forest.leaves`.
    used : (n, T)
        Trees that have not seen the row, `Grown.out_of_bag`; where there is none the average is
        the prior.
    codes : (n, d)
        Labels; negative where one is not known.
    cardinalities : (d,)
    weight : (n,)
    itself : (n,)
        What is left out of a row's leaves: its weight, and that of rows that are the same.
    prior : (e,)
    strength : float
        So many rows more are in each leaf, distributed as the prior.
    n_jobs : int or None
        Threads; None for all cores.
    bytes_at_once : int
        Of counts in the leaves of some trees, or of one.

    Returns
    -------
    frequencies : (L, e) of single precision
    means : (n, e)
    """
    columns = label_columns(codes, cardinalities)
    known = (codes >= 0)[:, column_owner(cardinalities)].astype(np.float64)
    contents = np.hstack([columns, known]) * weight[:, None]
    own_value, own_known = columns * itself[:, None], known * itself[:, None]
    first, width = grown.first_leaves, len(prior)
    table = np.empty((grown.n_leaves, width), dtype=np.float32)
    total = np.zeros((len(codes), width))
    most = bytes_at_once // (16 * width)

    def count(start: int, end: int) -> None:
        low, high = int(first[start]), int(first[end])
        own = np.ascontiguousarray(leaves[:, start:end] - np.int32(low))
        unseen = np.ascontiguousarray(used[:, start:end])
        indptr = np.arange(len(own) + 1) * own.shape[1]
        member = sp.csr_array(
            (np.ones(own.size), own.ravel(), indptr), shape=(len(own), high - low)
        )
        counts, of_known = np.ascontiguousarray(np.hsplit(member.T @ contents, 2))
        table[low:high] = (counts + strength * prior) / (of_known + strength)

        def add(part: slice) -> None:
            rows = (own[part], unseen[part], own_value[part], own_known[part])
            growing.add_without_own(*rows, counts, of_known, prior, strength, total[part])

        map_threads(add, list(growing.row_blocks(len(codes), n_jobs)), n_jobs, lambda: None)

    start = 0
    while start < grown.n_trees:
        fit = int(np.searchsorted(first, first[start] + most, side="right")) - 1
        end = max(start + 1, fit)
        count(start, end)
        start = end
    n_used = used.sum(axis=1)
    total /= np.maximum(n_used, 1)[:, None]
    total[n_used == 0] = prior
    return table, total


def tree_means(leaves: Codes, table: Array | growing.Singles, n_jobs: int | None = None) -> Array:
    """Average (n, e) over trees of what a table (L, e) says of the rows' leaves (n, T)."""
    mean = np.empty((len(leaves), table.shape[1]))

    def average(part: slice) -> None:
        growing.mean_over_trees(leaves[part], table, mean[part])

    map_threads(average, list(growing.row_blocks(len(leaves), n_jobs)), n_jobs, lambda: None)
    return mean


# Rows added to each leaf, distributed as the labels of all rows are. It does not grow with the
# number of trees, so that log-odds over the trees out of bag are in the same units as over all.
_PRIOR_ROWS = 1.0
_SMALLEST = 1e-7  # probability, far from zero in single precision; only guards the logarithm
_ROUNDING = 1e-4
_ROWS_AT_ONCE = 1 << 16
_FEWEST_TREES = 10  # that say something of a row


@stored("label-forest")
@dataclass(frozen=True, eq=False)
class LabelForest:
    """A forest whose leaves hold the frequencies of label values.

    Attributes
    ----------
    forest : Forest
    frequencies : (L, e) of single precision
        Smoothed, in label columns: one for the value 1 of a variable of two values, K for one of K.
    cardinalities : (d,)
    """

    forest: Annotated[growing.Forest, "leaves p"]
    frequencies: Annotated[NDArray[np.float32], "leaves columns(sizes)", Between(0.0, 1.0)]
    cardinalities: Annotated[tuple[int, ...], "d", Between(1), Is("sizes")]

    @staticmethod
    def _check_stored(fields: Fields, dims: Dims) -> None:
        owner = column_owner(dims["sizes"])
        for variable in np.flatnonzero(np.asarray(dims["sizes"]) != 2):
            total = fields["frequencies"][:, owner == variable].sum(axis=1, dtype=np.float64)
            one = np.abs(total - 1.0).max(initial=0.0) <= _ROUNDING
            check_that(one, "frequencies holds probabilities that do not sum to one")

    @classmethod
    def of(
        cls, grown: growing.Grown, data: TrainingData, n_jobs: int | None = None
    ) -> tuple[LabelForest, Array, Flags]:
        """Fill the leaves of a forest with the labels of the rows it was grown on.

        Also returns the log-odds (n, e) of these rows by the trees that have not seen them. Every
        row counts in its leaf of every tree, drawn for the tree or not; a row out of bag is left
        out of its own, and so are its copies. So these rows and new ones meet leaves of the same
        kind. The last (n,) are the rows of so many copies that nearly every tree has seen one.
        """
        unseen, itself, crowded = _unseen_with_copies(grown, data)
        table, means = label_frequencies(
            grown.forest,
            grown.forest.leaves(data.X, n_jobs),
            unseen,
            data.codes,
            data.cardinalities,
            data.row_weights,
            itself,
            _prior(data),
            _PRIOR_ROWS,
            n_jobs,
        )
        made = cls(grown.forest, table, data.cardinalities)
        return made, _log_odds(means, data.cardinalities), crowded

    def log_odds(self, X: Any, n_jobs: int | None = None) -> Array:
        """Log-odds (n, e) of the averages over all trees.

        Of a variable of two values, log P(1) - log P(0); of others, the logarithms of their
        probabilities less the mean of these.
        """
        means = np.empty((X.shape[0], self.frequencies.shape[1]))
        for part in row_slices(X.shape[0], _ROWS_AT_ONCE):
            leaves = self.forest.leaves(X[part], n_jobs)
            means[part] = tree_means(leaves, self.frequencies, n_jobs)
        return _log_odds(means, self.cardinalities)


def _unseen_with_copies(grown: growing.Grown, data: TrainingData) -> tuple[Flags, Array, Flags]:
    """Which trees (n, T) have seen neither a row nor a copy of it; the weight (n,) of all these.

    Rows that are equal by chance (see `copies`) stand for themselves: without its equals, a row
    would see just the other labels. So does, for want of trees, a row of so many copies that every
    tree has seen one; the last (n,) are rows for whose copies hardly a tree is left.
    """
    unseen, weight = grown.out_of_bag, data.row_weights
    group, alike = copies(row_keys(data.X), data.codes)
    order = np.argsort(group, kind="stable")
    first = np.flatnonzero(np.diff(group[order], prepend=-1))
    if len(first) == data.n_rows:
        return unseen, weight, np.zeros(data.n_rows, dtype=bool)
    of_all = np.logical_and.reduceat(unseen[order], first)[group]
    together = alike & of_all.any(axis=1)
    total = np.bincount(group, weights=weight)[group]
    # e^-c of the trees have seen none of c copies
    few = np.minimum(_FEWEST_TREES, unseen.sum(axis=1))
    crowded = alike & (np.bincount(group)[group] > 1) & (of_all.sum(axis=1) < few)
    own = np.where(together, total, weight)
    return np.where(together[:, None], of_all, unseen), own, crowded


def label_targets(data: TrainingData) -> Array:
    """What a forest is grown to tell: label columns (n, e), means where a label is not known."""
    columns = label_columns(data.codes, data.cardinalities)
    missing = (data.codes == MISSING)[:, column_owner(data.cardinalities)]
    return np.where(missing, _prior(data), columns) if missing.any() else columns


def _prior(data: TrainingData) -> Array:
    """Frequencies (e,) of label values in all rows, none of them zero."""
    tables = [data.class_frequencies(i) for i in range(data.n_labels)]
    return np.concatenate([table[1:] if len(table) == 2 else table for table in tables])


def _log_odds(prob: Array, cardinalities: tuple[int, ...]) -> Array:
    owner, sizes = column_owner(cardinalities), np.asarray(cardinalities)
    prob = np.clip(prob, _SMALLEST, 1.0 - _SMALLEST)
    log_odds = np.log(prob)
    binary = sizes[owner] == 2
    log_odds[:, binary] -= np.log1p(-prob[:, binary])
    for variable in np.flatnonzero(sizes != 2):
        own = owner == variable
        log_odds[:, own] -= log_odds[:, own].mean(axis=1, keepdims=True)
    return log_odds


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
    >>> from colabel.learn.forest.contents import PlainForest
    >>> X, y = load_iris(return_X_y=True)
    >>> grown = RandomForestClassifier(5, random_state=0).fit(X, y)
    >>> bool((PlainForest.of(grown).predict_proba(X) == grown.predict_proba(X)).all())
    True
    """

    forest_: Annotated[growing.Forest, "leaves p"]
    probabilities_: Annotated[Array, "leaves k", Distribution()]
    classes_: Annotated[NDArray[Any], "k"]
    n_features_in_: Annotated[int, Between(1), Is("p")]

    @classmethod
    def of(cls, grown: Any) -> PlainForest:
        """Take the trees of a fitted classifier with one output."""
        made = cls()
        trees = getattr(grown, "estimators_", [grown])
        made.forest_ = growing.Forest.of(grown)
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
