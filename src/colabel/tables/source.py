"""What all files of rows have in common: columns, what they hold, and rows a chunk at a time."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from colabel.tables.frame import Frame, Storage
from colabel.tables.text import TableError, at, shown

Count = Callable[[int], None]
"""Is told how many rows were read since it was called last."""


def ignore(n_rows: int) -> None:
    """Count nothing."""


class Seen(NamedTuple):
    """What a column was seen to hold: values, those that are no number, and the first of these.

    A file that says the type of its columns counts as one value, and names no place.
    """

    n_values: int
    n_odd: int
    odd: tuple[str, Path, int] | None = None  # text, file and line


def added(one: Mapping[str, Seen], other: Mapping[str, Seen]) -> dict[str, Seen]:
    """Add up what was seen in the same columns of two blocks or files."""
    pairs = ((name, own, other[name]) for name, own in one.items())
    return {n: Seen(a[0] + b[0], a[1] + b[1], a.odd or b.odd) for n, a, b in pairs}


def storage_of(
    seen: Mapping[str, Seen], as_text: Container[str] = (), *, doubtful: bool = False
) -> dict[str, Storage]:
    """How columns are best held: those of `as_text` as texts.

    Where at least half of the values are numbers and others are not, it may be a typing
    mistake or a code, and only the user knows: refused unless it may be `doubtful`.
    """
    for name, (n_values, n_odd, odd) in {} if doubtful else seen.items():
        if not n_odd or name in as_text:
            continue
        if odd and 2 * n_odd <= n_values:
            raise at(
                odd[1],
                odd[2],
                f"the column {name!r} holds {shown(odd[0])}, while {n_values - n_odd} of its "
                f"{n_values} values are finite numbers: correct it, leave it empty, name the "
                "column as a category (--category), or the text as missing (--missing).",
            )
        if odd is None and n_odd < n_values:
            raise TableError(
                f"The column {name!r} holds texts in some parts and numbers in others: make them "
                "alike."
            )
    return {n: "text" if own.n_odd or n in as_text else "number" for n, own in seen.items()}


class Source:
    """A file of some format.

    Attributes
    ----------
    path : Path
    names : tuple of str
        The columns that it offers.
    as_text : frozenset of str
        Columns that are text even if they hold only numbers.
    labels : sequence of str
        The columns that the file itself says to be labels.
    """

    path: Path
    names: tuple[str, ...]
    as_text: frozenset[str]
    labels: Sequence[str] = ()

    def seen(self, count: Count = ignore) -> dict[str, Seen]:
        """Return what the columns hold."""
        raise NotImplementedError

    def storage(self) -> dict[str, Storage]:
        """Return the columns, and how each is best held."""
        return storage_of(self.seen(), self.as_text)

    def chunks(self, storage: Mapping[str, Storage], n_rows: int) -> Iterator[Frame]:
        """Read the columns in `storage`, n_rows at a time."""
        raise NotImplementedError
