r"""Choosing the penalties of the edges by cross-validation along warm-started paths.

With the node penalties given, the ridge :math:`\mu = \lambda_w (1 - \eta)` is chosen first, on
the graph of all candidate edges, from strong to weak; where rows are scored by their
pseudo-likelihood, among the strengths whose modes are right about as often as any's. The group
penalty :math:`\gamma = \lambda_w \eta` is chosen second, from no edge to all of them: every point
learns a graph, tunes the parameters on it without the group term, as the final fit will, and
scores them on the rows held out. Of the graphs that score as well as the best one, up to one
standard error of the difference, the sparsest is taken.

How well a field explains rows is computed exactly where label vectors can be enumerated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from colabel.core.arrays import Array, Flags
from colabel.core.threads import map_threads
from colabel.joint import PairwiseField
from colabel.labels import LabelSpace
from colabel.learn.crf.curvature import FieldObjective, Tuned, Tuner
from colabel.learn.crf.proximal import Penalty, ProximalGradient, Structure
from colabel.learn.crf.pseudo_likelihood import (
    FieldData,
    FieldLayout,
    Parameters,
    PseudoLikelihood,
    RowScores,
    Score,
)

# About 0.1 milliseconds a row; beyond it rows are scored by their pseudo-likelihood.
MOST_VECTORS = 1 << 14


def can_enumerate(cardinalities: tuple[int, ...]) -> bool:
    """Whether the label vectors are few enough to be enumerated for every row.

    Examples
    --------
    >>> can_enumerate((2,) * 14), can_enumerate((2,) * 40)
    (True, False)
    """
    return math.prod(cardinalities) <= MOST_VECTORS


def log_likelihood(data: FieldData, layout: FieldLayout, theta: Parameters) -> Array:
    """Log-probability (n,) of the labels of every row; exact where `can_enumerate`."""
    return _field(data, layout, theta).log_prob_codes(data.codes)


def held_out_score(data: FieldData, layout: FieldLayout, theta: Parameters) -> Array:
    """Score (n,) of every row: its log-likelihood, or log-pseudo-likelihood for many labels."""
    if can_enumerate(layout.cardinalities):
        return log_likelihood(data, layout, theta)
    return np.asarray(PseudoLikelihood(data, layout).log_conditionals(theta).sum(axis=1))


def announces_truth(
    data: FieldData, layout: FieldLayout, theta: Parameters, independent: Array
) -> Array:
    """Say (n,) in which rows the mode is the true vector, by 1 or 0.

    The pseudo-likelihood asks for each label given the true others, never whether another vector
    scores far better than the true one: it may favour tables so large that the mode is useless.

    Parameters
    ----------
    independent : (q_v, node columns)
        Independent regressions, whose answer the search for the mode starts from.
    """
    alone = [table.argmax(axis=1) for table in layout.node_tables(data.nodes.times(independent))]
    field = _field(data, layout, theta, start=np.stack(alone, axis=1))
    return np.asarray((field.mode_codes() == data.codes).all(axis=1), dtype=np.float64)


def _field(
    data: FieldData, layout: FieldLayout, theta: Parameters, **options: Any
) -> PairwiseField:
    sizes = layout.cardinalities
    space = LabelSpace(
        tuple(f"y{i}" for i in range(len(sizes))), tuple(map(np.arange, sizes)), "matrix"
    )
    nodes = layout.node_tables(data.nodes.times(theta.node))
    edges = layout.edge_tables(data.edges.times(theta.edge))
    return PairwiseField(space, nodes, layout.edges, edges, n_jobs=1, **options)


MakeObjective = Callable[[FieldData, FieldLayout], FieldObjective]

# As shares of the weighted sum of squares of the edges' features, and of the smallest group
# penalty that leaves no edge.
RIDGE_GRID = tuple(10.0 ** (-0.5 * k) for k in range(3, 12))
GROUP_GRID = tuple(0.6**k for k in range(1, 11))
# Points of a path without improvement after which the rest is skipped.
_PATIENCE = 2
# Where the pseudo-likelihood is the score, the modes of at most this many rows of a fold are looked
# at, and penalties left out whose modes are right less often by so many standard errors.
_MODES, _MODE_ERRORS = 60, 2.0


@dataclass
class FieldProblem:
    """A field to be learned from some rows, and to be scored on others.

    Attributes
    ----------
    train : FieldData
    held_out : FieldData or None
    layout : FieldLayout
        Its candidate edges.
    start : Parameters
        Independent regressions, all edges zero.
    objective : callable (data, layout) -> FieldObjective
        What is tuned; structure is always learned by pseudo-likelihood.
    score : callable (data, layout, parameters) -> (n,)
        How rows held out are scored.
    """

    train: FieldData
    held_out: FieldData | None
    layout: FieldLayout
    start: Parameters
    objective: MakeObjective = PseudoLikelihood
    score: Score = held_out_score
    _tuned: _OnGraph | None = field(default=None, init=False)
    _structure: Structure | None = field(default=None, init=False)

    @property
    def group_limit(self) -> float:
        """Smallest group penalty for which no edge is present, roughly."""
        if not self.layout.n_edges:
            return 0.0
        objective = self.train.objective(PseudoLikelihood, self.layout)
        gradient = objective.value_and_gradient(self.start)[1]
        return float(self.layout.edge_norms(gradient.edge).max())

    @property
    def energy(self) -> float:
        """Weighted sum of squares of the edges' features: the scale of the ridge."""
        return float(self.train.edges.energy().sum())

    @property
    def has_every_edge(self) -> bool:
        """Whether the last graph learned has all candidate edges."""
        return self._structure is not None and bool((self._structure.alpha > 0.0).all())

    def forget(self) -> None:
        """Start the next path anew."""
        self._tuned = self._structure = None

    def modes_right(self, tuned: _OnGraph) -> Array:
        """Say (m,) of some rows held out whether their modes are right; none if that is not asked.

        A likelihood needs no such look; the pseudo-likelihood does.
        """
        sizes = self.layout.cardinalities
        if self.held_out is None or self.score is not held_out_score or can_enumerate(sizes):
            return np.empty(0)
        some = self.held_out.few(_MODES)
        return announces_truth(some, tuned.layout, tuned.tuned.theta, self.start.node)

    def find_structure(
        self, penalty: Penalty, solver: ProximalGradient, alpha: Array | None = None
    ) -> Structure:
        """Learn a graph, starting from the last one learned, slacks from `alpha` (E,)."""
        last = self._structure
        self._structure = solver.solve(
            self.train.objective(PseudoLikelihood, self.layout),
            penalty,
            self.start if last is None else last.theta,
            None if last is None else last.step,
            alpha,
        )
        return self._structure

    def tune(self, penalty: Penalty, kept: Flags, tuner: Tuner) -> _OnGraph:
        """Tune the parameters on a graph (E,), from those of the last one or of its learning."""
        last = self._tuned
        if last is not None and last.penalty == penalty.ridge and (last.kept == kept).all():
            return last
        layout, columns = self.layout.restrict(kept)
        learned = self.start if self._structure is None else self._structure.theta
        first = learned if last is None else last.spread(self.layout)
        start = Parameters(first.node, np.ascontiguousarray(first.edge[:, columns]))
        found = tuner.solve(self.train.objective(self.objective, layout), penalty, start)
        scores = None
        if self.held_out is not None:
            scores = self.held_out.scored(self.score, layout, found.theta)
        self._tuned = _OnGraph(found, layout, kept, penalty.ridge, scores)
        return self._tuned

    def untuned(self, found: Structure, ridge: float) -> _OnGraph:
        """Return the parameters as structure learning left them, on the graph it found."""
        kept = found.alpha > 0.0
        layout, columns = self.layout.restrict(kept)
        theta = Parameters(found.theta.node, np.ascontiguousarray(found.theta.edge[:, columns]))
        reached = Tuned(theta, len(found.objective), found.converged)
        return _OnGraph(reached, layout, kept, ridge, None)


