"""Distributions over lists of label vectors: some that all rows share, some of each row's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from colabel.core.arrays import Array, Codes, Indices
from colabel.joint._field_enumeration import _inverted, _leading_rows
from colabel.labels import MISSING


class VectorList(NamedTuple):
    """Label vectors of m rows with their scores: log-probabilities up to a constant per row.

    Attributes
    ----------
    shared : (S, d) array
        Vectors that all rows have.
    own : (m, E, d) array
        Vectors of each row.
    scores : (m, S + E) array
        Those of the shared vectors first; -inf for vectors that do not count.
    """

    shared: Codes
    own: Codes
    scores: Array

    def agreeing(self, evidence: Codes) -> VectorList:
        """The list without the vectors that contradict evidence (m, d)."""
        scores = self.scores.copy()
        n_shared = len(self.shared)
        for i in np.flatnonzero((evidence != MISSING).any(axis=0)):
            known = evidence[:, i, None]
            for part, values in (
                (scores[:, :n_shared], self.shared[None, :, i]),
                (scores[:, n_shared:], self.own[:, :, i]),
            ):
                part[(known != MISSING) & (known != values)] = -np.inf
        return VectorList(self.shared, self.own, scores)

    def log_total(self) -> Array:
        """Logarithm of the sum over the list, (m,)."""
        with np.errstate(divide="ignore"):
            return np.asarray(logsumexp(self.scores, axis=1))

    def probabilities(self) -> Array:
        """Probabilities (m, S + E); some vector of each row must be possible."""
        prob: Array = self.scores - self.scores.max(axis=1, keepdims=True)
        np.exp(prob, out=prob)
        prob /= prob.sum(axis=1, keepdims=True)
        return prob

    def codes_at(self, place: Indices) -> Codes:
        """Vectors (m, k, d) at positions (m, k) of each row's list."""
        n_shared = len(self.shared)
        found = self.shared[np.minimum(place, n_shared - 1)]
        row, rank = np.nonzero(place >= n_shared)
        found[row, rank] = self.own[row, place[row, rank] - n_shared]
        return found

    def best(self, k: int) -> tuple[Codes, Array]:
        """The k best vectors (m, k, d) and scores (m, k); where there are no more, -inf."""
        listed = min(k, self.scores.shape[1])
        place, scores = _leading_rows(self.scores, listed)
        missing = ((0, 0), (0, k - listed))
        codes = np.pad(self.codes_at(place), (*missing, (0, 0)), mode="edge")
        return codes, np.pad(scores, missing, constant_values=-np.inf)

    def sampled(self, uniform: Array) -> Codes:
        """Draws (m, size, d) by uniform numbers (m, size)."""
        prob = self.probabilities()
        place = [_inverted(*row) for row in zip(prob, uniform, strict=True)]
        return self.codes_at(np.array(place, dtype=np.intp).reshape(uniform.shape))

    def table(self, labels: Sequence[int], sizes: Sequence[int]) -> Array:
        """Probabilities (m, K_i K_j ...) of the values of some labels together."""
        prob = self.probabilities()
        n_cells = int(np.prod(sizes))
        shared = np.ravel_multi_index([self.shared[:, i] for i in labels], sizes)
        found: Array = prob[:, : len(shared)] @ np.eye(n_cells)[shared]
        if self.own.shape[1]:
            own = np.ravel_multi_index([self.own[:, :, i] for i in labels], sizes)
            cells = own + n_cells * np.arange(len(own))[:, None]
            weight = prob[:, len(shared) :]
            flat = np.bincount(cells.ravel(), weight.ravel(), minlength=found.size)
            found += flat.reshape(found.shape)
        return found

    def entropy(self) -> Array:
        """Entropy (m,) in nats."""
        prob = self.probabilities()
        logs = np.log(np.where(prob > 0, prob, 1.0))
        return np.asarray(-(prob * logs).sum(axis=1))
