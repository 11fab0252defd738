"""Repeated: a joint whose rows share a few distributions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.random import Generator

from colabel.core.arrays import Array, Codes, Indices, Rows
from colabel.joint.base import Joint, Listed
from colabel.joint.sizes import SizeMarginals
from colabel.joint.user_terms import require_possible
from colabel.labels import MISSING
from colabel.rules import CompiledRules

__all__ = ["Repeated"]

_ROWS_AT_ONCE = 256  # rows that get a copy of their distribution, to sum over their evidence


class Repeated(Joint):
    """Rows that have the distribution of a row of another joint, such as one for all of them.

    What does not depend on x, as the frequencies of label vectors, is kept and computed once.

    Parameters
    ----------
    shared : Joint
        Of u rows.
    of_row : (n,) array of int
        The row of `shared` that each row has the distribution of.

    Examples
    --------
    >>> import numpy as np
    >>> from colabel.joint import Independent
    >>> from colabel.joint.repeated import Repeated
    >>> from colabel.labels import LabelSpace
    >>> space = LabelSpace(("a", "b"), (np.array([0, 1]), np.array([0, 1])), "matrix")
    >>> one = Independent(space, [np.log([[0.3, 0.7]]), np.log([[0.9, 0.1]])])
    >>> joint = Repeated(one, np.zeros(2, dtype=np.intp))
    >>> joint.marginals()
    array([[0.7, 0.1],
           [0.7, 0.1]])
    """

    def __init__(self, shared: Joint, of_row: Indices) -> None:
        super().__init__(shared.space, len(of_row))
        self.shared, self.of_row = shared, of_row
        self.exact, self.how = shared.exact, shared.how

    def top_k_codes(self, k: int) -> tuple[Codes, Array]:
        """Return codes (n, k, d) and log-probabilities (n, k), best first."""
        codes, log_prob = self.shared.top_k_codes(k)
        self.exact, self.how = self.shared.exact, self.shared.how  # a search may have been cut
        return codes[self.of_row], log_prob[self.of_row]

    def marginal_tables(self) -> list[Array]:
        """Return P(y_i) for each label as an array (n, K_i)."""
        return [table[self.of_row] for table in self.shared.marginal_tables()]

    def pair_table(self, i: int, j: int) -> Array:
        """Return P(y_i, y_j) as an array (n, K_i, K_j)."""
        return self.shared.pair_table(i, j)[self.of_row]

    def pair_tables(self, pairs: Sequence[tuple[int, int]]) -> list[Array]:
        """Return P(y_i, y_j) of several pairs (i, j) as arrays (n, K_i, K_j)."""
        return [table[self.of_row] for table in self.shared.pair_tables(pairs)]

    def entropy(self) -> Array:
        """Return the entropy of each row's distribution in nats, shape (n,)."""
        return self.shared.entropy()[self.of_row]

    def _size_marginals(self) -> SizeMarginals:
        size, with_label = self.shared._size_marginals()
        return SizeMarginals(size[self.of_row], with_label[self.of_row])

    def log_prob_codes(self, codes: Codes) -> Array:
        """Return the log-probability (n,) of the observed entries of codes (n, d)."""
        return self.log_prob_at(np.arange(self.n_rows), codes)

    def log_prob_at(self, rows: Indices, codes: Codes) -> Array:
        """Return the log-probability (m,) of codes (m, d), each in one of the rows (m,)."""
        of_shared = self.of_row[rows]
        log_prob = np.empty(len(rows))
        partial = (codes == MISSING).any(axis=1)
        log_prob[~partial] = self.shared.log_prob_at(of_shared[~partial], codes[~partial])
        some = np.flatnonzero(partial)
        for start in range(0, len(some), _ROWS_AT_ONCE):
            part = some[start : start + _ROWS_AT_ONCE]
            log_prob[part] = self.shared.rows(of_shared[part]).log_prob_codes(codes[part])
        return log_prob

    def listed_above(self, least: Array) -> Listed:
        """Return the vectors whose log-probability is at least `least` (n,) in their row."""
        groups = list(self._groups())
        lowest = np.full(self.shared.n_rows, np.inf)
        for u, rows in groups:
            lowest[u] = least[rows].min()
        found = self.shared.listed_above(lowest)
        log_prob = self.shared.log_prob_at(found.rows, found.codes)
        order = np.lexsort((-log_prob, found.rows))
        indptr = np.searchsorted(found.rows[order], np.arange(self.shared.n_rows + 1))
        # best first: a row wants the beginning of the list
        count = np.empty(self.n_rows, dtype=np.intp)
        for u, rows in groups:
            listed = log_prob[order[indptr[u] : indptr[u + 1]]]
            count[rows] = np.searchsorted(-listed, -least[rows], side="right")
        ends = np.cumsum(count)
        entry = np.arange(count.sum()) + np.repeat(indptr[self.of_row] - ends + count, count)
        return Listed(
            np.repeat(np.arange(self.n_rows), count),
            found.codes[order[entry]],
            found.cut[self.of_row] & (least < np.inf),
        )

    @property
    def lists_all(self) -> bool:
        """Whether `listed_above` is complete, except where it says that it was cut."""
        return self.shared.lists_all

    def sample_codes(self, size: int, rng: Generator) -> Codes:
        """Return draws (size, n, d)."""
        codes = np.empty((size, self.n_rows, self.space.n_labels), dtype=np.int32)
        for u, rows in self._groups():
            drawn = self.shared.rows(np.array([u])).sample_codes(size * len(rows), rng)
            codes[:, rows] = drawn.reshape(size, len(rows), self.space.n_labels)
        return codes

    def given_codes(self, evidence: Codes) -> Joint:
        """Return the joint given the known entries of evidence (n, d)."""
        keyed = np.column_stack([self.of_row, evidence])
        distinct, of_row = np.unique(keyed, axis=0, return_inverse=True)
        of_shared, known = distinct[:, 0], distinct[:, 1:].astype(np.int32)
        possible = Repeated(self.shared, of_shared).log_prob_codes(known) > -np.inf
        require_possible(self.space, evidence, ~possible[of_row.ravel()])
        return Repeated(self.shared.rows(of_shared).given_codes(known), of_row.ravel())

    def _obeying(self, rules: CompiledRules) -> tuple[Joint, Array]:
        joint, mass = self.shared._obeying(rules)
        return Repeated(joint, self.of_row), mass[self.of_row]

    def rows(self, index: Rows) -> Repeated:
        """Return the joint of some of the rows."""
        return Repeated(self.shared, self.of_row[index])

    def _groups(self) -> Iterator[tuple[int, Indices]]:
        """Rows of `shared` that some rows have, and which these are."""
        order = np.argsort(self.of_row, kind="stable")
        used, first = np.unique(self.of_row[order], return_index=True)
        yield from zip(used.tolist(), np.split(order, first)[1:], strict=True)
