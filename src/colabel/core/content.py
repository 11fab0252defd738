"""Values as data: a zip archive of a list of objects in JSON, and arrays beside it.

Nothing in the archive is compressed, and all members together are no larger than the file, so that
no small file unpacks to a large one. Arrays are .npy members without Python objects: `numpy.load`
reads them too. Objects stand in an order in which each names only earlier ones, so that neither a
cycle nor deep nesting can be written down; an object named twice is stored, checked and made once.
Reading has two passes: all objects are checked against their declarations (`colabel.core.schema`),
and only then is any of them made.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections import UserList
from collections.abc import Callable, Sequence
from typing import IO, Any
from zipfile import ZIP_STORED, ZipFile

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from colabel.core.schema import (
    DECLARED,
    Declared,
    Node,
    NotAsDeclaredError,
    check_that,
    checked,
    declared_for,
    is_unicode,
)

# Limits on how deep objects are nested, and on their number if each were written out.
_DEEPEST = 60
_MOST_NAMED = 1_000_000
# Files of colabel name an object or an array once or twice. A file that names the same one again
# and again would have it checked and asked as often: more work than the size of the file suggests.
MOST_TIMES = 20
SPARE_OBJECTS = 1_000
_SPARE_BYTES = 1 << 26
_MOST_AXES = 8
_PLAIN_DTYPES = "biufUSMm"
_SCALARS = {each.__name__: each for each in (*np.sctypeDict.values(), np.number, np.floating)}


class CannotBeWrittenError(ValueError):
    """An object is not plain data; the message names it and its place."""


class Written:
    """What is written of a value: a tree for JSON, its arrays, and estimators of foreign types.

    Parameters
    ----------
    value : object
    declared : function of an object
        Returns the declaration of its type, or None.

    Raises
    ------
    CannotBeWrittenError
        If something in it is neither plain data nor of a declared type nor an estimator.
    """

    def __init__(
        self, value: Any, declared: Callable[[Any], Declared | None] = declared_for
    ) -> None:
        self.arrays: list[NDArray[Any]] = []
        self.foreign: list[Any] = []
        self._declared = declared
        self._objects: list[dict[str, Any]] = []
        self._known: dict[int, tuple[Any, dict[str, Any]]] = {}  # the object keeps its id taken
        root = self._plain(value, type(value).__name__)
        self.tree = {"root": root, "objects": self._objects, "n_arrays": len(self.arrays)}

    def _plain(self, value: Any, where: str) -> Any:
        if isinstance(value, np.random.RandomState):  # of no use to what is fitted
            return None
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, UserList):  # of scikit-learn 1.6, whose items warn when they are read
            value = value.data
        if isinstance(value, str):
            if not is_unicode(value):
                raise CannotBeWrittenError(f"its {where} is the text {value!r:.200}, no Unicode")
            return str(value)
        if isinstance(value, float) and not math.isfinite(value):
            return {"float": str(value)}
        if value is None or isinstance(value, bool | int | float):
            return value
        if type(value) in (list, tuple):
            items = [self._plain(each, f"{where}[{i}]") for i, each in enumerate(value)]
            return items if type(value) is list else {"tuple": items}
        if type(value) is slice:
            return {"slice": [self._plain(v, where) for v in (value.start, value.stop, value.step)]}
        if isinstance(value, np.dtype) and value.kind in _PLAIN_DTYPES + "O":
            return {"dtype": value.str}
        if value is object or (isinstance(value, type) and issubclass(value, np.generic)):
            return {"scalar": "object_" if value is object else value.__name__}
        if type(value) is dict:
            pairs = [
                [self._plain(k, where), self._plain(v, f"{where}[{k!r}]")] for k, v in value.items()
            ]
            return {"dict": pairs}
        if id(value) not in self._known:  # what may be named more than once is written once
            self._known[id(value)] = (value, self._named(value, where))
        return self._known[id(value)][1]

    def _named(self, value: Any, where: str) -> dict[str, Any]:
        if type(value) is np.ndarray:
            if value.dtype.kind in _PLAIN_DTYPES:
                self.arrays.append(value)
                return {"array": len(self.arrays) - 1}
            if value.dtype.kind != "O":
                raise CannotBeWrittenError(f"its {where} is an array of {value.dtype}")
            listed = [self._plain(each, f"{where}[{i}]") for i, each in enumerate(value.ravel())]
            return {"values": listed, "shape": list(value.shape)}
        declared = self._declared(value)
        if declared is not None:
            fields = declared.take(value)
            unknown = sorted(set(fields) - set(declared.fields))
            if unknown:
                raise CannotBeWrittenError(f"its {where}.{unknown[0]} is not declared")
            written = {name: self._plain(v, f"{where}.{name}") for name, v in fields.items()}
            self._objects.append({"type": declared.tag, "fields": written})
            return {"object": len(self._objects) - 1}
        if isinstance(value, BaseEstimator):
            self.foreign.append(value)
            return {"foreign": len(self.foreign) - 1}
        raise CannotBeWrittenError(f"its {where} is {value!r:.200}, which is no plain data")


# ------------------------------------------------------------------------ the archive

TREE, ARRAY, FOREIGN = "model.json", "arrays/{}.npy", "foreign/{}.skops"
_MEMBERS = re.compile(r"colabel\.json|model\.json|arrays/\d+\.npy|foreign/\d+\.skops", re.ASCII)
_MOST_MEMBERS = 100_000
_LARGEST_JSON = 1 << 25
_MOST_BRACKETS = 1_000_000  # an empty list of two characters takes 64 bytes


def write_archive(stream: IO[bytes], content: Written, others: dict[str, bytes]) -> None:
    """Write the content and other members, given by name, to an archive."""
    with ZipFile(stream, "w", compression=ZIP_STORED) as archive:
        for name, other in others.items():
            archive.writestr(name, other)
        archive.writestr(TREE, json.dumps(content.tree, ensure_ascii=False, allow_nan=False))
        for position, array in enumerate(content.arrays):
            large = array.nbytes > 1 << 30
            with archive.open(ARRAY.format(position), "w", force_zip64=large) as part:
                npy.write_array(part, array, allow_pickle=False)


class Archive:
    """The members of an archive, which are checked before any is unpacked."""

    def __init__(self, stream: IO[bytes]) -> None:
        self.n_bytes = stream.seek(0, os.SEEK_END)
        stream.seek(0)
        self._zip = ZipFile(stream)
        members = self._zip.infolist()
        self.names = {member.filename for member in members}
        once = len(members) <= _MOST_MEMBERS and len(self.names) == len(members)
        check_that(once, "its table of contents is not as it was saved")
        for member in members:
            plain = member.compress_type == ZIP_STORED and member.compress_size == member.file_size
            check_that(plain, f"its {member.filename} is compressed, which colabel never does")
        total = sum(member.file_size for member in members)
        check_that(total <= self.n_bytes, "its members are larger than the file")

    def size(self, name: Any) -> int:
        """Return how many bytes a member has."""
        check_that(name in self.names, f"it has no {name}")
        return self._zip.getinfo(name).file_size

    def bytes(self, name: str) -> bytes:
        """Return the content of a member."""
        check_that(name in self.names, f"it has no {name}")
        return self._zip.read(name)

    def json(self, name: str) -> Any:
        """Return what a JSON member holds."""
        check_that(self.size(name) <= _LARGEST_JSON, f"its {name} is too large")
        content = self.bytes(name)
        n_brackets = content.count(b"[") + content.count(b"{")
        check_that(n_brackets <= _MOST_BRACKETS, f"its {name} holds too many lists")
        return json.loads(content.decode("utf-8"), parse_constant=_no_constant)

    def _array(self, name: str) -> NDArray[Any]:
        n_bytes = self.size(name)
        with self._zip.open(name) as part:
            check_that(npy.read_magic(part) == (1, 0), f"{name} is no array")
            shape, fortran, dtype = npy.read_array_header_1_0(part)
            known = dtype.kind in _PLAIN_DTYPES and dtype.itemsize > 0
            check_that(known, f"{name} holds {dtype}, which no model does")
            whole = all(n >= 0 for n in shape)
            right = whole and math.prod(shape) * dtype.itemsize == n_bytes - part.tell()
            check_that(right, f"{name} is not as large as it says")
            flat = np.frombuffer(bytearray(part.read()), dtype)
        native = flat if dtype.isnative else flat.astype(dtype.newbyteorder("="))
        return native.reshape(shape, order="F" if fortran else "C")

    def made(
        self,
        foreign: Callable[[int], Any],
        by_tag: Callable[[str], Declared] = DECLARED.__getitem__,
    ) -> Any:
        """Check all objects, and make the value they describe.

        Parameters
        ----------
        foreign : function of a position
            Returns the object of a foreign type there, or refuses.
        by_tag : function of a tag
            Returns the declaration of a type; KeyError if there is none.

        Raises
        ------
        NotAsDeclaredError
            If anything is not as its type declares; nothing has been made then.
        """
        strange = sorted(name for name in self.names if not _MEMBERS.fullmatch(name))
        check_that(not strange, f"it holds {strange[:1]}, which colabel never writes")
        tree = self.json(TREE)
        count = sum(name.startswith("arrays/") for name in self.names)
        n_named = self.bytes(TREE).count(b'"array"')
        check_that(count <= n_named, "it holds arrays that nothing in it names")
        arrays = [self._array(ARRAY.format(position)) for position in range(count)]
        reader = _Reader(tree, arrays, by_tag)
        for node in reader.nodes:
            node.made = (
                foreign(node.fields["foreign"])
                if node.declared is None
                else node.declared.make({k: _with_made(v) for k, v in node.fields.items()})
            )
            # what annotations cannot say of parameters, as at the start of fit
            getattr(node.made, "_check_parameters", lambda: None)()
        return _with_made(reader.root)


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")


class _Reader:
    """The first pass, which checks every object and makes none."""

    def __init__(
        self, tree: Any, arrays: Sequence[NDArray[Any]], by_tag: Callable[[str], Declared]
    ) -> None:
        check_that(
            isinstance(tree, dict)
            and set(tree) == {"root", "objects", "n_arrays"}
            and isinstance(tree["objects"], list)
            and tree["n_arrays"] == len(arrays),
            "its list of objects is not as it was saved",
        )
        self._arrays, self._by_tag = arrays, by_tag
        self._most_named = min(_MOST_NAMED, SPARE_OBJECTS + MOST_TIMES * len(tree["objects"]))
        self._bytes_left = _SPARE_BYTES + MOST_TIMES * sum(array.nbytes for array in arrays)
        self._objects: list[Node] = []
        self._foreign: dict[int, Node] = {}
        self._named: list[Node] = []
        self.nodes: list[Node] = []
        for entry in tree["objects"]:
            self._objects.append(self._object(entry))
        self.root = self._value(tree["root"])

    def _object(self, entry: Any) -> Node:
        well_formed = isinstance(entry, dict) and set(entry) == {"type", "fields"}
        check_that(well_formed and isinstance(entry["fields"], dict), "an object is malformed")
        tag = entry["type"]
        try:
            declared = self._by_tag(tag)
        except (KeyError, TypeError):
            raise NotAsDeclaredError(
                f"it wants the type {tag!r}, which no part of colabel that is imported declares"
            ) from None
        self._named = []
        fields = {str(name): self._value(value) for name, value in entry["fields"].items()}
        node = Node(declared, fields)
        node.n_objects += sum(each.n_objects for each in self._named)
        node.depth += max((each.depth for each in self._named), default=0)
        check_that(
            node.depth <= _DEEPEST and node.n_objects <= self._most_named,
            "its objects are nested too deeply or named too often",
        )
        try:
            node.dims = checked(declared, fields)
        except NotAsDeclaredError as error:
            raise NotAsDeclaredError(f"in a {declared.type.__name__}, {error}") from None
        self.nodes.append(node)
        return node

    def _value(self, value: Any) -> Any:
        if value is None or isinstance(value, bool | str | int | float):
            return value
        if isinstance(value, list):
            return [self._value(each) for each in value]
        check_that(isinstance(value, dict), f"a value is {type(value).__name__}")
        match sorted(value.items()):
            case [("tuple", list(items))]:
                return tuple(self._value(each) for each in items)
            case [("dict", list(pairs))]:
                table = {}
                for pair in pairs:
                    check_that(isinstance(pair, list) and len(pair) == 2, "a table is malformed")
                    key = self._value(pair[0])
                    plain = isinstance(key, str | int | float | tuple)
                    check_that(plain, "a key is no plain value")
                    table[key] = self._value(pair[1])
                return table
            case [("slice", [start, stop, step])]:
                return slice(*(self._value(end) for end in (start, stop, step)))
            case [("dtype", str(name))] if len(name) < 20:
                check_that(np.dtype(name).itemsize <= 4096, f"a value is of the dtype {name}")
                return np.dtype(name)
            case [("scalar", str(name))] if name in _SCALARS:
                return _SCALARS[name]
            case [("float", "inf" | "-inf" | "nan" as number)]:
                return float(number)
            case [("array", int(position))]:
                array: NDArray[Any] = _at(self._arrays, position)
                self._bytes_left -= array.nbytes
                check_that(self._bytes_left >= 0, "its arrays are named too often")
                return array
            case [("shape", list(shape)), ("values", list(items))]:
                return self._object_array(items, shape)
            case [("object", int(position))]:
                self._named.append(_at(self._objects, position))
                return self._named[-1]
            case [("foreign", int(position))]:
                if position not in self._foreign:
                    self._foreign[position] = Node(None, {"foreign": position})
                    self.nodes.append(self._foreign[position])
                self._named.append(self._foreign[position])
                return self._named[-1]
        raise NotAsDeclaredError(f"it holds a value of an unknown form, {sorted(value)[:3]}")

    def _object_array(self, items: list[Any], shape: list[Any]) -> NDArray[Any]:
        whole = all(type(n) is int and n >= 0 for n in shape) and len(shape) <= _MOST_AXES
        check_that(whole and math.prod(shape) == len(items), "an array has a false shape")
        array = np.empty(len(items), dtype=object)
        for i, item in enumerate(items):
            array[i] = each = self._value(item)
            plain = each is None or isinstance(each, bool | str | int | float | tuple)
            check_that(plain, "an array holds what is no plain value")
        return array.reshape(shape)


def _at(items: Sequence[Any], position: int) -> Any:
    inside = type(position) is int and 0 <= position < len(items)
    check_that(inside, f"it names the object or array {position}, which is not before it")
    return items[position]


def _with_made(value: Any) -> Any:
    """Replace the nodes in a value by the objects made of them."""
    if isinstance(value, Node):
        return value.made
    if type(value) in (list, tuple):
        return type(value)(map(_with_made, value))
    if isinstance(value, dict):
        return {key: _with_made(each) for key, each in value.items()}
    return value
