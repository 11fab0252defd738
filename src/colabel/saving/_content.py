"""What a model file holds: a zip archive of a list of objects in JSON, arrays, and foreign objects.

Nothing in the archive is compressed, and all members together are no larger than the file, so that
no small file unpacks to a large one. Arrays are .npy members without Python objects: `numpy.load`
reads them too. Objects stand in an order in which each names only earlier ones, so that neither a
cycle nor deep nesting can be written down; an object named twice is stored, checked and made once.
Reading has two passes: all objects are checked against their declarations (`colabel.core.schema`),
and only then is any of them made.

Estimators of other packages are written by skops. What such an object holds cannot be checked, and
its code runs when it is made: it is made only if the caller has named its type, and every further
type that skops finds in it. skops reads an array anew each time it is named, and looks again at all
that an object holds whenever it is named again: how often that is, is counted before skops is asked
anything.
"""

from __future__ import annotations

import io
import json
import math
import os
import re
from collections import UserList
from collections.abc import Callable, Iterable, Sequence
from typing import IO, Any
from zipfile import ZIP_STORED, ZipFile

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from colabel.core.schema import (
    Node,
    NotAsDeclaredError,
    check_that,
    checked,
    declared_by_tag,
    declared_for,
    is_unicode,
)

# An object may hold others, those again others: so deep, and so many if each were written out.
_DEEPEST = 60
_MOST_NAMED = 1_000_000
# What colabel writes names an object or an array once or twice. A file that names the same ones
# again and again would have them checked, and asked, as often: work beyond what its size allows.
_MOST_TIMES = 20
_SPARE_OBJECTS = 1_000
_SPARE_BYTES = 1 << 26
_MOST_AXES = 8
_PLAIN_DTYPES = "biufUSMm"
_SCALARS = {each.__name__: each for each in (*np.sctypeDict.values(), np.number, np.floating)}


class CannotBeWrittenError(ValueError):
    """An object is no data; the message names it and its place."""


class Written:
    """What is written of a model: a tree for JSON, its arrays, and objects of foreign types.

    Raises
    ------
    CannotBeWrittenError
        If something in it is neither plain data nor of a declared type nor an estimator.
    """

    def __init__(self, model: Any) -> None:
        self.arrays: list[NDArray[Any]] = []
        self.foreign: list[Any] = []
        self._objects: list[dict[str, Any]] = []
        self._known: dict[int, tuple[Any, dict[str, Any]]] = {}  # the object keeps its id taken
        root = self.value(model, type(model).__name__)
        self.tree = {"root": root, "objects": self._objects, "n_arrays": len(self.arrays)}

    def value(self, value: Any, where: str) -> Any:
        if isinstance(value, str):
            if not is_unicode(value):
                raise CannotBeWrittenError(f"its {where} is the text {value!r:.200}, no Unicode")
            return str(value)
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, np.random.RandomState):  # of no use to what is fitted
            return None
        if isinstance(value, np.bool_):
            return bool(value)
        if isinstance(value, int | np.integer):
            return int(value)
        if isinstance(value, float | np.floating):
            return float(value) if math.isfinite(value) else {"float": str(float(value))}
        if isinstance(value, UserList):  # of scikit-learn 1.6, whose items warn when they are read
            value = value.data
        if type(value) is list:
            return [self.value(each, f"{where}[{i}]") for i, each in enumerate(value)]
        if type(value) is tuple:
            return {"tuple": [self.value(each, f"{where}[{i}]") for i, each in enumerate(value)]}
        if type(value) is slice:
            return {"slice": [self.value(v, where) for v in (value.start, value.stop, value.step)]}
        if isinstance(value, np.dtype) and value.kind in _PLAIN_DTYPES + "O":
            return {"dtype": value.str}
        if value is object or (isinstance(value, type) and issubclass(value, np.generic)):
            return {"scalar": "object_" if value is object else value.__name__}
        if type(value) is dict:
            pairs = [
                [self.value(k, where), self.value(v, f"{where}[{k!r}]")] for k, v in value.items()
            ]
            return {"dict": pairs}
        if id(value) not in self._known:  # what may be named more than once is written once
            self._known[id(value)] = (value, self._new(value, where))
        return self._known[id(value)][1]

    def _new(self, value: Any, where: str) -> dict[str, Any]:
        if type(value) is np.ndarray:
            return self._array(value, where)
        declared = declared_for(value)
        if declared is not None:
            fields = declared.take(value)
            unknown = sorted(set(fields) - set(declared.fields))
            if unknown:
                raise CannotBeWrittenError(f"its {where}.{unknown[0]} is not declared")
            entry = {
                "type": declared.tag,
                "fields": {k: self.value(v, f"{where}.{k}") for k, v in fields.items()},
            }
            self._objects.append(entry)
            return {"object": len(self._objects) - 1}
        if isinstance(value, BaseEstimator):
            self.foreign.append(value)
            return {"foreign": len(self.foreign) - 1}
        raise CannotBeWrittenError(f"its {where} is {value!r:.200}, which is no plain data")

    def _array(self, value: NDArray[Any], where: str) -> dict[str, Any]:
        if value.dtype.kind in _PLAIN_DTYPES:
            self.arrays.append(value)
            return {"array": len(self.arrays) - 1}
        if value.dtype.kind != "O":
            raise CannotBeWrittenError(f"its {where} is an array of {value.dtype}")
        listed = [self.value(each, f"{where}[{i}]") for i, each in enumerate(value.ravel())]
        return {"values": listed, "shape": list(value.shape)}


