"""Preparing a table in parts, whose rows are never in memory together.

Each pass is a function of a part, and the results of all parts are added in their order. So the
parts can be read one after the other here, or by the workers of a cluster. Prepared rows are
written to files, which every pass of a fit reads again as Dask arrays.
"""

from __future__ import annotations

import secrets
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial, reduce
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from scipy import sparse

from colabel.core.lazy import require
from colabel.tables.columns import ColumnChoice, ColumnStatistics
from colabel.tables.loading import TableRequest, TableSummary, check_rows, count_vectors, summary_of
from colabel.tables.model import Preprocessor
from colabel.tables.reading import CsvSource, open_table, read_chunks
from colabel.tables.source import (
    Count,
    Frame,
    Storage,
    TableError,
    added,
    ignore,
    state_of,
    storage_of,
)
from colabel.tables.table_labels import LabelReader, LabelSource, LabelStatistics, is_labelled

# Values of a block: 32 megabytes of numbers; every thread of a worker holds one block.
BLOCK_VALUES = 1 << 22
_ROOM = 1.1  # free space needed on the disk, relative to the size of the rows

RunsParts: TypeAlias = Callable[..., list[Any]]
"""Calls a function of every part: ``run(what, function, parts, combine=None)``.

Returns ``function(part)`` of all parts, in their order; `what` describes the pass. With `combine`,
the list holds one result: the results of the parts are combined as they come, so that only a few
are in memory together.
"""


def one_by_one(
    what: str, function: Callable[..., Any], parts: Sequence[Path], combine: Any = None
) -> list[Any]:
    """Call a function of every part in this process, one after the other."""
    results = map(function, parts)
    return list(results) if combine is None else [reduce(combine, results)]


@dataclass(frozen=True)
class PartReader:
    """Reads the parts of a table, and raises an error if one of them changes meanwhile.

    Attributes
    ----------
    request : TableRequest
        With the names of columns.
    storage : {name: "number" or "text"}
        The columns to read, and how.
    states : {part: (size, time of the last change)}
        When the parts were first read.
    n_rows : int, optional
        Rows that are read at a time; see `read_chunks`.
    """

    request: TableRequest
    storage: Mapping[str, Storage]
    states: Mapping[Path, tuple[int, int]]
    n_rows: int | None = None

    def frames(
        self, part: Path, count: Count, labels: LabelSource | None = None
    ) -> Iterator[Frame]:
        """Yield the rows of a part in chunks; with `labels`, those with a known label only."""
        self._require_unchanged(part)
        source = open_table(part, self.request.options)
        for frame in read_chunks(source, self.storage, self.n_rows):
            known = is_labelled(frame, labels) if labels else np.ones(len(frame), dtype=bool)
            if known.any():
                yield frame if known.all() else frame.rows(np.flatnonzero(known))
            count(frame.n_rows)
        self._require_unchanged(part)

    def _require_unchanged(self, part: Path) -> None:
        if self.states[part] != state_of(part):
            raise TableError(
                f"{part} has changed while it was read, and what was learned from it so far is of "
                "other rows: fit again when it is written to the end."
            )


@contextmanager
def _reachable(file: Path) -> Iterator[None]:
    """Tell what to do if this worker cannot find a file."""
    try:
        yield
    except FileNotFoundError as error:
        raise TableError(
            f"A worker cannot find {file}: name a folder that every worker can read and write "
            "(--scratch)."
        ) from error


