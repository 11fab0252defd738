"""Frame: a user's table, or some rows of it: numbers as a matrix, texts as Arrow arrays."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import narwhals.stable.v2 as nw
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy import sparse

from colabel.core.arrays import Array, Flags, Indices, is_sparse
from colabel.labels.columns import is_missing
from colabel.tables.source import TableError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    SparseFeatures: TypeAlias = sparse.csr_array[np.float64, tuple[int, int]]
    Features: TypeAlias = Array | SparseFeatures

Storage: TypeAlias = Literal["number", "text"]
"""How a column is held."""

Texts: TypeAlias = "pa.DictionaryArray"
"""Strings by their places in a list of the different ones; null where missing."""

LARGEST = 1e100
"""Beyond this, squares overflow while columns are scaled."""


BLANKS = " '’\u00a0\u202f"  # between thousands, whatever the decimal is
_EXPONENT = r"(?:[eE][+-]?[0-9]+)?"


def _pattern(decimal: str, other: str) -> str:
    thousands = "|".join(rf"(?:[{re.escape(blank)}][0-9]{{3}})+" for blank in other + BLANKS)
    whole = rf"(?:[1-9][0-9]{{0,2}}(?:{thousands})|[0-9]+)"
    point = re.escape(decimal)
    return rf"[+-]?(?:{whole}(?:{point}[0-9]*)?|{point}[0-9]+){_EXPONENT}"


PATTERNS = {
    ".": _pattern(".", ","),
    ",": _pattern(",", "."),
    "": rf"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+){_EXPONENT}",
}
"""Regular expressions of numbers by what stands before the fraction; "" for a plain point."""


@dataclass(frozen=True, eq=False, repr=False)
class Frame:
    """Columns of numbers and columns of text.

    Numbers lie in a matrix, as models take them: a sparse one may have more columns than an Arrow
    table could hold. Texts are Arrow arrays.

    Attributes
    ----------
    numbers : ndarray or csr_array of shape (n_rows, n_numbers)
        Columns of numbers, NaN where missing.
    number_names : tuple of n_numbers str
    texts : {name: DictionaryArray of n_rows strings}
        Columns of strings, null where missing.

    Examples
    --------
    >>> from colabel.tables import Frame
    >>> frame = Frame.of({"size": [1.5, None], "colour": ["red", "blue"]})
    >>> frame
    Frame(2 rows: 1 column of numbers, 1 column of text)
    >>> frame.column("size")
    array([1.5, nan])
    """

    numbers: Features
    number_names: tuple[str, ...]
    texts: Mapping[str, Texts] = field(default_factory=dict)

    @classmethod
    def of(cls, data: Any, as_text: Iterable[str] = ()) -> Frame:
        """Make a frame of a data frame of any library, a mapping of columns, or an array.

        The columns of an array (n, p), dense or sparse, are called x0, x1, .... Those named by
        `as_text` are kept as texts whatever they hold.
        """
        if isinstance(data, Frame):
            return data
        if is_sparse(data) or (isinstance(data, np.ndarray) and data.ndim == 2):
            names = tuple(f"x{j}" for j in range(data.shape[1]))
            if is_sparse(data):
                return cls(sparse.csr_array(data, dtype=np.float64), names)
            if data.dtype.kind in "biuf":
                return cls(np.asarray(data, dtype=np.float64), names)
            data = dict(zip(names, data.T, strict=True))
        columns: Iterable[tuple[Any, Any]]
        if isinstance(data, Mapping):
            columns = data.items()
        else:
            frame: Any = nw.from_native(data, pass_through=True)
            if isinstance(frame, nw.LazyFrame):
                frame = frame.collect()
            if not isinstance(frame, nw.DataFrame):
                raise TableError(
                    "A table is a Frame, a data frame, a mapping of names to columns or an array of"
                    f" two dimensions, not {type(data).__name__}."
                )
            columns = ((column.name, column) for column in frame.iter_columns())
        return cls.of_arrow({str(name): _as_arrow(column) for name, column in columns}, as_text)

    @classmethod
    def of_arrow(
        cls,
        columns: Mapping[str, Any],
        as_text: Iterable[str] = (),
        missing: Iterable[str] | None = None,
    ) -> Frame:
        """Make a frame of Arrow arrays, by their types; see `text_array`."""
        lengths = {len(column) for column in columns.values()}
        if len(lengths) > 1:
            raise TableError(f"The columns have {sorted(lengths)} rows: give them all as many.")
        kept = set(as_text)
        is_text = {n: n in kept or storage_of_type(c.type) != "number" for n, c in columns.items()}
        numbers = [name for name, text in is_text.items() if not text]
        block = np.empty((len(numbers), max(lengths, default=0)))
        for k, name in enumerate(numbers):
            column, end = columns[name], 0
            for chunk in column.chunks if isinstance(column, pa.ChunkedArray) else (column,):
                start, end = end, end + len(chunk)
                block[k, start:end] = number_array(chunk)
        texts = {name: text_array(columns[name], missing) for name, text in is_text.items() if text}
        return cls(block.T, tuple(numbers), texts)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.numbers.shape[0])

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns, those of numbers first."""
        return (*self.number_names, *self.texts)

    @property
    def is_sparse(self) -> bool:
        """Whether the numbers are stored sparsely."""
        return sparse.issparse(self.numbers)

    @cached_property
    def is_too_large(self) -> bool:
        """Whether a number is larger than `LARGEST`, or infinite."""
        values: Any = self.numbers.data if self.is_sparse else self.numbers
        # NaN makes the bounds NaN
        is_within = values.max(initial=0.0) <= LARGEST and values.min(initial=0.0) >= -LARGEST
        return not is_within and bool((np.abs(values) > LARGEST).any())

    def __len__(self) -> int:
        return self.n_rows

    def __repr__(self) -> str:
        def counted(n: int, of: str) -> str:
            return f"{n} column{'s' * (n != 1)} of {of}"

        kinds = f"{counted(len(self.number_names), 'numbers')}, {counted(len(self.texts), 'text')}"
        return f"Frame({self.n_rows} row{'s' * (self.n_rows != 1)}: {kinds})"

    def coded(self, name: str) -> tuple[list[str], Indices]:
        """Return the different texts of a column and the place (n_rows,) of each, -1 if missing."""
        column = self._text(name)
        codes = column.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        return column.dictionary.to_pylist(), codes.astype(np.intp)

    def _text(self, name: str) -> Texts:
        if name in self.texts:
            return self.texts[name]
        return text_array(pa.array(self.column(name), from_pandas=True))

    def column(self, name: str) -> NDArray[Any]:
        """Return one column (n_rows,): numbers with NaN, or strings with None."""
        if name in self.texts:
            values, codes = self.coded(name)
            return np.array([*values, None], dtype=object)[codes]
        block = self.block([name])
        return (block if isinstance(block, np.ndarray) else block.toarray())[:, 0]

    def block(self, names: Sequence[str]) -> Features:
        """Return columns of numbers (n_rows, len(names)), in the order of the names."""
        if tuple(names) == self.number_names:
            return self.numbers
        position = {name: j for j, name in enumerate(self.number_names)}
        absent = [name for name in names if name not in position]
        if absent:
            raise TableError(f"There is no column of numbers named {absent[0]!r}.")
        return self.numbers[:, [position[name] for name in names]]

    def rows(self, index: NDArray[Any] | slice) -> Frame:
        """Return some of the rows."""
        chosen = pa.array(np.arange(self.n_rows)[index])
        texts = {name: column.take(chosen) for name, column in self.texts.items()}
        return Frame(self.numbers[index], self.number_names, texts)

    __getitem__ = rows

    def without(self, names: Sequence[str]) -> Frame:
        """Return the frame without some of its columns."""
        gone = set(names)
        own = (self.number_names, self.texts)
        return self.held(*([name for name in names if name not in gone] for names in own))

    def held(self, numbers: Sequence[str], texts: Sequence[str]) -> Frame:
        """Return some of the columns, held as numbers or as texts."""
        block, columns = self.block(numbers), {name: self._text(name) for name in texts}
        return Frame(block, tuple(numbers), columns)

    @classmethod
    def stacked(cls, frames: Sequence[Frame]) -> Frame:
        """Put frames of the same columns below each other."""
        first = frames[0]
        if len(frames) == 1:
            return first
        blocks: list[Any] = [frame.numbers for frame in frames]
        numbers: Any
        if first.is_sparse:
            numbers = sparse.csr_array(sparse.vstack(blocks, format="csr"))
        else:
            numbers = np.concatenate(blocks)
        texts = {}
        for name in first.texts:
            pieces = pa.chunked_array([frame.texts[name] for frame in frames])
            texts[name] = pieces.unify_dictionaries().combine_chunks()
        return cls(numbers, first.number_names, texts)


