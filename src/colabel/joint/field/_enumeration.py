"""All label vectors of a small field at once, by matrix products.

The labels are cut into a left and a right half with S and T vectors each. With a and b running
over these, A and B their one-hot codes and W the tables across the cut,

    score(a, b) = left(a) + right(b) + A(a)' W B(b),

where left and right are quadratic forms of the same kind. So all S T scores of a row are one
product of (S, columns of B) with (columns of B, T): a few multiplications per label vector instead
of one per edge. The same products turned round give the marginals and the pair marginals. Rows are
taken in chunks that fit the processor's cache.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.random import Generator

from colabel.core.arrays import Array, Codes, Indices
from colabel.core.chunks import row_slices
from colabel.core.threads import map_threads
from colabel.joint.field._engine import FieldEngine, FieldOptions, FieldSums
from colabel.joint.field._tables import FieldTables
from colabel.joint.vectors import lists
from colabel.labels import all_vectors

Answer = TypeVar("Answer")

# In a product, 0 times -inf would be NaN: this stands for -inf, and no sum of scores reaches it.
_FORBIDDEN = -1e200
_CHUNK_ELEMENTS = 2**18  # scores per chunk of rows: 2 MB


class Half(NamedTuple):
    """Some of the labels, and all their vectors.

    Attributes
    ----------
    labels : (h,)
        Positions of the labels, consecutive.
    codes : (S, h)
        All their vectors, the last label changing fastest.
    one_hot : (S, C)
        Column `first[i] + v` tells whether label i has value v; C is the number of values.
    first : (h,)
        First column of each label.
    """

    labels: Indices
    codes: Codes
    one_hot: Array
    first: Indices

    @classmethod
    def of(cls, labels: Indices, sizes: tuple[int, ...]) -> Half:
        """Write out all vectors of labels with these numbers of values."""
        codes = all_vectors(sizes)
        first = np.concatenate([[0], np.cumsum(sizes)]).astype(np.intp)
        one_hot = np.zeros((len(codes), first[-1]))
        one_hot[np.arange(len(codes))[:, None], first[:-1] + codes] = 1.0
        return cls(labels, codes, one_hot, first[:-1])


class Moments(NamedTuple):
    """The sums of a chunk of m rows, and with `pairs` those of all pairs of values."""

    log_partition: Array  # (m,)
    best: Indices  # (m,) position of the best vector
    single: Array  # (m, C) marginals, one column per value
    pairs: Array | None  # (m, C, C)


class Enumeration(FieldEngine):
    """Exact answers from the scores of all label vectors, whose number fits the memory."""

    name = "enumeration"

    def __init__(self, field: FieldTables, options: FieldOptions) -> None:
        super().__init__(field, options)
        sizes = field.cardinalities
        cut = _cut(sizes)
        self._left = Half.of(np.arange(cut), sizes[:cut])
        self._right = Half.of(np.arange(cut, len(sizes)), sizes[cut:])
        self._n_states = len(self._left.codes) * len(self._right.codes)
        self._first = np.concatenate(
            [self._left.first, self._right.first + self._left.one_hot.shape[1]]
        )
        self.note = f"all {self._n_states} label vectors"

    # Answers

    def sums(self) -> FieldSums:
        """Return the partition function and the marginals, computed once."""
        found = self._moments
        cuts = self._first[1:]
        return FieldSums(found.log_partition, np.split(found.single, cuts, axis=1))

    def edge_tables(self) -> list[Array]:
        """Return P(y_i, y_j) of every edge as arrays (n, K_i, K_j)."""
        return [self.pair_table(i, j) for i, j in self._field.edges]

    def pair_table(self, i: int, j: int) -> Array:
        """Return P(y_i, y_j) of any two different labels, (n, K_i, K_j)."""
        pairs = self._moments_of_pairs.pairs
        assert pairs is not None
        return pairs[:, self._columns(i), self._columns(j)]

    def k_best(self, k: int) -> tuple[Codes, Array]:
        """Return codes (n, k, d) and scores (n, k), best first."""
        k = min(k, self._n_states)
        if k == 1:
            best = self._moments.best[:, None]
            codes = self._codes_at(best)
            return codes, self._field.score(codes[:, 0])[:, None]

        def leading(chunk: slice) -> tuple[Indices, Array]:
            scores = self._scores(self._field.rows(chunk))
            starts = np.arange(len(scores) + 1) * self._n_states
            entry = lists.leading_entries(scores.ravel(), starts, k).reshape(-1, k)
            return entry - starts[:-1, None], scores.ravel()[entry]

        parts = self._by_chunks(leading)
        place = np.concatenate([p for p, _ in parts])
        return self._codes_at(place), np.concatenate([s for _, s in parts])

    def sample(self, size: int, rng: Generator) -> Codes:
        """Return draws (size, n, d), by inverting each row's distribution function."""
        uniform = rng.random((self._field.n_rows, size))

        def drawn(chunk: slice) -> Indices:
            weights = self._scores(self._field.rows(chunk))
            weights -= weights.max(axis=1, keepdims=True)
            starts = np.arange(len(weights) + 1) * self._n_states
            entry = lists.drawn_entries(np.exp(weights).ravel(), starts, uniform[chunk])
            return entry - starts[:-1, None]

        return self._codes_at(np.concatenate(self._by_chunks(drawn)).T)

    # Scores and sums

    def _scores(self, field: FieldTables) -> Array:
        """Return the scores (m, S T) of all label vectors of a chunk of rows."""
        left, right = self._left, self._right
        n_left = left.one_hot.shape[1]
        within_left, across, within_right = _blocks(self._matrix(field), n_left)
        coupled = np.matmul(left.one_hot, across)
        # Every vector has one value of the first label on the right: its columns carry left(a).
        coupled[:, :, self._columns_of_first_right] += _forms(within_left, left)[:, :, None]
        flat = coupled.reshape(-1, coupled.shape[2]) @ right.one_hot.T
        scores: Array = flat.reshape(field.n_rows, len(left.codes), len(right.codes))
        scores += _forms(within_right, right)[:, None, :]
        if self._field.has_zeros:
            scores[scores <= _FORBIDDEN / 2] = -np.inf
        return scores.reshape(field.n_rows, self._n_states)

    def _matrix(self, field: FieldTables) -> Array:
        """Return all tables as one matrix (m, C, C) over the values: unary on the diagonal."""
        n_values = sum(field.cardinalities)
        found = np.zeros((field.n_rows, n_values, n_values))
        for i, unary in enumerate(field.unary):
            at = np.arange(n_values)[self._columns(i)]
            found[:, at, at] = unary
        for (i, j), table in zip(field.edges, field.tables, strict=True):
            found[:, self._columns(i), self._columns(j)] = table
        np.maximum(found, _FORBIDDEN, out=found)
        return found

    def _sum(self, field: FieldTables, with_pairs: bool) -> Moments:
        """Return the sums of a chunk of rows."""
        left, right = self._left, self._right
        weights = self._scores(field)
        best = weights.argmax(axis=1)
        top = np.take_along_axis(weights, best[:, None], axis=1)
        top[np.isneginf(top)] = 0.0  # -inf - -inf would be NaN
        weights -= top
        np.exp(weights, out=weights)
        table = weights.reshape(field.n_rows, len(left.codes), len(right.codes))
        across = table.reshape(-1, len(right.codes)) @ right.one_hot
        across = across.reshape(field.n_rows, len(left.codes), right.one_hot.shape[1])
        of_left = across[:, :, self._columns_of_first_right].sum(axis=2)
        total = of_left.sum(axis=1)
        with np.errstate(divide="ignore"):
            log_partition = np.log(total) + top[:, 0]
        scale = np.where(total > 0, total, 1.0)[:, None]
        of_left /= scale
        across /= scale[:, None]
        single = np.concatenate([of_left @ left.one_hot, across.sum(axis=1)], axis=1)
        if not with_pairs:
            return Moments(log_partition, best, single, None)
        n_left = left.one_hot.shape[1]
        pairs = np.empty((*single.shape, single.shape[1]))
        within_left, between, within_right = _blocks(pairs, n_left)
        within_left[...] = _squares(of_left, left)
        between[...] = np.matmul(left.one_hot.T, across)
        within_right[...] = _squares(table.sum(axis=1) / scale, right)
        pairs[:, n_left:, :n_left] = between.transpose(0, 2, 1)
        return Moments(log_partition, best, single, pairs)

    @cached_property
    def _moments(self) -> Moments:
        if "_moments_of_pairs" in self.__dict__:
            return self._moments_of_pairs
        return self._all_moments(with_pairs=False)

    @cached_property
    def _moments_of_pairs(self) -> Moments:
        return self._all_moments(with_pairs=True)

    def _all_moments(self, with_pairs: bool) -> Moments:
        parts = self._by_chunks(lambda chunk: self._sum(self._field.rows(chunk), with_pairs))
        joined = [np.concatenate(column) for column in zip(*(p[:3] for p in parts), strict=True)]
        pairs = np.concatenate([p.pairs for p in parts if p.pairs is not None] or [np.empty(0)])
        return Moments(joined[0], joined[1], joined[2], pairs if with_pairs else None)

    # Helpers

    def _by_chunks(self, work: Callable[[slice], Answer]) -> list[Answer]:
        chunks = row_slices(self._field.n_rows, _CHUNK_ELEMENTS, self._n_states)
        return map_threads(work, chunks, self._options.n_jobs, lambda: None)

    @property
    def _columns_of_first_right(self) -> slice:
        return slice(0, self._field.cardinalities[len(self._left.labels)])

    def _columns(self, i: int) -> slice:
        start = int(self._first[i])
        return slice(start, start + self._field.cardinalities[i])

    def _codes_at(self, place: Indices) -> Codes:
        """Return the codes (..., d) of the vectors at these positions."""
        a, b = np.divmod(place, len(self._right.codes))
        found = np.concatenate([self._left.codes[a], self._right.codes[b]], axis=-1)
        return found.astype(np.int32)


def _cut(sizes: tuple[int, ...]) -> int:
    """Return how many labels go left so that the halves have about the same number of vectors."""
    logs = np.concatenate([[0.0], np.cumsum(np.log(sizes))])
    return int(np.abs(logs - logs[-1] / 2).argmin())


def _blocks(matrix: Array, n_left: int) -> tuple[Array, Array, Array]:
    """Cut (m, C, C) into the blocks within the left half, across, and within the right half."""
    left, right = slice(None, n_left), slice(n_left, None)
    return matrix[:, left, left], matrix[:, left, right], matrix[:, right, right]


def _forms(matrix: Array, half: Half) -> Array:
    """Quadratic forms h(s)' M h(s) of a half's one-hot vectors, (m, S)."""
    found: Array = np.einsum("msc,sc->ms", np.matmul(half.one_hot, matrix), half.one_hot)
    return found


def _squares(prob: Array, half: Half) -> Array:
    """Pair marginals (m, C, C) of a half from the probabilities (m, S) of its vectors."""
    found: Array = np.matmul(half.one_hot.T, prob[:, :, None] * half.one_hot)
    return found
