"""Learning what a table in parts holds, and preparing its rows, without ever having them together.

Each pass is one function of a part, whose results are added up in the order of the parts: so the
parts may be read here one after the other, or by the workers of a cluster. Prepared rows lie in
files, which every pass of a fit reads again, as Dask arrays.
"""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import add
from pathlib import Path
from typing import Any, Protocol, TypeVar

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
from colabel.tables.source import Count, Seen, added, ignore, storage_of
from colabel.tables.table_labels import LabelReader, LabelStatistics, decoded
from colabel.tables.text import ReadingOptions, TableError

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

    def frames(self, part: Path, count: Count) -> Iterator[tuple[Frame, int]]:
        """Give the rows of a part, some at a time, and how many came before them."""
        n_before = 0
        self._require_unchanged(part)
        for frame in read_chunks(open_table(part, self.options), self.storage):
            yield frame, n_before
            n_before += frame.n_rows
            count(frame.n_rows)
        self._require_unchanged(part)

    def labelled(self, part: Path, count: Count, labels: LabelReader) -> Iterator[Frame]:
        """Give the rows of a part with at least one known label, some at a time."""
        for frame, _ in self.frames(part, count):
            known = labels.is_labelled(frame)
            if known.any():
                yield frame if known.all() else frame.rows(np.flatnonzero(known))

    def _require_unchanged(self, part: Path) -> None:
        if self.states.get(part, state_of(part)) != state_of(part):
            raise TableError(
                f"{part} has changed while it was read, and what was learned from it so far is of "
                "other rows: fit again when it is written to the end."
            )


def state_of(part: Path) -> tuple[int, int]:
    """Size and time of the last change of a file."""
    found = part.stat()
    return found.st_size, found.st_mtime_ns


@dataclass(frozen=True)
class PartCounts:
    """What the first pass counts in a part: in its columns, and in those of rows with labels."""

    labels: LabelStatistics
    every: ColumnStatistics
    labelled: ColumnStatistics | None  # None if there are no such rows

    def __add__(self, other: PartCounts) -> PartCounts:
        one, two = self.labelled, other.labelled
        labelled = two if one is None else one if two is None else one + two
        return PartCounts(self.labels + other.labels, self.every + other.every, labelled)


