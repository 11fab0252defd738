"""Learning what a table in parts holds, and preparing its rows, without ever having them together.

Each pass is one function of a part, whose results are added up in the order of the parts: so the
parts may be read here one after the other, or by the workers of a cluster. Prepared rows lie in
files, which every pass of a fit reads again, as Dask arrays.
"""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import add
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from scipy import sparse

from colabel.core.optional import require
from colabel.tables.checking import LabelTally, TableSummary
from colabel.tables.columns import ColumnChoice, ColumnStatistics, WordStatistics, choose_columns
from colabel.tables.csv_file import CsvSource
from colabel.tables.frame import Frame, Storage
from colabel.tables.loading import ColumnRoles, TableRequest, refuse_few
from colabel.tables.preprocessing import Preprocessor
from colabel.tables.reading import open_table, read_chunks
from colabel.tables.source import (
    Count,
    ReadingOptions,
    Seen,
    TableError,
    added,
    ignore,
    state_of,
    storage_of,
)
from colabel.tables.table_labels import LabelReader, LabelSource, LabelStatistics, is_labelled

# Values of a block: 32 megabytes of numbers, of which every thread of a worker holds one.
BLOCK_VALUES = 1 << 22
_ROOM = 1.1  # times the rows, that a disk must have

Result = TypeVar("Result")


class RunsParts(Protocol):
    """Calls a function of every part, somewhere."""

    def __call__(
        self,
        what: str,
        function: Callable[..., Result],
        parts: Sequence[Path],
        combine: Callable[[Result, Result], Result] | None = None,
    ) -> list[Result]:
        """Return ``function(part)`` of all parts, in their order; `what` says what is done.

        With `combine` the list holds one result: those of the parts combined as they come, so that
        no more than a few are ever together.
        """
        ...


def one_by_one(
    what: str,
    function: Callable[..., Result],
    parts: Sequence[Path],
    combine: Callable[[Result, Result], Result] | None = None,
) -> list[Result]:
    """Call a function of every part here, one after the other."""
    results = (function(part) for part in parts)
    return list(results) if combine is None else [reduce(combine, results)]


@dataclass(frozen=True)
class PartReader:
    """Reads the parts of a table, and says if one of them changes meanwhile.

    Attributes
    ----------
    options : ReadingOptions
    storage : {name: "number" or "text"}
        Columns, and how they are read.
    roles : ColumnRoles
    states : {part: (size, time of the last change)}
        As they were when they were first looked at.
    """

    options: ReadingOptions
    storage: Mapping[str, Storage]
    roles: ColumnRoles
    states: Mapping[Path, tuple[int, int]]

    def frames(self, part: Path, count: Count) -> Iterator[Frame]:
        """Give the rows of a part, some at a time."""
        self._require_unchanged(part)
        for frame in read_chunks(open_table(part, self.options), self.storage):
            yield frame
            count(frame.n_rows)
        self._require_unchanged(part)

    def labelled(self, part: Path, count: Count, source: LabelSource) -> Iterator[Frame]:
        """Give the rows of a part with at least one known label, some at a time."""
        for frame in self.frames(part, count):
            known = is_labelled(frame, source)
            if known.any():
                yield frame if known.all() else frame.rows(np.flatnonzero(known))

    def _require_unchanged(self, part: Path) -> None:
        if self.states[part] != state_of(part):
            raise TableError(
                f"{part} has changed while it was read, and what was learned from it so far is of "
                "other rows: fit again when it is written to the end."
            )


class PartCounts(NamedTuple):
    """What the first pass counts in a part: in its columns, and in those of rows with labels."""

    labels: LabelStatistics
    every: ColumnStatistics
    labelled: ColumnStatistics | None  # None if there are no such rows


def _added_counts(one: PartCounts, two: PartCounts) -> PartCounts:
    labelled = [own for own in (one.labelled, two.labelled) if own is not None]
    both = reduce(add, labelled) if labelled else None
    return PartCounts(one.labels + two.labels, one.every + two.every, both)


