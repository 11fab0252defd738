"""Regressions that EM fits again and again, each time to the same rows with other weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from colabel.core.arrays import Array, Flags, Indices, Targets
from colabel.learn.design import Design
from colabel.learn.glm import LBFGS, FittedTasks, Ridge, RowsObjective, loss_for
from colabel.learn.glm.degenerate import shut_scores
from colabel.learn.linear import LinearModels

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
        coef = design.leave(self.coef)
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
        enter = design.enter
        found.append(
            Regressions(
                positions,
                n_classes,
                own,
                enter(coef),
                enter(anchor),
                ridge,
                floor,
                np.flatnonzero(~stays),
            )
        )
    return tuple(found)
