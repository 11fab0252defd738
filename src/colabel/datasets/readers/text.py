"""Opening text files and naming places in them, shared by the readers."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from os import PathLike
from pathlib import Path
from typing import TextIO, TypeAlias

from colabel.datasets.dataset import DatasetError

FilePath: TypeAlias = str | PathLike[str]

_LONGEST_LINE = 1 << 24  # characters; a small compressed file can unpack to one endless line


@contextmanager
def open_text(path: FilePath, encoding: str = "utf-8") -> Iterator[TextIO]:
    """Open a text file, gzip-compressed when its name ends in .gz.

    What goes wrong while reading (no such file, wrong encoding, broken compression) comes out as
    a DatasetError that names the file.
    """
    file = Path(path)
    codec = "utf-8-sig" if encoding.lower().replace("_", "-") in ("utf-8", "utf8") else encoding
    try:
        with (
            gzip.open(file, "rb") if file.suffix == ".gz" else file.open("rb") as raw,
            TextIOWrapper(raw, encoding=codec, newline=None) as text,
        ):
            yield text
    except FileNotFoundError as error:
        raise DatasetError(f"There is no file {file}: check the path.") from error
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


def lines_of(text: TextIO, path: FilePath) -> Iterator[str]:
    """Give the lines of a file one after the other, none of them endless."""
    number = 0
    while line := text.readline(_LONGEST_LINE):
        number += 1
        if len(line) == _LONGEST_LINE:
            raise at(
                path,
                number,
                f"the line is longer than {_LONGEST_LINE} characters: is this a table, with its "
                "rows on lines of their own?",
            )
        yield line


def at(path: FilePath, line: int, problem: str) -> DatasetError:
    """Return (not raise) a DatasetError for a problem in one line of a file."""
    return DatasetError(f"{path}, line {line}: {problem}")


def shown(text: str, limit: int = 60) -> str:
    """Quote a piece of a file for an error message, cut short."""
    return repr(text if len(text) <= limit else text[:limit] + "…")
