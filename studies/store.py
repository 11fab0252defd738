"""Results in one SQLite file: a cell of a study is there whole or not at all."""

from __future__ import annotations

import json
import math
import platform
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from studies.cells import Cell
from studies.evaluate import Outcome

_SCHEMA = """
CREATE TABLE IF NOT EXISTS cells (
    key TEXT PRIMARY KEY,
    dataset TEXT NOT NULL,
    model TEXT NOT NULL,
    protocol TEXT NOT NULL,
    split INTEGER NOT NULL,
    status TEXT NOT NULL,
    error TEXT NOT NULL,
    warnings TEXT NOT NULL,
    learn_seconds REAL NOT NULL,
    predict_seconds REAL NOT NULL,
    memory_mb REAL,
    n_train INTEGER NOT NULL,
    n_test INTEGER NOT NULL,
    versions TEXT NOT NULL,
    graph TEXT
);
CREATE TABLE IF NOT EXISTS measures (
    key TEXT NOT NULL REFERENCES cells (key) ON DELETE CASCADE,
    measure TEXT NOT NULL,
    value REAL,
    PRIMARY KEY (key, measure)
);
"""
_VERSION = 1
_TABLES = "SELECT name FROM sqlite_master WHERE type = 'table'"
_OWN_TABLES = {"cells", "measures"}


class StoreError(RuntimeError):
    """The file of results cannot be used; the message says why and what to do."""


class Row(NamedTuple):
    """One measure of one cell: the tidy form in which results are exported.

    Attributes
    ----------
    dataset, method, protocol : str
    split : int
    measure : str
    value : float
        NaN where the method does not define the measure, or failed.
    status, error : str
    learn_seconds, predict_seconds, memory_mb : float
    n_train, n_test : int
    versions : str
        JSON.
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
    memory_mb: float
    n_train: int
    n_test: int
    versions: str


@lru_cache(maxsize=1)
def versions() -> str:
    """Versions of what results depend on, as JSON."""
    found = {"python": platform.python_version()}
    for package in ("colabel", "numpy", "scipy", "scikit-learn", "numba"):
        found[package] = metadata.version(package)
    return json.dumps(found)


class Store:
    """Results on disk, in SQLite's write-ahead mode.

    Every cell is written in one transaction: after a crash or a kill at any moment, the file
    holds the cells that were finished, each of them whole.

    Parameters
    ----------
    path : str or path
        Made if it does not exist.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(self.path, timeout=30.0)
            self._prepare()
        except (sqlite3.Error, OSError) as error:
            raise StoreError(
                f"Cannot use {self.path} as a file of results: {error}. Name another file."
            ) from error

    def _prepare(self) -> None:
        tables = {name for (name,) in self._connection.execute(_TABLES)}
        if tables and not tables >= _OWN_TABLES:  # it would be added to, and removed when emptied
            raise StoreError(f"{self.path} is a database of something else: name another file.")
        (version,) = self._connection.execute("PRAGMA user_version").fetchone()
        if version > _VERSION:
            raise StoreError(
                f"{self.path} was written by a newer colabel (format {version}): update colabel."
            )
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA foreign_keys = ON")
        with self._connection:
            self._connection.executescript(_SCHEMA)
            self._connection.execute(f"PRAGMA user_version = {_VERSION}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        place: TracebackType | None,
    ) -> None:
        self._connection.close()

    @contextmanager
    def _told(self, doing: str) -> Iterator[None]:
        """Turn what SQLite raises into a sentence."""
        try:
            yield
        except sqlite3.Error as error:
            raise StoreError(
                f"{self.path} cannot be {doing} ({error}). If the disk is full, make room and run "
                "the study again: finished cells are kept. If the file is damaged, name another."
            ) from error

    def _all(self, query: str, *arguments: Any) -> list[Any]:
        with self._told("read"), closing(self._connection.execute(query, arguments)) as found:
            return found.fetchall()

    def finished(self) -> dict[str, str]:
        """Return {key: status} of all cells in the file."""
        return dict(self._all("SELECT key, status FROM cells"))

    def save(self, cell: Cell, outcome: Outcome) -> None:
        """Write a cell and its measures at once, in place of an earlier outcome."""
        described = (
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
            _or_null(outcome.memory_mb),
            outcome.n_train,
            outcome.n_test,
            versions(),
            None if outcome.graph is None else json.dumps(outcome.graph),
        )
        measures = [
            (cell.key, name, _or_null(outcome.values.get(name, math.nan))) for name in cell.measures
        ]
        with self._told("written"), self._connection:
            self._connection.execute("DELETE FROM cells WHERE key = ?", (cell.key,))
            marks = ", ".join("?" * len(described))
            self._connection.execute(f"INSERT INTO cells VALUES ({marks})", described)
            self._connection.executemany("INSERT INTO measures VALUES (?, ?, ?)", measures)

    def rows(self, cells: Iterable[Cell]) -> Iterator[Row]:
        """Yield the measures of those of the cells that are in the file, in order."""
        query = (
            "SELECT c.protocol, c.split, m.measure, m.value, c.status, c.error, c.learn_seconds,"
            " c.predict_seconds, c.memory_mb, c.n_train, c.n_test, c.versions"
            " FROM cells c JOIN measures m USING (key) WHERE key = ? ORDER BY m.rowid"
        )
        for cell in cells:
            for found in self._all(query, cell.key):
                protocol, split, measure, value, *rest = found
                value = math.nan if value is None else value
                rest[4] = math.nan if rest[4] is None else rest[4]
                yield Row(cell.dataset, cell.method, protocol, split, measure, value, *rest)

    def seconds(self, cells: Iterable[Cell]) -> dict[str, float]:
        """Return {key: seconds of learning and predicting} of those cells that are in the file."""
        query = "SELECT learn_seconds + predict_seconds FROM cells WHERE key = ?"
        keys = dict.fromkeys(cell.key for cell in cells)
        return {key: spent for key in keys for (spent,) in self._all(query, key)}

    def graphs(self, cells: Iterable[Cell]) -> Iterator[tuple[Cell, dict[str, Any]]]:
        """Yield the label graphs among the cells."""
        for cell in cells:
            query = "SELECT graph FROM cells WHERE key = ? AND graph IS NOT NULL"
            for (graph,) in self._all(query, cell.key):
                yield cell, json.loads(graph)

    def failures(self, cells: Sequence[Cell]) -> list[tuple[Cell, str]]:
        """Return the cells that failed, with their errors."""
        query = "SELECT key, error FROM cells WHERE status = 'failed'"
        errors = dict(self._all(query))
        return [(cell, errors[cell.key]) for cell in cells if cell.key in errors]


def _or_null(value: float) -> float | None:
    return None if math.isnan(value) else value
