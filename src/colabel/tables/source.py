"""What all readers of tables share: frames, sources, errors, and files read by blocks of lines.

Text files are read as UTF-8, a block of whole lines at a time.
"""

from __future__ import annotations

import gzip
import io
import json
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TextIO, TypeAlias

import narwhals.stable.v2 as nw
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy import sparse

from colabel.core.arrays import Array, Flags, Indices, is_sparse
from colabel.labels.columns import is_missing

if TYPE_CHECKING:
    from numpy.typing import NDArray

    SparseFeatures: TypeAlias = sparse.csr_array[np.float64, tuple[int, int]]
    Features: TypeAlias = Array | SparseFeatures

FilePath: TypeAlias = str | PathLike[str]

LONGEST_LINE = 1 << 24  # characters; a small compressed file can unpack to one endless line


class TableError(ValueError):
    """A table cannot be read or used as asked; the message says what to do."""


@dataclass(frozen=True)
class ReadingOptions:
    """How a file is read.

    Attributes
    ----------
    delimiter : str
        What separates the values of a CSV file; "" finds out from its first line.
    encoding : str
        Of a text file; UTF-16 is recognised.
    missing : tuple of str
        Texts that mean "missing", beside the empty cell, ?, NA, NaN and null.
    as_text : tuple of str
        Columns that are text even if they hold only numbers.
    decimal : {"", ".", ","}
        What stands before the fraction of a number in a CSV file; the other, a blank or an
        apostrophe may separate thousands. "" finds out, with a warning where it is not the point.
    """

    delimiter: str = ""
    encoding: str = "utf-8"
    missing: tuple[str, ...] = ()
    as_text: tuple[str, ...] = ()
    decimal: str = ""


PLAIN = ReadingOptions()
"""The default options."""


def no_file(path: FilePath) -> TableError:
    """Return the error for a missing file, with the name of one that differs by case only."""
    file = Path(path)
    alike = []
    if file.parent.is_dir():
        alike = [f.name for f in file.parent.iterdir() if f.name.lower() == file.name.lower()]
    hint = f"there is {alike[0]}" if alike else "check the path"
    return TableError(f"There is no file {file}: {hint}.")


def state_of(file: Path) -> tuple[int, int]:
    """Size and time of the last change of a file."""
    state = file.stat()
    return state.st_size, state.st_mtime_ns


def not_decoded(path: FilePath, encoding: str, error: UnicodeDecodeError) -> TableError:
    """Return the error for a file that has another encoding."""
    return TableError(
        f"{path} is not {encoding} text (byte {error.object[error.start]:#04x} cannot be decoded): "
        "say which encoding it has, for example --encoding latin-1, or "
        'encoding="latin-1" in Python.'
    )


def shown(text: str, limit: int = 60) -> str:
    """Quote a piece of a file for an error message, cut short."""
    return repr(text if len(text) <= limit else text[:limit] + "…")


def written_value(value: Any, digits: int = 4, limit: int = 40) -> str:
    """Write a number or text of a table for people, cut short; nothing where it is missing."""
    if value is None or value != value:
        return ""
    text = " ".join(value.split()) if isinstance(value, str) else f"{value:.{digits}g}"
    return text if len(text) <= limit else text[: limit - 1] + "…"


def listed(names: Sequence[str], limit: int = 6) -> str:
    """Quote the first of some names for an error message."""
    return ", ".join(map(repr, names[:limit])) + (", …" if len(names) > limit else "")


def first_repeat(names: Sequence[str]) -> str | None:
    """Return the first repeated name of a list, in linear time."""
    seen: set[str] = set()
    return next((name for name in names if name in seen or seen.add(name)), None)  # type: ignore[func-returns-value]


