"""CSV files as a source of frames: the columns by name, rows a chunk at a time."""

from __future__ import annotations

import csv
import warnings
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from io import StringIO
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TextIO

import numpy as np

from colabel.core.arrays import Array
from colabel.datasets.dataset import DatasetError
from colabel.datasets.frame import Frame, Storage, TableError
from colabel.datasets.readers.csv_blocks import BlockReader, Tokens
from colabel.datasets.readers.number_style import Decimal, found_decimal, plain_number
from colabel.datasets.readers.table import first_repeat
from colabel.datasets.readers.text import (
    FilePath,
    at,
    blocks_of,
    lines_of,
    n_newlines,
    open_text,
    shown,
)

if TYPE_CHECKING:
    from _csv import Reader as CsvRows

    from numpy.typing import NDArray

MISSING_TEXTS = frozenset({"", "?", "na", "nan", "null"})
_DELIMITERS = (",", ";", "\t", "|")
_SCAN_ROWS = 1 << 13
_DECIMAL_ROWS = 1000  # looked at for decimal commas


@dataclass(frozen=True)
class CsvSource:
    """A CSV file whose first line names the columns."""

    path: Path
    names: tuple[str, ...]
    delimiter: str
    encoding: str
    missing: frozenset[str]
    as_text: frozenset[str]
    decimal: Decimal = ""
    whole: frozenset[str] = frozenset()

    @classmethod
    def open(
        cls,
        path: Path,
        delimiter: str = "",
        encoding: str = "utf-8",
        missing: Sequence[str] = (),
        as_text: Sequence[str] = (),
        decimal: str = "",
        whole: Sequence[str] = (),
    ) -> CsvSource:
        """Read the first line; find the delimiter if it is not given."""
        if delimiter and len(delimiter) != 1:
            raise TableError(f"The delimiter is {delimiter!r}: give a single character.")
        if decimal not in ("", ".", ","):
            raise TableError(f"The decimal is {decimal!r}: give a point or a comma.")
        with open_text(path, encoding) as text:
            first = next(lines_of(text, path), "")
        delimiter = delimiter or max(_DELIMITERS, key=first.count)
        with open_text(path, encoding) as text:
            names = tuple(read_names(csv.reader(lines_of(text, path), delimiter=delimiter), path))
        if "\0" in first:
            raise TableError(f"{path} is not a text file: its first line holds a zero byte.")
        more = frozenset(text.strip().lower() for text in missing)
        return cls(
            path,
            names,
            delimiter,
            encoding,
            MISSING_TEXTS | more,
            frozenset(as_text),
            decimal,  # type: ignore[arg-type]
            frozenset(whole),
        )

    def with_decimal(self, names: Iterable[str]) -> CsvSource:
        """Return the source with its decimal, found out if need be in some columns of numbers."""
        if self.decimal:
            return self
        wanted = [name for name in names if name not in self.whole and name not in self.as_text]
        with open_text(self.path, self.encoding) as text:
            reader = csv.reader(lines_of(text, self.path), delimiter=self.delimiter)
            read_names(reader, self.path)
            rows = checked_rows(reader, len(self.names), self.path)
            columns = list(zip(*islice(rows, _DECIMAL_ROWS), strict=True))
        known = {
            name: [token for token in column if token.strip().lower() not in self.missing]
            for name, column in zip(self.names, columns, strict=False)
            if name in wanted
        }
        found = found_decimal(known)
        if found.decimal:
            value = plain_number(found.example, found.decimal)
            warnings.warn(
                f"{self.path}: {found.example} in the column {found.column!r} is read as {value} "
                f"(--decimal {found.decimal}).",
                stacklevel=2,
            )
        return replace(self, decimal=found.decimal)

    def storage(
        self, doubtful: Literal["refused", "text"] = "refused", ignored: Sequence[str] = ()
    ) -> dict[str, Storage]:
        """Read the file once to see which columns hold numbers.

        Parameters
        ----------
        doubtful : {"refused", "text"}
            What becomes of a column in which at least half of the values are numbers and others
            are not: it may be a typing mistake or a code, and only the user knows.
        ignored : sequence of str
            Columns that are not looked at.
        """
        seen = {name: one for name, one in self.seen().items() if name not in ignored}
        known = set(self.names if doubtful == "text" else self.as_text)
        return {
            name: "text" if name in self.as_text else one.storage(name, known)
            for name, one in seen.items()
        }

    def seen(self, count: Callable[[int], None] | None = None) -> dict[str, SeenColumn]:
        """Read the file once and count, in every column, the values and those that are no number.

        What several files of the same columns hold is the sum of what each holds. `count` is called
        with the number of lines read since the last call.
        """
        seen = {name: SeenColumn() for name in self.names}
        with open_text(self.path, self.encoding) as text:
            for block, before in blocks_of(text, self.path, _SCAN_ROWS, self._skip_names(text)):
                wanted: dict[str, Storage] = {
                    name: "text" if one.odd else "number" for name, one in seen.items()
                }
                columns = None if self.decimal else self._blocks.read(block, wanted)
                if columns is not None:
                    for name, column in columns.items():
                        seen[name].count(column, self.missing)
                else:
                    rows = self._numbered(self._rows_from(block, text, before), before)
                    while some := list(islice(rows, _SCAN_ROWS)):
                        places = [line for line, _ in some]
                        for (name, one), tokens in zip(
                            seen.items(), zip(*(row for _, row in some), strict=True), strict=True
                        ):
                            one.look(self._plain(tokens, name), places, self.missing, self.path)
                if count is not None:
                    count(n_newlines(block))
        return seen

    def _plain(self, tokens: Sequence[str], name: str) -> Sequence[str]:
        """Return tokens with their numbers as `float` reads them; those of labels are whole."""
        if not self.decimal or name in self.whole:
            return tokens
        return [
            t if t.strip().lower() in self.missing else plain_number(t, self.decimal)
            for t in tokens
        ]

    @cached_property
    def _blocks(self) -> BlockReader:
        own_words = self.missing != MISSING_TEXTS
        return BlockReader(self.names, self.delimiter, self.missing, own_words)

    def _skip_names(self, text: TextIO) -> int:
        """Read the lines that name the columns; return how many these are."""
        header: CsvRows = csv.reader(lines_of(text, self.path), delimiter=self.delimiter)
        read_names(header, self.path)
        return header.line_num

    def _rows_from(self, block: str, text: TextIO, before: int) -> CsvRows:
        """Read the lines of a block; with a quote in it, all that follow it in the file too.

        A quoted value may run on beyond the block.
        """
        lines: Iterable[str] = StringIO(block)
        if '"' in block:
            lines = chain(lines, lines_of(text, self.path, before + n_newlines(block)))
        return csv.reader(lines, delimiter=self.delimiter)

    def chunks(self, storage: Mapping[str, Storage], n_rows: int) -> Iterator[Frame]:
        """Read the columns in `storage`, about n_rows at a time."""
        wanted = _Wanted.of(self.names, storage)
        with open_text(self.path, self.encoding) as text:
            for block, before in blocks_of(text, self.path, n_rows, self._skip_names(text)):
                # points are read alike with and without separators of thousands
                has_commas = self.decimal == ","
                frame = None if has_commas else self._by_columns(block, wanted)
                if frame is None and not has_commas:
                    frame = self._only_numbers(block, wanted)
                if frame is not None:
                    yield frame
                else:
                    yield from self._row_by_row(
                        self._rows_from(block, text, before), wanted, n_rows, before
                    )

    def _by_columns(self, block: str, wanted: _Wanted) -> Frame | None:
        """Read lines without quotes by pyarrow; None if they are better read otherwise."""
        numbers = wanted.number_names
        texts = tuple(name for _, name in wanted.textual)
        columns = self._blocks.read(
            block, {**dict.fromkeys(numbers, "number"), **dict.fromkeys(texts, "text")}
        )
        if columns is None:
            return None
        coded: list[Any] = [columns[name] for name in texts]
        n_rows = len(coded[0].codes if coded else columns[numbers[0]])
        table = np.array([columns[name] for name in numbers]).reshape(len(numbers), n_rows)
        cells = {
            name: self._texts(column.values)[column.codes]
            for name, column in zip(texts, coded, strict=True)
        }
        return Frame(table.T, numbers, cells)

    def _only_numbers(self, block: str, wanted: _Wanted) -> Frame | None:
        """Read lines of nothing but numbers three times as fast; None if anything else is there."""
        n_delimiters = len(self.names) - 1
        if wanted.textual or not wanted.numeric or self.missing != MISSING_TEXTS:
            return None
        lines = list(StringIO(block))
        if any(line.count(self.delimiter) != n_delimiters for line in lines):
            return None
        places = [j for j, _ in wanted.numeric]
        try:
            numbers = np.loadtxt(
                lines, delimiter=self.delimiter, comments=None, usecols=places, ndmin=2
            )
        except ValueError:
            return None
        if np.isinf(numbers).any() or not len(numbers):
            return None
        return Frame(numbers, wanted.number_names)

    def _row_by_row(
        self, reader: CsvRows, wanted: _Wanted, n_rows: int, before: int
    ) -> Iterator[Frame]:
        rows = self._numbered(reader, before)
        while block := list(islice(rows, n_rows)):
            places = [line for line, _ in block]
            columns = list(zip(*(row for _, row in block), strict=True))
            numbers = np.empty((len(block), len(wanted.numeric)))
            for k, (j, name) in enumerate(wanted.numeric):
                numbers[:, k] = self._numbers(self._plain(columns[j], name), name, places)
            texts = {name: self._texts(columns[j]) for j, name in wanted.textual}
            yield Frame(numbers, wanted.number_names, texts)

    def _numbered(self, reader: CsvRows, before: int) -> Iterator[tuple[int, list[str]]]:
        """Rows with the numbers of their lines."""
        for row in checked_rows(reader, len(self.names), self.path, before):
            yield before + reader.line_num, row

    def _numbers(self, tokens: Sequence[str], name: str, lines: Sequence[int]) -> Array:
        numbers = as_numbers(tokens, self.missing)
        if numbers is not None:
            return numbers
        for token, line in zip(tokens, lines, strict=True):
            if as_numbers([token], self.missing) is None:
                raise at(
                    self.path,
                    line,
                    f"the column {name!r} holds {shown(token)}, which is not a finite number, but "
                    "numbers are wanted there: correct it, or leave it empty.",
                )
        raise AssertionError("a column fails but none of its values does")

    def _texts(self, tokens: Sequence[str]) -> NDArray[np.object_]:
        texts = np.empty(len(tokens), dtype=object)
        for i, token in enumerate(tokens):
            stripped = token.strip()
            texts[i] = None if stripped.lower() in self.missing else stripped
        return texts


