"""A table as read from a file, before its columns are split into features and labels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from colabel.datasets.dataset import DatasetError
from colabel.datasets.frame import Frame, Storage
from colabel.datasets.readers.arff_header import Attribute
from colabel.datasets.readers.text import FilePath

if TYPE_CHECKING:
    from colabel.datasets.dataset import Features


@dataclass(frozen=True)
class Table:
    """Columns of numbers and of codes.

    Attributes
    ----------
    path : str
        Where the table came from, for error messages.
    attributes : tuple of Attribute
        The columns.
    values : ndarray or csr_array of shape (n_rows, n_attributes)
        Numbers; for a nominal column the position of the value in its list; NaN where missing.
        In a sparse table an entry that is not stored is 0, or the first value.
    """

    path: FilePath
    attributes: tuple[Attribute, ...]
    values: Features

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return [attribute.name for attribute in self.attributes]


class Source(Protocol):
    """A file of some format, read a chunk of rows at a time."""

    @property
    def path(self) -> Path:
        """The file."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns that it offers."""

    def storage(self) -> dict[str, Storage]:
        """Return the columns, and how each is best held."""

    def chunks(self, storage: Mapping[str, Storage], n_rows: int) -> Iterator[Frame]:
        """Read the columns in `storage`, n_rows at a time."""


# Values held at once while a file is read.
_CHUNK_VALUES = 1 << 19


def whole_table(source: Source, storage: Mapping[str, Storage], names: Sequence[str]) -> Table:
    """Read a source as a whole: numbers, and texts as codes of their sorted values.

    Columns in `names` that are not in `storage` read as 0.
    """
    n_rows = max(1, _CHUNK_VALUES // max(1, len(names)))
    frames = list(source.chunks(storage, n_rows))
    if not frames:
        raise DatasetError(f"{source.path} has a header but no rows: fetch the file again.")
    frame = Frame.stacked(frames)
    values = np.zeros((frame.n_rows, len(names)))
    attributes = [Attribute(name, "numeric") for name in names]
    for j, name in enumerate(names):
        if storage.get(name) == "text":
            texts: Any = frame.column(name)
            ordered = sorted({text for text in texts if text is not None})
            code = {text: float(i) for i, text in enumerate(ordered)} | {None: np.nan}
            values[:, j] = [code[text] for text in texts]
            attributes[j] = Attribute(name, "nominal", tuple(ordered), "nominal")
        elif name in storage:
            values[:, j] = frame.column(name)
    return Table(source.path, tuple(attributes), values)


def first_repeat(names: Sequence[str]) -> str | None:
    """Return the first name that has stood before, in one pass however long the list is."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def find_columns(names: Sequence[str], wanted: Sequence[str], path: FilePath) -> list[int]:
    """Positions of the wanted columns, in the order of the file."""
    position = {name: i for i, name in enumerate(names)}
    missing = [name for name in wanted if name not in position]
    if missing:
        listed = ", ".join(map(repr, missing[:3]))
        raise DatasetError(
            f"{path} has no column {listed}{' and others' if len(missing) > 3 else ''}: "
            f"its columns are {', '.join(map(repr, names[:5]))}{', …' if len(names) > 5 else ''}."
        )
    if len(set(wanted)) != len(wanted):
        raise DatasetError(f"A column of {path} is named twice: name each column once.")
    return sorted(position[name] for name in wanted)


def label_positions(
    names: Sequence[str],
    labels: Sequence[str] | int,
    position: Literal["first", "last"],
    path: FilePath,
) -> list[int]:
    """Positions of label columns given by names, or by how many come first or last."""
    if isinstance(labels, str):
        labels = [labels]
    if not isinstance(labels, int):
        if not labels:
            raise DatasetError(f"No label column of {path} is named: name at least one.")
        return find_columns(names, labels, path)
    if position not in ("first", "last"):
        raise DatasetError(f'label_position is {position!r}: choose "first" or "last".')
    if not 1 <= labels < len(names):
        raise DatasetError(
            f"{path} has {len(names)} columns, so {labels} of them cannot be labels: choose "
            f"between 1 and {len(names) - 1}."
        )
    n_names = len(names)
    return list(range(labels) if position == "first" else range(n_names - labels, n_names))
