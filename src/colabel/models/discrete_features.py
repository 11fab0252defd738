"""From any X to the codes of discrete features, as the generative models want them.

Choosing a pseudo-count by how probable it makes the labels of rows held out.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np

from colabel.core.arrays import Array, Codes, Indices, dense
from colabel.core.parameters import check_integer
from colabel.core.progress import progress_bar
from colabel.core.schema import ASCENDING, Between, check_that, stored
from colabel.joint.lds.network import FeatureColumns
from colabel.preprocess import FeatureBins


@stored("discrete-features")
class DiscreteFeatures(NamedTuple):
    """What fitting learned about the values of each feature.

    Attributes
    ----------
    cuts : tuple of p arrays
        Ascending. With bins the points between them, a value on a point belonging above it;
        without bins the values themselves.
    binned : bool
        Whether values fall into bins, or are categories.
    """

    cuts: Annotated[tuple[Array, ...], "p [values-1]", Between(-np.inf, np.inf), ASCENDING]
    binned: bool

    @staticmethod
    def _check_stored(fields: dict[str, Any], dims: dict[str, Any]) -> None:
        full = fields["binned"] or min(dims["values"]) > 1
        check_that(full, "a feature has no value")

    @property
    def columns(self) -> FeatureColumns:
        """Number of values of each feature; a category never seen counts as one more."""
        return FeatureColumns(tuple(len(each) + 1 for each in self.cuts))

    def codes(self, X: Any) -> Codes:
        """Codes (n, p) of rows X (n, p)."""
        rows = dense(X)
        found = np.empty(rows.shape, dtype=np.int32)
        for j, cuts in enumerate(self.cuts):
            place = np.searchsorted(cuts, rows[:, j], side="right" if self.binned else "left")
            if not self.binned:
                at = np.minimum(place, len(cuts) - 1)
                place = np.where(cuts[at] == rows[:, j], at, len(cuts))
            found[:, j] = place
        return found

    def value_names(self, j: int) -> tuple[str, ...]:
        """What each value of feature j means."""
        cuts = [f"{cut:.4g}" for cut in self.cuts[j]]
        if not self.binned:
            return (*cuts, "other")
        if not cuts:
            return ("any",)
        between = [f"{low} to {high}" for low, high in itertools.pairwise(cuts)]
        return (f"below {cuts[0]}", *between, f"{cuts[-1]} and above")


def fit_features(
    X: Any, bins: int | None, weight: Array | None, *, unseen: bool = True
) -> DiscreteFeatures:
    """Learn bins of about equal weight, or the categories of features that are discrete.

    Without a value for what is `unseen`, categories are bins around the values that were.
    """
    rows = dense(X)
    if bins is not None:
        found = FeatureBins(n_bins=int(bins)).fit(rows, sample_weight=weight)
        return DiscreteFeatures(tuple(found.cuts_), True)
    if weight is not None:
        rows = rows[weight > 0]
    values = tuple(np.unique(column) for column in rows.T)
    if unseen:
        return DiscreteFeatures(values, False)
    return DiscreteFeatures(tuple((own[:-1] + own[1:]) / 2.0 for own in values), True)


def check_bins(bins: object) -> None:
    """Refuse numbers of bins that make no sense."""
    if bins is not None:
        check_integer("bins", bins, 2, "None for features that are discrete already")


def feature_position(feature: str | int, names: Sequence[str] | None, n_features: int) -> int:
    """Position of a feature given by name or position."""
    if isinstance(feature, str):
        known = [] if names is None else list(names)
        if feature not in known:
            raise ValueError(
                f"There is no feature {feature!r}: "
                + (
                    "X had no column names, give a position."
                    if names is None
                    else f"the names are {', '.join(map(repr, known[:5]))}, …"
                )
            )
        return known.index(feature)
    if not -n_features <= feature < n_features:
        raise ValueError(f"There is no feature {feature}: there are {n_features}.")
    return int(feature) % n_features


# From the weights (n,) that are left for training, and positions of m rows that are held out, to
# the log-probabilities of the latter, (G, m): one row for each pseudo-count of the grid.
SmoothingScorer = Callable[[Array, Indices], Array]


def choose_smoothing(
    grid: Sequence[float],
    weight: Array,
    n_folds: int,
    scorer: SmoothingScorer,
    source: Indices | None = None,
    *,
    careful: bool = False,
    verbose: bool = False,
) -> float:
    """Choose the pseudo-count with the largest log-probability of the labels held out.

    Parameters
    ----------
    grid : sequence of G float
        Pseudo-counts to choose from.
    weight : (n,) array
        Weights of the rows, in random order. A row of weight 2 stands for two rows, of which one
        may be held out: equal rows should be merged, so that the choice does not depend on how
        they are written.
    n_folds : int
        In how many parts rows are held out.
    scorer : callable
        Learns with every pseudo-count and scores what is held out.
    source : (n,) array of int, optional
        The row behind each, where rows are copies with different labels: copies share a fold.
    careful : bool
        Whether to take the smallest value unless another gains more than a standard error.
    verbose : bool
        Whether to show progress.

    Returns
    -------
    float
        In a tie the larger; the largest also where nothing can be held out.

    Examples
    --------
    >>> import numpy as np
    >>> def scorer(weight, held_out):  # likes a pseudo-count of one half
    ...     return -abs(np.array([[0.1], [0.5], [1.0]]) - 0.5) * np.ones(len(held_out))
    >>> choose_smoothing([0.1, 0.5, 1.0], np.ones(6), 3, scorer)
    0.5
    """
    scores = np.zeros((len(grid), len(weight)))
    held_out = held_out_weights(weight, n_folds, source)
    with progress_bar("choosing the smoothing", n_folds, shown=verbose) as advance:
        for part in held_out.T:
            left = np.maximum(weight - part, 0.0)
            rows = np.flatnonzero(part > 0)
            if len(rows) and left.any():
                scores[:, rows] += scorer(left, rows) * part[rows]
            advance()
    totals = scores.sum(axis=1)
    if careful:
        smallest = int(np.argmin(grid))
        gain = scores - scores[smallest]
        unsure = gain.sum(axis=1) <= np.sqrt((gain**2).sum(axis=1))
        unsure[smallest] = False
        totals[unsure] = -np.inf
    best = np.flatnonzero(totals == totals.max())
    return max(float(grid[int(place)]) for place in best)


def held_out_weights(weight: Array, n_folds: int, source: Indices | None = None) -> Array:
    """Deal the weight of each row out to folds like cards, (n, F); copies share their cards.

    Examples
    --------
    >>> import numpy as np
    >>> held_out_weights(np.array([1.0, 1.0, 2.5]), 2).tolist()
    [[1.0, 0.0], [0.0, 1.0], [1.5, 1.0]]
    """
    if source is not None:
        _, first, copy = np.unique(source, return_index=True, return_inverse=True)
        copy = np.argsort(np.argsort(first))[copy]  # numbered as they come
        total = np.bincount(copy, weight).astype(np.float64)
        share: Array = weight / np.where(total > 0, total, 1.0)[copy]
        return share[:, None] * held_out_weights(total, n_folds)[copy]
    whole = np.floor(weight)
    rounds, rest = np.divmod(whole, n_folds)
    # how many cards after the row's own starting fold a fold comes
    turn = (np.arange(n_folds) - np.arange(len(weight))[:, None]) % n_folds
    found: Array = rounds[:, None] + (turn < rest[:, None])
    found += np.where(turn == rest[:, None], (weight - whole)[:, None], 0.0)
    return found
