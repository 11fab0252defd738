"""Learning the LDS mixture: EM for given dependency sets, and rounds that learn the sets again."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, NamedTuple, get_args

import numpy as np

from colabel.core.arrays import Array, Codes, Indices
from colabel.core.compiling import njit
from colabel.core.numeric import log_sum_exp
from colabel.core.progress import progress_bar
from colabel.core.threads import map_threads
from colabel.joint.lds.network import DependencySets, FeatureColumns, LDSNetwork, sums_by_state
from colabel.labels import MISSING
from colabel.learn.structure.bayes_network import Parents
from colabel.metrics import f1_label
from colabel.models.discrete_features import SmoothingScorer

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


@dataclass(frozen=True)
class TrainingRows:
    """Labels and features in codes.

    Attributes
    ----------
    labels : (n, d) array
        Codes, all of them known or drawn.
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

    def weighted(self) -> TrainingRows:
        """Return the rows of positive weight."""
        return self.some(np.flatnonzero(self.weight > 0))

    def some(self, rows: Indices) -> TrainingRows:
        """Return the rows at these positions."""
        return replace(
            self,
            labels=self.labels[rows],
            features=self.features[rows],
            weight=self.weight[rows],
        )

    @cached_property
    def counts(self) -> tuple[Codes, Array, Array]:
        """What EM needs to know of the rows.

        Their label vectors (U, d), ascending; the weight (U,) of the rows with each; and the weight
        (U, C) of those with each value of each feature.
        """
        known, columns = self.weighted(), self.columns
        vectors, position = np.unique(known.labels, axis=0, return_inverse=True)
        position = position.reshape(-1)  # NumPy 2.0 gave it another shape
        size = len(vectors), columns.n_columns
        cells = position[:, None] * columns.n_columns + columns.positions(known.features)
        spread = np.repeat(known.weight, columns.n_features)
        values = np.bincount(cells.ravel(), spread, minlength=size[0] * size[1]).reshape(size)
        of_vector = np.bincount(position, known.weight, minlength=len(vectors))
        return vectors.astype(np.int32), of_vector.astype(np.float64), values.astype(np.float64)


@njit(nogil=True, cache=True, error_model="numpy")
def expect(
    counts: Array,
    states: Indices,
    theta: Array,
    phi: Array,
    theta_counts: Array,
    phi_counts: Array,
    printed: bool,
) -> float:
    """E-step: fill the expected counts, and return the log-likelihood of the feature.

    Pr(lambda = k | v, l) = theta[l, k] phi[k, s_k(l), v] / sum of the same over k.

    A row counts once; with `printed` Pr(v | l) times, which is that sum over k.

    counts (U, V) tells how often value v occurs with label vector l; states (U, d), theta (U, d),
    phi (d, S, V).
    """
    n_vectors, n_values = counts.shape
    n_sets = theta.shape[1]
    total, scale = np.empty(n_values), np.empty(n_values)
    phi_counts[:] = 0.0
    log_likelihood = 0.0
    for u in range(n_vectors):
        total[:] = 0.0
        for k in range(n_sets):
            weight, table = theta[u, k], phi[k, states[u, k]]
            for v in range(n_values):
                total[v] += weight * table[v]
        for v in range(n_values):
            scale[v] = 0.0
            if counts[u, v] > 0.0:
                log_likelihood += counts[u, v] * math.log(total[v])
                scale[v] = counts[u, v] if printed else counts[u, v] / total[v]
        for k in range(n_sets):
            weight, table, tally = theta[u, k], phi[k, states[u, k]], phi_counts[k, states[u, k]]
            expected_of_set = 0.0
            for v in range(n_values):
                expected = weight * table[v] * scale[v]
                tally[v] += expected
                expected_of_set += expected
            theta_counts[u, k] = expected_of_set
    return log_likelihood


@njit(nogil=True, cache=True, error_model="numpy")
def smoothed(counts: Array, pseudo: float, table: Array) -> float:
    """M-step: set each row of table (m, n) to its counts plus `pseudo`, divided by their sum.

    A row without any count becomes uniform. Returns the largest change of an entry.
    """
    n_rows, n_entries = counts.shape
    change = 0.0
    for row in range(n_rows):
        total = 0.0
        for entry in range(n_entries):
            total += counts[row, entry] + pseudo
        for entry in range(n_entries):
            value = (counts[row, entry] + pseudo) / total if total > 0.0 else 1.0 / n_entries
            change = max(change, abs(value - table[row, entry]))
            table[row, entry] = value
    return change


@njit(nogil=True, cache=True, error_model="numpy")
def log_sum(table: Array) -> float:
    """Sum of the logarithms of all entries."""
    total = 0.0
    for value in table.flat:
        total += math.log(value)
    return total


@njit(nogil=True, cache=True, error_model="numpy")
def fit_feature(
    counts: Array,
    states: Indices,
    n_states: Indices,
    theta: Array,
    phi: Array,
    pseudo: float,
    tol: float,
    printed: bool,
    trace: Array,
) -> int:
    """Run EM until no entry of theta changes by `tol` or more, or the trace is full.

    theta (U, d) and phi (d, S, V) are changed in place. trace (max_iter + 1,) receives the
    objective before each iteration and after the last one: the log-likelihood plus `pseudo` times
    the sum of log theta and log phi, which smoothed counts maximise (those of `printed` may lower
    it). Returns the iterations.
    """
    n_sets = theta.shape[1]
    theta_counts, phi_counts = np.empty_like(theta), np.empty_like(phi)
    n_iter, change = 0, np.inf
    while True:
        trace[n_iter] = expect(counts, states, theta, phi, theta_counts, phi_counts, printed)
        if pseudo > 0.0:
            trace[n_iter] += pseudo * log_sum(theta)
            for k in range(n_sets):
                trace[n_iter] += pseudo * log_sum(phi[k, : n_states[k]])
        if change < tol or n_iter == trace.size - 1:
            return n_iter
        change = smoothed(theta_counts, pseudo, theta)
        for k in range(n_sets):
            smoothed(phi_counts[k, : n_states[k]], pseudo, phi[k, : n_states[k]])
        n_iter += 1


