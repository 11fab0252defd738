"""The members of a mixture, trees or chains, as they are learned and as EM fits them again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from colabel.core.arrays import Array, Indices, Targets
from colabel.core.label_features import label_columns
from colabel.joint import Chain, Tree
from colabel.joint.tree.wiring import ROOT
from colabel.labels import LabelSpace
from colabel.learn.conditional import Folds, RowGroup, TrainingData
from colabel.learn.design import Design
from colabel.learn.glm import LBFGS
from colabel.learn.linear import LinearLearner, LinearLearning, LinearModels
from colabel.models.chain import (
    LearnedChain,
    earlier_columns,
    learn_chain,
    mutual_information,
    order_by_dependence,
)
from colabel.models.ctbn import FittedTree, LearnedTree, Search, fit_tree, most_parents, search_arcs
from colabel.models.mixture_of_trees._regressions import Penalties, Regressions, regressions_of

Member = LearnedTree | LearnedChain

# Per row, for marginals of chains over more label vectors than can be written out.
_DRAWS = 1000


@dataclass(frozen=True)
class Expert:
    """A member while it is learned.

    Attributes
    ----------
    design : Design
        The rows of the mixture, with the weights the user gave them.
    parts : tuple of Regressions
    shaped : function
        Makes a member of the models.
    """

    design: Design
    parts: tuple[Regressions, ...]
    shaped: Callable[[LinearModels], Member]

    def refitted(self, weight: Array, solver: LBFGS) -> Expert:
        """Fit all regressions to rows of weights (n,), from where they are."""
        design = replace(self.design, weight=weight)
        return replace(self, parts=tuple(part.refitted(design, solver) for part in self.parts))

    def penalty(self) -> float:
        """What the regressions' penalties sum to."""
        return sum(part.penalty() for part in self.parts)

    def member(self) -> Member:
        """Return the member for any rows."""
        fitted = tuple(part.fitted(self.design) for part in self.parts)
        return self.shaped(LinearModels(fitted, sum(len(part.positions) for part in self.parts)))


def member_joint(member: Member, space: LabelSpace, X: Any, seed: int = 0) -> Tree | Chain:
    """Return the joint of a member for rows X (n, p)."""
    if isinstance(member, LearnedTree):
        return member.joint(space, X)
    return member.joint(space, X, "exact", _DRAWS, seed)


class WeightedRows(NamedTuple):
    """Rows with weights to learn an expert from, and the folds in which they are held out."""

    data: TrainingData
    folds: Folds


@dataclass(frozen=True)
class Trees:
    """Learns trees from weighted rows.

    Attributes
    ----------
    learner : LinearLearner
    shared : bool
        Whether a pair's regression deviates from that of the label alone, see `CTBN`.
    min_rows : float
    """

    learner: LinearLearner
    shared: bool
    min_rows: float

    def design(self, data: TrainingData) -> Design:
        """Return the rows as EM fits to them."""
        return Design.of(data.X, data.weight)

    def learn(self, rows: WeightedRows, design: Design, seed: int) -> Expert:
        """Search a tree, and fit it."""
        data = rows.data
        learning = self.learner.on(data)
        shared = learning if self.shared else None
        most = most_parents("auto", data, linear=True)
        search = search_arcs(learning, rows.folds, self.min_rows, shared, most)
        parents = search.best_tree(1.0 if self.shared else 0.0)
        fitted = fit_tree(learning, parents, search, shared)
        used = _UsedModels.of(learning, parents, search, fitted)
        parts = regressions_of(used.models, used.targets, used.penalties, design, data.row_weights)

        def shaped(models: LinearModels) -> LearnedTree:
            return LearnedTree(parents, used.slots, models, data.cardinalities)

        return Expert(design, parts, shaped)


