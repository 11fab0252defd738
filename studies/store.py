"""Cells in one SQLite file: each is there whole, with all its measures, or not at all."""

from __future__ import annotations

import json
import math
import platform
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple, Self

from studies.cells import Cell
from studies.evaluate import Outcome

_COLUMNS = (
    "key, dataset, model, protocol, split, status, error, warnings, learn_seconds, predict_seconds,"
    " n_train, n_test, versions, measures"
)


class StoreError(RuntimeError):
    """The file of results cannot be used; the message says why and what to do."""


class Row(NamedTuple):
    """One measure of one cell: the tidy form in which results are exported.

    `value` is NaN where the method does not define the measure, or failed; `versions` is JSON.
    """

    dataset: str
    method: str
    protocol: str
    split: int
    measure: str
    value: float
    status: str
    error: str
    learn_seconds: float
    predict_seconds: float
    n_train: int
    n_test: int
    versions: str


@lru_cache(maxsize=1)
def versions() -> str:
    """Versions of what results depend on, as JSON."""
    packages = ("colabel", "numpy", "scipy", "scikit-learn", "numba")
    found = {name: metadata.version(name) for name in packages}
    return json.dumps({"python": platform.python_version(), **found})


class Store:
    """Cells on disk; a cell is written in one transaction, and survives whatever comes after.

    Parameters
    ----------
    path : str or path
        Made if it does not exist.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        with self._told():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(self.path, timeout=30.0)
            tables = {n for (n,) in self._connection.execute("SELECT name FROM sqlite_master")}
            if tables and "cells" not in tables:
                raise StoreError(f"{path} is a database of something else: name another file.")
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute(f"CREATE TABLE IF NOT EXISTS cells ({_COLUMNS})")
            columns = self._connection.execute("SELECT name FROM pragma_table_info('cells')")
            if ", ".join(name for (name,) in columns) != _COLUMNS:
                raise StoreError(
                    f"{path} was written by another version of the studies: name another file."
                )
            self._connection.execute("CREATE UNIQUE INDEX IF NOT EXISTS keys ON cells (key)")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Turn what SQLite raises into a sentence."""
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise StoreError(
                f"Cannot use {self.path} as a file of results: {error}. If the disk is full, make"
                " room and run again, finished cells are kept; else name another file."
            ) from error

    def finished(self) -> dict[str, str]:
        """Return {key: status} of all cells in the file."""
        with self._told():
            return dict(self._connection.execute("SELECT key, status FROM cells").fetchall())

    def save(self, cell: Cell, outcome: Outcome) -> None:
        """Write a cell and its measures at once, in place of an earlier outcome."""
        values = {m: outcome.values.get(m, math.nan) for m in cell.measures}
        finite = {m: v if math.isfinite(v) else None for m, v in values.items()}
        described: tuple[Any, ...] = (
            cell.key,
            cell.dataset,
            json.dumps(cell.model, sort_keys=True),
            cell.protocol.kind,
            cell.split,
            outcome.status,
            outcome.error,
            json.dumps(outcome.warnings),
            outcome.learn_seconds,
            outcome.predict_seconds,
            outcome.n_train,
            outcome.n_test,
            versions(),
            json.dumps(finite),
        )
        marks = ", ".join("?" * len(described))
        with self._told(), self._connection:
            self._connection.execute(f"REPLACE INTO cells VALUES ({marks})", described)

    def rows(self, cells: Iterable[Cell]) -> Iterator[Row]:
        """Yield the measures of those of the cells that are in the file, in order."""
        query = (
            "SELECT protocol, split, status, error, learn_seconds, predict_seconds, n_train,"
            " n_test, versions, measures FROM cells WHERE key = ?"
        )
        for cell in cells:
            with self._told():
                found = self._connection.execute(query, (cell.key,)).fetchall()
            for protocol, split, *rest, measures in found:
                for measure, value in json.loads(measures).items():
                    number = math.nan if value is None else value
                    yield Row(cell.dataset, cell.method, protocol, split, measure, number, *rest)

    def failures(self, cells: Iterable[Cell]) -> list[tuple[Cell, str]]:
        """Return the cells that failed, with their errors."""
        query = "SELECT key, error FROM cells WHERE status = 'failed'"
        with self._told():
            errors = dict(self._connection.execute(query).fetchall())
        return [(cell, errors[cell.key]) for cell in cells if cell.key in errors]
