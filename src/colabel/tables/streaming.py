"""Learning what a table in parts holds, and preparing its rows, without ever having them together.

Each pass is one function of a part, whose results are added up in the order of the parts: so the
parts may be read here one after the other, or by the workers of a cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import add
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np

from colabel.datasets.frame import Frame, Storage, TableError
from colabel.datasets.readers.csv_source import CsvSource, SeenColumn
from colabel.datasets.readers.parquet_source import ParquetSource
from colabel.tables.blocks import BlockFile, BlockWriter
from colabel.tables.checking import LabelTally, TableSummary
from colabel.tables.columns import ColumnChoice, choose_columns
from colabel.tables.loading import ColumnRoles, TableRequest, refuse_few
from colabel.tables.medians import MedianCounts, MedianSearch
from colabel.tables.preprocessing import Preprocessor
from colabel.tables.reading import ReadingOptions, open_table, read_chunks
from colabel.tables.statistics import ColumnStatistics, WordStatistics
from colabel.tables.table_labels import (
    LabelReader,
    LabelStatistics,
    check_separator,
    found_separator,
    is_labelled,
    separators_in,
)

Result = TypeVar("Result")
Count = Callable[[int], None]


class RunsParts(Protocol):
    """Calls a function of every part, somewhere."""

    def __call__(
        self, what: str, function: Callable[..., Result], parts: Sequence[Path]
    ) -> list[Result]:
        """Return ``function(part)`` of all parts, in their order; `what` says what is done."""
        ...


def one_by_one(what: str, function: Callable[..., Result], parts: Sequence[Path]) -> list[Result]:
    """Call a function of every part here, one after the other."""
    return [function(part) for part in parts]


@dataclass(frozen=True)
class PartReader:
    """Reads the parts of a table.

    Attributes
    ----------
    options : ReadingOptions
    storage : {name: "number" or "text"}
        Columns, and how they are read.
    roles : ColumnRoles
    separator : str
        Of the tags in the one label column; "" for none.
    """

    options: ReadingOptions
    storage: Mapping[str, Storage]
    roles: ColumnRoles
    separator: str = ""

    def frames(self, part: Path, count: Count) -> Iterator[tuple[Frame, int]]:
        """Give the rows of a part, some at a time, and how many came before them."""
        n_before = 0
        for frame in read_chunks(open_table(part, self.options), self.storage):
            yield frame, n_before
            n_before += frame.n_rows
            count(frame.n_rows)

    def labelled(self, part: Path, count: Count) -> Iterator[Frame]:
        """Give the rows of a part with at least one known label, some at a time."""
        for frame, _ in self.frames(part, count):
            known = self.is_labelled(frame)
            if known.any():
                yield frame if known.all() else frame.rows(np.flatnonzero(known))

    def is_labelled(self, frame: Frame) -> Any:
        """Whether any label of a row is known, (n,); with tags none of them is a label set too."""
        if self.separator:
            return np.ones(frame.n_rows, dtype=bool)
        return is_labelled(frame, self.roles.labels)

    def only(self, names: Sequence[str]) -> PartReader:
        """Read some of the columns, and the labels."""
        wanted = {*names, *self.roles.labels}
        kept = {name: how for name, how in self.storage.items() if name in wanted}
        return replace(self, storage=kept)


@dataclass(frozen=True)
class PartCounts:
    """What the first pass counts in a part."""

    labels: LabelStatistics
    columns: ColumnStatistics | None  # of the rows with labels; None if there are none
    middle: MedianCounts | None

    def __add__(self, other: PartCounts) -> PartCounts:
        columns = _sum_of_some(self.columns, other.columns)
        return PartCounts(
            self.labels + other.labels, columns, _sum_of_some(self.middle, other.middle)
        )


def _sum_of_some(one: Any, other: Any) -> Any:
    return other if one is None else one if other is None else one + other


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


def prepare_parts(
    request: TableRequest,
    parts: Sequence[Path],
    scratch: Path,
    run: RunsParts = one_by_one,
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
    """
    reader = look_at(request, parts, run)
    counts = reduce(add, run("counting", partial(_count, reader), parts))
    labels = counts.labels.reader(reader.roles.labels, reader.separator)
    n_labelled = 0 if counts.columns is None else counts.columns.n_rows
    refuse_few(n_labelled, request.path)
    assert counts.columns is not None
    choice = choose_columns(counts.columns, reader.roles.kinds(counts.columns.names))
    used = reader.only([column.name for column in choice.used])
    preprocessor = Preprocessor(choice.used)
    numbers = choice.of_kind("number")
    search = _first_search(counts, numbers)
    words: dict[str, WordStatistics] = {}
    while not search.is_done or (choice.of_kind("text") and not words):
        refine = partial(_refine, used, numbers, search, None if words else preprocessor)
        found = run("counting again", refine, parts)
        if not search.is_done:
            search = search.narrowed(reduce(add, (middle for middle, _ in found if middle)))
        words = words or _added_words([own for _, own in found if own])
    medians = np.zeros(len(numbers)) if counts.columns.is_sparse else search.medians()
    preprocessor.fit_statistics(counts.columns, medians, words)
    writer = BlockWriter(scratch, preprocessor, labels)
    writer.refuse_full_disk(n_labelled)
    written = run("preparing", partial(_write, used, writer), parts)
    blocks = [block for own, _ in written for block in own]
    tally = reduce(add, (tally for _, tally in written if tally is not None))
    n_unlabelled = counts.labels.n_rows - n_labelled
    summary = tally.summary(str(request.path), choice, counts.columns, n_unlabelled)
    return PreparedTable(choice, preprocessor, labels, blocks, summary)


