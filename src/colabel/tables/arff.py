"""ARFF files, dense or sparse, as a source of frames.

The cells of a few thousand rows are converted to numbers and codes as one array.
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

from colabel.core.arrays import Array, Indices
from colabel.tables.source import (
    PLAIN,
    Count,
    Frame,
    ReadingOptions,
    Seen,
    Source,
    Storage,
    TableError,
    Take,
    as_numbers,
    ignore,
    listed,
    open_blocks,
    shown,
    text_array,
)

_CHARACTERS = 1 << 22  # of a block of rows
_QUOTED = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
_NAME = re.compile(rf"\s*({_QUOTED}|[^\s{{]+|\S+)\s*(.*)", re.DOTALL)
# A value, in sparse rows after an index. Both alternatives run to a comma or the end, so no input
# makes this backtrack for long.
_PIECES = {
    has_index: re.compile(rf"\s*({index}(?:(?:{_QUOTED})\s*|[^,]*))(,|\Z)", re.DOTALL)
    for has_index, index in ((False, ""), (True, r"(?:[^\s,]+\s+)?"))
}
_PAIR = rf"(?s)^(?P<index>\S+)\s+(?P<value>{_QUOTED}|[^\s'\"]\S*)$"
_CLOSED = re.compile(_QUOTED, re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_CONTROLS = {"n": "\n", "r": "\r", "t": "\t"}
_LABEL_COUNT = re.compile(r"(?:^|[\s:])-[Cc]\s+(-?\d{1,9})(?!\S)")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_KINDS: dict[str, Any] = {"real": "numeric", "integer": "numeric"}
_KINDS |= {kind: kind for kind in ("numeric", "string", "date")}
_WORDS = {"no": 0.0, "yes": 1.0, "false": 0.0, "true": 1.0}

Line = tuple[int, str]
"""The number of a line, and its text."""

Cells = tuple[Any, Indices, Indices]
"""Texts of the cells of rows, null where missing; their columns; their rows."""


@dataclass(frozen=True)
class Attribute:
    """A column: its name, its kind, and (nominal) its values in the order of their codes."""

    name: str
    kind: Literal["numeric", "nominal", "string", "date"]
    values: tuple[str, ...] = ()

    @property
    def numbers(self) -> Array | None:
        """The numbers that two values mean, such as {0,1} and {NO,YES}; None if they mean none."""
        if not 0 < len(self.values) <= 2:
            return None
        if all(map(_NUMBER.fullmatch, self.values)):
            return np.array(self.values, dtype=np.float64)
        words = [_WORDS.get(value.lower()) for value in self.values]
        return None if None in words else np.array(words, dtype=np.float64)

    @property
    def is_number(self) -> bool:
        """Whether it is one column of numbers: numeric, two numbers, or two words."""
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
        """Names of the labels that the relation declares in the style of MEKA, by -C n."""
        counted = _LABEL_COUNT.search(self.relation)
        n_labels = int(counted[1]) if counted else 0
        if not 1 <= abs(n_labels) < len(self.attributes):
            return ()
        return self.names[:n_labels] if n_labels > 0 else self.names[n_labels:]

    def seen(self, count: Count = ignore) -> dict[str, Seen]:
        """Return what the header declares; two numbers, or yes and no, count as a number."""
        return {a.name: Seen(1, not a.is_number) for a in self.attributes}

    def chunks(self, storage: Mapping[str, Storage], n_rows: int) -> Iterator[Frame]:
        """Read the columns in `storage`, n_rows at a time."""
        for attribute in self.attributes:
            if storage.get(attribute.name) == "number" and not attribute.is_number:
                raise TableError(
                    f"{self.path}: the column {attribute.name!r} is declared {attribute.kind}, "
                    "but numbers are wanted there: declare it numeric."
                )
        is_sparse: bool | None = None
        with open_blocks(self.path, self.encoding) as take:
            _read_header(take, self.path)
            while (taken := take(n_rows, _CHARACTERS))[0]:
                rows = _lines(*taken)
                for number, line in rows:
                    is_sparse = line[0] == "{" if is_sparse is None else is_sparse
                    if (line[0] == "{") != is_sparse:
                        raise TableError(
                            f"{self.path}, line {number}: a row in braces {{ }} stands among rows "
                            "without: write all rows in one of the two ways."
                        )
                if rows:
                    yield self._frame(rows, storage, is_sparse=bool(is_sparse))

    def _cells(self, rows: Sequence[Line], *, is_sparse: bool) -> Cells:
        """Cut rows into texts, null where missing, with their columns and rows.

        A dense row has one value a column; a sparse one names only its non-zero values:
        {index value, index value, ...}.
        """
        bodies = [line for _, line in rows]
        if is_sparse:
            for number, line in rows:
                if line[-1] != "}":
                    raise TableError(
                        f"{self.path}, line {number}: the row opens with {{ but does not end with "
                        "}: close it; if it is the last row the file may be cut short."
                    )
            bodies = [line[1:-1].strip() for line in bodies]
        filled = np.flatnonzero(np.array(bodies, dtype=object) != "")
        if any("'" in body or '"' in body for body in bodies):
            pieces = [_pieces(bodies[i], has_index=is_sparse) for i in filled]
            lengths = np.array([len(own) for own in pieces], dtype=np.intp)
            tokens = pa.array([piece for own in pieces for piece in own], "string")
        else:
            split = pc.split_pattern(pa.array([b for b in bodies if b], "string"), ",")
            lengths = pc.list_value_length(split).to_numpy()
            tokens = pc.utf8_trim_whitespace(split.flatten())
        place, width = np.repeat(filled, lengths), len(self.attributes)
        if is_sparse:
            pairs = pc.extract_regex(tokens, _PAIR)
            for k in np.flatnonzero(pc.is_null(pairs))[:1]:
                row = shown("{" + bodies[place[k]] + "}")
                raise TableError(
                    f"{self.path}, line {rows[place[k]][0]}: the row {row} is not a list of 'index "
                    "value' pairs separated by commas: correct it."
                )
            names, tokens = pc.struct_field(pairs, "index"), pc.struct_field(pairs, "value")
            good = pc.match_substring_regex(names, r"^[0-9]{1,9}$")
            columns = pc.if_else(good, names, "-1").cast("int64").to_numpy(zero_copy_only=False)
            for k in np.flatnonzero((columns < 0) | (columns >= width))[:1]:
                raise TableError(
                    f"{self.path}, line {rows[place[k]][0]}: {shown(names[k].as_py())} is not the "
                    f"position of an attribute: positions go from 0 to {width - 1}. Correct the "
                    "row."
                )
            keys = np.sort(place * width + columns)
            for key in keys[1:][keys[1:] == keys[:-1]][:1]:
                raise TableError(
                    f"{self.path}, line {rows[key // width][0]}: the row gives attribute "
                    f"{key % width} twice: keep one of the two values."
                )
        else:
            for wrong in np.flatnonzero(lengths != width)[:1]:
                raise TableError(
                    f"{self.path}, line {rows[wrong][0]}: the row has {lengths[wrong]} values "
                    f"where {width} attributes are declared: correct the row; if it is the last "
                    "one the file may be cut short."
                )
            columns = np.tile(np.arange(width), len(rows))
        quoted = pc.match_substring_regex(tokens, "^['\"]")
        tokens = pc.if_else(pc.equal(tokens, "?"), None, tokens)
        if pc.any(quoted).as_py():
            texts = tokens.filter(quoted).to_pylist()
            for k in np.flatnonzero([not _CLOSED.fullmatch(text) for text in texts])[:1]:
                number = rows[place[np.flatnonzero(quoted)[k]]][0]
                raise TableError(f"{self.path}, line {number}: a quote is not closed: close it.")
            tokens = pc.replace_with_mask(
                tokens, quoted, pa.array([unquote(text) for text in texts], "string")
            )
        return tokens, columns, place

    def _frame(
        self, rows: Sequence[Line], storage: Mapping[str, Storage], *, is_sparse: bool
    ) -> Frame:
        """Return the columns in `storage` of some rows; what sparse rows do not store is 0."""
        tokens, columns, place = self._cells(rows, is_sparse=is_sparse)
        shape = len(rows), len(self.attributes)
        held = [storage.get(attribute.name) for attribute in self.attributes]
        alike: dict[Any, list[int]] = {}  # columns of the same values, held in the same way
        for j, attribute in enumerate(self.attributes):
            if held[j] and attribute.kind in ("numeric", "nominal"):
                alike.setdefault((attribute.values, held[j]), []).append(j)
        # numbers, or places in the list of values; and what stands for those left out
        values, first = np.zeros(len(columns)), np.zeros(shape[1])
        for (domain, how), members in alike.items():
            chosen = np.flatnonzero(np.isin(columns, members))
            own = tokens if len(chosen) == len(tokens) else tokens.take(pa.array(chosen))
            if domain:
                codes = pc.index_in(own, pa.array(domain, "string"), skip_nulls=True)
                numbers = codes.cast("float64").to_numpy(zero_copy_only=False)
                odd = np.isnan(numbers) & pc.is_valid(own).to_numpy(zero_copy_only=False)
            else:
                numbers, odd = as_numbers(pc.fill_null(own, "nan"), ["nan"])
            for wrong in np.flatnonzero(odd)[:1]:
                name = self.attributes[columns[chosen[wrong]]].name
                problem = (
                    f"is not a value of {name!r} (it lists {listed(domain)}): correct the row or "
                    "the list."
                    if domain
                    else f"is not a finite number, but the column {name!r} is numeric: correct the "
                    "value, or write ? for a missing one."
                )
                raise TableError(
                    f"{self.path}, line {rows[place[chosen[wrong]]][0]}: "
                    f"{shown(own[wrong].as_py())} {problem}"
                )
            meant = self.attributes[members[0]].numbers
            if how == "number" and meant is not None:
                codes = np.where(np.isnan(numbers), -1, numbers).astype(np.intp)
                numbers = np.append(meant, np.nan)[codes]
                first[members] = meant[0]
            values[chosen] = numbers
        block: Any = values
        if is_sparse:
            stored = place.astype(np.int32), columns.astype(np.int32)
            block = sparse.coo_array((values, stored), shape=shape).tocsr()
            if first.any():  # the first value of a list need not be the number 0
                every = sparse.csr_array(np.ones((len(rows), 1))) @ sparse.csr_array(first[None])
                given = sparse.coo_array((np.ones(len(columns)), stored), shape=shape)
                block = sparse.csr_array(block + every - every.multiply(given.tocsr()))
        as_text = [j for j, how in enumerate(held) if how == "text"]
        order = np.argsort(columns, kind="stable") if as_text else columns[:0]
        ends = np.searchsorted(columns[order], np.arange(shape[1] + 1))
        texts: dict[str, Any] = {}
        for j in as_text:
            attribute, chosen = self.attributes[j], order[ends[j] : ends[j + 1]]
            index = np.full(len(rows), -1)
            index[place[chosen]] = chosen
            if attribute.kind in ("string", "date"):
                text = tokens.take(pa.array(index, mask=index < 0)).dictionary_encode()
            else:
                text = pa.array(np.append(values, 0.0)[index], from_pandas=True)
                if attribute.values:
                    domain = pa.array(attribute.values, "string")
                    text = pa.DictionaryArray.from_arrays(text.cast("int32"), domain)
                text = text_array(text)
            texts[attribute.name] = text
        numeric = [j for j, how in enumerate(held) if how == "number"]
        names = tuple(self.attributes[j].name for j in numeric)
        return Frame(block.reshape(shape)[:, numeric], names, texts)


def _lines(block: bytes, before: int) -> list[Line]:
    """Return the lines of a block that are neither empty nor comments."""
    lines = enumerate(map(str.strip, block.decode().split("\n")), start=before + 1)
    return [(number, line) for number, line in lines if line and line[0] != "%"]


def _pieces(body: str, *, has_index: bool = False) -> list[str]:
    """Split at commas, but for those in quotes; with `has_index`, after the index of a value."""
    pieces, position = list[str](), 0
    while match := _PIECES[has_index].match(body, position):
        pieces.append(match[1].strip())
        if not match[2]:
            break
        position = match.end()
    return pieces


def unquote(token: str) -> str:
    """Remove quotes and resolve escapes; a token without quotes is returned as it is."""
    if len(token) < 2 or token[0] not in "'\"" or token[-1] != token[0]:
        return token

    def resolve(match: re.Match[str]) -> str:
        escaped = match[1]
        return chr(int(escaped[1:], 16)) if len(escaped) == 5 else _CONTROLS.get(escaped, escaped)

    return _ESCAPE.sub(resolve, token[1:-1])


def _read_header(take: Take, path: Path) -> tuple[str, tuple[Attribute, ...]]:
    """Read up to and including @data: relation and attributes."""
    relation, number = "", 0
    attributes: dict[str, Attribute] = {}
    while (taken := take())[0]:
        number = taken[1] + 1
        try:
            for _, line in _lines(*taken):
                keyword, rest = [*line.split(None, 1), ""][:2]
                if keyword.lower() == "@relation":
                    relation = unquote(rest.strip())
                elif keyword.lower() == "@attribute":
                    attribute = _attribute(rest)
                    if attribute.name in attributes:
                        raise TableError(
                            f"the attribute {attribute.name!r} is declared twice: rename one."
                        )
                    attributes[attribute.name] = attribute
                elif keyword.lower() != "@data":
                    raise TableError(
                        f"expected @relation, @attribute or @data but found {shown(line)}: is this "
                        "an ARFF file?"
                    )
                elif not attributes:
                    raise TableError("@data comes before any @attribute: declare the columns.")
                else:
                    return relation, tuple(attributes.values())
        except TableError as error:
            raise TableError(f"{path}, line {number}: {error}") from None
    if number == 0:
        raise TableError(f"{path} is empty: give a table with @attribute lines and rows.")
    raise TableError(
        f"{path}, line {number}: the file ends without a @data line: it is cut short; fetch it "
        "again."
    )


def _attribute(rest: str) -> Attribute:
    """Parse what follows @attribute: a name, then a type."""
    match = _NAME.fullmatch(rest)
    name, declared = (unquote(match[1]), match[2].strip()) if match else ("", "")
    if not name or not declared:
        raise TableError(f"an attribute needs a name and a type but the line says {shown(rest)}.")
    if declared.startswith("{"):
        end = declared.rfind("}")
        pieces = _pieces(declared[1:end]) if end > 0 else [""]
        if pieces == [""] or any(p[:1] in ("'", '"') and not _CLOSED.fullmatch(p) for p in pieces):
            raise TableError(
                f"the value list of {name!r} is empty, or a bracket or quote in it is not closed: "
                "write {a, b, ...}."
            )
        values = tuple(map(unquote, pieces))
        if len(set(values)) != len(values):
            raise TableError(f"the attribute {name!r} lists a value twice: remove one of them.")
        return Attribute(name, "nominal", values)
    declared_as = declared.split("%")[0].split()[0].lower() if declared[0] != "%" else ""
    kind = _KINDS.get(declared_as)
    if kind is None:
        raise TableError(
            f"the attribute {name!r} has the type {shown(declared)}, which is not read: use "
            "numeric, real, integer, {a, b, ...}, string or date."
        )
    return Attribute(name, kind)
