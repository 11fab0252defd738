"""Mixtures of conditional trees (Hong, Batal & Hauskrecht, 2014 and 2015): EM and the estimator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np

from colabel.core.arrays import Array, Flags
from colabel.core.estimators import attribute
from colabel.core.numeric import log_sum_exp
from colabel.core.parameters import check_positive, checked_grid
from colabel.core.progress import Advance, progress_bar
from colabel.core.schema import Between, Is, stored
from colabel.core.threads import map_threads
from colabel.joint import Mixture
from colabel.joint.elimination import ROOT
from colabel.labels import LabelSpace
from colabel.learn.conditional import Folds, TrainingData, random_folds
from colabel.learn.design import Design
from colabel.learn.glm.lbfgs import LBFGS
from colabel.models.chain.learning import LearnedChain, completed_by_chain, resolve_scales
from colabel.models.ctbn import LearnedTree
from colabel.models.label_graph import LabelGraph
from colabel.models.learning import (
    DEFAULT_GRID,
    Grid,
    can_hold_out,
    linear_learner,
    make_folds,
)
from colabel.models.mixture_of_trees.experts import (
    Chains,
    Expert,
    Gate,
    Member,
    Trees,
    member_joint,
)
from colabel.models.with_estimator import Penalised

# An M-step need not reach the maximum, only rise: the next one goes on from there.
_STEPS = 10
# A member that answers for less than this much weight has nothing to be learned from.
_LEAST_WEIGHT = 1.0
# A row explained perfectly still counts a little for the next tree.
_LEAST_SURPRISE = 1e-3


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
    base : Trees or Chains
        What learns experts from weighted rows.
    tol : float
        Of the solver.
    em_tol : float
        Rise of F, in nats per row, below which EM stops.
    n_jobs : int or None
    steps : int
        Of the solver in an M-step, at most.
    """

    space: LabelSpace
    data: TrainingData
    folds: Folds
    base: Trees | Chains
    tol: float
    em_tol: float
    n_jobs: int | None
    steps: int = _STEPS

    @cached_property
    def design(self) -> Design:
        """The rows as the gate is fitted to them."""
        return Design.of(self.data.X, self.data.weight)

    @cached_property
    def own_design(self) -> Design:
        """The rows as the experts are fitted to them."""
        return self.base.design(self.data)

    def take(self, rows: Flags) -> EM:
        """Return the same on some of the rows (n,)."""
        folds = Folds(self.folds.of_row[rows], self.folds.n_folds)
        return replace(self, data=self.data.take(rows), folds=folds)

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
        data = replace(self.data, weight=np.ascontiguousarray(weight))
        return self.base.learn(data, self.folds, self.own_design, seed)

    def log_terms(self, mixture: Experts) -> Array:
        """Logarithms (n, M) of pi_k(x) P_k(y | x) at the rows' own labels."""
        return log_terms(self.space, mixture, self.data, self.n_jobs)

    def run(self, mixture: Experts, max_iter: int, advance: Advance = lambda: None) -> Ascent:
        """Iterate until F rises no more; drop experts that are left without rows."""
        weight, solver = self.data.row_weights, LBFGS(self.tol, self.steps)
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


