"""CSV files with a header line. Needs nothing beyond the standard library and NumPy."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from colabel.datasets.dataset import Dataset, DatasetError
from colabel.datasets.readers._arff_header import Attribute
from colabel.datasets.readers._encode import to_dataset
from colabel.datasets.readers._table import Table, find_columns, first_repeat, label_columns
from colabel.datasets.readers._text import FilePath, at, lines_of, open_text

if TYPE_CHECKING:
    from _csv import Reader as CsvRows

    from numpy.typing import NDArray

_CHUNK_VALUES = 1 << 19
MISSING_TEXTS = frozenset({"", "?", "na", "nan", "null"})


def read_csv(
    path: FilePath,
    labels: Sequence[str] | int,
    *,
    label_position: Literal["first", "last"] = "last",
    drop: Sequence[str] = (),
    name: str | None = None,
    delimiter: str = ",",
    encoding: str = "utf-8",
) -> Dataset:
    r"""Read a CSV file whose first line names the columns.

    Parameters
    ----------
    path : str or path
        The file; compressed when its name ends in .gz.
    labels : sequence of str or int
        Names of the label columns, or how many there are.
    label_position : {"last", "first"}
        At which end they stand when `labels` is a number.
    drop : sequence of str
        Columns to leave out.
    name : str, optional
        Name of the data set; by default the file's.
    delimiter : str, default=","
        What separates the values.
    encoding : str, default="utf-8"
        Encoding of the file.

    Returns
    -------
    Dataset
        A column of numbers stays; a column with any text is nominal and encoded as by
        `read_arff`. Empty cells, ``?``, ``NA``, ``NaN`` and ``null`` are missing.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from colabel.datasets import read_csv
    >>> folder = tempfile.TemporaryDirectory()
    >>> file = pathlib.Path(folder.name) / "toy.csv"
    >>> _ = file.write_text("size,colour,heavy,round\n1.5,red,0,1\n2,blue,1,1\n3,red,1,0\n")
    >>> data = read_csv(file, labels=2)
    >>> data.feature_names, data.label_names
    (('size', 'colour=blue', 'colour=red'), ('heavy', 'round'))
    >>> folder.cleanup()
    """
    table = read_csv_table(path, drop=drop, delimiter=delimiter, encoding=encoding)
    return to_dataset(
        table,
        label_columns(table.names, labels, label_position, path),
        name=name or Path(path).name.split(".")[0],
        dropped=find_columns(table.names, drop, path),
    )


def read_csv_table(
    path: FilePath,
    *,
    drop: Sequence[str] = (),
    delimiter: str = ",",
    encoding: str = "utf-8",
) -> Table:
    """Read a CSV file into numbers and codes; columns in `drop` read as 0."""
    with open_text(path, encoding) as text:
        names = read_names(csv.reader(lines_of(text, path), delimiter=delimiter), path)
    text_columns: dict[int, dict[str, int]] = {}
    reading = _Reading(path, names, set(find_columns(names, drop, path)), text_columns)
    again = True
    while again:  # a second time only when text turns up in a column that began with numbers
        with open_text(path, encoding) as text:
            values, again = reading.run(csv.reader(lines_of(text, path), delimiter=delimiter))
    return Table(path, _attributes(names, text_columns, values), values)


def read_names(reader: CsvRows, path: FilePath) -> list[str]:
    """Read the line that names the columns."""
    try:
        names = [name.strip() for name in next(reader)]
    except StopIteration:
        raise DatasetError(f"{path} is empty: fetch the file again.") from None
    except csv.Error as error:
        raise DatasetError(f"{path}, line 1: {error}.") from error
    twice = first_repeat(names)
    if twice is not None:
        raise at(path, 1, f"the column {twice!r} is named twice: rename one.")
    return names


class _Reading:
    """One pass over the rows; text columns get codes in the order in which values appear."""

    def __init__(
        self,
        path: FilePath,
        names: list[str],
        dropped: set[int],
        text_columns: dict[int, dict[str, int]],
    ) -> None:
        self.path, self.names, self.dropped = path, names, dropped
        self.text_columns = text_columns

    def run(self, reader: CsvRows) -> tuple[NDArray[np.float64], bool]:
        """Return the values (n_rows, n_columns) and whether another pass is needed."""
        read_names(reader, self.path)
        chunk_rows = max(1, _CHUNK_VALUES // max(1, len(self.names)))
        blocks: list[NDArray[np.float64]] = []
        rows: list[list[str]] = []
        again = False
        for row in checked_rows(reader, len(self.names), self.path):
            rows.append(row)
            if len(rows) == chunk_rows:
                again |= self._convert(rows, blocks)
                rows = []
        if rows:
            again |= self._convert(rows, blocks)
        if not blocks:
            raise DatasetError(f"{self.path} has a header but no rows: fetch the file again.")
        return np.concatenate(blocks), again

    def _convert(self, rows: list[list[str]], blocks: list[NDArray[np.float64]]) -> bool:
        """Append the chunk as numbers; true when an earlier chunk has to be read again."""
        block = np.zeros((len(rows), len(self.names)))
        again = False
        for j, tokens in enumerate(zip(*rows, strict=True)):
            if j in self.dropped:
                continue
            numbers = None if j in self.text_columns else _numbers(tokens)
            if numbers is None:
                again |= j not in self.text_columns and bool(blocks)
                numbers = _code(tokens, self.text_columns.setdefault(j, {}))
            block[:, j] = numbers
        blocks.append(block)
        return again


def checked_rows(
    reader: CsvRows, width: int, path: FilePath, lines_before: int = 0
) -> Iterator[list[str]]:
    """Rows that are not blank, each with as many values as the header."""
    try:
        for row in reader:
            if not row:
                continue
            if len(row) != width:
                raise at(
                    path,
                    lines_before + reader.line_num,
                    f"the row has {len(row)} values where the header names {width} columns: "
                    "correct it; if it is the last row the file may be cut short.",
                )
            yield row
    except csv.Error as error:
        line = lines_before + reader.line_num
        raise at(path, line, f"{error}: correct the line.") from error


def _numbers(tokens: Sequence[str]) -> NDArray[np.float64] | None:
    """Read numbers, NaN where missing; None when a value is not a finite number."""
    try:
        numbers = np.array([float(token) for token in tokens])
    except ValueError:
        try:
            numbers = np.array(
                [np.nan if t.strip().lower() in MISSING_TEXTS else float(t) for t in tokens]
            )
        except ValueError:
            return None
    # float() reads 1_000 and inf as well: such a column is text.
    return None if np.isinf(numbers).any() or any("_" in t for t in tokens) else numbers


def _code(tokens: Sequence[str], codes: dict[str, int]) -> NDArray[np.float64]:
    """Give each text a number, new ones the next free number; NaN where missing."""
    stripped = [token.strip() for token in tokens]
    return np.array(
        [
            np.nan if t.lower() in MISSING_TEXTS else codes.setdefault(t, len(codes))
            for t in stripped
        ],
        dtype=np.float64,
    )


def _attributes(
    names: Sequence[str], text_columns: dict[int, dict[str, int]], values: NDArray[np.float64]
) -> tuple[Attribute, ...]:
    """Describe the columns; codes in `values` are changed, in place, to the sorted order."""
    attributes = [Attribute(name, "numeric") for name in names]
    for j, codes in text_columns.items():
        ordered = sorted(codes)
        rank = np.empty(len(ordered))
        rank[[codes[text] for text in ordered]] = np.arange(len(ordered))
        known = ~np.isnan(values[:, j])
        values[known, j] = rank[values[known, j].astype(np.intp)]
        attributes[j] = Attribute(names[j], "nominal", tuple(ordered), "nominal")
    return tuple(attributes)
