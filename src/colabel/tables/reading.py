"""Reading a user's table, whole or a few thousand rows at a time, from one file or many."""

from __future__ import annotations

import glob
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from scipy import sparse

from colabel.core.lazy import require
from colabel.tables.arff import ArffSource
from colabel.tables.csv_file import CsvSource
from colabel.tables.frame import LARGEST, Frame, Storage, storage_of_type
from colabel.tables.source import (
    PLAIN,
    Count,
    FilePath,
    ReadingOptions,
    Seen,
    Source,
    TableError,
    first_repeat,
    ignore,
    listed,
    no_file,
    storage_of,
)

# Values held at once while a table is streamed: about eight megabytes of numbers.
_CHUNK_VALUES = 1 << 20
_MOST_ROWS = 1 << 14
# Values of a table that is read as a whole: two gigabytes of numbers.
_MOST_VALUES = 1 << 28

LARGE_BYTES = 500_000_000
"""Tables that are larger in memory, all files together, are learned from in parts."""

FORMATS = {
    ".parquet": "Parquet",
    ".pq": "Parquet",
    ".feather": "Feather",
    ".arrow": "Feather",
    ".jsonl": "JSON",
    ".ndjson": "JSON",
    ".xlsx": "Excel",
    ".xls": "Excel",
}
"""What the ending of a file says of it."""
_TEXTS = (".csv", ".tsv", ".txt", ".arff")


def ending_of(file: Path) -> str:
    """Return the ending that says the format of a file: before .gz, in small letters."""
    suffixes = [suffix.lower() for suffix in file.suffixes if suffix.lower() != ".gz"]
    return suffixes[-1] if suffixes else ""


def is_table_name(file: Path) -> bool:
    """Whether a file is a table by the ending of its name."""
    return ending_of(file) in (*_TEXTS, *FORMATS)


def open_table(path: FilePath, options: ReadingOptions = PLAIN) -> Source:
    """Look at a file's header; the format follows from the file's name."""
    file = Path(path)
    if not file.exists():
        raise no_file(file)
    if file.is_dir():
        raise TableError(f"{file} is a folder: give a file in it.")
    ending = ending_of(file)
    if ending == ".arff":
        return ArffSource.open(file, options)
    if ending in FORMATS and file.suffix.lower() != ".gz":
        return ArrowSource.open(file, options)
    if ending == ".colabel":
        raise TableError(f"{file} is a model by its name: give a table there.")
    if ending not in _TEXTS:
        raise TableError(
            f"{file} ends in {ending or 'nothing'!r}: tables are read from {', '.join(_TEXTS)} "
            f"(each also with .gz), {', '.join(FORMATS)} files."
        )
    return CsvSource.open(file, options, "\t" if ending == ".tsv" else "")


def read_frame(path: FilePath, options: ReadingOptions = PLAIN) -> Frame:
    r"""Read a whole table.

    Parameters
    ----------
    path : str or path
        A .csv, .tsv, .txt, .arff, .parquet, .feather, .jsonl or .xlsx file; the text formats also
        compressed, as .gz.
    options : ReadingOptions

    Returns
    -------
    Frame

    Raises
    ------
    TableError
        When the file is not as it should be; the message names the line or the column.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from colabel.tables import read_frame
    >>> folder = tempfile.TemporaryDirectory()
    >>> file = pathlib.Path(folder.name) / "toy.csv"
    >>> _ = file.write_text("size;colour\n1.5;red\n;blue\n")
    >>> read_frame(file)
    Frame(2 rows: 1 column of numbers, 1 column of text)
    >>> folder.cleanup()
    """
    source = open_table(path, options)
    if isinstance(source, CsvSource):
        source = source.with_decimal(source.names)
        seen: dict[str, Seen] = {}
        frames = _together(source.scanned(seen), source.path)
        storage = storage_of(seen, source.as_text)
        as_text = {name for name, how in storage.items() if how == "text"}
        # most often all blocks are held alike, and the file is read once
        alike = all(f.texts.keys() == as_text and not f.exceeds(LARGEST) for f in frames)
        if alike and any(map(len, frames)):
            return Frame.stacked(frames)
    else:
        storage = source.storage()
    return Frame.stacked(_together(read_chunks(source, storage), source.path))