@dataclass(frozen=True)
class Growth:
    """Adds experts to a mixture.

    Attributes
    ----------
    gates : sequence of float or None
        Values of C of the gate; the best for two experts is kept. None: it does not look at x.
    most : int
        Number of experts at which to stop.
    max_iter : int
        EM iterations after an expert is added.
    seed : int
    """

    gates: Sequence[float | None]
    most: int
    max_iter: int
    seed: int

    def judged(self, em: EM, out: TrainingData, advance: Advance) -> tuple[Experts, list[float]]:
        """Grow as long as the likelihood of rows held out grows.

        A mixture that does not gain more than a standard error over its first expert is noise.
        Returns it, and the held-out log-likelihood per row of one expert, two, and so on.
        """
        first = mixture = em.first(self.seed)
        by_row = [_log_prob(em, mixture, out)]
        weight = out.row_weights / out.total_weight
        while len(mixture.experts) < self.most:
            gates = self.gates if len(by_row) == 1 else [mixture.gate.C]
            found = self._larger(em, mixture, gates)
            judged = [_log_prob(em, each, out) for each in found]
            best = int(np.argmax([weight @ own for own in judged]))
            advance()
            by_row.append(judged[best])
            larger = len(found[best].experts) > len(mixture.experts)
            if not larger or weight @ (by_row[-1] - by_row[-2]) <= 0:
                break
            mixture = found[best]
        gain = by_row[len(mixture.experts) - 1] - by_row[0]
        error = float(np.sqrt(weight**2 @ (gain - weight @ gain) ** 2))
        chosen = mixture if weight @ gain > error else first
        return chosen, [float(weight @ own) for own in by_row]

    def unjudged(self, em: EM, advance: Advance) -> Experts:
        """Grow as far as told, unless an expert is left without rows."""
        mixture = em.first(self.seed)
        while len(mixture.experts) < self.most:
            (found,) = self._larger(em, mixture, self.gates[:1])
            advance()
            if len(found.experts) <= len(mixture.experts):
                break
            mixture = found
        return mixture

    def _larger(self, em: EM, mixture: Experts, gates: Sequence[float | None]) -> list[Experts]:
        """Return the mixture with one expert more, after EM, for every C of the gate."""
        grown = em.grown(mixture, self.seed + len(mixture.experts))
        starts = [replace(grown, gate=replace(grown.gate, C=C)) for C in gates]
        return [em.run(start, self.max_iter).mixture for start in starts]


def _log_prob(em: EM, mixture: Experts, out: TrainingData) -> Array:
    """Log-probabilities (n,) of the labels of rows that were held out.

    With drawn labels in the place of missing ones: rows with one known label each would not show
    that a mixture believes in dependences that nothing speaks for.
    """
    out = replace(out, codes=out.filled)
    return log_sum_exp(log_terms(em.space, mixture, out, em.n_jobs))


