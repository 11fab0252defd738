"""From rows and independent regressions to a fitted pairwise field.

Candidate edges are pairs of labels that independent regressions leave dependent. For rows in
chunks, all that a field asks of its rows is a sum over chunks.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from colabel.core.arrays import Array, Flags, Indices, is_sparse
from colabel.core.progress import progress_bar
from colabel.core.schema import Below, stored
from colabel.core.threads import map_threads
from colabel.learn.chunks import ChunkedData, RowPart, is_chunked
from colabel.learn.chunks.chunked_data import added
from colabel.learn.chunks.chunked_design import ChunkedDesign
from colabel.learn.chunks.row_parts import joined_rows
from colabel.learn.conditional import Folds, LabelSummary, RowGroup, TrainingData
from colabel.learn.crf.curvature import Tuner
from colabel.learn.crf.proximal import Penalty, ProximalGradient
from colabel.learn.crf.pseudo_likelihood import (
    FieldData,
    FieldLayout,
    Parameters,
    PseudoLikelihood,
    Score,
    all_pairs,
    pair_sums,
)
from colabel.learn.crf.selection import (
    GROUP_GRID,
    RIDGE_GRID,
    Choice,
    FieldProblem,
    MakeObjective,
    Selector,
    held_out_score,
)
from colabel.learn.design import Design, half_way
from colabel.learn.linear import LinearLearning, LinearModels
from colabel.learn.structure.screening import score_statistics


@dataclass(frozen=True)
class SummedDesign(Design):
    """A design whose rows are in chunks: of them only the energies (q,) are here.

    Attributes
    ----------
    chunked : ChunkedDesign or None
        None for one constant that all rows share.
    energies : (q,)
    """

    chunked: ChunkedDesign | None = None
    energies: Any = None

    @property
    def n_coordinates(self) -> int:
        return len(self.energies)

    def energy(self) -> Array:
        return np.array(self.energies)

    def scale(self) -> Array:
        energy = self.energy()
        sparse = self.chunked is not None and self.chunked.axes is None
        return half_way(energy, energy.mean()) if sparse else energy

    def of_part(self, part: RowPart, *, turned: bool) -> Design:
        """Rows of a part, turned to the coordinates or (cheaper) only centred."""
        if self.chunked is None:
            return Design.constant(part.n_features, part.row_weights)
        design = self.chunked.turned(part) if turned else self.chunked.rows(part)
        if self.level == 1.0:
            return design
        if is_sparse(design.rows):
            constant = sp.csr_array(np.full((part.n_rows, 1), self.level))
            rows = sp.csr_array(sp.hstack([design.rows[:, :-1], constant], format="csr"))
            return replace(design, rows=rows, columns=sp.csr_array(rows.T), level=self.level)
        design.rows[:, -1] = self.level
        return replace(design, level=self.level)

    def of_rows(self, theta: Array) -> Array:
        """Parameters (q, c) of coordinates as those of centred rows."""
        return theta if self.chunked is None else self.chunked.of_rows(theta.T).T

    def gradient(self, slope: Array) -> Array:
        """Gradients by parameters of centred rows as gradients by coordinates."""
        return slope if self.chunked is None else self.chunked.gradient(slope.T).T


class _Look(NamedTuple):
    """Energies (q,), numbers and weight of rows, and weights of the labels' values."""

    energy: Array
    n_rows: int
    n_heavy: int
    weight: float
    values: tuple[Array, ...]


