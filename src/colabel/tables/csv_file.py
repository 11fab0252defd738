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
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from io import StringIO
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv

from colabel.core.arrays import Array, Flags, Indices
from colabel.tables.frame import LARGEST, Frame, Storage, text_array
from colabel.tables.source import Count, Seen, Source, added, ignore
from colabel.tables.text import (
    PLAIN,
    ReadingOptions,
    TableError,
    at,
    first_repeat,
    not_decoded,
    open_blocks,
    shown,
)

MISSING_TEXTS = frozenset({"", "?", "na", "nan", "null"})
_SCAN_ROWS = 1 << 13
_DECIMAL_ROWS = 1000  # looked at for decimal commas
_WIDE = 1000  # columns, from which on cells are read without pyarrow's columns
_AT_ONCE = 1 << 21  # cells that are looked at

_BLANKS = " '’\u00a0\u202f"  # between thousands, whatever the decimal is
_EXPONENT = r"(?:[eE][+-]?[0-9]+)?"


def _pattern(decimal: str, other: str) -> str:
    thousands = "|".join(rf"(?:[{re.escape(blank)}][0-9]{{3}})+" for blank in other + _BLANKS)
    whole = rf"(?:[1-9][0-9]{{0,2}}(?:{thousands})|[0-9]+)"
    point = re.escape(decimal)
    return rf"[+-]?(?:{whole}(?:{point}[0-9]*)?|{point}[0-9]+){_EXPONENT}"


