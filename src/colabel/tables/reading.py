"""Reading a user's table, whole or a few thousand rows at a time: CSV, ARFF or Parquet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import sparse

from colabel.datasets.frame import Frame, Storage, TableError
from colabel.datasets.readers.arff_source import ArffSource
from colabel.datasets.readers.csv_source import CsvSource
from colabel.datasets.readers.parquet_source import ParquetSource
from colabel.datasets.readers.table import Source
from colabel.datasets.readers.text import FilePath, at

# Values held at once while a table is streamed: about eight megabytes of numbers.
_CHUNK_VALUES = 1 << 20
_MOST_ROWS = 1 << 14
# Values of a table that is read as a whole: two gigabytes of numbers.
_MOST_VALUES = 1 << 28
# Beyond this, squares overflow while columns are scaled.
_LARGEST = 1e100


@dataclass(frozen=True)
class ReadingOptions:
    """How a file is read.

    Attributes
    ----------
    delimiter : str
        What separates the values of a CSV file; "" finds out from its first line.
    encoding : str
    missing : tuple of str
        Texts that mean "missing", beside the empty cell, ?, NA, NaN and null.
    as_text : tuple of str
        Columns of a CSV file that are text even if they hold only numbers.
    decimal : {"", ".", ","}
        What stands before the fraction of a number in a CSV file; the other, a blank or an
        apostrophe may separate thousands. "" finds out, with a warning where it is not the point.
    whole : tuple of str
        Columns of a CSV file, labels, in whose numbers a comma has no meaning.
    """

    delimiter: str = ""
    encoding: str = "utf-8"
    missing: tuple[str, ...] = ()
    as_text: tuple[str, ...] = ()
    decimal: str = ""
    whole: tuple[str, ...] = ()


def open_table(path: FilePath, options: ReadingOptions = ReadingOptions()) -> Source:  # noqa: B008
    """Look at a file's header; the format follows from the file's name."""
    file = Path(path)
    if not file.exists():
        raise TableError(f"There is no file {file}: check the path.")
    if file.is_dir():
        raise TableError(f"{file} is a folder: give a file in it.")
    suffixes = [suffix.lower() for suffix in file.suffixes if suffix.lower() != ".gz"]
    ending = suffixes[-1] if suffixes else ""
    if ending in (".csv", ".tsv", ".txt"):
        delimiter = options.delimiter or ("\t" if ending == ".tsv" else "")
        return _named(
            CsvSource.open(
                file,
                delimiter,
                options.encoding,
                options.missing,
                options.as_text,
                options.decimal,
                options.whole,
            )
        )
    if ending == ".arff":
        return ArffSource.open(file, options.encoding)
    if ending in (".parquet", ".pq"):
        return ParquetSource.open(file)
    raise TableError(
        f"{file} ends in {ending or 'nothing'!r}: tables are read from .csv, .tsv, .txt, .arff "
        "(each also with .gz) and .parquet files."
    )


def _named(source: CsvSource) -> CsvSource:
    unnamed = [place for place, name in enumerate(source.names, start=1) if not name]
    if unnamed:
        n_names = len(source.names)
        raise at(source.path, 1, f"column {unnamed[0]} of {n_names} has no name: name it.")
    return source


def read_frame(path: FilePath, options: ReadingOptions = ReadingOptions()) -> Frame:  # noqa: B008
    r"""Read a whole table.

    Parameters
    ----------
    path : str or path
        A .csv, .tsv, .txt, .arff or .parquet file; the text formats also compressed, as .gz.
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
    if isinstance(source, CsvSource):
        source = source.with_decimal(source.names)
    chunks = []
    n_values = 0
    for chunk in read_chunks(source, source.storage()):
        chunks.append(chunk)
        n_values += chunk.n_rows * (1 if chunk.is_sparse else len(chunk.names))
        if n_values > _MOST_VALUES:
            raise TableError(
                f"{path} holds more than {_MOST_VALUES} values, too many to learn from at once: "
                "learn from a sample of its rows."
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
    wanted = {name: how for name, how in storage.items() if name in have}
    size = n_rows or max(1, min(_MOST_ROWS, _CHUNK_VALUES // max(1, len(source.names))))
    n_before = 0
    if isinstance(source, CsvSource):
        source = source.with_decimal([name for name, how in wanted.items() if how == "number"])
    for chunk in source.chunks(wanted, size):
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
