"""Records of arrays as bytes and back: JSON and .npy, so that reading them runs nothing.

What passes over rows result in: numbers, texts, arrays, CSR matrices, lists, tuples, dictionaries,
and the records (named tuples and dataclasses) of some packages of this library.
"""

from __future__ import annotations

import dataclasses
import importlib
import io
import json
from typing import Any

import numpy as np
import scipy.sparse as sp

# Records are made only of these packages: making one does nothing else.
_PACKAGES = ("colabel.learn.", "colabel.labels.")
_DEEPEST = 64


def to_bytes(value: Any) -> bytes:
    """Return a value as bytes; TypeError for what is no plain value.

    Examples
    --------
    >>> import numpy as np
    >>> from colabel.core.plain_values import from_bytes, to_bytes
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
        found = np.empty(len(values), dtype=object)
        found[:] = each(values)
        return found.reshape(shape)
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
    found = getattr(importlib.import_module(module), name)
    _field_names(found)
    return found


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