def storage_of_type(kind: Any) -> Storage | None:
    """How an Arrow type is held; None if it is neither a number nor a text."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if kind in (pa.null(), pa.bool_()) or pa.types.is_decimal(kind):
        return "number"
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return "number"
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    texts = (kind.value_type,) if is_list else (kind,)
    is_text = all(pa.types.is_string(t) or pa.types.is_large_string(t) for t in texts)
    is_view = kind == pa.string_view()
    return "text" if is_text or is_view or pa.types.is_temporal(kind) else None


def number_array(column: Any) -> Array:
    """Return an Arrow array of numbers (n,), NaN where null."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if column.null_count or not pa.types.is_floating(column.type):
        column = column.cast("float64", safe=False)
    numbers: Array = column.to_numpy(zero_copy_only=False)
    return numbers


def text_array(column: Any, missing: Iterable[str] | None = None) -> Texts:
    """Return any Arrow array as texts; empty ones are null.

    With `missing`, blanks around a text do not count, and those in it, in small letters, are null.
    Whole numbers have no fraction, booleans are True and False, lists are those of JSON.
    """
    if isinstance(column, pa.ChunkedArray):
        if pa.types.is_dictionary(column.type):
            column = column.unify_dictionaries()
        column = column.combine_chunks()
    kind = column.type
    if kind == pa.bool_():
        return pa.DictionaryArray.from_arrays(column.cast("int32"), ["False", "True"])
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        lists = column.to_pylist()
        column = pa.array([None if v is None else json.dumps(v, ensure_ascii=False) for v in lists])
    coded = column if pa.types.is_dictionary(kind) else column.dictionary_encode()
    values = coded.dictionary
    if storage_of_type(values.type) == "number":
        texts = [v if v is None else f"{v:.15g}" for v in values.cast("float64").to_pylist()]
        values = pa.array(texts, "string")
    values = values.cast("string")
    if missing is not None:
        values = pc.utf8_trim_whitespace(values)
    gone = pc.is_in(pc.utf8_lower(values), pa.array(sorted(missing or {""}), "string"))
    if values.equals(coded.dictionary) and not pc.any(gone).as_py():
        return coded.cast(pa.dictionary("int32", "string"))
    return pc.if_else(gone, None, values).take(coded.indices).dictionary_encode()


