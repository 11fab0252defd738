"""VectorList: for each row a list of label vectors with weights, and nothing else.

Lists of different lengths, one per row, end to end in flat arrays.

As in a CSR matrix, the entries of row r stand at positions ``indptr[r]`` to ``indptr[r + 1]``.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Self, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from colabel.core.arrays import Array, Codes, Flags, Indices, Rows, row_slices
from colabel.core.numeric import as_bytes, bin_sums
from colabel.core.threads import map_threads
from colabel.joint.base import EXACT, Exactness, Joint, Listed
from colabel.joint.sizes import SizeMarginals
from colabel.joint.user_terms import fill_impossible, merged_evidence, require_possible
from colabel.labels import MISSING, LabelSpace, all_vectors
from colabel.rules import CompiledRules

_SORTED_WHOLE = 64  # lists up to this length are sorted whole, not only their best entries


def row_of_entries(indptr: Indices) -> Indices:
    """Row (N,) of every entry."""
    return np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))


def row_max(values: Array, indptr: Indices) -> Array:
    """Largest value (n,) of each row, -inf for a row without entries."""
    return _reduced(np.maximum, values, indptr, -np.inf)


def row_sum(values: Array, indptr: Indices) -> Array:
    """Sum (n,) of each row."""
    return _reduced(np.add, values, indptr, 0.0)


def row_log_sum(values: Array, indptr: Indices, largest: Array | None = None) -> Array:
    """Log of the sum of exponentials (n,) of each row, -inf for a row without entries.

    `largest` (n,) is what `row_max` would find, where that is known.
    """
    if largest is None:
        largest = row_max(values, indptr)
    shift = np.where(np.isneginf(largest), 0.0, largest)
    total = row_sum(np.exp(values - shift[row_of_entries(indptr)]), indptr)
    with np.errstate(divide="ignore"):
        sums: Array = np.log(total) + shift
    return sums


def _reduced(operation: np.ufunc, values: Array, indptr: Indices, of_nothing: float) -> Array:
    reduced = np.full(len(indptr) - 1, of_nothing)
    filled = indptr[:-1] < indptr[1:]
    reduced[filled] = operation.reduceat(values, indptr[:-1][filled])
    return reduced


def kept_entries(keep: Flags, indptr: Indices) -> Indices:
    """The `indptr` of what is left when only the marked entries (N,) are kept."""
    return np.concatenate([[0], np.cumsum(keep)])[indptr]


def entries_of_rows(rows: Indices, indptr: Indices) -> tuple[Indices, Indices]:
    """Positions of all the entries of some rows, which may repeat, and their `indptr`."""
    lengths = np.diff(indptr)[rows]
    starts = np.concatenate([[0], np.cumsum(lengths)])
    return np.arange(starts[-1]) + np.repeat(indptr[rows] - starts[:-1], lengths), starts


def merged_entries(
    indptr: Indices, indices: Codes, log_weights: Array, n_vectors: int
) -> tuple[Indices, Codes, Array]:
    """Sort each row's entries by the vector they name, and add up those that name the same."""
    key = row_of_entries(indptr) * n_vectors + indices
    if (key[1:] > key[:-1]).all():
        return indptr, indices, log_weights
    order = np.argsort(key, kind="stable")
    key = key[order]
    first = np.concatenate([np.ones(min(1, len(key)), dtype=bool), key[1:] != key[:-1]])
    places = np.concatenate([np.flatnonzero(first), [len(key)]])
    return (
        kept_entries(first, indptr),
        indices[order][first],
        row_log_sum(log_weights[order], places),
    )


def leading_entries(values: Array, indptr: Indices, k: int) -> Indices:
    """Entries with the k largest values of each row, rows ascending and best first.

    In a tie the first of the list wins.
    """
    candidate = np.ones(len(values), dtype=bool)
    for r in np.flatnonzero(np.diff(indptr) > max(k, _SORTED_WHOLE)):
        own = slice(indptr[r], indptr[r + 1])
        candidate[own] = values[own] >= np.partition(values[own], -k)[-k]
    entry = np.flatnonzero(candidate)
    row = row_of_entries(indptr)[entry]
    order = np.lexsort((-values[entry], row))  # stable: ties stay in list order
    rank = np.arange(len(row)) - np.searchsorted(row, row)
    entries: Indices = entry[order[rank < k]]
    return entries


