"""A table as read from a file, before its columns are split into features and labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from colabel.datasets.dataset import DatasetError
from colabel.datasets.readers._arff_header import Attribute
from colabel.datasets.readers._text import FilePath

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


def label_columns(
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
