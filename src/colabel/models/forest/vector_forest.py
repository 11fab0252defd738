"""A forest whose leaves hold the label vectors of their rows.

Compiled loops over lists of label vectors.

The label vectors of training rows, those with missing labels completed.

What a forest says of rows, smoothed: values of labels, pairs of labels, gains of pairs.

The parts of a forest's mixture, and what is learned of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Annotated, Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from colabel.core.arrays import Array, Codes, Flags, Indices, Rows, row_slices
from colabel.core.compiling import njit
from colabel.core.schema import ASCENDING, CODES, NOT_EMPTY, Below, Between, Is, check_that, stored
from colabel.core.threads import map_threads
from colabel.joint import Independent, Joint, Tree, VectorList
from colabel.labels import MISSING, LabelSpace
from colabel.learn.forest.forest import Forest, Grown, row_blocks
from colabel.learn.pool import pool_coefficients


@njit(nogil=True, cache=True, error_model="numpy")
def pair_gains(
    indptr: Any,
    indices: Any,
    prob: Array,
    vectors: Codes,
    codes: Codes,
    weight: Array,
    own: Array,
    trust: Array,
    first: Indices,
    sizes: Indices,
    pair_counts: Array,
    total: float,
    pairs: Indices,
    gains: Array,
) -> None:
    """Add to `gains` (d, d) what rows gain if two of their labels are taken together.

    With P(.) a row's list, shrunk to the counts of all rows but itself, a pair i > j gains

        w log P(y_i, y_j) / (P(y_i) P(y_j))

    where both labels are known. The list of row r has entries ``indptr[r]`` to ``indptr[r + 1]``;
    `pair_counts` (K, K) counts pairs of values, those of label i from ``first[i]`` on. Label i is
    paired with the labels before it that row i of `pairs` (d, m) begins with; -1 ends them.

    A listed vector v agrees with the row in most labels, most of them being absent. So the vectors
    that do not are counted, and the others follow:

        P(v_i = y_i, v_j = y_j) = 1 - P(v_i != y_i) - P(v_j != y_j) + P(v_i != y_i, v_j != y_j)
    """
    n_labels = codes.shape[1]
    differ = np.zeros((n_labels, n_labels))
    wrong = np.empty(n_labels, dtype=np.int64)
    touched = np.empty(n_labels, dtype=np.int64)  # labels in which some listed vector differs
    alone = np.empty(n_labels)
    for row in range(len(codes)):
        listed = 0.0
        n_touched = 0
        for entry in range(indptr[row], indptr[row + 1]):
            listed += prob[entry]
            vector = vectors[indices[entry]]
            n_wrong = 0
            for i in range(n_labels):
                if vector[i] != codes[row, i] and codes[row, i] >= 0:
                    wrong[n_wrong] = i
                    n_wrong += 1
                    if differ[i, i] == 0.0 and prob[entry] > 0.0:
                        touched[n_touched] = i
                        n_touched += 1
            for a in range(n_wrong):
                for b in range(a + 1):
                    differ[wrong[a], wrong[b]] += prob[entry]
        rest = total - own[row] + 1.0
        for i in range(n_labels):
            if codes[row, i] < 0:
                continue
            at = first[i] + codes[row, i]
            far = (pair_counts[at, at] - own[row] + 1.0 / sizes[i]) / rest
            near = max(listed - differ[i, i], 0.0)  # a difference may round below zero
            alone[i] = np.log(trust[row] * near + (1.0 - trust[row]) * far)
            for k in range(pairs.shape[1]):
                j = pairs[i, k]
                if j < 0:
                    break
                if codes[row, j] < 0:
                    continue
                other = first[j] + codes[row, j]
                far = pair_counts[at, other] - own[row] + 1.0 / (sizes[i] * sizes[j])
                near = max(listed - differ[i, i] - differ[j, j] + differ[i, j], 0.0)
                both = trust[row] * near + (1.0 - trust[row]) * far / rest
                gains[i, j] += weight[row] * (np.log(both) - alone[i] - alone[j])
        for a in range(n_touched):
            for b in range(n_touched):
                differ[touched[a], touched[b]] = 0.0


@njit(nogil=True, cache=True, error_model="numpy")
def agreeing_vectors(codes: Codes, vectors: Codes, found: Codes) -> None:
    """Begin the rows of `found` (n, m) with the first vectors that have a row's known labels."""
    for row in range(len(codes)):
        n_found = 0
        for v in range(len(vectors)):
            if n_found == found.shape[1]:
                break
            agrees = True
            for i in range(codes.shape[1]):
                if codes[row, i] >= 0 and codes[row, i] != vectors[v, i]:
                    agrees = False
                    break
            if agrees:
                found[row, n_found] = v
                n_found += 1


