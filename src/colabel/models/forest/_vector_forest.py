"""A forest whose leaves hold the label vectors of their rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any

import numpy as np
import scipy.sparse as sp

from colabel.core.arrays import Array, Codes
from colabel.core.schema import (
    Ascending,
    Below,
    Between,
    CodesOf,
    Is,
    NotEmpty,
    refuse_unless,
    stored,
)
from colabel.core.threads import map_threads
from colabel.learn.forest.forest import Forest, Grown, row_blocks
from colabel.models.forest._row_vectors import RowVectors

_TREES_AT_ONCE = 16
_ROUNDING = 1e-12  # of sums of shares, which are at most one


@stored("vector-forest")
@dataclass(frozen=True, eq=False)
class VectorForest:
    """Trees, and for each leaf the label vectors of the training rows that end in it.

    Every row counts in its leaf of every tree, drawn for the tree or not: lists of rows that the
    tree has not seen are honest, and the longer the better.

    Attributes
    ----------
    forest : Forest
    cardinalities : (d,)
    vectors : (V, d)
        The label vectors of the training rows.
    counts : (V,)
        Weight of the rows with each vector.
    indptr : (L + 1,)
        Leaf l has the entries ``indptr[l]`` to ``indptr[l + 1]``.
    indices : (N,)
        Position in `vectors` of each entry.
    weights : (N,)
        Weight of the leaf's rows with that vector.
    """

    forest: Annotated[Forest, "leaves p"]
    cardinalities: Annotated[tuple[int, ...], "d", Between(1), Is("sizes")]
    vectors: Annotated[Codes, "vectors d", CodesOf(), NotEmpty()]
    counts: Annotated[Array, "vectors", Between(1e-300)]
    indptr: Annotated[Codes, "leaves+1", Ascending()]
    indices: Annotated[Codes, "entries", Below("vectors")]
    weights: Annotated[Array, "entries", Between(1e-300)]

    @staticmethod
    def _check_stored(fields: dict[str, Any], dims: dict[str, Any]) -> None:
        ends = fields["indptr"][0] == 0 and fields["indptr"][-1] == dims["entries"]
        refuse_unless(ends, "indptr does not begin and end where the lists of leaves do")

    @classmethod
    def of(
        cls,
        forest: Forest,
        cardinalities: tuple[int, ...],
        leaves: Codes,
        rows: RowVectors,
        weight: Array,
    ) -> VectorForest:
        """Fill the leaves (n, T) of rows of weight (n,)."""
        weighted = sp.diags_array(weight) @ rows.shares
        first = forest.first_leaves
        parts = []
        for start in range(0, forest.n_trees, _TREES_AT_ONCE):
            own = leaves[:, start : start + _TREES_AT_ONCE]
            last = first[min(start + own.shape[1], forest.n_trees)]
            shape = own.shape[0], int(last - first[start])
            indptr = np.arange(own.shape[0] + 1) * own.shape[1]
            member = (np.ones(own.size), (own - first[start]).ravel(), indptr)
            parts.append(sp.csr_array(sp.csr_array(member, shape=shape).T @ weighted))
        lists = sp.csr_array(sp.vstack(parts, format="csr"))
        lists.eliminate_zeros()
        lists.sort_indices()
        return cls(
            forest,
            cardinalities,
            rows.vectors,
            np.asarray(weighted.sum(axis=0)).ravel(),
            lists.indptr,
            lists.indices,
            lists.data,
        )

    @cached_property
    def _lists(self) -> sp.csr_array:
        """Weights (L, V) of vectors in leaves."""
        shape = self.forest.n_leaves, len(self.vectors)
        return sp.csr_array((self.weights, self.indices, self.indptr), shape=shape)

    @cached_property
    def _totals(self) -> Array:
        """Weight (L,) of the rows in each leaf."""
        return np.add.reduceat(self.weights, self.indptr[:-1])

    def lists(self, X: Any, n_jobs: int | None = None) -> sp.csr_array:
        """Mean (n, V) over trees of the distribution of label vectors in a row's leaf."""
        leaves = self.forest.leaves(X, n_jobs)
        n_trees = leaves.shape[1]

        def mean(part: slice) -> sp.csr_array:
            own = leaves[part]
            shares = 1.0 / (n_trees * self._totals[own.ravel()])
            indptr = np.arange(len(own) + 1) * n_trees
            return self._summed(shares, own.ravel(), indptr)

        return _by_blocks(mean, len(leaves), len(self.vectors), n_jobs)

    def out_of_bag_lists(
        self,
        grown: Grown,
        leaves: Codes,
        rows: RowVectors,
        own_weight: Array,
        n_jobs: int | None = None,
    ) -> sp.csr_array:
        """Lists (n, V) of the training rows, each by trees that have not seen it.

        The row itself, of weight `own_weight` (n,), is not in its leaves:

            P(v | x_r) = mean over t of (W_l[v] - w_r [v = y_r]) / (W_l - w_r),  l = leaf_t(x_r)

        A row that all trees have seen has no entries.
        """

        def mean(part: slice) -> sp.csr_array:
            own = leaves[part]
            total = self._totals[own]
            rest = total - own_weight[part, None]
            used = (grown.in_bag[part] == 0) & (rest > 1e-9 * total)
            n_used = used.sum(axis=1)
            share = 1.0 / (np.maximum(n_used, 1)[:, None] * np.where(used, rest, 1.0))
            indptr = np.concatenate([[0], np.cumsum(n_used)])
            found = self._summed(share[used], own[used], indptr)
            itself = np.where(used, share, 0.0).sum(axis=1) * own_weight[part]
            found = sp.csr_array(found - sp.diags_array(itself) @ rows.shares[part])
            found.data[found.data < _ROUNDING] = 0.0
            found.eliminate_zeros()
            return found

        return _by_blocks(mean, len(leaves), len(self.vectors), n_jobs)

    def _summed(self, shares: Array, leaves: Any, indptr: Any) -> sp.csr_array:
        chosen = sp.csr_array((shares, leaves, indptr), shape=(len(indptr) - 1, len(self._totals)))
        found = sp.csr_array(chosen @ self._lists)
        found.sort_indices()
        return found


def _by_blocks(
    work: Callable[[slice], sp.csr_array], n_rows: int, width: int, n_jobs: int | None
) -> sp.csr_array:
    if not n_rows:
        return sp.csr_array((0, width))
    parts = map_threads(work, list(row_blocks(n_rows, n_jobs)), n_jobs, lambda: None)
    return sp.csr_array(sp.vstack(parts, format="csr"))