@contextmanager
def open_text(path: Path, encoding: str = "utf-8") -> Iterator[TextIO]:
    """Open a text file, gzip-compressed when its name ends in .gz; UTF-16 is recognised.

    A missing file, a wrong encoding or broken compression raises a TableError that names the file.
    """
    codec = "utf-8-sig" if encoding.lower().replace("_", "-") in ("utf-8", "utf8") else encoding
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as raw:
            start = raw.read(64)
            raw.seek(0)
            even, odd = start[::2], start[1::2]
            forms = ((odd, even, "utf-16-le"), (even, odd, "utf-16-be"))
            for zeros, letters, form in forms if codec == "utf-8-sig" else ():
                if len(zeros) > 1 and zeros.count(0) > len(zeros) / 2 and not letters.count(0):
                    codec = form
            if codec != encoding and start[:2] in (b"\xff\xfe", b"\xfe\xff"):
                codec = "utf-16"
            try:
                text = io.TextIOWrapper(raw, encoding=codec, newline=None)
            except LookupError as error:
                raise TableError(
                    f"Python knows no encoding {encoding!r}: use for example utf-8."
                ) from error
            with text:
                yield text
    except FileNotFoundError as error:
        raise no_file(path) from error
    except UnicodeDecodeError as error:
        raise not_decoded(path, encoding, error) from error
    except (OSError, EOFError) as error:
        raise TableError(f"{path} cannot be read: {error}. Fetch the file again.") from error


Take: TypeAlias = Callable[..., tuple[bytes, int]]
"""Takes the next `n_lines` lines of a file (0 for all), but no more than about `n_bytes`.

Returns the lines, none at the end of the file, and how many came before them.
"""


@contextmanager
def open_blocks(path: Path, encoding: str = "utf-8", quote: bytes = b"") -> Iterator[Take]:
    r"""Open a text file to read it in blocks of lines, as UTF-8 with "\n" as the end of a line.

    A block is not cut into its lines, and a file in UTF-8 is not decoded. No block ends within
    quotes, where a value may span several lines.
    """
    with open_text(path, encoding) as text:
        raw: Any = text.buffer
        start = raw.read(1 << 20)
        # Python itself reads lines that end in \r alone
        is_plain = text.encoding == "utf-8-sig" and not re.search(rb"\r(?!\n|\Z)", start)
        raw.seek(3 if is_plain and start.startswith(b"\xef\xbb\xbf") else 0)
        stream: Any = raw if is_plain else text
        n_before = 0

        def take(n_lines: int = 1, n_bytes: int = 1 << 62) -> tuple[bytes, int]:
            nonlocal n_before
            first = stream.read(0 if n_lines else n_bytes)
            pieces = [first if is_plain else first.encode()]
            size = closed = len(pieces[0])
            # to find is faster than to count
            is_open = bool(quote) and quote in pieces[0] and pieces[0].count(quote) % 2 == 1
            while (
                len(pieces) == 1
                or (len(pieces) <= n_lines and size < n_bytes)
                or (is_open and size - closed < LONGEST_LINE)
            ):
                line = stream.readline(LONGEST_LINE)
                line = line if is_plain else line.encode()
                if len(line) >= LONGEST_LINE and not line.endswith(b"\n"):
                    number = n_before + sum(piece.count(b"\n") for piece in pieces) + 1
                    raise TableError(
                        f"{path}, line {number}: the line is longer than {LONGEST_LINE} characters:"
                        " is this a table, with its rows on lines of their own?"
                    )
                if not line:
                    break
                pieces.append(line)
                size += len(line)
                is_open ^= bool(quote) and line.count(quote) % 2 == 1
                closed = closed if is_open else size
            block = b"".join(pieces)
            if b"\r" in block:
                block = block.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
            before = n_before
            # NumPy counts faster than bytes do
            n_before += int(np.count_nonzero(np.frombuffer(block, dtype=np.uint8) == 10))
            return block, before

        yield take


Storage: TypeAlias = Literal["number", "text"]
"""How a column is held."""

Texts: TypeAlias = "pa.DictionaryArray"
"""Strings as indices into a list of distinct ones; null where missing."""