def drawn_entries(prob: Array, indptr: Indices, uniform: Array) -> Indices:
    """Draw entries (n, size) of each row by uniform numbers (n, size); no row may be empty."""
    cumulated = np.cumsum(prob)
    before = np.concatenate([[0.0], cumulated])[indptr[:-1]]
    total = cumulated[indptr[1:] - 1]
    target = before[:, None] + uniform * (total - before)[:, None]
    entries = np.searchsorted(cumulated, target, side="right")
    # rounding may carry a number past the row's ends: then its first or last possible entry counts
    first = np.searchsorted(cumulated, before, side="right")
    last = np.searchsorted(cumulated, total, side="left")
    inside: Indices = np.clip(entries, first[:, None], last[:, None])
    return inside


_FAR = 1e3  # log-weights farther from zero than this lose digits when they are summed


class VectorList(Joint):
    r"""Some label vectors, each with a weight in each row; all others are impossible.

    .. math:: P(y \mid x) = \frac{\sum_{e : v_e = y} w_e}{\sum_e w_e}

    where e runs over the entries of the row's list. Every answer is a sum over that list, so all
    are exact, whatever the number of labels. Memory is 12 bytes an entry: a vector is stored
    once, however many rows list it.

    Parameters
    ----------
    space : LabelSpace
        Names and values of the d labels.
    vectors : array-like of int of shape (V, d)
        Codes of the label vectors; those that are equal count as one.
    log_weights : array-like of shape (n, V)
        Logarithm of the weight of each vector in each row, up to a constant per row; -inf for a
        vector the row does not have. `of_lists` takes lists that differ from row to row.

    Attributes
    ----------
    vectors : (V, d) array of int32
        The label vectors.
    indptr : (n + 1,) array of int
        Row r has the entries ``indptr[r]`` to ``indptr[r + 1]``.
    indices : (N,) array of int32
        Position in `vectors` of each entry, ascending within a row and each at most once.
    log_weights : (N,) array
        Log-probability of each entry.
    log_total : (n,) array
        Logarithm of the sum of the weights as they were given; after `given`, of those left.

    Examples
    --------
    >>> import numpy as np
    >>> from colabel.joint import VectorList
    >>> from colabel.labels import LabelSpace
    >>> space = LabelSpace(("a", "b"), (np.array([0, 1]), np.array([0, 1])), "matrix")
    >>> joint = VectorList(space, [[0, 0], [1, 0], [1, 1]], np.log([[0.2, 0.3, 0.5]]))
    >>> joint
    <VectorList: 1 row, 2 labels, exact>
    >>> joint.mode(), joint.marginals()
    (array([[1, 1]]), array([[0.8, 0.5]]))
    >>> joint.given({"b": 0}).marginals()
    array([[0.6, 0. ]])
    """

    exact: Exactness = EXACT
    how: str = "Exact: sums over a list of label vectors."

    def __init__(self, space: LabelSpace, vectors: ArrayLike, log_weights: ArrayLike) -> None:
        table = np.asarray(log_weights, dtype=np.float64)
        n_vectors = len(np.asarray(vectors))
        if table.ndim != 2 or table.shape[1] != n_vectors:
            raise ValueError(
                f"log_weights have shape {table.shape}, but must have (rows, {n_vectors}): one "
                "log-weight per row and vector. VectorList.of_lists takes a list of each row's own."
            )
        indptr = np.arange(len(table) + 1) * n_vectors
        indices = np.tile(np.arange(n_vectors, dtype=np.int32), len(table))
        self._set_checked(space, vectors, indptr, indices, table.ravel())

    @classmethod
    def of_lists(
        cls,
        space: LabelSpace,
        vectors: ArrayLike,
        indptr: ArrayLike,
        indices: ArrayLike,
        log_weights: ArrayLike,
    ) -> Self:
        """Make a joint of lists that differ from row to row, as in a CSR matrix.

        Parameters
        ----------
        space : LabelSpace
            Names and values of the d labels.
        vectors : array-like of int of shape (V, d)
            Codes of all the label vectors.
        indptr : array-like of int of shape (n + 1,)
            Row r has the entries ``indptr[r]`` to ``indptr[r + 1]``.
        indices : array-like of int of shape (N,)
            Position in `vectors` of each entry. A row may name a vector several times: the
            weights are added.
        log_weights : array-like of shape (N,)
            Logarithm of the weight of each entry, up to a constant per row.

        Examples
        --------
        The first row is [1, 0] or [1, 1], the second surely [0, 0].

        >>> import numpy as np
        >>> from colabel.labels import LabelSpace
        >>> space = LabelSpace(("a", "b"), (np.array([0, 1]), np.array([0, 1])), "matrix")
        >>> vectors = [[0, 0], [1, 0], [1, 1]]
        >>> joint = VectorList.of_lists(space, vectors, [0, 3, 4], [1, 2, 1, 0], np.zeros(4))
        >>> joint.marginals().round(2)
        array([[1.  , 0.33],
               [0.  , 0.  ]])
        """
        joint = cls.__new__(cls)
        ends, entries = np.asarray(indptr), np.asarray(indices)
        weights = np.asarray(log_weights, dtype=np.float64)
        _check_lists(ends, entries, weights, len(np.asarray(vectors)))
        joint._set_checked(space, vectors, ends.astype(np.intp), entries, weights)
        return joint

    @classmethod
    def of_shared_and_own(
        cls, space: LabelSpace, shared: Codes, own: Codes, log_weights: Array
    ) -> Self:
        """Make a joint of vectors that all rows share and vectors of single rows, all different.

        For library code: nothing is checked, and a row may have no vector of positive weight.

        Parameters
        ----------
        space : LabelSpace
        shared : (S, d) array
            Vectors that all rows have.
        own : (n, E, d) array
            Vectors of each row.
        log_weights : (n, S + E) array
            Those of the shared vectors first; -inf marks places without a vector.
        """
        n_rows, n_own, n_labels = own.shape
        of_row = len(shared) + np.arange(n_rows * n_own).reshape(n_rows, n_own)
        everywhere = np.broadcast_to(np.arange(len(shared)), (n_rows, len(shared)))
        return cls._unchecked(
            space,
            np.concatenate([shared, own.reshape(-1, n_labels)]) if n_own else shared,
            np.arange(n_rows + 1) * log_weights.shape[1],
            np.concatenate([everywhere, of_row], axis=1).astype(np.int32).ravel(),
            log_weights.ravel(),
        )

    @classmethod
    def of_draws(cls, space: LabelSpace, codes: Codes, log_weights: Array | None = None) -> Self:
        """Make a joint of draws (S, n, d) and their log-weights (S, n), by default equal ones."""
        size, n_rows, d = codes.shape
        vectors = codes.transpose(1, 0, 2).reshape(n_rows * size, d)
        vectors = vectors if n_rows else np.zeros((1, d), dtype=np.int32)
        weights = np.zeros((size, n_rows)) if log_weights is None else log_weights
        ends, entries = np.arange(n_rows + 1) * size, np.arange(n_rows * size)
        return cls.of_lists(space, vectors, ends, entries, weights.T.ravel())

    def _set_checked(
        self,
        space: LabelSpace,
        vectors: ArrayLike,
        indptr: Indices,
        indices: NDArray[np.integer],
        log_weights: Array,
    ) -> None:
        codes = _checked_vectors(space, vectors)
        wrong = log_weights[~(log_weights < np.inf)]  # also true of NaN
        if wrong.size:
            raise ValueError(
                f"log_weights must be finite, or -inf for no weight at all, but one is {wrong[0]}."
            )
        as_one, first, copy_of = np.unique(as_bytes(codes), return_index=True, return_inverse=True)
        if len(as_one) < len(codes):
            codes, indices = codes[first], copy_of.ravel()[indices]
        merged = merged_entries(indptr, indices.astype(np.int32), log_weights, len(codes))
        self._set(space, codes, *merged)
        empty = np.flatnonzero(np.isneginf(self.log_total))
        if empty.size:
            raise ValueError(
                f"{empty.size} of {self.n_rows} rows have no label vector of positive weight (the "
                f"first is row {empty[0]}): give each row at least one."
            )

    def _set(
        self,
        space: LabelSpace,
        vectors: Codes,
        indptr: Indices,
        indices: Codes,
        log_weights: Array,
    ) -> None:
        """Take lists whose entries ascend and are distinct; a row may be empty."""
        super().__init__(space, len(indptr) - 1)
        self.vectors = vectors
        possible = log_weights > -np.inf
        if not possible.all():
            indptr = kept_entries(possible, indptr)
            indices, log_weights = indices[possible], log_weights[possible]
        self.indptr, self.indices = indptr, indices
        # The log-total of weights near 1e9 is accurate to 1e-7 only, so subtract the largest first.
        # Weights that already are log-probabilities stay as they are.
        largest = row_max(log_weights, indptr)
        shift = np.where(np.isfinite(largest) & (np.abs(largest) > _FAR), largest, 0.0)
        shifted = log_weights - shift[self._row]
        log_sum = row_log_sum(shifted, indptr, largest - shift)
        self.log_total = log_sum + shift
        self.log_weights = shifted - log_sum[self._row]
        self._far_weights = log_weights if shift.any() else None

    @cached_property
    def _row(self) -> Indices:
        """Row (N,) of each entry."""
        return row_of_entries(self.indptr)

    # Sums

    def _probabilities(self) -> sp.csr_array:
        """P(y | x) of the vectors as a sparse matrix (n, V): a row's sums do not see the others."""
        shape = self.n_rows, len(self.vectors)
        return sp.csr_array((np.exp(self.log_weights), self.indices, self.indptr), shape=shape)

    def marginal_tables(self) -> list[Array]:
        """Return P(y_i) for each label as an array (n, K_i)."""
        sizes = self.space.cardinalities
        first = np.concatenate([[0], np.cumsum(sizes)])
        values = np.zeros((len(self.vectors), first[-1]))
        values[np.arange(len(values))[:, None], first[:-1] + self.vectors] = 1.0
        return np.split(self._probabilities() @ values, first[1:-1], axis=1)

    def pair_table(self, i: int, j: int) -> Array:
        """Return P(y_i, y_j) as an array (n, K_i, K_j)."""
        sizes = self.space.cardinalities[i], self.space.cardinalities[j]
        cell = np.ravel_multi_index((self.vectors[:, i], self.vectors[:, j]), sizes)
        values = (cell[:, None] == np.arange(math.prod(sizes))).astype(np.float64)
        return np.asarray(self._probabilities() @ values).reshape(self.n_rows, *sizes)

    def entropy(self) -> Array:
        """Return the entropy of each row's distribution in nats, shape (n,)."""
        entropies = row_sum(-np.exp(self.log_weights) * self.log_weights, self.indptr)
        return np.maximum(entropies, 0.0)

    def _size_marginals(self) -> SizeMarginals:
        n_sizes = self.space.n_labels + 1
        size = self.vectors.sum(axis=1)[self.indices]
        # the rows of this matrix are pairs (row of the batch, size): one product sums over both
        cell = self._row * n_sizes + size
        shape = self.n_rows * n_sizes, len(self.vectors)
        weight = sp.csr_array((np.exp(self.log_weights), (cell, self.indices)), shape=shape)
        with_label = (weight @ self.vectors.astype(np.float64)).reshape(self.n_rows, n_sizes, -1)
        total = bin_sums(cell, np.exp(self.log_weights), shape[0])
        return SizeMarginals(total.reshape(-1, n_sizes), with_label.transpose(0, 2, 1))

    def log_prob_codes(self, codes: Codes) -> Array:
        """Return the log-probability (n,) of the observed entries of codes (n, d)."""
        log_prob = np.full(self.n_rows, -np.inf)
        partial = (codes == MISSING).any(axis=1)
        whole, rows = np.flatnonzero(~partial), np.flatnonzero(partial)
        log_prob[whole] = self._log_prob_of_vectors(whole, codes[whole])
        if rows.size:
            some = self.rows(rows)
            agree = some._agrees(codes[rows])
            left = kept_entries(agree, some.indptr)
            log_prob[rows] = np.minimum(row_log_sum(some.log_weights[agree], left), 0.0)
        return log_prob

    def log_prob_at(self, rows: Indices, codes: Codes) -> Array:
        """Return the log-probability (m,) of codes (m, d), each in one of the rows (m,)."""
        if (codes == MISSING).any():
            return super().log_prob_at(rows, codes)
        return self._log_prob_of_vectors(rows, codes)

    def _log_prob_of_vectors(self, rows: Indices, codes: Codes) -> Array:
        """Log-probabilities (m,) of complete vectors (m, d), each in its own row."""
        if not len(self.indices):
            return np.full(len(rows), -np.inf)
        sorted_vectors, order = self._sorted_vectors
        wanted = as_bytes(codes)
        place = np.minimum(np.searchsorted(sorted_vectors, wanted), len(order) - 1)
        key = self._row * len(order) + self.indices
        entry = np.searchsorted(key, rows * len(order) + order[place])
        entry = np.minimum(entry, len(key) - 1)
        listed = (sorted_vectors[place] == wanted) & (
            key[entry] == rows * len(order) + order[place]
        )
        return np.where(listed, self.log_weights[entry], -np.inf)

    @cached_property
    def _sorted_vectors(self) -> tuple[NDArray[np.void], Indices]:
        whole = as_bytes(self.vectors)
        order = np.argsort(whole)
        return whole[order], order

    # Vectors

    def mode_codes(self) -> Codes:
        """Return the codes (n, d) of the most probable vectors; in a tie the first one listed."""
        best = row_max(self.log_weights, self.indptr)
        entry = np.flatnonzero(self.log_weights == best[self._row])
        row, first = np.unique(self._row[entry], return_index=True)
        codes = np.zeros((self.n_rows, self.space.n_labels), dtype=np.int32)
        codes[row] = self.vectors[self.indices[entry[first]]]
        return codes

    def top_k_codes(self, k: int) -> tuple[Codes, Array]:
        """Return codes (n, k, d) and log-probabilities (n, k), best first."""
        k = self._at_most_all(k)
        entry = leading_entries(self.log_weights, self.indptr, k)
        row = self._row[entry]
        place = row, np.arange(len(row)) - np.searchsorted(row, row)
        codes = np.zeros((self.n_rows, k, self.space.n_labels), dtype=np.int32)
        log_prob = np.full((self.n_rows, k), -np.inf)
        codes[place] = self.vectors[self.indices[entry]]
        log_prob[place] = self.log_weights[entry]
        fill_impossible(codes, np.diff(self.indptr), self.space.cardinalities)
        return codes, log_prob

    def listed_above(self, least: Array) -> Listed:
        """Return the vectors whose log-probability is at least `least` (n,) in their row."""
        entry = np.flatnonzero(self.log_weights >= least[self._row])
        nothing_cut = np.zeros(self.n_rows, dtype=bool)
        return Listed(self._row[entry], self.vectors[self.indices[entry]], nothing_cut)

    def sample_codes(self, size: int, rng: Generator) -> Codes:
        """Return draws (size, n, d)."""
        return self.inverted(rng.random((self.n_rows, size)))

    def inverted(self, uniform: Array) -> Codes:
        """Return draws (size, n, d) by uniform numbers (n, size), inverting the distribution."""
        entry = drawn_entries(np.exp(self.log_weights), self.indptr, uniform)
        draws: Codes = self.vectors[self.indices[entry.T]]
        return draws

    # Parts

    def given_codes(self, evidence: Codes) -> VectorList:
        """Return the joint given the known entries of evidence (n, d)."""
        joint = self.agreeing(evidence)
        require_possible(self.space, evidence, np.isneginf(joint.log_total))
        return joint

    def agreeing(self, evidence: Codes) -> VectorList:
        """Return the lists without the vectors that contradict evidence (n, d).

        For library code: unlike after `given_codes` a list may be empty, its `log_total` -inf.
        """
        return self._kept(self._agrees(evidence))

    def _obeying(self, rules: CompiledRules) -> tuple[VectorList, Array]:
        obeys = rules.may_hold(self.vectors)[self.indices]
        mass = row_log_sum(self.log_weights[obeys], kept_entries(obeys, self.indptr))
        return self._kept(obeys | np.isneginf(mass)[self._row]), np.minimum(mass, 0.0)

    def obeying_only(self, rules: CompiledRules) -> VectorList:
        """Return the lists without the vectors that break rules; a list may be empty."""
        return self._kept(rules.may_hold(self.vectors)[self.indices])

    def _kept(self, keep: Flags) -> VectorList:
        """Return the lists of the marked entries (N,) alone."""
        entries = np.flatnonzero(keep)
        indptr = kept_entries(keep, self.indptr)
        return self._with(indptr, self.indices[entries], self._given_weights(entries))

    def _given_weights(self, entries: Indices) -> Array:
        """Log-weights of some entries as they were given, so that small differences are kept."""
        if self._far_weights is not None:
            return self._far_weights[entries]
        weights: Array = self.log_weights[entries] + self.log_total[self._row[entries]]
        return weights

    def _agrees(self, evidence: Codes) -> Flags:
        """Whether the vector of each entry (N,) has the known values of its row."""
        agree = np.ones(len(self.indices), dtype=bool)
        for i in np.flatnonzero((evidence != MISSING).any(axis=0)):
            known = evidence[self._row, i]
            agree &= (known == MISSING) | (known == self.vectors[self.indices, i])
        return agree

    def rows(self, index: Rows) -> VectorList:
        """Return the joint of some of the rows."""
        chosen = np.arange(self.n_rows)[index]
        entries, indptr = entries_of_rows(chosen, self.indptr)
        return self._with(indptr, self.indices[entries], self._given_weights(entries))

    def reweighted(self, log_weights: Array) -> VectorList:
        """Return the same lists with other weights (N,), one per entry.

        For library code: nothing is checked, and an entry of weight zero leaves the list.
        """
        return self._with(self.indptr, self.indices, log_weights)

    def _with(self, indptr: Indices, indices: Codes, log_weights: Array) -> VectorList:
        joint = VectorList._unchecked(self.space, self.vectors, indptr, indices, log_weights)
        joint.exact, joint.how = self.exact, self.how
        return joint


