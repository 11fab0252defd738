"""What a paper says, in a form that can be checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from colabel.experiments._plan_schema import CLAIM, PlanError, refuse_wrong
from colabel.experiments.measures import MEASURES


@dataclass(frozen=True)
class Claim:
    """What a paper says: `method` beats each of `over` by `measures` on `datasets`.

    With `faster`, that it learns so many times as fast; `measures` is then empty. With `above`,
    that its measures lie above that value; `over` is then empty.
    """

    text: str
    method: str
    over: tuple[str, ...]
    measures: tuple[str, ...]
    datasets: tuple[str, ...]
    faster: float | None = None
    above: float | None = None


def read_claim(entry: Mapping[str, Any], methods: Sequence[str], datasets: Sequence[str]) -> Claim:
    """Read a claim about methods and data sets of a plan."""
    refuse_wrong(entry, CLAIM, "a claim")
    try:
        claim = Claim(
            entry["text"],
            entry["method"],
            tuple(entry["over"] if "above" not in entry else ()),
            tuple(entry["measures"] if "faster" not in entry else ()),
            tuple(entry.get("datasets", datasets)),
            entry.get("faster"),
            entry.get("above"),
        )
    except KeyError as error:
        raise PlanError(f"a claim lacks {error}: {dict(entry)}.") from error
    for one, other in (("measures", "faster"), ("over", "above")):
        if one in entry and other in entry:
            raise PlanError(f"a claim has both {one} and {other}: make two of it: {claim.text!r}.")
    for name in claim.datasets:
        if name not in datasets:
            raise PlanError(f"a claim speaks of the data set {name!r}, which the plan lacks.")
    for method in (claim.method, *claim.over):
        if method not in methods:
            raise PlanError(f"a claim speaks of the method {method!r}, which the plan lacks.")
    for measure in claim.measures:
        if measure not in MEASURES:
            raise PlanError(f"a claim speaks of the unknown measure {measure!r}.")
    return claim
