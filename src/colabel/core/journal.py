"""Results of the steps of a long computation, in a file, so that it can go on where it was stopped.

The computation must be deterministic: begun again it asks for the same steps in the same order, and
is given the results that are there instead of computing them.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Self

from colabel.core.plain_values import from_bytes, to_bytes

_MAGIC = b"colabel journal 2\n"
_DIGEST = 16  # bytes
_LENGTH = 8


class JournalError(ValueError):
    """A journal cannot be used; the message says what to do."""


class Journal:
    """A file of results, read from its beginning, then added to.

    Parameters
    ----------
    path : Path
    key : str
        What is computed of what: a file of another key is refused. What a stopped process has left
        incomplete at the end of the file is cut off.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> folder = tempfile.TemporaryDirectory()
    >>> file = pathlib.Path(folder.name) / "fit.journal"
    >>> with Journal(file, "a fit") as journal:
    ...     print(journal.next())
    ...     journal.add((1.5,))
    None
    >>> with Journal(file, "a fit") as journal:
    ...     print(journal.n_recorded, journal.next(), journal.next())
    1 (1.5,) None
    >>> folder.cleanup()
    """

    def __init__(self, path: Path, key: str) -> None:
        head = _MAGIC + hashlib.blake2b(key.encode(), digest_size=_DIGEST).digest()
        self._recorded: Iterator[tuple[Any, ...]] = iter(())
        self.n_recorded = 0
        if path.exists() and not path.is_file():
            raise JournalError(f"{path} is no file: name another for the checkpoint.")
        exists = path.exists() and path.stat().st_size > 0
        self._file: BinaryIO = path.open("r+b" if exists else "w+b")
        if not exists:
            self._file.write(head)
            self._file.flush()
            return
        found = self._file.read(len(head))
        if found != head:
            self._file.close()
            what = "of another fit" if found.startswith(_MAGIC) else "no checkpoint"
            raise JournalError(
                f"{path} is {what}: give the command, the files and the version of colabel that it "
                "was begun with, or name another file."
            )
        results, end = [], self._file.tell()
        while (payload := _framed(self._file)) is not None:
            results.append(_plain(payload, path))
            end = self._file.tell()
        self._file.seek(end)
        self._file.truncate()
        self._recorded, self.n_recorded = iter(results), len(results)

    def next(self) -> tuple[Any, ...] | None:
        """Return the next result that is there; None when all were returned."""
        return next(self._recorded, None)

    def add(self, result: tuple[Any, ...]) -> None:
        """Write the result of another step."""
        payload = to_bytes(result)
        digest = hashlib.blake2b(payload, digest_size=_DIGEST).digest()
        self._file.write(len(payload).to_bytes(_LENGTH, "big") + digest + payload)
        self._file.flush()
        os.fsync(self._file.fileno())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()


def _framed(file: BinaryIO) -> bytes | None:
    """Read the next payload; None at the end, or where it is incomplete."""
    head = file.read(_LENGTH + _DIGEST)
    if len(head) < _LENGTH + _DIGEST:
        return None
    length = int.from_bytes(head[:_LENGTH], "big")
    if length > os.fstat(file.fileno()).st_size:  # never written so: nothing is read of it
        return None
    payload = file.read(length)
    right = hashlib.blake2b(payload, digest_size=_DIGEST).digest() == head[_LENGTH:]
    return payload if right else None


def _plain(payload: bytes, path: Path) -> tuple[Any, ...]:
    try:
        result = from_bytes(payload)
    except ValueError as error:
        raise JournalError(
            f"{path} holds what no fit has written ({' '.join(str(error).split())}): remove it."
        ) from error
    if not isinstance(result, tuple):
        raise JournalError(f"{path} holds what no fit has written: remove it.")
    return result
