"""Warnings that name the line of the user, however deep in the library their cause is."""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path

_LIBRARY = str(Path(__file__).parents[1]) + os.sep


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn of something at the nearest line outside the library that led to it."""
    level = 1
    while sys._getframe(level).f_code.co_filename.startswith(_LIBRARY):
        level += 1
    warnings.warn(message, category, stacklevel=level + 1)
