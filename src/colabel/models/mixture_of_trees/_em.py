"""EM for mixtures of experts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import numpy as np

from colabel.core.arrays import Array, Flags
from colabel.core.numeric import log_sum_exp
from colabel.core.progress import Advance
from colabel.core.threads import map_threads
from colabel.labels import LabelSpace
from colabel.learn.conditional import Folds, TrainingData
from colabel.learn.design import Design
from colabel.learn.glm import LBFGS
from colabel.models.mixture_of_trees._experts import Expert, Member, WeightedRows, member_joint
from colabel.models.mixture_of_trees._gate import Gate

# An M-step need not reach the maximum, only rise: the next one goes on from there.
_STEPS = 10
# A member that answers for less than this much weight has nothing to be learned from.
_LEAST_WEIGHT = 1.0
# A row explained perfectly still counts a little for the next tree.
_LEAST_SURPRISE = 1e-3


class Base(Protocol):
    """Learns experts from weighted rows."""

    def design(self, data: TrainingData) -> Design:
        """Return the rows as EM fits to them."""
        ...

    def learn(self, rows: WeightedRows, design: Design, seed: int) -> Expert:
        """Learn an expert; the design is that of `design`."""
        ...


@dataclass(frozen=True)
class Experts:
    """A mixture while it is learned."""

    experts: tuple[Expert, ...]
    gate: Gate

    def penalty(self) -> float:
        """What all penalties sum to."""
        return self.gate.penalty() + sum(expert.penalty() for expert in self.experts)

    def members(self) -> list[Member]:
        """Return the members for any rows."""
        return [expert.member() for expert in self.experts]


class Ascent(NamedTuple):
    """Where EM ended, and the penalised log-likelihood at every iteration."""

    mixture: Experts
    values: list[float]


@dataclass(frozen=True)
class EM:
    r"""Expectation maximisation on some rows.

    .. math::

        F = \sum_i \omega_i \log \sum_k \pi_k(x_i) P_k(y_i \mid x_i) - \text{penalties}

    E-step: :math:`r_{ik} \propto \pi_k(x_i) P_k(y_i \mid x_i)`. M-step: the regressions of expert k
    go on, on rows of weights :math:`\omega_i r_{ik}`, and the gate is fitted to the r. Neither
    lowers F. (Where labels are missing, a row with an unknown parent serves the parent alone and
    F could fall: EM then stops before.)

    Attributes
    ----------
    space : LabelSpace
    data : TrainingData
    folds : Folds
        Of the rows, to choose among regressions when an expert is learned.
    base : Base
    design : Design
        Of the gate.
    own_design : Design
        Of the experts.
    tol : float
        Of the solver.
    em_tol : float
        Rise of F, in nats per row, below which EM stops.
    n_jobs : int or None
    """

    space: LabelSpace
    data: TrainingData
    folds: Folds
    base: Base
    design: Design
    own_design: Design
    tol: float
    em_tol: float
    n_jobs: int | None

    @classmethod
    def on(
        cls,
        space: LabelSpace,
        data: TrainingData,
        folds: Folds,
        base: Base,
        tol: float,
        em_tol: float,
        n_jobs: int | None,
    ) -> EM:
        """Prepare some rows."""
        design = Design.of(data.X, data.weight)
        return cls(space, data, folds, base, design, base.design(data), tol, em_tol, n_jobs)

    def take(self, rows: Flags) -> EM:
        """Return the same on some of the rows (n,)."""
        folds = Folds(self.folds.of_row[rows], self.folds.n_folds)
        data = self.data.take(rows)
        return EM.on(self.space, data, folds, self.base, self.tol, self.em_tol, self.n_jobs)

    def first(self, seed: int) -> Experts:
        """Return the mixture of one expert."""
        expert = self._learned(self.data.row_weights, seed)
        return Experts((expert,), Gate.alone(self.data.X.shape[1]))

    def grown(self, mixture: Experts, seed: int) -> Experts:
        """Add an expert learned where the mixture explains the rows badly: of weights 1 - P."""
        surprise = -np.expm1(log_sum_exp(self.log_terms(mixture)))
        weight = self.data.row_weights * np.maximum(surprise, _LEAST_SURPRISE)
        weight *= self.data.total_weight / weight.sum()
        expert = self._learned(weight, seed)
        return Experts((*mixture.experts, expert), mixture.gate.with_another(self.data.X))

    def relearned(self, mixture: Experts, responsibility: Array, seed: int) -> Experts:
        """Learn every expert anew from the rows it answers for."""
        weights = self.data.row_weights[:, None] * responsibility
        experts = [self._learned(weight, seed + k) for k, weight in enumerate(weights.T)]
        return replace(mixture, experts=tuple(experts))

    def _learned(self, weight: Array, seed: int) -> Expert:
        rows = WeightedRows(replace(self.data, weight=np.ascontiguousarray(weight)), self.folds)
        return self.base.learn(rows, self.own_design, seed)

    def log_terms(self, mixture: Experts) -> Array:
        """Logarithms (n, M) of pi_k(x) P_k(y | x) at the rows' own labels."""
        return log_terms(self.space, mixture, self.data, self.n_jobs)

    def run(self, mixture: Experts, max_iter: int, advance: Advance = lambda: None) -> Ascent:
        """Iterate until F rises no more; drop experts that are left without rows."""
        weight, solver = self.data.row_weights, LBFGS(self.tol, _STEPS)
        values: list[float] = []
        last = mixture
        for iteration in range(max_iter + 1):
            terms = self.log_terms(mixture)
            total = log_sum_exp(terms)
            value = float(weight @ total) - mixture.penalty()
            rise = value - values[-1] if values else np.inf
            if rise < 0:
                mixture = last
                break
            values.append(value)
            advance()
            small = rise <= self.em_tol * self.data.total_weight
            if small or iteration == max_iter or len(mixture.experts) == 1:
                break
            last = mixture
            mixture = self._maximised(mixture, np.exp(terms - total[:, None]), solver)
        return Ascent(self._without_idle(mixture), values)

    def _maximised(self, mixture: Experts, responsibility: Array, solver: LBFGS) -> Experts:
        weights = self.data.row_weights[:, None] * responsibility

        def refitted(k: int) -> Expert:
            return mixture.experts[k].refitted(np.ascontiguousarray(weights[:, k]), solver)

        every = range(len(mixture.experts))
        experts = map_threads(refitted, list(every), self.n_jobs, lambda: None)
        gate = mixture.gate.refitted(self.design, responsibility, solver)
        return Experts(tuple(experts), gate)

    def _without_idle(self, mixture: Experts) -> Experts:
        """Drop experts that answer for no row."""
        kept = self.data.row_weights @ responsibilities(self.log_terms(mixture)) >= _LEAST_WEIGHT
        if kept.all() or not kept.any():
            return mixture
        experts = tuple(e for e, keep in zip(mixture.experts, kept, strict=True) if keep)
        return Experts(experts, mixture.gate.take(kept))


def responsibilities(terms: Array) -> Array:
    """Shares (n, M) of each member in a row's probability."""
    return np.exp(terms - log_sum_exp(terms)[:, None])


def log_terms(space: LabelSpace, mixture: Experts, data: TrainingData, n_jobs: int | None) -> Array:
    """Logarithms (n, M) of pi_k(x) P_k(y | x) at the labels of any rows."""

    def own(member: Member) -> Array:
        return member_joint(member, space, data.X).log_prob_codes(data.codes)

    columns = map_threads(own, mixture.members(), n_jobs, lambda: None)
    return mixture.gate.log_weights(data.X) + np.stack(columns, axis=1)
