"""Numbers as they are printed in the tables of papers."""

from __future__ import annotations

import math
from collections.abc import Iterable


def fixed(value: float, digits: int) -> str:
    """Write a number with a fixed number of digits; with several, no zero before the point.

    Examples
    --------
    >>> fixed(0.4321, 3), fixed(-0.05, 2), fixed(-0.001, 2), fixed(0.25, 1), fixed(math.nan, 1)
    ('.432', '−.05', '.00', '0.2', '–')
    """
    if math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    text = f"{abs(value):.{digits}f}"
    sign = "−" if value < 0 and float(text) > 0 else ""
    return sign + (text[1:] if digits > 1 and text.startswith("0.") else text)


def signed(value: float, digits: int) -> str:
    """Write a number with its sign.

    Examples
    --------
    >>> signed(0.25, 2), signed(-1.5, 1), signed(0.0, 1)
    ('+.25', '−1.5', '0.0')
    """
    text = fixed(value, digits)
    return f"+{text}" if value > 0 and float(f"{value:.{digits}f}") > 0 else text


def digits_for(values: Iterable[float]) -> int:
    """Choose how many digits a table needs: three for shares, fewer for large numbers."""
    largest = max((abs(value) for value in values if math.isfinite(value)), default=0.0)
    return 3 if largest <= 1.0 else 2 if largest < 100.0 else 1


def p_value(p: float) -> str:
    """Write a p-value.

    Examples
    --------
    >>> p_value(0.0321), p_value(0.0002), p_value(0.9999), p_value(math.nan)
    ('.032', '<.001', '1.000', '–')
    """
    return "<.001" if p < 0.001 else fixed(p, 3)


def seconds(value: float) -> str:
    """Write seconds with two to three telling digits.

    Examples
    --------
    >>> seconds(0.0042), seconds(0.123), seconds(7.26), seconds(83.1), seconds(4210.0)
    ('0.004', '0.12', '7.3', '83', '4,210')
    """
    if math.isnan(value):
        return "–"
    for limit, digits in ((0.0995, 3), (0.995, 2), (9.95, 1)):
        if value < limit:
            return f"{value:.{digits}f}"
    return f"{value:,.0f}"
