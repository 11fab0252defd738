"""Label vectors as single values."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from colabel.core.arrays import Codes


def as_bytes(codes: Codes) -> NDArray[np.void]:
    """Label vectors (m, d) as single values (m,) that can be sorted and compared."""
    plain = np.ascontiguousarray(codes, dtype=np.int32)
    return plain.view(np.dtype((np.void, plain.itemsize * plain.shape[1]))).ravel()
