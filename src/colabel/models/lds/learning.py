"""Learning the LDS mixture: EM for given dependency sets, and rounds that learn the sets again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.random import Generator

from colabel.core.arrays import Array, Codes, Flags, Indices
from colabel.core.numeric import log_sum_exp
from colabel.core.progress import progress_bar
from colabel.core.threads import map_threads
from colabel.joint.lds.network import DependencySets, FeatureColumns, LDSNetwork, sums_by_state
from colabel.labels import MISSING
from colabel.learn.smoothing import SmoothingScorer
from colabel.learn.structure.bayes_network import topological_order
from colabel.metrics import f1_label
from colabel.models.lds import _em_kernels as kernels

# Of the tables of P(value of a feature | state of a set): one gibibyte.
_MOST_NUMBERS = 2**27


class EMOptions(NamedTuple):
    """How EM is run.

    Attributes
    ----------
    smoothing : float
        Pseudo-count added to every count, of labels as well (Laplace smoothing).
    tol : float
        A feature is done when none of its mixture weights changes by as much.
    max_iter : int
        A feature is done after as many iterations.
    printed : bool
        Whether the M-step is the one that the paper prints, see `fit_parameters`.
    n_jobs : int or None
        Threads.
    verbose : bool
        Whether to show progress.
    """

    smoothing: float = 1.0
    tol: float = 0.05
    max_iter: int = 100
    printed: bool = False
    n_jobs: int | None = None
    verbose: bool = False


class EMTrace(NamedTuple):
    """What EM went through.

    Attributes
    ----------
    n_iter : (p,) array
        Iterations of every feature.
    objective : tuple of p arrays (n_iter + 1,)
        Log-likelihood of the feature given the labels plus the smoothing's prior, before every
        iteration and after the last one.
    """

    n_iter: Indices
    objective: tuple[Array, ...]


class LabelledCounts(NamedTuple):
    """Everything that learning needs to know of the rows, since they enter only as counts.

    Attributes
    ----------
    labels : (n, d) array
        Codes of the labels, MISSING where not observed: for the network's tables.
    weight : (n,) array
        Weights of these rows.
    vectors : (U, d) array
        Complete label vectors, ascending.
    vector_weights : (U,) array
        Weight of the rows with each.
    values : (U, C) array
        Weight of the rows with each label vector and each value of each feature.
    """

    labels: Codes
    weight: Array
    vectors: Codes
    vector_weights: Array
    values: Array

    @classmethod
    def of(
        cls, labels: Codes, features: Codes, columns: FeatureColumns, weight: Array | None
    ) -> LabelledCounts:
        """Count rows; those of weight zero do not exist, incomplete ones serve the labels only."""
        every = np.ones(len(labels)) if weight is None else np.asarray(weight, dtype=np.float64)
        complete = (labels != MISSING).all(axis=1) & (every > 0)
        vectors, position = np.unique(labels[complete], axis=0, return_inverse=True)
        position = position.reshape(-1)  # NumPy 2.0 gave it another shape
        size = len(vectors), columns.n_columns
        cells = position[:, None] * columns.n_columns + columns.positions(features[complete])
        spread = np.repeat(every[complete], columns.n_features)
        values = np.bincount(cells.ravel(), spread, minlength=size[0] * size[1]).reshape(size)
        of_vector = np.bincount(position, every[complete], minlength=len(vectors))
        return cls(
            labels,
            every,
            vectors.astype(np.int32),
            of_vector.astype(np.float64),
            values.astype(np.float64),
        )


def fit_parameters(
    counts: LabelledCounts, sets: DependencySets, columns: FeatureColumns, options: EMOptions
) -> tuple[LDSNetwork, EMTrace]:
    r"""Estimate all parameters for given label dependency sets.

    The labels' tables are smoothed frequencies. Given the label vectors the features are
    independent of each other, so that EM is a problem of its own for every feature. It starts
    from equal mixture weights and from the frequencies of the feature's values in each state of
    each set, and then alternates

    .. math:: r_{lvk} = \frac{\theta^l_k \phi_k(v \mid l_{LS_k})}
              {\sum_h \theta^l_h \phi_h(v \mid l_{LS_h})},
              \quad \theta^l_k \propto s + \sum_v n_{lv} r_{lvk},
              \quad \phi_k(v \mid z) \propto s + \sum_{l: l_{LS_k} = z} n_{lv} r_{lvk}

    where n counts rows and s is the smoothing. No iteration lowers the log-likelihood plus
    :math:`s \sum \log \theta + s \sum \log \phi`.

    The M-step that the paper prints weighs every row by :math:`P(v \mid l) = \sum_h \theta^l_h
    \phi_h(v \mid l_{LS_h})` besides, so that r becomes :math:`\theta^l_k \phi_k(v \mid l_{LS_k})`:
    values that are probable anyway count more. It may lower the likelihood, and smoothing has more
    weight beside such smaller counts. `EMOptions.printed` asks for it.
    """
    _refuse_large_tables(sets, columns)
    n_labels, most = sets.n_labels, int(sets.n_states.max())
    states = sets.states(counts.vectors)
    tallies = _tallies(counts, states, sets.n_states)
    theta = np.empty((len(counts.vectors), n_labels, columns.n_features))
    phi = np.zeros((n_labels, most, columns.n_columns))

    def work(j: int) -> Array:
        own = np.ascontiguousarray(counts.values[:, columns.of(j)])
        trace = np.empty(options.max_iter + 1)
        theta_j = np.full((len(own), n_labels), 1.0 / n_labels)
        phi_j = _frequencies(tallies, sets.n_states, columns.of(j), options.smoothing)
        n_iter = kernels.fit_feature(
            own,
            states,
            sets.n_states,
            theta_j,
            phi_j,
            float(options.smoothing),
            float(options.tol),
            options.printed,
            trace,
        )
        theta[:, :, j] = theta_j
        phi[:, :, columns.of(j)] = phi_j
        return trace[: n_iter + 1]

    every = range(columns.n_features)
    with progress_bar("mixtures of features", len(every), shown=options.verbose) as advance:
        traces = map_threads(work, every, options.n_jobs, advance)
    alpha = label_tables(counts, sets, options.smoothing)
    network = LDSNetwork(sets, columns, alpha, counts.vectors, counts.vector_weights, theta, phi)
    n_iter = np.array([len(trace) - 1 for trace in traces], dtype=np.intp)
    return network, EMTrace(n_iter, tuple(traces))


def label_tables(counts: LabelledCounts, sets: DependencySets, smoothing: float) -> Array:
    """Smoothed frequencies P(l_k | parents) for each state of each set, (d, S).

    A row counts for every set whose labels it has. Parents never seen with these values leave
    all values of the label equally probable.
    """
    tables = np.zeros((sets.n_labels, int(sets.n_states.max())))
    for k, labels in enumerate(sets.members):
        known = (counts.labels[:, labels] != MISSING).all(axis=1)
        state = counts.labels[known][:, labels].astype(np.intp) @ sets.strides[k, list(labels)]
        found = np.bincount(state, counts.weight[known], minlength=sets.n_states[k])
        rows = found.reshape(-1, sets.cardinalities[k]) + smoothing
        total = rows.sum(axis=1, keepdims=True)
        rows = np.where(total > 0, rows / np.where(total > 0, total, 1.0), 1.0 / rows.shape[1])
        tables[k, : sets.n_states[k]] = rows.ravel()
    return tables


def _tallies(counts: LabelledCounts, states: Indices, n_states: Indices) -> Array:
    """How often each value of each feature occurs in each state of each set, (d, S, C)."""
    most = int(n_states.max())
    return np.stack([sums_by_state(own, most, counts.values) for own in states.T])


def _refuse_large_tables(sets: DependencySets, columns: FeatureColumns) -> None:
    """Raise ValueError where the features' tables would not fit into the memory."""
    most = int(sets.n_states.max())
    n_numbers = sets.n_labels * most * columns.n_columns
    if n_numbers > _MOST_NUMBERS:
        raise ValueError(
            f"The features' tables have {n_numbers:,} numbers ({n_numbers * 8 / 2**30:.1f} GiB): "
            f"{sets.n_labels} label sets of up to {most:,} states, {columns.n_columns:,} values of "
            f"features. At most {_MOST_NUMBERS:,} are allowed: set max_parents=1 or 0, or use "
            "fewer bins, fewer features, or labels of fewer values."
        )


