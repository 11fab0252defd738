r"""From rows and independent regressions to a fitted pairwise field.

Candidate edges are pairs of labels that independent regressions leave dependent. The penalties of
the edges are chosen by cross-validation along warm-started paths: with the node penalties given,
the ridge :math:`\mu = \lambda_w (1 - \eta)` first, on the graph of all candidate edges, from strong
to weak; where rows are scored by their pseudo-likelihood, among the strengths whose modes are right
about as often as any's. The group penalty :math:`\gamma = \lambda_w \eta` is chosen second, from no
edge to all of them: every point learns a graph, tunes the parameters on it without the group term,
as the final fit will, and scores them on the rows held out. Of the graphs that score as well as the
best one, up to one standard error of the difference, the sparsest is taken.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, NamedTuple

import numpy as np

from colabel.core.arrays import Array, Flags, Indices, is_sparse
from colabel.core.progress import progress_bar
from colabel.core.schema import Below, stored
from colabel.core.threads import map_threads
from colabel.joint import PairwiseField
from colabel.labels import MISSING, LabelSpace
from colabel.learn.conditional import Folds, RowGroup, is_chunked
from colabel.learn.crf.chunked_field import ChunkedFieldData
from colabel.learn.crf.curvature import Penalty, StateLikelihood, Structure, learn_structure, tune
from colabel.learn.crf.pseudo_likelihood import (
    FieldData,
    FieldLayout,
    Parameters,
    PseudoLikelihood,
    RowScores,
    Score,
    all_pairs,
)
from colabel.learn.design import Axes, Design
from colabel.learn.linear import LinearLearning, LinearModels

MakeObjective = Callable[[FieldData, FieldLayout], PseudoLikelihood | StateLikelihood]

# About 0.1 milliseconds a row; beyond it rows are scored by their pseudo-likelihood.
MOST_VECTORS = 1 << 14
# As shares of the weighted sum of squares of the edges' features, and of the smallest group
# penalty that leaves no edge.
_RIDGE_GRID = tuple(10.0 ** (-0.5 * k) for k in range(3, 12))
_GROUP_GRID = tuple(0.6**k for k in range(1, 11))
# Points of a path without improvement after which the rest is skipped.
_PATIENCE = 2
# Where the pseudo-likelihood is the score, the modes of at most this many rows of a fold are looked
# at, and penalties left out whose modes are right less often by so many standard errors.
_MODES, _MODE_ERRORS = 60, 2.0
# Penalties are compared with parameters tuned to this tolerance (or the user's, if looser).
_PATH_TOLERANCE = 0.3


def held_out_score(data: FieldData, layout: FieldLayout, theta: Parameters) -> Array:
    """Score (n,) of every row: its log-likelihood, or log-pseudo-likelihood for many labels."""
    if math.prod(layout.cardinalities) <= MOST_VECTORS:
        return _field(data, layout, theta).log_prob_codes(data.targets)
    return np.asarray(PseudoLikelihood(data, layout).log_conditionals(theta).sum(axis=1))


def mode_is_true(
    data: FieldData, layout: FieldLayout, theta: Parameters, independent: Array
) -> Array:
    """Say (n,) in which rows the mode is the true vector, as far as known, by 1 or 0.

    The pseudo-likelihood asks for each label given the true others, never whether another vector
    scores far better than the true one: it may favour tables so large that the mode is useless.

    Parameters
    ----------
    independent : (q_v, node columns)
        Independent regressions, whose answer the search for the mode starts from.
    """
    tables = layout.node_tables(data.nodes.matmat(independent))
    start = np.stack([table.argmax(axis=1) for table in tables], axis=1)
    modes = _field(data, layout, theta, start=start).mode_codes()
    right = (modes == data.codes) | (data.targets == MISSING)
    return np.asarray(right.all(axis=1), dtype=np.float64)


def _field(
    data: FieldData, layout: FieldLayout, theta: Parameters, **options: Any
) -> PairwiseField:
    sizes = layout.cardinalities
    names = tuple(f"y{i}" for i in range(len(sizes)))
    space = LabelSpace(names, tuple(map(np.arange, sizes)), "matrix")
    nodes = layout.node_tables(data.nodes.matmat(theta.node))
    edges = layout.edge_tables(data.edges.matmat(theta.edge))
    return PairwiseField(space, nodes, layout.edges, edges, n_jobs=1, **options)


def candidate_edges(data: FieldData, node: Array, layout: FieldLayout, most: int) -> Indices:
    """Return at most `most` pairs (E, 2), the most dependent ones; constant labels have none.

    The numerator of the test (`score_tests`) is the gradient of the pseudo-likelihood by the
    constant table of the edge, where all edges are absent.

    Parameters
    ----------
    data : FieldData
    node : (q_v, node columns)
        Parameters of independent models.
    layout : FieldLayout
        Without edges.
    most : int
    """
    pairs: Indices = all_pairs(len(layout.cardinalities))
    pairs = pairs[data.varied()[pairs].all(axis=1)]
    if len(pairs) <= most:
        return pairs
    of_pair = data.dependence(node, layout)[pairs[:, 0], pairs[:, 1]]
    return pairs[np.sort(np.argsort(-of_pair, kind="stable")[:most])]


class Tuned(NamedTuple):
    """Parameters on a graph, whose edges `kept` (E,) marks, and the scores of rows held out."""

    theta: Parameters
    layout: FieldLayout
    kept: Flags
    ridge: float
    n_iter: int
    converged: bool
    scores: Any = None


@dataclass
class FieldProblem:
    """A field to be learned from some rows, and to be scored on others.

    Attributes
    ----------
    train, held_out : FieldData
    layout : FieldLayout
        Its candidate edges.
    start : Parameters
        Independent regressions, all edges zero.
    objective : callable (data, layout) -> PseudoLikelihood or StateLikelihood
        What is tuned; structure is always learned by pseudo-likelihood.
    score : callable (data, layout, parameters) -> (n,)
        How rows held out are scored.
    tuned, structure
        The last ones found, where the next begin.
    """

    train: FieldData
    held_out: FieldData | None
    layout: FieldLayout
    start: Parameters
    objective: MakeObjective = PseudoLikelihood
    score: Score = held_out_score
    tuned: Tuned | None = field(default=None, init=False)
    structure: Structure | None = field(default=None, init=False)

    def find_structure(self, penalty: Penalty, **options: Any) -> Structure:
        """Learn a graph, starting from the last one learned."""
        start = self.start
        if self.structure is not None:
            start, options["step"] = self.structure.theta, self.structure.step
        likelihood = self.train.objective(PseudoLikelihood, self.layout)
        self.structure = learn_structure(likelihood, penalty, start, **options)
        return self.structure

    def tune(self, penalty: Penalty, kept: Flags, tol: float, max_iter: int) -> Tuned:
        """Tune the parameters on a graph (E,), from those of the last one or of its learning."""
        last = self.tuned
        if last is not None and last.ridge == penalty.ridge and (last.kept == kept).all():
            return last
        layout, columns = self.layout.restrict(kept)
        first = self.start if self.structure is None else self.structure.theta
        if last is not None:  # zero for edges that were absent
            first = Parameters(last.theta.node, np.zeros_like(self.start.edge))
            first.edge[:, self.layout.restrict(last.kept)[1]] = last.theta.edge
        start = Parameters(first.node, np.ascontiguousarray(first.edge[:, columns]))
        objective = self.train.objective(self.objective, layout)
        theta, n_iter, converged = tune(objective, penalty, start, tol=tol, max_iter=max_iter)
        scores = None
        if self.held_out is not None:
            scores = self.held_out.scored(self.score, layout, theta)
        self.tuned = Tuned(theta, layout, kept, penalty.ridge, n_iter, converged, scores)
        return self.tuned


@stored("fitted-field")
@dataclass(frozen=True)
class FittedField:
    """A field in the user's features.

    Attributes
    ----------
    layout : FieldLayout
        Its graph.
    node : (p + 1, node columns)
        Coefficients of features and constant.
    edge : (p_e + 1, edge columns)
        The same for the edges' features, `edge_columns` of X.
    edge_columns : (p_e,)
    """

    layout: Annotated[FieldLayout, "d e sizes nodes cells"]
    node: Annotated[Array, "p+1 nodes"]
    edge: Annotated[Array, "f+1 cells"]
    edge_columns: Annotated[Indices, "f", Below("p")]

    def node_tables(self, X: Any) -> list[Array]:
        """Return the score of every value of every variable, d arrays (n, K_i)."""
        return self.layout.node_tables(np.asarray(X @ self.node[:-1]) + self.node[-1])

    def edge_tables(self, X: Any) -> list[Array]:
        """Return the tables of the edges, E arrays (n, K_i, K_j), or (1, K_i, K_j)."""
        if not len(self.edge_columns):
            return self.layout.edge_tables(self.edge)
        every = len(self.edge_columns) == X.shape[1]
        chosen = X if every else X[:, self.edge_columns]
        return self.layout.edge_tables(np.asarray(chosen @ self.edge[:-1]) + self.edge[-1])


@dataclass(frozen=True)
class LearnedField:
    """A fitted field and how it came about.

    Attributes
    ----------
    field : FittedField
    ridge, group : float
        Chosen strengths of the edges' penalties; an infinite `group` means no edges.
    ridge_scores, group_scores : {strength: float}
        Mean held-out score a row at the points of the two paths.
    candidates : (E_c, 2)
        Edges that were considered.
    profile : (iterations + 1, E_c)
        Slack of every candidate during structure learning.
    n_iter : int
        Iterations of the final tuning.
    converged : bool
    """

    field: FittedField
    ridge: float
    group: float
    ridge_scores: dict[float, float]
    group_scores: dict[float, float]
    candidates: Indices
    profile: Array
    n_iter: int
    converged: bool


@dataclass(frozen=True)
class FieldLearner:
    """Learns graph and parameters of a pairwise field (see `colabel.PairwiseCRF`).

    Parameters
    ----------
    ridges, groups : sequence of float or None
        Strengths to choose from; None for grids that follow the data.
    edge_columns : (p_e,)
        Columns of X that edges depend on.
    most_candidates : int
        Bound on the candidate edges.
    form, tol, max_iter
        See `learn_structure` and `tune`.
    standard_errors : float
        How many standard errors of its difference to the best score a sparser graph may lose.
    n_jobs : int or None
    verbose : bool
    objective, score
        See `FieldProblem`.
    tuned : bool
        Whether the parameters of the final graph are tuned without the group term.
    centred : bool
        Whether dense features are centred.
    constant : {"free", "penalised", "none"}
        Constants of nodes and edges; see `colabel.PairwiseCRF`.
    max_structure_iter : int or None
        Bound on the iterations of structure learning; None for `max_iter`.
    """

    ridges: Sequence[float] | None
    groups: Sequence[float] | None
    edge_columns: Indices
    most_candidates: int
    form: str
    tol: float
    max_iter: int
    standard_errors: float
    n_jobs: int | None
    verbose: bool
    objective: MakeObjective = PseudoLikelihood
    score: Score = held_out_score
    tuned: bool = True
    centred: bool = True
    constant: str = "free"
    max_structure_iter: int | None = None

    def learn(
        self,
        linear: LinearLearning,
        models: LinearModels,
        choices: Indices,
        node: Array,
        folds: Folds | None,
    ) -> LearnedField:
        """Learn from all rows of `linear`, penalties chosen over `folds`, if rows can be held out.

        `models` are the independent regressions of all rows, `choices` their positions in the
        grid of `linear`, `node` (d,) the same as penalties.
        """
        data, rows = linear.data, self._rows(linear)
        whole = self._problem(rows, None, models.coef, data.cardinalities)
        ridges, groups = self.ridges, self.groups
        if ridges is None:
            squares = float(rows.edges.sum_of_squares().sum())
            ridges = [share * squares for share in _RIDGE_GRID]
        if groups is None:
            limit = 0.0  # about the smallest for which no edge is present
            if whole.layout.n_edges:
                likelihood = rows.objective(PseudoLikelihood, whole.layout)
                slope = likelihood.value_and_gradient(whole.start)[1]
                limit = float(whole.layout.edge_norms(slope.edge).max())
            groups = [*(share * limit for share in _GROUP_GRID), 0.0]
        ridge, group = max(ridges), max(groups)
        ridge_scores: dict[float, float] = {}
        group_scores: dict[float, float] = {}
        if len(ridges) * len(groups) > 1 and whole.layout.n_edges and folds is not None:
            problems = self._fold_problems(rows, linear, choices, folds)
            n_points = len(ridges) + len(groups)
            with progress_bar("choosing penalties", n_points, shown=self.verbose) as advance:
                if problems:
                    ridge, ridge_scores, full = self.choose_ridge(problems, node, ridges, advance)
                if problems and len(groups) > 1:
                    group, group_scores = self.choose_group(
                        problems, node, ridge, groups, full, advance
                    )
        # One item of `map_threads` keeps BLAS to one thread: the same answer for any n_jobs.
        ((tuned, profile),) = map_threads(
            lambda problem: self._final(problem, node, ridge, group),
            [whole],
            self.n_jobs,
            lambda: None,
        )
        nodes = rows.nodes.from_basis(tuned.theta.node.T).T
        if self.constant == "free":  # labels without edges keep their independent regression
            isolated = ~np.isin(tuned.layout.label_of_column, tuned.layout.edges)
            nodes[:, isolated] = _node_matrix(models.coef, data.cardinalities)[:, isolated]
        edges = tuned.theta.edge
        edges = rows.edges.from_basis(edges.T).T if len(self.edge_columns) else edges
        fitted = FittedField(tuned.layout, nodes, edges, self.edge_columns)
        chosen = (ridge, group, ridge_scores, group_scores)
        n_iter = max(1, tuned.n_iter)
        return LearnedField(fitted, *chosen, whole.layout.edges, profile, n_iter, tuned.converged)

    def _final(
        self, whole: FieldProblem, node: Array, ridge: float, group: float
    ) -> tuple[Tuned, Array]:
        """Parameters on the final graph, and the slacks while it was learned."""
        n_edges, without_group = whole.layout.n_edges, self._penalty(node, ridge)
        if group == 0.0 or not np.isfinite(group):
            kept = np.full(n_edges, group == 0.0)
            return whole.tune(without_group, kept, self.tol, self.max_iter), np.zeros((1, n_edges))
        # The paper draws the first slacks from (0, 1); spread evenly they differ.
        spread = (np.arange(n_edges) + 1.0) / (n_edges + 1.0)
        structure = whole.find_structure(
            self._penalty(node, ridge, group),
            form=self.form,
            max_iter=self.max_structure_iter or self.max_iter,
            tol=1e-6,
            alpha=spread if self.form == "constrained" else None,
        )
        kept = structure.alpha > 0.0
        if self.tuned:
            return whole.tune(without_group, kept, self.tol, self.max_iter), structure.profile
        layout, columns = whole.layout.restrict(kept)
        node, edge = structure.theta
        theta = Parameters(node, np.ascontiguousarray(edge[:, columns]))
        n_iter = len(structure.objective)
        return Tuned(theta, layout, kept, ridge, n_iter, structure.converged), structure.profile

    def _rows(self, linear: LinearLearning) -> Any:
        """The rows of a field: features of the nodes, features of the edges, codes."""
        data, nodes, columns = linear.data, linear.design, self.edge_columns
        if is_chunked(data):
            if not self.centred or self.constant != "free":
                raise TypeError("centre and constant do not change for Dask arrays: leave them.")
            return ChunkedFieldData.of(data, nodes, columns)
        weight = data.row_weights

        def design(X: Any) -> Design:
            if self.centred or is_sparse(X):
                return Design.of(X, weight)
            rows = np.column_stack([X, np.ones(len(X))])
            return Design(rows, None, weight, Axes(np.zeros(X.shape[1]), None))

        nodes = nodes if self.centred else design(data.X)
        edges = Design.constant(data.n_features, weight)
        if len(columns):
            edges = nodes if len(columns) == data.n_features else design(data.X[:, columns])
            edges = edges.balanced() if self.constant == "free" else edges
        if self.constant == "none":
            nodes = nodes.with_level(0.0)
            edges = edges.with_level(0.0) if len(columns) else edges
        codes = np.ascontiguousarray(data.filled, dtype=np.int32)
        known = data.codes != MISSING if data.missing_labels[0] else None
        return FieldData(nodes, edges, codes, weight, known)

    def _problem(
        self,
        train: FieldData,
        held_out: FieldData | None,
        coef: Sequence[Array],
        cardinalities: tuple[int, ...],
    ) -> FieldProblem:
        node = train.nodes.to_basis(_node_matrix(coef, cardinalities).T).T
        no_edges = FieldLayout(cardinalities, np.empty((0, 2), dtype=np.intp))
        edges = candidate_edges(train, node, no_edges, self.most_candidates)
        layout = FieldLayout(cardinalities, edges)
        start = Parameters(node, np.zeros((train.edges.n_coordinates, layout.n_edge_columns)))
        return FieldProblem(train, held_out, layout, start, self.objective, self.score)

    def _fold_problems(
        self, rows: Any, linear: LinearLearning, choices: Indices, folds: Folds
    ) -> list[FieldProblem]:
        data, chunked = linear.data, is_chunked(linear.data)
        parts = [(folds.rows_outside(f), folds.rows_inside(f)) for f in range(folds.n_folds)]
        # of rows in chunks no fold is empty
        used = [part for part in parts if chunked or (len(part[0]) and len(part[1]))]
        groups = [RowGroup(kept, np.arange(data.n_labels)) for kept, _ in used]
        coef = linear.fit(groups, [choices] * len(used)).coef if used else []
        # compared to a loose tolerance, so that products may round what they read
        rough = rows if chunked else rows.in_single()
        d = data.n_labels
        return [
            self._problem(
                rough.rows(kept),
                rough.rows(held),
                coef[place * d : (place + 1) * d],
                data.cardinalities,
            )
            for place, (kept, held) in enumerate(used)
        ]

    def choose_ridge(
        self,
        folds: Sequence[FieldProblem],
        node: Array,
        ridges: Sequence[float],
        advance: Callable[[], None],
    ) -> tuple[float, dict[float, float], list[RowScores]]:
        """Return the best ridge strength, the mean scores of all, and those of the best's rows."""
        scores: dict[float, list[RowScores]] = {}
        right: dict[float, Array] = {}

        def point(problem: FieldProblem) -> tuple[Any, Array]:
            every = np.ones(problem.layout.n_edges, dtype=bool)
            tuned = problem.tune(self._penalty(node, strength), every, *self._path)
            # a likelihood needs no look at modes; the pseudo-likelihood does
            few = math.prod(problem.layout.cardinalities) <= MOST_VECTORS
            if problem.held_out is None or problem.score is not held_out_score or few:
                return tuned.scores, np.empty(0)
            some, start = problem.held_out.few(_MODES), problem.start.node
            return tuned.scores, mode_is_true(some, tuned.layout, tuned.theta, start)

        for strength in sorted(ridges, reverse=True):
            parts = self._at_folds(point, folds)
            scores[strength] = [own for own, _ in parts]
            right[strength] = np.concatenate([modes for _, modes in parts])
            advance()
            if _is_past_best(_means(scores, folds)):
                break
        means = _means(scores, folds)
        best = max(as_right_as_any(right), key=lambda strength: means[strength])
        return best, means, scores[best]

    def choose_group(
        self,
        folds: Sequence[FieldProblem],
        node: Array,
        ridge: float,
        groups: Sequence[float],
        full: list[RowScores],
        advance: Callable[[], None],
    ) -> tuple[float, dict[float, float]]:
        """Return the chosen group strength and the mean scores; `full` are those of all edges."""
        for problem in folds:
            problem.tuned = problem.structure = None

        def point(problem: FieldProblem) -> Any:
            kept = np.zeros(problem.layout.n_edges, dtype=bool)
            if np.isfinite(strength):
                penalty, most = self._penalty(node, ridge, strength), self.max_structure_iter
                options = {"max_iter": most or self.max_iter, "tol": 1e-5}
                kept = problem.find_structure(penalty, **options).alpha > 0.0
            return problem.tune(self._penalty(node, ridge), kept, *self._path).scores

        scores: dict[float, list[RowScores]] = {}
        every = _means({0.0: full}, folds)[0.0]
        for strength in [np.inf, *sorted((own for own in groups if own > 0.0), reverse=True)]:
            scores[strength] = self._at_folds(point, folds)
            if np.isinf(strength):
                continue
            advance()
            graphs = [problem.structure for problem in folds]
            if all(graph is not None and (graph.alpha > 0.0).all() for graph in graphs):
                break  # weaker penalties keep them too, and tune the same parameters
            means = _means(scores, folds)
            if _is_past_best(means) and max(means.values()) >= every:
                break  # worse again, and so is the graph of all edges: the best lies between
        if 0.0 in groups:
            scores[0.0] = full
        means = _means(scores, folds)
        best, weight = scores[max(means, key=lambda own: means[own])], _held_out_weight(folds)
        for strength in sorted(scores, reverse=True):  # the sparsest that is about as good
            losses = [own.below(top) for own, top in zip(scores[strength], best, strict=True)]
            mean, square = (sum(part) / weight for part in zip(*losses, strict=True))
            spread = np.sqrt(max(square - mean**2, 0.0) / weight)
            if mean <= self.standard_errors * spread + 1e-12:
                return strength, means
        raise AssertionError("The best point is within any number of errors of itself.")

    def _penalty(self, node: Array, ridge: float, group: float = 0.0) -> Penalty:
        share = group / (ridge + group) if group else 0.0
        return Penalty(node, ridge + group, share, self.constant == "free")

    @property
    def _path(self) -> tuple[float, int]:
        return max(self.tol, _PATH_TOLERANCE), self.max_iter

    def _at_folds(self, point: Callable[..., Any], folds: Sequence[FieldProblem]) -> list[Any]:
        # Dask spreads the chunks itself
        threads = self.n_jobs if isinstance(folds[0].train, FieldData) else 1
        return map_threads(point, folds, threads, lambda: None)


