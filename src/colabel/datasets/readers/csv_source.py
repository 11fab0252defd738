"""CSV files as a source of frames: the columns by name, rows a chunk at a time."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from colabel.datasets.dataset import DatasetError
from colabel.datasets.frame import Frame, Storage, TableError
from colabel.datasets.readers.table import first_repeat
from colabel.datasets.readers.text import FilePath, at, lines_of, open_text, shown

if TYPE_CHECKING:
    from _csv import Reader as CsvRows

    from numpy.typing import NDArray

MISSING_TEXTS = frozenset({"", "?", "na", "nan", "null"})
_DELIMITERS = (",", ";", "\t", "|")
_SCAN_ROWS = 1 << 13


@dataclass(frozen=True)
class CsvSource:
    """A CSV file whose first line names the columns."""

    path: Path
    names: tuple[str, ...]
    delimiter: str
    encoding: str
    missing: frozenset[str]
    as_text: frozenset[str]

    @classmethod
    def open(
        cls,
        path: Path,
        delimiter: str = "",
        encoding: str = "utf-8",
        missing: Sequence[str] = (),
        as_text: Sequence[str] = (),
    ) -> CsvSource:
        """Read the first line; find the delimiter if it is not given."""
        if delimiter and len(delimiter) != 1:
            raise TableError(f"The delimiter is {delimiter!r}: give a single character.")
        with open_text(path, encoding) as text:
            first = next(lines_of(text, path), "")
        delimiter = delimiter or max(_DELIMITERS, key=first.count)
        with open_text(path, encoding) as text:
            names = tuple(read_names(csv.reader(lines_of(text, path), delimiter=delimiter), path))
        if "\0" in first:
            raise TableError(f"{path} is not a text file: its first line holds a zero byte.")
        more = frozenset(text.strip().lower() for text in missing)
        return cls(path, names, delimiter, encoding, MISSING_TEXTS | more, frozenset(as_text))

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
        seen = [_Seen() for _ in self.names]
        with self._rows() as rows:
            while block := list(islice(rows, _SCAN_ROWS)):
                lines = [line for line, _ in block]
                columns = zip(*(row for _, row in block), strict=True)
                for one, tokens in zip(seen, columns, strict=True):
                    one.look(tokens, lines, self.missing)
        for name, one in zip(self.names, seen, strict=True):
            known = doubtful == "text" or name in self.as_text or name in ignored
            if one.odd and 2 * one.n_odd <= one.n_values and not known:
                text, line = one.odd
                raise at(
                    self.path,
                    line,
                    f"the column {name!r} holds {shown(text)}, while {one.n_values - one.n_odd} of "
                    f"its {one.n_values} values are finite numbers: correct it, leave it empty, "
                    "name the column as a category (--category), or the text as missing "
                    "(--missing).",
                )
        return {
            name: "text" if one.odd or name in self.as_text else "number"
            for name, one in zip(self.names, seen, strict=True)
            if name not in ignored
        }

    def chunks(self, storage: Mapping[str, Storage], n_rows: int) -> Iterator[Frame]:
        """Read the columns in `storage`, n_rows at a time."""
        wanted = _Wanted.of(self.names, storage)
        with open_text(self.path, self.encoding) as text:
            lines = lines_of(text, self.path)
            header: CsvRows = csv.reader(lines, delimiter=self.delimiter)
            read_names(header, self.path)
            before = header.line_num
            while block := list(islice(lines, n_rows)):
                frame = self._only_numbers(block, wanted)
                if frame is not None:
                    yield frame
                elif any('"' in line for line in block):
                    # a quoted value may run on beyond the block: from here on, row by row
                    yield from self._row_by_row(chain(block, lines), wanted, n_rows, before)
                else:
                    yield from self._row_by_row(block, wanted, n_rows, before)
                before += len(block)

    def _only_numbers(self, block: list[str], wanted: _Wanted) -> Frame | None:
        """Read lines of nothing but numbers three times as fast; None if anything else is there."""
        n_delimiters = len(self.names) - 1
        if (
            wanted.textual
            or not wanted.numeric
            or self.missing != MISSING_TEXTS
            or any(line.count(self.delimiter) != n_delimiters for line in block)
        ):
            return None
        places = [j for j, _ in wanted.numeric]
        try:
            numbers = np.loadtxt(
                block, delimiter=self.delimiter, comments=None, usecols=places, ndmin=2
            )
        except ValueError:
            return None
        if np.isinf(numbers).any() or not len(numbers):
            return None
        return Frame(numbers, wanted.number_names)

    def _row_by_row(
        self, lines: Iterable[str], wanted: _Wanted, n_rows: int, before: int
    ) -> Iterator[Frame]:
        rows = self._numbered(csv.reader(lines, delimiter=self.delimiter), before)
        while block := list(islice(rows, n_rows)):
            places = [line for line, _ in block]
            columns = list(zip(*(row for _, row in block), strict=True))
            numbers = np.empty((len(block), len(wanted.numeric)))
            for k, (j, name) in enumerate(wanted.numeric):
                numbers[:, k] = self._numbers(columns[j], name, places)
            texts = {name: self._texts(columns[j]) for j, name in wanted.textual}
            yield Frame(numbers, wanted.number_names, texts)

    @contextmanager
    def _rows(self) -> Iterator[Iterator[tuple[int, list[str]]]]:
        with open_text(self.path, self.encoding) as text:
            reader: CsvRows = csv.reader(lines_of(text, self.path), delimiter=self.delimiter)
            read_names(reader, self.path)
            yield self._numbered(reader, 0)

    def _numbered(self, reader: CsvRows, before: int) -> Iterator[tuple[int, list[str]]]:
        """Rows with the numbers of their lines."""
        for row in checked_rows(reader, len(self.names), self.path, before):
            yield before + reader.line_num, row

    def _numbers(
        self, tokens: Sequence[str], name: str, lines: Sequence[int]
    ) -> NDArray[np.float64]:
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
class _Seen:
    """What a column was seen to hold."""

    n_values: int = 0
    n_odd: int = 0
    odd: tuple[str, int] | None = field(default=None)  # the first that is no number, its line

    def look(self, tokens: Sequence[str], lines: Sequence[int], missing: frozenset[str]) -> None:
        if self.odd is None and (numbers := as_numbers(tokens, missing)) is not None:
            self.n_values += int((~np.isnan(numbers)).sum())
            return
        for token, line in zip(tokens, lines, strict=True):
            if token.strip().lower() in missing:
                continue
            self.n_values += 1
            if as_numbers([token], missing) is None:
                self.n_odd += 1
                self.odd = self.odd or (token, line)


def as_numbers(tokens: Sequence[str], missing: frozenset[str]) -> NDArray[np.float64] | None:
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
