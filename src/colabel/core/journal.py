"""Results of the steps of a long computation, in a file, so that it can go on where it was stopped.

The computation must be deterministic: begun again it asks for the same steps in the same order, and
is given the results that are there instead of computing them.
"""

from __future__ import annotations

import hashlib
import io
import os
import pickle
from collections.abc import Iterator
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any, BinaryIO, Self

_MAGIC = b"colabel journal 1\n"
_DIGEST = 16  # bytes
_LENGTH = 8
# What results are made of, beside records of colabel.
_NUMPY = {
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
    ("numpy._core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "scalar"),
    ("numpy._core.numeric", "_frombuffer"),
}
_SPARSE = {("scipy.sparse._csr", "csr_array"), ("scipy.sparse._csr", "csr_matrix")}


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
        payload = pickle.dumps(result, protocol=5)
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
    payload = file.read(int.from_bytes(head[:_LENGTH], "big"))
    right = hashlib.blake2b(payload, digest_size=_DIGEST).digest() == head[_LENGTH:]
    return payload if right else None


class _Unpickler(pickle.Unpickler):
    """Makes arrays and records of colabel, and calls nothing else: a file may be of anybody."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in _NUMPY | _SPARSE:
            return super().find_class(module, name)
        if module.startswith("colabel.") and "." not in name:
            found = super().find_class(module, name)
            # records: making one does nothing else
            if isinstance(found, type) and (issubclass(found, tuple) or is_dataclass(found)):
                return found
        raise pickle.UnpicklingError(f"{module}.{name}")


def _plain(payload: bytes, path: Path) -> tuple[Any, ...]:
    try:
        result = _Unpickler(io.BytesIO(payload)).load()
    except Exception as error:
        raise JournalError(
            f"{path} holds what no fit has written ({' '.join(str(error).split())}): remove it."
        ) from error
    if not isinstance(result, tuple):
        raise JournalError(f"{path} holds what no fit has written: remove it.")
    return result
