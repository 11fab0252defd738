"""The members of a mixture, trees or chains, as they are learned and as EM fits them again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from colabel.core.arrays import Array, Flags, Indices, Targets, label_columns
from colabel.core.numeric import log_sum_exp
from colabel.joint import Chain, Tree
from colabel.joint.elimination import ROOT
from colabel.labels import LabelSpace
from colabel.learn.conditional import Folds, RowGroup, TrainingData
from colabel.learn.design import Design, linear_scores
from colabel.learn.glm.lbfgs import LBFGS, Ridge, RowsObjective
from colabel.learn.glm.losses import Sums, loss_for
from colabel.learn.glm.path import FittedTasks, shut_scores
from colabel.learn.linear import LinearLearner, LinearLearning, LinearModels
from colabel.models.chain import learning as chains
from colabel.models.ctbn import (
    FittedTree,
    LearnedTree,
    Search,
    arc_errors,
    fit_tree,
    most_parents,
    search_arcs,
)

# Of what deviates by an intercept alone: 2.5 in the log-odds cost half a nat.
_WEAK = 1.0 / 2.5**2


@dataclass(frozen=True)
class Penalties:
    r"""What holds the models of an expert back, m of them.

    A model's coefficients w cost :math:`\frac{1}{2C} \|w - a\|^2`, the intercept nothing.

    Attributes
    ----------
    C : (m,)
        Zero where the intercept alone may move, under a weak penalty.
    anchors : m arrays (K, p + 1), or None
        The points :math:`a`; None for zero.
    frozen : (m,) of bool
        Models that stay as they are.
    allowed : (m, e) of bool, or None
        Which extra features of the design a model may use.
    extra_scale : (m,) or None
        See `Tasks`.
    """

    C: Array
    anchors: Sequence[Array] | None
    frozen: Flags
    allowed: Flags | None = None
    extra_scale: Array | None = None

    def ridge(self, own: Indices, absent: Flags | None, design: Design) -> Ridge:
        """Return the penalty of some models, of like sizes, in the coordinates of a design.

        Scores of classes that are `absent` (T, K) do not move.
        """
        q, C = design.n_coordinates, self.C[own]
        shape = (len(own), 1 if absent is None else absent.shape[1], q)
        strength, free = np.zeros(shape), np.ones(shape)
        strength[:] = (1.0 / np.where(C > 0, C, 1.0))[:, None, None]
        extra = slice(q - 1 - design.n_extra, q - 1)
        if self.extra_scale is not None:
            strength[:, :, extra] /= (self.extra_scale[own] ** 2)[:, None, None]
        if self.allowed is not None:
            free[:, :, extra] = self.allowed[own][:, None, :]
        strength[:, :, -1] = np.where(C > 0, 0.0, _WEAK)[:, None]
        free[:, :, :-1] *= (C > 0)[:, None, None]
        if absent is not None:
            free[absent] = 0.0
        return Ridge(strength, free)


@dataclass(frozen=True)
class Regressions:
    r"""Models of one expert that have the same number of classes.

    .. math:: F_t(w) = -\sum_i \omega_i \log P(y_{ti} \mid x_i; w) + \frac12 \|w - a_t\|^2_\lambda

    The weights :math:`\omega` change from one M-step to the next; all else stays, so that the sum
    of these is one fixed objective and EM ascends it.

    Attributes
    ----------
    positions : (T,)
        Where the models stand among those of the expert.
    n_classes : int
    targets : (T, n)
        Classes, negative where a row is not the model's.
    coef, anchor : (T, K, q)
        Present point and the point the penalty pulls to, in coordinates of the design.
    ridge : Ridge
    floor : (T, n_classes)
        Probability kept for classes no row has.
    moving : (T',)
        Models that are fitted again; the others stay.
    """

    positions: Indices
    n_classes: int
    targets: Targets
    coef: Array
    anchor: Array
    ridge: Ridge
    floor: Array
    moving: Indices

    def refitted(self, design: Design, solver: LBFGS) -> Regressions:
        """Go on from the present point, on a design that carries this M-step's weights."""
        own = self.moving
        if not len(own):
            return self
        loss, coef = loss_for(self.n_classes), self.coef[own]
        scores = design.scores(coef.reshape(-1, coef.shape[2])).reshape(*coef.shape[:2], -1)
        if loss.n_scores > 1:
            scores = shut_scores(scores, self.floor[own] > 0)
        objective = RowsObjective(design, loss, self.targets[own], scores)
        found = solver.solve(objective, self.ridge.take(own), coef - self.anchor[own])
        moved = self.coef.copy()
        moved[own] = self.anchor[own] + found.coef
        return replace(self, coef=moved)

    def penalty(self) -> float:
        """What the present point costs."""
        away = self.coef - self.anchor
        return float(self.ridge.value(away)[self.moving].sum())

    def fitted(self, design: Design) -> tuple[Indices, int, FittedTasks]:
        """Return the models for any rows, as a part of `LinearModels`."""
        coef = design.from_basis(self.coef)
        if coef.shape[1] > 1:
            coef[..., -1] -= coef[..., -1].mean(axis=1, keepdims=True)
        converged = np.ones(len(coef), dtype=bool)
        return self.positions, self.n_classes, FittedTasks(coef, self.floor, converged, 1)


def regressions_of(
    models: LinearModels, targets: Targets, penalties: Penalties, design: Design, weight: Array
) -> tuple[Regressions, ...]:
    """Return fitted models as regressions to be fitted again.

    Parameters
    ----------
    targets : (m, n)
        Classes of every model, negative where a row is not its own.
    penalties : Penalties
    design : Design
        The n rows.
    weight : (n,)
        With which the models were fitted. Those of targets that do not vary have a closed form,
        those that deviate from others and lack a class must not run off to infinity: both stay.
    """
    found = []
    for n_classes in sorted({size for _, size, _ in models.parts}):
        alike = [(own, fitted) for own, size, fitted in models.parts if size == n_classes]
        positions = np.concatenate([own for own, _ in alike])
        coef = np.concatenate([fitted.coef for _, fitted in alike])
        floor = np.concatenate([fitted.floor for _, fitted in alike])
        own = targets[positions]
        seen = np.stack([((own == k) @ weight) > 0 for k in range(n_classes)], axis=1)
        anchor = np.zeros_like(coef)
        if penalties.anchors is not None:
            anchor = np.stack([penalties.anchors[position] for position in positions])
        lacking = anchor.any(axis=(1, 2)) & ~seen.all(axis=1)
        stays = (seen.sum(axis=1) < 2) | lacking | penalties.frozen[positions]
        ridge = penalties.ridge(positions, floor > 0 if n_classes > 2 else None, design)
        found.append(
            Regressions(
                positions,
                n_classes,
                own,
                design.to_basis(coef),
                design.to_basis(anchor),
                ridge,
                floor,
                np.flatnonzero(~stays),
            )
        )
    return tuple(found)


@dataclass(frozen=True)
class Gate:
    r"""Weights of M members.

    .. math:: \pi_k(x) \propto \exp(v_k^\top x + b_k)

    Attributes
    ----------
    coef : (M, p + 1)
        The intercepts :math:`b` last; all else is zero where the gate does not look at x.
    C : float or None
        Inverse strength of the L2 penalty; None: the gate does not look at x.
    """

    coef: Array
    C: float | None = None

    @classmethod
    def alone(cls, n_features: int) -> Gate:
        """Return the gate of a single member."""
        return cls(np.zeros((1, n_features + 1)))

    def log_weights(self, X: Any) -> Array:
        """Logarithms (n, M) of the weights for rows X (n, p)."""
        scores = linear_scores(X, self.coef[None])[0].T
        return np.asarray(scores - log_sum_exp(scores)[:, None])

    def penalty(self) -> float:
        """What the coefficients cost."""
        return 0.0 if self.C is None else 0.5 * float((self.coef[:, :-1] ** 2).sum()) / self.C

    def refitted(self, design: Design, responsibility: Array, solver: LBFGS) -> Gate:
        """Return the gate that explains responsibilities (n, M) best, from where it is."""
        if self.C is None:
            weight = np.ones(len(responsibility)) if design.weight is None else design.weight
            share = weight @ responsibility / weight.sum()
            coef = np.zeros_like(self.coef)
            coef[:, -1] = np.log(np.maximum(share, np.finfo(float).tiny))
            return replace(self, coef=coef)
        start = design.to_basis(self.coef)
        strength = np.full((1, 1, design.n_coordinates), 1.0 / self.C)
        strength[..., -1] = 0.0
        objective = RowsObjective(
            design,
            SoftTargets(responsibility),
            np.zeros((1, design.n_rows), dtype=np.int16),
            design.scores(start)[None],
        )
        found = solver.solve(objective, Ridge(strength), start[None])
        return replace(self, coef=design.from_basis(found.coef[0]))

    def with_another(self, X: Any) -> Gate:
        """Return the gate of one member more, whose weight is that of the mean of the others."""
        scores = linear_scores(X, self.coef[None])[0]
        new = np.zeros((1, self.coef.shape[1]))
        new[0, -1] = float(log_sum_exp(scores, axis=0).mean()) - np.log(len(self.coef))
        return replace(self, coef=np.concatenate([self.coef, new]))

    def take(self, members: Flags) -> Gate:
        """Return the gate of some members."""
        return replace(self, coef=self.coef[members])


class SoftTargets:
    r"""Softmax regression of one task whose targets are distributions r over its classes.

    .. math:: \ell(s, r) = \log \sum_k e^{s_k} - r^\top s

    Parameters
    ----------
    target : (n, K)
        Distributions r, rows summing to one.
    """

    soft = True  # residuals tell no probabilities, so there are no Hessians

    def __init__(self, target: Array) -> None:
        self._target = np.ascontiguousarray(target.T)
        self.n_scores = target.shape[1]

    def move(
        self,
        scores: Array,
        change: Array,
        steps: Array,
        targets: Targets,
        weight: Array | None,
        residual: Array,
    ) -> Sums:
        scores += steps[:, None, None] * change
        log_total = log_sum_exp(scores, axis=1)
        prob = np.exp(scores - log_total[:, None])
        row_weight = np.ones(scores.shape[2]) if weight is None else weight
        loss = log_total - (self._target * scores).sum(axis=1)
        residual[:] = row_weight * (prob - self._target)
        curvature = (row_weight * prob * (1.0 - prob)).sum(axis=2)
        return Sums(loss @ row_weight, curvature, np.abs(residual).sum(axis=2))

    def along(
        self, residual: Array, change: Array, targets: Targets, weight: Array | None
    ) -> tuple[Array, Array]:
        row_weight = np.ones(change.shape[2]) if weight is None else weight
        # a row's w p is its residual w (p - r) and w r
        mass = residual + row_weight * self._target
        first, second = (mass * change).sum(axis=1), (mass * change**2).sum(axis=1)
        inverse = np.divide(1.0, row_weight, out=np.zeros_like(row_weight), where=row_weight > 0)
        return (second - first**2 * inverse).sum(axis=1), np.abs(change).max(axis=(1, 2))

    def log_prob(self, scores: Array) -> Array:
        """Log-probabilities (1, K, n) of the classes."""
        return np.asarray(scores - log_sum_exp(scores, axis=1)[:, None])


Member = LearnedTree | chains.LearnedChain

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

    def learn(self, data: TrainingData, folds: Folds, design: Design, seed: int) -> Expert:
        """Search a tree, and fit it."""
        learning = self.learner.on(data)
        shared = learning if self.shared else None
        most = most_parents("auto", data, linear=True)
        search = search_arcs(learning, folds, self.min_rows, shared, most)
        parents = search.best_tree(arc_errors(data) if self.shared else 0.0)
        fitted = fit_tree(learning, parents, search, shared)
        # the models that the tree answers with, in the order of labels and parent values
        arcs = [
            (int(parent), value, label)
            for label, parent in enumerate(parents)
            for value in range(len(fitted.slots[label]))
        ]
        used: Any = fitted.models.take(np.concatenate(fitted.slots))
        targets = np.empty((len(arcs), data.n_rows), dtype=np.int16)
        C, frozen = np.empty(len(arcs)), np.zeros(len(arcs), dtype=bool)
        for t, (parent, value, label) in enumerate(arcs):
            mine = True if parent == ROOT else data.filled[:, parent] == value
            targets[t] = np.where(mine, data.codes[:, label], -1)
            # a rare value has the model without parent, which the rows of that value do not move
            frozen[t] = parent != ROOT and (parent, value) not in search.choices
            choice = _choice(search, parent, value, label)
            C[t] = self.learner.grid[choice] if choice >= 0 else self.learner.deviations[~choice]
        penalties = Penalties(C, _anchors(learning, search, fitted, arcs, used.coef), frozen)
        parts = regressions_of(used, targets, penalties, design, data.row_weights)
        ends = np.cumsum([0, *(len(own) for own in fitted.slots)])
        slots = [list(range(a, b)) for a, b in pairwise(ends.tolist())]

        def shaped(models: LinearModels) -> LearnedTree:
            return LearnedTree(parents, slots, models, data.cardinalities)

        return Expert(design, parts, shaped)


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
    data, models = learning.data, fitted.models
    assert isinstance(models, LinearModels)
    alone = {
        label: own
        for (parent, _, label), own in zip(fitted.keys, models.coef, strict=True)
        if parent == ROOT
    }
    groups = [RowGroup(data.rows_with(*arcs[t][:2]), np.array([arcs[t][2]])) for t in near]
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

    def learn(self, data: TrainingData, folds: Folds, design: Design, seed: int) -> Expert:
        """Draw an order, and learn the links."""
        first = int(np.random.default_rng(seed).integers(data.n_labels))
        order = chains.order_by_dependence(chains.mutual_information(data), first)
        chain = chains.learn_chain(self.learner, data, order, folds, self.scales)
        assert isinstance(chain.models, LinearModels)
        penalties = Penalties(
            self.learner.grid[chain.choice],
            None,
            np.zeros(data.n_labels, dtype=bool),
            chains.earlier_columns(order, data.cardinalities),
            chain.scale,
        )
        targets = np.ascontiguousarray(data.codes.T, dtype=np.int16)
        parts = regressions_of(chain.models, targets, penalties, design, data.row_weights)
        return Expert(design, parts, lambda models: replace(chain, models=models))
