"""The record: one line a figure, committed, of the last run that measured it.

The store holds cells while plans are run; the record keeps what became of them, so that the
verdicts can be written again without running anything. Lines of runs whose cells are lost have
means and errors as they were printed, and no values of single splits.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Mapping
from datetime import date
from pathlib import Path
from typing import NamedTuple

import numpy as np

from studies.plan import Plan
from studies.store import Row

FILE = Path(__file__).with_name("record.csv")
Place = tuple[str, str, str]
"""Measure, data set and method."""


class Measured(NamedTuple):
    """A figure that was measured.

    Attributes
    ----------
    mean, error : float
        Over splits, and the standard error of the mean.
    splits : int
    mark : {"+", "-", ""}
        "+" where the plan's reference is significantly better by the paired t-test, "-" where it is
        worse.
    seconds : float
        Median of learning a split.
    run : str
        Day of the run.
    values : tuple of float
        Of the splits, from the first on; empty where they are not kept.
    """

    mean: float
    error: float
    splits: int
    mark: str = ""
    seconds: float = math.nan
    run: str = ""
    values: tuple[float, ...] = ()


Record = dict[str, dict[Place, Measured]]
"""Of every study, by name."""


def measured(rows: Iterable[Row], run: str = "") -> dict[Place, Measured]:
    """Return the figures of a study's rows, without marks."""
    values: dict[Place, dict[int, float]] = {}
    seconds: dict[Place, list[float]] = {}
    for row in rows:
        if row.status == "done" and math.isfinite(row.value):
            place = (row.measure, row.dataset, row.method)
            values.setdefault(place, {})[row.split] = row.value
            seconds.setdefault(place, []).append(row.learn_seconds)
    found = {}
    for place, own in values.items():
        kept = [own[split] for split in sorted(own)]
        error = float(np.std(kept, ddof=1) / math.sqrt(len(kept))) if len(kept) > 1 else math.nan
        whole = sorted(own) == list(range(len(own)))  # pairs of splits are told by their order
        taken = tuple(kept) if whole else ()
        middle = float(np.median(seconds[place]))
        mean = float(np.mean(kept))
        found[place] = Measured(mean, error, len(kept), "", middle, run or today(), taken)
    return found


def today() -> str:
    """Return the day as it stands in the record."""
    return date.today().isoformat()


_HEAD = ("study", "dataset", "method", "measure", *Measured._fields)


def read_record(path: Path = FILE) -> Record:
    """Read the record; an empty one where there is none."""
    found: Record = {}
    if not path.is_file():
        return found
    with path.open(encoding="utf-8", newline="") as lines:
        for line in csv.DictReader(lines):
            values = tuple(float(value) for value in line["values"].split())
            figure = Measured(
                float(line["mean"]),
                float(line["error"] or "nan"),
                int(line["splits"]),
                line["mark"],
                float(line["seconds"] or "nan"),
                line["run"],
                values,
            )
            if values:  # the rounded values are those that are kept
                error = float(np.std(values, ddof=1) / math.sqrt(len(values)))
                figure = figure._replace(mean=float(np.mean(values)), error=error)
            place = (line["measure"], line["dataset"], line["method"])
            found.setdefault(line["study"], {})[place] = figure
    return found


def write_record(record: Mapping[str, Mapping[Place, Measured]], path: Path = FILE) -> None:
    """Write the record, with six digits of every number."""
    with path.open("w", encoding="utf-8", newline="") as lines:
        writer = csv.writer(lines, lineterminator="\n")
        writer.writerow(_HEAD)
        for study, figures in record.items():
            for (measure, dataset, method), own in figures.items():
                values = " ".join(f"{value:.6g}" for value in own.values)
                numbers = (_number(own.mean), _number(own.error), own.splits, own.mark)
                rest = (_number(own.seconds), own.run, values)
                writer.writerow((study, dataset, method, measure, *numbers, *rest))


def _number(value: float) -> str:
    return f"{value:.6g}" if math.isfinite(value) else ""


def update(record: Record, plan: Plan, rows: Iterable[Row]) -> int:
    """Put the figures of a plan's rows into the record, where all of its splits are done.

    Returns the number of figures that were put there.
    """
    sizes = {(d.name, m.name): plan.n_run(d, m) for d in plan.datasets for m in plan.methods}
    new = measured(rows)
    whole = {place: own for place, own in new.items() if own.splits == sizes[place[1:]]}
    known = record.setdefault(plan.name, {})
    for place, own in whole.items():
        # the mark stays: it tells what the splits cannot where the reference was not run again
        known[place] = own._replace(mark=known[place].mark if place in known else "")
    return len(whole)