def _frequencies(tallies: Array, n_states: Indices, columns: slice, smoothing: float) -> Array:
    """Smoothed frequencies (d, S, V) of a feature's values in each state of each set."""
    own = np.ascontiguousarray(tallies[:, :, columns])
    found = np.zeros_like(own)
    for k in range(len(own)):
        kernels.smoothed(own[k, : n_states[k]], float(smoothing), found[k, : n_states[k]])
    return found


def sample_rows(network: LDSNetwork, n_rows: int, rng: Generator) -> tuple[Codes, Codes]:
    """Draw labels in topological order, then every feature given the label vector.

    Returns
    -------
    labels : (n, d) array of int32
    features : (n, p) array of int32
    """
    sets, columns = network.sets, network.columns
    labels = np.zeros((n_rows, sets.n_labels), dtype=np.int32)
    for i in topological_order(sets.parents):
        # label i is still 0, so the state is that of its first value, and the others follow
        first = sets.states(labels)[:, i]
        table = network.alpha[i][first[:, None] + np.arange(sets.cardinalities[i])]
        labels[:, i] = _draw(table, rng)
    features = np.empty((n_rows, columns.n_features), dtype=np.int32)
    vectors, position = np.unique(labels, axis=0, return_inverse=True)
    conditional = np.exp(network.log_conditional(vectors))
    for j in range(columns.n_features):
        features[:, j] = _draw(conditional[position.reshape(-1), columns.of(j)], rng)
    return labels, features


