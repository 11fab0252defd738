"""Checks on the tables of log-probabilities that make up a joint."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from colabel.core.arrays import Array
from colabel.core.numeric import short_sum
from colabel.labels import LabelSpace

_TOLERANCE = 1e-6  # how far the probabilities of a table may sum from one


def checked_tables(
    space: LabelSpace, log_tables: Sequence[ArrayLike], shapes: Sequence[tuple[int, ...]]
) -> list[Array]:
    """Return the tables as float64 arrays (n, *shapes[i]) whose last axis sums to one in exp.

    The tables themselves are not changed: within the tolerance they are taken as they are.
    """
    if len(log_tables) != space.n_labels:
        raise ValueError(
            f"There are {len(log_tables)} tables but {space.n_labels} labels: give one table of "
            "log-probabilities per label."
        )
    tables = [np.asarray(table, dtype=np.float64) for table in log_tables]
    for name, table, shape in zip(space.names, tables, shapes, strict=True):
        wanted = (len(tables[0]) if tables[0].ndim else 0, *shape)
        if table.shape != wanted:
            raise ValueError(
                f"The table of label {name!r} has shape {table.shape} but must have {wanted}: "
                "rows, then the states of the parent if there may be one (1 above a root), then "
                "the values of the label."
            )
        _check_normalised(name, table)
    return tables


def _check_normalised(name: str, table: Array) -> None:
    """Raise ValueError unless exp(table) sums to one over the last axis."""
    with np.errstate(over="ignore"):
        total = short_sum(np.exp(table))
    wrong = np.argwhere(~(np.abs(total - 1.0) <= _TOLERANCE))  # also true of NaN
    if len(wrong):
        first = tuple(wrong[0].tolist())
        raise ValueError(
            f"The table of label {name!r} must hold log-probabilities, but their exponentials sum "
            f"to {total[first]:.6g} at {first} (row first) instead of 1. Subtract the log of the "
            "sum, for example with scipy.special.log_softmax."
        )
