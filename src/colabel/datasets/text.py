"""Opening text files and naming places in them, shared by the readers."""

from __future__ import annotations

import gzip
import io
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import TextIO, TypeAlias

from colabel.datasets.dataset import DatasetError

FilePath: TypeAlias = str | PathLike[str]

LONGEST_LINE = 1 << 24  # characters; a small compressed file can unpack to one endless line


def no_file(path: FilePath) -> DatasetError:
    """Return the error for a file that is not there; one whose name differs by case is named."""
    file = Path(path)
    alike = []
    if file.parent.is_dir():
        alike = [f.name for f in file.parent.iterdir() if f.name.lower() == file.name.lower()]
    hint = f"there is {alike[0]}" if alike else "check the path"
    return DatasetError(f"There is no file {file}: {hint}.")


@contextmanager
def open_text(path: FilePath, encoding: str = "utf-8") -> Iterator[TextIO]:
    """Open a text file, gzip-compressed when its name ends in .gz; UTF-16 is recognised.

    What goes wrong while reading (no such file, wrong encoding, broken compression) comes out as
    a DatasetError that names the file.
    """
    file = Path(path)
    codec = "utf-8-sig" if encoding.lower().replace("_", "-") in ("utf-8", "utf8") else encoding
    try:
        with gzip.open(file, "rb") if file.suffix == ".gz" else file.open("rb") as raw:
            start = raw.read(64)
            raw.seek(0)
            if codec == "utf-8-sig":
                codec = _utf_16(start) or codec
            with io.TextIOWrapper(raw, encoding=codec, newline=None) as text:
                yield text
    except FileNotFoundError as error:
        raise no_file(file) from error
    except UnicodeDecodeError as error:
        raise DatasetError(
            f"{file} is not {encoding} text (byte {error.object[error.start]:#04x} cannot be "
            "decoded): say which encoding it has, for example --encoding latin-1, or "
            'encoding="latin-1" in Python.'
        ) from error
    except LookupError as error:
        raise DatasetError(
            f"Python knows no encoding {encoding!r}: use for example utf-8."
        ) from error
    except (OSError, EOFError) as error:
        raise DatasetError(f"{file} cannot be read: {error}. Fetch the file again.") from error


def _utf_16(start: bytes) -> str:
    """Return the form of UTF-16 that the first bytes of a file are in; "" for none."""
    if start[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return "utf-16"
    even, odd = start[::2], start[1::2]
    for zeros, letters, codec in ((odd, even, "utf-16-le"), (even, odd, "utf-16-be")):
        if len(zeros) > 1 and zeros.count(0) > len(zeros) / 2 and not letters.count(0):
            return codec
    return ""


def lines_of(text: TextIO, path: FilePath, before: int = 0) -> Iterator[str]:
    """Give the lines of a file one after the other, none of them endless.

    `before` is how many were read already.
    """
    number = before
    while line := text.readline(LONGEST_LINE):
        number += 1
        if len(line) == LONGEST_LINE:
            raise at(
                path,
                number,
                f"the line is longer than {LONGEST_LINE} characters: is this a table, with its "
                "rows on lines of their own?",
            )
        yield line


def blocks_of(text: TextIO, path: FilePath, n_lines: int, before: int) -> Iterator[tuple[str, int]]:
    """Give about `n_lines` lines of a file at a time, as one text, and how many came before them.

    The first block has as many lines as asked for; the others have as many characters, and end with
    a line. So a long file is not cut into lines that need not be known one by one. No block ends
    within quotes, where a value may run over several lines.
    """
    block = "".join(islice(lines_of(text, path, before), n_lines))
    n_characters = len(block)
    while block:
        if not block.endswith("\n"):
            block += next(lines_of(text, path, before + block.count("\n")), "")
        is_open, more = '"' in block and block.count('"') % 2, list[str]()
        while is_open and sum(map(len, more)) < LONGEST_LINE:
            line = next(lines_of(text, path, before + n_newlines(block) + len(more)), "")
            if not line:
                break
            more.append(line)
            is_open ^= line.count('"') % 2
        block += "".join(more)
        yield block, before
        before += n_newlines(block)
        block = text.read(n_characters)


def n_newlines(block: str) -> int:
    """How many lines a block has; the last of a file may lack its end."""
    return block.count("\n") + (not block.endswith("\n"))


def first_repeat(names: list[str] | tuple[str, ...]) -> str | None:
    """Return the first name that has stood before, in one pass however long the list is."""
    seen: set[str] = set()
    return next((name for name in names if name in seen or seen.add(name)), None)  # type: ignore[func-returns-value]


def at(path: FilePath, line: int, problem: str) -> DatasetError:
    """Return (not raise) a DatasetError for a problem in one line of a file."""
    return DatasetError(f"{path}, line {line}: {problem}")


def shown(text: str, limit: int = 60) -> str:
    """Quote a piece of a file for an error message, cut short."""
    return repr(text if len(text) <= limit else text[:limit] + "…")