def as_numbers(cells: Any, missing: Iterable[str], decimal: str = "") -> tuple[Array, Flags]:
    """Return cells (n,) as numbers, NaN where missing, and which of them are neither."""
    cells = pc.utf8_trim_whitespace(cells)
    gone = pc.is_in(pc.utf8_lower(cells), pa.array(sorted(missing), "string"))
    good = pc.and_not(pc.match_substring_regex(cells, rf"^(?:{PATTERNS[decimal]})$"), gone)
    texts = pc.if_else(good, cells, None)
    if decimal:
        other = "." if decimal == "," else ","
        texts = pc.replace_substring_regex(texts, f"[{re.escape(other)}{BLANKS}]", "")
        texts = pc.replace_substring(texts, decimal, ".")
    values = pc.replace_substring_regex(texts, r"^\+", "").cast("float64")
    numbers: Array = values.to_numpy(zero_copy_only=False)
    odd: Flags = ~pc.or_(good, gone).to_numpy(zero_copy_only=False) | np.isinf(numbers)
    return numbers, odd


def _as_arrow(column: Any) -> Any:
    """Return a column of any library as an Arrow array; what is of several types as texts."""
    if isinstance(column, nw.Series):
        try:
            return column.to_arrow()
        except (pa.ArrowException, TypeError):
            column = column.to_list()
    try:
        return pa.array(column, from_pandas=True)
    except (pa.ArrowException, TypeError):
        texts = [None if is_missing(v) else str(v) for v in column]
        return pa.array(texts, "string")