@dataclass(frozen=True)
class _UsedModels:
    """The m models a tree answers with, in the order of labels and parent values."""

    models: LinearModels
    slots: list[list[int]]
    targets: Targets
    penalties: Penalties

    @classmethod
    def of(
        cls, learning: LinearLearning, parents: Indices, search: Search, fitted: FittedTree
    ) -> _UsedModels:
        data, grid = learning.data, learning.learner.grid
        arcs = [
            (int(parent), value, label)
            for label, parent in enumerate(parents)
            for value in range(len(fitted.slots[label]))
        ]
        models: Any = fitted.models.take(
            np.array([fitted.slots[label][value] for _, value, label in arcs])
        )
        targets = np.empty((len(arcs), data.n_rows), dtype=np.int16)
        C, frozen = np.empty(len(arcs)), np.zeros(len(arcs), dtype=bool)
        for t, (parent, value, label) in enumerate(arcs):
            mine = True if parent == ROOT else data.codes[:, parent] == value
            targets[t] = np.where(mine, data.codes[:, label], -1)
            # a rare value has the model without parent, which the rows of that value do not move
            frozen[t] = parent != ROOT and (parent, value) not in search.choices
            choice = _choice(search, parent, value, label)
            C[t] = grid[choice] if choice >= 0 else learning.learner.deviations[~choice]
        ends = np.cumsum([0, *(len(own) for own in fitted.slots)])
        slots = [list(range(a, b)) for a, b in pairwise(ends.tolist())]
        anchors = _anchors(learning, search, fitted, arcs, models.coef)
        return cls(models, slots, targets, Penalties(C, anchors, frozen))


def _choice(search: Search, parent: int, value: int, label: int) -> int:
    """Return the choice of a model (see `Search`), that of the label alone where it has none."""
    of_value = search.choices.get((parent, value))
    return int((search.choice_alone if of_value is None else of_value)[label])


def _anchors(
    learning: LinearLearning,
    search: Search,
    fitted: FittedTree,
    arcs: list[tuple[int, int, int]],
    coef: list[Array],
) -> list[Array]:
    """Where each model's penalty pulls to: zero, or the line it deviates from.

    That is the model of the label alone with a slope and an intercept of the parent's value.
    """
    anchors = [np.zeros_like(own) for own in coef]
    near = [t for t, arc in enumerate(arcs) if arc[0] != ROOT and _choice(search, *arc) < 0]
    if not near:
        return anchors
    codes, models = learning.data.codes, fitted.models
    assert isinstance(models, LinearModels)
    alone = {
        label: own
        for (parent, _, label), own in zip(fitted.keys, models.coef, strict=True)
        if parent == ROOT
    }
    groups = [
        RowGroup(np.flatnonzero(codes[:, arcs[t][0]] == arcs[t][1]), np.array([arcs[t][2]]))
        for t in near
    ]
    lines = learning.fit(groups, [np.zeros(1, dtype=np.intp)] * len(near), search.offsets, alone)
    for t, line in zip(near, lines.coef, strict=True):
        anchors[t] = line
    return anchors


@dataclass(frozen=True)
class Chains:
    """Learns chains from weighted rows.

    The first label of an order is drawn at random; each next is the one that those before it say
    most of, by mutual information among the weighted rows.

    Attributes
    ----------
    learner : LinearLearner
    scales : sequence of float
        Scales of the label columns to choose from, see `ProbabilisticClassifierChain`.
    """

    learner: LinearLearner
    scales: tuple[float, ...]

    def design(self, data: TrainingData) -> Design:
        """Return the rows, and the columns of the labels, as EM fits to them."""
        return Design.of(data.X, data.weight, label_columns(data.codes, data.cardinalities))

    def learn(self, rows: WeightedRows, design: Design, seed: int) -> Expert:
        """Draw an order, and learn the links."""
        data = rows.data
        first = int(np.random.default_rng(seed).integers(data.n_labels))
        order = order_by_dependence(mutual_information(data), first)
        chain = learn_chain(self.learner, data, order, rows.folds, self.scales)
        assert isinstance(chain.models, LinearModels)
        penalties = Penalties(
            self.learner.grid[chain.choice],
            None,
            np.zeros(data.n_labels, dtype=bool),
            earlier_columns(order, data.cardinalities),
            chain.scale,
        )
        targets = np.ascontiguousarray(data.codes.T, dtype=np.int16)
        parts = regressions_of(chain.models, targets, penalties, design, data.row_weights)
        return Expert(design, parts, lambda models: replace(chain, models=models))
