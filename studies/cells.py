"""From a plan to its cells: one method, one data set, one split."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from msgspec import to_builtins

from studies.plan import DataPlan, MethodPlan, Plan, Protocol

# Part of every key: raise it when the meaning of a cell changes, so that all are run again.
_FORMAT = 1


@dataclass(frozen=True)
class Cell:
    """One piece of work, which says all that its result depends on.

    Attributes
    ----------
    dataset : str
    method : str
        Its name in the tables; not part of the key.
    protocol : Protocol
    split : int
        Which of the protocol's splits.
    model : mapping
        See `MethodPlan`.
    steps : tuple
        Preprocessing.
    measures : tuple of str
    """

    dataset: str
    method: str
    protocol: Protocol
    split: int
    model: Any
    steps: tuple[Any, ...]
    measures: tuple[str, ...]

    @cached_property
    def key(self) -> str:
        """Fingerprint of what is computed: equal cells of different plans share a result."""
        names = ("dataset", "split", "model", "steps", "measures")
        said = {name: getattr(self, name) for name in names}
        said["protocol"] = to_builtins(self.protocol)
        if self.protocol.kind in ("random", "draws"):
            # More of them begin with the same ones: results of fewer stay valid.
            del said["protocol"]["splits"]
        text = json.dumps([_FORMAT, said], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:32]


def expand(plan: Plan) -> list[Cell]:
    """Return all cells of a plan, data set by data set."""
    cells = []
    for data in plan.datasets:
        for method in plan.methods:
            for split in range(plan.n_run(data, method)):
                cells.append(_cell(plan, data, method, data.protocol, split))
    return cells


def _cell(plan: Plan, data: DataPlan, method: MethodPlan, protocol: Protocol, split: int) -> Cell:
    own = method.settings_on(data.name)
    steps = tuple(own.pop("steps", method.steps if data.steps is None else data.steps))
    model = {**method.model, **own}
    return Cell(data.name, method.name, protocol, split, model, steps, plan.measures)
