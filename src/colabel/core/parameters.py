"""Checks of parameters, each with a sentence that says what was given and what may be."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any

import numpy as np

__all__ = [
    "check_choice",
    "check_flag",
    "check_integer",
    "check_jobs",
    "check_positive",
    "checked_grid",
]


def check_choice(name: str, value: object, choices: Iterable[str]) -> None:
    """Raise ValueError unless a parameter is one of some names.

    Examples
    --------
    >>> check_choice("gate", "open", ("linear", "constant"))
    Traceback (most recent call last):
    ValueError: gate='open' must be one of 'linear', 'constant'.
    """
    known = tuple(choices)
    if not (isinstance(value, str) and value in known):
        raise ValueError(f"{name}={value!r} must be one of {', '.join(map(repr, known))}.")


def check_flag(name: str, value: object) -> None:
    """Raise ValueError unless a parameter is True or False."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name}={value!r} must be True or False.")


def check_positive(name: str, value: object, *, or_zero: bool = False) -> None:
    """Raise ValueError unless a parameter is a positive number (or zero)."""
    no_number = isinstance(value, bool) or not isinstance(value, Real)
    number = np.nan if no_number else float(value)  # type: ignore[arg-type]
    if not (0 < number < np.inf or (or_zero and number == 0)):
        wanted = "a number that is not negative" if or_zero else "a positive number"
        raise ValueError(f"{name}={value!r} must be {wanted}.")


def check_integer(name: str, value: object, least: int, otherwise: str = "") -> None:
    """Raise ValueError unless a parameter is an integer of at least `least`.

    `otherwise` names in the sentence what the caller takes besides.
    """
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not whole or int(value) < least:  # type: ignore[call-overload]
        also = f", or {otherwise}" if otherwise else ""
        raise ValueError(f"{name}={value!r} must be an integer of at least {least}{also}.")


def check_jobs(n_jobs: object) -> None:
    """Raise ValueError unless a number of threads or workers is one, or None."""
    whole = isinstance(n_jobs, Integral) and not isinstance(n_jobs, bool)
    if n_jobs is not None and (not whole or n_jobs == 0):
        raise ValueError(
            f"n_jobs={n_jobs!r} must be a number of threads or workers, -1 for all cores, or None."
        )


def checked_grid(name: str, value: Any) -> tuple[float, ...]:
    """Return a positive number, or several, as a tuple; raise ValueError otherwise."""
    if hasattr(value, "fit"):
        raise ValueError(
            f"{name}={value!r} must be a positive number or a sequence of positive numbers. A"
            f" classifier is given by name: estimator={value!r}."
        )
    try:
        grid = np.atleast_1d(np.asarray(value))
        grid = grid.astype(np.float64) if grid.dtype.kind in "iuf" else np.array([])
    except (TypeError, ValueError):
        grid = np.array([])
    if grid.ndim != 1 or not len(grid) or not (np.isfinite(grid) & (grid > 0)).all():
        raise ValueError(
            f"{name}={value!r} must be a positive number or a sequence of positive numbers."
        )
    return tuple(grid.tolist())