class _Wanted(NamedTuple):
    """Positions and names of the columns that are read as numbers, and as text."""

    numeric: list[tuple[int, str]]
    textual: list[tuple[int, str]]

    @classmethod
    def of(cls, names: Sequence[str], storage: Mapping[str, Storage]) -> _Wanted:
        places = [(j, name) for j, name in enumerate(names) if name in storage]
        return cls(
            [(j, name) for j, name in places if storage[name] == "number"],
            [(j, name) for j, name in places if storage[name] == "text"],
        )

    @property
    def number_names(self) -> tuple[str, ...]:
        return tuple(name for _, name in self.numeric)


@dataclass
class SeenColumn:
    """What a column was seen to hold; that of several files adds up."""

    n_values: int = 0
    n_odd: int = 0
    odd: tuple[str, Path, int] | None = None  # the first that is no number, its file and line

    def look(
        self, tokens: Sequence[str], lines: Sequence[int], missing: frozenset[str], path: Path
    ) -> None:
        """Look at the next rows, which stand in some lines of a file."""
        if self.odd is None and (numbers := as_numbers(tokens, missing)) is not None:
            self.n_values += int((~np.isnan(numbers)).sum())
            return
        for token, line in zip(tokens, lines, strict=True):
            if token.strip().lower() in missing:
                continue
            self.n_values += 1
            if as_numbers([token], missing) is None:
                self.n_odd += 1
                self.odd = self.odd or (token, path, line)

    def count(self, column: Array | Tokens, missing: frozenset[str]) -> None:
        """Look at the next rows: numbers, or texts of a column that is known to hold some."""
        if isinstance(column, np.ndarray):
            self.n_values += int((~np.isnan(column)).sum())
            return
        times = np.bincount(column.codes, minlength=len(column.values)).tolist()
        for token, n_times in zip(column.values, times, strict=True):
            if token.strip().lower() not in missing:
                self.n_values += n_times
                self.n_odd += n_times * (as_numbers([token], missing) is None)

    def __add__(self, other: SeenColumn) -> SeenColumn:
        return SeenColumn(
            self.n_values + other.n_values, self.n_odd + other.n_odd, self.odd or other.odd
        )

    def storage(self, name: str, known: Container[str]) -> Storage:
        """How a column of this name is best held.

        Where at least half of the values are numbers and others are not, it may be a typing
        mistake or a code, and only the user knows: refused unless the name is in `known`.
        """
        if self.odd and 2 * self.n_odd <= self.n_values and name not in known:
            text, path, line = self.odd
            raise at(
                path,
                line,
                f"the column {name!r} holds {shown(text)}, while {self.n_values - self.n_odd} of "
                f"its {self.n_values} values are finite numbers: correct it, leave it empty, "
                "name the column as a category (--category), or the text as missing (--missing).",
            )
        return "text" if self.odd else "number"


def as_numbers(tokens: Sequence[str], missing: frozenset[str]) -> Array | None:
    """Read numbers, NaN where missing; None when a value is not a finite number."""
    try:
        numbers = np.array(list(map(float, tokens)))
    except ValueError:
        try:
            numbers = np.array(
                [np.nan if t.strip().lower() in missing else float(t) for t in tokens]
            )
        except ValueError:
            return None
    if missing - MISSING_TEXTS:  # the user's own words for missing may be numbers, such as -999
        own = [t.strip().lower() in missing for t in tokens]
        numbers[own] = np.nan
    # float() reads inf as well, and 1_000
    if np.isinf(numbers).any() or "_" in "".join(tokens):
        return None
    return numbers


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
