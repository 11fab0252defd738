"""Why a measured figure differs from the printed one: the remarks of a plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from colabel.experiments._plan_schema import REMARK, PlanError, refuse_wrong

KINDS: Mapping[str, str] = {
    "convention": "convention",
    "data": "other data",
    "method": "other method",
    "print": "print itself",
    "open": "open",
}
"""What a difference comes from: a rule of measuring or of setting up, which the authors had and we
do not; data that are not the paper's; a method that is not the paper's, on purpose; print that is
wrong or contradicts itself; or something not yet found. Names in plans, words in tables."""


class Remark(NamedTuple):
    """Why figures differ.

    Attributes
    ----------
    cause : str
    kind : str
        One of `KINDS`.
    evidence : str
        What was measured that shows it.
    """

    cause: str
    kind: str = "open"
    evidence: str = ""


def read_remarks(
    table: Mapping[str, Any],
    datasets: Sequence[str],
    methods: Sequence[str],
    measures: Sequence[str],
) -> dict[str, Remark]:
    """Read texts, or tables with cause, kind and evidence.

    Keys that no figure has are refused: their remarks would never be read.
    """
    for key in table:
        places = [
            next((i for i, names in enumerate((datasets, methods, measures)) if part in names), -1)
            for part in key.split("/")
        ]
        if -1 in places or places != sorted(set(places)):
            raise PlanError(
                f"remarks has the key {key!r}; give a data set, a method and a measure of the plan,"
                ' or some of them, as in "emotions/BR/exact_match".'
            )
    return {key: _remark(key, said) for key, said in table.items()}


def _remark(key: str, said: Any) -> Remark:
    if isinstance(said, str):
        return Remark(said)
    refuse_wrong(said, REMARK, f"remark {key!r}")
    if "cause" not in said:
        raise PlanError(f"remark {key!r} has no cause: say why the figures differ.")
    return Remark(**said)


def nearest_key(keys: Mapping[str, Any], measure: str, dataset: str, method: str) -> str | None:
    """Return the key that says most closely where a figure stands."""
    places = (
        f"{dataset}/{method}/{measure}",
        f"{dataset}/{method}",
        f"{dataset}/{measure}",
        f"{method}/{measure}",
        dataset,
        method,
        measure,
    )
    return next((key for key in places if key in keys), None)
