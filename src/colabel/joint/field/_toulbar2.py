"""The mode of a pairwise field with a proof of optimality, by the optional package pytoulbar2."""

from __future__ import annotations

import importlib
from types import ModuleType

import numpy as np

from colabel.core.arrays import Array, Codes
from colabel.joint.field._tables import FieldTables

_DECIMALS = 6  # toulbar2 counts in integers: scores are rounded to so many digits


def best_by_toulbar2(field: FieldTables, start: Codes) -> Codes:
    """Return the best vector of each row, (n, d), row after row: the solver has one global state.

    Parameters
    ----------
    field : FieldTables
        The field.
    start : (n, d)
        A good vector of each row; it bounds the search, and is returned where it is the best.
    """
    solver = require_toulbar2()
    found = start.copy()
    for row in range(field.n_rows):
        better = _solved(solver, field.rows(slice(row, row + 1)), start[row : row + 1])
        if better is not None:
            found[row] = better
    return found


def require_toulbar2() -> ModuleType:
    """Import pytoulbar2, or say what to do."""
    try:
        return importlib.import_module("pytoulbar2")
    except ImportError as error:
        raise ImportError(
            "mode_engine='toulbar2' needs the optional package pytoulbar2: install it with "
            "pip install pytoulbar2, or use mode_engine='auto'."
        ) from error


def _solved(solver: ModuleType, field: FieldTables, start: Codes) -> list[int] | None:
    """Return a vector better than the start, or None if there is none; the field has one row."""
    network = solver.CFN(resolution=_DECIMALS)
    for i, size in enumerate(field.cardinalities):
        network.AddVariable(f"y{i}", list(range(size)))
    least = 0.0  # total cost of the start, of which every function's own minimum is taken off
    for i, unary in enumerate(field.unary):
        costs = _costs(unary[0])
        network.AddFunction([i], costs.tolist())
        least += float(costs[start[0, i]])
    for (i, j), table in zip(field.edges, field.tables, strict=True):
        costs = _costs(table[0])
        network.AddFunction([i, j], costs.ravel().tolist())
        least += float(costs[start[0, i], start[0, j]])
    if np.isfinite(least):
        # Rounding every cost down or up must not hide the start from the solver.
        slack = (field.n_labels + len(field.edges)) * 10.0**-_DECIMALS
        network.UbInit = least + slack
    solution = network.Solve()
    return None if solution is None else [int(value) for value in solution[0]]


def _costs(scores: Array) -> Array:
    """Turn scores into costs from 0 up; inf forbids."""
    top = scores.max()
    return np.full(scores.shape, np.inf) if np.isneginf(top) else top - scores