_MOST_COMPLETIONS = 32


@dataclass(frozen=True)
class RowVectors:
    """Which label vectors rows have.

    Attributes
    ----------
    vectors : (V, d)
        Distinct and complete.
    shares : CSR (n, V)
        Rows sum to one. A row with missing labels has a share in each vector that may be its own.
    """

    vectors: Codes
    shares: sp.csr_array

    @classmethod
    def of(cls, codes: Codes, weight: Array) -> RowVectors:
        """Find the vectors of rows (n, d) of weight (n,).

        A row with missing labels is shared by the vectors of complete rows that have its known
        labels, as frequent as they are, at most 32 of them. Where there is none it has its known
        labels and the most frequent value of each other.
        """
        whole = (codes != MISSING).all(axis=1)
        seen, place = np.unique(codes[whole], axis=0, return_inverse=True)
        counts = np.zeros(len(seen))
        np.add.at(counts, place.ravel(), weight[whole])
        partial = np.flatnonzero(~whole)
        agreeing = _agreeing(codes[partial], seen, counts)
        alone = partial[(agreeing < 0).all(axis=1)]
        new, new_place = np.unique(_filled(codes, weight)[alone], axis=0, return_inverse=True)
        which, rank = np.nonzero(agreeing >= 0)
        found = agreeing[which, rank]
        total = np.bincount(which, weights=counts[found], minlength=len(partial))
        rows = [np.flatnonzero(whole), alone, partial[which]]
        columns = [place.ravel(), len(seen) + new_place.ravel(), found]
        of_found = counts[found] / np.maximum(total[which], 1e-300)
        shares = np.concatenate([np.ones(len(place)), np.ones(len(alone)), of_found])
        entries = (shares, (np.concatenate(rows), np.concatenate(columns)))
        vectors = np.concatenate([seen, new])
        return cls(vectors, sp.csr_array(entries, shape=(len(codes), len(vectors))))

    @classmethod
    def drawn(cls, codes: Codes, rows: Indices, draws: Codes) -> RowVectors:
        """Share rows (m,) with missing labels by how often each vector is among draws (k, m, d)."""
        whole = np.setdiff1d(np.arange(len(codes)), rows)
        of_row = np.append(whole, np.tile(rows, len(draws)))
        each = np.concatenate([codes[whole], draws.reshape(-1, codes.shape[1])])
        vectors, place = np.unique(each, axis=0, return_inverse=True)
        share = np.where(np.arange(len(each)) < len(whole), 1.0, 1.0 / len(draws))
        shape = len(codes), len(vectors)
        return cls(vectors, sp.csr_array((share, (of_row, place.ravel())), shape=shape))

    @property
    def likeliest(self) -> Indices:
        """Position (n,) in `vectors` of each row's own, or of the likeliest to be."""
        if self.shares.nnz == self.shares.shape[0]:
            return self.shares.indices.astype(np.intp)
        return np.asarray(self.shares.argmax(axis=1)).ravel().astype(np.intp)

    def informed(self, lists: sp.csr_array, codes: Codes) -> RowVectors:
        r"""Share rows of known labels (n, d) anew, given lists (n, V) made without them.

        With Q a row's list given its known labels, and S the vectors of its shares s,

        .. math:: s'(v) = Q(v) + (1 - Q(S)) \, s(v), \quad v \in S:

        what the list says of these vectors, and the shares as far as it speaks for others.
        """
        entries = lists.tocoo()
        agrees = np.ones(entries.nnz, dtype=bool)
        for known, vector in zip(codes.T, self.vectors.T, strict=True):
            own = known[entries.row]
            agrees &= (own == MISSING) | (own == vector[entries.col])
        given = np.bincount(entries.row, entries.data * agrees, minlength=len(codes))
        scale = np.divide(1.0, given, out=np.zeros_like(given), where=given > 0)
        among = sp.diags_array(scale) @ lists.multiply(self.shares > 0).tocsr()
        kept = np.maximum(1.0 - among.sum(axis=1), 0.0)
        shares = among + sp.diags_array(kept) @ self.shares
        used = shares.sum(axis=0) > 0
        return RowVectors(self.vectors[used], sp.csr_array(shares)[:, used])


def _agreeing(codes: Codes, seen: Codes, counts: Array) -> Indices:
    """Positions (n, 32) of the most frequent vectors (S, d) that have the known labels of rows.

    Where there are fewer, -1.
    """
    order = np.argsort(-counts, kind="stable")
    found = np.full((len(codes), _MOST_COMPLETIONS), -1, dtype=np.int32)
    if len(codes):  # where no label is missing nothing needs to be compiled
        agreeing_vectors(codes, np.ascontiguousarray(seen[order]), found)
    return np.append(order, -1)[found]


