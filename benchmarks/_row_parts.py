"""Rows of 64 features and 7 labels that follow each other, in Parquet parts."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

FEATURES, LABELS = 64, 7
FEATURE_NAMES = [f"x{j}" for j in range(FEATURES)]
LABEL_NAMES = [f"y{i}" for i in range(LABELS)]
_TEST_ROWS = 50_000


def draw(folder: Path, n_rows: int, n_part: int) -> None:
    """Write parts of rows, the last of them perhaps shorter, and a file of rows held out."""
    rng = np.random.default_rng(0)
    weights = rng.normal(size=(FEATURES, LABELS)) / np.sqrt(FEATURES)
    _write(folder / "test.parquet", *_rows(_TEST_ROWS, weights, rng))
    for number, start in enumerate(range(0, n_rows, n_part)):
        drawn = _rows(min(n_part, n_rows - start), weights, rng)
        _write(folder / f"part-{number:04d}.parquet", *drawn)


def _rows(n_rows: int, weights: Any, rng: np.random.Generator) -> tuple[Any, Any]:
    X = rng.standard_normal(size=(n_rows, FEATURES), dtype=np.float32)
    scores = X @ weights
    Y = np.zeros((n_rows, LABELS), dtype=np.int8)
    for i in range(LABELS):  # every label follows the one before it
        follows = 0.0 if i == 0 else 2.0 * Y[:, i - 1] - 1.0
        Y[:, i] = rng.random(n_rows) < 1.0 / (1.0 + np.exp(-scores[:, i] - follows))
    return X, Y


def _write(file: Path, X: Any, Y: Any) -> None:
    pyarrow = importlib.import_module("pyarrow")
    parquet = importlib.import_module("pyarrow.parquet")

    columns = {f"x{j}": X[:, j] for j in range(FEATURES)}
    columns |= {f"y{i}": Y[:, i] for i in range(LABELS)}
    # random numbers do not compress
    parquet.write_table(pyarrow.table(columns), file, compression="none", use_dictionary=False)


def first_parts(folder: Path, n_rows: int) -> list[Path]:
    """Return parts of exactly so many rows; the last is cut if need be."""
    parquet = importlib.import_module("pyarrow.parquet")

    parts, n_found = [], 0
    for part in sorted(folder.glob("part-*.parquet")):
        n_part = parquet.read_metadata(part).num_rows
        if n_found + n_part > n_rows:
            cut = folder / f"cut-{n_rows}.parquet"
            table = parquet.read_table(part).slice(0, n_rows - n_found)
            parquet.write_table(table, cut, compression="none", use_dictionary=False)
            part, n_part = cut, table.num_rows
        parts.append(part)
        n_found += n_part
        if n_found == n_rows:
            return parts
    raise SystemExit(f"There are {n_found} rows, fewer than {n_rows}.")


def in_memory(parts: Sequence[Path]) -> tuple[Any, Any]:
    """Return features (n, 64) in single precision and labels (n, 7) of parts."""
    parquet = importlib.import_module("pyarrow.parquet")

    table = parquet.read_table(parts)
    X = np.column_stack([table[name].to_numpy() for name in FEATURE_NAMES])
    return X, np.column_stack([table[name].to_numpy() for name in LABEL_NAMES])


def log_loss(Y: Any, p: Any) -> float:
    """Mean over rows of the summed log-loss of the labels."""
    return float(-np.log(np.where(Y == 1, p, 1.0 - p)).sum(axis=1).mean())