def look_at(request: TableRequest, parts: Sequence[Path], run: RunsParts) -> PartReader:
    """Find out how the columns of all the parts are read, and where the labels are."""
    roles = request.roles(open_table(parts[0], request.options))
    check_separator(roles.labels, request.separator)
    options = roles.options(request.options)
    first = open_table(parts[0], options)
    if isinstance(first, CsvSource):  # the parts are written alike
        options = replace(options, decimal=first.with_decimal(first.names).decimal)
    seen = run("looking", partial(_storage, options), parts)
    reader = PartReader(options, _common(parts, seen, options), roles, request.separator or "")
    roles.features(Frame.of({name: [0.0] for name in reader.storage}), request.path)
    is_text = reader.storage.get(roles.labels[0]) == "text"
    if request.separator is None and len(roles.labels) == 1 and is_text:
        alone = replace(reader, storage={roles.labels[0]: "text"})
        sets = run("looking for tags", partial(_separators, alone), parts)
        reader = replace(reader, separator=found_separator(set().union(*sets)))
    return reader


def _ignore(n_rows: int) -> None:
    return None


def _storage(
    options: ReadingOptions, part: Path, count: Count = _ignore
) -> dict[str, SeenColumn | Storage | None]:
    """What the columns of a part hold; None for a Parquet column of nothing but nulls."""
    source = open_table(part, options)
    if isinstance(source, CsvSource):
        return dict(source.seen(count))
    empty = source.empty if isinstance(source, ParquetSource) else ()
    return {name: None if name in empty else how for name, how in source.storage().items()}


