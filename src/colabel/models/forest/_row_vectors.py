"""The label vectors of training rows, those with missing labels completed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from colabel.core.arrays import Array, Codes, Indices
from colabel.labels import MISSING
from colabel.models.forest._kernels import agreeing_vectors

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

    def informed(self, lists: sp.csr_array) -> RowVectors:
        """Share rows anew, in proportion to lists (n, V) made without them.

        A row of whose vectors none is listed keeps its shares.
        """
        among = lists.multiply(self.shares > 0).tocsr()
        total = among.sum(axis=1)
        kept = np.where(total > 0, 0.0, 1.0)
        scale = np.divide(1.0, total, out=np.zeros_like(total), where=total > 0)
        shares = sp.diags_array(scale) @ among + sp.diags_array(kept) @ self.shares
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