@dataclass(frozen=True)
class BlockFile:
    """Features and labels of some rows, in a file.

    Attributes
    ----------
    file : Path
    n_rows : int
        How many of the rows of the file these are, from the first on.
    """

    file: Path
    n_rows: int

    def read_features(self) -> Any:
        """Return the features (n, p), dense or CSR."""
        with _reachable(self.file), np.load(self.file) as held:
            if "shape" not in held:
                return held["features"][: self.n_rows]
            entries = held["data"], held["indices"], held["indptr"]
            return sparse.csr_array(entries, shape=held["shape"])[: self.n_rows]

    def read_labels(self, labels: LabelReader) -> Any:
        """Return the labels (n, d)."""
        with _reachable(self.file), np.load(self.file) as held:
            return decoded(held["labels"][: self.n_rows], labels.values)


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

    def first_rows(self, n_rows: int) -> PreparedTable:
        """Return some of the rows, no more than the first block has."""
        first = self.blocks[0]
        return replace(self, blocks=[replace(first, n_rows=min(n_rows, first.n_rows))])

    def dask_arrays(self) -> tuple[Any, Any]:
        """Return features (n, p) and labels (n, d) as Dask arrays, a chunk for each block."""
        require("dask", "A fit on parts of a table")
        import dask.array as da
        from dask import delayed

        n_features, n_labels = self.preprocessor.n_features_out_, len(self.labels.names)
        meta: Any = np.zeros((0, n_features))
        if self.preprocessor.is_sparse_:
            meta = sparse.csr_array((0, n_features))
        features = delayed(BlockFile.read_features, pure=False)
        values = delayed(BlockFile.read_labels, pure=False)
        reader = delayed(self.labels, pure=False)
        X, Y = [], []
        for block in self.blocks:
            shapes = (block.n_rows, n_features), (block.n_rows, n_labels)
            X.append(da.from_delayed(features(block), shapes[0], meta=meta))
            own = values(block, reader)
            Y.append(da.from_delayed(own, shapes[1], dtype=self.labels.dtype))
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
    reader = _look_at(request, parts, run)
    (counts,) = run("counting", partial(_count, reader), parts, add)
    roles = reader.roles
    labels = counts.labels.reader(roles.labels, request.separator, [*roles.forced])
    # with tags, a row without any is a label set too
    counted = counts.every if labels.source.separator else counts.labelled
    n_labelled = 0 if counted is None else counted.n_rows
    refuse_few(n_labelled, request.path)
    assert counted is not None
    choice = choose_columns(counted, roles.kinds(counted.names))
    wanted = {*(column.name for column in choice.used), *roles.labels}
    used = replace(reader, storage={n: how for n, how in reader.storage.items() if n in wanted})
    preprocessor = Preprocessor(choice.used)
    words: dict[str, WordStatistics] = {}
    if choice.of_kind("text"):
        count = partial(_count_words, used, labels, preprocessor)
        (words,) = run("counting words", count, parts, _added_words)
    preprocessor.fit_statistics(counted, words)
    n_features = preprocessor.n_features_out_
    needed = _ROOM * n_labelled * 8 * (n_features + len(labels.names))
    free = shutil.disk_usage(scratch).free
    if needed > free and not preprocessor.is_sparse_:  # how many entries there are is not known
        raise TableError(
            f"The prepared rows need {needed / 1e9:.1f} GB for a while, but {scratch} has "
            f"{free / 1e9:.1f} GB left: name a folder on a larger disk (--scratch)."
        )
    n_block = max(1, block_values // n_features)
    write = partial(_write, used, labels, preprocessor, scratch, n_block)
    written = run("preparing", write, parts)
    blocks = [block for own, _ in written for block in own]
    tally = reduce(add, (tally for _, tally in written if tally is not None))
    n_unlabelled = counts.labels.n_rows - n_labelled
    summary = tally.summary(str(request.path), choice, counted, n_unlabelled)
    return PreparedTable(choice, preprocessor, labels, blocks, summary)


def _look_at(request: TableRequest, parts: Sequence[Path], run: RunsParts) -> PartReader:
    """Find out how the columns of all the parts are read, and where the labels are."""
    roles = request.roles(open_table(parts[0], request.options))
    options = roles.options(request.options)
    first = open_table(parts[0], options)
    if isinstance(first, CsvSource):  # the parts are written alike
        options = replace(options, decimal=first.with_decimal(first.names).decimal)
    looked = run("looking", partial(_look, options), parts)
    states = {part: state for part, (_, state) in zip(parts, looked, strict=True)}
    storage = _common(parts, [seen for seen, _ in looked], options)
    roles.features(Frame.of({name: [0.0] for name in storage}), request.path)
    return PartReader(options, storage, roles, states)


def _look(
    options: ReadingOptions, part: Path, count: Count = ignore
) -> tuple[dict[str, Seen], tuple[int, int]]:
    """What the columns of a part hold, and the file's state."""
    return open_table(part, options).seen(count), state_of(part)


def _common(
    parts: Sequence[Path], seen: Sequence[Mapping[str, Seen]], options: ReadingOptions
) -> dict[str, Storage]:
    """How the columns that all the parts must have are read."""
    for part, own in zip(parts, seen, strict=True):
        if own.keys() != seen[0].keys():
            odd = min(own.keys() ^ seen[0].keys())
            has, lacks = (part, parts[0]) if odd in own else (parts[0], part)
            raise TableError(
                f"{has} has a column {odd!r} and {lacks} has none: the parts of a table have the "
                "same columns."
            )
    return storage_of(reduce(added, seen), frozenset(options.as_text))


def _count(reader: PartReader, part: Path, count: Count = ignore) -> PartCounts:
    """Count in the rows of a part, of which there is one at least, or it is refused."""

    def counts_of(frame: Frame, n_before: int) -> PartCounts:
        def place(i: int) -> str:
            return f"{part}, row {n_before + i + 1}: "

        labels = LabelStatistics.of(frame, reader.roles.labels, place)
        known = np.zeros(frame.n_rows, dtype=bool)
        for name in reader.roles.labels:
            known |= frame.coded(name)[1] >= 0
        features = reader.roles.features(frame, part)
        every = ColumnStatistics.of(features)
        labelled = every if known.all() else None
        if known.any() and labelled is None:
            labelled = ColumnStatistics.of(features.rows(np.flatnonzero(known)))
        return PartCounts(labels, every, labelled)

    return reduce(add, (counts_of(*found) for found in reader.frames(part, count)))


def _count_words(
    reader: PartReader,
    labels: LabelReader,
    preprocessor: Preprocessor,
    part: Path,
    count: Count = ignore,
) -> dict[str, WordStatistics]:
    frames = reader.labelled(part, count, labels)
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
) -> tuple[list[BlockFile], LabelTally | None]:
    """Prepare the rows of a part and write them to blocks; also count in their labels."""
    blocks: list[BlockFile] = []
    tally: LabelTally | None = None
    # a worker that was lost may have left files of the same part: names are never used twice
    stem = f"{part.stem}-{secrets.token_hex(6)}"
    for frame in _in_blocks(reader.labelled(part, count, labels), n_rows):
        features: Any = preprocessor.transform(frame)
        own = labels.read(frame)
        codes = own.codes.astype(np.int8 if max(map(len, own.values)) < 128 else np.int32)
        held = {"features": features}
        if sparse.issparse(features):
            held = {key: getattr(features, key) for key in ("data", "indices", "indptr", "shape")}
        file = folder / f"{stem}-{len(blocks)}.npz"
        with _reachable(file):
            np.savez(file, labels=codes, **held)
        blocks.append(BlockFile(file, frame.n_rows))
        counted = LabelTally.of(own)
        tally = counted if tally is None else tally + counted
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
