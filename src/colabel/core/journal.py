"""A file of the results of a long computation, which can then go on where it was stopped.

The computation must be deterministic: when it starts again, it asks for the same steps in the same
order, and receives the recorded results instead of computing them. They are written as model files
are (`colabel.core.content`), so that reading them runs nothing. They may hold numbers, texts,
arrays, CSR matrices, lists, tuples, dictionaries, objects of declared types, and the records (named
tuples and dataclasses) of some packages of this library.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib
import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Self

from colabel.core.content import Archive, CannotBeWrittenError, Written, write_archive
from colabel.core.schema import DECLARED, Declared, Unchecked, declared_for

_MAGIC = b"colabel journal 3\n"
_DIGEST = 16  # bytes
_LENGTH = 8
# Records are made only of these packages: making one does nothing else.
_PACKAGES = ("colabel.learn.", "colabel.labels.")


class JournalError(ValueError):
    """A journal cannot be used; the message says what to do."""


class Journal:
    """A file of results, read from its beginning, then added to.

    Parameters
    ----------
    path : Path
    key : str
        Describes the computation and its data: a file with another key is refused. An incomplete
        result at the end of the file, which a stopped process has left, is cut off.

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
        head = _MAGIC + _digest(key.encode())
        if path.exists() and not path.is_file():
            raise JournalError(f"{path} is no file: name another for the checkpoint.")
        exists = path.exists() and path.stat().st_size > 0
        self._file: BinaryIO = path.open("r+b" if exists else "w+b")
        begins = self._file.read(len(head))
        if not exists:
            self._file.write(head)
        elif begins != head:
            self._file.close()
            what = "of another fit" if begins.startswith(_MAGIC) else "no checkpoint"
            raise JournalError(
                f"{path} is {what}: give the command, the files and the version of colabel that it "
                "was begun with, or name another file."
            )
        results, end = [], self._file.tell()
        while (payload := _framed(self._file)) is not None:
            results.append(_result(payload, path))
            end = self._file.tell()
        self._file.seek(end)
        self._file.truncate()
        self._recorded: Iterator[tuple[Any, ...]] = iter(results)
        self.n_recorded = len(results)

    def next(self) -> tuple[Any, ...] | None:
        """Return the next recorded result; None after the last."""
        return next(self._recorded, None)

    def add(self, result: tuple[Any, ...]) -> None:
        """Write the result of another step; CannotBeWrittenError unless it is plain data."""
        payload = to_bytes(result)
        self._file.write(len(payload).to_bytes(_LENGTH, "big") + _digest(payload) + payload)
        self._file.flush()
        os.fsync(self._file.fileno())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()


def to_bytes(value: Any) -> bytes:
    """Return plain data and records of colabel as bytes; CannotBeWrittenError for what is not.

    Examples
    --------
    >>> import numpy as np
    >>> from colabel.core.journal import from_bytes, to_bytes
    >>> from_bytes(to_bytes((1, [2.5, None], {"a": np.array([1, 2])})))
    (1, [2.5, None], {'a': array([1, 2])})
    """
    out = io.BytesIO()
    content = Written(value, lambda value: declared_for(value) or _record(type(value)))
    if content.foreign:
        raise CannotBeWrittenError(f"it holds {content.foreign[0]!r}, which is no plain data")
    write_archive(out, content, {})
    return out.getvalue()


def from_bytes(content: bytes) -> Any:
    """Return the value of bytes that `to_bytes` made; errors of many kinds for others."""
    # there are no objects of foreign types: every position is out of range
    return Archive(io.BytesIO(content)).made(().__getitem__, _by_tag)


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=_DIGEST).digest()


def _framed(file: BinaryIO) -> bytes | None:
    """Read the next payload; None at the end, or where it is incomplete."""
    head = file.read(_LENGTH + _DIGEST)
    length = int.from_bytes(head[:_LENGTH], "big")
    if length > os.fstat(file.fileno()).st_size:  # never written so: nothing is read of it
        return None
    payload = file.read(length)
    return payload if head[_LENGTH:] == _digest(payload) else None


def _result(payload: bytes, path: Path) -> tuple[Any, ...]:
    try:
        result = from_bytes(payload)
        if not isinstance(result, tuple):
            raise ValueError(f"a {type(result).__name__}")
    except Exception as error:  # damage takes many forms
        raise JournalError(
            f"{path} holds what no fit has written ({' '.join(str(error).split())}): remove it."
        ) from error
    return result


def _record(kind: Any) -> Declared | None:
    """Return the declaration of a record of some packages; None for other types."""
    ours = isinstance(kind, type) and kind.__module__.startswith(_PACKAGES)
    if not (ours and (dataclasses.is_dataclass(kind) or hasattr(kind, "_fields"))):
        return None
    return Declared(f"{kind.__module__}:{kind.__name__}", kind, spec=object, others=Unchecked)


def _by_tag(tag: str) -> Declared:
    """Return the declaration of a type; KeyError if there is none."""
    module, _, name = tag.partition(":")
    if name and module.startswith(_PACKAGES):
        record = _record(getattr(importlib.import_module(module), name))
        return DECLARED[tag] if record is None else record
    return DECLARED[tag]
