"""Shared pieces of the data set tests."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Write text (or bytes) to a file in a fresh folder and return its path."""

    def _write(text: str | bytes, name: str = "file.arff") -> Path:
        path = tmp_path / name
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    return _write


@pytest.fixture(scope="session")
def data_home() -> Path:
    """Return the folder with the real data sets, or skip."""
    home = Path(os.environ.get("COLABEL_DATA", REPOSITORY / ".." / "shared" / "data"))
    if not (home / "emotions" / "emotions.arff").is_file():
        pytest.skip(f"No real data sets in {home}: set COLABEL_DATA to their folder.")
    return home