def _checked_vectors(space: LabelSpace, vectors: ArrayLike) -> Codes:
    codes = np.asarray(vectors)
    if codes.ndim != 2 or codes.shape[1] != space.n_labels or not len(codes):
        raise ValueError(
            f"vectors have shape {codes.shape}, but must have (vectors, {space.n_labels}), at "
            "least one of them: a code per label."
        )
    in_range = (codes >= 0) & (codes < np.array(space.cardinalities))
    if not np.issubdtype(codes.dtype, np.integer) or not in_range.all():
        raise ValueError(
            "vectors must be integer codes, those of label i from 0 to its number of values less "
            "one; space.encode turns label values into codes."
        )
    return np.ascontiguousarray(codes, dtype=np.int32)


def _check_lists(
    indptr: NDArray[np.integer], indices: NDArray[np.integer], log_weights: Array, n_vectors: int
) -> None:
    if indices.ndim != 1 or indices.shape != log_weights.shape:
        raise ValueError(
            f"indices have shape {indices.shape} and log_weights {log_weights.shape}: give one of "
            "each per entry."
        )
    ascends = indptr.ndim == 1 and indptr.size > 0 and (np.diff(indptr) >= 0).all()
    if not ascends or indptr[0] != 0 or indptr[-1] != len(indices):
        raise ValueError(
            f"indptr must ascend from 0 to the number of entries, {len(indices)}: entry r is where "
            "the list of row r begins."
        )
    if indices.size and not (indices.min() >= 0 and indices.max() < n_vectors):
        outside = indices[(indices < 0) | (indices >= n_vectors)][0]
        raise ValueError(f"An entry names vector {outside}, but there are {n_vectors} vectors.")


