"""Which columns of a table are labels, and what they say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from colabel.core.arrays import Array, Flags
from colabel.core.schema import stored
from colabel.datasets.frame import Frame, TableError
from colabel.datasets.readers.mulan import read_label_names
from colabel.labels import SEPARATORS

if TYPE_CHECKING:
    from numpy.typing import NDArray

WORDS = {"no": 0, "yes": 1, "false": 0, "true": 1, "n": 0, "y": 1, "f": 0, "t": 1}
Place = Callable[[int], str]  # where in a file a row is, with a colon and a blank behind it

_LARGEST_LIST = 1 << 24  # characters of a list of names
_MOST_LABELS = 20_000
# From so many rows on, a column with more than this share of different values is no label.
_FEWEST_OF_KEY = 20
_SHARE_OF_KEY = 0.9


@stored("label-source")
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
    def missing(self) -> Flags:
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
        raise TableError(
            "No label is named (--labels): name columns, a glob such as 'tag_*', or a @list. Only"
            " a MEKA file says itself, by -C in its relation, which columns are labels."
        )
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
    check_separator(columns, separator)
    if separator is None and len(columns) == 1:
        separator = found_separator(separators_in(frame, columns[0]))
    counted = LabelStatistics.of(frame, columns, separator or "")
    return counted.reader(columns, separator or "").read(frame)


def check_separator(columns: Sequence[str], separator: str | None) -> None:
    """Refuse a separator where labels have columns of their own."""
    if separator and len(columns) > 1:
        raise TableError(
            f"A separator is for a single column of tags, but {len(columns)} label columns are "
            "named: name one, or leave the separator out."
        )


def separators_in(frame: Frame, name: str) -> set[str]:
    """Which separators of tags occur in a column."""
    known = {text for text in frame.texts.get(name, ()) if text is not None}
    return {separator for separator in SEPARATORS if any(separator in text for text in known)}


def found_separator(seen: Container[str]) -> str:
    """Return the separator of tags among those seen in a column; "" for none."""
    return next((separator for separator in SEPARATORS if separator in seen), "")


@dataclass(frozen=True)
class LabelStatistics:
    """Values of label columns, or tags, and how many rows have each; those of parts add up.

    Attributes
    ----------
    counts : tuple of {value: rows}
        Whole numbers or texts, for each column; for a column of tags, the tags.
    n_rows : int
    """

    counts: tuple[Mapping[int | str, int], ...]
    n_rows: int

    @classmethod
    def of(
        cls, frame: Frame, columns: Sequence[str], separator: str, place: Place = lambda i: ""
    ) -> LabelStatistics:
        """Count in the rows of a frame; `place` names a row, where something is wrong in it."""
        if separator:
            tags: Counter[int | str] = Counter(
                tag for row in _rows_of_tags(frame, columns[0], separator) for tag in row
            )
            if len(tags) > _MOST_LABELS:
                raise _too_many(columns[0], len(tags), separator)
            return cls((tags,), frame.n_rows)
        counted: list[Mapping[int | str, int]] = []
        for name in columns:
            column = frame.column(name)
            if column.dtype.kind == "f":
                known = column[~np.isnan(column)]
                values, times = np.unique(known, return_counts=True)
                _refuse_fractions(column, values, name, place)
                counted.append(dict(zip(map(int, values), times.tolist(), strict=True)))
            else:
                texts = Counter(column.tolist())
                texts.pop(None, 0)
                counted.append(texts)
        return cls(tuple(counted), frame.n_rows)

    def __add__(self, other: LabelStatistics) -> LabelStatistics:
        pairs = zip(self.counts, other.counts, strict=True)
        both = tuple(Counter(one) + Counter(more) for one, more in pairs)
        return LabelStatistics(both, self.n_rows + other.n_rows)

    def reader(self, columns: Sequence[str], separator: str) -> LabelReader:
        """Return what reads labels of these values."""
        source = LabelSource(tuple(columns), separator)
        if separator:
            (counts,) = self.counts
            tags = tuple(sorted(map(str, counts)))
            if not tags:
                raise TableError(f"The column {columns[0]!r} holds no tag: every row is empty.")
            if len(tags) > _MOST_LABELS:
                raise _too_many(columns[0], len(tags), separator)
            return LabelReader(source, tags, (), np.dtype(np.int64))
        for name, counts in zip(columns, self.counts, strict=True):
            _refuse_key(name, counts)
        meanings = tuple(map(_meaning, self.counts))
        known = [value for meaning in meanings for value in meaning.values()]
        if not known:
            raise TableError("Every label is missing: fill in the label columns.")
        if all(value in (0, 1) for value in known):
            is_full = all(sum(counts.values()) == self.n_rows for counts in self.counts)
            dtype: np.dtype[Any] = np.dtype(np.int64 if is_full else np.float64)
        else:
            dtype = np.dtype(object)
            empty = [name for name, own in zip(columns, meanings, strict=True) if not own]
            if empty:
                raise TableError(f"The label column {empty[0]!r} is empty: fill it in.")
        return LabelReader(source, tuple(columns), meanings, dtype)


def _too_many(name: str, n_tags: int, separator: str) -> TableError:
    return TableError(
        f"The column {name!r} holds {n_tags} different tags, more than {_MOST_LABELS}: is it text? "
        f"Or are tags separated by something else than {separator!r}?"
    )


def _refuse_key(name: str, counts: Mapping[int | str, int]) -> None:
    """Refuse a column in which nearly every row has a value of its own."""
    n_known = sum(counts.values())
    if n_known >= _FEWEST_OF_KEY and len(counts) > _SHARE_OF_KEY * n_known:
        raise TableError(
            f"The label column {name!r} holds {len(counts)} different values in {n_known} rows: is "
            "it an id, or text? Name columns whose values recur; if it holds tags, say what "
            "separates them (--separator)."
        )


def _refuse_fractions(column: Array, values: Array, name: str, place: Place) -> None:
    odd = values[(values != np.round(values)) | (abs(values) > 2**53)]
    if len(odd):
        first = int(np.flatnonzero(np.isin(column, odd))[0])
        raise TableError(
            f"{place(first)}The label column {name!r} holds {column[first]:g}: labels are whole "
            "numbers or names. Is this column a feature?"
        )


def _meaning(counts: Iterable[int | str]) -> dict[int | str, int | str]:
    """What the values of a column stand for: words for 0 and 1 only where all are such words."""
    words = {v: WORDS.get(v.lower()) if isinstance(v, str) else v for v in counts}
    return {v: v for v in words} if None in words.values() else dict[Any, Any](words)


@dataclass(frozen=True)
class LabelReader:
    """Reads the labels of rows, some at a time.

    Attributes
    ----------
    source : LabelSource
    names : tuple of d str
    meanings : tuple of d {value: label}
        Of the values of each column; of tags there are none.
    dtype : dtype
        Of the labels: whole numbers, floats where some are missing, or objects.
    """

    source: LabelSource
    names: tuple[str, ...]
    meanings: tuple[Mapping[int | str, int | str], ...]
    dtype: np.dtype[Any]

    def read(self, frame: Frame) -> Labels:
        """Read the labels of the rows of a frame."""
        if self.source.separator:
            return Labels(self.names, self._tags(frame), self.source)
        Y = np.empty((frame.n_rows, len(self.names)), dtype=self.dtype)
        for i, (name, meaning) in enumerate(zip(self.names, self.meanings, strict=True)):
            column = frame.column(name)
            if column.dtype.kind == "f" and self.dtype.kind != "O":
                Y[:, i] = column
                continue
            missing = None if self.dtype.kind == "O" else np.nan
            lookup: dict[Any, Any] = {None: missing, **meaning}
            if column.dtype.kind == "f":
                Y[:, i] = [missing if v != v else lookup[int(v)] for v in column.tolist()]
            else:
                Y[:, i] = [lookup[text] for text in column]
        return Labels(self.names, Y, self.source)

    def coded(self, Y: NDArray[Any]) -> NDArray[np.integer[Any]]:
        """Return labels (n, d) as small whole numbers, -1 where missing."""
        if self.dtype.kind != "O":
            return np.where(np.isnan(Y), -1, Y).astype(np.int8)
        codes = np.empty(Y.shape, dtype=np.int32)
        for i, values in enumerate(self._values):
            code: dict[Any, int] = {value: k for k, value in enumerate(values)} | {None: -1}
            codes[:, i] = [code[value] for value in Y[:, i]]
        return codes

    def decoded(self, codes: NDArray[np.integer[Any]]) -> NDArray[Any]:
        """Return the labels (n, d) that `coded` was given."""
        Y = codes.astype(self.dtype)
        if self.dtype.kind == "f":
            Y[codes < 0] = np.nan
        elif self.dtype.kind == "O":
            for i, values in enumerate(self._values):
                Y[:, i] = np.array([*values, None], dtype=object)[codes[:, i]]
        return Y

    @property
    def _values(self) -> list[list[int | str]]:
        """The different values of each label."""
        return [list(dict.fromkeys(meaning.values())) for meaning in self.meanings]

    def _tags(self, frame: Frame) -> NDArray[np.int64]:
        position = {tag: i for i, tag in enumerate(self.names)}
        Y = np.zeros((frame.n_rows, len(self.names)), dtype=np.int64)
        rows = _rows_of_tags(frame, self.source.columns[0], self.source.separator)
        for i, tags in enumerate(rows):
            Y[i, [position[tag] for tag in tags]] = 1
        return Y


def is_labelled(frame: Frame, columns: Sequence[str]) -> Flags:
    """Whether any of some label columns is known in a row, (n,)."""
    known = np.zeros(frame.n_rows, dtype=bool)
    for name in columns:
        column = frame.column(name)
        known |= ~np.isnan(column) if column.dtype.kind == "f" else ~_is_none(column)
    return known


def split_tags(text: str | None, separator: str) -> list[str]:
    """Tags in a cell, without the blanks around them."""
    return [tag.strip() for tag in (text or "").split(separator) if tag.strip()]


def _rows_of_tags(frame: Frame, name: str, separator: str) -> list[list[str]]:
    column = frame.column(name)
    if name not in frame.texts:
        column = np.array([None if np.isnan(v) else f"{v:g}" for v in column], dtype=object)
    return [split_tags(text, separator) for text in column]


def _is_none(values: NDArray[Any]) -> Flags:
    none = [value is None for value in values.ravel().tolist()]
    return np.array(none, dtype=bool).reshape(values.shape)