def _common(
    parts: Sequence[Path],
    seen: Sequence[Mapping[str, SeenColumn | Storage | None]],
    options: ReadingOptions,
) -> dict[str, Storage]:
    """How the columns that all the parts must have are read."""
    total: dict[str, Any] = dict(seen[0])
    for part, own in zip(parts[1:], seen[1:], strict=True):
        if own.keys() != total.keys():
            odd = min(own.keys() ^ total.keys())
            has, lacks = (part, parts[0]) if odd in own else (parts[0], part)
            raise TableError(
                f"{has} has a column {odd!r} and {lacks} has none: the parts of a table have the "
                "same columns."
            )
        for name, found in own.items():
            if isinstance(found, SeenColumn) and isinstance(total[name], SeenColumn):
                total[name] += found
            elif found is None or total[name] is None:
                total[name] = total[name] or found
            elif _as_stored(found) != _as_stored(total[name]):
                raise TableError(
                    f"The column {name!r} holds {_as_stored(found)}s in {part} and "
                    f"{_as_stored(total[name])}s in {parts[0]}: make them alike."
                )
    return {name: _judged(name, found, options) for name, found in total.items()}


def _as_stored(found: SeenColumn | Storage) -> Storage:
    return ("text" if found.odd else "number") if isinstance(found, SeenColumn) else found


def _judged(name: str, found: SeenColumn | Storage | None, options: ReadingOptions) -> Storage:
    """As `CsvSource.storage`; other formats say themselves what a column holds."""
    if isinstance(found, SeenColumn):
        return "text" if name in options.as_text else found.storage(name, options.as_text)
    return found or "number"


def _separators(reader: PartReader, part: Path, count: Count = _ignore) -> set[str]:
    (name,) = reader.storage
    return set().union(*(separators_in(frame, name) for frame, _ in reader.frames(part, count)))


def _count(reader: PartReader, part: Path, count: Count = _ignore) -> PartCounts:
    frames = reader.frames(part, count)  # of one row at least, or the part is refused
    return reduce(add, (_counts_of(frame, n_before, reader, part) for frame, n_before in frames))


def _counts_of(frame: Frame, n_before: int, reader: PartReader, part: Path) -> PartCounts:
    def place(i: int) -> str:
        return f"{part}, row {n_before + i + 1}: "

    labels = LabelStatistics.of(frame, reader.roles.labels, reader.separator, place)
    known = np.flatnonzero(reader.is_labelled(frame))
    if not len(known):
        return PartCounts(labels, None, None)
    features = reader.roles.features(frame, part)
    if len(known) < frame.n_rows:
        features = features.rows(known)
    middle = None
    if not features.is_sparse:
        block: Any = features.numbers
        middle = MedianSearch.over(block.shape[1]).count(block)
    return PartCounts(labels, ColumnStatistics.of(features), middle)


def _first_search(counts: PartCounts, names: Sequence[str]) -> MedianSearch:
    """What the first pass says of the medians of some columns of numbers."""
    assert counts.columns is not None
    if counts.middle is None or not names:
        return replace(MedianSearch.over(len(names)), settled=np.ones(len(names), dtype=bool))
    place = {name: j for j, name in enumerate(counts.columns.number_names)}
    own = counts.middle.of_columns([place[name] for name in names])
    return MedianSearch.over(len(names)).narrowed(own)


def _refine(
    reader: PartReader,
    numbers: Sequence[str],
    search: MedianSearch,
    preprocessor: Preprocessor | None,
    part: Path,
    count: Count = _ignore,
) -> tuple[MedianCounts | None, dict[str, WordStatistics]]:
    """Count what is still wanted: middle numbers, and (with a preprocessor) words."""
    middle, words = None, list[dict[str, WordStatistics]]()
    for frame in reader.labelled(part, count):
        if not search.is_done:
            block: Any = frame.block(numbers)
            middle = _sum_of_some(middle, search.count(block))
        if preprocessor is not None:
            words.append(preprocessor.count_words(frame))
    return middle, _added_words(words)


def _added_words(words: Sequence[Mapping[str, WordStatistics]]) -> dict[str, WordStatistics]:
    names = words[0] if words else ()
    return {name: reduce(add, (own[name] for own in words)) for name in names}


def _write(
    reader: PartReader, writer: BlockWriter, part: Path, count: Count = _ignore
) -> tuple[list[BlockFile], LabelTally | None]:
    return writer.write(reader.labelled(part, count), part)