def _filled(codes: Codes, weight: Array) -> Codes:
    """Rows (n, d) with the most frequent value of each label where it is missing."""
    filled = codes.copy()
    for label in range(codes.shape[1]):
        known = codes[:, label] != MISSING
        counts = np.bincount(codes[known, label], weights=weight[known], minlength=1)
        filled[~known, label] = counts.argmax()
    return filled


# The share of a smoothed probability that is the frequency in all rows.
_SHRINKAGE = 0.02
_BLOCKS = 16  # of rows, whatever the number of threads: sums keep their order
# Steps of the loop over pairs of labels, beyond which fewer rows are looked at, and how few.
_MOST_STEPS = 1 << 33
_STEPS_OF_A_LOGARITHM = 8
_ALL_PAIRS = 200  # labels, beyond which only pairs that occur are looked at
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

    def pair_gains(
        self,
        codes: Codes,
        weight: Array,
        n_jobs: int | None,
        *,
        all_pairs: int = _ALL_PAIRS,
        most_steps: int = _MOST_STEPS,
        fewest_rows: int = _FEWEST_ROWS,
    ) -> Array:
        """What each pair of labels gains by being taken together, nats per row (d, d).

        This is the mean of ``log P(y_i, y_j | x) / (P(y_i | x) P(y_j | x))`` at the labels of the
        rows (n, d) themselves, which `own` keeps out of their counts. Of more labels than
        `all_pairs` only pairs that occur are looked at, and of rows that would take more than
        `most_steps` only some, at least `fewest_rows`.
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
        pairs = self._pairs(all_pairs)
        n_pairs = int((pairs >= 0).sum())
        looked_at = self._looked_at(np.diag(pair_counts), n_pairs, most_steps, fewest_rows)

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
                pairs,
                gains,
            )
            return gains

        n_blocks = _BLOCKS if d <= all_pairs else 2  # each of which has a matrix of its own
        blocks = [b for b in np.array_split(looked_at, n_blocks) if len(b)]
        total = sum(map_threads(gained, blocks, n_jobs, lambda: None))
        below: Array = total / weight[looked_at].sum()
        return below + below.T

    def _pairs(self, all_pairs: int) -> Indices:
        """For each label the labels before it that it is paired with (d, m), then -1.

        Of many labels these are the ones that have with it, in some vector, a value other than
        their most frequent one: pairs that never do gain next to nothing.
        """
        d = len(self.cardinalities)
        below = np.tri(d, k=-1, dtype=bool)
        if d > all_pairs:
            first = np.concatenate([[0], np.cumsum(self.cardinalities)])
            counts = self.counts @ value_columns(self.vectors, self.cardinalities)
            usual = [counts[a:b].argmax() for a, b in pairwise(first)]
            rare = sp.csr_array((self.vectors != usual).astype(np.float32))
            below &= (rare.T @ rare).toarray() > 0
        order = np.argsort(~below, axis=1, kind="stable")
        pairs = np.where(np.take_along_axis(below, order, axis=1), order, -1)
        return np.ascontiguousarray(pairs[:, : max(1, below.sum(axis=1).max())])

    def _looked_at(
        self, value_counts: Array, n_pairs: int, most_steps: int, fewest_rows: int
    ) -> Indices:
        """Rows whose pairs of labels are looked at: all, or as many as take tens of seconds.

        A listed vector costs the search for the labels in which it differs from the row, and the
        pairs of these; two rows differ in label i with probability 1 - sum_v f_i(v)^2.
        """
        n_rows, d = self.lists.shape[0], len(self.cardinalities)
        differ = d - float(((value_counts / self.counts.sum()) ** 2).sum())
        listed = self.lists.nnz / max(1, n_rows)
        steps = listed * (d + differ**2 / 2) + _STEPS_OF_A_LOGARITHM * n_pairs
        n_most = max(fewest_rows, int(most_steps / max(1.0, steps)))
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
        return found

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
    vectors: Annotated[Codes, "vectors d", CODES, NOT_EMPTY]
    counts: Annotated[Array, "vectors", Between(1e-300)]
    indptr: Annotated[Codes, "leaves+1", ASCENDING]
    indices: Annotated[Codes, "entries", Below("vectors")]
    weights: Annotated[Array, "entries", Between(1e-300)]

    @staticmethod
    def _check_stored(fields: dict[str, Any], dims: dict[str, Any]) -> None:
        ends = fields["indptr"][0] == 0 and fields["indptr"][-1] == dims["entries"]
        check_that(ends, "indptr does not begin and end where the lists of leaves do")

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
