"""Labels as features of other labels: codes written as 0/1 columns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from colabel.core.arrays import Array, Codes, Indices

__all__ = ["column_owner", "label_columns", "n_label_columns"]


def column_owner(cardinalities: Sequence[int]) -> Indices:
    """Say which variable each label column belongs to.

    A variable of two values gives one column, a variable of K != 2 values gives
    K one-hot columns; the columns of a variable stand side by side, variables in order.

    Parameters
    ----------
    cardinalities : (d,) number of values of each variable

    Returns
    -------
    (e,) integer array, variable index of each column

    Examples
    --------
    >>> from colabel.core.label_features import column_owner
    >>> column_owner([2, 3, 2])
    array([0, 1, 1, 1, 2])
    """
    sizes = np.asarray(cardinalities, dtype=np.intp)
    # one column says all about a binary variable; a second would only split its weight
    return np.repeat(np.arange(len(sizes)), np.where(sizes == 2, 1, sizes))


def n_label_columns(cardinalities: Sequence[int]) -> int:
    """Number of label columns e.

    Examples
    --------
    >>> n_label_columns((2, 3))
    4
    """
    return sum(1 if size == 2 else size for size in cardinalities)


def label_columns(codes: Codes, cardinalities: Sequence[int]) -> Array:
    """Write label codes as 0/1 columns, in the order of :func:`column_owner`.

    Parameters
    ----------
    codes : (n, d) integer codes, each in ``range(cardinalities[j])``; a code
        outside that range (such as -1, unknown) gives zeros in all its columns
    cardinalities : (d,) number of values of each variable

    Returns
    -------
    (n, e) float array of zeros and ones

    Examples
    --------
    >>> import numpy as np
    >>> from colabel.core.label_features import label_columns
    >>> label_columns(np.array([[1, 2], [0, 0]]), [2, 3])
    array([[1., 0., 0., 1.],
           [0., 1., 0., 0.]])
    """
    owner = column_owner(cardinalities)
    sizes = np.asarray(cardinalities, dtype=np.intp)
    first = np.searchsorted(owner, owner)  # where the columns of the same variable begin
    value = np.where(sizes[owner] == 2, 1, np.arange(len(owner)) - first)
    columns: Array = (np.asarray(codes)[:, owner] == value).astype(np.float64)
    return columns
