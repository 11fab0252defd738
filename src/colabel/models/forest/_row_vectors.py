"""The label vectors of training rows, those with missing labels completed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from colabel.core.arrays import Array, Codes, Indices
from colabel.labels import MISSING

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
        known = codes != MISSING
        whole = known.all(axis=1)
        filled = codes.copy()
        lonely = np.flatnonzero(~whole)
        if whole.any() and len(lonely):
            seen, place = np.unique(codes[whole], axis=0, return_inverse=True)
            counts = np.bincount(place.ravel(), weights=weight[whole], minlength=len(seen))
            agreeing = {row: _agreeing(codes[row], seen, counts) for row in lonely}
        else:
            seen, counts, agreeing = codes[:0], np.empty(0), {}
        for label in range(codes.shape[1]):
            own = known[:, label]
            usual = np.bincount(codes[own, label], weights=weight[own], minlength=1).argmax()
            filled[~own, label] = usual
        shared = [row for row, vectors in agreeing.items() if len(vectors)]
        single = np.setdiff1d(np.arange(len(codes)), shared)
        # sorted vectors: those of complete rows are among them, found again by their place
        vectors, place = np.unique(filled[single], axis=0, return_inverse=True)
        rows, columns, values = [single], [place.ravel()], [np.ones(len(single))]
        if shared:
            _, of_seen = np.unique(np.concatenate([vectors, seen]), axis=0, return_inverse=True)
            new_place = of_seen.ravel()[len(vectors) :]
            for row in shared:
                found = agreeing[row]
                rows.append(np.full(len(found), row))
                columns.append(new_place[found])
                values.append(counts[found] / counts[found].sum())
        entries = (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns)))
        return cls(vectors, sp.csr_array(entries, shape=(len(codes), len(vectors))))

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
    """Positions of the most frequent vectors (S, d) that have the known labels of a row (d,)."""
    known = codes != MISSING
    found = np.flatnonzero((seen[:, known] == codes[known]).all(axis=1))
    return found[np.argsort(-counts[found], kind="stable")[:_MOST_COMPLETIONS]]