def _together(frames: Iterable[Frame], path: Path) -> list[Frame]:
    """Return all frames, unless they are too much for the memory."""
    kept, n_values = [], 0
    for frame in frames:
        kept.append(frame)
        n_values += len(frame) * (1 if frame.is_sparse else len(frame.names))
        if n_values > _MOST_VALUES:
            raise TableError(
                f"{path} holds more than {_MOST_VALUES} values, too many to learn from at once: "
                "learn from a sample of its rows."
            )
    return kept


def read_chunks(
    source: Source,
    storage: Mapping[str, Storage],
    n_rows: int | None = None,
) -> Iterator[Frame]:
    """Read some columns of a table, a few thousand rows at a time.

    Parameters
    ----------
    source : what `open_table` returned
    storage : {name: "number" or "text"}
        The columns wanted, and how each is to be read.
    n_rows : int, optional
        Rows of a chunk; by default as many as make a million values.
    """
    have = set(source.names)
    absent = [name for name in storage if name not in have]
    if absent:
        raise TableError(
            f"{source.path} has no column {listed(absent, 5)}: its columns are "
            f"{listed(source.names)}."
        )
    size = n_rows or max(1, min(_MOST_ROWS, _CHUNK_VALUES // max(1, len(source.names))))
    if n_rows is None and isinstance(source, ArffSource):
        size = _MOST_ROWS  # its rows may be sparse, and it looks at their lengths itself
    n_before = 0
    if isinstance(source, CsvSource):
        source = source.with_decimal([name for name, how in storage.items() if how == "number"])
    for chunk in source.chunks(storage, size):
        if chunk.exceeds(LARGEST):
            entries = sparse.coo_array(chunk.numbers)
            worst = int(np.nanargmax(np.abs(entries.data)))
            row, column = n_before + int(entries.row[worst]) + 1, int(entries.col[worst])
            raise TableError(
                f"{source.path}, row {row}: the column {chunk.number_names[column]!r} holds "
                f"{entries.data[worst]:g}: numbers beyond {LARGEST:g} cannot be computed with. "
                "Correct the value, or leave it empty."
            )
        n_before += chunk.n_rows
        yield chunk
    if not n_before:
        raise TableError(f"{source.path} has no rows: give a table with at least one.")


def find_parts(patterns: Iterable[str | Path]) -> list[Path]:
    """Find files by name or by a glob ("part-*.parquet"), those of a glob in alphabetical order.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from colabel.tables import find_parts
    >>> folder = tempfile.TemporaryDirectory()
    >>> for name in ("part-1.csv", "part-0.csv", "notes.txt"):
    ...     (pathlib.Path(folder.name) / name).touch()
    >>> [file.name for file in find_parts([folder.name + "/part-*.csv"])]
    ['part-0.csv', 'part-1.csv']
    >>> folder.cleanup()
    """
    found: dict[Path, None] = {}
    for pattern in patterns:
        file = Path(pattern)
        if file.exists() or not glob.has_magic(str(pattern)):
            found[file] = None
            continue
        matches = sorted(map(Path, glob.glob(str(pattern))))
        if not matches:
            raise TableError(f"No file matches {str(pattern)!r}: check the path.")
        found.update(dict.fromkeys(matches))
    return list(found)


def is_large(parts: Iterable[Path]) -> bool:
    """Whether tables would take more memory than what is read as a whole: 500 MB.

    A compressed text is as long as its last bytes say, and a short cell becomes a long number: what
    a table takes follows from how long a cell is in its first lines.
    """
    return sum(map(_bytes_in_memory, parts)) > LARGE_BYTES


def _bytes_in_memory(part: Path) -> float:
    size = part.stat().st_size
    if part.suffix.lower() == ".gz" and size > 18:
        with part.open("rb") as raw:
            raw.seek(-4, 2)
            size = max(size, int.from_bytes(raw.read(4), "little"))
    if ending_of(part) not in (".csv", ".tsv", ".txt"):
        return size
    try:
        source = CsvSource.open(part)
        block, _ = next(source.blocks(max(1, (1 << 17) // len(source.names))))
    except (TableError, StopIteration):
        return size  # what is wrong with it is said when it is read
    n_cells = max(1, block.count(b"\n")) * len(source.names)
    return size * max(1.0, 8 * n_cells / max(1, len(block)))


@dataclass(frozen=True)
class ArrowSource(Source):
    """A file that says the types of its columns; those neither numbers nor text are not offered."""

    path: Path
    names: tuple[str, ...]
    as_text: frozenset[str]
    columns: Mapping[str, Seen]

    @classmethod
    def open(cls, path: Path, options: ReadingOptions = PLAIN) -> ArrowSource:
        """Read the schema."""
        with _reading(path) as (schema, _):
            twice = first_repeat(schema.names)
        if twice is not None:
            raise TableError(f"{path} has two columns named {twice!r}: rename one.")
        kinds = {field.name: storage_of_type(field.type) for field in schema}
        nulls = {field.name for field in schema if field.type == pa.null()}
        columns = {n: Seen(n not in nulls, kind == "text") for n, kind in kinds.items() if kind}
        return cls(path, tuple(columns), frozenset(options.as_text), columns)

    def seen(self, count: Count = ignore) -> dict[str, Seen]:
        """Return what the schema declares."""
        return dict(self.columns)

    def chunks(self, storage: Mapping[str, Storage], n_rows: int) -> Iterator[Frame]:
        """Read the columns in `storage`, n_rows at a time."""
        for name, how in storage.items():
            if how == "number" and self.columns[name].n_odd:
                raise TableError(
                    f"{self.path}: the column {name!r} holds text, but numbers are wanted there."
                )
        wanted = [name for name in self.names if name in storage]
        as_text = [name for name in wanted if storage[name] == "text"]
        with _reading(self.path) as (_, batches):
            for batch in batches(wanted, n_rows):
                if batch.num_rows:
                    columns = dict(zip(wanted, batch.columns, strict=True))
                    yield Frame.of_arrow(columns, as_text)


@contextmanager
def _reading(path: Path) -> Iterator[tuple[Any, Callable[[list[str], int], Iterable[Any]]]]:
    """Give the schema of a file and what reads batches of some columns, of n rows at most.

    What goes wrong while it is read becomes a sentence.
    """
    format_name = FORMATS[path.suffix.lower()]
    try:
        if format_name == "Parquet":
            import pyarrow.parquet as parquet

            # a row group may be most of a file: its columns are not all fetched before the first
            # rows; threads would cost more than they save, for batches this small
            with parquet.ParquetFile(path, pre_buffer=False, buffer_size=1 << 18) as file:
                yield (
                    file.schema_arrow,
                    lambda names, n: file.iter_batches(n, columns=names, use_threads=False),
                )
            return
        import pyarrow.dataset as datasets

        if format_name == "Excel":
            require("pandas", "Reading Excel")
            import pandas as pd

            try:
                table = pd.read_excel(path)
            except (ValueError, KeyError, zipfile.BadZipFile) as error:
                raise OSError(str(error)) from error
            found = datasets.dataset(pa.Table.from_pandas(table, preserve_index=False))
        else:
            found = datasets.dataset(path, format=format_name.lower())
        yield (
            found.schema,
            lambda names, n: found.to_batches(
                columns=names, batch_size=n, use_threads=False, batch_readahead=0
            ),
        )
    except (OSError, pa.ArrowException, UnicodeDecodeError, OverflowError) as error:
        is_text = isinstance(error, UnicodeDecodeError) or "UTF8" in str(error)
        reason = "a text in it is not UTF-8" if is_text else " ".join(str(error).split())
        raise TableError(
            f"{path} cannot be read as {format_name} ({reason}): write or fetch it again."
        ) from error
