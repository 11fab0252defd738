"""Reading a user's table, whole or a few thousand rows at a time, from one file or many."""

from __future__ import annotations

import glob
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from scipy import sparse

from colabel.datasets.arff import ArffSource
from colabel.datasets.arrow_table import FORMATS, ArrowSource
from colabel.datasets.csv_table import CsvSource, as_numbers
from colabel.datasets.frame import Frame, Storage, TableError
from colabel.datasets.text import FilePath, at, no_file

# Values held at once while a table is streamed: about eight megabytes of numbers.
_CHUNK_VALUES = 1 << 20
_MOST_ROWS = 1 << 14
# Values of a table that is read as a whole: two gigabytes of numbers.
_MOST_VALUES = 1 << 28
# Beyond this, squares overflow while columns are scaled.
_LARGEST = 1e100

LARGE_BYTES = 500_000_000
"""Tables that are larger in memory, all files together, are learned from in parts."""

_TEXTS = (".csv", ".tsv", ".txt", ".arff")


@dataclass(frozen=True)
class ReadingOptions:
    """How a file is read.

    Attributes
    ----------
    delimiter : str
        What separates the values of a CSV file; "" finds out from its first line.
    encoding : str
        Of a text file; UTF-16 is recognised.
    missing : tuple of str
        Texts that mean "missing", beside the empty cell, ?, NA, NaN and null.
    as_text : tuple of str
        Columns that are text even if they hold only numbers.
    decimal : {"", ".", ","}
        What stands before the fraction of a number in a CSV file; the other, a blank or an
        apostrophe may separate thousands. "" finds out, with a warning where it is not the point.
    """

    delimiter: str = ""
    encoding: str = "utf-8"
    missing: tuple[str, ...] = ()
    as_text: tuple[str, ...] = ()
    decimal: str = ""


class Source(Protocol):
    """A file of some format, read a chunk of rows at a time."""

    @property
    def path(self) -> Path:
        """The file."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns that it offers."""

    def storage(self) -> dict[str, Storage]:
        """Return the columns, and how each is best held."""

    def chunks(self, storage: Mapping[str, Storage], n_rows: int) -> Iterator[Frame]:
        """Read the columns in `storage`, n_rows at a time."""


def ending_of(file: Path) -> str:
    """Return the ending that says the format of a file: before .gz, in small letters."""
    suffixes = [suffix.lower() for suffix in file.suffixes if suffix.lower() != ".gz"]
    return suffixes[-1] if suffixes else ""


def is_table_name(file: Path) -> bool:
    """Whether a file is a table by the ending of its name."""
    return ending_of(file) in (*_TEXTS, *FORMATS)


def open_table(path: FilePath, options: ReadingOptions = ReadingOptions()) -> Source:  # noqa: B008
    """Look at a file's header; the format follows from the file's name."""
    file = Path(path)
    if not file.exists():
        raise TableError(str(no_file(file)))
    if file.is_dir():
        raise TableError(f"{file} is a folder: give a file in it.")
    ending = ending_of(file)
    if ending == ".arff":
        return ArffSource.open(file, options.encoding)
    if ending in FORMATS and file.suffix.lower() != ".gz":
        return ArrowSource.open(file)
    if ending == ".colabel":
        raise TableError(f"{file} is a model by its name: give a table there.")
    if ending not in _TEXTS:
        raise TableError(
            f"{file} ends in {ending or 'nothing'!r}: tables are read from {', '.join(_TEXTS)} "
            f"(each also with .gz), {', '.join(FORMATS)} files."
        )
    source = CsvSource.open(
        file,
        options.delimiter or ("\t" if ending == ".tsv" else ""),
        options.encoding,
        options.missing,
        options.as_text,
        options.decimal,
    )
    unnamed = [place for place, name in enumerate(source.names, start=1) if not name]
    if unnamed:
        n_names = len(source.names)
        raise at(file, 1, f"column {unnamed[0]} of {n_names} has no name: name it.")
    return source


def read_frame(path: FilePath, options: ReadingOptions = ReadingOptions()) -> Frame:  # noqa: B008
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
    DatasetError
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
    if not isinstance(source, CsvSource):
        storage = source.storage()
        storage |= dict.fromkeys((name for name in options.as_text if name in storage), "text")
        return _stacked(source, storage)
    source = source.with_decimal(source.names)
    # what the first rows hold is most often what all hold: then the file is read once
    guess = source.seen(n_blocks=1).storage(source.as_text, frozenset(source.names))
    try:
        frame = _stacked(source, guess)
    except TableError:
        raise
    except ValueError:
        return _stacked(source, source.storage())
    for name in frame.texts.keys() - source.as_text:
        values, codes = frame.coded(name)
        times = np.bincount(codes[codes >= 0], minlength=len(values))
        odd = as_numbers(frame.texts[name].dictionary, source.missing, source.decimal)[1]
        if 2 * times[odd].sum() <= times.sum() and times.any():
            return _stacked(source, source.storage())  # says which value is in doubt
    return frame


def _stacked(source: Source, storage: Mapping[str, Storage]) -> Frame:
    chunks = []
    n_values = 0
    for chunk in read_chunks(source, storage):
        chunks.append(chunk)
        n_values += chunk.n_rows * (1 if chunk.is_sparse else len(chunk.names))
        if n_values > _MOST_VALUES:
            raise TableError(
                f"{source.path} holds more than {_MOST_VALUES} values, too many to learn from at "
                "once: learn from a sample of its rows."
            )
    return Frame.stacked(chunks)


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
        listed = ", ".join(map(repr, absent[:5])) + (", …" if len(absent) > 5 else "")
        raise TableError(
            f"{source.path} has no column {listed}: its columns are "
            f"{', '.join(map(repr, source.names[:6]))}{', …' if len(source.names) > 6 else ''}."
        )
    size = n_rows or max(1, min(_MOST_ROWS, _CHUNK_VALUES // max(1, len(source.names))))
    if n_rows is None and isinstance(source, ArffSource):
        size = _MOST_ROWS  # its rows may be sparse, and it looks at their lengths itself
    n_before = 0
    if isinstance(source, CsvSource):
        source = source.with_decimal([name for name, how in storage.items() if how == "number"])
    for chunk in source.chunks(storage, size):
        _refuse_huge(chunk, source.path, n_before)
        n_before += chunk.n_rows
        yield chunk
    if not n_before:
        raise TableError(f"{source.path} has no rows: give a table with at least one.")


def _refuse_huge(chunk: Frame, path: Path, n_before: int) -> None:
    numbers = chunk.numbers
    values = numbers if isinstance(numbers, np.ndarray) else numbers.data
    if (
        not values.size
        or max(np.fmax.reduce(values, axis=None), -np.fmin.reduce(values, axis=None)) <= _LARGEST
    ):
        return
    entries = sparse.coo_array(np.nan_to_num(numbers) if values is numbers else numbers)
    worst = int(np.nanargmax(np.abs(entries.data)))
    row, column = int(entries.row[worst]), int(entries.col[worst])
    raise TableError(
        f"{path}, row {n_before + row + 1}: the column {chunk.number_names[column]!r} holds "
        f"{entries.data[worst]:g}: numbers beyond {_LARGEST:g} cannot be computed with. Correct "
        "the value, or leave it empty."
    )


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
        source = open_table(part)
        assert isinstance(source, CsvSource)
        block, _ = next(source.first_lines())
    except (TableError, ValueError, StopIteration):
        return size  # what is wrong with it is said when it is read
    n_cells = max(1, block.count("\n")) * len(source.names)
    return size * max(1.0, 8 * n_cells / max(1, len(block)))
