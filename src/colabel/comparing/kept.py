"""Answers of a comparison on disk, so that work that was stopped goes on where it stopped."""

from __future__ import annotations

import contextlib
import io
import platform
import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import Any

import joblib
import numpy as np

from colabel.comparing.cross_validation import Part
from colabel.comparing.held_out import Ask, HeldOut, Method, Task

_ARRAYS = ("codes", "log_prob", "marginals", "confidence", "mode_right")
_DECIDED = "decided "
_PACKAGES = ("colabel", "numpy", "scipy", "scikit-learn", "numba")


class StoreError(RuntimeError):
    """The file of answers cannot be used; the message says why and what to do."""


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    """Open the file and make it if need be; what was written is there whole or not at all."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.closing(sqlite3.connect(path, timeout=30.0)) as store, store:
            tables = {n for (n,) in store.execute("SELECT name FROM sqlite_master")}
            if tables and "answers" not in tables:  # it would be added to, and removed when emptied
                raise StoreError(f"{path} is a database of something else: name another file.")
            store.execute("CREATE TABLE IF NOT EXISTS answers (key PRIMARY KEY, content)")
            yield store
    except (sqlite3.Error, OSError) as error:
        raise StoreError(
            f"Cannot use {path} as a file of answers: {error}. Name another file."
        ) from error


@dataclass(frozen=True)
class KeptAnswers:
    """A store, and what the answers in it depend on.

    Attributes
    ----------
    path : Path or None
        The file; None keeps nothing.
    task : Task
    folds : list of (training rows, test rows)
    ask : Ask
    """

    path: Path | None
    task: Task
    folds: Any
    ask: Ask

    def key(self, part: Part, method: Method) -> str:
        """Fingerprint of what an answer depends on: rows, labels, fold, method and versions."""
        said = (self._of_rows, self.folds[part.fold], method.model, method.steps, self.ask)
        versions = (platform.python_version(), *map(metadata.version, _PACKAGES))
        return str(joblib.hash((*said, versions)))

    @cached_property
    def _of_rows(self) -> str:
        X = self.task.X
        parts = (X.numbers, X.number_names, dict(X.texts), self.task.codes, self.task.space.names)
        return str(joblib.hash(parts))

    def load(self, keys: dict[Part, str]) -> dict[Part, HeldOut]:
        """Return the answers that are there already."""
        if self.path is None or not self.path.is_file():
            return {}
        with _opened(self.path) as store:
            query = "SELECT content FROM answers WHERE key = ?"
            found = {k: c for k in keys.values() for (c,) in store.execute(query, (k,))}
        answers = {}
        for part, key in keys.items():
            if key in found:
                try:
                    answers[part] = self._read(found[key], self.folds[part.fold][1])
                except Exception:  # damaged, in any of many ways: it is worked out again
                    continue
        return answers

    def save(self, key: str, found: HeldOut) -> None:
        """Keep an answer."""
        if self.path is None:
            return
        content: dict[str, Any] = {
            name: getattr(found, name) for name in _ARRAYS if getattr(found, name) is not None
        }
        content |= {f"{_DECIDED}{loss}": codes for loss, codes in found.decided.items()}
        written = io.BytesIO()
        np.savez(written, seconds=np.array(found.seconds), n_train=found.n_train, **content)
        # a full disk costs the resumption, not the comparison
        with contextlib.suppress(StoreError), _opened(self.path) as store:
            store.execute("REPLACE INTO answers VALUES (?, ?)", (key, written.getvalue()))

    def forget(self, keys: Iterable[str]) -> None:
        """Remove answers, and the file if it holds no others."""
        if self.path is None or not self.path.is_file():
            return
        with _opened(self.path) as store:
            store.executemany("DELETE FROM answers WHERE key = ?", [(key,) for key in keys])
            ((left,),) = store.execute("SELECT EXISTS (SELECT 1 FROM answers)")
        if not left:
            self.path.unlink(missing_ok=True)

    def _read(self, content: bytes, rows: Any) -> HeldOut:
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            arrays = dict(file)
        shapes = [arrays[name].shape[: 1 + (name == "codes")] for name in arrays.keys() & _ARRAYS]
        wanted = self.task.codes[rows].shape
        if "codes" not in arrays or any(shape != wanted[: len(shape)] for shape in shapes):
            raise ValueError("an answer about other rows")
        seconds = tuple(arrays.pop("seconds").tolist())
        n_train = int(arrays.pop("n_train"))
        decided = {
            name.removeprefix(_DECIDED): arrays.pop(name)
            for name in list(arrays)
            if name.startswith(_DECIDED)
        }
        return HeldOut(
            rows,
            self.task.space,
            self.task.codes[rows],
            decided=decided,
            seconds=seconds,
            n_train=n_train,
            **arrays,
        )
