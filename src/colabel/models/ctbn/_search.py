"""The search for the arcs of a tree, and the classifiers of the tree that was found."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from colabel.core.arrays import Array, Indices
from colabel.joint.tree.wiring import ROOT
from colabel.learn.conditional import (
    ConditionalModels,
    Folds,
    HeldOutScores,
    Learning,
    RowGroup,
    TrainingData,
    covering,
)
from colabel.learn.gains import GainOver, Gains
from colabel.learn.linear import LinearLearning, LinearModels
from colabel.learn.structure import best_candidates, maximum_branching
from colabel.models._learning import can_hold_out, choose, everything, pair_tests

# For this many arcs, or this many parents of a label, more than slope and intercept is tried.
_MOST_ARCS = 200
_CANDIDATES = 5
_WIDEST = 0.9  # share of the rows above which a value's rows are not tried so after screening
# With max_parents="auto": rows by pairs of labels up to which regressions of all pairs are cheap,
# pairs of labels up to which all pairs of other classifiers are, and parents tried beyond.
_CHEAP_ROWS = 1 << 24
_MOST_PAIRS = 10_000  # of however few rows: each pair has its regressions
_CHEAP_PAIRS = 100
_AUTO_PARENTS = 10
_ROUNDING = 2.0**-40  # of a sum of log-probabilities, relative


@dataclass
class Search:
    """What the structure search found.

    Attributes
    ----------
    alone : (d,)
        Held-out log-likelihood of every label without parent.
    gains : (d, d)
        Entry [j, i]: what the arc j -> i adds to it; NaN where that was not asked.
    noise : (d, d)
        Its variance.
    choice_alone : (d,)
        Chosen hyperparameter of every label without parent.
    choices : {(parent, value): (d,)}
        Chosen hyperparameters of the children of a parent value; absent where the value is too
        rare for classifiers of its own. Negative for classifiers that deviate from the one without
        parent: the complement of a position among the deviations.
    offsets : d arrays (K_i, n), or None
        Scores without parent, by models that have not seen the row.
    """

    alone: Array
    gains: Array
    noise: Array
    choice_alone: Indices
    choices: dict[tuple[int, int], Indices] = field(default_factory=dict)
    offsets: tuple[Array, ...] | None = None

    def best_tree(self, errors: float) -> Indices:
        """Parents (d,) of the branching of largest gain, less some standard errors of every arc."""
        worth = self.gains - errors * np.sqrt(self.noise)
        # sums of the same terms in another order differ by rounding, which must not make an arc
        unit = _ROUNDING * max(1.0, float(np.abs(self.alone).max()))
        worth = np.rint(worth / unit) * unit
        worth[np.isnan(worth)] = -np.inf  # not asked: no arc of the tree
        return maximum_branching(worth, np.zeros(len(self.alone)))

    @classmethod
    def empty(cls, n_labels: int) -> Search:
        square = (n_labels, n_labels)
        zeros = np.zeros(n_labels, dtype=np.intp)
        return cls(np.zeros(n_labels), np.zeros(square), np.zeros(square), zeros)


def most_parents(max_parents: int | str | None, data: TrainingData, linear: bool) -> int:
    """Return how many parents of a label are tried, by regressions or by other classifiers."""
    every = data.n_labels - 1
    if max_parents is None:
        return every
    if not isinstance(max_parents, str):
        return min(int(max_parents), every)
    n_pairs = data.n_labels * every
    if linear:
        cheap = data.n_rows * n_pairs <= _CHEAP_ROWS and n_pairs <= _MOST_PAIRS
    else:
        cheap = n_pairs <= _CHEAP_PAIRS
    return every if cheap else min(_AUTO_PARENTS, every)


def search_arcs(
    learning: Learning,
    folds: Folds,
    min_rows: float,
    shared: LinearLearning | None,
    most: int,
) -> Search:
    """Score every label alone and with its `most` most promising parents, on rows held out.

    Where pairs are shared, a pair's regression may deviate from the one of the label alone;
    `shared` is then the learner, and None otherwise.
    """
    data = learning.data
    search = Search.empty(data.n_labels)
    if data.n_labels == 1 or not can_hold_out(folds):
        search.choice_alone = choose(learning, folds)
        return search

    def keep_all(_: RowGroup, scores: HeldOutScores) -> HeldOutScores:
        return scores

    (alone,) = learning.cross_validate(
        [everything(data)], folds, keep_all, "labels alone", keep=True
    )
    # Missing labels and rows never held out have log-probability zero in both.
    search.alone = alone.total
    search.choice_alone = alone.choice
    gain = GainOver.on(data, alone)
    candidates = ~np.eye(data.n_labels, dtype=bool)
    if shared is not None or most < data.n_labels - 1:
        without = alone.models if folds.covers else None
        offsets = learning.cross_fitted_scores(covering(folds, data), alone.choice, without)
        search.offsets = None if shared is None else offsets
    if most < data.n_labels - 1:
        candidates = best_candidates(pair_tests(data, offsets), most)
        search.gains[~candidates] = np.nan
        np.fill_diagonal(search.gains, 0.0)
    values = [arc for arc in _parent_values(data, min_rows) if candidates[arc[0]].any()]
    groups = [_children(data, *arc, np.flatnonzero(candidates[arc[0]])) for arc in values]
    if shared is None:
        found = learning.cross_validate(groups, folds, gain, "label pairs", start=alone.path)
        _record(search, values, groups, found)
        return search
    _search_shared(shared, folds, search, alone, gain, values, groups)
    return search


def _search_shared(
    shared: LinearLearning,
    folds: Folds,
    search: Search,
    alone: HeldOutScores,
    gain: GainOver,
    values: list[tuple[int, int]],
    groups: list[RowGroup],
) -> None:
    """Score slope and intercept of all pairs, deviations and regressions of promising ones."""
    data = shared.data
    # there is nothing to learn of a label that never varies
    varied = np.array([(counts > 0).sum() > 1 for counts in data.value_counts])
    groups = [group.take(np.flatnonzero(varied[group.targets])) for group in groups]
    found = shared.cross_validate(
        groups, folds, gain, "label pairs", offsets=search.offsets, constant=True
    )
    found = [arcs._replace(choice=~arcs.choice) for arcs in found]
    _record(search, values, groups, found)
    scored = ~np.isnan(search.gains)
    promising = scored & best_candidates(
        np.where(scored, search.gains, -np.inf), max(_CANDIDATES, _MOST_ARCS // data.n_labels)
    )
    # Where there are many labels, a value that most rows have is no other case than all rows are.
    widest = data.n_rows if scored.all() else _WIDEST * data.n_rows
    narrowed = [
        group.take(
            np.flatnonzero(
                promising[parent, group.targets] & (data.row_counts[parent][value] <= widest)
            )
        )
        for (parent, value), group in zip(values, groups, strict=True)
    ]
    near = shared.cross_validate(narrowed, folds, gain, "promising pairs", offsets=search.offsets)
    near = [arcs._replace(choice=~arcs.choice) for arcs in near]
    apart = shared.cross_validate(narrowed, folds, gain, "promising pairs apart", start=alone.path)
    search.gains[scored], search.noise[:] = 0.0, 0.0
    for other in (near, apart):
        found = [_better(*four) for four in zip(groups, found, narrowed, other, strict=True)]
    _record(search, values, groups, found)


def _record(
    search: Search, values: list[tuple[int, int]], groups: list[RowGroup], found: list[Gains]
) -> None:
    for (parent, value), group, arcs in zip(values, groups, found, strict=True):
        search.gains[parent, group.targets] += arcs.gains
        search.noise[parent, group.targets] += arcs.noise
        search.choices[parent, value] = np.zeros(len(search.alone), dtype=np.intp)
        search.choices[parent, value][group.targets] = arcs.choice


def _better(group: RowGroup, first: Gains, part: RowGroup, second: Gains) -> Gains:
    """Of each target's two classifiers that with the higher held-out score.

    The second ones are there for a part of the targets only.
    """
    place = np.searchsorted(group.targets, part.targets)
    wins = second.gains > first.gains[place]
    gains, noise, choice = first.gains.copy(), first.noise.copy(), first.choice.copy()
    gains[place[wins]], noise[place[wins]] = second.gains[wins], second.noise[wins]
    choice[place[wins]] = second.choice[wins]
    return Gains(gains, noise, choice)


def _parent_values(data: TrainingData, min_rows: float) -> list[tuple[int, int]]:
    return [
        (parent, value)
        for parent, counts in enumerate(data.value_counts)
        for value, weight in enumerate(counts)
        if weight >= min_rows
    ]


def _children(data: TrainingData, parent: int, value: int, children: Indices) -> RowGroup:
    """Rows with one value of a parent, and the labels to learn from them."""
    return RowGroup(data.rows_with(parent, value), children)


class FittedTree(NamedTuple):
    """The classifiers of a tree.

    Attributes
    ----------
    models : ConditionalModels
    slots : d lists
        For each label and each value of its parent (one for a root) the position of its model. A
        value that is too rare has the model without parent.
    keys : list of (parent, value, label)
        What each model was learned for; (ROOT, 0, label) without parent.
    """

    models: ConditionalModels
    slots: list[list[int]]
    keys: list[tuple[int, int, int]]


def fit_tree(
    learning: Learning, tree: Indices, search: Search, shared: LinearLearning | None
) -> FittedTree:
    """Fit the classifiers of a tree."""
    data = learning.data
    pairs = {
        (int(parent), value): np.flatnonzero(tree == parent)
        for parent in np.unique(tree[tree != ROOT])
        for value in range(data.cardinalities[parent])
    }
    rare = [children for arc, children in pairs.items() if arc not in search.choices]
    own = {arc: children for arc, children in pairs.items() if arc in search.choices}
    # Deviations are measured from the models without parent: their children need those too.
    near = [] if search.offsets is None else list(own.values())
    needed = [np.flatnonzero(tree == ROOT), *rare, *near]
    alone = np.unique(np.concatenate(needed)).astype(np.intp)
    groups = [_children(data, *arc, children) for arc, children in own.items()]
    choices = [search.choices[arc][children] for arc, children in own.items()]
    parentless, chosen = RowGroup(None, alone), search.choice_alone[alone]
    if shared is not None and search.offsets is not None:
        models: ConditionalModels = _fit_both(
            shared, parentless, chosen, groups, choices, search.offsets
        )
    else:
        models = learning.fit([parentless, *groups], [chosen, *choices])
    keys = [(ROOT, 0, int(label)) for label in alone]
    keys += [(*arc, int(child)) for arc, children in own.items() for child in children]
    place = {key: position for position, key in enumerate(keys)}
    slots = [
        [
            place[(parent, value, label) if (parent, value) in own else (ROOT, 0, label)]
            for value in range(1 if parent == ROOT else data.cardinalities[parent])
        ]
        for label, parent in enumerate(tree.tolist())
    ]
    return FittedTree(models, slots, keys)


def _fit_both(
    learning: LinearLearning,
    parentless: RowGroup,
    chosen: Indices,
    groups: list[RowGroup],
    choices: list[Indices],
    offsets: tuple[Array, ...],
) -> LinearModels:
    """Fit models without parent, those that deviate from them, and those of rows of their own."""
    first = learning.fit([parentless], [chosen])
    coef = dict(zip(parentless.targets.tolist(), first.coef, strict=True))
    deviating = [choice < 0 for choice in choices]
    near = [group.take(np.flatnonzero(own)) for group, own in zip(groups, deviating, strict=True)]
    apart = [group.take(np.flatnonzero(~own)) for group, own in zip(groups, deviating, strict=True)]
    shared = learning.fit(
        near, [~c[own] for c, own in zip(choices, deviating, strict=True)], offsets, coef
    )
    separate = learning.fit(apart, [c[~own] for c, own in zip(choices, deviating, strict=True)])
    both = np.concatenate([np.zeros(0, dtype=bool), *deviating])
    position = np.empty(len(both), dtype=np.intp)
    position[both], position[~both] = np.arange(both.sum()), np.arange((~both).sum())
    order = np.where(both, position, shared.n_models + position)
    return first.joined(shared.joined(separate).take(order))
