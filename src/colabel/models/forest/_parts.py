"""The parts of a forest's mixture, and what is learned of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from colabel.core.arrays import Array, Codes, Flags, Indices, Rows
from colabel.core.chunks import row_slices
from colabel.joint import Independent, Joint, Tree, VectorList
from colabel.labels import LabelSpace
from colabel.learn.pool import pool_coefficients
from colabel.models.forest._evidence import Evidence, pair_columns, value_columns

PARTS = ("leaves", "independent", "tree", "pool")
# The exponents of P_independent, P_tree, the product of the labels' frequencies, the vector's
# frequency, and P_leaves: n(v) prod_i P(v_i | x) / f(v_i), until rows say otherwise.
PRIOR_EXPONENTS = np.array([1.0, 0.0, -1.0, 1.0, 0.0])

_MOST_POOLED = 1000  # label vectors, the most frequent ones
_ENTRIES_AT_ONCE = 1 << 20
_LEARNED_FROM = 1 << 19  # entries of lists, from which the exponents are learned
_LEAST = 1e-6  # of the most probable vector's probability: others leave the pool


class Smooth(NamedTuple):
    """Log-tables of the smooth parts of some rows: of an `Independent`, and of a `Tree`."""

    values: list[Array]
    tree: list[Array]


@dataclass(frozen=True)
class VectorPool:
    r"""A log-linear pool of all opinions over the label vectors that training rows have.

    .. math:: Q(v \mid x) \propto P_{ind}(v \mid x)^{a_1} P_{tree}(v \mid x)^{a_2}
        \bigl(\textstyle\prod_i f_i(v_i)\bigr)^{a_3} n(v)^{a_4} P_{leaf}(v \mid x)^{a_5}

    with f the frequencies of values and n(v) the number of rows with the vector.
    """

    evidence: Evidence
    smooth: Smooth
    parents: Indices

    @cached_property
    def top(self) -> Indices:
        """Positions (m,) of the vectors in the pool, the most frequent ones."""
        counts = self.evidence.counts
        return np.sort(np.argsort(-counts, kind="stable")[:_MOST_POOLED])

    def features(self, part: Rows) -> Array:
        """Logarithms (b, m, 5) of what is pooled, for some rows; -inf for n(v) = 0."""
        about, top = self.evidence, self.top
        vectors, sizes = about.vectors[top], about.cardinalities
        columns = value_columns(vectors, sizes)
        frequency = about.counts @ value_columns(about.vectors, sizes)
        frequency += np.repeat(1.0 / np.asarray(sizes), sizes)
        others = about.others[part]
        n_rows = len(others)
        found = np.empty((n_rows, len(top), 5))
        found[..., 0] = np.hstack([table[part] for table in self.smooth.values]) @ columns.T
        found[..., 1] = self._log_tree(part, vectors)
        found[..., 2] = np.log(frequency / (about.counts.sum() + 1.0)) @ columns.T
        counts = np.broadcast_to(about.counts[top], (n_rows, len(top)))
        if about.own is not None:
            counts = counts - about.own[part][:, top].toarray()
            counts = np.where(counts > 1e-9 * about.counts[top], counts, 0.0)
        trust = about.trust[part, None]
        near = about.lists[part][:, top].toarray()
        far = (counts + 1.0 / len(about.counts)) / (others + 1.0)
        found[..., 4] = np.log(trust * near + (1.0 - trust) * far)
        with np.errstate(divide="ignore"):
            found[..., 3] = np.log(counts)
        return found

    def _log_tree(self, part: Rows, vectors: Codes) -> Array:
        """Log-probabilities (b, m) of vectors (m, d) under the tree."""
        sizes = self.evidence.cardinalities
        roots = [i for i, parent in enumerate(self.parents) if parent < 0]
        edges = [(int(parent), i) for i, parent in enumerate(self.parents) if parent >= 0]
        own = tuple(sizes[i] for i in roots)
        found = np.hstack([self.smooth.tree[i][part, 0] for i in roots])
        found = found @ value_columns(vectors[:, roots], own).T
        if edges:
            area = [sizes[i] * sizes[j] for i, j in edges]
            tables = [
                self.smooth.tree[j][part].reshape(-1, width)
                for (_, j), width in zip(edges, area, strict=True)
            ]
            found += np.hstack(tables) @ pair_columns(vectors, sizes, edges).T
        scores: Array = found
        return scores

    def exponents(self, own: sp.csr_array, weight: Array) -> Array:
        """Exponents a (5,) that make the label vectors of rows of weight (n,) most probable.

        Only rows say something that have a list, one vector of their own (n, V), and share it with
        another row; of many rows the first are enough.
        """
        top = self.top
        rows = np.flatnonzero((np.diff(own.indptr) == 1) & self.evidence.listed)
        vector = own.indices[own.indptr[rows]]
        truth = np.minimum(np.searchsorted(top, vector), len(top) - 1)
        first = np.flatnonzero(top[truth] == vector)[: max(1, _LEARNED_FROM // len(top))]
        rows, truth = rows[first], truth[first]
        features = self.features(rows)
        possible = features[..., 3] > -np.inf
        shared = possible[np.arange(len(rows)), truth]
        if not shared.any():
            return PRIOR_EXPONENTS
        rows, truth = rows[shared], truth[shared]
        features, possible = features[shared], possible[shared]
        indptr = np.concatenate([[0], np.cumsum(possible.sum(axis=1))])
        rank = possible.cumsum(axis=1)[np.arange(len(rows)), truth] - 1
        return pool_coefficients(
            features[possible], indptr, indptr[:-1] + rank, PRIOR_EXPONENTS, weight[rows]
        )

    def joint(self, space: LabelSpace, exponents: Array) -> VectorList:
        """Return the pool of all rows as lists."""
        top = self.top
        lengths, indices, weights = [np.zeros(1, dtype=np.intp)], [], []
        for part in row_slices(self.evidence.lists.shape[0], _ENTRIES_AT_ONCE, len(top)):
            features = self.features(part)
            impossible = np.isneginf(features[..., 3])
            impossible[impossible.all(axis=1)] = False  # a row alone with its vector keeps them all
            features[np.isneginf(features)] = np.log(_LEAST)
            scores = np.where(impossible, -np.inf, features @ exponents)
            kept = scores >= scores.max(axis=1, keepdims=True) + np.log(_LEAST)
            lengths.append(kept.sum(axis=1))
            indices.append(np.nonzero(kept)[1].astype(np.int32))
            weights.append(scores[kept])
        empty = np.empty(0)
        return VectorList.of_lists(
            space,
            self.evidence.vectors[top],
            np.cumsum(np.concatenate(lengths)),
            np.concatenate([empty.astype(np.int32), *indices]),
            np.concatenate([empty, *weights]),
        )


def members(
    evidence: Evidence,
    space: LabelSpace,
    parents: Indices,
    exponents: Array,
    wanted: Flags,
) -> Iterator[Joint]:
    """Yield the wanted parts (4,) of a mixture, in the order of `PARTS`.

    A row without a list of its own has the frequencies of all vectors in its place.
    """
    smooth = smooth_tables(evidence, parents)
    if wanted[0]:
        yield leaf_lists(evidence, space)
    if wanted[1]:
        yield Independent(space, smooth.values)
    if wanted[2]:
        yield Tree(space, parents, smooth.tree)
    if wanted[3]:
        yield VectorPool(evidence, smooth, parents).joint(space, exponents)


def smooth_tables(evidence: Evidence, parents: Indices) -> Smooth:
    """Tables of the parts that think every label vector possible."""
    values = evidence.log_values()
    return Smooth(values, evidence.log_tree(parents, values))


def leaf_lists(evidence: Evidence, space: LabelSpace) -> VectorList:
    """Return the rows' own lists; all vectors, as frequent as they are, for rows without one."""
    lists, listed = evidence.lists, evidence.listed
    if listed.all():
        data, indices, indptr = lists.data, lists.indices, lists.indptr
        return VectorList.of_lists(space, evidence.vectors, indptr, indices, np.log(data))
    n_vectors = len(evidence.counts)
    lengths = np.where(listed, np.diff(lists.indptr), n_vectors)
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    own = np.repeat(listed, lengths)
    indices = np.empty(indptr[-1], dtype=np.int32)
    weights = np.empty(indptr[-1])
    indices[own], weights[own] = lists.indices, lists.data
    n_without = int((~listed).sum())
    indices[~own] = np.tile(np.arange(n_vectors), n_without)
    weights[~own] = np.tile(evidence.counts, n_without)
    return VectorList.of_lists(space, evidence.vectors, indptr, indices, np.log(weights))
