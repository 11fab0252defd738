"""Estimators of other packages in a model file, as skops writes them.

What such an object holds cannot be checked, and its code runs when it is made: it is made only if
the caller has named its type, and every further type that skops finds in it.
"""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import Any
from zipfile import ZIP_STORED

from colabel.saving._archive import opened
from colabel.saving._tree import CannotBeWrittenError


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

    outermost = opened(content).json("schema.json")
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
