"""Checks on what estimators are given: numbers, and labels that must be complete."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np

from colabel.labels import LabelSpace, MissingLabelsError
from colabel.learn.conditional import TrainingData

# Laplace's one, and less for rare labels and values.
DEFAULT_SMOOTHING = (0.01, 0.1, 1.0)


def check_positive(name: str, value: object, *, or_zero: bool = False) -> None:
    """Raise ValueError unless a parameter is a positive number (or zero)."""
    no_number = isinstance(value, bool) or not isinstance(value, Real)
    number = np.nan if no_number else float(value)  # type: ignore[arg-type]
    if not (0 < number < np.inf or (or_zero and number == 0)):
        wanted = "a number that is not negative" if or_zero else "a positive number"
        raise ValueError(f"{name}={value!r} must be {wanted}.")


def check_integer(name: str, value: object, least: int, most: int | None = None) -> None:
    """Raise ValueError unless a parameter is an integer of at least `least`, at most `most`."""
    small = isinstance(value, bool) or not isinstance(value, Integral) or int(value) < least
    if small or (most is not None and int(value) > most):  # type: ignore[call-overload]
        limit = f"of at least {least}" if most is None else f"from {least} to {most}"
        raise ValueError(f"{name}={value!r} must be an integer {limit}.")


def checked_grid(name: str, value: Any) -> tuple[float, ...]:
    """Return a positive number, or several, as a tuple; raise ValueError otherwise."""
    try:
        grid = np.atleast_1d(np.asarray(value, dtype=np.float64))
    except (TypeError, ValueError):
        grid = np.array([])
    if grid.ndim != 1 or not len(grid) or not (np.isfinite(grid) & (grid > 0)).all():
        raise ValueError(
            f"{name}={value!r} must be a positive number or a sequence of positive numbers."
        )
    return tuple(grid.tolist())


def refuse_missing(data: TrainingData, space: LabelSpace, reason: str) -> None:
    """Raise MissingLabelsError unless every label is known; the `reason` is a clause."""
    n_missing, row, label = data.missing_labels
    if n_missing:
        raise MissingLabelsError(
            f"y has {n_missing} missing labels (the first is {space.names[label]!r} in row"
            f" {row}), but {reason}. Leave out or fill in these rows, or use BinaryRelevance or"
            " CTBN, which learn from the labels a row has."
        )
