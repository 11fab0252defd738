"""What all files of rows have in common: how they are read, errors, columns, and rows by chunks.

Text files are read as UTF-8, a block of whole lines at a time.
"""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from colabel.tables.frame import Frame, Storage

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
"""How a file is read of which nothing is said."""


def no_file(path: FilePath) -> TableError:
    """Return the error for a file that is not there; one whose name differs by case is named."""
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
    """Return the first name that has stood before, in one pass however long the list is."""
    seen: set[str] = set()
    return next((name for name in names if name in seen or seen.add(name)), None)  # type: ignore[func-returns-value]


@contextmanager
def open_text(path: Path, encoding: str = "utf-8") -> Iterator[TextIO]:
    """Open a text file, gzip-compressed when its name ends in .gz; UTF-16 is recognised.

    What goes wrong while reading (no such file, wrong encoding, broken compression) comes out as
    a TableError that names the file.
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
    """Open a text file to be read a block of lines at a time, as UTF-8 with plain ends of lines.

    A long file is not cut into lines that need not be known one by one, and one that is UTF-8 is
    not decoded. No block ends within quotes, where a value may run over several lines.
    """
    with open_text(path, encoding) as text:
        is_plain = text.encoding == "utf-8-sig"
        raw: io.BufferedReader = text.buffer  # type: ignore[assignment]
        held, n_before, is_first = b"", 0, True

        def more(n_bytes: int) -> bool:
            nonlocal held, is_first
            piece = raw.read(n_bytes) if is_plain else text.read(n_bytes).encode()
            if b"\r" in piece and is_plain:
                piece += raw.read(1) if piece.endswith(b"\r") else b""
                piece = piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
            held += piece.removeprefix(b"\xef\xbb\xbf") if is_first and is_plain else piece
            is_first = False
            return bool(piece)

        def line_end(start: int) -> int:
            """Return where the line at a place ends, reading on if need be."""
            while not (end := held.find(b"\n", start) + 1):
                if len(held) - start >= LONGEST_LINE:
                    line = n_before + held.count(b"\n", 0, start) + 1
                    raise TableError(
                        f"{path}, line {line}: the line is longer than {LONGEST_LINE} characters: "
                        "is this a table, with its rows on lines of their own?"
                    )
                if not more(1 << 20):
                    return len(held)
            return end

        def take(n_lines: int = 1, n_bytes: int = 1 << 62) -> tuple[bytes, int]:
            nonlocal held, n_before
            end = 0
            for _ in range(n_lines):
                end = line_end(end)
                if end >= n_bytes:
                    break
            if not n_lines:
                while len(held) < n_bytes and more(n_bytes - len(held)):
                    pass
                end = held.rfind(b"\n", 0, n_bytes) + 1 if len(held) >= n_bytes else len(held)
                end = end or line_end(0)
            if quote and quote in held:
                is_open, limit = held.count(quote, 0, end) % 2, end + LONGEST_LINE
                while is_open and end < limit and (end < len(held) or more(1 << 20)):
                    start, end = end, line_end(end)
                    is_open ^= held.count(quote, start, end) % 2
            block, held, before = held[:end], held[end:], n_before
            # NumPy counts faster than bytes do
            n_before += int(np.count_nonzero(np.frombuffer(block, dtype=np.uint8) == 10))
            return block, before

        yield take


Count = Callable[[int], None]
"""Is told how many rows were read since it was called last."""


def ignore(n_rows: int) -> None:
    """Count nothing."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What a column was seen to hold: values, those that are no number, and the first of these.

    A file that says the type of its columns counts as one value, and names no place.
    """

    n_values: int
    n_odd: int
    odd: tuple[str, Path, int] | None = None  # text, file and line

    def __add__(self, other: Seen) -> Seen:
        odd = self.odd or other.odd
        return Seen(self.n_values + other.n_values, self.n_odd + other.n_odd, odd)


def added(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Add, name by name, what was counted in two groups of rows; one may lack some names."""
    return {**one, **other, **{n: own + other[n] for n, own in one.items() if n in other}}


def storage_of(seen: Mapping[str, Seen], as_text: Container[str] = ()) -> dict[str, Storage]:
    """How columns are best held: those of `as_text` as texts.

    Where at least half of the values are numbers and others are not, it may be a typing
    mistake or a code, and only the user knows: an error.
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
        The columns that the file itself says to be labels.
    """

    path: Path
    names: tuple[str, ...]
    as_text: frozenset[str]
    labels: Sequence[str] = ()

    def seen(self, count: Count = ignore) -> dict[str, Seen]:
        """Return what the columns hold."""
        raise NotImplementedError

    def storage(self) -> dict[str, Storage]:
        """Return the columns, and how each is best held."""
        return storage_of(self.seen(), self.as_text)

    def chunks(self, storage: Mapping[str, Storage], n_rows: int) -> Iterator[Frame]:
        """Read the columns in `storage`, n_rows at a time."""
        raise NotImplementedError