def _draw(table: Array, rng: Generator) -> Codes:
    """Draw one value a row from probabilities (n, K)."""
    cumulated = table.cumsum(axis=1)
    uniform = rng.random(len(table)) * cumulated[:, -1]
    found: Codes = (uniform[:, None] >= cumulated[:, :-1]).sum(axis=1).astype(np.int32)
    return found


Criterion = Literal["hamming", "f1"]
# While the smoothing is chosen EM stops here at the latest, as the paper does.
_COARSE = 0.05
CRITERIA: tuple[Criterion, ...] = get_args(Criterion)
Parents = tuple[tuple[int, ...], ...]
StructureLearner = Callable[[Codes, Array], Parents]


@dataclass(frozen=True)
class TrainingRows:
    """Labels and features in codes.

    Attributes
    ----------
    labels : (n, d) array
        Codes, MISSING where a label was not observed.
    cardinalities : tuple of d int
    features : (n, p) array
    columns : FeatureColumns
    weight : (n,) array
    """

    labels: Codes
    cardinalities: tuple[int, ...]
    features: Codes
    columns: FeatureColumns
    weight: Array

    def complete(self) -> TrainingRows:
        """Return the rows whose labels are all observed and whose weight is positive."""
        return self.some(np.flatnonzero(self.is_complete))

    @property
    def is_complete(self) -> Flags:
        """Whether a row has all its labels and counts at all, (n,)."""
        found: Flags = (self.labels != MISSING).all(axis=1) & (self.weight > 0)
        return found

    def some(self, rows: Indices) -> TrainingRows:
        """Return the rows at these positions."""
        return TrainingRows(
            self.labels[rows],
            self.cardinalities,
            self.features[rows],
            self.columns,
            self.weight[rows],
        )

    def counts(self) -> LabelledCounts:
        """Count the rows."""
        return LabelledCounts.of(self.labels, self.features, self.columns, self.weight)


class LearnedNetwork(NamedTuple):
    """What learning found.

    Attributes
    ----------
    network : LDSNetwork
        The model of the last round that improved on the one before.
    trace : EMTrace
        Its EM.
    scores : tuple of float
        Training performance of the labels inferred by the model of each round; the last one
        did not improve, unless the rounds ran out or nothing was left to change.
    """

    network: LDSNetwork
    trace: EMTrace
    scores: tuple[float, ...]


