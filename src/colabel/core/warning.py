"""Warnings that name the line that called the library, however deep in it their cause is."""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path

_LIBRARY = str(Path(__file__).parents[1]) + os.sep


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn of something at the nearest line outside the library that led to it."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_LIBRARY):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
