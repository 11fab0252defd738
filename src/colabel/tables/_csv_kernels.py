"""Compiled writing of CSV lines: whole numbers, probabilities, and texts from a list."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from colabel.core.arrays import Array, Indices
from colabel.core.compiling import njit

Bytes = NDArray[np.uint8]

WHOLE, REAL, TEXT = 0, 1, 2
LONGEST_NUMBER = 24  # characters of "-9007199254740992" and of "-1.23457e-308", with room

_ZERO, _POINT, _MINUS, _PLUS, _E = ord("0"), ord("."), ord("-"), ord("+"), ord("e")
_INF = (ord("i"), ord("n"), ord("f"))
_COMMA, _NEWLINE = ord(","), ord("\n")
_POWERS = 10.0 ** np.arange(23)  # all of them exact


@njit(nogil=True, cache=True, inline="always")
def _put_whole(out: Bytes, at: int, number: int, least: int) -> int:
    """Write a number >= 0 with `least` digits or more; return where the next character goes."""
    n_digits, rest = 1, number // 10
    while rest:
        n_digits += 1
        rest //= 10
    n_digits = max(n_digits, least)
    for place in range(at + n_digits - 1, at - 1, -1):
        out[place] = _ZERO + number % 10
        number //= 10
    return at + n_digits


@njit(nogil=True, cache=True)
def _put_real(out: Bytes, at: int, value: float) -> int:
    """Write a number as ``f"{value:.6g}"`` does; nothing for NaN.

    With e the decimal exponent, the six digits are round(|value| 10^(5 - e)).
    """
    if np.isnan(value):
        return at
    if value < 0:
        out[at] = _MINUS
        at += 1
        value = -value
    if np.isinf(value):
        out[at], out[at + 1], out[at + 2] = _INF
        return at + 3
    if value == 0:
        out[at] = _ZERO
        return at + 1
    e = int(np.floor(np.log10(value)))
    shift = 5 - e
    scaled = value
    while shift > 0:
        step = min(shift, 22)
        scaled *= _POWERS[step]
        shift -= step
    while shift < 0:
        step = min(-shift, 22)
        scaled /= _POWERS[step]
        shift += step
    if scaled < 99999.95:  # the logarithm was rounded up
        scaled *= 10.0
        e -= 1
    digits = int(np.rint(scaled))
    if digits >= 1_000_000:
        digits = int(np.rint(scaled / 10.0))
        e += 1
    n_digits = 6
    while digits % 10 == 0:
        digits //= 10
        n_digits -= 1
    if -5 < e < 0:
        out[at], out[at + 1] = _ZERO, _POINT
        for place in range(at + 2, at + 1 - e):
            out[place] = _ZERO
        return _put_whole(out, at + 1 - e, digits, n_digits)
    before = e + 1 if 0 <= e < 6 else 1  # digits before the point
    if n_digits <= before:
        for _ in range(before - n_digits):
            digits *= 10
        at = _put_whole(out, at, digits, before)
    else:
        power = 1
        for _ in range(n_digits - before):
            power *= 10
        at = _put_whole(out, at, digits // power, before)
        out[at] = _POINT
        at = _put_whole(out, at + 1, digits % power, n_digits - before)
    if 0 <= e < 6:
        return at
    out[at], out[at + 1] = _E, _MINUS if e < 0 else _PLUS
    return _put_whole(out, at + 2, abs(e), 2)


@njit(nogil=True, cache=True)
def write_lines(kinds: Indices, cells: Array, texts: Bytes, ends: Indices, out: Bytes) -> int:
    """Write rows as CSV lines; return the number of bytes.

    Parameters
    ----------
    kinds : (c,)
        WHOLE, REAL or TEXT for each column.
    cells : (c, n)
        Numbers; of a column of texts, positions in the list of all of them.
    texts : (b,) bytes of the texts, one after the other
    ends : (t + 1,)
        Text i is ``texts[ends[i]:ends[i + 1]]``.
    out : (m,)
        Long enough.
    """
    at = 0
    n_columns, n_rows = cells.shape
    for row in range(n_rows):
        for column in range(n_columns):
            value = cells[column, row]
            if kinds[column] == WHOLE:
                number = int(value)
                if number < 0:
                    out[at] = _MINUS
                    at += 1
                at = _put_whole(out, at, abs(number), 1)
            elif kinds[column] == REAL:
                at = _put_real(out, at, value)
            else:
                which = int(value)
                for place in range(ends[which], ends[which + 1]):
                    out[at] = texts[place]
                    at += 1
            out[at] = _COMMA if column < n_columns - 1 else _NEWLINE
            at += 1
    return at