def fit_parameters(
    rows: TrainingRows, sets: DependencySets, options: EMOptions
) -> tuple[LDSNetwork, list[Array]]:
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

    Returns
    -------
    network : LDSNetwork
    traces : list of p arrays (iterations + 1,)
        Log-likelihood of each feature given the labels plus the smoothing's prior, before every
        iteration and after the last one.
    """
    vectors, vector_weights, values = rows.counts
    columns, n_labels, most = rows.columns, sets.n_labels, int(sets.n_states.max())
    n_numbers = n_labels * most * columns.n_columns
    if n_numbers > _MOST_NUMBERS:
        raise ValueError(
            f"The features' tables have {n_numbers:,} numbers ({n_numbers * 8 / 2**30:.1f} GiB): "
            f"{n_labels} label sets of up to {most:,} states, {columns.n_columns:,} values of "
            f"features. At most {_MOST_NUMBERS:,} are allowed: set max_parents=1 or 0, or use "
            "fewer bins, fewer features, or labels of fewer values."
        )
    states = sets.states(vectors)
    # how often each value of each feature occurs in each state of each set, (d, S, C)
    tallies = np.stack([sums_by_state(own, most, values) for own in states.T])
    theta = np.empty((len(vectors), n_labels, columns.n_features))
    phi = np.zeros((n_labels, most, columns.n_columns))

    def work(j: int) -> Array:
        tally = np.ascontiguousarray(tallies[:, :, columns.of(j)])
        phi_j = np.zeros_like(tally)
        for k, n_states in enumerate(sets.n_states):
            smoothed(tally[k, :n_states], float(options.smoothing), phi_j[k, :n_states])
        theta_j = np.full((len(vectors), n_labels), 1.0 / n_labels)
        trace = np.empty(options.max_iter + 1)
        n_iter = fit_feature(
            np.ascontiguousarray(values[:, columns.of(j)]),
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
    # P(l_k | parents) for each state of each set
    alpha = np.zeros((n_labels, most))
    for k, labels in enumerate(sets.members):
        state = rows.labels[:, labels].astype(np.intp) @ sets.strides[k, list(labels)]
        counts = np.bincount(state, rows.weight, minlength=sets.n_states[k])
        tally = counts.reshape(-1, sets.cardinalities[k]).astype(np.float64)
        smoothed(tally, float(options.smoothing), alpha[k, : sets.n_states[k]].reshape(tally.shape))
    return LDSNetwork(sets, columns, alpha, vectors, vector_weights, theta, phi), traces


Criterion = Literal["hamming", "f1"]
# While the smoothing is chosen EM stops here at the latest, as the paper does.
_COARSE = 0.05
CRITERIA: tuple[Criterion, ...] = get_args(Criterion)
StructureLearner = Callable[[Codes, Array], Parents]


def learn_network(
    rows: TrainingRows,
    structure: StructureLearner,
    options: EMOptions,
    *,
    criterion: Criterion = "hamming",
    max_rounds: int = 10,
) -> tuple[LDSNetwork, list[Array], tuple[float, ...]]:
    """Learn structure and parameters in rounds, as in Figure 4 of the paper.

    The first network is learned from the training labels, each further one from the labels that
    the model before inferred for the training rows. The parameters always come from the training
    labels. A model that infers the training labels no better than the one before ends the rounds,
    and the one before is returned.

    Parameters
    ----------
    rows : TrainingRows
        At least one of them of positive weight.
    structure : callable
        From codes (m, d) without missing entries and weights (m,) to the parents of each label.
    options : EMOptions
    criterion : {"hamming", "f1"}
        Training performance: the share of labels inferred right, or `colabel.metrics.f1_label`.
    max_rounds : int
        Most networks after the first.

    Returns
    -------
    network : LDSNetwork
        The model of the last round that improved on the one before.
    traces : list of p arrays
        Of its EM, see `fit_parameters`.
    scores : tuple of float
        Training performance of the labels inferred by the model of each round; the last one
        did not improve, unless the rounds ran out or nothing was left to change.
    """
    known = rows.weighted()

    def fit(parents: Parents) -> tuple[LDSNetwork, list[Array]]:
        return fit_parameters(rows, DependencySets.of(parents, rows.cardinalities), options)

    parents = structure(known.labels, known.weight)
    best = fit(parents)
    if max_rounds == 0:
        return *best, ()
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
    return *best, tuple(scores)


def smoothing_scorer(
    rows: TrainingRows, structure: StructureLearner, options: EMOptions, grid: Sequence[float]
) -> SmoothingScorer:
    """Return what `choose_smoothing` needs: a first network and its parameters for each value.

    The labels held out are scored among the label vectors seen and the neighbours of the best of
    these: all vectors would take long.
    """

    def score(left: Array, held_out: Indices) -> Array:
        known = replace(rows, weight=left)
        first = known.weighted()
        sets = DependencySets.of(structure(first.labels, first.weight), rows.cardinalities)
        found = []
        for value in grid:
            own = options._replace(
                smoothing=float(value), tol=max(options.tol, _COARSE), verbose=False
            )
            network, _ = fit_parameters(known, sets, own)
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
