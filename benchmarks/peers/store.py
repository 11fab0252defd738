"""The store: one file of data for each set, one record for each cell, both written whole."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from scipy import sparse

from colabel.core.arrays import Array, Codes, Flags, Indices, is_sparse
from colabel.core.files import written_whole

N_FOLDS = 10
SEED = 0


class Cell(NamedTuple):
    """One method on one fold of one data set."""

    dataset: str
    method: str
    fold: int


@dataclass(frozen=True, eq=False)
class FoldedData:
    """Rows, codes and folds of a data set, as the cells of any environment read them.

    Attributes
    ----------
    X : (n, p), dense or CSR
    codes : (n, d)
    cardinalities : (d,)
    fold : (n,)
        The fold in which a row is held out.
    """

    X: Any
    codes: Codes
    cardinalities: tuple[int, ...]
    fold: Indices

    def write(self, path: Path) -> None:
        """Write to an .npz file."""
        parts: dict[str, Any] = {"X": self.X}
        if is_sparse(self.X):
            csr = sparse.csr_matrix(self.X)
            parts = {"values": csr.data, "columns": csr.indices, "starts": csr.indptr}
            parts["shape"] = np.array(csr.shape)
        path.parent.mkdir(parents=True, exist_ok=True)
        with written_whole(path) as part:
            np.savez(
                part,
                codes=self.codes,
                cardinalities=np.array(self.cardinalities),
                fold=self.fold,
                **parts,
            )

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read what `write` wrote."""
        with np.load(path, allow_pickle=False) as parts:
            if "X" in parts:
                X = parts["X"]
            else:
                # a matrix, not an array: not all libraries know SciPy's arrays
                csr = (parts["values"], parts["columns"], parts["starts"])
                X = sparse.csr_matrix(csr, shape=tuple(parts["shape"]))
            return cls(X, parts["codes"], tuple(parts["cardinalities"].tolist()), parts["fold"])


@dataclass(frozen=True, eq=False)
class Record:
    """What came of a cell.

    Attributes
    ----------
    cell : Cell
    status : {"done", "limit", "failed", "absent"}
        "limit": more than `limit` CPU seconds; "absent": the method is not installed.
    message : str
        Why there is nothing else.
    rows : (m,)
        Rows held out.
    subset, hamming, f1, micro_f1, macro_f1 : (m, d)
        Codes decided for each loss; those for micro and macro F1 of an older record are its f1.
    log_prob : (m,)
        Of the true vectors.
    zero : (m,)
        Where the method itself gave them no probability.
    cpu_seconds : float
        Of fitting and predicting, all threads and children.
    peak_mb : float
        Largest resident memory of the process.
    limit : float
    versions : {package: version}
    """

    cell: Cell
    status: str
    message: str = ""
    rows: Indices = field(default_factory=lambda: np.zeros(0, dtype=np.intp))
    subset: Codes = field(default_factory=lambda: np.zeros((0, 0), dtype=np.int32))
    hamming: Codes = field(default_factory=lambda: np.zeros((0, 0), dtype=np.int32))
    f1: Codes = field(default_factory=lambda: np.zeros((0, 0), dtype=np.int32))
    micro_f1: Codes = field(default_factory=lambda: np.zeros((0, 0), dtype=np.int32))
    macro_f1: Codes = field(default_factory=lambda: np.zeros((0, 0), dtype=np.int32))
    log_prob: Array = field(default_factory=lambda: np.zeros(0))
    zero: Flags = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))
    cpu_seconds: float = float("nan")
    wall_seconds: float = float("nan")
    peak_mb: float = float("nan")
    limit: float = float("nan")
    versions: dict[str, str] = field(default_factory=dict)


_ARRAYS = ("rows", "subset", "hamming", "f1", "micro_f1", "macro_f1", "log_prob", "zero")


@dataclass(frozen=True)
class Store:
    """A folder of data files and records."""

    folder: Path

    def data_path(self, dataset: str) -> Path:
        """Where the data of a set lie."""
        return self.folder / "data" / f"{dataset}.npz"

    def path(self, cell: Cell) -> Path:
        """Where the record of a cell lies."""
        method = re.sub(r"[^A-Za-z0-9]+", "_", cell.method).strip("_")
        return self.folder / "cells" / cell.dataset / method / f"{cell.fold}.npz"

    def write(self, record: Record) -> None:
        """Write a record, in place of an older one."""
        path = self.path(record.cell)
        path.parent.mkdir(parents=True, exist_ok=True)
        arrays = {name: getattr(record, name) for name in _ARRAYS}
        text = json.dumps({key: v for key, v in vars(record).items() if key not in _ARRAYS})
        with written_whole(path) as part:
            np.savez_compressed(part, told=np.array(text), **arrays)

    def read(self, cell: Cell) -> Record | None:
        """Return the record of a cell, None if there is none."""
        path = self.path(cell)
        if not path.exists():
            return None
        with np.load(path, allow_pickle=False) as parts:
            told = json.loads(str(parts["told"]))
            told["cell"] = Cell(*told["cell"])
            kept = {name: parts[name if name in parts else "f1"] for name in _ARRAYS}
            return Record(**told, **kept)

    def records(self, dataset: str, method: str) -> Iterator[Record]:
        """All records of a method on a set, in the order of the folds."""
        for fold in range(N_FOLDS):
            record = self.read(Cell(dataset, method, fold))
            if record is not None:
                yield record
