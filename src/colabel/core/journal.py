"""Results of the steps of a long computation, in a file, so that it can go on where it was stopped.

The computation must be deterministic: begun again it asks for the same steps in the same order, and
is given the results that are there instead of computing them. They are written as JSON and .npy, so
that reading them runs nothing: numbers, texts, arrays, CSR matrices, lists, tuples, dictionaries,
and the records (named tuples and dataclasses) of some packages of this library.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib
import io
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Self

import numpy as np
import scipy.sparse as sp

_MAGIC = b"colabel journal 2\n"
_DIGEST = 16  # bytes
_LENGTH = 8
# Records are made only of these packages: making one does nothing else.
_PACKAGES = ("colabel.learn.", "colabel.labels.")
_DEEPEST = 64


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
        begins = self._file.read(len(head))
        if begins != head:
            self._file.close()
            what = "of another fit" if begins.startswith(_MAGIC) else "no checkpoint"
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


def to_bytes(value: Any) -> bytes:
    """Return a value as bytes; TypeError for what is no plain value.

    Examples
    --------
    >>> import numpy as np
    >>> from colabel.core.journal import from_bytes, to_bytes
    >>> from_bytes(to_bytes((1, [2.5, None], {"a": np.array([1, 2])})))
    (1, [2.5, None], {'a': array([1, 2])})
    """
    out = io.BytesIO()
    tree = json.dumps(_written(value, out)).encode()
    return len(tree).to_bytes(8, "big") + tree + out.getvalue()


def from_bytes(content: bytes) -> Any:
    """Return the value of bytes that `to_bytes` made; ValueError for others."""
    length = int.from_bytes(content[:8], "big")
    try:
        tree = json.loads(content[8 : 8 + length])
        return _read(tree, memoryview(content)[8 + length :], 0)
    except Exception as error:  # what JSON and .npy readers raise is of many kinds
        raise ValueError(f"no plain values ({type(error).__name__}: {error})") from error


def _written(value: Any, out: io.BytesIO) -> Any:
    """Return a value as JSON, its arrays written behind each other."""
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, np.ndarray) and value.dtype != object:
        start = out.tell()
        np.save(out, value, allow_pickle=False)
        return {"array": [start, out.tell()]}
    if isinstance(value, np.generic):
        return {"scalar": _written(np.asarray(value), out)}
    if isinstance(value, np.ndarray):
        return {"objects": [list(value.shape), [_written(each, out) for each in value.flat]]}
    if isinstance(value, sp.csr_array | sp.csr_matrix):
        parts = (value.data, value.indices, value.indptr)
        matrix = isinstance(value, sp.csr_matrix)
        return {"csr": [matrix, list(value.shape), [_written(part, out) for part in parts]]}
    if type(value) in (list, tuple, set):
        return {type(value).__name__: [_written(each, out) for each in value]}
    if type(value) is dict:
        return {"dict": [[_written(part, out) for part in pair] for pair in value.items()]}
    kind = type(value)
    fields = [_written(getattr(value, name), out) for name in _field_names(kind)]
    return {"record": [kind.__module__, kind.__name__, fields]}


def _read(node: Any, arrays: memoryview, depth: int) -> Any:
    if node is None or isinstance(node, bool | int | float | str):
        return node
    if depth > _DEEPEST:
        raise ValueError("too deep")
    ((kind, content),) = node.items()

    def each(nodes: Any) -> list[Any]:
        return [_read(child, arrays, depth + 1) for child in nodes]

    if kind == "array":
        start, stop = content
        return np.load(io.BytesIO(arrays[start:stop]), allow_pickle=False)
    if kind == "scalar":
        return _read(content, arrays, depth + 1)[()]
    if kind == "objects":
        shape, values = content
        objects = np.empty(len(values), dtype=object)
        objects[:] = each(values)
        return objects.reshape(shape)
    if kind == "csr":
        matrix, shape, parts = content
        made = (sp.csr_matrix if matrix else sp.csr_array)(tuple(each(parts)), shape=tuple(shape))
        made.check_format(full_check=True)
        return made
    if kind == "dict":
        return dict(each(pair) for pair in content)
    if kind == "record":
        module, name, fields = content
        return _record(module, name)(*each(fields))
    return {"list": list, "tuple": tuple, "set": set}[kind](each(content))


def _record(module: str, name: str) -> Any:
    """Return the class of a record."""
    if not module.startswith(_PACKAGES):
        raise ValueError(f"no record {module}.{name}")
    kind = getattr(importlib.import_module(module), name)
    _field_names(kind)
    return kind


def _field_names(kind: Any) -> list[str]:
    """Names of the fields of a record, in the order of its constructor."""
    module = getattr(kind, "__module__", "")
    if isinstance(kind, type) and module.startswith(_PACKAGES):
        if issubclass(kind, tuple) and hasattr(kind, "_fields"):
            return list(kind._fields)
        if dataclasses.is_dataclass(kind):
            fields = dataclasses.fields(kind)
            if all(field.init and not field.kw_only for field in fields):
                return [field.name for field in fields]
    raise TypeError(f"{kind!r} is no plain value")