@dataclass(frozen=True)
class BlockFile:
    """Features and codes of labels of some rows, in a file: of its rows, the first `n_rows`."""

    file: Path
    n_rows: int

    def read(self, what: str) -> Any:
        """Return the features (n, p), dense or CSR, or the labels (n, d)."""
        with _reachable(self.file), np.load(self.file) as held:
            if what in held:
                return held[what][: self.n_rows]
            entries = held["data"], held["indices"], held["indptr"]
            return sparse.csr_array(entries, shape=held["shape"])[: self.n_rows]


@contextmanager
def _reachable(file: Path) -> Iterator[None]:
    """Say what to do if a file is not there for this worker."""
    try:
        yield
    except FileNotFoundError as error:
        raise TableError(
            f"{file} is not to be found by a worker: name a folder that every worker can read and "
            "write (--scratch)."
        ) from error


@dataclass(frozen=True)
class PreparedTable:
    """Rows ready to be learned from, in files, and what was seen in them.

    Attributes
    ----------
    choice : ColumnChoice
    preprocessor : Preprocessor
    labels : LabelReader
    blocks : list of BlockFile
        Features and labels of some rows each.
    summary : TableSummary
    """

    choice: ColumnChoice
    preprocessor: Preprocessor
    labels: LabelReader
    blocks: list[BlockFile]
    summary: TableSummary

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return sum(block.n_rows for block in self.blocks)

    def dask_arrays(self) -> tuple[Any, Any]:
        """Return features (n, p) and labels (n, d) as Dask arrays, a chunk for each block."""
        require("dask", "A fit on parts of a table")
        import dask.array as da
        from dask import delayed

        space, p = self.labels.space, self.preprocessor.n_features_out_
        meta: Any = sparse.csr_array((0, p)) if self.preprocessor.is_sparse_ else np.zeros((0, p))
        dtype = space.values(np.zeros((0, space.n_labels), dtype=np.int8)).dtype
        read = delayed(BlockFile.read, pure=False)
        values = delayed(space.values, pure=False)
        X, Y = [], []
        for block in self.blocks:
            X.append(da.from_delayed(read(block, "features"), (block.n_rows, p), meta=meta))
            own = values(read(block, "labels"))
            Y.append(da.from_delayed(own, (block.n_rows, space.n_labels), dtype=dtype))
        return da.concatenate(X), da.concatenate(Y)


def prepare_parts(
    request: TableRequest,
    parts: Sequence[Path],
    scratch: Path,
    run: RunsParts = one_by_one,
    block_values: int = BLOCK_VALUES,
) -> PreparedTable:
    """Read a table in parts a few times: decide what its columns are, and prepare its rows.

    What is learned is, to rounding, what `load_table` and `Preprocessor.fit` learn of the same
    rows in memory.

    Parameters
    ----------
    request : TableRequest
        What the user says; its path names the table in messages.
    parts : sequence of Path
        Files of the same columns.
    scratch : Path
        Folder for the prepared rows, which every worker can reach.
    run : callable
        Runs each pass; see `RunsParts`.
    block_values : int
        Numbers of a block of prepared rows.
    """
    roles = request.roles(open_table(parts[0], request.options))
    options = roles.options(request.options)
    first = open_table(parts[0], options)
    if isinstance(first, CsvSource):  # the parts are written alike
        options = replace(options, decimal=first.with_decimal(first.names).decimal)
    looked = run("looking", partial(_look, options), parts)
    for part, (seen, _) in zip(parts, looked, strict=True):
        if seen.keys() != looked[0][0].keys():
            odd = min(seen.keys() ^ looked[0][0].keys())
            has, lacks = (part, parts[0]) if odd in seen else (parts[0], part)
            raise TableError(
                f"{has} has a column {odd!r} and {lacks} has none: the parts of a table have the "
                "same columns."
            )
    storage = storage_of(reduce(added, (seen for seen, _ in looked)), frozenset(options.as_text))
    roles.features(Frame.of({name: [0.0] for name in storage}), request.path)
    states = {part: state for part, (_, state) in zip(parts, looked, strict=True)}
    reader = PartReader(options, storage, roles, states)
    (counts,) = run("counting", partial(_count, reader), parts, _added_counts)
    labels = counts.labels.reader(roles.labels, request.separator, [*roles.forced])
    # with tags, a row without any is a label set too
    counted = counts.every if labels.source.separator else counts.labelled
    n_labelled = 0 if counted is None else counted.n_rows
    refuse_few(n_labelled, request.path)
    assert counted is not None
    choice = choose_columns(counted, roles.kinds(counted.names))
    wanted = {*(column.name for column in choice.used), *roles.labels}
    used = replace(reader, storage={n: how for n, how in storage.items() if n in wanted})
    preprocessor = Preprocessor(choice.used)
    words: dict[str, WordStatistics] = {}
    if choice.of_kind("text"):
        count = partial(_count_words, used, labels.source, preprocessor)
        (words,) = run("counting words", count, parts, _added_words)
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
    tally = reduce(add, (tally for _, tallies in written for tally in tallies))
    n_unlabelled = counts.labels.n_rows - n_labelled
    summary = tally.summary(str(request.path), choice, counted, n_unlabelled)
    return PreparedTable(choice, preprocessor, labels, blocks, summary)


