"""What the benchmarks share: where the data lie, and how a table is printed."""

from __future__ import annotations

import argparse
import json
import os
import platform
from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

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


def markdown(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "".join("| " + " | ".join(map(str, line)) + " |\n" for line in lines)


def print_table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a Markdown table."""
    print(markdown(header, rows), flush=True)


def finished(file: Path) -> list[dict[str, Any]]:
    """Return the cells of a file, a line of JSON each."""
    if not file.is_file():
        return []
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def resumed(
    file: Path, cells: Iterable[dict[str, Any]], measure: Callable[..., dict[str, Any]]
) -> None:
    """Measure the cells that a file does not have, and add a line for each as soon as it ends."""
    done = finished(file)
    for cell in cells:
        if not any(cell.items() <= line.items() for line in done):
            line = json.dumps({**cell, **measure(**cell)})
            with file.open("a", encoding="utf-8") as stream:
                stream.write(line + "\n")
