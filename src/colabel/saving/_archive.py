"""The zip archive around a model: members that cannot be larger than they say.

Nothing in it is compressed, and all members together are no larger than the file, so that no
small file unpacks to a large one. Arrays are .npy members without Python objects: `numpy.load`
reads them too.
"""

from __future__ import annotations

import ast
import io
import json
import math
import os
import re
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any
from zipfile import ZIP_STORED, ZipFile

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from colabel.core.schema import refuse_unless
from colabel.saving._tree import Written

MANIFEST, TREE = "colabel.json", "model.json"
_MOST_MEMBERS = 100_000
_LARGEST_JSON = 1 << 25
_MOST_BRACKETS = 1_000_000  # an empty list of two characters takes 64 bytes
_DTYPES = "biufUSMm"
_MOST_AXES = 8


def array_name(position: int) -> str:
    """Name of the member that holds an array."""
    return f"arrays/{position}.npy"


def foreign_name(position: int) -> str:
    """Name of the member that holds an object of a foreign type."""
    return f"foreign/{position}.skops"


def write_archive(
    stream: IO[bytes], manifest: dict[str, Any], model: Written, foreign: Sequence[bytes]
) -> None:
    """Write all members of a model file."""
    with ZipFile(stream, "w", compression=ZIP_STORED) as archive:
        archive.writestr(MANIFEST, json.dumps(manifest, indent=2, ensure_ascii=False))
        archive.writestr(TREE, json.dumps(model.tree, ensure_ascii=False, allow_nan=False))
        for position, array in enumerate(model.arrays):
            with archive.open(
                array_name(position), "w", force_zip64=array.nbytes > 1 << 30
            ) as part:
                npy.write_array(part, array, allow_pickle=False)
        for position, content in enumerate(foreign):
            archive.writestr(foreign_name(position), content)


def require_regular(path: Path) -> None:
    """Raise OSError if a path leads to a device, a pipe or a socket: reading it may never end."""
    mode = path.stat().st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError("it is a folder")
    if not stat.S_ISREG(mode):
        raise OSError("it is a device, a pipe or a socket, not a file")


class Archive:
    """The members of a model file, looked at before any is unpacked."""

    def __init__(self, stream: IO[bytes]) -> None:
        self.n_bytes = stream.seek(0, os.SEEK_END)
        stream.seek(0)
        self._zip = ZipFile(stream)
        members = self._zip.infolist()
        self.names = {member.filename for member in members}
        refuse_unless(
            len(members) <= _MOST_MEMBERS and len(self.names) == len(members),
            "its table of contents is not as it was saved",
        )
        packed = [
            m.filename
            for m in members
            if m.compress_type != ZIP_STORED or m.compress_size != m.file_size
        ]
        if packed:
            refuse_unless(False, f"its {packed[0]} is compressed, which colabel never does")
        total = sum(member.file_size for member in members)
        refuse_unless(total <= self.n_bytes, "its members are larger than the file")

    def refuse_strangers(self) -> None:
        """Refuse members that colabel never writes."""
        pattern = re.compile(r"arrays/\d+\.npy|foreign/\d+\.skops", re.ASCII)
        others = self.names - {MANIFEST, TREE}
        strange = sorted(name for name in others if not pattern.fullmatch(name))
        if strange:
            refuse_unless(False, f"it holds {strange[0]!r}, which colabel never writes")

    def json(self, name: str) -> Any:
        """Return what a JSON member holds."""
        refuse_unless(name in self.names, f"it has no {name}")
        refuse_unless(self.size(name) <= _LARGEST_JSON, f"its {name} is too large")
        content = self._zip.read(name)
        n_brackets = content.count(b"[") + content.count(b"{")
        refuse_unless(n_brackets <= _MOST_BRACKETS, f"its {name} holds too many lists")
        return json.loads(content.decode("utf-8"), parse_constant=_no_constant)

    def size(self, name: Any) -> int:
        """Return how many bytes a member has."""
        refuse_unless(name in self.names, f"it has no {name}")
        return self._zip.getinfo(name).file_size

    def bytes(self, name: str) -> bytes:
        """Return the content of a member."""
        refuse_unless(name in self.names, f"it has no {name}")
        return self._zip.read(name)

    def arrays(self) -> list[NDArray[Any]]:
        """Return all arrays, if there are not more than the list of objects has names for."""
        count = sum(name.startswith("arrays/") for name in self.names)
        n_named = self.bytes(TREE).count(b'"array"')
        refuse_unless(count <= n_named, "it holds arrays that nothing in it names")
        return [self._array(array_name(position)) for position in range(count)]

    def _array(self, name: str) -> NDArray[Any]:
        refuse_unless(name in self.names, f"it has no {name}")
        with self._zip.open(name) as part:
            shape, fortran, dtype, n_header = _header(part, name)
            n_bytes = math.prod(shape) * dtype.itemsize
            refuse_unless(
                n_bytes == self._zip.getinfo(name).file_size - n_header,
                f"{name} is not as large as it says",
            )
            flat = np.empty(math.prod(shape), dtype=dtype)
            buffer = flat.view(np.uint8).data if n_bytes else memoryview(b"")
            done = 0
            while done < n_bytes:
                read = part.readinto(buffer[done:])  # type: ignore[attr-defined]
                refuse_unless(read, f"{name} ends too early")
                done += read
        native = flat if flat.dtype.isnative else flat.astype(flat.dtype.newbyteorder("="))
        return native.reshape(shape, order="F" if fortran else "C")


def _header(part: IO[bytes], name: str) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    """Shape, order and dtype of an .npy member, and the length of its header."""
    start = part.read(10)
    refuse_unless(start[:8] == npy.magic(1, 0), f"{name} is no array")
    length = int.from_bytes(start[8:10], "little")
    header = ast.literal_eval(part.read(length).decode("latin1").strip())
    well_formed = isinstance(header, dict) and set(header) == {"descr", "fortran_order", "shape"}
    refuse_unless(well_formed and isinstance(header["descr"], str), f"{name} has a false header")
    shape = header["shape"]
    whole = isinstance(shape, tuple) and all(type(n) is int and n >= 0 for n in shape)
    refuse_unless(whole and len(shape) <= _MOST_AXES, f"{name} has a false shape")
    dtype = np.dtype(header["descr"])
    refuse_unless(
        dtype.kind in _DTYPES and dtype.itemsize > 0,
        f"{name} holds {dtype}, which no model does",
    )
    return shape, bool(header["fortran_order"]), dtype, 10 + length


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")


def opened(content: bytes) -> Archive:
    """Return the archive in a buffer."""
    return Archive(io.BytesIO(content))
