"""Shared pieces of the tests of tables."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Write text (or bytes) to a file in a fresh folder and return its path."""

    def _write(text: str | bytes, name: str = "file.arff") -> Path:
        path = tmp_path / name
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    return _write
