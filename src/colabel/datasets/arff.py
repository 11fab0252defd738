"""ARFF files, dense or sparse, as a source of frames.

The cells of a few thousand rows are collected and turned into numbers and codes all at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy import sparse

from colabel.core.arrays import Array, Indices
from colabel.datasets.csv_table import as_numbers
from colabel.datasets.dataset import DatasetError
from colabel.datasets.frame import Frame, Storage, TableError
from colabel.datasets.text import FilePath, at, lines_of, open_text, shown

if TYPE_CHECKING:
    from colabel.datasets.dataset import Features

_CHARACTERS = 1 << 22  # of rows that are held at once
_QUOTED = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
_NAME = re.compile(rf"\s*({_QUOTED}|[^\s{{]+|\S+)\s*(.*)", re.DOTALL)
# Both alternatives run to a comma or the end, so no input makes this backtrack for long.
_VALUE = re.compile(rf"\s*(?:({_QUOTED})\s*|([^,]*))(,|\Z)", re.DOTALL)
_PAIR = re.compile(rf"\s*([^\s,]+)\s+(?:({_QUOTED})|([^\s,'\"]+))\s*(?:,|\Z)", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_CONTROLS = {"n": "\n", "r": "\r", "t": "\t"}
_LABEL_COUNT = re.compile(r"(?:^|[\s:])-[Cc]\s+(-?\d{1,9})(?!\S)")
_WORDS = {"no": 0.0, "yes": 1.0, "false": 0.0, "true": 1.0}


@dataclass(frozen=True)
class Attribute:
    """A column: its name, its kind, and (nominal) its values in the order of their codes."""

    name: str
    kind: Literal["numeric", "nominal", "other"]
    values: tuple[str, ...] = ()
    declared: str = "numeric"

    @property
    def numbers(self) -> Array | None:
        """The numbers that two values stand for, such as {0,1} and {NO,YES}; None if for none."""
        for read in (_number, lambda value: _WORDS.get(value.lower())):
            found = [read(value) for value in self.values]
            if 0 < len(found) <= 2 and None not in found:
                return np.array(found, dtype=np.float64)
        return None

    @property
    def is_number(self) -> bool:
        """Whether it fills one column of numbers: numeric, two numbers, or two words."""
        return self.kind == "numeric" or self.numbers is not None


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if np.isfinite(number) and "_" not in text else None


class Cells(NamedTuple):
    """Cells of some rows: texts, null where missing, with their columns, rows and lines."""

    texts: Any
    columns: Indices
    rows: Indices
    lines: Indices  # of the rows


@dataclass(frozen=True)
class ArffSource:
    """An ARFF file, its rows dense or sparse."""

    path: Path
    relation: str
    attributes: tuple[Attribute, ...]
    encoding: str

    @classmethod
    def open(cls, path: Path, encoding: str = "utf-8") -> ArffSource:
        """Read the header."""
        with open_text(path, encoding) as text:
            relation, attributes = _read_header(enumerate(lines_of(text, path), start=1), path)
        return cls(path, relation, attributes, encoding)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(attribute.name for attribute in self.attributes)

    @property
    def labels(self) -> list[str]:
        """Names of the labels that the relation counts as MEKA does, by -C n; none if not."""
        found = _LABEL_COUNT.search(self.relation)
        n_labels = int(found[1]) if found else 0
        if not 1 <= abs(n_labels) < len(self.names):
            return []
        return list(self.names[:n_labels] if n_labels > 0 else self.names[n_labels:])

    def storage(self) -> dict[str, Storage]:
        """Return what the header declares: two numbers or yes and no are a number."""
        return {a.name: "number" if a.is_number else "text" for a in self.attributes}

    def chunks(self, storage: Mapping[str, Storage], n_rows: int) -> Iterator[Frame]:
        """Read the columns in `storage`, n_rows at a time."""
        for attribute in self.attributes:
            if storage.get(attribute.name) == "number" and not attribute.is_number:
                raise TableError(
                    f"{self.path}: the column {attribute.name!r} is declared "
                    f"{attribute.declared}, but numbers are wanted there: declare it numeric."
                )
        wanted = [j for j, a in enumerate(self.attributes) if a.name in storage]
        for values, texts in self.coded(n_rows, wanted):
            yield self._frame(values, texts, storage)

    def coded(
        self, n_rows: int = 1 << 62, wanted: Sequence[int] | None = None
    ) -> Iterator[tuple[Features, list[str | None]]]:
        """Read rows as numbers and codes, dense or CSR, and the texts that some columns point to.

        A nominal value is its position in the list, NaN where missing; one of type string or date
        its position in the texts, of which the first stands for what sparse rows do not store.
        """
        kind = np.full(len(self.attributes), -2)  # not looked at
        domains: dict[tuple[str, ...], int] = {}
        for j in range(len(kind)) if wanted is None else wanted:
            attribute = self.attributes[j]
            kind[j] = {"numeric": -1, "other": -3}.get(attribute.kind, 0)
            if attribute.kind == "nominal":
                kind[j] = domains.setdefault(attribute.values, len(domains))
        is_sparse: bool | None = None
        with open_text(self.path, self.encoding) as text:
            lines = enumerate(lines_of(text, self.path), start=1)
            _read_header(lines, self.path)
            stripped = ((number, line.strip()) for number, line in lines)
            rows = ((number, line) for number, line in stripped if line and line[0] != "%")
            while block := _some(rows, n_rows):
                is_sparse = block[0][1][0] == "{" if is_sparse is None else is_sparse
                for number, line in block:
                    if (line[0] == "{") != is_sparse:
                        raise at(
                            self.path,
                            number,
                            "a row in braces { } stands among rows without: write all rows in one "
                            "of the two ways.",
                        )
                cells = self._pairs(block) if is_sparse else self._dense(block)
                values, texts = self._convert(cells, kind, list(domains))
                shape = (len(block), len(kind))
                if is_sparse:
                    ends = np.cumsum(np.bincount(cells.rows, minlength=shape[0]))
                    starts = np.append(0, ends).astype(np.int32)
                    entries = (values, cells.columns.astype(np.int32), starts)
                    yield sparse.csr_array(entries, shape=shape).sorted_indices(), texts
                else:
                    yield values.reshape(shape), texts

    def _dense(self, block: Sequence[tuple[int, str]]) -> Cells:
        """Cut rows with one value a column."""
        width = len(self.attributes)
        lines = np.array([number for number, _ in block])
        if any("'" in line or '"' in line for _, line in block):
            texts: Any = []
            lengths = []
            for number, line in block:
                found = split_values(line)
                if found is None:
                    raise at(self.path, number, "a quote is not closed: close it.")
                texts += found
                lengths.append(len(found))
            texts = pa.array(texts, "string")
        else:
            split = pc.split_pattern(pa.array([line for _, line in block], "string"), ",")
            lengths = pc.list_value_length(split).to_pylist()
            texts = _known(pc.utf8_trim_whitespace(split.flatten()))
        for wrong in np.flatnonzero(np.array(lengths) != width)[:1]:
            raise at(
                self.path,
                int(lines[wrong]),
                f"the row has {lengths[wrong]} values where {width} attributes are declared: "
                "correct the row; if it is the last one the file may be cut short.",
            )
        rows = np.arange(len(block))
        return Cells(texts, np.tile(np.arange(width), len(rows)), np.repeat(rows, width), lines)

    def _pairs(self, block: Sequence[tuple[int, str]]) -> Cells:
        """Cut rows that name only their non-zero values: {index value, index value, ...}."""
        lines = np.array([number for number, _ in block])
        for number, line in block:
            if line[-1] != "}":
                raise at(
                    self.path,
                    number,
                    "the row opens with { but does not end with }: close it; if it is the last row "
                    "the file may be cut short.",
                )
        bodies = [line[1:-1].strip() for _, line in block]
        if any("'" in body or '"' in body for body in bodies):
            pairs = [_quoted_pairs(body) for body in bodies]
            lengths = np.array([len(own) for own in pairs])
            parts = np.array([len(pair) for own in pairs for pair in own], dtype=np.intp)
            flat = pa.array([part for own in pairs for pair in own for part in pair], "string")
        else:
            filled = pa.array([body for body in bodies if body], "string")
            split = pc.split_pattern(filled, ",")
            lengths = np.zeros(len(bodies), dtype=np.intp)
            lengths[[bool(body) for body in bodies]] = pc.list_value_length(split).to_numpy()
            words = pc.utf8_split_whitespace(pc.utf8_trim_whitespace(split.flatten()))
            parts = pc.list_value_length(words).to_numpy(zero_copy_only=False)
            flat = _known(words.flatten())
        rows = np.repeat(np.arange(len(block)), lengths)
        for wrong in np.flatnonzero(parts != 2)[:1]:
            raise at(
                self.path,
                int(lines[rows[wrong]]),
                f"the row {shown('{' + bodies[rows[wrong]] + '}')} is not a list of 'index value' "
                "pairs separated by commas: correct it.",
            )
        width = len(self.attributes)
        places = flat.take(pa.array(np.arange(0, len(flat), 2)))
        good = pc.match_substring_regex(pc.fill_null(places, "?"), r"^[0-9]{1,9}$")
        columns = pc.if_else(good, places, "-1").cast("int64").to_numpy(zero_copy_only=False)
        for wrong in np.flatnonzero((columns < 0) | (columns >= width))[:1]:
            raise at(
                self.path,
                int(lines[rows[wrong]]),
                f"{shown(str(places[wrong].as_py()))} is not the position of an attribute: "
                f"positions go from 0 to {width - 1}. Correct the row.",
            )
        keys = np.sort(rows * width + columns)
        for twice in np.flatnonzero(keys[1:] == keys[:-1])[:1]:
            row, column = divmod(int(keys[twice]), width)
            raise at(
                self.path,
                int(lines[row]),
                f"the row gives attribute {column} twice: keep one of the two values.",
            )
        return Cells(flat.take(pa.array(np.arange(1, len(flat), 2))), columns, rows, lines)

    def _convert(
        self, cells: Cells, kind: Indices, domains: Sequence[tuple[str, ...]]
    ) -> tuple[Array, list[str | None]]:
        """Return cells as numbers and codes, and texts; or say what is wrong with one of them."""
        out = np.zeros(len(cells.columns))
        texts: list[str | None] = [None]
        kinds = kind[cells.columns]
        for own in np.unique(kinds[kinds != -2]):
            chosen = np.flatnonzero(kinds == own)
            tokens = (
                cells.texts if len(chosen) == len(kinds) else cells.texts.take(pa.array(chosen))
            )
            missing = pc.is_null(tokens).to_numpy(zero_copy_only=False)
            if own == -3:
                out[chosen] = np.arange(len(texts), len(texts) + len(chosen))
                texts += tokens.to_pylist()
                continue
            if own == -1:
                values, odd = as_numbers(pc.fill_null(tokens, "nan"), ["nan"])
            else:
                found = pc.index_in(tokens, pa.array(domains[own], "string"), skip_nulls=True)
                values = found.cast("float64").to_numpy(zero_copy_only=False)
                odd = np.isnan(values) & ~missing
            for wrong in np.flatnonzero(odd)[:1]:
                self._refuse(str(tokens[wrong].as_py()), int(chosen[wrong]), cells)
            out[chosen] = values
        return out, texts

    def _refuse(self, token: str, place: int, cells: Cells) -> None:
        attribute = self.attributes[cells.columns[place]]
        line = int(cells.lines[cells.rows[place]])
        if attribute.kind == "nominal":
            listed = ", ".join(map(repr, attribute.values[:6]))
            more = ", …" if len(attribute.values) > 6 else ""
            raise at(
                self.path,
                line,
                f"{shown(token)} is not a value of {attribute.name!r} (it lists {listed}{more}): "
                "correct the row or the list.",
            )
        raise at(
            self.path,
            line,
            f"{shown(token)} is not a finite number, but the column {attribute.name!r} is numeric: "
            "correct the value, or write ? for a missing one.",
        )

    def _frame(
        self, values: Features, texts: list[str | None], storage: Mapping[str, Storage]
    ) -> Frame:
        held = {j: storage.get(a.name) for j, a in enumerate(self.attributes)}
        numeric = [j for j, how in held.items() if how == "number"]
        columns: dict[str, Any] = {}
        for j in (j for j, how in held.items() if how == "text"):
            attribute = self.attributes[j]
            block = values[:, [j]]
            full = (block if isinstance(block, np.ndarray) else block.toarray())[:, 0]
            missing = np.isnan(full)
            codes = pa.array(np.where(missing, 0, full).astype(np.int32), mask=missing)
            if attribute.kind == "nominal":
                found = pa.DictionaryArray.from_arrays(codes, pa.array(attribute.values, "string"))
            elif attribute.kind == "other":
                found = pa.array(texts, "string").take(codes).dictionary_encode()
            else:
                plain = [None if value != value else f"{value:.15g}" for value in full.tolist()]
                found = pa.array(plain, "string").dictionary_encode()
            columns[attribute.name] = found
        names = tuple(self.attributes[j].name for j in numeric)
        return Frame(self._numbers(values, numeric), names, columns)

    def _numbers(self, values: Features, columns: Sequence[int]) -> Features:
        """Return columns of numbers, where two values are the numbers that they stand for."""
        lookups = {k: self.attributes[j].numbers for k, j in enumerate(columns)}
        odd = {
            k: lookup
            for k, lookup in lookups.items()
            # in a list such as {0,1} the position is the number already
            if lookup is not None and not np.array_equal(lookup, np.arange(len(lookup)))
        }
        block = values[:, list(columns)]
        if not odd:
            return block
        table = {k: np.append(lookup, np.nan) for k, lookup in odd.items()}
        if isinstance(block, np.ndarray):
            for k, lookup in table.items():
                block[:, k] = lookup[np.where(np.isnan(block[:, k]), -1, block[:, k]).astype(int)]
            return block
        by_column = block.tocsc()
        full = by_column[:, list(table)].toarray()
        for own, lookup in zip(full.T, table.values(), strict=True):
            own[:] = lookup[np.where(np.isnan(own), -1, own).astype(int)]
        kept = [k for k in range(len(columns)) if k not in table]
        parts: list[Any] = [by_column[:, kept], sparse.csc_array(full)]
        order = np.argsort([*kept, *table])
        return sparse.csr_array(sparse.hstack(parts, format="csc")[:, order])


def _some(rows: Iterator[tuple[int, str]], n_rows: int) -> list[tuple[int, str]]:
    """Take the next rows, n_rows of them at most."""
    block, n_characters = list[tuple[int, str]](), 0
    for number, line in rows:
        block.append((number, line))
        n_characters += len(line)
        if len(block) == n_rows or n_characters > _CHARACTERS:
            break
    return block


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
    while True:
        match = _VALUE.match(text, position)
        if match is None:
            return None
        if match[1] is not None:
            values.append(unquote(match[1]))
        else:
            plain = match[2].strip()
            values.append(None if plain == "?" else plain)
            if match[2][:1] in ("'", '"'):
                return None  # a quote that is not closed before the next comma
        if not match[3]:
            return values
        position = match.end()


def _read_header(
    lines: Iterable[tuple[int, str]], path: FilePath
) -> tuple[str, tuple[Attribute, ...]]:
    """Read up to and including @data from (line number, line) pairs: relation and attributes."""
    relation = ""
    attributes: dict[str, Attribute] = {}
    number = 0
    for number, raw in lines:
        line = raw.strip()
        if not line or line.startswith("%"):
            continue
        keyword, rest = [*line.split(None, 1), ""][:2]
        match keyword.lower():
            case "@relation":
                relation = unquote(rest.strip())
            case "@attribute":
                attribute = _attribute(rest, path, number)
                if attribute.name in attributes:
                    raise at(
                        path,
                        number,
                        f"the attribute {attribute.name!r} is declared twice: rename one.",
                    )
                attributes[attribute.name] = attribute
            case "@data":
                if not attributes:
                    raise at(
                        path, number, "@data comes before any @attribute: declare the columns."
                    )
                return relation, tuple(attributes.values())
            case _:
                raise at(
                    path,
                    number,
                    f"expected @relation, @attribute or @data but found {shown(line)}: is this "
                    "an ARFF file?",
                )
    if number == 0:
        raise DatasetError(f"{path} is empty: give a table with @attribute lines and rows.")
    raise at(path, number, "the file ends without a @data line: it is cut short; fetch it again.")


def _attribute(rest: str, path: FilePath, number: int) -> Attribute:
    """Parse what follows @attribute: a name, then a type."""
    match = _NAME.fullmatch(rest)
    name, declared = (unquote(match[1]), match[2].strip()) if match else ("", "")
    if not name or not declared:
        raise at(
            path, number, f"an attribute needs a name and a type but the line says {shown(rest)}."
        )
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
            raise at(
                path, number, f"the attribute {name!r} lists a value twice: remove one of them."
            )
        return Attribute(name, "nominal", values, declared="nominal")
    word = declared.split("%")[0].split()[0].lower() if declared[0] != "%" else ""
    if word in ("numeric", "real", "integer"):
        return Attribute(name, "numeric")
    if word in ("string", "date"):
        return Attribute(name, "other", declared=word)
    raise at(
        path,
        number,
        f"the attribute {name!r} has the type {shown(declared)}, which is not read: use numeric, "
        "real, integer, {a, b, ...}, or string or date with the column listed in drop.",
    )
