"""Small helpers that keep the types of arrays plain."""

from __future__ import annotations

from typing import Any

import scipy.sparse as sp


def is_sparse(X: Any) -> bool:
    """Whether X is a SciPy sparse array or matrix.

    Unlike `scipy.sparse.issparse` this does not narrow the type: rows are Any, dense or CSR.

    Examples
    --------
    >>> is_sparse([[1.0]])
    False
    """
    return bool(sp.issparse(X))