Answer = TypeVar("Answer")


_SCORES_AT_ONCE = 2**21


class ListsByChunks(Joint):
    """Base of joints over lists of label vectors that are too large to be kept for all rows.

    A subclass implements `_list`. What is known and the rules that are obeyed filter the lists.

    Parameters
    ----------
    space : LabelSpace
    n_rows : int
        Number of rows n.
    n_jobs : int or None
        Threads (None: all cores).
    """

    def __init__(self, space: LabelSpace, n_rows: int, n_jobs: int | None = 1) -> None:
        super().__init__(space, n_rows)
        self._positions = np.arange(n_rows)  # of the rows, as they were at first
        self._evidence = np.full((n_rows, space.n_labels), MISSING, dtype=np.int32)
        self._rules: CompiledRules | None = None
        self._n_jobs = n_jobs
        self.rows_at_once = _SCORES_AT_ONCE

    @abstractmethod
    def _list(self, chunk: slice) -> VectorList:
        """Return the lists of some rows, without any evidence."""

    def _by_chunks(self, work: Callable[[VectorList, slice], Answer]) -> list[Answer]:
        """Return ``work(list, rows)`` for one chunk of rows after the other, in order."""

        def done(chunk: slice) -> Answer:
            listed, evidence = self._list(chunk), self._evidence[chunk]
            if (evidence != MISSING).any():
                listed = listed.agreeing(evidence)
            if self._rules is not None:
                listed, _ = listed._obeying(self._rules)
            return work(listed, chunk)

        chunks = row_slices(self.n_rows, self.rows_at_once)
        return map_threads(done, chunks, self._n_jobs, lambda: None)

    def _joined(self, work: Callable[[VectorList], Sequence[Array]]) -> list[Array]:
        parts = self._by_chunks(lambda listed, _: work(listed))
        return [np.concatenate(column) for column in zip(*parts, strict=True)]

    @cached_property
    def _sums(self) -> list[Array]:
        """Log-totals (n,) and marginals (n, K_i) of the lists."""
        return self._joined(lambda listed: (listed.log_total, *listed.marginal_tables()))

    def log_partition(self) -> Array:
        """Return the log-total of each row's list, shape (n,)."""
        return self._sums[0]

    def mode_codes(self) -> Codes:
        """Return the codes (n, d) of the most probable vectors."""
        return np.concatenate(self._by_chunks(lambda listed, _: listed.mode_codes()))

    def marginal_tables(self) -> list[Array]:
        """Return P(y_i) for each label as an array (n, K_i)."""
        return self._sums[1:]

    def log_prob_codes(self, codes: Codes) -> Array:
        """Return the log-probability (n,) of the observed entries of codes (n, d)."""
        return np.concatenate(
            self._by_chunks(lambda listed, chunk: listed.log_prob_codes(codes[chunk]))
        )

    def pair_table(self, i: int, j: int) -> Array:
        """Return P(y_i, y_j) as an array (n, K_i, K_j)."""
        return self.pair_tables([(i, j)])[0]

    def pair_tables(self, pairs: Sequence[tuple[int, int]]) -> list[Array]:
        """Return P(y_i, y_j) of several pairs (i, j) as arrays (n, K_i, K_j)."""
        return self._joined(lambda listed: listed.pair_tables(pairs))

    def entropy(self) -> Array:
        """Return the entropy of each row's distribution in nats, shape (n,).

        Where the joint is not exact, that of the vectors the probabilities are relative to.
        """
        return self._joined(lambda listed: (listed.entropy(),))[0]

    def top_k_codes(self, k: int) -> tuple[Codes, Array]:
        """Return codes (n, k, d) and log-probabilities (n, k), best first."""
        parts = self._by_chunks(lambda listed, _: listed.top_k_codes(k))
        codes, log_prob = (np.concatenate(column) for column in zip(*parts, strict=True))
        return codes, log_prob

    def sample_codes(self, size: int, rng: Generator) -> Codes:
        """Return draws (size, n, d)."""
        uniform = rng.random((self.n_rows, size))
        parts = self._by_chunks(lambda listed, chunk: listed.inverted(uniform[chunk]))
        return np.concatenate(parts, axis=1)

    def given_codes(self, evidence: Codes) -> Self:
        """Return the joint given the known entries of evidence (n, d)."""
        joint = self._copy(_evidence=merged_evidence(self.space, self._evidence, evidence))
        require_possible(self.space, evidence, np.isneginf(joint.log_partition()))
        return joint

    def _obeying(self, rules: CompiledRules) -> tuple[Joint, Array]:
        if not self.exact.all:  # the lists may lack what obeys
            return super()._obeying(rules)
        (mass,) = self._joined(lambda listed: (listed._obeying(rules)[1],))
        both = rules if self._rules is None else CompiledRules.joined(self._rules, rules)
        return self._copy(_rules=both), mass

    def rows(self, index: Rows) -> Self:
        """Return the joint of some of the rows."""
        at, known = self._positions[index], self._evidence[index]
        return self._copy(n_rows=len(at), _positions=at, _evidence=known)


