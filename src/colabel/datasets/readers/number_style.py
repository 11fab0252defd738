"""Numbers as people write them: 1.234,5 and 1,234.5."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from colabel.datasets.frame import TableError

Decimal = Literal["", ".", ","]
"""What stands before the fraction of a number; "" for a point, and no separator of thousands."""

_BLANKS = " '’\u00a0\u202f"  # between thousands, whatever the decimal is
_EXPONENT = r"(?:[eE][+-]?\d+)?"


def _pattern(decimal: str, other: str) -> re.Pattern[str]:
    groups = rf"[1-9]\d{{0,2}}([{re.escape(other)}{_BLANKS}])\d{{3}}(?:\1\d{{3}})*"
    point = re.escape(decimal)
    return re.compile(rf"[+-]?(?:(?:{groups}|\d+)(?:{point}\d*)?|{point}\d+){_EXPONENT}", re.ASCII)


_PATTERNS = {".": _pattern(".", ","), ",": _pattern(",", ".")}
_TO_PLAIN = {
    ".": str.maketrans("", "", "," + _BLANKS),
    ",": str.maketrans(",", ".", "." + _BLANKS),
}


def plain_number(token: str, decimal: Decimal) -> str:
    """Return a number as `float` reads it; any other text as one that `float` refuses.

    Examples
    --------
    >>> from colabel.datasets.readers.number_style import plain_number
    >>> plain_number("1.234,5", ","), plain_number("1,234.5", ".")
    ('1234.5', '1234.5')
    >>> plain_number("1.5", ",")
    '1.5 (with a decimal comma)'
    """
    text = token.strip()
    if not decimal or text.isdigit():
        return token
    if not _PATTERNS[decimal].fullmatch(text):
        other = "." if decimal == "," else ","
        named = {".": "point", ",": "comma"}[decimal]
        return f"{text} (with a decimal {named})" if _PATTERNS[other].fullmatch(text) else token
    return text.translate(_TO_PLAIN[decimal])


@dataclass(frozen=True)
class FoundDecimal:
    """A decimal that was found out, with a value that tells it and the column it stands in."""

    decimal: Decimal
    column: str = ""
    example: str = ""


def found_decimal(columns: Mapping[str, Iterable[str]]) -> FoundDecimal:
    """Find out from the known values of columns what stands before a fraction.

    Only columns count all of whose values are numbers in one of the two styles. 1,5 and 1.234.567
    tell a comma; 1.5 and 1,234,567 a point. Where 1,234 is all there is, nobody can tell, and the
    user is asked.
    """
    told: dict[str, FoundDecimal] = {}
    for name, tokens in columns.items():
        texts = {token.strip() for token in tokens}
        if not all(any(p.fullmatch(text) for p in _PATTERNS.values()) for text in texts):
            continue
        for text in sorted(texts):
            may_be = [decimal for decimal, p in _PATTERNS.items() if p.fullmatch(text)]
            if may_be == [","]:
                told.setdefault("comma", FoundDecimal(",", name, text))
            elif "," in text:
                kind = "either" if "," in may_be else "grouped"
                told.setdefault(kind, FoundDecimal(".", name, text))
            elif may_be == ["."]:
                told.setdefault("point", FoundDecimal("", name, text))
    comma, grouped, either = (told.get(kind) for kind in ("comma", "grouped", "either"))
    if comma is not None:
        return FoundDecimal("") if grouped or "point" in told else comma
    if grouped is not None:
        return grouped
    if either is not None and "point" in told:
        return either
    if either is not None:
        raise TableError(
            f"The column {either.column!r} holds {either.example}, which may be "
            f"{either.example.replace(',', '.')} or {either.example.replace(',', '')}: say what "
            "stands before a fraction (--decimal , or --decimal .), or name the column as a "
            "category (--category)."
        )
    return FoundDecimal("")