def _look(
    options: ReadingOptions, part: Path, count: Count = ignore
) -> tuple[dict[str, Seen], tuple[int, int]]:
    """What the columns of a part hold, and the file's state before it was read."""
    source, state = open_table(part, options), state_of(part)
    return source.seen(count), state


def _count(reader: PartReader, part: Path, count: Count = ignore) -> PartCounts:
    """Count in the rows of a part, of which there is one at least, or it is refused."""
    total: PartCounts | None = None
    for frame in reader.frames(part, count):
        n_before = 0 if total is None else total.every.n_rows

        def place(i: int, n_before: int = n_before) -> str:
            return f"{part}, row {n_before + i + 1}: "

        labels = LabelStatistics.of(frame, reader.roles.labels, place)
        known = is_labelled(frame, LabelSource(reader.roles.labels))
        features = reader.roles.features(frame, part)
        every = ColumnStatistics.of(features)
        labelled: ColumnStatistics | None = every
        if not known.all():
            some = features.rows(np.flatnonzero(known))
            labelled = ColumnStatistics.of(some) if known.any() else None
        own = PartCounts(labels, every, labelled)
        total = own if total is None else _added_counts(total, own)
    assert total is not None
    return total


def _count_words(
    reader: PartReader,
    source: LabelSource,
    preprocessor: Preprocessor,
    part: Path,
    count: Count = ignore,
) -> dict[str, WordStatistics]:
    frames = reader.labelled(part, count, source)
    return reduce(_added_words, map(preprocessor.count_words, frames), {})


def _added_words(
    one: dict[str, WordStatistics], other: dict[str, WordStatistics]
) -> dict[str, WordStatistics]:
    return {name: one[name] + other[name] for name in one} if one and other else one or other


def _write(
    reader: PartReader,
    labels: LabelReader,
    preprocessor: Preprocessor,
    folder: Path,
    n_rows: int,
    part: Path,
    count: Count = ignore,
) -> tuple[list[BlockFile], list[LabelTally]]:
    """Prepare the rows of a part and write them to blocks; also count in their labels."""
    blocks: list[BlockFile] = []
    tallies: list[LabelTally] = []
    # a worker that was lost may have left files of the same part: names are never used twice
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
        blocks.append(BlockFile(file, frame.n_rows))
        tallies[:] = [reduce(add, [*tallies, LabelTally.of(own)])]

    for chunk in reader.labelled(part, count, labels.source):
        held.append(chunk)
        if sum(map(len, held)) >= n_rows:  # the last block may have fewer
            whole = Frame.stacked(held)
            n_full = len(whole) // n_rows * n_rows
            for start in range(0, n_full, n_rows):
                write(whole.rows(slice(start, start + n_rows)))
            held = [whole.rows(slice(n_full, None))] if len(whole) > n_full else []
    if held:
        write(Frame.stacked(held))
    return blocks, tallies
