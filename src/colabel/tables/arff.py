"""ARFF files, dense or sparse, as a source of frames.

The cells of a few thousand rows are collected and turned into numbers and codes all at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy import sparse

from colabel.core.arrays import Array, Indices, dense
from colabel.tables.csv_file import as_numbers
from colabel.tables.frame import Frame, Storage, text_array
from colabel.tables.source import (
    PLAIN,
    Count,
    ReadingOptions,
    Seen,
    Source,
    TableError,
    Take,
    at,
    ignore,
    listed,
    open_blocks,
    shown,
)

_CHARACTERS = 1 << 22  # of rows that are held at once
_QUOTED = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
_NAME = re.compile(rf"\s*({_QUOTED}|[^\s{{]+|\S+)\s*(.*)", re.DOTALL)
# Both alternatives run to a comma or the end, so no input makes this backtrack for long.
_VALUE = re.compile(rf"\s*(?:({_QUOTED})\s*|([^,]*))(,|\Z)", re.DOTALL)
_PAIR = re.compile(rf"\s*([^\s,]+)\s+(?:({_QUOTED})|([^\s,'\"]+))\s*(?:,|\Z)", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_CONTROLS = {"n": "\n", "r": "\r", "t": "\t"}
_LABEL_COUNT = re.compile(r"(?:^|[\s:])-[Cc]\s+(-?\d{1,9})(?!\S)")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_WORDS = {"no": 0.0, "yes": 1.0, "false": 0.0, "true": 1.0}

Line = tuple[int, str]
"""The number of a line, and what stands there."""


@dataclass(frozen=True)
class Attribute:
    """A column: its name, its kind, and (nominal) its values in the order of their codes."""

    name: str
    kind: Literal["numeric", "nominal", "string", "date"]
    values: tuple[str, ...] = ()

    @property
    def numbers(self) -> Array | None:
        """The numbers that two values stand for, such as {0,1} and {NO,YES}; None if for none."""
        if not 0 < len(self.values) <= 2:
            return None
        if all(map(_NUMBER.fullmatch, self.values)):
            return np.array(self.values, dtype=np.float64)
        words = [_WORDS.get(value.lower()) for value in self.values]
        return None if None in words else np.array(words, dtype=np.float64)

    @property
    def is_number(self) -> bool:
        """Whether it fills one column of numbers: numeric, two numbers, or two words."""
        return self.kind == "numeric" or self.numbers is not None


@dataclass(frozen=True)
class ArffSource(Source):
    """An ARFF file, its rows dense or sparse."""

    path: Path
    as_text: frozenset[str]
    relation: str
    attributes: tuple[Attribute, ...]
    encoding: str

    @classmethod
    def open(cls, path: Path, options: ReadingOptions = PLAIN) -> ArffSource:
        """Read the header."""
        with open_blocks(path, options.encoding) as take:
            relation, attributes = _read_header(take, path)
        return cls(path, frozenset(options.as_text), relation, attributes, options.encoding)

    @property
    def names(self) -> tuple[str, ...]:  # type: ignore[override]
        """Names of the columns."""
        return tuple(attribute.name for attribute in self.attributes)

    @property
    def labels(self) -> Sequence[str]:  # type: ignore[override]
        """Names of the labels that the relation counts as MEKA does, by -C n; none if not."""
        found = _LABEL_COUNT.search(self.relation)
        n_labels = int(found[1]) if found else 0
        if not 1 <= abs(n_labels) < len(self.attributes):
            return ()
        return self.names[:n_labels] if n_labels > 0 else self.names[n_labels:]

    def seen(self, count: Count = ignore) -> dict[str, Seen]:
        """Return what the header declares: two numbers or yes and no are a number."""
        return {a.name: Seen(1, not a.is_number) for a in self.attributes}

    def chunks(self, storage: Mapping[str, Storage], n_rows: int) -> Iterator[Frame]:
        """Read the columns in `storage`, n_rows at a time."""
        # attributes of the same values are looked up together; -1 is not looked at
        group = np.full(len(self.attributes), -1)
        groups: dict[tuple[str, tuple[str, ...], bool], int] = {}
        first = np.zeros(len(self.attributes))  # what is not stored in a sparse row
        for j, attribute in enumerate(self.attributes):
            how = storage.get(attribute.name)
            if how == "number" and not attribute.is_number:
                raise TableError(
                    f"{self.path}: the column {attribute.name!r} is declared {attribute.kind}, "
                    "but numbers are wanted there: declare it numeric."
                )
            if how is not None:
                key = (attribute.kind, attribute.values, how == "number")
                group[j] = groups.setdefault(key, len(groups))
                numbers = attribute.numbers if how == "number" else None
                first[j] = 0.0 if numbers is None else numbers[0]
        is_sparse: bool | None = None
        with open_blocks(self.path, self.encoding) as take:
            _read_header(take, self.path)
            while (taken := take(n_rows, _CHARACTERS))[0]:
                rows = _lines(*taken)
                for number, line in rows:
                    is_sparse = line[0] == "{" if is_sparse is None else is_sparse
                    if (line[0] == "{") != is_sparse:
                        raise at(
                            self.path,
                            number,
                            "a row in braces { } stands among rows without: write all rows in one "
                            "of the two ways.",
                        )
                if not rows:
                    continue
                cells = self._pairs(rows) if is_sparse else self._dense(rows)
                values, texts = self._convert(cells, rows, group, list(groups))
                shape = (len(rows), len(group))
                if not is_sparse:
                    yield self._frame(values.reshape(shape), texts, storage)
                    continue
                place, column = cells[2], cells[1]
                full = np.flatnonzero(first)
                if len(full):
                    stored = np.zeros(shape, dtype=bool)
                    stored[place, column] = True
                    i, k = np.nonzero(~stored[:, full])
                    place, column = np.append(place, i), np.append(column, full[k])
                    values = np.append(values, first[full[k]])
                pair = place.astype(np.int32), column.astype(np.int32)
                entries = sparse.coo_array((values, pair), shape=shape)
                yield self._frame(entries.tocsr(), texts, storage)

    def _dense(self, rows: Sequence[Line]) -> tuple[Any, Indices, Indices]:
        """Cut rows with one value a column: texts, null where missing, columns and rows."""
        width = len(self.attributes)
        if any("'" in line or '"' in line for _, line in rows):
            found = [split_values(line) for _, line in rows]
            for (number, _), own in zip(rows, found, strict=True):
                if own is None:
                    raise at(self.path, number, "a quote is not closed: close it.")
            lengths = np.array([len(own or ()) for own in found])
            texts = pa.array([text for own in found for text in own or ()], "string")
        else:
            split = pc.split_pattern(pa.array([line for _, line in rows], "string"), ",")
            lengths = pc.list_value_length(split).to_numpy()
            texts = _known(pc.utf8_trim_whitespace(split.flatten()))
        for wrong in np.flatnonzero(lengths != width)[:1]:
            raise at(
                self.path,
                rows[wrong][0],
                f"the row has {lengths[wrong]} values where {width} attributes are declared: "
                "correct the row; if it is the last one the file may be cut short.",
            )
        return texts, np.tile(np.arange(width), len(rows)), np.repeat(np.arange(len(rows)), width)

    def _pairs(self, rows: Sequence[Line]) -> tuple[Any, Indices, Indices]:
        """Cut rows that name only their non-zero values: {index value, index value, ...}."""
        for number, line in rows:
            if line[-1] != "}":
                raise at(
                    self.path,
                    number,
                    "the row opens with { but does not end with }: close it; if it is the last row "
                    "the file may be cut short.",
                )
        bodies = [line[1:-1].strip() for _, line in rows]
        if any("'" in body or '"' in body for body in bodies):
            pairs = [_quoted_pairs(body) for body in bodies]
            lengths = np.array([len(own) for own in pairs])
            parts = np.array([len(pair) for own in pairs for pair in own], dtype=np.intp)
            flat = pa.array([part for own in pairs for pair in own for part in pair], "string")
        else:
            filled = np.array([bool(body) for body in bodies])
            split = pc.split_pattern(pa.array([body for body in bodies if body], "string"), ",")
            lengths = np.zeros(len(bodies), dtype=np.intp)
            lengths[filled] = pc.list_value_length(split).to_numpy()
            words = pc.utf8_split_whitespace(pc.utf8_trim_whitespace(split.flatten()))
            parts = pc.list_value_length(words).to_numpy(zero_copy_only=False)
            flat = _known(words.flatten())
        place = np.repeat(np.arange(len(rows)), lengths)
        for wrong in np.flatnonzero(parts != 2)[:1]:
            raise at(
                self.path,
                rows[place[wrong]][0],
                f"the row {shown('{' + bodies[place[wrong]] + '}')} is not a list of 'index value' "
                "pairs separated by commas: correct it.",
            )
        width = len(self.attributes)
        names = flat.take(pa.array(np.arange(0, len(flat), 2)))
        good = pc.match_substring_regex(pc.fill_null(names, "?"), r"^[0-9]{1,9}$")
        columns = pc.if_else(good, names, "-1").cast("int64").to_numpy(zero_copy_only=False)
        for wrong in np.flatnonzero((columns < 0) | (columns >= width))[:1]:
            raise at(
                self.path,
                rows[place[wrong]][0],
                f"{shown(str(names[wrong].as_py()))} is not the position of an attribute: "
                f"positions go from 0 to {width - 1}. Correct the row.",
            )
        keys = np.sort(place * width + columns)
        for twice in np.flatnonzero(keys[1:] == keys[:-1])[:1]:
            row, column = divmod(int(keys[twice]), width)
            raise at(
                self.path,
                rows[row][0],
                f"the row gives attribute {column} twice: keep one of the two values.",
            )
        return flat.take(pa.array(np.arange(1, len(flat), 2))), columns, place

    def _convert(
        self, cells: Any, rows: Sequence[Line], group: Indices, groups: Sequence[Any]
    ) -> tuple[Array, list[str | None]]:
        """Return cells as numbers and codes, and texts; or say what is wrong with one.

        The first of the texts stands for what sparse rows do not store.
        """
        tokens, columns, place = cells
        out = np.zeros(len(columns))
        texts: list[str | None] = [None]
        of_cell = group[columns]
        for k, (kind, domain, is_number) in enumerate(groups):
            chosen = np.flatnonzero(of_cell == k)
            own = tokens if len(chosen) == len(out) else tokens.take(pa.array(chosen))
            if kind in ("string", "date"):
                out[chosen] = np.arange(len(texts), len(texts) + len(chosen))
                texts += own.to_pylist()
                continue
            if kind == "numeric":
                values, odd = as_numbers(pc.fill_null(own, "nan"), ["nan"])
            else:
                codes = pc.index_in(own, pa.array(domain, "string"), skip_nulls=True)
                values = codes.cast("float64").to_numpy(zero_copy_only=False)
                odd = np.isnan(values) & ~pc.is_null(own).to_numpy(zero_copy_only=False)
                numbers = Attribute("", "nominal", domain).numbers if is_number else None
                if numbers is not None:
                    lookup = np.append(numbers, np.nan)
                    values = lookup[np.where(np.isnan(values), -1, values).astype(np.intp)]
            if odd.any():
                wrong = int(odd.argmax())
                name = self.attributes[columns[chosen[wrong]]].name
                problem = (
                    f"is not a finite number, but the column {name!r} is numeric: correct the "
                    "value, or write ? for a missing one."
                    if kind == "numeric"
                    else f"is not a value of {name!r} (it lists {listed(domain)}): correct the row "
                    "or the list."
                )
                line = rows[place[chosen[wrong]]][0]
                raise at(self.path, line, f"{shown(str(own[wrong].as_py()))} {problem}")
            out[chosen] = values
        return out, texts

    def _frame(self, values: Any, texts: list[str | None], storage: Mapping[str, Storage]) -> Frame:
        held = [storage.get(attribute.name) for attribute in self.attributes]
        columns: dict[str, Any] = {}
        for j in (j for j, how in enumerate(held) if how == "text"):
            attribute, block = self.attributes[j], values[:, [j]]
            full = dense(block)[:, 0]
            missing = np.isnan(full)
            codes = pa.array(np.where(missing, 0, full).astype(np.int32), mask=missing)
            if attribute.kind == "nominal":
                found = pa.DictionaryArray.from_arrays(codes, pa.array(attribute.values, "string"))
            elif attribute.kind == "numeric":
                found = text_array(pa.array(full, from_pandas=True))
            else:
                found = pa.array(texts, "string").take(codes).dictionary_encode()
            columns[attribute.name] = found
        numeric = [j for j, how in enumerate(held) if how == "number"]
        names = tuple(self.attributes[j].name for j in numeric)
        return Frame(values[:, numeric], names, columns)


def _lines(block: bytes, before: int) -> list[Line]:
    """Return the lines of a block that are neither empty nor comments."""
    lines = enumerate(map(str.strip, block.decode().split("\n")), start=before + 1)
    return [(number, line) for number, line in lines if line and line[0] != "%"]


def _known(tokens: Any) -> Any:
    """Return texts with null for those that mean missing."""
    return pc.if_else(pc.equal(tokens, "?"), None, tokens)


def _quoted_pairs(body: str) -> list[list[str | None]]:
    """Split a row in which values are quoted, and so may hold commas and spaces.

    A pair that cannot be read comes back with one part instead of two.
    """
    pairs: list[list[str | None]] = []
    position = 0
    while position < len(body):
        match = _PAIR.match(body, position)
        if match is None:
            return [*pairs, [body[position:]]]
        value = unquote(match[2]) if match[2] else None if match[3] == "?" else match[3]
        pairs.append([match[1], value])
        position = match.end()
    return pairs


def unquote(token: str) -> str:
    """Remove quotes and resolve escapes; a token without quotes is returned as it is."""
    if len(token) < 2 or token[0] not in "'\"" or token[-1] != token[0]:
        return token

    def resolve(match: re.Match[str]) -> str:
        escaped = match[1]
        return chr(int(escaped[1:], 16)) if len(escaped) == 5 else _CONTROLS.get(escaped, escaped)

    return _ESCAPE.sub(resolve, token[1:-1])


def split_values(text: str) -> list[str | None] | None:
    """Split comma-separated values that may be quoted; None when a quote is left open.

    A question mark without quotes comes back as None: missing.
    """
    values: list[str | None] = []
    position = 0
    while match := _VALUE.match(text, position):
        if match[1] is not None:
            values.append(unquote(match[1]))
        elif match[2][:1] in ("'", '"'):
            return None  # a quote that is not closed before the next comma
        else:
            values.append(None if match[2].strip() == "?" else match[2].strip())
        if not match[3]:
            return values
        position = match.end()
    return None


def _read_header(take: Take, path: Path) -> tuple[str, tuple[Attribute, ...]]:
    """Read up to and including @data: relation and attributes."""
    relation, number = "", 0
    attributes: dict[str, Attribute] = {}
    while (taken := take())[0]:
        number = taken[1] + 1
        for _, line in _lines(*taken):
            keyword, rest = [*line.split(None, 1), ""][:2]
            if keyword.lower() == "@relation":
                relation = unquote(rest.strip())
            elif keyword.lower() == "@attribute":
                attribute = _attribute(rest, path, number)
                if attribute.name in attributes:
                    problem = f"the attribute {attribute.name!r} is declared twice: rename one."
                    raise at(path, number, problem)
                attributes[attribute.name] = attribute
            elif keyword.lower() != "@data":
                raise at(
                    path,
                    number,
                    f"expected @relation, @attribute or @data but found {shown(line)}: is this an "
                    "ARFF file?",
                )
            elif not attributes:
                raise at(path, number, "@data comes before any @attribute: declare the columns.")
            else:
                return relation, tuple(attributes.values())
    if number == 0:
        raise TableError(f"{path} is empty: give a table with @attribute lines and rows.")
    raise at(path, number, "the file ends without a @data line: it is cut short; fetch it again.")


def _attribute(rest: str, path: Path, number: int) -> Attribute:
    """Parse what follows @attribute: a name, then a type."""
    match = _NAME.fullmatch(rest)
    name, declared = (unquote(match[1]), match[2].strip()) if match else ("", "")
    if not name or not declared:
        problem = f"an attribute needs a name and a type but the line says {shown(rest)}."
        raise at(path, number, problem)
    if declared.startswith("{"):
        end = declared.rfind("}")
        found = split_values(declared[1:end]) if end > 0 else None
        if found is None or (found == [""] and "'" not in declared and '"' not in declared):
            raise at(
                path,
                number,
                f"the value list of {name!r} is empty, or a bracket or quote in it is not closed: "
                "write {a, b, ...}.",
            )
        values = tuple("?" if value is None else value for value in found)
        if len(set(values)) != len(values):
            problem = f"the attribute {name!r} lists a value twice: remove one of them."
            raise at(path, number, problem)
        return Attribute(name, "nominal", values)
    kinds: dict[str, Any] = {"numeric": "numeric", "real": "numeric", "integer": "numeric"}
    kinds |= {"string": "string", "date": "date"}
    kind = kinds.get(declared.split("%")[0].split()[0].lower() if declared[0] != "%" else "")
    if kind is None:
        raise at(
            path,
            number,
            f"the attribute {name!r} has the type {shown(declared)}, which is not read: use "
            "numeric, real, integer, {a, b, ...}, string or date.",
        )
    return Attribute(name, kind)
