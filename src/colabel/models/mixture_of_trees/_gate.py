"""Gates: how probable each member of a mixture is, in general or for a row x."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from colabel.core.arrays import Array, Flags, Targets
from colabel.core.numeric import log_sum_exp
from colabel.learn.design import Design, linear_scores
from colabel.learn.glm import LBFGS, Ridge, RowsObjective
from colabel.learn.glm.losses import Sums


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
        return _normalised(linear_scores(X, self.coef[None])[0].T)

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
        start = design.enter(self.coef)
        strength = np.full((1, 1, design.n_coordinates), 1.0 / self.C)
        strength[..., -1] = 0.0
        objective = RowsObjective(
            design,
            SoftTargets(responsibility),
            np.zeros((1, design.n_rows), dtype=np.int16),
            design.scores(start)[None],
        )
        found = solver.solve(objective, Ridge(strength), start[None])
        return replace(self, coef=design.leave(found.coef[0]))

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


def _normalised(scores: Array) -> Array:
    return np.asarray(scores - log_sum_exp(scores)[:, None])