@stored("mixture-of-trees")
class MixtureOfTrees(Penalised):
    r"""A mixture of label trees, or of chains, by EM; its weights may depend on x.

    Take it where labels depend on each other in one way here and another there. Cost: high.

    .. math:: P(y \mid x) = \sum_k \pi_k(x) \, T_k(y \mid x)

    Every :math:`T_k` is a tree as in `CTBN`, with arcs and regressions of its own; together they
    say what no single tree can, such as three labels that depend on each other. With the linear
    gate a tree answers for a region of the feature space:
    :math:`\pi_k(x) \propto \exp(v_k^\top x + b_k)`. The joint is a `Mixture` of `Tree`, or of
    `Chain`.

    Trees are added one at a time. A new one is searched for and learned with rows weighted by
    :math:`1 - P(y \mid x)`, how badly the present mixture explains them. EM follows: the
    responsibilities of the trees for each row, then all regressions of each tree on rows so
    weighted, and the gate. Trees are added while the likelihood of rows held out grows, and all are
    given up for a single one unless they gain more than a standard error over it. All rows then
    teach every tree anew, with its responsibilities as weights, and EM goes on with them. A tree
    that is left with less than one row is dropped.

    EM ascends the log-likelihood less the penalties, all of which are fixed when a tree is learned:
    what is chosen on held-out rows (C, and what a pair's regression deviates from) stays. Missing
    labels are drawn given the known ones of their row, from a chain, before all else.

    Parameters
    ----------
    n_trees : int or "auto"
        Number of trees, or "auto": as many as held-out rows ask for.
    gate : {"linear", "constant"}
        Whether the weights of the trees depend on x (ML-ME) or not (MC).
    base : {"trees", "chains"}
        What is mixed. The order of a chain begins with a label drawn at random and goes on with
        what the labels before say most of.
    C : float or sequence of float
        Inverse strength of the L2 penalty of the regressions; from a sequence the best value is
        chosen for every regression by cross-validation when a tree is learned.
    gate_C : float or sequence of float
        That of a linear gate; from a sequence the value is chosen that is best for two trees, on
        rows held out.
    pairs : {"shared", "separate"}
        How a label is learned from its parent in a tree, see `CTBN`.
    max_trees : int
        Most trees under "auto".
    held_out : float
        Share of the rows that judge the number of trees and the gate's penalty.
    cv : int, float, splitter or iterable
        How rows are held out to score arcs and to choose C: a number of folds, a fraction, a
        scikit-learn splitter, or pairs of index arrays (train, test).
    min_rows : float
        Fewest rows (by weight) from which a parent value gets classifiers of its own.
    growing_iter, final_iter : int
        Most EM iterations after a tree is added, and at the end.
    em_tol : float
        EM stops when an iteration adds less to the log-likelihood, in nats per row.
    random_state : int, RandomState or None
        Seed of the rows held out, of the folds, and of the chains' orders.

    Attributes
    ----------
    n_trees_ : int
        Number of trees M.
    trees_ : list of M LearnedTree (or LearnedChain)
        The trees; `trees_[k].parents` holds the parent of every label, -1 for roots.
    weights_ : (M,) array
        Mean weights of the trees over the training rows.
    gate_coef_ : (M, p + 1) array
        Coefficients of the gate, the intercepts last.
    gate_C_ : float
        Chosen penalty of a linear gate; None for a constant one, or for a single tree.
    objective_ : (``n_iter_`` + 1,) array
        Log-likelihood less penalties along the final EM.
    held_out_scores_ : array or None
        Held-out log-likelihood per row of one tree, two, and so on, as far as was tried. None where
        the number of trees was given.
    n_iter_ : int
        Number of iterations of the final EM.

    References
    ----------
    C. Hong, I. Batal, M. Hauskrecht: A mixtures-of-trees framework for multi-label
    classification. CIKM 2014.
    C. Hong, I. Batal, M. Hauskrecht: A generalized mixture framework for multi-label
    classification. SDM 2015.

    Examples
    --------
    >>> from colabel import MixtureOfTrees
    >>> from colabel.datasets import load_digit_traits
    >>> data = load_digit_traits()
    >>> model = MixtureOfTrees(2, C=0.01, gate_C=0.001, random_state=0)
    >>> model = model.fit(data.X[:500], data.Y[:500], label_names=data.label_names)
    >>> joint = model.joint(data.X[-1:])
    >>> joint
    <Mixture: 1 row, 7 labels, exact>
    >>> joint.mode()
    array([[1, 0, 0, 1, 1, 0, 1]])
    """

    n_trees: Annotated[int | Literal["auto"], Between(1)] = field(default="auto", kw_only=False)
    gate: Literal["linear", "constant"] = "linear"
    base: Literal["trees", "chains"] = "trees"
    C: Grid = DEFAULT_GRID
    gate_C: Grid = (0.001, 0.01, 0.1)  # noqa: N815
    pairs: Literal["shared", "separate"] = "shared"
    max_trees: Annotated[int, Between(1)] = 9
    held_out: float = 0.3
    min_rows: Annotated[float, Between(0)] = 10
    growing_iter: Annotated[int, Between(1)] = 50
    final_iter: Annotated[int, Between(1)] = 150
    em_tol: Annotated[float, Between(0)] = 1e-4
    n_trees_: Annotated[int, Between(1, 2**16), Is("members")] = attribute()
    trees_: Annotated[list[LearnedTree | LearnedChain], "members d sizes p"] = attribute()
    weights_: Annotated[Array, "members", Between(0.0, 1.0)] = attribute()
    gate_coef_: Annotated[Array, "members p+1"] = attribute()
    gate_C_: Annotated[float | None, Between(0.0)] = attribute()  # noqa: N815
    objective_: Annotated[Array, "_"] = attribute()
    held_out_scores_: Annotated[Array | None, "_"] = attribute()
    _sampling_seed: int = attribute()

    def _learn(self, data: TrainingData) -> None:
        seed = self._seed()
        trees = self.base == "trees"
        data = completed_by_chain(data, seed, self.n_jobs, known_targets=trees)
        learner = linear_learner(self.C, self.tol, self.max_iter, self.n_jobs, 0)
        base: Trees | Chains = Chains(learner, resolve_scales(None, self.C, None))
        if trees:
            base = Trees(learner, self.pairs == "shared", self.min_rows)
        folds = make_folds(data, self.cv, seed)
        em = EM(self.label_space_, data, folds, base, self.tol, self.em_tol, self.n_jobs)
        start = self._grown(em, seed)
        n_steps = self.final_iter + 1
        with progress_bar("EM on all rows", n_steps, shown=bool(self.verbose)) as advance:
            found = em.run(start, self.final_iter, advance)
        gate = found.mixture.gate
        self.trees_ = found.mixture.members()
        self.n_trees_ = len(self.trees_)
        self.gate_coef_ = gate.coef
        self.gate_C_ = gate.C
        weight = data.row_weights
        mean = weight @ np.exp(gate.log_weights(data.X)) / weight.sum()
        self.weights_ = np.minimum(mean, 1.0)  # of one tree it is 1, but for rounding
        self.objective_ = np.array(found.values)
        self.n_iter_ = max(1, len(found.values) - 1)
        self._sampling_seed = seed

    def _grown(self, em: EM, seed: int) -> Experts:
        """Return where the final EM starts: as many trees as are wanted, on all rows."""
        data = em.data
        self.held_out_scores_: Array | None = None
        gates = checked_grid("gate_C", self.gate_C) if self.gate == "linear" else (None,)
        automatic = isinstance(self.n_trees, str)
        most = self.max_trees if isinstance(self.n_trees, str) else self.n_trees
        growth = Growth(gates, most, self.growing_iter, seed)
        folds = random_folds(data, float(self.held_out), seed)
        judged = can_hold_out(folds) and (automatic or (len(gates) > 1 and most > 1))
        with progress_bar("adding trees", most - 1, shown=bool(self.verbose)) as advance:
            if judged:
                out = folds.of_row == 0
                first = growth if automatic else replace(growth, most=2)
                grown, scores = first.judged(em.take(~out), data.take(out), advance)
                if automatic:
                    self.held_out_scores_ = np.array(scores)
                    if len(grown.experts) == 1:
                        return em.first(seed)
                    terms = log_terms(em.space, grown, data, self.n_jobs)
                    return em.relearned(grown, responsibilities(terms), seed)
                growth = replace(growth, gates=(grown.gate.C or gates[0],))
            return em.first(seed) if automatic else growth.unjudged(em, advance)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        checked_grid("gate_C", self.gate_C)
        check_positive("held_out", self.held_out)
        if self.held_out >= 1:
            raise ValueError(f"held_out={self.held_out!r} must be a share of the rows, below 1.")

    def _joint(self, X: Any) -> Mixture:
        space, seed = self.label_space_, self._sampling_seed
        members = [member_joint(member, space, X, seed) for member in self.trees_]
        return Mixture(members, np.exp(Gate(self.gate_coef_).log_weights(X)))

    short_name = "mot"

    def label_graph(self) -> LabelGraph:
        """Return the arcs of all trees; the number is the share of the trees that have one."""
        d = len(self.label_names_)
        share = np.zeros((d, d))
        for tree, weight in zip(self.trees_, self.weights_, strict=True):
            if not isinstance(tree, LearnedTree):
                meaning = f"A mixture of {self.n_trees_} chains: it has no one graph."
                return LabelGraph.without_edges(self.label_names_, meaning)
            children = np.flatnonzero(tree.parents != ROOT)
            share[tree.parents[children], children] += weight
        ends = np.argwhere(share > 0)
        meaning = (
            f"The arcs of {self.n_trees_} trees. The number is the share of the trees, by their "
            "mean weight, in which the label at the end of the arrow depends on the one at its "
            "start."
        )
        return LabelGraph(self.label_names_, ends, meaning, True, share[ends[:, 0], ends[:, 1]])