LARGEST = 1e100
"""The squares of larger numbers may overflow when columns are scaled."""


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
"""Regular expressions of numbers by decimal separator; "" for a point without thousands."""


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
        """Make a frame of Arrow arrays, according to their types; see `text_array`."""
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
                if pa.types.is_dictionary(chunk.type):
                    chunk = chunk.cast(chunk.type.value_type)
                if chunk.null_count or not pa.types.is_floating(chunk.type):
                    chunk = chunk.cast("float64", safe=False)
                block[k, start:end] = chunk.to_numpy(zero_copy_only=False)
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
        """Return the distinct texts of a column and the codes (n_rows,) of rows, -1 if missing."""
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
        """Return some of the columns, as numbers or as texts."""
        block, columns = self.block(numbers), {name: self._text(name) for name in texts}
        return Frame(block, tuple(numbers), columns)

    @classmethod
    def stacked(cls, frames: Sequence[Frame]) -> Frame:
        """Concatenate the rows of frames with the same columns."""
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
    """Return how an Arrow type is held; None if it is neither a number nor a text."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    types = pa.types
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return "number"
    if kind in (pa.null(), pa.bool_()):
        return "number"
    own = kind.value_type if types.is_list(kind) or types.is_large_list(kind) else kind
    is_text = types.is_string(own) or types.is_large_string(own) or kind == pa.string_view()
    return "text" if is_text or types.is_temporal(kind) else None


def text_array(column: Any, missing: Iterable[str] | None = None) -> Texts:
    """Return any Arrow array as texts; empty ones are null.

    With `missing`, blanks around a text are removed, and texts that are in it when written in lower
    case become null. Whole numbers are written without a fraction, booleans as True and False,
    lists as JSON.
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
    """Return cells (n,) as numbers, NaN where missing, and flags of those that are neither."""
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
    """Return a column of any library as an Arrow array; values of mixed types become texts."""
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


Count = Callable[[int], None]
"""Receives the number of rows read since its last call."""


def ignore(n_rows: int) -> None:
    """Count nothing."""


@dataclass(frozen=True, slots=True)
class Seen:
    """Numbers of values in a column and of those that are not numbers, and the first of these.

    A column whose type the file declares counts as one value, without a place.
    """

    n_values: int
    n_odd: int
    odd: tuple[str, Path, int] | None = None  # text, file and line

    def __add__(self, other: Seen) -> Seen:
        odd = self.odd or other.odd
        return Seen(self.n_values + other.n_values, self.n_odd + other.n_odd, odd)


def added(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Add the counts of two groups of rows by name; one group may lack some names."""
    return {**one, **other, **{n: own + other[n] for n, own in one.items() if n in other}}


def storage_of(seen: Mapping[str, Seen], as_text: Container[str] = ()) -> dict[str, Storage]:
    """Return how to hold each column: as numbers, or as text if it is in `as_text` or holds any.

    If at least half of the values are numbers and the others are not, these may be mistakes or
    codes. Only the user knows, so it is an error.
    """
    for name, own in seen.items():
        n_values, n_odd, odd = own.n_values, own.n_odd, own.odd
        if not n_odd or name in as_text:
            continue
        if odd and 2 * n_odd <= n_values:
            text, path, line = odd
            raise TableError(
                f"{path}, line {line}: the column {name!r} holds {shown(text)}, while "
                f"{n_values - n_odd} of its {n_values} values are finite numbers: correct it, "
                "leave it empty, name the column as a category (--category), or the text as "
                "missing (--missing)."
            )
        if odd is None and n_odd < n_values:
            raise TableError(
                f"The column {name!r} holds texts in some parts and numbers in others: make them "
                "alike."
            )
    return {n: "text" if own.n_odd or n in as_text else "number" for n, own in seen.items()}


class Source:
    """A file of some format.

    Attributes
    ----------
    path : Path
    names : tuple of str
        The columns that it offers.
    as_text : frozenset of str
        Columns that are text even if they hold only numbers.
    labels : sequence of str
        The columns that the file itself declares as labels.
    """

    path: Path
    names: tuple[str, ...]
    as_text: frozenset[str]
    labels: Sequence[str] = ()

    def seen(self, count: Count = ignore) -> dict[str, Seen]:
        """Return what the columns hold."""
        raise NotImplementedError

    def storage(self) -> dict[str, Storage]:
        """Return the columns, and how to hold each."""
        return storage_of(self.seen(), self.as_text)

    def chunks(self, storage: Mapping[str, Storage], n_rows: int) -> Iterator[Frame]:
        """Read the columns in `storage`, n_rows at a time."""
        raise NotImplementedError
