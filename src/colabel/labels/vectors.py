"""All vectors of some labels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from colabel.core.arrays import Codes

__all__ = ["all_vectors"]


def all_vectors(cardinalities: Sequence[int]) -> Codes:
    """Return every vector of labels of these sizes, (N, d), the last label changing fastest.

    Examples
    --------
    >>> all_vectors((2, 2)).tolist()
    [[0, 0], [0, 1], [1, 0], [1, 1]]
    """
    grid = np.indices(tuple(cardinalities)).reshape(len(cardinalities), -1)
    return np.ascontiguousarray(grid.T, dtype=np.int32)
