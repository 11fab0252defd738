"""Reading a user's table, whole or a few thousand rows at a time, from one file or many.

pyarrow reads a block of lines of a CSV file with the wanted types. Where it fails, our own rules
read all cells of the block as one array: words for missing values, decimal commas, thousands. An
error names the line. Tables of very many columns are always read by these rules, because pyarrow
spends more time on a column than on its cells.
"""

from __future__ import annotations

import csv
import glob
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv
from scipy import sparse

from colabel.core.arrays import Indices
from colabel.core.lazy import require
from colabel.core.warning import warn
from colabel.tables.arff import ArffSource
from colabel.tables.source import (
    LARGEST,
    PATTERNS,
    PLAIN,
    Count,
    FilePath,
    Frame,
    ReadingOptions,
    Seen,
    Source,
    Storage,
    TableError,
    as_numbers,
    first_repeat,
    ignore,
    listed,
    no_file,
    not_decoded,
    open_blocks,
    shown,
    storage_of,
    storage_of_type,
    text_array,
)

# Values of a chunk of a table: four megabytes of numbers, which read faster than eight.
_CHUNK_VALUES = 1 << 19
_MOST_ROWS = 1 << 14
# Values of a table that is read whole: two gigabytes of numbers.
_MOST_VALUES = 1 << 28

LARGE_BYTES = 500_000_000
"""Tables whose files together need more memory than this are fitted in parts."""

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
"""Formats by the ending of the file name."""
_TEXTS = (".csv", ".tsv", ".txt", ".arff")

MISSING_TEXTS = frozenset({"", "?", "na", "nan", "null"})
_DECIMAL_ROWS = 1000  # searched for decimal commas
_WIDE = 1000  # tables with more columns are read without pyarrow's reader


def ending_of(file: Path) -> str:
    """Return the ending that gives the format of a file, in lower case and without .gz."""
    suffixes = [suffix.lower() for suffix in file.suffixes if suffix.lower() != ".gz"]
    return suffixes[-1] if suffixes else ""


def is_table_name(file: Path) -> bool:
    """Return whether the ending of a file name is that of a table."""
    return ending_of(file) in (*_TEXTS, *FORMATS)


def open_table(path: FilePath, options: ReadingOptions = PLAIN) -> Source:
    """Read the header of a file, whose format follows from its name."""
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
        If the file cannot be read; the message names the line or the column.

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
        # usually all blocks have the same types, and the file is read once
        alike = all(f.texts.keys() == as_text and not f.is_too_large for f in frames)
        if alike and any(map(len, frames)):
            return Frame.stacked(frames)
    else:
        storage = source.storage()
    return Frame.stacked(_together(read_chunks(source, storage), source.path))


def _together(frames: Iterable[Frame], path: Path) -> list[Frame]:
    """Return all frames; refuse tables with too many values for the memory."""
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
        The wanted columns, and how each is read.
    n_rows : int, optional
        Rows of a chunk; by default about half a million values.
    """
    have = set(source.names)
    absent = [name for name in storage if name not in have]
    if absent:
        raise TableError(
            f"{source.path} has no column {listed(absent, 5)}: its columns are "
            f"{listed(source.names)}."
        )
    size = n_rows or _rows_of_chunk(len(source.names))
    if n_rows is None and isinstance(source, ArffSource):
        size = _MOST_ROWS  # its rows may be sparse, and it limits their length itself
    n_before = 0
    if isinstance(source, CsvSource):
        source = source.with_decimal([name for name, how in storage.items() if how == "number"])
    for chunk in source.chunks(storage, size):
        if chunk.is_too_large:
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


def _rows_of_chunk(n_columns: int) -> int:
    return max(8, min(_MOST_ROWS, _CHUNK_VALUES // max(1, n_columns)))


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
    files: dict[Path, None] = {}
    for pattern in patterns:
        file = Path(pattern)
        if file.exists() or not glob.has_magic(str(pattern)):
            files[file] = None
            continue
        matches = sorted(map(Path, glob.glob(str(pattern))))
        if not matches:
            raise TableError(f"No file matches {str(pattern)!r}: check the path.")
        files.update(dict.fromkeys(matches))
    return list(files)


def is_large(parts: Iterable[Path]) -> bool:
    """Return whether tables need more than 500 MB of memory, and so are read in parts.

    The last bytes of a .gz file give its uncompressed length. Each cell becomes a number of eight
    bytes, so the estimate depends on the mean length of a cell in the first lines.
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
        return size  # reading it will raise the error
    n_cells = max(1, block.count(b"\n")) * len(source.names)
    return size * max(1.0, 8 * n_cells / max(1, len(block)))