def learn_network(
    rows: TrainingRows,
    structure: StructureLearner,
    options: EMOptions,
    *,
    criterion: Criterion = "hamming",
    max_rounds: int = 10,
) -> LearnedNetwork:
    """Learn structure and parameters in rounds, as in Figure 4 of the paper.

    The first network is learned from the training labels, each further one from the labels that
    the model before inferred for the training rows. The parameters always come from the training
    labels. A model that infers the training labels no better than the one before ends the rounds,
    and the one before is returned.

    Parameters
    ----------
    rows : TrainingRows
        At least one of them complete.
    structure : callable
        From codes (m, d) without missing entries and weights (m,) to the parents of each label.
    options : EMOptions
    criterion : {"hamming", "f1"}
        Training performance: the share of labels inferred right, or `colabel.metrics.f1_label`.
    max_rounds : int
        Most networks after the first.
    """
    known = rows.complete()
    counts = rows.counts()

    def fit(parents: Parents) -> tuple[LDSNetwork, EMTrace]:
        sets = DependencySets.of(parents, rows.cardinalities)
        return fit_parameters(counts, sets, rows.columns, options)

    parents = structure(known.labels, known.weight)
    best = fit(parents)
    if max_rounds == 0:
        return LearnedNetwork(*best, ())
    inferred, score = infer_labels(
        best[0], known, np.zeros_like(known.labels), criterion, options.n_jobs
    )
    scores = [score]
    with progress_bar("rounds", max_rounds, shown=options.verbose) as advance:
        for _ in range(max_rounds):
            new_parents = structure(inferred, known.weight)
            if new_parents == parents:
                break  # the same network has the same parameters
            candidate = fit(new_parents)
            inferred, score = infer_labels(candidate[0], known, inferred, criterion, options.n_jobs)
            scores.append(score)
            advance()
            if score <= scores[-2]:
                break
            parents, best = new_parents, candidate
    return LearnedNetwork(*best, tuple(scores))


def smoothing_scorer(
    rows: TrainingRows, structure: StructureLearner, options: EMOptions, grid: Sequence[float]
) -> SmoothingScorer:
    """Return what `choose_smoothing` needs: a first network and its parameters for each value.

    The labels held out are scored among the label vectors seen and the neighbours of the best of
    these: all vectors would take long.
    """

    def score(left: Array, held_out: Indices) -> Array:
        known = replace(rows, weight=left)
        first = known.complete()
        sets = DependencySets.of(structure(first.labels, first.weight), rows.cardinalities)
        counts, found = known.counts(), []
        for value in grid:
            own = options._replace(
                smoothing=float(value), tol=max(options.tol, _COARSE), verbose=False
            )
            network, _ = fit_parameters(counts, sets, rows.columns, own)
            found.append(_log_prob_nearby(network, rows.some(held_out)))
        return np.stack(found)

    return score


def _log_prob_nearby(network: LDSNetwork, rows: TrainingRows) -> Array:
    """Log-probability (n,) of each row's labels among vectors that are easy to list."""
    seen = network.seen_scores(rows.features)
    best = network.vectors[seen.argmax(axis=1)]
    codes, nearby = network.neighbours(rows.features, best)
    own = network.log_joint(rows.features, rows.labels)
    listed = (network.seen_positions(rows.labels) >= 0) | (
        (codes == rows.labels[:, None]).all(axis=2) & np.isfinite(nearby)
    ).any(axis=1)
    extra = np.where(listed, -np.inf, own)[:, None]
    return own - log_sum_exp(np.concatenate([seen, nearby, extra], axis=1))


def infer_labels(
    network: LDSNetwork,
    rows: TrainingRows,
    start: Codes,
    criterion: Criterion,
    n_jobs: int | None,
) -> tuple[Codes, float]:
    """Infer the labels of training rows, as in Figure 5 of the paper.

    One dependency set after the other takes its most probable values given all other labels, in
    all rows, and keeps them if the training performance improves. Sweeps go on as long as one of
    them improves it.

    Returns
    -------
    codes : (n, d) array
    score : float
        Their training performance.
    """
    seen_scores = network.seen_scores(rows.features)
    inferred, score = start, performance(rows, start, criterion)
    # what a set proposed last, and for which labels: it is asked again only where these changed
    asked = np.full((network.sets.n_labels, *start.shape), MISSING, dtype=np.int32)
    answered = asked.copy()
    improved = True
    while improved:
        improved = False
        for k in range(network.sets.n_labels):
            new = np.flatnonzero((asked[k] != inferred).any(axis=1))
            asked[k, new] = inferred[new]
            answered[k, new] = network.ascend(
                rows.features[new],
                inferred[new],
                sets=[k],
                max_sweeps=1,
                seen_scores=seen_scores[new],
                n_jobs=n_jobs,
            )
            new_score = performance(rows, answered[k], criterion)
            if new_score > score:
                inferred, score, improved = answered[k].copy(), new_score, True
    return inferred, score


def performance(rows: TrainingRows, inferred: Codes, criterion: Criterion) -> float:
    """Return how well labels are inferred, between 0 and 1."""
    if criterion == "f1":
        return f1_label(rows.labels, inferred, sample_weight=rows.weight)
    right = (rows.labels == inferred).mean(axis=1)
    return float(np.average(right, weights=rows.weight))
