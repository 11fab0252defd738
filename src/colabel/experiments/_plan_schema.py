"""What the tables of a plan may hold, declared once.

The kinds are those that stored types declare (`colabel.core.schema`): a value of another kind is
told with its place.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from colabel.core.schema import (
    Dims,
    Kind,
    Many,
    NotAsDeclaredError,
    OneOf,
    Real,
    Table,
    Text,
    Whole,
    YesNo,
    refuse_unless,
)

PROTOCOLS = ("kfold", "first_label", "stratified", "random", "draws", "whole")
_MOST_SPLITS = 10_000
_DEEPEST = 20


class PlanError(ValueError):
    """A plan cannot be used; the message says where and what to do."""


class Either:
    """A text, or a table of plain values."""

    def check(self, value: Any, dims: Dims, where: str) -> None:
        if not isinstance(value, str):
            Table(Plain()).check(value, dims, where)


class Mapped:
    """A table of some known keys."""

    def __init__(self, fields: Mapping[str, Kind]) -> None:
        self.fields = fields

    def check(self, value: Any, dims: Dims, where: str) -> None:
        Table(Plain()).check(value, dims, where)
        reason = wrong(value, self.fields, others=False)
        refuse_unless(reason is None, f"{where} {reason}")


class Plain:
    """Numbers, texts, true or false, and lists and tables of these; no dates."""

    def check(self, value: Any, dims: Dims, where: str) -> None:
        self._check(value, where, 0)

    def _check(self, value: Any, where: str, depth: int) -> None:
        refuse_unless(depth < _DEEPEST, f"{where} is nested too deeply")
        if isinstance(value, Mapping):
            for key, each in value.items():
                self._check(each, f"{where}.{key}", depth + 1)
        elif isinstance(value, list):
            for i, each in enumerate(value):
                self._check(each, f"{where}[{i}]", depth + 1)
        else:
            plain = isinstance(value, str | int | float)
            refuse_unless(plain, f"{where} is {str(value)[:60]}, no number, text, list or table")


_STEPS = Many(Either())
PROTOCOL: Mapping[str, Kind] = {
    "kind": OneOf(*PROTOCOLS),
    "splits": Whole(1, _MOST_SPLITS),
    "seed": Whole(0, 2**32 - 1),
    "train": Real(1e-9, 1e9),
    "test": Real(1e-9, 1e9),
}
_CHARACTERISTICS = ("rows", "features", "labels", "cardinality", "distinct")
DATASET: Mapping[str, Kind] = {
    "name": Text(),
    "steps": _STEPS,
    "printed": Mapped(dict.fromkeys(_CHARACTERISTICS, Real(0.0, 1e12))),
    "first": Whole(1, _MOST_SPLITS),
    **PROTOCOL,
}
METHOD: Mapping[str, Kind] = {
    "model": Text(),
    "steps": _STEPS,
    "on": Table(Table(Plain())),
    "without": Table(Text()),
}
CLAIM: Mapping[str, Kind] = {
    "text": Text(),
    "method": Text(),
    "over": Many(Text()),
    "measures": Many(Text()),
    "datasets": Many(Text()),
    "faster": Real(0.0, 1e9),
    "above": Real(-1e9, 1e9),
}
REMARK: Mapping[str, Kind] = {
    "cause": Text(),
    "kind": OneOf("convention", "data", "method", "print", "open"),
    "evidence": Text(),
}
PLAN: Mapping[str, Kind] = {
    "title": Text(),
    "description": Text(),
    "reference": Text(),
    "measures": Many(Text()),
    "protocol": Table(),
    "steps": _STEPS,
    "datasets": Many(Either()),
    "methods": Table(Table(Plain())),
    "graphs": Many(Text()),
    "claims": Many(Table(Plain())),
    "remarks": Table(Either()),
    "paper": Text(),
    "as_run": YesNo(),
    "figures": Text(),
    "printed_as": Table(Text()),
    "left_out": Table(Text()),
    "win_tie_loss": Table(Table(Many(Whole(0, 10_000)))),
}


def wrong(table: Mapping[str, Any], fields: Mapping[str, Kind], *, others: bool) -> str | None:
    """Return what is wrong with a table, or None; with `others` it may have further keys."""
    unknown = sorted(set(table) - set(fields))
    if unknown and not others:
        return f"has the unknown key {unknown[0]!r}; known are {', '.join(sorted(fields))}"
    try:
        for name, value in table.items():
            fields.get(name, Plain()).check(value, {}, name)
    except NotAsDeclaredError as error:
        return f"is wrong: {error}"
    return None


def refuse_wrong(
    table: Mapping[str, Any], fields: Mapping[str, Kind], place: str, *, others: bool = False
) -> None:
    """Raise a `PlanError` that names the place, if a table is wrong."""
    reason = wrong(table, fields, others=others)
    if reason is not None:
        raise PlanError(f"{place} {reason}.")