@dataclass(frozen=True)
class PreparedTable:
    """Prepared rows in files, and a summary of them.

    Attributes
    ----------
    choice : ColumnChoice
    preprocessor : Preprocessor
    labels : LabelReader
    blocks : list of (Path, int)
        Files with features and codes of labels, and their numbers of rows.
    summary : TableSummary
    """

    choice: ColumnChoice
    preprocessor: Preprocessor
    labels: LabelReader
    blocks: list[tuple[Path, int]]
    summary: TableSummary

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.summary.n_rows

    def dask_arrays(self) -> tuple[Any, Any]:
        """Return features (n, p) and labels (n, d) as Dask arrays, a chunk for each block."""
        require("dask", "A fit on parts of a table")
        import dask.array as da
        from dask import delayed

        space, p = self.labels.space, self.preprocessor.n_features_out_
        meta: Any = sparse.csr_array((0, p)) if self.preprocessor.is_sparse_ else np.zeros((0, p))
        dtype = space.values(np.zeros((0, space.n_labels), dtype=np.int8)).dtype
        read, values = delayed(_read_block, pure=False), delayed(space.values, pure=False)
        X, Y = [], []
        for file, n_rows in self.blocks:
            X.append(da.from_delayed(read(file, "features"), (n_rows, p), meta=meta))
            own = values(read(file, "labels"))
            Y.append(da.from_delayed(own, (n_rows, space.n_labels), dtype=dtype))
        return da.concatenate(X), da.concatenate(Y)


def _read_block(file: Path, what: str) -> Any:
    """Return the features (n, p), dense or CSR, or the labels (n, d) of a file."""
    with _reachable(file), np.load(file) as held:
        if what in held:
            return held[what]
        entries = held["data"], held["indices"], held["indptr"]
        return sparse.csr_array(entries, shape=held["shape"])


