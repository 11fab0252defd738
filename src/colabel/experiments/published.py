"""Published figures, which travel with a plan as a CSV file."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import NamedTuple


class Figure(NamedTuple):
    """One printed number.

    Attributes
    ----------
    table : str
        Where it is printed.
    measure, dataset, method : str
        As named in the plan.
    value : float
    """

    table: str
    measure: str
    dataset: str
    method: str
    value: float


def read_figures(path: Path) -> tuple[Figure, ...]:
    """Read the columns table, measure, dataset, method and value."""
    with path.open(encoding="utf-8", newline="") as lines:
        return tuple(
            Figure(row["table"], row["measure"], row["dataset"], row["method"], float(row["value"]))
            for row in csv.DictReader(lines)
        )