@dataclass(frozen=True)
class ArrowSource(Source):
    """A file that declares the types of its columns; it offers those of numbers and of text."""

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
        """Return what the schema declares about the columns."""
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
    """Yield the schema of a file, and a function that reads some columns in batches of n rows.

    An error of pyarrow or pandas becomes a TableError.
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
            rows = datasets.dataset(pa.Table.from_pandas(table, preserve_index=False))
        else:
            rows = datasets.dataset(path, format=format_name.lower())
        yield (
            rows.schema,
            lambda names, n: rows.to_batches(
                columns=names, batch_size=n, use_threads=False, batch_readahead=0
            ),
        )
    except (OSError, pa.ArrowException, UnicodeDecodeError, OverflowError) as error:
        is_text = isinstance(error, UnicodeDecodeError) or "UTF8" in str(error)
        reason = "a text in it is not UTF-8" if is_text else " ".join(str(error).split())
        raise TableError(
            f"{path} cannot be read as {format_name} ({reason}): write or fetch it again."
        ) from error


@dataclass(frozen=True)
class CsvSource(Source):
    """A CSV file whose first line names the columns."""

    path: Path
    names: tuple[str, ...]
    delimiter: str
    encoding: str
    missing: frozenset[str]
    as_text: frozenset[str]
    decimal: str = ""

    @classmethod
    def open(
        cls,
        path: Path,
        options: ReadingOptions = PLAIN,
        default: str = "",
    ) -> CsvSource:
        """Read the first line, and detect the delimiter if it is not given."""
        delimiter = options.delimiter or default
        if delimiter and len(delimiter) != 1:
            raise TableError(f"The delimiter is {delimiter!r}: give a single character.")
        if options.decimal not in ("", ".", ","):
            raise TableError(f"The decimal is {options.decimal!r}: give a point or a comma.")
        with open_blocks(path, options.encoding, b'"') as take:
            raw = take()[0]
        header = raw.decode(errors="replace")
        if not header:
            raise TableError(f"{path} is empty: give a table with a line of names and rows.")
        if "\0" in header:
            raise TableError(f"{path} is not a text file: its first line holds a zero byte.")
        delimiter = delimiter or max((",", ";", "\t", "|"), key=header.count)
        more = frozenset(text.strip().lower() for text in options.missing)
        known = (options.encoding, MISSING_TEXTS | more, frozenset(options.as_text))
        source = cls(path, (), delimiter, *known, options.decimal)
        cells, _ = source._cells(raw, 0)
        names = [name.strip() for name in cells.to_pylist()]
        twice = first_repeat(names)
        problem = "" if twice is None else f"the column {twice!r} is named twice: rename one."
        if not names:
            problem = "no columns are named: write their names into the first line."
        elif "" in names:
            problem = f"column {names.index('') + 1} of {len(names)} has no name: name it."
        if problem:
            raise TableError(f"{path}, line 1: {problem}")
        return replace(source, names=tuple(names))

    def blocks(self, n_rows: int) -> Iterator[tuple[bytes, int]]:
        """Yield about n_rows lines at a time after the header, and the number of lines before."""
        with open_blocks(self.path, self.encoding, b'"') as take:
            take()
            block, before = take(n_rows)
            n_bytes = len(block)
            while block:
                yield block, before
                block, before = take(0, n_bytes)

    def with_decimal(self, names: Iterable[str]) -> CsvSource:
        """Return the source with its decimal, which is detected in some columns if need be."""
        if self.decimal:
            return self
        asked = set(names) - self.as_text
        n_rows = min(_DECIMAL_ROWS, _rows_of_chunk(len(self.names)))
        raw, before = next(self.blocks(n_rows), (b"", 0))
        has_commas = b"," in raw if self.delimiter != "," else b'"' in raw
        if not has_commas and not re.search(rb"\.[0-9]{3}\.", raw):
            return self
        cells = self._cells(raw, before)[0].to_pylist()
        width = len(self.names)
        known = {
            name: [t for t in cells[j::width] if t.strip().lower() not in self.missing]
            for j, name in enumerate(self.names[:_WIDE])
            if name in asked
        }
        decimal, column, example = found_decimal(known)
        if decimal:
            (number,), _ = as_numbers(pa.array([example]), (), decimal)
            warn(
                f"{self.path}: {example} in the column {column!r} is read as {number:.15g} "
                f"(--decimal {decimal}).",
            )
        return replace(self, decimal=decimal)

    def scanned(self, seen: dict[str, Seen]) -> Iterator[Frame]:
        """Read the file in blocks, each column as numbers until a cell is not a number.

        At the end, `seen` tells what the columns hold, except for those that are read as text.
        """
        place = {name: j for j, name in enumerate(self.names)}
        n_values, n_odd = np.zeros((2, len(place)), dtype=np.intp)
        odd: dict[str, tuple[str, Path, int]] = {}
        for block, before in self.blocks(_rows_of_chunk(len(self.names))):
            wanted: dict[str, Storage] = {
                name: "text" if name in odd or name in self.as_text else "number" for name in place
            }
            frame, new = self._read(block, before, wanted)
            odd |= new
            numbers = [place[name] for name in frame.number_names]
            n_values[numbers] += len(frame) - np.isnan(np.asarray(frame.numbers)).sum(axis=0)
            for name in frame.texts.keys() - self.as_text:
                is_odd = as_numbers(frame.texts[name].dictionary, self.missing, self.decimal)[1]
                codes = frame.coded(name)[1]
                times = np.bincount(codes[codes >= 0], minlength=len(is_odd))
                n_values[place[name]] += times.sum()
                n_odd[place[name]] += times[is_odd].sum()
            yield frame
        counts = zip(self.names, n_values.tolist(), n_odd.tolist(), strict=True)
        seen.update({name: Seen(n, no, odd.get(name)) for name, n, no in counts})

    def seen(self, count: Count = ignore) -> dict[str, Seen]:
        """Read the file, and count the values and those that are not numbers."""
        seen: dict[str, Seen] = {}
        for frame in self.scanned(seen):
            count(len(frame))
        return seen

    def chunks(self, storage: Mapping[str, Storage], n_rows: int) -> Iterator[Frame]:
        """Read the columns in `storage`, about n_rows at a time."""
        wanted = {name: storage[name] for name in self.names if name in storage}
        for block, before in self.blocks(n_rows):
            frame, odd = self._read(block, before, wanted)
            if odd:
                name, (text, path, line) = min(odd.items(), key=lambda item: item[1][2])
                raise TableError(
                    f"{path}, line {line}: the column {name!r} holds {shown(text)}, which is not a "
                    "finite number, but numbers are wanted there: correct it, or leave it empty."
                )
            if len(frame):
                yield frame

    def _read(
        self, block: bytes, before: int, wanted: Mapping[str, Storage]
    ) -> tuple[Frame, dict[str, tuple[str, Path, int]]]:
        """Read columns of a block.

        A column wanted as numbers that holds something else comes back as text, with its first
        such cell, the file and the line.
        """
        frame = self._by_pyarrow(block, wanted)
        if frame is not None:
            return frame, {}
        cells, lines = self._cells(block, before)
        width = len(self.names)
        place = {name: j for j, name in enumerate(self.names)}
        own = [place[name] for name, how in wanted.items() if how == "number"]
        starts = np.arange(len(lines), dtype=np.int64) * width
        some = cells
        if len(own) < width:
            some = cells.take(pa.array((starts[:, None] + np.array(own, np.int64)).ravel()))
        values, flags = as_numbers(some, self.missing, self.decimal)
        is_odd = flags.reshape(len(lines), len(own))
        odd: dict[str, tuple[str, Path, int]] = {}
        for k in np.flatnonzero(is_odd.any(axis=0)).tolist():
            i = int(is_odd[:, k].argmax())
            text = self._written(some[i * len(own) + k].as_py())
            odd[self.names[own[k]]] = (text, self.path, int(lines[i]))
        texts = {
            name: text_array(cells.take(pa.array(starts + place[name])), self.missing)
            for name, how in wanted.items()
            if how == "text" or name in odd
        }
        kept = np.flatnonzero(~is_odd.any(axis=0))
        names = tuple(self.names[own[k]] for k in kept)
        return Frame(values.reshape(is_odd.shape)[:, kept], names, texts), odd

    def _by_pyarrow(self, block: bytes, wanted: Mapping[str, Storage]) -> Frame | None:
        """Read columns of a block; None if pyarrow might not read each cell as our rules do."""
        # pyarrow does not see " -999 " as "-999", and takes nan(1) for a number
        own_words = self.missing != MISSING_TEXTS and (b" " in block or b"\t" in block)
        odd_nan = b"(" in block and b"nan(" in block.lower()
        if not wanted or len(self.names) > _WIDE or not self.delimiter.isascii():
            return None
        if own_words or odd_nan:
            return None
        words = {s for w in self.missing for s in (w, w.upper(), w.capitalize())} | {"NaN"}
        types = {"number": pa.float64(), "text": pa.dictionary("int32", "string")}
        has_quotes = b'"' in block
        # a megabyte at a time stays in the processor's cache; a line must fit into it
        size = len(block) + 1 if has_quotes else max(1 << 20, 16 * block.find(b"\n"))
        try:
            table = arrow_csv.read_csv(
                pa.py_buffer(block),
                arrow_csv.ReadOptions(use_threads=False, block_size=size, column_names=self.names),
                arrow_csv.ParseOptions(
                    delimiter=self.delimiter,
                    quote_char='"' if has_quotes else False,
                    newlines_in_values=has_quotes,
                ),
                arrow_csv.ConvertOptions(
                    column_types={name: types[how] for name, how in wanted.items()},
                    include_columns=list(wanted),
                    null_values=sorted(words),
                    strings_can_be_null=False,
                    decimal_point=self.decimal or ".",
                ),
            )
        except pa.ArrowException:
            return None
        frame = Frame.of_arrow(dict(zip(wanted, table.columns, strict=True)), (), self.missing)
        return None if frame.is_too_large else frame

    def _cells(self, raw: bytes, before: int) -> tuple[Any, Indices]:
        """Return the cells of a block, row after row, and the line number of each row."""
        try:
            block = raw.decode()
        except UnicodeDecodeError as error:
            raise not_decoded(self.path, self.encoding, error) from error
        if '"' in block or len(self.delimiter.encode()) > 1:
            texts, lengths, ends = list[str](), list[int](), list[int]()
            # blocks are bounded, cells within them need not be
            csv.field_size_limit(max(csv.field_size_limit(), len(block)))
            reader = csv.reader(StringIO(block), delimiter=self.delimiter)
            try:
                for row in filter(None, reader):
                    texts += row
                    lengths.append(len(row))
                    ends.append(before + reader.line_num)
            except csv.Error as error:
                raise TableError(
                    f"{self.path}, line {before + reader.line_num}: {error}: correct it."
                ) from error
            cells, n_cells, lines = pa.array(texts, "string"), np.array(lengths), np.array(ends)
        else:
            rows = pa.array(block.split("\n"), "string")
            filled = np.flatnonzero(pc.binary_length(rows).to_numpy() > 0)
            split = pc.split_pattern(rows.take(pa.array(filled)), self.delimiter)
            cells, n_cells = split.flatten(), pc.list_value_length(split).to_numpy()
            lines = before + 1 + filled
        wrong = int((n_cells != len(self.names)).argmax()) if len(n_cells) else 0
        if self.names and len(n_cells) and n_cells[wrong] != len(self.names):
            raise TableError(
                f"{self.path}, line {lines[wrong]}: the row has {n_cells[wrong]} values where the "
                f"header names {len(self.names)} columns: correct it; if it is the last row the "
                "file may be cut short."
            )
        return cells, lines

    def _written(self, text: str) -> str:
        """Write a text that is not a number; say so if it is one with the other decimal."""
        other = {",": ".", ".": ","}.get(self.decimal, "")
        if other and re.fullmatch(PATTERNS[other], text.strip()):
            return f"{text.strip()} (with a decimal {'comma' if self.decimal == ',' else 'point'})"
        return text


def found_decimal(columns: Mapping[str, Iterable[str]]) -> tuple[str, str, str]:
    """Detect the decimal separator from the known values of columns.

    Returns "," or "." (where the comma separates thousands) with the column and the value that
    show it; "" for a point without separators of thousands. Only columns count whose values are
    all numbers in one of the two styles. 1,5 and 1.234.567 show a comma; 1.5 and 1,234,567 show a
    point. If values such as 1,234 are the only evidence, the error asks the user.
    """
    told: dict[str, tuple[str, str, str]] = {}
    styles = {decimal: re.compile(PATTERNS[decimal]) for decimal in ".,"}
    for name, tokens in columns.items():
        texts = sorted({token.strip() for token in tokens})
        fits = [[d for d, style in styles.items() if style.fullmatch(text)] for text in texts]
        for text, may_be in zip(texts, fits, strict=True) if all(fits) else ():
            if may_be == [","]:
                told.setdefault("comma", (",", name, text))
            elif "," in text:
                told.setdefault("either" if "," in may_be else "grouped", (".", name, text))
            elif may_be == ["."]:
                told.setdefault("point", ("", name, text))
    if "comma" in told and not ("grouped" in told or "point" in told):
        return told["comma"]
    if "comma" in told or not ("grouped" in told or "either" in told):
        return "", "", ""
    if "grouped" in told or "point" in told:
        return told.get("grouped", told.get("either", ("", "", "")))
    _, column, example = told["either"]
    raise TableError(
        f"The column {column!r} holds {example}, which may be {example.replace(',', '.')} or "
        f"{example.replace(',', '')}: say what stands before a fraction (--decimal , or "
        "--decimal .), or name the column as a category (--category)."
    )
