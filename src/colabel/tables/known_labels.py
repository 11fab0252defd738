"""Labels that are already known: columns of a new table as evidence for a joint."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from colabel.core.arrays import Codes
from colabel.datasets.frame import Frame, TableError
from colabel.datasets.readers.text import FilePath
from colabel.labels import MISSING, LabelSpace
from colabel.tables.table_labels import WORDS, expanded, match_columns, split_tags

if TYPE_CHECKING:
    from numpy.typing import NDArray

_SEPARATOR = ";"


@dataclass(frozen=True)
class KnownColumn:
    """A column with known values of one label, or (label None) with known tags."""

    name: str
    label: int | None


def find_known(
    patterns: Sequence[str], names: Sequence[str], space: LabelSpace
) -> tuple[KnownColumn, ...]:
    """Find the columns that hold known labels.

    A column named like a label holds its values, and so does one whose name has a label where a
    pattern has its "*", such as known_red for "known_*". Any other holds tags that are known to
    be there, or, with a "!" before them, known not to be.
    """
    found: dict[str, KnownColumn] = {}
    for pattern in expanded(patterns):
        for name in match_columns([pattern], names, "known labels"):
            label = name if name in space.names else _at_star(name, pattern)
            position = space.names.index(label) if label in space.names else None
            if position is None and not space.is_indicator:
                raise TableError(
                    f"The column {name!r} is named like no label, and only 0/1 labels can be "
                    "given as tags: name it like the label whose values it holds."
                )
            found[name] = KnownColumn(name, position)
    return tuple(found.values())


def _at_star(name: str, pattern: str) -> str | None:
    before, star, after = pattern.partition("*")
    if not star or "*" in after or not name.startswith(before) or not name.endswith(after):
        return None
    return name[len(before) : len(name) - len(after)]


def evidence_codes(
    frame: Frame,
    known: Sequence[KnownColumn],
    space: LabelSpace,
    separator: str = "",
    first_row: int = 1,
    path: FilePath | None = None,
) -> Codes:
    """Return the codes (n, d) of what is known, MISSING elsewhere.

    What cannot be understood is named by its row, counted from `first_row`, and by `path`.
    """

    def place(i: int) -> str:
        return f"Row {first_row + i}" if path is None else f"{path}, row {first_row + i}"

    codes = np.full((frame.n_rows, space.n_labels), MISSING, dtype=np.int32)
    for column in known:
        texts = frame.texts[column.name]
        if column.label is None:
            _put_tags(codes, texts, column.name, space, separator or _SEPARATOR, place)
            continue
        lookup = _codes_of_texts(space.classes[column.label])
        for i, text in enumerate(texts):
            if text is None:
                continue
            code = lookup.get(text.lower())
            if code is None:
                values = ", ".join(map(str, space.classes[column.label][:6]))
                raise TableError(
                    f"{place(i)}: the column {column.name!r} says {text!r}, but the label "
                    f"{space.names[column.label]!r} has the values {values}."
                )
            codes[i, column.label] = code
    return codes


def _put_tags(
    codes: Codes,
    texts: NDArray[np.object_],
    name: str,
    space: LabelSpace,
    separator: str,
    place: Callable[[int], str],
) -> None:
    position = {label: i for i, label in enumerate(space.names)}
    for i, text in enumerate(texts):
        for tag in split_tags(text, separator):
            label = position.get(tag)
            value = 1
            if label is None and tag.startswith("!"):
                label, value = position.get(tag[1:].strip()), 0
            if label is None:
                raise TableError(
                    f"{place(i)}: the column {name!r} says {tag!r}, which is none of the "
                    f"model's {space.n_labels} labels."
                )
            codes[i, label] = value


def _codes_of_texts(classes: NDArray[Any]) -> dict[str, int]:
    """Texts that stand for the values of a label, in lower case."""
    lookup: dict[str, int] = {}
    for code, value in enumerate(classes.tolist()):
        lookup[str(value).lower()] = code
        if isinstance(value, bool | int | float) and float(value).is_integer():
            lookup[str(int(value))] = lookup[f"{float(value):.1f}"] = code
    if set(lookup) & {"0", "1"} and len(classes) == 2:
        for word, number in WORDS.items():
            if str(number) in lookup:
                lookup.setdefault(word, lookup[str(number)])
    return lookup
