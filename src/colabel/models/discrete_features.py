"""From any X to the codes of discrete features, as the generative models want them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np

from colabel.core.arrays import Array, Codes, dense
from colabel.core.parameters import check_integer
from colabel.core.schema import Ascending, Between, refuse_unless, stored
from colabel.joint.lds.network import FeatureColumns
from colabel.labels import MISSING
from colabel.learn.conditional import TrainingData, distinct_rows
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

    cuts: Annotated[tuple[Array, ...], "p [values-1]", Between(-np.inf, np.inf), Ascending()]
    binned: bool

    @staticmethod
    def _check_stored(fields: dict[str, Any], dims: dict[str, Any]) -> None:
        full = fields["binned"] or min(dims["values"]) > 1
        refuse_unless(full, "a feature has no value")

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


def complete_rows(data: TrainingData, seed: int) -> TrainingData:
    """Rows with all their labels, equal ones merged, in random order."""
    complete = np.flatnonzero((data.codes != MISSING).all(axis=1))
    return distinct_rows(data.take(complete), seed)


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
