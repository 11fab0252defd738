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
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv

from colabel.core.arrays import Array, Flags, Indices
from colabel.tables.frame import LARGEST, Frame, Storage, text_array
from colabel.tables.source import (
    PLAIN,
    Count,
    ReadingOptions,
    Seen,
    Source,
    TableError,
    added,
    at,
    first_repeat,
    ignore,
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

    def scanned(self, seen: dict[str, Seen]) -> Iterator[Frame]:
        """Read the file a block at a time, each column as numbers until it holds something else.

        What the columns hold is added up in `seen`, but for those that are texts in any case.
        """
        seen.update(dict.fromkeys(self.names, Seen(0, 0)))
        for block, before in self.blocks(min(_SCAN_ROWS, max(8, _AT_ONCE // len(self.names)))):
            wanted: dict[str, Storage] = {
                name: "text" if own.odd or name in self.as_text else "number"
                for name, own in seen.items()
            }
            frame, odd = self._read(block, before, wanted)
            known = len(frame) - np.isnan(np.asarray(frame.numbers)).sum(axis=0)
            own = {n: Seen(k, 0) for n, k in zip(frame.number_names, known.tolist(), strict=True)}
            for name in frame.texts.keys() - self.as_text:
                is_odd = as_numbers(frame.texts[name].dictionary, self.missing, self.decimal)[1]
                codes = frame.coded(name)[1]
                times = np.bincount(codes[codes >= 0], minlength=len(is_odd))
                own[name] = Seen(int(times.sum()), int(times[is_odd].sum()), odd.get(name))
            seen.update(added(seen, own))
            yield frame

    def seen(self, count: Count = ignore) -> dict[str, Seen]:
        """Read the file, and count values and those that are no number."""
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
                raise at(
                    path,
                    line,
                    f"the column {name!r} holds {shown(text)}, which is not a finite number, but "
                    "numbers are wanted there: correct it, or leave it empty.",
                )
            if len(frame):
                yield frame

    def _read(
        self, block: bytes, before: int, wanted: Mapping[str, Storage]
    ) -> tuple[Frame, dict[str, tuple[str, Path, int]]]:
        """Read columns of a block.

        Those that are wanted as numbers and hold something else are texts: their first such cell
        comes with its file and line.
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
