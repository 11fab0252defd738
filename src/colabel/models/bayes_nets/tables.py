"""The tables of an ensemble of Bayesian networks: star-shaped over the labels, shared features."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from colabel.core.arrays import Array, Codes, Indices
from colabel.core.schema import Many, Numbers, Positions, Whole, stored
from colabel.joint.lds.sets import FeatureColumns, sums_by_state
from colabel.labels import MISSING
from colabel.models.bayes_nets.feature_arcs import label_state
from colabel.models.lds.em import LabelledCounts
from colabel.models.lds.rounds import Parents, TrainingRows

__all__ = ["EnsembleTables", "FeatureFactor", "ensemble_tables"]


@stored(
    "feature-factor",
    parents=Many(Whole()),
    features=Positions("m", below=2**53),
    log_tables=Many(Numbers("_ _"), "m"),
)
class FeatureFactor(NamedTuple):
    """All features with the same parents.

    Attributes
    ----------
    parents : tuple of int
        Labels, ascending.
    features : (m,) array of int
    log_tables : tuple of m arrays (S, V_j)
        log P(x_j | state of the parents).
    """

    parents: tuple[int, ...]
    features: Indices
    log_tables: tuple[Array, ...]

    def scores(self, codes: Codes) -> Array:
        """Sum of the log-probabilities of these features, (n, S)."""
        found = np.zeros((len(codes), len(self.log_tables[0])))
        for j, table in zip(self.features, self.log_tables, strict=True):
            found += table.T[codes[:, j]]
        return found


class EnsembleTables(NamedTuple):
    """Everything the members know.

    Attributes
    ----------
    feature_parents : tuple of p tuples of int
    labels : list of d arrays (K_i,)
        log P(y_i).
    arcs : dict of (r, i) to arrays (K_r, K_i)
        log P(y_i | y_r).
    factors : tuple of FeatureFactor
    """

    feature_parents: Parents
    labels: list[Array]
    arcs: dict[tuple[int, int], Array]
    factors: tuple[FeatureFactor, ...]

    def potentials(
        self, codes: Codes, root: int | None = None
    ) -> tuple[list[Array], Indices, list[Array]]:
        """Log P(y, x) of a member, or the mean over the members, as sums over labels and pairs.

        Parameters
        ----------
        codes : (n, p) array
            Codes of the features.
        root : int or None
            Root of the member; None for the mean.

        Returns
        -------
        unary : list of d arrays (n, K_i)
        edges : (E, 2) array
        tables : list of E arrays (n, K_i, K_j) or (1, K_i, K_j)
        """
        sizes = [len(table) for table in self.labels]
        roots = range(len(sizes)) if root is None else [root]
        unary = [np.zeros((len(codes), size)) for size in sizes]
        tables: dict[tuple[int, int], Array] = {}
        for r in roots:
            unary[r] += self.labels[r] / len(roots)
            for i in range(len(sizes)):
                if i != r:
                    _add(tables, r, i, self.arcs[r, i][None] / len(roots))
        for factor in self.factors:
            scores = factor.scores(codes)
            if len(factor.parents) == 1:
                unary[factor.parents[0]] += scores
            elif factor.parents:
                first, second = factor.parents
                _add(tables, first, second, scores.reshape(-1, sizes[first], sizes[second]))
        edges = sorted(tables)
        ends = np.array(edges, dtype=np.intp).reshape(-1, 2)
        return unary, ends, [tables[edge] for edge in edges]


def ensemble_tables(rows: TrainingRows, parents: Parents, smoothing: float) -> EnsembleTables:
    """Estimate all tables as smoothed frequencies.

    A row counts for every pair of labels it has; for the features, if it has all labels.
    """
    every = range(len(rows.cardinalities))
    return EnsembleTables(
        parents,
        [_label_table(rows, (i,), smoothing)[0] for i in every],
        {(r, i): _label_table(rows, (r, i), smoothing) for r in every for i in every if r != i},
        _factors(rows.counts(), rows.columns, rows.cardinalities, parents, smoothing),
    )


def _factors(
    counts: LabelledCounts,
    columns: FeatureColumns,
    cardinalities: tuple[int, ...],
    parents: Parents,
    smoothing: float,
) -> tuple[FeatureFactor, ...]:
    """Tables of the features, gathered by their parents."""
    found = []
    for labels in sorted(set(parents)):
        own = [j for j, other in enumerate(parents) if other == labels]
        state, n_states = label_state(counts.vectors, labels, cardinalities)
        tally = sums_by_state(state, n_states, counts.values)
        tables = [_log_rows(tally[:, columns.of(j)], smoothing) for j in own]
        found.append(FeatureFactor(labels, np.array(own, dtype=np.intp), tuple(tables)))
    return tuple(found)


def _label_table(rows: TrainingRows, labels: tuple[int, ...], smoothing: float) -> Array:
    """Log P(last label | the one before), (K_r, K_i); (1, K_i) without one before."""
    known = (rows.labels[:, labels] != MISSING).all(axis=1)
    state, n_states = label_state(rows.labels[known], labels, rows.cardinalities)
    counts = np.bincount(state, rows.weight[known], minlength=n_states).astype(np.float64)
    return _log_rows(counts.reshape(-1, rows.cardinalities[labels[-1]]), smoothing)


def _log_rows(counts: Array, smoothing: float) -> Array:
    """Logarithms of smoothed frequencies, rows summing to one."""
    smoothed = counts + smoothing
    found: Array = np.log(smoothed / smoothed.sum(axis=1, keepdims=True))
    return found


def _add(tables: dict[tuple[int, int], Array], i: int, j: int, table: Array) -> None:
    """Add a table (n or 1, K_i, K_j) to that of an edge."""
    if i > j:
        i, j, table = j, i, table.transpose(0, 2, 1)
    tables[i, j] = tables[i, j] + table if (i, j) in tables else table
