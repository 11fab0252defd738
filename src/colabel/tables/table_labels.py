"""Which columns of a table are labels, and what they say."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from colabel.core.schema import Many, Text, stored
from colabel.datasets.frame import Frame, TableError
from colabel.datasets.readers.mulan import read_label_names

if TYPE_CHECKING:
    from numpy.typing import NDArray

WORDS = {"no": 0, "yes": 1, "false": 0, "true": 1, "n": 0, "y": 1, "f": 0, "t": 1}
_SEPARATORS = (";", "|", ",")
_LARGEST_LIST = 1 << 24  # characters of a list of names
_MOST_LABELS = 20_000


@stored("label-source", columns=Many(Text()), separator=Text())
@dataclass(frozen=True)
class LabelSource:
    """Where labels stand in a table.

    Attributes
    ----------
    columns : tuple of str
        The label columns, or the one column of tags.
    separator : str
        What separates the tags in it; "" for one column a label.
    """

    columns: tuple[str, ...]
    separator: str = ""


@dataclass(frozen=True, eq=False)
class Labels:
    """Labels read from a table.

    Attributes
    ----------
    names : tuple of d str
    Y : (n, d)
        0/1 integers; with NaN among them where some are missing; or, for other class variables,
        objects with None.
    source : LabelSource
    """

    names: tuple[str, ...]
    Y: NDArray[Any]
    source: LabelSource

    @property
    def missing(self) -> NDArray[np.bool_]:
        """Which labels are not observed, (n, d)."""
        if self.Y.dtype.kind == "f":
            return np.asarray(np.isnan(self.Y))
        if self.Y.dtype.kind == "O":
            return _is_none(self.Y)
        return np.zeros(self.Y.shape, dtype=bool)

    @property
    def is_zero_one(self) -> bool:
        """Whether all the labels are 0 or 1."""
        return self.Y.dtype.kind != "O"


def match_columns(patterns: Iterable[str], names: Sequence[str], what: str) -> tuple[str, ...]:
    """Find columns by name, by glob ("tag_*"), from a list file, or by "a,b,c".

    A list file has one name a line ("@names.txt"), or is the XML file of Mulan ("@labels.xml").

    Examples
    --------
    >>> from colabel.tables import match_columns
    >>> match_columns(["tag_*", "size"], ["size", "tag_red", "tag_round", "x"], "label")
    ('size', 'tag_red', 'tag_round')
    """
    have = set(names)
    chosen: set[str] = set()
    for pattern in expanded(patterns):
        if pattern in have:
            chosen.add(pattern)
            continue
        found = [name for name in names if fnmatchcase(name, pattern)]
        parts = [part.strip() for part in pattern.split(",")]
        if not found and len(parts) > 1:
            found = list(match_columns([part for part in parts if part], names, what))
        if not found:
            close = get_close_matches(pattern, names, n=3)
            hint = f"did you mean {', '.join(map(repr, close))}?" if close else _some(names)
            raise TableError(f"No column is named {pattern!r} (wanted as {what}): {hint}")
        chosen.update(found)
    return tuple(name for name in names if name in chosen)


def _some(names: Sequence[str]) -> str:
    dots = ", …" if len(names) > 8 else ""
    return f"the columns are {', '.join(map(repr, names[:8]))}{dots}."


def expanded(patterns: Iterable[str]) -> list[str]:
    """Patterns with list files replaced by the lines in them."""
    every: list[str] = []
    for pattern in patterns:
        if not pattern.startswith("@"):
            every.append(pattern)
            continue
        file = Path(pattern[1:])
        if file.suffix.lower() == ".xml":  # of Mulan
            every += read_label_names(file)
            continue
        try:
            with file.open(encoding="utf-8") as text:
                lines = text.read(_LARGEST_LIST).splitlines()
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
            raise TableError(f"The list {file} cannot be read ({reason}).") from error
        every += [line.strip() for line in lines if line.strip()]
    if not any(every):
        raise TableError("No label is named: name columns, a glob such as 'tag_*', or a @list.")
    return every


def read_labels(frame: Frame, columns: Sequence[str], separator: str | None = None) -> Labels:
    """Read label columns, or one column of separated tags.

    Parameters
    ----------
    frame : Frame
    columns : names of the label columns
    separator : str, optional
        What separates the tags of the one label column. By default a single text column is
        looked at: it holds tags if a ; or | or comma stands in its values. "" says it does not.

    Returns
    -------
    Labels

    Examples
    --------
    >>> from colabel.tables import Frame, read_labels
    >>> frame = Frame.of({"tags": ["red;round", "red", None]})
    >>> labels = read_labels(frame, ["tags"])
    >>> labels.names, labels.Y.tolist()
    (('red', 'round'), [[1, 1], [1, 0], [0, 0]])
    """
    if separator and len(columns) > 1:
        raise TableError(
            f"A separator is for a single column of tags, but {len(columns)} label columns are "
            "named: name one, or leave the separator out."
        )
    if separator is None and len(columns) == 1:
        separator = _found_separator(frame, columns[0])
    if separator:
        return _tags(frame, columns[0], separator)
    read = [_values(frame.column(name), name) for name in columns]
    every = np.stack(read, axis=1)
    missing = _is_none(every)
    source = LabelSource(tuple(columns))
    known = every[~missing]
    if not len(known):
        raise TableError("Every label is missing: fill in the label columns.")
    if all(value in (0, 1) for value in known.tolist()):
        if missing.any():
            every[missing] = np.nan
            return Labels(tuple(columns), every.astype(np.float64), source)
        return Labels(tuple(columns), every.astype(np.int64), source)
    empty = np.flatnonzero(missing.all(axis=0))
    if len(empty):
        raise TableError(f"The label column {columns[empty[0]]!r} is empty: fill it in.")
    return Labels(tuple(columns), every, source)


def _is_none(values: NDArray[Any]) -> NDArray[np.bool_]:
    none = [value is None for value in values.ravel().tolist()]
    return np.array(none, dtype=bool).reshape(values.shape)


def _found_separator(frame: Frame, name: str) -> str:
    if name not in frame.texts:
        return ""
    known = [text for text in frame.texts[name] if text is not None]
    return next((s for s in _SEPARATORS if any(s in text for text in known)), "")


def split_tags(text: str | None, separator: str) -> list[str]:
    """Tags in a cell, without the blanks around them."""
    return [tag.strip() for tag in (text or "").split(separator) if tag.strip()]


def _tags(frame: Frame, name: str, separator: str) -> Labels:
    column = frame.column(name)
    if name not in frame.texts:
        column = np.array([None if np.isnan(v) else f"{v:g}" for v in column], dtype=object)
    rows = [split_tags(text, separator) for text in column]
    names = tuple(sorted({tag for tags in rows for tag in tags}))
    if not names:
        raise TableError(f"The column {name!r} holds no tag: every row is empty.")
    if len(names) > _MOST_LABELS:
        raise TableError(
            f"The column {name!r} holds {len(names)} different tags, more than {_MOST_LABELS}: is "
            f"it text? Or are tags separated by something else than {separator!r}?"
        )
    position = {tag: i for i, tag in enumerate(names)}
    Y = np.zeros((len(rows), len(names)), dtype=np.int64)
    for i, tags in enumerate(rows):
        Y[i, [position[tag] for tag in tags]] = 1
    return Labels(names, Y, LabelSource((name,), separator))


def _values(column: NDArray[Any], name: str) -> NDArray[np.object_]:
    """Values of one label column: whole numbers, words for 0 and 1, or texts; None if missing."""
    out = np.empty(len(column), dtype=object)
    if column.dtype.kind == "f":
        odd = column[~np.isnan(column) & ((column != np.round(column)) | (abs(column) > 2**53))]
        if len(odd):
            raise TableError(
                f"The label column {name!r} holds {odd[0]:g}: labels are whole numbers or names. "
                "Is this column a feature?"
            )
        out[:] = [None if np.isnan(v) else int(v) for v in column]
        return out
    words = [None if text is None else WORDS.get(text.lower()) for text in column]
    if all((word is None) == (text is None) for word, text in zip(words, column, strict=True)):
        out[:] = words
    else:
        out[:] = column
    return out
