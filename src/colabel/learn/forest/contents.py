"""What the leaves of a forest hold: counts of label values, and averages of them over trees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from colabel.core.arrays import Array, Codes, Flags, Indices
from colabel.core.label_features import column_owner
from colabel.core.threads import map_threads
from colabel.learn.forest._kernels import (
    Singles,
    count_labels,
    mean_over_trees,
    mean_without_own,
)
from colabel.learn.forest.forest import row_blocks

__all__ = ["LeafCounts", "tree_means"]

_TREES_AT_ONCE = 16


@dataclass(frozen=True)
class LeafCounts:
    """Weight of the training rows in every leaf, by label value.

    Values stand in label columns (`core.label_features`): one for the value 1 of a variable of two
    values, K for one of K.

    Attributes
    ----------
    cardinalities : (d,)
    counts : (L, e)
        Weight of the rows with the value of each column.
    known : (L, d)
        Weight of the rows whose label is known.
    """

    cardinalities: tuple[int, ...]
    counts: Array
    known: Array

    @classmethod
    def of(
        cls,
        leaves: Codes,
        n_leaves: int,
        codes: Codes,
        cardinalities: Sequence[int],
        weight: Array | None = None,
        n_jobs: int | None = None,
    ) -> LeafCounts:
        """Count the labels of rows.

        Parameters
        ----------
        leaves : (n, T)
            Leaves of the rows, see `Forest.leaves`.
        n_leaves : int
        codes : (n, d)
            Labels; negative where one is not known.
        cardinalities : (d,)
        weight : (n,), optional
        n_jobs : int or None
            Threads; None for all cores.
        """
        owner = column_owner(cardinalities)
        first = np.searchsorted(owner, np.arange(len(cardinalities)))
        binary = np.asarray(cardinalities) == 2
        counts = np.zeros((n_leaves, len(owner)))
        known = np.zeros((n_leaves, len(cardinalities)))
        weight = np.ones(len(codes)) if weight is None else weight

        def count(start: int) -> None:  # trees share no leaf, so that threads do not meet
            part = np.ascontiguousarray(leaves[:, start : start + _TREES_AT_ONCE])
            count_labels(part, codes, weight, first, binary, counts, known)

        starts = list(range(0, leaves.shape[1], _TREES_AT_ONCE))
        map_threads(count, starts, n_jobs, lambda: None)
        return cls(tuple(int(size) for size in cardinalities), counts, known)

    @property
    def owner(self) -> Indices:
        """The variable (e,) each column belongs to."""
        return column_owner(self.cardinalities)

    def frequencies(self, prior: Array, strength: float) -> Array:
        """Smoothed frequencies (L, e): `strength` rows more in each leaf, distributed as `prior`.

        A leaf in which no label of a variable is known has the prior (e,).
        """
        known = self.known[:, self.owner]
        smoothed: Array = (self.counts + strength * prior) / np.maximum(known + strength, 1e-300)
        return np.where(known + strength > 0, smoothed, prior)

    def out_of_bag_means(
        self,
        leaves: Codes,
        used: Flags,
        codes: Codes,
        weight: Array | None,
        prior: Array,
        strength: float,
        n_jobs: int | None = None,
    ) -> Array:
        """Average smoothed frequencies (n, e) of the counted rows themselves, each left out.

        Parameters
        ----------
        leaves, codes, weight
            Of the rows that were counted.
        used : (n, T)
            Trees that have not seen the row, `Grown.out_of_bag`; where there is none the prior
            stands.
        prior : (e,)
        strength : float, positive
            As in `frequencies`.
        n_jobs : int or None
            Threads; None for all cores.
        """
        owner = self.owner
        first = np.searchsorted(owner, owner)
        binary = np.asarray(self.cardinalities)[owner] == 2
        value = np.where(binary, 1, np.arange(len(owner)) - first)
        weight = np.ones(len(codes)) if weight is None else weight
        mean = np.empty((len(codes), len(owner)))

        def average(part: slice) -> None:
            mean_without_own(
                leaves[part],
                codes[part],
                weight[part],
                used[part],
                owner,
                value,
                self.counts,
                self.known,
                prior,
                strength,
                mean[part],
            )

        map_threads(average, list(row_blocks(len(codes), n_jobs)), n_jobs, lambda: None)
        return mean


def tree_means(leaves: Codes, table: Array | Singles, n_jobs: int | None = None) -> Array:
    """Average (n, e) over trees of what a table (L, e) says of the rows' leaves (n, T)."""
    mean = np.empty((len(leaves), table.shape[1]))

    def average(part: slice) -> None:
        mean_over_trees(leaves[part], table, mean[part])

    map_threads(average, list(row_blocks(len(leaves), n_jobs)), n_jobs, lambda: None)
    return mean