class WrittenOut(ListsByChunks):
    r"""Any distribution over the label vectors of few labels, by the score of every vector.

    .. math:: P(y \mid x) = \frac{e^{s(x, y)}}{\sum_{y'} e^{s(x, y')}}

    A `VectorList` of all vectors that is made when a question is asked, some rows at a time: of n
    rows with N vectors each it would take 12 n N bytes.

    Parameters
    ----------
    space : LabelSpace
        Names and values of the d labels.
    scores : callable
        From positions of rows (m,) to s, (m, N): one column for each label vector, the last label
        changing fastest.
    n_rows : int
        Number of rows n.

    Examples
    --------
    >>> import numpy as np
    >>> from colabel.joint.vectors import WrittenOut
    >>> from colabel.labels import LabelSpace
    >>> space = LabelSpace(("a", "b"), (np.array([0, 1]), np.array([0, 1])), "matrix")
    >>> joint = WrittenOut(space, lambda rows: np.log([[0.1, 0.2, 0.3, 0.4]])[rows], 1)
    >>> joint.mode(), joint.marginals().round(2)
    (array([[1, 1]]), array([[0.7, 0.6]]))
    >>> joint.given({"b": 0}).marginals()
    array([[0.75, 0.  ]])
    """

    exact: Exactness = EXACT

    def __init__(self, space: LabelSpace, scores: Callable[[Indices], Array], n_rows: int) -> None:
        super().__init__(space, n_rows)
        self._scores, self._vectors = scores, all_vectors(space.cardinalities)
        self.rows_at_once = _SCORES_AT_ONCE // len(self._vectors)
        self.how = f"Exact: all {len(self._vectors)} label vectors are written out."

    def _list(self, chunk: slice) -> VectorList:
        scores = self._scores(self._positions[chunk])
        own = np.empty((len(scores), 0, self.space.n_labels), dtype=np.int32)
        return VectorList.of_shared_and_own(self.space, self._vectors, own, scores)
