"""The outer loop of learning: the network is learned again from the labels the model infers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, get_args

import numpy as np

from colabel.core.arrays import Array, Codes, Flags, Indices
from colabel.core.numeric import log_sum_exp
from colabel.core.progress import progress_bar
from colabel.joint.lds.network import LDSNetwork
from colabel.joint.lds.sets import DependencySets, FeatureColumns
from colabel.labels import MISSING
from colabel.learn.smoothing import SmoothingScorer
from colabel.metrics import f1_label
from colabel.models.lds.em import EMOptions, EMTrace, LabelledCounts, fit_parameters

__all__ = [
    "Criterion",
    "LearnedNetwork",
    "Parents",
    "StructureLearner",
    "TrainingRows",
    "learn_network",
    "smoothing_scorer",
]

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
