"""What the leaves of a forest hold: counts of label values, and averages of them over trees."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from colabel.core.arrays import Array, Codes, Flags, Indices
from colabel.core.label_features import column_owner
from colabel.core.threads import map_threads
from colabel.learn.forest._kernels import (
    Singles,
    add_without_own,
    count_labels,
    mean_over_trees,
)
from colabel.learn.forest.forest import row_blocks

__all__ = ["LeafCounts", "label_frequencies", "tree_means"]

_BYTES_AT_ONCE = 1 << 25  # of counts in leaves; those of all trees would fill the memory


@dataclass(frozen=True)
class LeafCounts:
    """Weight of the training rows in every leaf of some trees, by label value.

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

        def count(tree: int) -> None:  # trees share no leaf, so that threads do not meet
            own = np.ascontiguousarray(leaves[:, [tree]])
            count_labels(own, codes, weight, first, binary, counts, known)

        map_threads(count, list(range(leaves.shape[1])), n_jobs, lambda: None)
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

    def add_out_of_bag(
        self,
        leaves: Codes,
        used: Flags,
        codes: Codes,
        weight: Array,
        prior: Array,
        strength: float,
        total: Array,
        n_jobs: int | None = None,
    ) -> None:
        """Add to `total` (n, e) the counted rows' smoothed frequencies, each row left out.

        Parameters
        ----------
        leaves, codes
            Of the rows that were counted.
        used : (n, T)
            Trees that have not seen the row, `Grown.out_of_bag`.
        weight : (n,)
            What of a row's counted weight is left out.
        prior : (e,)
        strength : float, positive
            As in `frequencies`.
        total : (n, e)
        n_jobs : int or None
            Threads; None for all cores.
        """
        owner = self.owner
        first = np.searchsorted(owner, owner)
        binary = np.asarray(self.cardinalities)[owner] == 2
        value = np.where(binary, 1, np.arange(len(owner)) - first)

        def add(part: slice) -> None:
            add_without_own(
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
                total[part],
            )

        map_threads(add, list(row_blocks(len(codes), n_jobs)), n_jobs, lambda: None)


def label_frequencies(
    leaves: Codes,
    first_leaves: Indices,
    used: Flags,
    codes: Codes,
    cardinalities: Sequence[int],
    weight: Array,
    itself: Array,
    prior: Array,
    strength: float,
    n_jobs: int | None = None,
) -> tuple[Singles, Array]:
    """Smoothed frequencies in all leaves, and their averages out of bag, each row left out.

    Trees share no leaf, so that some at a time are counted and forgotten.

    Parameters
    ----------
    leaves : (n, T)
        Leaves of the rows, see `Forest.leaves`.
    first_leaves : (T + 1,)
        See `Forest.first_leaves`.
    used : (n, T)
        Trees that have not seen the row, `Grown.out_of_bag`; where there is none the average is
        the prior.
    codes, cardinalities, weight, n_jobs
        See `LeafCounts.of`.
    itself : (n,)
        What is left out of a row's leaves: its weight, and that of rows that are the same.
    prior, strength
        See `LeafCounts.frequencies`.

    Returns
    -------
    frequencies : (L, e) of single precision
    means : (n, e)
    """
    table = np.empty((int(first_leaves[-1]), len(prior)), dtype=np.float32)
    total = np.zeros((len(codes), len(prior)))
    most = _BYTES_AT_ONCE // (8 * (len(prior) + len(cardinalities)))
    for start, end in _tree_blocks(first_leaves, most):
        low, high = int(first_leaves[start]), int(first_leaves[end])
        own = leaves[:, start:end] - np.int32(low)
        unseen = np.ascontiguousarray(used[:, start:end])
        contents = LeafCounts.of(own, high - low, codes, cardinalities, weight, n_jobs)
        contents.add_out_of_bag(own, unseen, codes, itself, prior, strength, total, n_jobs)
        table[low:high] = contents.frequencies(prior, strength)
    n_used = used.sum(axis=1)
    total /= np.maximum(n_used, 1)[:, None]
    total[n_used == 0] = prior
    return table, total


def _tree_blocks(first_leaves: Indices, most: int) -> Iterator[tuple[int, int]]:
    """Ranges of trees with at most so many leaves together, or of one tree."""
    start = 0
    while start < len(first_leaves) - 1:
        fit = int(np.searchsorted(first_leaves, first_leaves[start] + most, side="right")) - 1
        end = max(start + 1, fit)
        yield start, end
        start = end


def tree_means(leaves: Codes, table: Array | Singles, n_jobs: int | None = None) -> Array:
    """Average (n, e) over trees of what a table (L, e) says of the rows' leaves (n, T)."""
    mean = np.empty((len(leaves), table.shape[1]))

    def average(part: slice) -> None:
        mean_over_trees(leaves[part], table, mean[part])

    map_threads(average, list(row_blocks(len(leaves), n_jobs)), n_jobs, lambda: None)
    return mean
