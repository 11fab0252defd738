"""CSV files as a source of frames: the columns by name, rows a block of lines at a time.

A block is read by pyarrow with the types that are wanted. Where that fails, its cells are looked at
one by one, but all at once, by our own rules: words for missing values, decimal commas, thousands;
and what is wrong is said with its line. So it is too in tables of very many columns, in which each
column would cost pyarrow more than its cells.
"""

from __future__ import annotations

import csv
import re
import warnings
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from io import StringIO
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv

from colabel.core.arrays import Array, Flags, Indices
from colabel.datasets.dataset import DatasetError
from colabel.datasets.frame import Frame, Storage, TableError, text_array
from colabel.datasets.text import (
    at,
    blocks_of,
    first_repeat,
    lines_of,
    n_newlines,
    open_text,
    shown,
)

MISSING_TEXTS = frozenset({"", "?", "na", "nan", "null"})
_DELIMITERS = (",", ";", "\t", "|")
_SCAN_ROWS = 1 << 13
_DECIMAL_ROWS = 1000  # looked at for decimal commas
_WIDE = 1000  # columns, from which on cells are read without pyarrow's columns
_AT_ONCE = 1 << 21  # cells that are looked at

_BLANKS = " '’\u00a0\u202f"  # between thousands, whatever the decimal is
_EXPONENT = r"(?:[eE][+-]?[0-9]+)?"
_PLAIN = rf"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+){_EXPONENT}"


def _pattern(decimal: str, other: str) -> str:
    thousands = "|".join(rf"(?:[{re.escape(blank)}][0-9]{{3}})+" for blank in other + _BLANKS)
    whole = rf"(?:[1-9][0-9]{{0,2}}(?:{thousands})|[0-9]+)"
    point = re.escape(decimal)
    return rf"[+-]?(?:{whole}(?:{point}[0-9]*)?|{point}[0-9]+){_EXPONENT}"


_PATTERNS = {".": _pattern(".", ","), ",": _pattern(",", "."), "": _PLAIN}

Odd: TypeAlias = tuple[str, Path, int]
"""A text that is no number, its file and its line."""


@dataclass(frozen=True)
class Seen:
    """What the columns of a file were seen to hold; that of several files adds up.

    Attributes
    ----------
    names : tuple of p str
    n_values, n_odd : (p,)
        Values that are not missing, and those of them that are no number.
    odd : {name: (text, file, line)}
        The first of these.
    """

    names: tuple[str, ...]
    n_values: Indices
    n_odd: Indices
    odd: Mapping[str, Odd]

    def __add__(self, other: Seen) -> Seen:
        n_values, n_odd = self.n_values + other.n_values, self.n_odd + other.n_odd
        return Seen(self.names, n_values, n_odd, {**other.odd, **self.odd})

    def ordered(self, names: tuple[str, ...]) -> Seen:
        """Return it with the columns in another order."""
        if names == self.names:
            return self
        place = {name: j for j, name in enumerate(self.names)}
        order = [place[name] for name in names]
        return Seen(names, self.n_values[order], self.n_odd[order], self.odd)

    def storage(self, as_text: Container[str], settled: Container[str]) -> dict[str, Storage]:
        """How the columns are best held: those of `as_text` as texts.

        Where at least half of the values are numbers and others are not, it may be a typing
        mistake or a code, and only the user knows: refused unless the name is in `settled`.
        """
        doubtful = (self.n_odd > 0) & (2 * self.n_odd <= self.n_values)
        for j in np.flatnonzero(doubtful):
            name = self.names[j]
            if name not in settled:
                text, path, line = self.odd[name]
                raise at(
                    path,
                    line,
                    f"the column {name!r} holds {shown(text)}, while "
                    f"{self.n_values[j] - self.n_odd[j]} of its {self.n_values[j]} values are "
                    "finite numbers: correct it, leave it empty, name the column as a category "
                    "(--category), or the text as missing (--missing).",
                )
        pairs = zip(self.names, self.n_odd.tolist(), strict=True)
        return {name: "text" if n_odd or name in as_text else "number" for name, n_odd in pairs}


