"""What a forest says of rows, smoothed: values of labels, pairs of labels, gains of pairs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from colabel.core.arrays import Array, Codes, Flags, Indices
from colabel.core.threads import map_threads
from colabel.models.forest._kernels import pair_gains

# The share of a smoothed probability that is the frequency in all rows.
_SHRINKAGE = 0.02
_BLOCKS = 16  # of rows, whatever the number of threads: sums keep their order
# Steps of the loop over pairs of labels, beyond which fewer rows are looked at, and how few.
_MOST_STEPS = 1 << 33
_STEPS_OF_A_LOGARITHM = 8
_FEWEST_ROWS = 500


@dataclass(frozen=True)
class Evidence:
    r"""Lists of label vectors of rows, and the counts to which sums over the lists are shrunk.

    .. math:: P(A \mid x) = (1 - \epsilon) \sum_{v \in A} P_{leaf}(v \mid x)
        + \epsilon \, \frac{n(A) + a}{n + 1}

    with n(A) the weight of all rows with a vector of A, and a the share of A if all values were
    equally frequent. Nothing has probability zero. A training row is not in its own counts.

    Attributes
    ----------
    lists : CSR (n, V)
        Distributions of label vectors; a row without entries has the frequencies alone.
    vectors : (V, d)
    counts : (V,)
    cardinalities : (d,)
    own : CSR (n, V), optional
        What of the counts is the row itself.
    """

    lists: sp.csr_array
    vectors: Codes
    counts: Array
    cardinalities: tuple[int, ...]
    own: sp.csr_array | None = None

    def take(self, rows: Indices) -> Evidence:
        """Return what is said of some rows; nothing of a row -1."""
        some, there = np.maximum(rows, 0), sp.diags_array((rows >= 0).astype(np.float64))
        lists = sp.csr_array(there @ self.lists[some])
        lists.eliminate_zeros()
        own = None if self.own is None else sp.csr_array(there @ self.own[some])
        return replace(self, lists=lists, own=own)

    @property
    def listed(self) -> Flags:
        """Rows (n,) that have a list."""
        return np.diff(self.lists.indptr) > 0

    @property
    def trust(self) -> Array:
        """Weight (n,) of a row's list in smoothed sums."""
        return np.where(self.listed, 1.0 - _SHRINKAGE, 0.0)

    @property
    def others(self) -> Array:
        """Weight (n, 1) of the rows that are counted."""
        total = np.full((self.lists.shape[0], 1), self.counts.sum())
        if self.own is not None:
            total -= self.own.sum(axis=1)[:, None]
        counted: Array = np.maximum(total, 0.0)
        return counted

    def smoothed(self, cells: Array, prior: Array) -> Array:
        """Smoothed probabilities (n, c) of sets of vectors, given as 0/1 columns (V, c)."""
        far = np.broadcast_to(self.counts @ cells, (self.lists.shape[0], cells.shape[1]))
        if self.own is not None:
            far = np.maximum(far - self.own @ cells, 0.0)
        trust = self.trust[:, None]
        found: Array = trust * (self.lists @ cells)
        found += (1.0 - trust) * (far + prior) / (self.others + 1.0)
        return found

    def log_values(self) -> list[Array]:
        """Logarithms of the smoothed P(y_i | x), arrays (n, K_i)."""
        sizes = np.asarray(self.cardinalities)
        prior = np.repeat(1.0 / sizes, sizes)
        tables = self.smoothed(value_columns(self.vectors, self.cardinalities), prior)
        split = np.split(tables, np.cumsum(sizes)[:-1], axis=1)
        return [np.log(table / table.sum(axis=1, keepdims=True)) for table in split]

    def log_tree(self, parents: Indices, log_values: list[Array]) -> list[Array]:
        """Logarithms of P(y_i | y_parent, x), arrays (n, P_i, K_i): the tables of a `Tree`."""
        edges = [(int(parent), i) for i, parent in enumerate(parents) if parent >= 0]
        cells = pair_columns(self.vectors, self.cardinalities, edges)
        shapes = [(self.cardinalities[i], self.cardinalities[j]) for i, j in edges]
        areas = np.array([a * b for a, b in shapes], dtype=np.intp)
        found = self.smoothed(cells, np.repeat(1.0 / areas, areas))
        tables = [table[:, None, :] for table in log_values]
        ends = np.cumsum(areas)
        for (_, child), shape, area, end in zip(edges, shapes, areas, ends, strict=True):
            pairs = found[:, end - area : end].reshape(-1, *shape)
            tables[child] = np.log(pairs / pairs.sum(axis=2, keepdims=True))
        return tables

    def pair_gains(self, codes: Codes, weight: Array, n_jobs: int | None) -> Array:
        """What each pair of labels gains by being taken together, nats per row (d, d).

        This is the mean of ``log P(y_i, y_j | x) / (P(y_i | x) P(y_j | x))`` at the labels of the
        rows (n, d) themselves, which `own` keeps out of their counts.
        """
        d = len(self.cardinalities)
        sizes = np.asarray(self.cardinalities)
        first = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        columns = value_columns(self.vectors, self.cardinalities)
        pair_counts = columns.T @ (self.counts[:, None] * columns)
        own = np.zeros(len(codes))
        if self.own is not None:
            own += self.own.sum(axis=1)
        trust = self.trust
        looked_at = self._looked_at(np.diag(pair_counts))

        def gained(rows: Indices) -> Array:
            gains = np.zeros((d, d))
            lists = self.lists[rows]
            pair_gains(
                lists.indptr,
                lists.indices,
                lists.data,
                self.vectors,
                codes[rows],
                weight[rows],
                own[rows],
                trust[rows],
                first,
                sizes,
                pair_counts,
                float(self.counts.sum()),
                gains,
            )
            return gains

        blocks = [b for b in np.array_split(looked_at, _BLOCKS) if len(b)]
        total = np.sum(map_threads(gained, blocks, n_jobs, lambda: None), axis=0)
        below: Array = total / weight[looked_at].sum()
        return below + below.T

    def _looked_at(self, value_counts: Array) -> Indices:
        """Rows whose pairs of labels are looked at: all, or as many as take tens of seconds.

        A listed vector costs the search for the labels in which it differs from the row, and the
        pairs of these; two rows differ in label i with probability 1 - sum_v f_i(v)^2.
        """
        n_rows, d = self.lists.shape[0], len(self.cardinalities)
        differ = d - float(((value_counts / self.counts.sum()) ** 2).sum())
        listed = self.lists.nnz / max(1, n_rows)
        steps = listed * (d + differ**2 / 2) + _STEPS_OF_A_LOGARITHM * d**2 / 2
        n_most = max(_FEWEST_ROWS, int(_MOST_STEPS / steps))
        if n_rows <= n_most:
            return np.arange(n_rows)
        return np.sort(np.random.default_rng(0).choice(n_rows, n_most, replace=False))


def value_columns(vectors: Codes, cardinalities: tuple[int, ...]) -> Array:
    """Which values vectors have, 0/1 columns (V, K): one for each value of each label."""
    first = np.concatenate([[0], np.cumsum(cardinalities)])
    columns = np.zeros((len(vectors), first[-1]))
    columns[np.arange(len(vectors))[:, None], first[:-1] + vectors] = 1.0
    return columns


def pair_columns(vectors: Codes, cardinalities: tuple[int, ...], edges: Any) -> Array:
    """Which pairs of values vectors have along edges (i, j), 0/1 columns (V, sum of K_i K_j)."""
    areas = [cardinalities[i] * cardinalities[j] for i, j in edges]
    first = np.concatenate([[0], np.cumsum(areas, dtype=np.intp)])
    columns = np.zeros((len(vectors), first[-1]))
    for start, (i, j) in zip(first, edges, strict=False):
        cell = vectors[:, i] * cardinalities[j] + vectors[:, j]
        columns[np.arange(len(vectors)), start + cell] = 1.0
    return columns
