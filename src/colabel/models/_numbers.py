"""Checks of the numbers among an estimator's parameters."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any


def require_positive(name: str, value: Any, *, or_zero: bool = False) -> None:
    """Refuse anything but a finite positive number (or zero)."""
    if isinstance(value, Real):
        number = float(value)
        if math.isfinite(number) and (number > 0 or (or_zero and number == 0)):
            return
    wanted = "a number that is not negative" if or_zero else "a positive number"
    raise ValueError(f"{name}={value!r} must be {wanted}.")


def require_at_least(name: str, value: Any, least: int) -> None:
    """Refuse anything but an integer of at least `least`."""
    if not isinstance(value, Integral) or int(value) < least:
        raise ValueError(f"{name}={value!r} must be an integer of at least {least}.")
