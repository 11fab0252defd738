"""Log-odds of every label's values, averaged over the trees of one forest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from colabel.core.arrays import Array, Flags
from colabel.core.chunks import row_slices
from colabel.core.hashing import row_keys
from colabel.core.label_features import column_owner, label_columns
from colabel.core.schema import Between, Dims, Fields, Is, refuse_unless, stored
from colabel.labels import MISSING
from colabel.learn.conditional import TrainingData
from colabel.learn.forest.contents import label_frequencies, tree_means
from colabel.learn.forest.forest import Forest
from colabel.learn.forest.growing import Grown
from colabel.learn.row_chance import copies

__all__ = ["LabelForest", "label_targets"]

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

    forest: Annotated[Forest, "leaves p"]
    frequencies: Annotated[NDArray[np.float32], "leaves columns(sizes)", Between(0.0, 1.0)]
    cardinalities: Annotated[tuple[int, ...], "d", Between(1), Is("sizes")]

    @staticmethod
    def _check_stored(fields: Fields, dims: Dims) -> None:
        owner = column_owner(dims["sizes"])
        for variable in np.flatnonzero(np.asarray(dims["sizes"]) != 2):
            total = fields["frequencies"][:, owner == variable].sum(axis=1, dtype=np.float64)
            one = np.abs(total - 1.0).max(initial=0.0) <= _ROUNDING
            refuse_unless(one, "frequencies holds probabilities that do not sum to one")

    @classmethod
    def of(
        cls, grown: Grown, data: TrainingData, n_jobs: int | None = None
    ) -> tuple[LabelForest, Array, Flags]:
        """Fill the leaves of a forest with the labels of the rows it was grown on.

        Also returns the log-odds (n, e) of these rows by the trees that have not seen them. Every
        row counts in its leaf of every tree, drawn for the tree or not; a row out of bag is left
        out of its own, and so are its copies. So these rows and new ones meet leaves of the same
        kind. The last (n,) are the rows of so many copies that nearly every tree has seen one.
        """
        unseen, itself, crowded = _unseen_with_copies(grown, data)
        table, means = label_frequencies(
            grown.forest.leaves(data.X, n_jobs),
            grown.forest.first_leaves,
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
        found = np.empty((X.shape[0], self.frequencies.shape[1]))
        for part in row_slices(X.shape[0], _ROWS_AT_ONCE):
            found[part] = tree_means(self.forest.leaves(X[part], n_jobs), self.frequencies, n_jobs)
        return _log_odds(found, self.cardinalities)


def _unseen_with_copies(grown: Grown, data: TrainingData) -> tuple[Flags, Array, Flags]:
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