def _node_matrix(coef: Sequence[Array], cardinalities: tuple[int, ...]) -> Array:
    """Coefficients of independent regressions as node columns: the last value has score zero."""
    columns = []
    for own, size in zip(coef, cardinalities, strict=True):
        # Two values have one score, the log-odds of the second.
        full = np.concatenate([np.zeros_like(own), own]) if size == 2 else own
        columns.append((full[:-1] - full[-1:]).T)
    return np.hstack(columns)


def _held_out_weight(folds: Sequence[FieldProblem]) -> float:
    return sum(own.held_out.total_weight for own in folds if own.held_out is not None)


def _means(
    scores: dict[float, list[RowScores]], folds: Sequence[FieldProblem]
) -> dict[float, float]:
    """Mean score a row at each point of a path."""
    weight = _held_out_weight(folds)
    # sums of the same terms in another order differ by rounding, which must not break ties
    return {
        strength: round(sum(own.total() for own in values) / weight, 12)
        for strength, values in scores.items()
    }


def as_right_as_any(right: dict[float, Array]) -> list[float]:
    """Return the penalties whose modes (m,) are right about as often as those of the best."""
    best = max(right.values(), key=lambda modes: modes.sum())
    kept = []
    for strength, modes in right.items():
        lost = best - modes
        spread = lost.std() if len(lost) else 0.0
        if lost.sum() <= _MODE_ERRORS * spread * np.sqrt(len(lost)):
            kept.append(strength)
    return kept


def _is_past_best(means: dict[float, float]) -> bool:
    """Whether the last points of a path are all worse than one before."""
    return len(means) - 1 - int(np.argmax(list(means.values()))) >= _PATIENCE
