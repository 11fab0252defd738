"""Estimators of other packages in a model file, as skops writes them.

What such an object holds cannot be checked, and its code runs when it is made: it is made only if
the caller has named its type, and every further type that skops finds in it. skops reads an array
anew each time it is named, and looks again at all that an object holds whenever it is named again:
how often that is, is counted before skops is asked anything.
"""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import Any
from zipfile import ZIP_STORED

from colabel.core.schema import refuse_unless
from colabel.saving._archive import Archive
from colabel.saving._tree import MOST_TIMES, SPARE_OBJECTS, CannotBeWrittenError

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
    _refuse_bombs(outermost, archive)
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


def _refuse_bombs(outermost: Any, archive: Archive) -> None:
    """Refuse a schema whose objects, if each were written out, are many more than are there."""
    sizes: dict[int, int] = {}  # of the objects with a number, which others may name again
    n_entries = n_bytes = 0

    def size_of(entry: Any) -> int:
        nonlocal n_entries, n_bytes
        n_entries += 1
        if not isinstance(entry, dict):
            return 1 + (sum(map(size_of, entry)) if isinstance(entry, list) else 0)
        number = entry.get("__id__") or 0  # which is none, to skops too
        refuse_unless(isinstance(number, int), "an object of another package has a false number")
        if number and number in sizes:
            refuse_unless(sizes[number], "an object of another package holds itself")
            return sizes[number]
        sizes[number] = 0  # while it is open
        if isinstance(entry.get("file"), str):
            n_bytes += archive.size(entry["file"])
        sizes[number] = 1 + sum(map(size_of, entry.values()))
        return sizes[number]

    size = size_of(outermost)
    often = size > SPARE_OBJECTS + MOST_TIMES * n_entries or n_bytes > 2 * archive.n_bytes
    refuse_unless(not often, "an object of another package names the same parts too often")
