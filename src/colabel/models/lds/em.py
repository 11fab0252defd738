"""Maximum likelihood and expectation maximisation for the mixture of label dependency sets."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from colabel.core.arrays import Array, Codes, Indices
from colabel.core.progress import progress_bar
from colabel.core.threads import map_threads
from colabel.joint.lds.network import LDSNetwork
from colabel.joint.lds.sets import DependencySets, FeatureColumns, sums_by_state
from colabel.labels import MISSING
from colabel.models.lds import _em_kernels as kernels

__all__ = ["EMOptions", "EMTrace", "LabelledCounts", "fit_parameters"]

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
