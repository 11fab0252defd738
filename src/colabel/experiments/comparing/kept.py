"""Answers of a comparison on disk, so that work that was stopped goes on where it stopped."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import joblib
import numpy as np

from colabel.experiments.cross_validation import Part
from colabel.experiments.held_out import Ask, HeldOut, Method, Task
from colabel.experiments.store import Store, StoreError, versions

_ARRAYS = ("codes", "log_prob", "marginals", "confidence", "mode_right")
_DECIDED = "decided "


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
        return str(joblib.hash((*said, versions())))

    @cached_property
    def _of_rows(self) -> str:
        X = self.task.X
        parts = (X.numbers, X.number_names, dict(X.texts), self.task.codes, self.task.space.names)
        return str(joblib.hash(parts))

    def load(self, keys: dict[Part, str]) -> dict[Part, HeldOut]:
        """Return the answers that are there already."""
        if self.path is None or not self.path.is_file():
            return {}
        with Store(self.path) as store:
            found = store.answers(keys.values())
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
        with contextlib.suppress(StoreError), Store(self.path) as store:
            store.save_answer(key, written.getvalue())

    def forget(self, keys: Iterable[str]) -> None:
        """Remove answers, and the file if it holds no others."""
        if self.path is None or not self.path.is_file():
            return
        with Store(self.path) as store:
            store.forget(keys)
            empty = store.is_empty()
        if empty:
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
            dataset=self.task.dataset,
            **arrays,
        )
