"""Declarations of types, and objects read from a file that have not been made yet."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

Dims = dict[str, Any]
Size = int | str | None
Fields = dict[str, Any]


class NotAsDeclaredError(ValueError):
    """A value differs from what its type declares; the message says where and how."""


def refuse_unless(holds: Any, reason: str) -> None:
    """Raise `NotAsDeclaredError` with a reason unless something holds."""
    if not holds:
        raise NotAsDeclaredError(reason)


class Kind(Protocol):
    """What a field may hold."""

    def check(self, value: Any, dims: Dims, where: str) -> None:
        """Raise `NotAsDeclaredError` unless the value is of this kind; bind sizes in `dims`."""


@dataclass(frozen=True)
class Declared:
    """A type that may stand in a file.

    Attributes
    ----------
    tag : str
        What files call it, whatever module it stands in.
    type : type
    fields : {name: Kind}
    parameters : set of str
        Of an estimator, those of its fields that are there before it is fitted.
    check : function of (fields, dims), optional
        Raises `NotAsDeclaredError` for what single kinds cannot say.
    take, make
        From an object to its fields, and back.
    """

    tag: str
    type: type
    fields: Mapping[str, Kind]
    parameters: frozenset[str]
    check: Callable[[Fields, Dims], None] | None
    take: Callable[[Any], Fields]
    make: Callable[[Fields], Any]


@dataclass(eq=False, repr=False)
class Node:
    """An object read from a file: checked, but not yet made.

    `declared` is None for an object of a type that the user has said to trust.
    """

    declared: Declared | None
    fields: Fields
    dims: Dims = field(default_factory=dict)
    made: Any = None

    @property
    def last(self) -> Node:
        """What answers: of a pipeline its last step, else the object itself."""
        found: Node = self.dims.get("last", self)
        return found

    def does(self, method: str) -> bool:
        """Whether what answers has a method; of a foreign type that is not known."""
        return self.last.declared is None or hasattr(self.last.declared.type, method)

    def __repr__(self) -> str:
        return "<object of a foreign type>" if self.declared is None else f"<{self.declared.tag}>"
