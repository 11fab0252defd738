"""Best-first search for the set of features with the highest merit of CFS."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from colabel.core.arrays import Array, Indices
from colabel.preprocess._uncertainty import FeatureUncertainty

_IMPROVEMENT = 1e-5  # by which a set must be better to count


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


def add_locally_predictive(
    chosen: frozenset[int], to_class: Array, features: FeatureUncertainty
) -> frozenset[int]:
    """Add features that say more about the class than about any feature already chosen.

    They are tried in the order of what they say about the class, each against all chosen so far.
    """
    grown = set(chosen)
    nearest = np.zeros(len(to_class))
    for feature in chosen:
        np.maximum(nearest, features.with_all(feature), out=nearest)
    for place in np.argsort(-to_class, kind="stable"):
        feature = int(place)
        if feature not in grown and to_class[feature] > nearest[feature]:
            grown.add(feature)
            np.maximum(nearest, features.with_all(feature), out=nearest)
    return frozenset(grown)
