"""Comparing lists of arrays, such as tables (n, K) of label variables."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np


def assert_each_close(found: Iterable[Any], expected: Iterable[Any], **tolerance: float) -> None:
    """As many arrays, each close to its own."""
    for one, two in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, two, **tolerance)


def assert_each_equal(found: Iterable[Any], expected: Iterable[Any]) -> None:
    """As many arrays, each equal to its own."""
    for one, two in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, two)