_PATTERNS = {
    ".": _pattern(".", ","),
    ",": _pattern(",", "."),
    "": rf"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+){_EXPONENT}",
}


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
        """Read the first line; find the delimiter if it is not given."""
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
        if not names:
            raise at(path, 1, "no columns are named: write their names into the first line.")
        twice = first_repeat(names)
        if twice is not None:
            raise at(path, 1, f"the column {twice!r} is named twice: rename one.")
        if "" in names:
            place = names.index("") + 1
            raise at(path, 1, f"column {place} of {len(names)} has no name: name it.")
        return replace(source, names=tuple(names))

    def blocks(self, n_rows: int) -> Iterator[tuple[bytes, int]]:
        """Give the lines after the header, about n_rows at a time, and how many came before."""
        with open_blocks(self.path, self.encoding, b'"') as take:
            take()
            block, before = take(n_rows)
            n_bytes = len(block)
            while block:
                yield block, before
                block, before = take(0, n_bytes)

    def with_decimal(self, names: Iterable[str]) -> CsvSource:
        """Return the source with its decimal, found out if need be in some columns of numbers."""
        if self.decimal:
            return self
        asked = set(names) - self.as_text
        n_rows = min(_DECIMAL_ROWS, max(8, _AT_ONCE // len(self.names)))
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
        found, column, example = found_decimal(known)
        if found:
            warnings.warn(
                f"{self.path}: {example} in the column {column!r} is read as "
                f"{plain_number(example, found)} (--decimal {found}).",
                stacklevel=2,
            )
        return replace(self, decimal=found)

    def seen(self, count: Count = ignore, n_blocks: int | None = None) -> dict[str, Seen]:
        """Read the file, or its first blocks, and count values and those that are no number."""
        total = dict.fromkeys(self.names, Seen(0, 0))
        n_rows = min(_SCAN_ROWS, max(8, _AT_ONCE // len(self.names)))
        for block, before in islice(self.blocks(n_rows), n_blocks):
            wanted: dict[str, Storage] = {
                name: "text" if own.odd else "number" for name, own in total.items()
            }
            frame = self._by_pyarrow(block, wanted)
            found = self._look(block, before) if frame is None else self.counted(frame)
            total = added(total, found)
            count(block.count(b"\n"))
        return total

    def counted(self, frame: Frame) -> dict[str, Seen]:
        """Count the values of columns, and those in columns of texts that are no number."""
        known = len(frame) - np.isnan(np.asarray(frame.numbers)).sum(axis=0)
        found = {n: Seen(k, 0) for n, k in zip(frame.number_names, known.tolist(), strict=True)}
        for name in frame.texts:
            odd = as_numbers(frame.texts[name].dictionary, self.missing, self.decimal)[1]
            codes = frame.coded(name)[1]
            times = np.bincount(codes[codes >= 0], minlength=len(odd))
            found[name] = Seen(int(times.sum()), int(times[odd].sum()))
        return found

    def _look(self, block: bytes, before: int) -> dict[str, Seen]:
        """Count in the cells of a block."""
        cells, lines = self._cells(block, before)
        width = len(self.names)
        numbers, flags = as_numbers(cells, self.missing, self.decimal)
        odd = flags.reshape(-1, width)
        n_odd = odd.sum(axis=0)
        n_values = (~np.isnan(numbers)).reshape(odd.shape).sum(axis=0) + n_odd
        pairs = zip(self.names, n_values.tolist(), n_odd.tolist(), strict=True)
        found = {name: Seen(n, no) for name, n, no in pairs}
        for j in np.flatnonzero(n_odd):
            i = int(odd[:, j].argmax())
            text = self._written(cells[i * width + int(j)].as_py())
            place = (text, self.path, int(lines[i]))
            found[self.names[j]] = found[self.names[j]]._replace(odd=place)
        return found

    def chunks(self, storage: Mapping[str, Storage], n_rows: int) -> Iterator[Frame]:
        """Read the columns in `storage`, about n_rows at a time."""
        have = [name for name in self.names if name in storage]
        wanted = {name: storage[name] for name in have}
        for block, before in self.blocks(n_rows):
            frame = self._by_pyarrow(block, wanted)
            if frame is None:
                frame = self._by_cells(block, before, wanted)
            if len(frame):
                yield frame

    def _by_pyarrow(self, block: bytes, wanted: Mapping[str, Storage]) -> Frame | None:
        """Read columns of a block; None if a cell is not as it is wanted, or might not be."""
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
        # a megabyte at a time stays in the processor's cache; a line must fit
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
        return None if frame.exceeds(LARGEST) else frame

    def _by_cells(self, block: bytes, before: int, wanted: Mapping[str, Storage]) -> Frame:
        """Read columns of a block by its cells; say what is wrong with its line."""
        cells, lines = self._cells(block, before)
        n, width = len(lines), len(self.names)
        place = {name: j for j, name in enumerate(self.names)}
        names = tuple(name for name, how in wanted.items() if how == "number")
        numbers = np.array([place[name] for name in names], dtype=np.int64)
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
                f"the column {names[k]!r} holds {shown(self._written(own[first].as_py()))}, which "
                "is not a finite number, but numbers are wanted there: correct it, or leave it "
                "empty.",
            )
        texts = {
            name: text_array(cells.take(pa.array(starts + place[name])), self.missing)
            for name, how in wanted.items()
            if how == "text"
        }
        return Frame(values.reshape(n, len(numbers)), names, texts)

    def _cells(self, raw: bytes, before: int) -> tuple[Any, Indices]:
        """Return the cells of the rows of a block, one after the other, and the rows' lines."""
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
                raise at(self.path, before + reader.line_num, f"{error}: correct it.") from error
            cells, n_cells, lines = pa.array(texts, "string"), np.array(lengths), np.array(ends)
        else:
            rows = pa.array(block.split("\n"), "string")
            filled = np.flatnonzero(pc.binary_length(rows).to_numpy() > 0)
            split = pc.split_pattern(rows.take(pa.array(filled)), self.delimiter)
            cells, n_cells = split.flatten(), pc.list_value_length(split).to_numpy()
            lines = before + 1 + filled
        wrong = int((n_cells != len(self.names)).argmax()) if len(n_cells) else 0
        if self.names and len(n_cells) and n_cells[wrong] != len(self.names):
            raise at(
                self.path,
                int(lines[wrong]),
                f"the row has {n_cells[wrong]} values where the header names {len(self.names)} "
                "columns: correct it; if it is the last row the file may be cut short.",
            )
        return cells, lines

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
    >>> from colabel.tables.csv_file import plain_number
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