@dataclass(frozen=True)
class _OnGraph:
    """Tuned parameters on a graph and the scores of the rows held out."""

    tuned: Tuned
    layout: FieldLayout
    kept: Flags
    penalty: float
    scores: RowScores | None

    def spread(self, layout: FieldLayout) -> Parameters:
        """Return the parameters on the graph of all candidates, zero for absent edges."""
        _, columns = layout.restrict(self.kept)
        edge = np.zeros((len(self.tuned.theta.edge), layout.n_edge_columns))
        edge[:, columns] = self.tuned.theta.edge
        return Parameters(self.tuned.theta.node, edge)


class Choice(NamedTuple):
    """Chosen penalties.

    Attributes
    ----------
    ridge, group : float
        Strengths of the two terms; an infinite `group` means no edges.
    ridge_scores, group_scores : {strength: float}
        Mean held-out score a row at the points of the two paths.
    """

    ridge: float
    group: float
    ridge_scores: dict[float, float]
    group_scores: dict[float, float]


@dataclass(frozen=True)
class Selector:
    """Chooses the penalties of the edges.

    Parameters
    ----------
    node : (d,)
        Penalties of the nodes.
    solver : ProximalGradient
    tuner : Tuner
    standard_errors : float
        How many standard errors of its difference to the best score a sparser graph may lose.
    n_jobs : int or None
        Threads over folds.
    advance : callable
        Called after every point of a path.
    """

    node: Array
    solver: ProximalGradient
    tuner: Tuner
    standard_errors: float
    n_jobs: int | None
    advance: Callable[[], None]

    def choose(
        self, folds: Sequence[FieldProblem], ridges: Sequence[float], groups: Sequence[float]
    ) -> Choice:
        """Choose among ridge strengths and group strengths; each in any order."""
        ridge, ridge_scores, full = self._choose_ridge(folds, sorted(ridges, reverse=True))
        if len(groups) == 1:
            return Choice(ridge, groups[0], ridge_scores, {})
        group, group_scores = self._choose_group(folds, ridge, sorted(groups, reverse=True), full)
        return Choice(ridge, group, ridge_scores, group_scores)

    def _choose_ridge(
        self, folds: Sequence[FieldProblem], ridges: Sequence[float]
    ) -> tuple[float, dict[float, float], list[RowScores]]:
        scores: dict[float, list[RowScores]] = {}
        right: dict[float, Array] = {}
        for strength in ridges:
            penalty = Penalty(self.node, strength, 0.0)

            def point(problem: FieldProblem, penalty: Penalty = penalty) -> tuple[RowScores, Array]:
                every = np.ones(problem.layout.n_edges, dtype=bool)
                tuned = problem.tune(penalty, every, self.tuner)
                return _scores(tuned), problem.modes_right(tuned)

            parts = map_threads(point, folds, self.n_jobs, lambda: None)
            scores[strength] = [own for own, _ in parts]
            right[strength] = np.concatenate([modes for _, modes in parts])
            self.advance()
            if _is_past_best(list(_weighted_means(scores, folds).values())):
                break
        means = _weighted_means(scores, folds)
        best = max(_as_right_as_any(right), key=lambda strength: means[strength])
        return best, means, scores[best]

    def _choose_group(
        self,
        folds: Sequence[FieldProblem],
        ridge: float,
        groups: Sequence[float],
        full: list[RowScores],
    ) -> tuple[float, dict[float, float]]:
        tuned = Penalty(self.node, ridge, 0.0)
        for problem in folds:
            problem.forget()

        def nothing(problem: FieldProblem) -> RowScores:
            none = np.zeros(problem.layout.n_edges, dtype=bool)
            return _scores(problem.tune(tuned, none, self.tuner))

        scores = {np.inf: self._over_folds(nothing, folds)}
        every = _weighted_means({0.0: full}, folds)[0.0]
        for strength in groups:
            if strength == 0.0:
                continue
            penalty = Penalty(self.node, ridge + strength, strength / (ridge + strength))

            def point(problem: FieldProblem, penalty: Penalty = penalty) -> RowScores:
                found = problem.find_structure(penalty, self.solver)
                return _scores(problem.tune(tuned, found.alpha > 0.0, self.tuner))

            scores[strength] = self._over_folds(point, folds)
            self.advance()
            if all(problem.has_every_edge for problem in folds):
                break  # weaker penalties keep them too, and tune the same parameters
            means = list(_weighted_means(scores, folds).values())
            if _is_past_best(means) and max(means) >= every:
                break  # worse again, and so is the graph of all edges: the best lies between
        if 0.0 in groups:
            scores[0.0] = full
        return self._sparsest_good(scores, folds), _weighted_means(scores, folds)

    def _sparsest_good(
        self, scores: dict[float, list[RowScores]], folds: Sequence[FieldProblem]
    ) -> float:
        """Strongest penalty whose score is within the allowed errors of the best one."""
        weight = _held_out_weight(folds)
        means = _weighted_means(scores, folds)
        best = scores[max(means, key=lambda strength: means[strength])]
        for strength in sorted(scores, reverse=True):
            losses = [own.below(top) for own, top in zip(scores[strength], best, strict=True)]
            mean, square = (sum(part) / weight for part in zip(*losses, strict=True))
            spread = np.sqrt(max(square - mean**2, 0.0) / weight)
            if mean <= self.standard_errors * spread + 1e-12:
                return strength
        raise AssertionError("The best point is within any number of errors of itself.")

    def _over_folds(
        self, point: Callable[[FieldProblem], RowScores], folds: Sequence[FieldProblem]
    ) -> list[RowScores]:
        return map_threads(point, folds, self.n_jobs, lambda: None)


def _scores(tuned: _OnGraph) -> RowScores:
    assert tuned.scores is not None
    return tuned.scores


def _held_out_weight(folds: Sequence[FieldProblem]) -> float:
    return sum(own.held_out.total_weight for own in folds if own.held_out is not None)


def _weighted_means(
    scores: dict[float, list[RowScores]], folds: Sequence[FieldProblem]
) -> dict[float, float]:
    weight = _held_out_weight(folds)
    # sums of the same terms in another order differ by rounding, which must not break ties
    return {
        strength: round(sum(own.total() for own in values) / weight, 12)
        for strength, values in scores.items()
    }


def _as_right_as_any(right: dict[float, Array]) -> list[float]:
    """Return the penalties whose modes (m,) are right about as often as those of the best."""
    best = max(right.values(), key=lambda modes: modes.sum())
    kept = []
    for strength, modes in right.items():
        lost = best - modes
        spread = lost.std() if len(lost) else 0.0
        if lost.sum() <= _MODE_ERRORS * spread * np.sqrt(len(lost)):
            kept.append(strength)
    return kept


def _is_past_best(means: Sequence[float]) -> bool:
    """Whether the last points of a path are all worse than one before."""
    return len(means) - 1 - int(np.argmax(means)) >= _PATIENCE
