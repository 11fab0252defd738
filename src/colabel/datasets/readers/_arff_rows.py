"""The rows of an ARFF file, dense or sparse, turned into numbers chunk by chunk.

Rows are collected as strings for a few thousand lines and then converted column by column (dense)
or value list by value list (sparse), which keeps both the time and the memory small. Only when a
conversion fails does the slow path run that finds the line and the value to blame.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from colabel.core.arrays import Array
from colabel.datasets.dataset import DatasetError
from colabel.datasets.readers.arff_header import (
    QUOTED,
    QUOTED_QUESTION_MARK,
    Attribute,
    split_values,
)
from colabel.datasets.readers.text import FilePath, at, shown

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from colabel.datasets.dataset import Features, SparseFeatures

_CHUNK_VALUES = 1 << 19  # strings held at once
_PAIR = re.compile(rf"\s*([^\s,]+)\s+(?:({QUOTED})|([^\s,'\"]+))\s*(?:,|\Z)", re.DOTALL)


class Columns:
    """How the strings of each column become numbers.

    Parameters
    ----------
    attributes : sequence of Attribute
        The columns.
    dropped : set of int
        Columns whose values are not looked at (they read as 0).
    path : str or path
        For error messages.

    Attributes
    ----------
    texts : list of str or None
        Values of columns of type string or date that are not dropped; such a column reads as
        positions in this list. The first entry stands for what sparse rows do not store.
    """

    def __init__(self, attributes: Sequence[Attribute], dropped: set[int], path: FilePath) -> None:
        self.texts: list[str | None] = [None]
        self.attributes = attributes
        self.path = path
        domains: dict[tuple[str, ...], int] = {}
        self.codes: list[dict[str, float]] = []
        # One converter per distinct value list: text data sets repeat {0,1} thousands of times.
        self.domain = np.full(
            len(attributes), -1, dtype=np.int64
        )  # -1: numeric, -2: dropped, -3: text
        for j, attribute in enumerate(attributes):
            if j in dropped:
                self.domain[j] = -2
            elif attribute.kind == "other":
                self.domain[j] = -3
            elif attribute.kind == "nominal":
                if attribute.values not in domains:
                    domains[attribute.values] = len(self.codes)
                    self.codes.append(_codes(attribute.values))
                self.domain[j] = domains[attribute.values]

    def convert(
        self, tokens: Sequence[str], domain: int, places: Sequence[tuple[int, int]]
    ) -> Array:
        """Turn strings of one domain into numbers; `places` are their (line, column)."""
        if domain == -2:
            return np.zeros(len(tokens))
        if domain == -3:
            start = len(self.texts)
            self.texts += [None if token == "?" else str(token) for token in tokens]
            return np.arange(start, len(self.texts), dtype=np.float64)
        try:
            if domain >= 0:
                codes = self.codes[domain]
                return np.array([codes[token] for token in tokens], dtype=np.float64)
            numbers = np.array([float(token) for token in tokens], dtype=np.float64)
        except (KeyError, ValueError):
            return np.array(
                [
                    self._one(token, domain, place)
                    for token, place in zip(tokens, places, strict=True)
                ]
            )
        # float() also reads infinity, numbers too large for it, and 1_000: find and refuse them.
        if np.isinf(numbers).any() or any("_" in token for token in tokens):
            for token, place in zip(tokens, places, strict=True):
                self._one(token, domain, place)
        return numbers

    def _one(self, token: str, domain: int, place: tuple[int, int]) -> float:
        """Convert one string, or say what is wrong with it."""
        line, column = place
        attribute = self.attributes[column]
        if domain >= 0:
            code = self.codes[domain].get(token)
            if code is None:
                listed = ", ".join(map(repr, attribute.values[:6]))
                raise at(
                    self.path,
                    line,
                    f"{shown(token)} is not a value of {attribute.name!r} (it lists {listed}"
                    f"{', …' if len(attribute.values) > 6 else ''}): correct the row or the list.",
                )
            return code
        try:
            number = np.nan if token == "?" else float(token)
        except ValueError:
            number = np.inf
        if np.isinf(number) or "_" in token:
            raise at(
                self.path,
                line,
                f"{shown(token)} is not a finite number, but the column {attribute.name!r} is "
                "numeric: correct the value, or write ? for a missing one.",
            )
        return number


def _codes(values: tuple[str, ...]) -> dict[str, float]:
    codes = {QUOTED_QUESTION_MARK if v == "?" else v: float(i) for i, v in enumerate(values)}
    return codes | {"?": np.nan}


def read_rows(lines: Iterable[tuple[int, str]], columns: Columns) -> Features:
    """Read every row after @data, as a dense or a sparse array (n_rows, n_attributes)."""
    reader: _DenseRows | _SparseRows | None = None
    for number, raw in lines:
        line = raw.strip()
        if not line or line[0] == "%":
            continue
        is_sparse = line[0] == "{"
        if reader is None:
            reader = _SparseRows(columns) if is_sparse else _DenseRows(columns)
        if is_sparse != isinstance(reader, _SparseRows):
            raise at(
                columns.path,
                number,
                "a row in braces { } stands among rows without: write all rows in one of the two "
                "ways.",
            )
        reader.add(number, line)
    if reader is None:
        raise DatasetError(f"{columns.path} has no rows after @data: fetch the file again.")
    return reader.finish()


class _DenseRows:
    """Rows with one value a column."""

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        self.width = len(columns.attributes)
        self.chunk_rows = max(1, _CHUNK_VALUES // self.width)
        self.rows: list[list[str]] = []
        self.lines: list[int] = []
        self.blocks: list[Array] = []

    def add(self, number: int, line: str) -> None:
        values: list[str] | None
        if "'" in line or '"' in line:
            values = split_values(line)
            if values is None:
                raise at(self.columns.path, number, "a quote is not closed: close it.")
        elif " " in line or "\t" in line:
            values = [value.strip() for value in line.split(",")]
        else:
            values = line.split(",")
        if len(values) != self.width:
            raise at(
                self.columns.path,
                number,
                f"the row has {len(values)} values where {self.width} attributes are declared: "
                "correct the row; if it is the last one the file may be cut short.",
            )
        self.rows.append(values)
        self.lines.append(number)
        if len(self.rows) == self.chunk_rows:
            self._flush()

    def _flush(self) -> None:
        block = np.empty((len(self.rows), self.width))
        for j, tokens in enumerate(zip(*self.rows, strict=True)):
            places = _Places(self.lines, j)
            block[:, j] = self.columns.convert(tokens, int(self.columns.domain[j]), places)
        self.blocks.append(block)
        self.rows, self.lines = [], []

    def finish(self) -> Array:
        if self.rows:
            self._flush()
        return self.blocks[0] if len(self.blocks) == 1 else np.concatenate(self.blocks)


class _Places(Sequence[tuple[int, int]]):
    """The (line, column) of each value of one dense column, made only when asked for."""

    def __init__(self, lines: list[int], column: int) -> None:
        self._lines, self._column = lines, column

    def __len__(self) -> int:
        return len(self._lines)

    def __getitem__(self, index: int) -> tuple[int, int]:  # type: ignore[override]
        return self._lines[index], self._column


class _SparseRows:
    """Rows that name only their non-zero values: {index value, index value, ...}."""

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        self.width = len(columns.attributes)
        self.ends = array("q", [0])
        self.tokens: list[str] = []
        self.indices: list[str] = []
        self.lines: list[int] = []  # of the chunk's rows
        self.sizes: list[int] = []
        self.index_blocks: list[NDArray[np.int32]] = []
        self.value_blocks: list[Array] = []

    def add(self, number: int, line: str) -> None:
        if line[-1] != "}":
            raise at(
                self.columns.path,
                number,
                "the row opens with { but does not end with }: close it; if it is the last row the "
                "file may be cut short.",
            )
        body = line[1:-1]
        if "'" in body or '"' in body:
            pairs = _quoted_pairs(body)
        else:
            pairs = [pair.split() for pair in body.split(",")] if body.strip() else []
        try:
            # Unpacking fails unless every pair has exactly two parts.
            indices = [index for index, _ in pairs]
        except ValueError:
            raise self._not_pairs(number, body) from None
        self.indices += indices
        self.tokens += [token for _, token in pairs]
        self.lines.append(number)
        self.sizes.append(len(pairs))
        self.ends.append(self.ends[-1] + len(pairs))
        if len(self.tokens) >= _CHUNK_VALUES // 2 or len(self.lines) >= _CHUNK_VALUES:
            self._flush()

    def _not_pairs(self, number: int, body: str) -> DatasetError:
        return at(
            self.columns.path,
            number,
            f"the row {shown('{' + body + '}')} is not a list of 'index value' pairs separated by "
            "commas: correct it.",
        )

    def _flush(self) -> None:
        lines = np.repeat(np.array(self.lines, dtype=np.int64), self.sizes)
        indices = self._indices(lines)
        values = np.empty(len(indices))
        domains = self.columns.domain[indices]
        tokens = np.array(self.tokens, dtype=object)
        for domain in np.unique(domains):
            chosen = np.flatnonzero(domains == domain)
            places = list(zip(lines[chosen].tolist(), indices[chosen].tolist(), strict=True))
            values[chosen] = self.columns.convert(tokens[chosen].tolist(), int(domain), places)
        self.index_blocks.append(indices)
        self.value_blocks.append(values)
        self.tokens, self.indices, self.lines, self.sizes = [], [], [], []

    def _indices(self, lines: NDArray[np.int64]) -> NDArray[np.int32]:
        """Attribute positions of the chunk's values, checked."""
        position = {text: _position(text, self.width) for text in set(self.indices)}
        for text, value in position.items():
            if value < 0:
                raise at(
                    self.columns.path,
                    int(lines[self.indices.index(text)]),
                    f"{shown(text)} is not the position of an attribute: positions go from 0 to "
                    f"{self.width - 1}. Correct the row.",
                )
        indices = np.array([position[text] for text in self.indices], dtype=np.int32)
        keys = lines * self.width + indices
        order = np.sort(keys)
        twice = np.flatnonzero(order[1:] == order[:-1])
        if len(twice):
            line, column = divmod(int(order[twice[0]]), self.width)
            raise at(
                self.columns.path,
                line,
                f"the row gives attribute {column} twice: keep one of the two values.",
            )
        return indices

    def finish(self) -> SparseFeatures:
        if self.lines:
            self._flush()
        ends = np.array(self.ends, dtype=np.int64)
        if ends[-1] < np.iinfo(np.int32).max:
            ends = ends.astype(np.int32)  # scikit-learn's solvers want 32-bit positions
        values = np.concatenate(self.value_blocks)
        indices = np.concatenate(self.index_blocks)
        result = sparse.csr_array((values, indices, ends), shape=(len(ends) - 1, self.width))
        result.sort_indices()
        return result


def _position(text: str, width: int) -> int:
    """Read an attribute's position; -1 when it is none. Longer numbers are not even converted."""
    value = int(text) if text.isdecimal() and len(text) < 10 else -1
    return value if value < width else -1


def _quoted_pairs(body: str) -> list[list[str]]:
    """Split a row in which values are quoted, and so may hold commas and spaces.

    A pair that cannot be read comes back with one part instead of two.
    """
    pairs: list[list[str]] = []
    position = 0
    while position < len(body):
        match = _PAIR.match(body, position)
        if match is None:
            return [*pairs, [body[position:]]]
        value = (split_values(match[2]) or [""])[0] if match[2] else match[3]
        pairs.append([match[1], value])
        position = match.end()
    return pairs
