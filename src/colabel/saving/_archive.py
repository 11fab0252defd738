"""The zip archive around a model: members that cannot be larger than they say.

Nothing in it is compressed, and all members together are no larger than the file, so that no
small file unpacks to a large one. Arrays are .npy members without Python objects: `numpy.load`
reads them too.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Sequence
from typing import IO, Any
from zipfile import ZIP_STORED, ZipFile

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from colabel.core.schema import refuse_unless
from colabel.saving._tree import Written

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
        refuse_unless(once, "its table of contents is not as it was saved")
        for member in members:
            plain = member.compress_type == ZIP_STORED and member.compress_size == member.file_size
            if not plain:
                reason = f"its {member.filename} is compressed, which colabel never does"
                refuse_unless(False, reason)
        total = sum(member.file_size for member in members)
        refuse_unless(total <= self.n_bytes, "its members are larger than the file")

    def refuse_strangers(self) -> None:
        """Refuse members that colabel never writes."""
        pattern = re.compile(r"arrays/\d+\.npy|foreign/\d+\.skops", re.ASCII)
        others = sorted(self.names - {MANIFEST, TREE})
        strange = [name for name in others if not pattern.fullmatch(name)]
        refuse_unless(not strange, f"it holds {strange[:1]}, which colabel never writes")

    def size(self, name: Any) -> int:
        """Return how many bytes a member has."""
        refuse_unless(name in self.names, f"it has no {name}")
        return self._zip.getinfo(name).file_size

    def bytes(self, name: str) -> bytes:
        """Return the content of a member."""
        refuse_unless(name in self.names, f"it has no {name}")
        return self._zip.read(name)

    def json(self, name: str) -> Any:
        """Return what a JSON member holds."""
        refuse_unless(self.size(name) <= _LARGEST_JSON, f"its {name} is too large")
        content = self.bytes(name)
        n_brackets = content.count(b"[") + content.count(b"{")
        refuse_unless(n_brackets <= _MOST_BRACKETS, f"its {name} holds too many lists")
        return json.loads(content.decode("utf-8"), parse_constant=_no_constant)

    def arrays(self) -> list[NDArray[Any]]:
        """Return all arrays, if there are not more than the list of objects has names for."""
        count = sum(name.startswith("arrays/") for name in self.names)
        n_named = self.bytes(TREE).count(b'"array"')
        refuse_unless(count <= n_named, "it holds arrays that nothing in it names")
        return [self._array(ARRAY.format(position)) for position in range(count)]

    def _array(self, name: str) -> NDArray[Any]:
        n_bytes = self.size(name)
        with self._zip.open(name) as part:
            refuse_unless(npy.read_magic(part) == (1, 0), f"{name} is no array")
            shape, fortran, dtype = npy.read_array_header_1_0(part)
            known = dtype.kind in "biufUSMm" and dtype.itemsize > 0
            refuse_unless(known, f"{name} holds {dtype}, which no model does")
            whole = all(n >= 0 for n in shape)
            right = whole and math.prod(shape) * dtype.itemsize == n_bytes - part.tell()
            refuse_unless(right, f"{name} is not as large as it says")
            flat = np.frombuffer(bytearray(part.read()), dtype)
        native = flat if dtype.isnative else flat.astype(dtype.newbyteorder("="))
        return native.reshape(shape, order="F" if fortran else "C")


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")