@dataclass(frozen=True)
class ChunkedFieldData:
    """Rows in chunks to learn a field from; see `FieldData`.

    Attributes
    ----------
    data : ChunkedData
    nodes, edges : SummedDesign
    look : _Look
        Of these rows.
    selected : AtRows or None
        Which of the rows of `data` these are; None for all.
    """

    data: ChunkedData
    nodes: SummedDesign
    edges: SummedDesign
    look: _Look
    selected: Any = None

    @classmethod
    def of(cls, data: ChunkedData, design: Any, edge_columns: Indices) -> ChunkedFieldData:
        """Find the energies of the coordinates in one pass."""
        if len(edge_columns) not in (0, data.n_features):
            raise TypeError(
                "edge_features as a list of columns does not learn from Dask arrays: give"
                ' "all" or "none".'
            )
        look = data.total(_look, None, design)
        nodes = SummedDesign(None, None, None, design.coordinates, chunked=design)
        if len(edge_columns):
            level = float(np.sqrt(look.energy[:-1].sum() / look.weight)) or 1.0
            edges = replace(nodes, level=level)
        else:
            constant = Design.constant(data.n_features).coordinates
            edges = SummedDesign(None, None, None, constant, shared=True)
        return cls(data, nodes, edges, look)._with_energies()

    def _with_energies(self) -> ChunkedFieldData:
        energy, weight = self.look.energy, self.look.weight
        of_edges = np.append(energy[:-1], self.edges.level**2 * weight)
        if self.edges.chunked is None:
            of_edges = np.array([weight])
        nodes = replace(self.nodes, energies=energy)
        return replace(self, nodes=nodes, edges=replace(self.edges, energies=of_edges))

    def rows(self, selected: Any) -> ChunkedFieldData:
        """Return some of the rows: one pass."""
        look = self.data.total(_look, selected, self.nodes.chunked)
        return replace(self, look=look, selected=selected)._with_energies()

    @property
    def total_weight(self) -> float:
        """Sum of the row weights."""
        return self.look.weight

    def total(self, function: Callable[..., Any], *arguments: Any, combine: Any = added) -> Any:
        """Sum ``function(FieldData, *arguments)`` over the chunks of these rows: one pass."""
        designs = _Designs(self.nodes, self.edges)
        return self.data.total(
            _at_part, self.selected, designs, function, arguments, combine=combine
        )

    def objective(self, make: Callable[..., Any], layout: FieldLayout) -> ChunkedLikelihood:
        return ChunkedLikelihood(self, layout, make)

    def scored(self, score: Score, layout: FieldLayout, theta: Parameters) -> ChunkedScores:
        return ChunkedScores(self, score, layout, self.of_rows(theta))

    def varied(self) -> Flags:
        return np.array([(own > 0).sum() > 1 for own in self.look.values])

    def dependence(self, node: Array, layout: FieldLayout) -> Array:
        sums = self.total(pair_sums, self.nodes.of_rows(node), layout)
        return score_statistics(sums, layout.cardinalities)

    def sample(self, n_rows: int) -> FieldData:
        """See `FieldData.sample`: the same rows, brought here."""
        return self._spread(False, max(1, self.look.n_rows // n_rows))

    def few(self, n_rows: int) -> FieldData:
        """See `FieldData.few`: the same rows, brought here."""
        return self._spread(True, max(1, -(-self.look.n_heavy // n_rows)))

    def _spread(self, heavy: bool, step: int) -> FieldData:
        """Bring every row here whose number, among those of positive weight or all, divides."""
        counts = self.data.total(_n_selected, self.selected, heavy, combine=operator.add)
        first, n_rows = np.array(counts).T
        n_before = np.cumsum(n_rows) - n_rows
        found = self.data.total(
            _every, self.selected, heavy, step, first, n_before, combine=joined_rows
        )
        return _Designs(self.nodes, self.edges).at(found, turned=True)

    def of_rows(self, theta: Parameters) -> Parameters:
        """Parameters of coordinates as those of centred rows."""
        return Parameters(self.nodes.of_rows(theta.node), self.edges.of_rows(theta.edge))


@dataclass(frozen=True)
class _Designs:
    """Of a field's rows what travels to them."""

    nodes: SummedDesign
    edges: SummedDesign

    def at(self, part: RowPart, *, turned: bool = False) -> FieldData:
        """Return a part in memory."""
        nodes = self.nodes.of_part(part, turned=turned)
        edges = self.edges.of_part(part, turned=turned)
        codes = np.ascontiguousarray(part.codes, dtype=np.int32)
        return FieldData(nodes, edges, codes, part.row_weights)


@dataclass(frozen=True)
class ChunkedLikelihood:
    """A negative log-likelihood of rows in chunks: that of each part, added up.

    Attributes
    ----------
    data : ChunkedFieldData
    layout : FieldLayout
    make : callable (FieldData, FieldLayout) -> FieldObjective
    """

    data: Any
    layout: FieldLayout
    make: Callable[..., Any]

    def value_and_gradient(self, theta: Parameters) -> tuple[float, Parameters]:
        """Return the objective and its gradient: one pass."""
        rows = self.data
        of_rows = rows.of_rows(theta)
        value, slope = rows.total(_value_and_gradient, self.make, self.layout, of_rows)
        gradient = Parameters(rows.nodes.gradient(slope.node), rows.edges.gradient(slope.edge))
        return value, gradient

    def value(self, theta: Parameters) -> float:
        """Return the objective alone."""
        of_rows = self.data.of_rows(theta)
        return float(self.data.total(_value, self.make, self.layout, of_rows))


@dataclass(frozen=True)
class ChunkedScores:
    """Scores of rows in chunks, computed where they are; see `RowScores`."""

    data: Any
    score: Score
    layout: FieldLayout
    theta: Parameters  # of centred rows

    def total(self) -> float:
        """Sum of the scores, by weight: one pass."""
        return float(self.data.total(_score_sum, self._spec))

    def below(self, best: ChunkedScores) -> tuple[float, float]:
        """See `RowScores.below`: one pass."""
        lost, squared = self.data.total(_loss_sums, self._spec, best._spec)
        return float(lost), float(squared)

    @property
    def _spec(self) -> tuple[Score, FieldLayout, Parameters]:
        return self.score, self.layout, self.theta


def _look(part: RowPart, marks: Flags | None, design: ChunkedDesign) -> _Look:
    part = part if marks is None else part.take(marks)
    labels = LabelSummary.of(part)
    weight = float(part.row_weights.sum())
    n_heavy = int((part.row_weights > 0).sum())
    return _Look(design.turned(part).energy(), part.n_rows, n_heavy, weight, labels.weights)


def _at_part(
    part: RowPart,
    marks: Flags | None,
    designs: _Designs,
    function: Callable[..., Any],
    arguments: tuple[Any, ...],
) -> Any:
    part = part if marks is None else part.take(marks)
    return function(designs.at(part), *arguments) if part.n_rows else None


def _chosen(part: RowPart, marks: Flags | None, heavy: bool) -> RowPart:
    part = part if marks is None else part.take(marks)
    return part.take(part.row_weights > 0) if heavy else part


def _n_selected(part: RowPart, marks: Flags | None, heavy: bool) -> tuple[tuple[int, int], ...]:
    return ((part.first, _chosen(part, marks, heavy).n_rows),)


def _every(
    part: RowPart, marks: Flags | None, heavy: bool, step: int, first: Indices, n_before: Indices
) -> RowPart:
    """Of the rows that are marked in all parts every one that is a multiple of the step."""
    before = int(n_before[np.searchsorted(first, part.first, side="right") - 1])
    return _chosen(part, marks, heavy).take(slice(-before % step, None, step))


def _value_and_gradient(
    data: FieldData, make: Any, layout: FieldLayout, theta: Parameters
) -> tuple[float, Parameters]:
    found: tuple[float, Parameters] = make(data, layout).value_and_gradient(theta)
    return found


def _value(data: FieldData, make: Any, layout: FieldLayout, theta: Parameters) -> float:
    return float(make(data, layout).value(theta))


def _score_sum(data: FieldData, spec: tuple[Score, FieldLayout, Parameters]) -> float:
    score, layout, theta = spec
    return data.scored(score, layout, theta).total()


def _loss_sums(
    data: FieldData,
    spec: tuple[Score, FieldLayout, Parameters],
    best: tuple[Score, FieldLayout, Parameters],
) -> tuple[float, float]:
    return data.scored(*spec).below(data.scored(*best))


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


# Penalties are compared with parameters tuned to this tolerance (or the user's, if looser).
_PATH_TOLERANCE = 0.3


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
    choice : Choice
        Penalties of the edges.
    candidates : (E_c, 2)
        Edges that were considered.
    profile : (iterations + 1, E_c)
        Slack of every candidate during structure learning.
    n_iter : int
        Iterations of the final tuning.
    converged : bool
    """

    field: FittedField
    choice: Choice
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
        See `ProximalGradient` and `Tuner`.
    standard_errors : float
        See `Selector`.
    n_jobs : int or None
    verbose : bool
    objective, score
        See `FieldProblem`.
    tuned : bool
        Whether the parameters of the final graph are tuned without the group term.
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

    def learn(
        self,
        linear: LinearLearning,
        models: LinearModels,
        choices: Indices,
        node_penalty: Array,
        folds: Folds | None,
    ) -> LearnedField:
        """Learn from all rows of `linear`, penalties chosen over `folds`, if rows can be held out.

        `models` are the independent regressions of all rows, `choices` their positions in the
        grid of `linear`, `node_penalty` (d,) the same as penalties.
        """
        data = linear.data
        rows: Any
        if is_chunked(data):
            rows = ChunkedFieldData.of(data, linear.design, self.edge_columns)
        else:
            rows = _field_data(data, linear.design, self.edge_columns)
        whole = self._problem(rows, None, models.coef, data.cardinalities)
        ridges, groups = self._grids(whole)
        selector_folds: list[FieldProblem] = []
        if len(ridges) * len(groups) > 1 and whole.layout.n_edges and folds is not None:
            selector_folds = self._fold_problems(rows, linear, choices, folds)
        threads = 1 if is_chunked(data) else self.n_jobs  # Dask spreads the chunks
        choice = self._choose(selector_folds, node_penalty, ridges, groups, threads)
        # One item of `map_threads` keeps BLAS to one thread: the same answer for any n_jobs.
        final = map_threads(
            lambda problem: self._final(problem, node_penalty, choice),
            [whole],
            self.n_jobs,
            lambda: None,
        )
        return final[0]

    def _grids(self, whole: FieldProblem) -> tuple[Sequence[float], Sequence[float]]:
        ridges, groups = self.ridges, self.groups
        if ridges is None:
            ridges = [share * whole.energy for share in RIDGE_GRID]
        if groups is None:
            limit = whole.group_limit
            groups = [*(share * limit for share in GROUP_GRID), 0.0]
        return ridges, groups

    def _problem(
        self,
        train: FieldData,
        held_out: FieldData | None,
        coef: Sequence[NDArray[Any]],
        cardinalities: tuple[int, ...],
    ) -> FieldProblem:
        everything = FieldLayout(cardinalities, np.empty((0, 2), dtype=np.intp))
        node = train.nodes.enter(_node_matrix(coef, cardinalities).T).T
        edges = candidate_edges(train, node, everything, self.most_candidates)
        layout = FieldLayout(cardinalities, edges)
        zero = np.zeros((train.edges.n_coordinates, layout.n_edge_columns))
        start = Parameters(node, zero)
        return FieldProblem(train, held_out, layout, start, self.objective, self.score)

    def _fold_problems(
        self, rows: FieldData, linear: LinearLearning, choices: Indices, folds: Folds
    ) -> list[FieldProblem]:
        data = linear.data
        held_out = [folds.rows_inside(fold) for fold in range(folds.n_folds)]
        kept = [folds.rows_outside(fold) for fold in range(folds.n_folds)]
        # of rows in chunks no fold is empty
        used = [
            fold
            for fold in range(folds.n_folds)
            if is_chunked(data) or (len(held_out[fold]) and len(kept[fold]))
        ]
        targets = np.arange(data.n_labels)
        groups = [RowGroup(kept[fold], targets) for fold in used]
        coef = linear.fit(groups, [choices] * len(used)).coef if used else []
        # compared to a loose tolerance, so that products may round what they read
        rough = rows if is_chunked(data) else rows.in_single()
        return [
            self._problem(
                rough.rows(kept[fold]),
                rough.rows(held_out[fold]),
                coef[place * data.n_labels : (place + 1) * data.n_labels],
                data.cardinalities,
            )
            for place, fold in enumerate(used)
        ]

    def _choose(
        self,
        folds: Sequence[FieldProblem],
        node: Array,
        ridges: Sequence[float],
        groups: Sequence[float],
        threads: int | None,
    ) -> Choice:
        if not folds:
            return Choice(max(ridges), max(groups), {}, {})
        loose = Tuner(max(self.tol, _PATH_TOLERANCE), self.max_iter)
        with progress_bar(
            "choosing penalties", len(ridges) + len(groups), shown=self.verbose
        ) as advance:
            selector = Selector(
                node,
                ProximalGradient(max_iter=self.max_iter, tol=1e-5),
                loose,
                self.standard_errors,
                threads,
                advance,
            )
            return selector.choose(folds, ridges, groups)

    def _final(self, whole: FieldProblem, node: Array, choice: Choice) -> LearnedField:
        n_edges, found = whole.layout.n_edges, None
        if choice.group == 0.0 or not np.isfinite(choice.group):
            kept = np.full(n_edges, choice.group == 0.0)
            profile = np.zeros((1, n_edges))
        else:
            strength = choice.ridge + choice.group
            solver = ProximalGradient(self.form, self.max_iter, tol=1e-6)
            penalty = Penalty(node, strength, choice.group / strength)
            # The paper draws the first slacks from (0, 1); spread evenly they can be told apart.
            spread = (np.arange(n_edges) + 1.0) / (n_edges + 1.0)
            alpha = np.asarray(spread, np.float64) if self.form == "constrained" else None
            found = whole.find_structure(penalty, solver, alpha)
            kept, profile = found.alpha > 0.0, found.profile
        if self.tuned or found is None:
            without_group = Penalty(node, choice.ridge, 0.0)
            result = whole.tune(without_group, kept, Tuner(self.tol, self.max_iter))
        else:
            result = whole.untuned(found, choice.ridge)
        theta, train = result.tuned.theta, whole.train
        field = FittedField(
            result.layout,
            train.nodes.leave(theta.node.T).T,
            train.edges.leave(theta.edge.T).T if len(self.edge_columns) else theta.edge,
            self.edge_columns,
        )
        return LearnedField(
            field,
            choice,
            whole.layout.edges,
            profile,
            max(1, result.tuned.n_iter),
            result.tuned.converged,
        )


def _field_data(data: TrainingData, nodes: Design, edge_columns: Indices) -> FieldData:
    weight = data.row_weights
    n_features = data.X.shape[1]
    if not len(edge_columns):
        edges = Design.constant(n_features, weight)
    elif len(edge_columns) == n_features:
        edges = nodes.balanced()
    else:
        edges = Design.of(data.X[:, edge_columns], weight).balanced()
    return FieldData(nodes, edges, np.ascontiguousarray(data.codes, dtype=np.int32), weight)


def _node_matrix(coef: Sequence[NDArray[Any]], cardinalities: tuple[int, ...]) -> Array:
    """Coefficients of independent regressions as node columns: the last value has score zero."""
    columns = []
    for own, size in zip(coef, cardinalities, strict=True):
        # Two values have one score, the log-odds of the second.
        full = np.concatenate([np.zeros_like(own), own]) if size == 2 else own
        columns.append((full[:-1] - full[-1:]).T)
    return np.hstack(columns)
