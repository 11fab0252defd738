"""Prepared rows in files, read again in every pass of a fit; as Dask arrays."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from colabel.core.optional import require
from colabel.datasets.frame import Frame, TableError
from colabel.tables.checking import LabelTally
from colabel.tables.preprocessing import Preprocessor
from colabel.tables.table_labels import LabelReader

# Values of a block: 32 megabytes of numbers, of which every thread of a worker holds one.
_BLOCK_VALUES = 1 << 22
_ROOM = 1.1  # times the rows, that a disk must have


@dataclass(frozen=True)
class BlockFile:
    """Features and labels of some rows, in two files.

    Attributes
    ----------
    features, labels : Path
    n_rows : int
        How many of the rows of the files these are, from the first on.
    """

    features: Path
    labels: Path
    n_rows: int

    def read_features(self) -> Any:
        """Return the features (n, p), dense or CSR."""
        with _reachable(self.features) as file:
            if file.suffix == ".npz":
                return sparse.csr_array(sparse.load_npz(file))[: self.n_rows]
            return np.load(file)[: self.n_rows]

    def read_labels(self, reader: LabelReader) -> Any:
        """Return the labels (n, d)."""
        with _reachable(self.labels) as file:
            return reader.decoded(np.load(file)[: self.n_rows])


@dataclass(frozen=True)
class BlockWriter:
    """Prepares rows and writes them to a folder.

    Attributes
    ----------
    folder : Path
    preprocessor : Preprocessor
    labels : LabelReader
    """

    folder: Path
    preprocessor: Preprocessor
    labels: LabelReader

    @property
    def n_block_rows(self) -> int:
        """Rows of a block."""
        return max(1, _BLOCK_VALUES // self.preprocessor.n_features_out_)

    def refuse_full_disk(self, n_rows: int) -> None:
        """Say so before anything is written if the rows have no room."""
        if self.preprocessor.is_sparse_:
            return  # how many entries there are is not known
        needed = _ROOM * n_rows * 8 * (self.preprocessor.n_features_out_ + len(self.labels.names))
        free = shutil.disk_usage(self.folder).free
        if needed > free:
            raise TableError(
                f"The prepared rows need {needed / 1e9:.1f} GB for a while, but {self.folder} has "
                f"{free / 1e9:.1f} GB left: name a folder on a larger disk (--scratch)."
            )

    def write(
        self, frames: Iterable[Frame], part: Path
    ) -> tuple[list[BlockFile], LabelTally | None]:
        """Write rows to blocks; return these, and what was counted in the labels."""
        blocks: list[BlockFile] = []
        tally: LabelTally | None = None
        # a worker that was lost may have left files of the same part: names are never used twice
        stem = f"{part.stem}-{secrets.token_hex(6)}"
        for frame in _in_blocks(frames, self.n_block_rows):
            features: Any = self.preprocessor.transform(frame)
            labels = self.labels.read(frame)
            is_sparse = sparse.issparse(features)
            name = f"{stem}-{len(blocks)}"
            at = self.folder / f"{name}.{'npz' if is_sparse else 'npy'}"
            beside = self.folder / f"{name}-labels.npy"
            with _reachable(at):
                if is_sparse:
                    sparse.save_npz(at, features, compressed=False)
                else:
                    np.save(at, np.ascontiguousarray(features))
                np.save(beside, self.labels.coded(labels.Y))
            blocks.append(BlockFile(at, beside, frame.n_rows))
            own = LabelTally.of(labels)
            tally = own if tally is None else tally + own
        return blocks, tally


def _in_blocks(frames: Iterable[Frame], n_rows: int) -> Iterator[Frame]:
    """Put rows together, or cut them, to blocks of n_rows; the last may have fewer."""
    held: list[Frame] = []
    n_held = 0
    for frame in frames:
        start = 0
        while n_held + frame.n_rows - start >= n_rows:
            end = start + n_rows - n_held
            yield Frame.stacked([*held, frame.rows(slice(start, end))])
            held, n_held, start = [], 0, end
        if start < frame.n_rows:
            held.append(frame.rows(slice(start, None)))
            n_held += frame.n_rows - start
    if held:
        yield Frame.stacked(held)


@contextmanager
def _reachable(file: Path) -> Iterator[Path]:
    """Give a file; say what to do if it is not there for this worker."""
    try:
        yield file
    except FileNotFoundError as error:
        raise TableError(
            f"{file} is not to be found by a worker: name a folder that every worker can read and "
            "write (--scratch)."
        ) from error


def dask_arrays(
    blocks: Sequence[BlockFile], preprocessor: Preprocessor, labels: LabelReader
) -> tuple[Any, Any]:
    """Return features (n, p) and labels (n, d) as Dask arrays, a chunk of rows for each block."""
    require("dask", "A fit on parts of a table")
    import dask.array as da
    from dask import delayed

    n_features, n_labels = preprocessor.n_features_out_, len(labels.names)
    meta: Any = np.zeros((0, n_features))
    if preprocessor.is_sparse_:
        meta = sparse.csr_array((0, n_features))
    read_features = delayed(BlockFile.read_features, pure=False)
    read_labels = delayed(BlockFile.read_labels, pure=False)
    reader = delayed(labels, pure=False)
    X = [
        da.from_delayed(read_features(block), (block.n_rows, n_features), meta=meta)
        for block in blocks
    ]
    Y = [
        da.from_delayed(read_labels(block, reader), (block.n_rows, n_labels), dtype=labels.dtype)
        for block in blocks
    ]
    return da.concatenate(X), da.concatenate(Y)
