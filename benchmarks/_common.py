"""What the benchmarks share: where the data lie, and how a table is printed."""

from __future__ import annotations

import argparse
import os
import platform
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

import joblib

ROOT = Path(__file__).resolve().parent.parent


def data_folder() -> Path:
    """Folder of the real data sets: COLABEL_DATA, or ../shared/data beside the repository."""
    return Path(os.environ.get("COLABEL_DATA", ROOT.parent / "shared" / "data"))


def parser(description: str | None) -> argparse.ArgumentParser:
    """Return a parser that knows --data."""
    result = argparse.ArgumentParser(description=description)
    result.add_argument("--data", type=Path, default=data_folder(), help="folder of data sets")
    return result


def machine() -> str:
    """Say on what the figures were taken."""
    packages = ("numpy", "scipy", "scikit-learn", "numba")
    versions = ", ".join(f"{name} {version(name)}" for name in packages)
    cores = joblib.cpu_count()
    return f"{platform.machine()}, {cores} cores, Python {platform.python_version()}, {versions}"


def print_table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a Markdown table."""
    print("| " + " | ".join(header) + " |")
    print("|" + "|".join("---" for _ in header) + "|")
    for row in rows:
        print("| " + " | ".join(str(cell) for cell in row) + " |", flush=True)
    print()