@dataclass(frozen=True)
class CsvSource:
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
        delimiter: str = "",
        encoding: str = "utf-8",
        missing: Sequence[str] = (),
        as_text: Sequence[str] = (),
        decimal: str = "",
    ) -> CsvSource:
        """Read the first line; find the delimiter if it is not given."""
        if delimiter and len(delimiter) != 1:
            raise TableError(f"The delimiter is {delimiter!r}: give a single character.")
        if decimal not in ("", ".", ","):
            raise TableError(f"The decimal is {decimal!r}: give a point or a comma.")
        with open_text(path, encoding) as text:
            first = next(lines_of(text, path), "")
        if "\0" in first:
            raise TableError(f"{path} is not a text file: its first line holds a zero byte.")
        delimiter = delimiter or max(_DELIMITERS, key=first.count)
        more = frozenset(text.strip().lower() for text in missing)
        source = cls(
            path, (), delimiter, encoding, MISSING_TEXTS | more, frozenset(as_text), decimal
        )
        with open_text(path, encoding) as text:
            names, _ = source._header(text)
        if not names:
            raise at(path, 1, "no columns are named: write their names into the first line.")
        twice = first_repeat(names)
        if twice is not None:
            raise at(path, 1, f"the column {twice!r} is named twice: rename one.")
        return replace(source, names=tuple(names))

    def _header(self, text: Any) -> tuple[list[str], int]:
        """Read the lines that name the columns; return the names and how many lines these are."""
        reader = csv.reader(lines_of(text, self.path), delimiter=self.delimiter)
        try:
            names = [name.strip() for name in next(reader)]
        except StopIteration:
            raise DatasetError(
                f"{self.path} is empty: give a table with a line of names and rows."
            ) from None
        except csv.Error as error:
            raise at(self.path, 1, f"{error}: correct the line.") from error
        return names, reader.line_num

    def first_lines(self) -> Iterator[tuple[str, int]]:
        """Give the first lines after the header as they stand, about a megabyte of cells."""
        return self._blocks(max(1, (1 << 17) // len(self.names)))

    def _blocks(self, n_rows: int) -> Iterator[tuple[str, int]]:
        with open_text(self.path, self.encoding) as text:
            _, n_lines = self._header(text)
            yield from blocks_of(text, self.path, n_rows, n_lines)

    def with_decimal(self, names: Iterable[str]) -> CsvSource:
        """Return the source with its decimal, found out if need be in some columns of numbers."""
        if self.decimal:
            return self
        asked = set(names) - self.as_text
        wanted = [name for name in self.names[:_WIDE] if name in asked]
        n_rows = min(_DECIMAL_ROWS, max(8, _AT_ONCE // len(self.names)))
        block, before = next(self._blocks(n_rows), ("", 0))
        has_commas = "," in block if self.delimiter != "," else '"' in block
        if not has_commas and not re.search(r"\.[0-9]{3}\.", block):
            return self
        cells = self._cells(block, before)[0].to_pylist()
        place = {name: j for j, name in enumerate(self.names)}
        known = {
            name: [
                t for t in cells[place[name] :: len(place)] if t.strip().lower() not in self.missing
            ]
            for name in wanted
        }
        found, column, example = found_decimal(known)
        if found:
            warnings.warn(
                f"{self.path}: {example} in the column {column!r} is read as "
                f"{plain_number(example, found)} (--decimal {found}).",
                stacklevel=2,
            )
        return replace(self, decimal=found)

    def storage(
        self, *, doubtful_is_text: bool = False, ignored: Container[str] = ()
    ) -> dict[str, Storage]:
        """Read the file once to see which columns hold numbers."""
        settled = self.names if doubtful_is_text else self.as_text
        found = self.seen().storage(self.as_text, frozenset(settled))
        return {name: how for name, how in found.items() if name not in ignored}

    def seen(self, count: Callable[[int], None] | None = None, n_blocks: int | None = None) -> Seen:
        """Read the file once and count, in every column, the values and those that are no number.

        `count` is called with the number of lines read since the last call; no more than `n_blocks`
        blocks are read.
        """
        width = len(self.names)
        total = Seen(self.names, np.zeros(width, np.intp), np.zeros(width, np.intp), {})
        n_rows = min(_SCAN_ROWS, max(8, _AT_ONCE // width))
        for block, before in islice(self._blocks(n_rows), n_blocks):
            wanted: dict[str, Storage] = {
                name: "text" if name in total.odd else "number" for name in self.names
            }
            columns = self._by_pyarrow(block, wanted)
            found = self._count(columns) if columns is not None else self._look(block, before)
            total = total + found
            if count is not None:
                count(n_newlines(block))
        return total

    def _count(self, columns: Mapping[str, Any]) -> Seen:
        """Count in columns of numbers, and in texts of columns that are known to hold some."""
        n_values, n_odd = np.zeros((2, len(self.names)), dtype=np.intp)
        for j, column in enumerate(columns.values()):
            if isinstance(column, np.ndarray):
                n_values[j] = len(column) - np.isnan(column).sum()
                continue
            _, odd = as_numbers(column.dictionary, self.missing, self.decimal)
            times = np.bincount(
                column.indices.drop_null().to_numpy(zero_copy_only=False), minlength=len(odd)
            )
            n_values[j], n_odd[j] = times.sum(), times[odd].sum()
        return Seen(self.names, n_values, n_odd, {})

    def _look(self, block: str, before: int) -> Seen:
        """Count in the cells of a block."""
        cells, lines = self._cells(block, before)
        shape = (len(lines), len(self.names))
        numbers, odd = as_numbers(cells, self.missing, self.decimal)
        odd = odd.reshape(shape)
        n_values = (~np.isnan(numbers)).reshape(shape).sum(axis=0) + odd.sum(axis=0)
        first = {}
        for j in np.flatnonzero(odd.any(axis=0)):
            i = int(odd[:, j].argmax())
            text = self._written(cells[i * shape[1] + int(j)].as_py())
            first[self.names[j]] = (text, self.path, int(lines[i]))
        return Seen(self.names, n_values, odd.sum(axis=0), first)

    def chunks(self, storage: Mapping[str, Storage], n_rows: int) -> Iterator[Frame]:
        """Read the columns in `storage`, about n_rows at a time."""
        wanted = {name: storage[name] for name in self.names if name in storage}
        numbers = [name for name, how in wanted.items() if how == "number"]
        texts = [name for name, how in wanted.items() if how == "text"]
        place = {name: j for j, name in enumerate(self.names)}
        places = [np.array([place[name] for name in of], dtype=np.int64) for of in (numbers, texts)]
        for block, before in self._blocks(n_rows):
            columns = self._by_pyarrow(block, wanted)
            if columns is None:
                matrix, found = self._by_cells(block, before, *places)
            else:
                n = len(next(iter(columns.values())))
                matrix = np.array([columns[name] for name in numbers]).reshape(len(numbers), n).T
                found = [columns[name] for name in texts]
            if len(matrix):
                yield Frame(matrix, tuple(numbers), dict(zip(texts, found, strict=True)))

    def _by_pyarrow(self, block: str, wanted: Mapping[str, Storage]) -> dict[str, Any] | None:
        """Read columns of a block; None if a cell is not as it is wanted, or might not be."""
        # pyarrow does not see " -999 " as "-999", and takes nan(1) for a number
        own_words = self.missing != MISSING_TEXTS and (" " in block or "\t" in block)
        if (
            not wanted
            or len(self.names) > _WIDE
            or not self.delimiter.isascii()
            or own_words
            or ("(" in block and "nan(" in block.lower())
        ):
            return None
        words = {s for w in self.missing for s in (w, w.upper(), w.capitalize())} | {"NaN"}
        types = {"number": pa.float64(), "text": pa.dictionary("int32", "string")}
        data = block.encode()
        # a megabyte at a time stays in the processor's cache; a line must fit
        block_size = max(1 << 20, 16 * block.find("\n"))
        has_quotes = '"' in block
        try:
            table = arrow_csv.read_csv(
                pa.py_buffer(data),
                arrow_csv.ReadOptions(
                    use_threads=False,
                    block_size=len(data) + 1 if has_quotes else block_size,
                    column_names=self.names,
                ),
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
        columns: dict[str, Any] = {}
        for name, how in wanted.items():
            column = table[name]
            if how == "text":
                whole = column.unify_dictionaries().combine_chunks()
                columns[name] = text_array(whole, self.missing, stripped=True)
                continue
            columns[name] = column.to_numpy(zero_copy_only=False)
            if not np.isfinite(columns[name].sum()) and np.isinf(columns[name]).any():
                return None
        return columns

    def _by_cells(
        self, block: str, before: int, numbers: Indices, texts: Indices
    ) -> tuple[Array, list[Any]]:
        """Read columns at some places of a block by its cells; say what is wrong with its line."""
        cells, lines = self._cells(block, before)
        n, width = len(lines), len(self.names)
        starts = np.arange(n, dtype=np.int64) * width
        own = cells
        if len(numbers) < width:
            own = cells.take(pa.array((starts[:, None] + numbers).ravel()))
        values, odd = as_numbers(own, self.missing, self.decimal)
        if odd.any():
            first = int(odd.argmax())
            i, k = divmod(first, len(numbers))
            raise at(
                self.path,
                int(lines[i]),
                f"the column {self.names[numbers[k]]!r} holds "
                f"{shown(self._written(own[first].as_py()))}, which is not a finite number, but "
                "numbers are wanted there: correct it, or leave it empty.",
            )
        columns = (cells.take(pa.array(starts + j)) for j in texts)
        found = [text_array(column, self.missing, stripped=True) for column in columns]
        return values.reshape(n, len(numbers)), found

    def _cells(self, block: str, before: int) -> tuple[Any, Indices]:
        """Return the cells of the rows of a block, one after the other, and the rows' lines."""
        width = len(self.names)
        if '"' in block or len(self.delimiter.encode()) > 1:
            texts, ends = list[str](), list[int]()
            # blocks are bounded, cells within them need not be
            csv.field_size_limit(max(csv.field_size_limit(), len(block)))
            reader = csv.reader(StringIO(block), delimiter=self.delimiter)
            try:
                for row in reader:
                    if row:
                        self._check_width(len(row), before + reader.line_num)
                        texts += row
                        ends.append(before + reader.line_num)
            except csv.Error as error:
                raise at(self.path, before + reader.line_num, f"{error}: correct it.") from error
            return pa.array(texts, "string"), np.array(ends, dtype=np.intp)
        rows = pa.array(block.split("\n"), "string")
        filled = np.flatnonzero(pc.binary_length(rows).to_numpy() > 0)
        split = pc.split_pattern(rows.take(pa.array(filled)), self.delimiter)
        lengths = pc.list_value_length(split).to_numpy()
        lines = before + 1 + filled
        for wrong in np.flatnonzero(lengths != width)[:1]:
            self._check_width(int(lengths[wrong]), int(lines[wrong]))
        return split.flatten(), lines

    def _check_width(self, n_cells: int, line: int) -> None:
        if n_cells != len(self.names):
            raise at(
                self.path,
                line,
                f"the row has {n_cells} values where the header names {len(self.names)} columns: "
                "correct it; if it is the last row the file may be cut short.",
            )

    def _written(self, text: str) -> str:
        """Write a text that is no number for a message: it may be one in the other style."""
        other = {",": ".", ".": ","}.get(self.decimal, "")
        if other and re.fullmatch(_PATTERNS[other], text.strip()):
            return f"{text.strip()} (with a decimal {'comma' if self.decimal == ',' else 'point'})"
        return text


def as_numbers(cells: Any, missing: Iterable[str], decimal: str = "") -> tuple[Array, Flags]:
    """Return cells (n,) as numbers, NaN where missing, and which of them are neither."""
    cells = pc.utf8_trim_whitespace(cells)
    gone = pc.is_in(pc.utf8_lower(cells), pa.array(sorted(missing), "string"))
    good = pc.and_not(pc.match_substring_regex(cells, rf"^(?:{_PATTERNS[decimal]})$"), gone)
    texts = pc.if_else(good, cells, None)
    if decimal:
        other = "." if decimal == "," else ","
        texts = pc.replace_substring_regex(texts, f"[{re.escape(other)}{_BLANKS}]", "")
        texts = pc.replace_substring(texts, decimal, ".")
    values = pc.replace_substring_regex(texts, r"^\+", "").cast("float64")
    numbers: Array = values.to_numpy(zero_copy_only=False)
    odd: Flags = ~pc.or_(good, gone).to_numpy(zero_copy_only=False) | np.isinf(numbers)
    return numbers, odd


def plain_number(text: str, decimal: str) -> str:
    """Return a number that is written with a decimal as `float` reads it.

    Examples
    --------
    >>> from colabel.datasets.csv_table import plain_number
    >>> plain_number("1.234,5", ","), plain_number("1,234.5", ".")
    ('1234.5', '1234.5')
    """
    other = "." if decimal == "," else ","
    return re.sub(f"[{re.escape(other)}{_BLANKS}]", "", text).replace(decimal, ".")


def found_decimal(columns: Mapping[str, Iterable[str]]) -> tuple[str, str, str]:
    """Find out from the known values of columns what stands before a fraction.

    Returns "," or "." (where the comma separates thousands) with the column and the value that
    tell it; "" for a point without separators of thousands. Only columns count all of whose values
    are numbers in one of the two styles. 1,5 and 1.234.567 tell a comma; 1.5 and 1,234,567 a
    point. Where 1,234 is all there is, nobody can tell, and the user is asked.
    """
    told: dict[str, tuple[str, str, str]] = {}
    styles = {decimal: re.compile(_PATTERNS[decimal]) for decimal in ".,"}
    for name, tokens in columns.items():
        texts = sorted({token.strip() for token in tokens})
        fits = [[d for d, style in styles.items() if style.fullmatch(text)] for text in texts]
        if not all(fits):
            continue
        for text, may_be in zip(texts, fits, strict=True):
            if may_be == [","]:
                told.setdefault("comma", (",", name, text))
            elif "," in text:
                told.setdefault("either" if "," in may_be else "grouped", (".", name, text))
            elif may_be == ["."]:
                told.setdefault("point", ("", name, text))
    nothing = ("", "", "")
    if "comma" in told:
        return nothing if "grouped" in told or "point" in told else told["comma"]
    if "grouped" in told:
        return told["grouped"]
    if "either" not in told:
        return nothing
    if "point" in told:
        return told["either"]
    _, column, example = told["either"]
    raise TableError(
        f"The column {column!r} holds {example}, which may be {example.replace(',', '.')} or "
        f"{example.replace(',', '')}: say what stands before a fraction (--decimal , or "
        "--decimal .), or name the column as a category (--category)."
    )
