"""Reading a user's table, whole or a few thousand rows at a time, from one file or many."""

from __future__ import annotations

import glob
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np
from scipy import sparse

from colabel.tables.arff import ArffSource
from colabel.tables.arrow_file import FORMATS, ArrowSource
from colabel.tables.csv_file import CsvSource
from colabel.tables.frame import LARGEST, Frame, Storage
from colabel.tables.source import Source, storage_of
from colabel.tables.text import PLAIN, FilePath, ReadingOptions, TableError, listed, no_file

# Values held at once while a table is streamed: about eight megabytes of numbers.
_CHUNK_VALUES = 1 << 20
_MOST_ROWS = 1 << 14
# Values of a table that is read as a whole: two gigabytes of numbers.
_MOST_VALUES = 1 << 28

LARGE_BYTES = 500_000_000
"""Tables that are larger in memory, all files together, are learned from in parts."""

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
    if not isinstance(source, CsvSource):
        return _stacked(source, source.storage())
    source = source.with_decimal(source.names)
    # what the first rows hold is most often what all hold: then the file is read once
    guess = storage_of(source.seen(n_blocks=1), source.as_text, doubtful=True)
    try:
        frame = _stacked(source, guess)
    except TableError:
        return _stacked(source, source.storage())
    seen = source.counted(frame)
    if any(2 * own.n_odd <= own.n_values > 0 for n, own in seen.items() if guess[n] == "text"):
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
