"""Names of array types, and what the methods of this package ask of labels."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float64]
Flags: TypeAlias = NDArray[np.bool_]
Indices: TypeAlias = NDArray[np.intp]


def labels_of(Y: Any) -> NDArray[np.int32]:
    """Return 0/1 labels (n, d), or refuse them."""
    labels = np.asarray(Y.toarray() if hasattr(Y, "toarray") else Y)
    if labels.ndim != 2 or not np.isin(labels, (0, 1)).all():
        raise ValueError("This method learns from whole rows of 0/1 labels: give a matrix (n, d).")
    return labels.astype(np.int32)
