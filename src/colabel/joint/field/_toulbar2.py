"""The best vectors of a pairwise field, proved, by the optional package pytoulbar2."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

import numpy as np

from colabel.core.arrays import Array, Codes, Flags
from colabel.joint.field._tables import FieldTables

_DECIMALS = 9  # toulbar2 counts in integers: scores are rounded to so many digits
_ROOM = 1000  # vectors beyond the k best that the solver may name before it is asked again


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
    scores = field.score(start)
    for row in range(field.n_rows):
        solved = _network(solver, field.rows(slice(row, row + 1)), float(scores[row])).Solve()
        if solved is not None:
            found[row] = solved[0]
    return found


def k_best_by_toulbar2(
    field: FieldTables, listed: Codes, scores: Array
) -> tuple[Codes, Array, Flags]:
    """Return the k best vectors of each row, given k good ones of which the first is the best.

    The score of the k-th good vector is a lower bound of that of the k-th best, so that the best
    are all among the vectors of at least that score, which the solver enumerates. Where they are
    many more than k, those named so far raise the bound.

    Parameters
    ----------
    field : FieldTables
        The field.
    listed : (n, k, d)
        Good vectors of each row, all different, best first.
    scores : (n, k)
        Their scores.

    Returns
    -------
    codes : (n, k, d)
    scores : (n, k)
    cut : (n,)
        Rows in which too many vectors have the same score as the k-th for the list to be proved.
    """
    solver = require_toulbar2()
    codes, scores = listed.copy(), scores.copy()
    cut = np.zeros(field.n_rows, dtype=bool)
    for row in range(field.n_rows):
        one = field.rows(slice(row, row + 1))
        codes[row], scores[row], cut[row] = _proved_list(solver, one, codes[row], scores[row])
    return codes, scores, cut


def _proved_list(
    solver: ModuleType, field: FieldTables, codes: Codes, scores: Array
) -> tuple[Codes, Array, bool]:
    """Improve the list (k, d) and its scores (k,) of a field of one row; say whether it was cut."""
    k = len(codes)
    # a list of nothing but modes needs no other proof than theirs
    while scores[-1] < scores[0] - _rounding(field):
        bound = scores[-1]
        network = _network(solver, field, float(bound))
        network.Solve(allSolutions=k + _ROOM)
        found = [vector for _, vector in network.GetSolutions()]
        # what was listed stays first among equals
        pool = np.array(list(dict.fromkeys(map(tuple, [*codes.tolist(), *found]))), dtype=np.int32)
        values = field.score(pool[:, None])[:, 0]
        order = np.argsort(-values, kind="stable")[:k]
        codes, scores = pool[order], values[order]
        if len(found) < k + _ROOM:
            break
        if scores[-1] <= bound:
            return codes, scores, True
    return codes, scores, False


def require_toulbar2() -> ModuleType:
    """Import pytoulbar2, or say what to do."""
    try:
        return importlib.import_module("pytoulbar2")
    except ImportError as error:
        raise ImportError(
            "mode_engine='toulbar2' needs the optional package pytoulbar2: install it with "
            "pip install pytoulbar2, or use mode_engine='auto'."
        ) from error


def _network(solver: ModuleType, field: FieldTables, least: float) -> Any:
    """Return a field of one row as a cost network, to be searched for scores of `least` and more.

    The cost of a vector is the sum of all tables' largest scores, less its own score.
    """
    network = solver.CFN(resolution=_DECIMALS)
    for i, size in enumerate(field.cardinalities):
        network.AddVariable(f"y{i}", list(range(size)))
    scopes = [[i] for i in range(field.n_labels)] + [list(edge) for edge in field.edges]
    total = 0.0
    for scope, scores in zip(scopes, [*field.unary, *field.tables], strict=True):
        top = scores[0].max()
        costs = np.full(scores[0].shape, np.inf) if np.isneginf(top) else top - scores[0]
        network.AddFunction(scope, costs.ravel().tolist())
        total += float(top)
    if np.isfinite(total - least):
        # Rounding every cost down or up must not hide a vector of that score from the solver.
        network.UbInit = total - least + _rounding(field)
    return network


def _rounding(field: FieldTables) -> float:
    """By how much the solver may be wrong about a score, at most."""
    return float((field.n_labels + len(field.edges)) * 10.0**-_DECIMALS)
