"""Published figures, which travel with a plan as a CSV file."""

from __future__ import annotations

import csv
import math
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
    mark : str or None
        "+" where the paper marks its own method as significantly better, "-" as worse, "" as
        neither; None where it prints no marks.
    deviation : float or None
        The standard deviation over splits that the paper prints beside it.
    """

    table: str
    measure: str
    dataset: str
    method: str
    value: float
    mark: str | None = None
    deviation: float | None = None


def read_figures(path: Path) -> tuple[Figure, ...]:
    """Read the columns table, measure, dataset, method and value, mark and deviation if any.

    Raises
    ------
    ValueError
        With a sentence, if the file does not hold them.
    """
    found = []
    with path.open(encoding="utf-8", newline="") as lines:
        try:
            rows = csv.DictReader(lines)
            needed = Figure._fields[:5]
            lacking = [name for name in needed if name not in (rows.fieldnames or ())]
            if lacking:
                raise ValueError(f"it has no column {lacking[0]!r}")
            for row in rows:
                table, measure, dataset, method, value = (row[name] for name in needed)
                if value is None:
                    raise ValueError(f"line {rows.line_num} has too few entries")
                number = _number(value, rows.line_num)
                mark = row.get("mark")
                if mark not in (None, "", "+", "-"):
                    raise ValueError(f"line {rows.line_num} has the mark {mark!r}, not + or -")
                spread = _number(row["deviation"], rows.line_num) if row.get("deviation") else None
                if spread is not None and spread < 0.0:
                    raise ValueError(f"line {rows.line_num} has the negative deviation {spread:g}")
                found.append(Figure(table, measure, dataset, method, number, mark, spread))
        except (csv.Error, UnicodeDecodeError) as error:
            raise ValueError(f"it is no CSV file ({error})") from error
    return tuple(found)


def _number(text: str, line: int) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"line {line} has the value {text!r}, which is no number")
    return value
