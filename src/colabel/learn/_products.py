"""Products with sparse rows, compiled. Arrays are C-contiguous; no checks here."""

from __future__ import annotations

from colabel.core.arrays import Array, Codes
from colabel.core.compiling import njit

# Reassociation lets sums and products be vectorised; infinities keep their meaning.
_SUMS = {"reassoc", "contract", "nsz", "arcp"}


@njit(nogil=True, cache=True, error_model="numpy", fastmath=_SUMS)
def csr_times(indptr: Codes, indices: Codes, data: Array, dense: Array, out: Array) -> None:
    """Compute out (n, c) = A (n, q) @ dense (q, c).

    Four entries of a row are taken together, so that a sum is loaded and stored once for four.
    """
    n_columns = dense.shape[1]
    for row in range(out.shape[0]):
        target = out[row]
        target[:] = 0.0
        position = indptr[row]
        stop = indptr[row + 1]
        while position + 4 <= stop:
            x0, x1 = data[position], data[position + 1]
            x2, x3 = data[position + 2], data[position + 3]
            s0, s1 = dense[indices[position]], dense[indices[position + 1]]
            s2, s3 = dense[indices[position + 2]], dense[indices[position + 3]]
            for column in range(n_columns):
                target[column] += (
                    x0 * s0[column] + x1 * s1[column] + x2 * s2[column] + x3 * s3[column]
                )
            position += 4
        while position < stop:
            x0 = data[position]
            s0 = dense[indices[position]]
            for column in range(n_columns):
                target[column] += x0 * s0[column]
            position += 1