# ------------------------------------------------------------------------ reading


def made(tree: Any, arrays: Sequence[NDArray[Any]], foreign: Callable[[int], Any]) -> Any:
    """Check a tree and make the model it describes.

    Parameters
    ----------
    tree : what JSON gave
    arrays : the arrays beside it
    foreign : function of a position that returns the foreign object there, or refuses

    Raises
    ------
    NotAsDeclaredError
        If anything in it is not as its type declares; nothing has been made then.
    """
    reader = _Reader(tree, arrays)
    for node in reader.nodes:
        node.made = (
            foreign(node.fields["foreign"])
            if node.declared is None
            else node.declared.make({k: _with_made(v) for k, v in node.fields.items()})
        )
        # a model's own sentences about its parameters, as at the start of fit
        getattr(node.made, "_check_parameters", lambda: None)()
    return _with_made(reader.root)


class _Reader:
    """The first pass: every object checked, none made."""

    def __init__(self, tree: Any, arrays: Sequence[NDArray[Any]]) -> None:
        check_that(
            isinstance(tree, dict)
            and set(tree) == {"root", "objects", "n_arrays"}
            and isinstance(tree["objects"], list)
            and tree["n_arrays"] == len(arrays),
            "its list of objects is not as it was saved",
        )
        self._arrays = arrays
        self._most_named = min(_MOST_NAMED, _SPARE_OBJECTS + _MOST_TIMES * len(tree["objects"]))
        self._bytes_left = _SPARE_BYTES + _MOST_TIMES * sum(array.nbytes for array in arrays)
        self._objects: list[Node] = []
        self._foreign: dict[int, Node] = {}
        self._sizes: dict[int, tuple[int, int]] = {}  # of each node: objects in it, levels
        self._named: list[Node] = []
        self.nodes: list[Node] = []
        for entry in tree["objects"]:
            self._objects.append(self._object(entry))
        self.root = self._value(tree["root"])
        check_that(isinstance(self.root, Node), "it holds no object")

    def _object(self, entry: Any) -> Node:
        well_formed = isinstance(entry, dict) and set(entry) == {"type", "fields"}
        check_that(well_formed and isinstance(entry["fields"], dict), "an object is malformed")
        tag = entry["type"]
        try:
            declared = declared_by_tag(tag)
        except (KeyError, TypeError):
            raise NotAsDeclaredError(
                f"it wants the type {tag!r}, which no part of colabel that is imported declares"
            ) from None
        self._named = []
        fields = {str(name): self._value(value) for name, value in entry["fields"].items()}
        held = [self._sizes[id(node)] for node in self._named]
        size, depth = 1 + sum(n for n, _ in held), 1 + max((d for _, d in held), default=0)
        check_that(
            depth <= _DEEPEST and size <= self._most_named,
            "its objects are nested too deeply or named too often",
        )
        try:
            dims = checked(declared, fields)
        except NotAsDeclaredError as error:
            raise NotAsDeclaredError(f"in a {declared.type.__name__}, {error}") from None
        node = Node(declared, fields, dims)
        self._sizes[id(node)] = (size, depth)
        self.nodes.append(node)
        return node

    def _value(self, value: Any) -> Any:
        if value is None or isinstance(value, bool | str | int | float):
            return value
        if isinstance(value, list):
            return [self._value(each) for each in value]
        check_that(isinstance(value, dict), f"a value is {type(value).__name__}")
        match value:
            case {"tuple": list(items)} if len(value) == 1:
                return tuple(self._value(each) for each in items)
            case {"dict": list(pairs)} if len(value) == 1:
                table = {}
                for pair in pairs:
                    check_that(isinstance(pair, list) and len(pair) == 2, "a table is malformed")
                    key = self._value(pair[0])
                    plain = isinstance(key, str | int | float | tuple)
                    check_that(plain, "a key is no plain value")
                    table[key] = self._value(pair[1])
                return table
            case {"slice": [start, stop, step]} if len(value) == 1:
                return slice(*(self._value(end) for end in (start, stop, step)))
            case {"dtype": str(name)} if len(value) == 1 and len(name) < 20:
                check_that(np.dtype(name).itemsize <= 4096, f"a value is of the dtype {name}")
                return np.dtype(name)
            case {"scalar": str(name)} if len(value) == 1 and name in _SCALARS:
                return _SCALARS[name]
            case {"float": "inf" | "-inf" | "nan" as number} if len(value) == 1:
                return float(number)
            case {"array": int(position)} if len(value) == 1:
                array: NDArray[Any] = _at(self._arrays, position)
                self._bytes_left -= array.nbytes
                check_that(self._bytes_left >= 0, "its arrays are named too often")
                return array
            case {"values": list(items), "shape": list(shape)} if len(value) == 2:
                return self._object_array(items, shape)
            case {"object": int(position)} if len(value) == 1:
                self._named.append(_at(self._objects, position))
                return self._named[-1]
            case {"foreign": int(position)} if len(value) == 1:
                return self._foreign_node(position)
        raise NotAsDeclaredError(f"it holds a value of an unknown form, {sorted(value)[:3]}")

    def _object_array(self, items: list[Any], shape: list[Any]) -> NDArray[Any]:
        whole = all(type(n) is int and n >= 0 for n in shape) and len(shape) <= _MOST_AXES
        check_that(whole and math.prod(shape) == len(items), "an array has a false shape")
        array = np.empty(len(items), dtype=object)
        for i, item in enumerate(items):
            each = self._value(item)
            plain = each is None or isinstance(each, bool | str | int | float | tuple)
            check_that(plain, "an array holds what is no plain value")
            array[i] = each
        return array.reshape(shape)

    def _foreign_node(self, position: int) -> Node:
        if position not in self._foreign:
            node = Node(None, {"foreign": position})
            self._foreign[position] = node
            self._sizes[id(node)] = (1, 1)
            self.nodes.append(node)
        self._named.append(self._foreign[position])
        return self._foreign[position]


