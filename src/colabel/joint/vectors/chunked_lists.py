"""ChunkedLists: joints that answer by lists of vectors, made for some rows at a time."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
from numpy.random import Generator

from colabel.core.arrays import Array, Codes
from colabel.joint.base import Joint
from colabel.joint.vectors.vector_list import VectorList

__all__ = ["ChunkedLists"]

Answer = TypeVar("Answer")


class ChunkedLists(Joint):
    """Base of joints over lists of label vectors that are too large to be kept for all rows.

    A subclass implements `_by_chunks`.
    """

    @abstractmethod
    def _by_chunks(self, work: Callable[[VectorList, slice], Answer]) -> list[Answer]:
        """Return ``work(list, rows)`` of some rows after the other, in their order."""

    def mode_codes(self) -> Codes:
        """Return the codes (n, d) of the most probable vectors."""
        return np.concatenate(self._by_chunks(lambda listed, _: listed.mode_codes()))

    def marginal_tables(self) -> list[Array]:
        """Return P(y_i) for each label as an array (n, K_i)."""
        parts = self._by_chunks(lambda listed, _: listed.marginal_tables())
        return [np.concatenate(column) for column in zip(*parts, strict=True)]

    def pair_table(self, i: int, j: int) -> Array:
        """Return P(y_i, y_j) as an array (n, K_i, K_j)."""
        return self.pair_tables([(i, j)])[0]

    def pair_tables(self, pairs: Sequence[tuple[int, int]]) -> list[Array]:
        """Return P(y_i, y_j) of several pairs (i, j) as arrays (n, K_i, K_j)."""
        parts = self._by_chunks(lambda listed, _: listed.pair_tables(pairs))
        return [np.concatenate(column) for column in zip(*parts, strict=True)]

    def entropy(self) -> Array:
        """Return the entropy of each row's distribution in nats, shape (n,).

        Where the joint is not exact, that of the vectors the probabilities are relative to.
        """
        return np.concatenate(self._by_chunks(lambda listed, _: listed.entropy()))

    def top_k_codes(self, k: int) -> tuple[Codes, Array]:
        """Return codes (n, k, d) and log-probabilities (n, k), best first."""
        k = self._at_most_all(k)
        parts = self._by_chunks(lambda listed, _: listed.top_k_codes(k))
        codes, log_prob = (np.concatenate(column) for column in zip(*parts, strict=True))
        return codes, log_prob

    def sample_codes(self, size: int, rng: Generator) -> Codes:
        """Return draws (size, n, d)."""
        uniform = rng.random((self.n_rows, size))
        parts = self._by_chunks(lambda listed, chunk: listed.inverted(uniform[chunk]))
        return np.concatenate(parts, axis=1)
