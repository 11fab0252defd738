"""Dates in texts: their forms, and the numbers that are made of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import date
from types import MappingProxyType

import numpy as np

from colabel.core.arrays import Array
from colabel.datasets.frame import TableError

DATE_NUMBERS = ("year", "month", "weekday", "days")
"""What a date becomes: Monday is weekday 0; days count on from date to date, hours a fraction."""

_TIME = (
    r"(?:[T ]\s*(?P<H>\d{1,2}):(?P<M>\d{2})(?::(?P<S>\d{2}(?:[.,]\d+)?))?\s*(?P<half>[AaPp][Mm])?"
    r"\s*(?:Z|[+-]\d{2}:?\d{2})?)?\s*"
)
_DAY, _MONTH, _YEAR = r"(?P<d>\d{1,2})", r"(?P<m>\d{1,2})", r"(?P<y>\d{4})"
_PATTERNS = {
    "2026-11-15": rf"{_YEAR}(?P<s>[-/.]){_MONTH}(?P=s){_DAY}",
    "15.11.2026": rf"{_DAY}\.{_MONTH}\.{_YEAR}",
    "15/11/2026": rf"{_DAY}(?P<s>[-/]){_MONTH}(?P=s){_YEAR}",
    "11/15/2026": rf"{_MONTH}(?P<s>[-/]){_DAY}(?P=s){_YEAR}",
}
DATE_FORMS: Mapping[str, re.Pattern[str]] = MappingProxyType(
    {form: re.compile(rf"\s*{pattern}{_TIME}", re.ASCII) for form, pattern in _PATTERNS.items()}
)
"""Forms of dates by how they write the 15th of November 2026; a time of day may follow.

Only the last two can be taken for each other.
"""


def date_numbers(text: str, form: str) -> tuple[int, int, int, float] | None:
    """Return `DATE_NUMBERS` of a date; None if the text is no date of the form.

    Examples
    --------
    >>> from colabel.tables.dates import date_numbers
    >>> date_numbers("1970-01-02 06:00", "2026-11-15")
    (1970, 1, 4, 1.25)
    >>> date_numbers("31.2.2026", "15.11.2026")
    """
    found = DATE_FORMS[form].fullmatch(text)
    if found is None:
        return None
    try:
        day = date(int(found["y"]), int(found["m"]), int(found["d"]))
    except ValueError:
        return None
    hour = int(found["H"] or 0)
    if found["half"]:
        hour = hour % 12 + 12 * (found["half"].lower() == "pm")
    seconds = 60 * (60 * hour + int(found["M"] or 0))
    seconds_of_day = seconds + float((found["S"] or "0").replace(",", "."))
    days = day.toordinal() - _EPOCH + seconds_of_day / 86_400
    return day.year, day.month, day.weekday(), days


_EPOCH = date(1970, 1, 1).toordinal()


def date_block(texts: Iterable[str | None], form: str, name: str) -> Array:
    """Return `DATE_NUMBERS` (n, 4) of a column, NaN where missing; refuse what is no date."""
    unknown = (np.nan,) * len(DATE_NUMBERS)
    numbers: dict[str | None, tuple[float, ...]] = {None: unknown}
    rows = []
    for text in texts:
        row = numbers.get(text)
        if row is None:
            row = date_numbers(text or "", form)
            if row is None:
                raise TableError(
                    f"The column {name!r} holds {text!r}, which is no date like {form}, the form of"
                    " the dates learned from: correct it, or leave it empty."
                )
            numbers[text] = row
        rows.append(row)
    return np.array(rows, dtype=np.float64).reshape(len(rows), len(DATE_NUMBERS))


def forms_of(texts: Iterable[str]) -> list[str]:
    """Return the forms that all texts have."""
    forms = list(DATE_FORMS)
    for text in texts:
        forms = [form for form in forms if date_numbers(text, form) is not None]
        if not forms:
            break
    return forms