def _at(items: Sequence[Any], position: int) -> Any:
    inside = type(position) is int and 0 <= position < len(items)
    check_that(inside, f"it names the object or array {position}, which is not before it")
    return items[position]


def _with_made(value: Any) -> Any:
    """Replace the nodes in a value by the objects made of them."""
    if isinstance(value, Node):
        return value.made
    if isinstance(value, list):
        return [_with_made(each) for each in value]
    if isinstance(value, tuple):
        return tuple(_with_made(each) for each in value)
    if isinstance(value, dict):
        return {key: _with_made(each) for key, each in value.items()}
    return value


# ------------------------------------------------------------------------ the archive

MANIFEST, TREE = "colabel.json", "model.json"
ARRAY, FOREIGN = "arrays/{}.npy", "foreign/{}.skops"
_MOST_MEMBERS = 100_000
_LARGEST_JSON = 1 << 25
_MOST_BRACKETS = 1_000_000  # an empty list of two characters takes 64 bytes


def write_archive(
    stream: IO[bytes], manifest: dict[str, Any], model: Written, foreign: Sequence[bytes]
) -> None:
    """Write all members of a model file."""
    with ZipFile(stream, "w", compression=ZIP_STORED) as archive:
        archive.writestr(MANIFEST, json.dumps(manifest, indent=2, ensure_ascii=False))
        archive.writestr(TREE, json.dumps(model.tree, ensure_ascii=False, allow_nan=False))
        for position, array in enumerate(model.arrays):
            large = array.nbytes > 1 << 30
            with archive.open(ARRAY.format(position), "w", force_zip64=large) as part:
                npy.write_array(part, array, allow_pickle=False)
        for position, content in enumerate(foreign):
            archive.writestr(FOREIGN.format(position), content)