def prepare_parts(
    request: TableRequest,
    parts: Sequence[Path],
    scratch: Path,
    run: RunsParts = one_by_one,
    block_values: int = BLOCK_VALUES,
    n_rows: int | None = None,
) -> PreparedTable:
    """Read a table in parts a few times: decide the kinds of its columns, and prepare its rows.

    Up to rounding, the result is that of `load_table` and `Preprocessor.fit` on the same rows.

    Parameters
    ----------
    request : TableRequest
        What the user asks; its path is the name of the table in messages.
    parts : sequence of Path
        Files of the same columns.
    scratch : Path
        Folder for the prepared rows; every worker must be able to read and write it.
    run : callable
        Runs each pass; see `RunsParts`.
    block_values : int
        Numbers of a block of prepared rows.
    n_rows : int, optional
        Rows that are read at a time; see `read_chunks`.
    """
    request = request.resolved(open_table(parts[0], request.options))
    first = open_table(parts[0], request.options)
    if isinstance(first, CsvSource):  # the parts are written alike
        decimal = first.with_decimal(first.names).decimal
        request = replace(request, options=replace(request.options, decimal=decimal))
    looked = run("looking", partial(_look, request), parts)
    for part, (seen, _) in zip(parts, looked, strict=True):
        if seen.keys() != looked[0][0].keys():
            odd = min(seen.keys() ^ looked[0][0].keys())
            has, lacks = (part, parts[0]) if odd in seen else (parts[0], part)
            raise TableError(
                f"{has} has a column {odd!r} and {lacks} has none: the parts of a table have the "
                "same columns."
            )
    storage = storage_of(reduce(added, (seen for seen, _ in looked)), request.options.as_text)
    request.features(Frame.of({name: [0.0] for name in storage}))
    states = {part: state for part, (_, state) in zip(parts, looked, strict=True)}
    reader = PartReader(request, storage, states, n_rows)
    (counts,) = run("counting", partial(_count, reader), parts, added)
    labels = request.reader(counts["labels"])
    # with tags, an empty cell is a label set too
    counted = counts.get("every" if labels.source.separator else "labelled")
    n_labelled = 0 if counted is None else counted.n_rows
    check_rows(n_labelled, request.path)
    choice = request.choose(counted)
    wanted = {*(column.name for column in choice.used), *request.labels}
    used = replace(reader, storage={n: how for n, how in storage.items() if n in wanted})
    preprocessor = Preprocessor(choice.used)
    words: dict[str, Counter[str]] = {}
    if choice.of_kind("text"):
        count = partial(_count_words, used, labels.source, preprocessor)
        (words,) = run("counting words", count, parts, added)
    preprocessor.fit_statistics(counted, words)
    n_features = preprocessor.n_features_out_
    needed = _ROOM * n_labelled * 8 * (n_features + labels.space.n_labels)
    free = shutil.disk_usage(scratch).free
    if needed > free and not preprocessor.is_sparse_:  # how many entries there are is not known
        raise TableError(
            f"The prepared rows need {needed / 1e9:.1f} GB for a while, but {scratch} has "
            f"{free / 1e9:.1f} GB left: name a folder on a larger disk (--scratch)."
        )
    n_block = max(1, block_values // n_features)
    written = run("preparing", partial(_write, used, labels, preprocessor, scratch, n_block), parts)
    blocks = [block for own, _ in written for block in own]
    vectors = sum((own for _, own in written), Counter[bytes]())
    n_unlabelled = counts["labels"].n_rows - n_labelled
    summary = summary_of(str(request.path), labels.space, vectors, choice, counted, n_unlabelled)
    return PreparedTable(choice, preprocessor, labels, blocks, summary)


def _look(request: TableRequest, part: Path, count: Count = ignore) -> tuple[Any, tuple[int, int]]:
    """Return what the columns of a part hold, and the state of the file before it was read."""
    source, state = open_table(part, request.options), state_of(part)
    return source.seen(count), state


def _count(reader: PartReader, part: Path, count: Count = ignore) -> dict[str, Any]:
    """Return the statistics of labels, of columns, and of columns in rows with known labels."""
    total: dict[str, Any] = {}
    columns = reader.request.labels
    for frame in reader.frames(part, count):
        n_before = total["labels"].n_rows if total else 0
        labels = LabelStatistics.of(frame, columns, part, n_before)
        features = reader.request.features(frame)
        own: dict[str, Any] = {"labels": labels, "every": ColumnStatistics.of(features)}
        known = is_labelled(frame, LabelSource(tuple(columns)))
        if known.all():
            own["labelled"] = own["every"]
        elif known.any():
            own["labelled"] = ColumnStatistics.of(features.rows(np.flatnonzero(known)))
        total = added(total, own)
    return total


def _count_words(
    reader: PartReader,
    source: LabelSource,
    preprocessor: Preprocessor,
    part: Path,
    count: Count = ignore,
) -> dict[str, Counter[str]]:
    frames = reader.frames(part, count, source)
    return reduce(added, map(preprocessor.count_words, frames), {})


def _write(
    reader: PartReader,
    labels: LabelReader,
    preprocessor: Preprocessor,
    folder: Path,
    n_rows: int,
    part: Path,
    count: Count = ignore,
) -> tuple[list[tuple[Path, int]], Counter[bytes]]:
    """Prepare the rows of a part, write them to blocks, and count their label vectors."""
    blocks: list[tuple[Path, int]] = []
    vectors = Counter[bytes]()
    # a lost worker may have left files of the same part, so no name is used twice
    stem = f"{part.stem}-{secrets.token_hex(6)}"
    held: list[Frame] = []

    def write(frame: Frame) -> None:
        features: Any = preprocessor.transform(frame)
        own = labels.read(frame)
        codes = own.codes.astype(np.int8 if max(own.space.cardinalities) < 128 else np.int32)
        arrays = {"features": features}
        if sparse.issparse(features):
            arrays = {key: getattr(features, key) for key in ("data", "indices", "indptr", "shape")}
        file = folder / f"{stem}-{len(blocks)}.npz"
        with _reachable(file):
            np.savez(file, labels=codes, **arrays)
        blocks.append((file, frame.n_rows))
        vectors.update(count_vectors(own))

    for chunk in reader.frames(part, count, labels.source):
        held.append(chunk)
        if sum(map(len, held)) >= n_rows:  # the last block may have fewer
            whole = Frame.stacked(held)
            n_full = len(whole) // n_rows * n_rows
            for start in range(0, n_full, n_rows):
                write(whole.rows(slice(start, start + n_rows)))
            held = [whole.rows(slice(n_full, None))] if len(whole) > n_full else []
    if held:
        write(Frame.stacked(held))
    return blocks, vectors
