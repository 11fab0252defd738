"""Exponential and logarithm as compiled loops want them: inlined, and vectorised with the rest."""

from __future__ import annotations

import numpy as np

from colabel.core.compiling import njit

LOG2_E = 1.4426950408889634
LN2_HIGH = 0.6931471803691238
LN2_LOW = 1.9082149292705877e-10
ROUNDER = 6755399441055744.0  # 1.5 * 2^52: adding it rounds to an integer
EXPONENT_BIAS = np.int64(1023)
MANTISSA_BITS = np.int64(52)
# It relies on the order of its additions: a caller's fast mathematics may allow no more than this.
ORDERED = {"contract", "nsz"}


@njit(nogil=True, cache=True, error_model="numpy", fastmath=ORDERED, inline="always")
def exp_of_negative(x: float) -> float:
    """exp(x) for -708 <= x <= 0: 2^k times a Taylor polynomial of the remainder.

    To about one unit in the last place.
    """
    k = (x * LOG2_E + ROUNDER) - ROUNDER
    r = (x - k * LN2_HIGH) - k * LN2_LOW
    p = 1.0 / 479001600
    p = p * r + 1.0 / 39916800
    p = p * r + 1.0 / 3628800
    p = p * r + 1.0 / 362880
    p = p * r + 1.0 / 40320
    p = p * r + 1.0 / 5040
    p = p * r + 1.0 / 720
    p = p * r + 1.0 / 120
    p = p * r + 1.0 / 24
    p = p * r + 1.0 / 6
    p = p * r + 0.5
    p = p * r + 1.0
    p = p * r + 1.0
    power = np.int64((np.int64(k) + EXPONENT_BIAS) << MANTISSA_BITS)
    return p * np.int64(power).view(np.float64)


@njit(nogil=True, cache=True, error_model="numpy", fastmath=ORDERED, inline="always")
def twice_atanh(r: float) -> float:
    """2 atanh(r), which is log((1 + r) / (1 - r)), for a number no larger than .172."""
    q = r * r
    p = 1.0 / 21
    p = p * q + 1.0 / 19
    p = p * q + 1.0 / 17
    p = p * q + 1.0 / 15
    p = p * q + 1.0 / 13
    p = p * q + 1.0 / 11
    p = p * q + 1.0 / 9
    p = p * q + 1.0 / 7
    p = p * q + 1.0 / 5
    p = p * q + 1.0 / 3
    return 2.0 * (r + r * q * p)


@njit(nogil=True, cache=True, error_model="numpy", fastmath=ORDERED, inline="always")
def log_one_plus(e: float) -> float:
    """log(1 + e) for 0 <= e <= 1, to about one unit in the last place.

    log m = 2 atanh((m - 1) / (m + 1)), with m = 1 + e, or half of it beyond sqrt(2).
    """
    large = e > 0.41421356237309503
    r = (e - 1.0) / (e + 3.0) if large else e / (e + 2.0)
    small = twice_atanh(r)
    return LN2_HIGH + (small + LN2_LOW) if large else small
