"""Which engine answers a connected component: the cheapest exact one that fits, or a named one."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from colabel.core.arrays import Codes
from colabel.joint.field._belief import BeliefPropagation
from colabel.joint.field._elimination import Elimination, eliminate
from colabel.joint.field._engine import ClosedForm, FieldEngine
from colabel.joint.field._enumeration import Enumeration
from colabel.joint.field._gibbs import GibbsField
from colabel.joint.field._junction import JunctionTree
from colabel.joint.field._options import FieldOptions
from colabel.joint.field._tables import FieldTables

# In the time of one table entry in variable elimination, enumeration does this many vectors.
_ENTRY_COST = 8


def engine_of(
    field: FieldTables, options: FieldOptions, row_keys: NDArray[np.uint64], start: Codes
) -> FieldEngine:
    """Return the engine for a connected field.

    "auto" enumerates if all label vectors of a row fit into the memory and are not many more
    than the table entries of variable elimination; eliminates if these fit; and otherwise
    propagates beliefs. Fields whose scores are far from zero are never enumerated.
    """
    if field.n_labels == 1:
        return ClosedForm(field)
    if options.engine == "belief_propagation":
        return BeliefPropagation(field, options, row_keys, start)
    if options.engine == "gibbs":
        return GibbsField(field, options, row_keys, start)
    most = options.most_entries
    n_states = math.prod(field.cardinalities)
    if options.engine == "enumeration":
        _require(n_states <= most, field, options, f"all {n_states} label vectors of a row")
    if field.is_far:
        # Only elimination sums long numbers; its tables have at most twice as many entries as there
        # are label vectors.
        elimination = eliminate(field, 2 * most)
        if elimination is not None:
            return JunctionTree(field, elimination, options)
    if options.engine == "enumeration":
        return Enumeration(field, options)
    elimination = eliminate(field, most)
    if options.engine == "junction_tree":
        _require(elimination is not None, field, options, "the tables of a row")
    if elimination is None:
        # Enumeration needs no more than elimination, so it may fit where that does not.
        if n_states <= most:
            return Enumeration(field, options)
        return BeliefPropagation(field, options, row_keys, start)
    return _cheaper(field, elimination, n_states, options)


def _cheaper(
    field: FieldTables, elimination: Elimination, n_states: int, options: FieldOptions
) -> FieldEngine:
    """Return the cheaper one of the exact engines, or elimination where that was named."""
    entries = elimination.n_entries
    small = n_states <= min(_ENTRY_COST * entries, options.most_entries)
    if options.engine == "auto" and small:
        return Enumeration(field, options)
    return JunctionTree(field, elimination, options)


def _require(fits: bool, field: FieldTables, options: FieldOptions, what: str) -> None:
    """Raise ValueError if an engine that the user named needs too much memory."""
    if not fits:
        raise ValueError(
            f"engine={options.engine!r} cannot answer a component of {field.n_labels} labels and "
            f"{len(field.edges)} edges: {what} need more than memory={options.memory} bytes. "
            "Raise memory, or use engine='auto' or 'belief_propagation'."
        )
