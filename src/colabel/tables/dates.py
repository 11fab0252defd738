"""Dates in texts: their forms, and the numbers that are made of them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from colabel.core.arrays import Array

DATE_NUMBERS = ("year", "month", "weekday", "days")
"""What a date becomes: Monday is weekday 0; days count on from date to date, hours a fraction."""

_TIME = (
    r"(?:[T ]\s*(?P<H>\d{1,2}):(?P<M>\d{2})(?::(?P<S>\d{2}(?:[.,]\d+)?))?\s*(?P<half>[AaPp][Mm])?"
    r"\s*(?:Z|[+-]\d{2}:?\d{2})?)?\s*$"
)
_DAY, _MONTH, _YEAR = r"(?P<d>\d{1,2})", r"(?P<m>\d{1,2})", r"(?P<y>\d{4})"
DATE_FORMS: Mapping[str, str] = MappingProxyType(
    {
        "2026-11-15": rf"^\s*{_YEAR}(?P<s>[-/.]){_MONTH}(?P<z>[-/.]){_DAY}{_TIME}",
        "15.11.2026": rf"^\s*{_DAY}(?P<s>\.){_MONTH}(?P<z>\.){_YEAR}{_TIME}",
        "15/11/2026": rf"^\s*{_DAY}(?P<s>[-/]){_MONTH}(?P<z>[-/]){_YEAR}{_TIME}",
        "11/15/2026": rf"^\s*{_MONTH}(?P<s>[-/]){_DAY}(?P<z>[-/]){_YEAR}{_TIME}",
    }
)
"""Forms of dates by how they write the 15th of November 2026; a time of day may follow.

Only the last two can be taken for each other.
"""

ANY_DATE = (
    r"^\s*(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4})"
    r"([T ]\s*\d{1,2}:\d{2}(:\d{2}([.,]\d+)?)?\s*([AaPp][Mm]|Z|[+-]\d{2}:?\d{2})?)?\s*$"
)
"""2026-11-15, 15.11.26, 11/15/2026; with or without a time of day."""


def date_numbers(texts: Any, form: str) -> Array:
    """Return `DATE_NUMBERS` (n, 4) of texts; NaN where a text is no date of the form.

    Examples
    --------
    >>> from colabel.tables.dates import date_numbers
    >>> date_numbers(["1970-01-02 06:00", "31.2.2026"], "2026-11-15").tolist()
    [[1970.0, 1.0, 4.0, 1.25], [nan, nan, nan, nan]]
    """
    found = pc.extract_regex(pa.array(texts, "string"), DATE_FORMS[form])

    def part(name: str) -> Array:
        own = pc.struct_field(found, name)
        plain = pc.replace_substring(pc.if_else(pc.equal(own, ""), "0", own), ",", ".")
        numbers: Array = pc.fill_null(plain, "0").cast("float64").to_numpy(zero_copy_only=False)
        return numbers

    same = pc.equal(pc.struct_field(found, "s"), pc.struct_field(found, "z"))
    year, month, day, hour = map(part, "ymdH")
    months = ((year - 1970) * 12 + month - 1).astype(np.int64).astype("M8[M]")
    days = months.astype("M8[D]") + (day - 1).astype(np.int64)
    good = pc.fill_null(same, False).to_numpy(zero_copy_only=False)
    good = good & (year >= 1) & (month >= 1) & (month <= 12) & (day >= 1)
    good &= days.astype("M8[M]") == months
    half = pc.fill_null(pc.utf8_lower(pc.struct_field(found, "half")), "")
    late = pc.equal(half, "pm").to_numpy(zero_copy_only=False)
    is_half = pc.not_equal(half, "").to_numpy(zero_copy_only=False)
    hour = np.where(is_half, hour % 12 + 12 * late, hour)
    count = days.astype(np.int64)
    total = count + (60 * (60 * hour + part("M")) + part("S")) / 86_400
    numbers = np.column_stack([year, month, (count + 3) % 7, total])
    numbers[~good] = np.nan
    return numbers