class Archive:
    """The members of a model file, looked at before any is unpacked."""

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
            if not plain:
                reason = f"its {member.filename} is compressed, which colabel never does"
                check_that(False, reason)
        total = sum(member.file_size for member in members)
        check_that(total <= self.n_bytes, "its members are larger than the file")

    def check_members(self) -> None:
        """Refuse members that colabel never writes."""
        pattern = re.compile(r"arrays/\d+\.npy|foreign/\d+\.skops", re.ASCII)
        others = sorted(self.names - {MANIFEST, TREE})
        strange = [name for name in others if not pattern.fullmatch(name)]
        check_that(not strange, f"it holds {strange[:1]}, which colabel never writes")

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

    def arrays(self) -> list[NDArray[Any]]:
        """Return all arrays, if there are not more than the list of objects has names for."""
        count = sum(name.startswith("arrays/") for name in self.names)
        n_named = self.bytes(TREE).count(b'"array"')
        check_that(count <= n_named, "it holds arrays that nothing in it names")
        return [self._array(ARRAY.format(position)) for position in range(count)]

    def _array(self, name: str) -> NDArray[Any]:
        n_bytes = self.size(name)
        with self._zip.open(name) as part:
            check_that(npy.read_magic(part) == (1, 0), f"{name} is no array")
            shape, fortran, dtype = npy.read_array_header_1_0(part)
            known = dtype.kind in "biufUSMm" and dtype.itemsize > 0
            check_that(known, f"{name} holds {dtype}, which no model does")
            whole = all(n >= 0 for n in shape)
            right = whole and math.prod(shape) * dtype.itemsize == n_bytes - part.tell()
            check_that(right, f"{name} is not as large as it says")
            flat = np.frombuffer(bytearray(part.read()), dtype)
        native = flat if dtype.isnative else flat.astype(dtype.newbyteorder("="))
        return native.reshape(shape, order="F" if fortran else "C")


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")


# ------------------------------------------------------------------------ objects of others

_SCHEMA = "schema.json"


class RefusedTypesError(ValueError):
    """An object of types that are not trusted; `names` are their full names."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names = sorted(names)
        super().__init__(", ".join(self.names))


def dumped(value: Any) -> bytes:
    """Return an estimator as skops writes it."""
    from skops import io as skops_io

    buffer = io.BytesIO()
    try:
        skops_io.dump(value, buffer, compression=ZIP_STORED)
    except Exception as error:  # whatever a stranger's object raises
        reason = " ".join(str(error).split())
        raise CannotBeWrittenError(
            f"its {type(value).__name__} holds an object that is no data ({reason:.200})"
        ) from error
    return buffer.getvalue()


def wanted_types(content: bytes) -> set[str]:
    """Full names of the types one has to trust to load what `dumped` gave."""
    from skops import io as skops_io

    archive = Archive(io.BytesIO(content))
    outermost = archive.json(_SCHEMA)
    _check_expansion(outermost, archive)
    own = f"{outermost['__module__']}.{outermost['__class__']}"
    return {own, *skops_io.get_untrusted_types(data=content)}


def loaded(content: bytes, trusted: Iterable[str]) -> Any:
    """Make the object, if all of its types are trusted; else raise `RefusedTypesError`."""
    from skops import io as skops_io

    allowed = set(trusted)
    unknown = wanted_types(content) - allowed
    if unknown:
        raise RefusedTypesError(unknown)
    return skops_io.loads(content, trusted=sorted(allowed))


def _check_expansion(outermost: Any, archive: Archive) -> None:
    """Refuse a schema whose objects, if each were written out, are many more than are there."""
    sizes: dict[int, int] = {}  # of the objects with a number, which others may name again
    n_entries = n_bytes = 0

    def size_of(entry: Any) -> int:
        nonlocal n_entries, n_bytes
        n_entries += 1
        if not isinstance(entry, dict):
            return 1 + (sum(map(size_of, entry)) if isinstance(entry, list) else 0)
        number = entry.get("__id__") or 0  # which is none, to skops too
        check_that(isinstance(number, int), "an object of another package has a false number")
        if number and number in sizes:
            check_that(sizes[number], "an object of another package holds itself")
            return sizes[number]
        sizes[number] = 0  # while it is open
        if isinstance(entry.get("file"), str):
            n_bytes += archive.size(entry["file"])
        sizes[number] = 1 + sum(map(size_of, entry.values()))
        return sizes[number]

    size = size_of(outermost)
    often = size > _SPARE_OBJECTS + _MOST_TIMES * n_entries or n_bytes > 2 * archive.n_bytes
    check_that(not often, "an object of another package names the same parts too often")
