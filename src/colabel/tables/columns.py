"""What the feature columns of a table are: numbers, categories, text, or of no use."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from colabel.core.schema import OneOf, Text, stored
from colabel.datasets.frame import Frame, TableError

if TYPE_CHECKING:
    from numpy.typing import NDArray

Kind = Literal["number", "category", "text"]

_FEW_CATEGORIES = 30
_WORDS_OF_TEXT = 2.0  # mean words of a value, from which on a column is text
# 2026-11-15, 15.11.26, 11/15/2026; with or without a time of day.
_DATE = re.compile(
    r"\s*(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4})"
    r"([T ]\s*\d{1,2}:\d{2}(:\d{2}([.,]\d+)?)?\s*([AaPp][Mm]|Z|[+-]\d{2}:?\d{2})?)?\s*$"
)


@stored("column", name=Text(), kind=OneOf("number", "category", "text"))
@dataclass(frozen=True)
class Column:
    """A feature column that is used, and as what."""

    name: str
    kind: Kind

    @property
    def storage(self) -> Literal["number", "text"]:
        """How the column is read from a file."""
        return "number" if self.kind == "number" else "text"


@dataclass(frozen=True)
class ColumnChoice:
    """Columns that are used, and those left out with the reason."""

    used: tuple[Column, ...]
    left_out: Mapping[str, str]

    def of_kind(self, kind: Kind) -> list[str]:
        """Names of the columns of one kind."""
        return [column.name for column in self.used if column.kind == kind]


def choose_columns(frame: Frame, forced: Mapping[str, Kind] | None = None) -> ColumnChoice:
    """Decide what each column is.

    A text column of few different values is a category; one of several words a value is text;
    any other, such as a date, a name or a key, is left out, as are columns that never vary and
    columns that number the rows.

    Parameters
    ----------
    frame : Frame
        Feature columns only.
    forced : {name: kind}, optional
        Columns whose kind the user has said.

    Examples
    --------
    >>> from colabel.tables import Frame, choose_columns
    >>> frame = Frame.of({"id": [1, 2, 3, 4], "size": [3, 1, 4, 1], "colour": list("rgrg")})
    >>> choose_columns(frame)
    ColumnChoice(used=(Column(name='size', kind='number'), Column(name='colour', kind='category')),
                 left_out={'id': 'numbers the rows'})
    """
    said = dict(forced or {})
    unknown = [name for name in said if name not in frame.names]
    if unknown:
        raise TableError(f"There is no feature column {unknown[0]!r} to be a {said[unknown[0]]}.")
    used: list[Column] = []
    left_out: dict[str, str] = {}
    for name, reason in _useless_numbers(frame).items():
        if name not in said:
            left_out[name] = reason
    used += [Column(name, "number") for name in frame.number_names if name not in left_out]
    for name, texts in frame.texts.items():
        found = said.get(name) or _kind_of_texts(texts)
        if found in ("category", "text"):
            used.append(Column(name, found))  # type: ignore[arg-type]
        else:
            left_out[name] = found
    if not used:
        reasons = "; ".join(f"{name} {reason}" for name, reason in list(left_out.items())[:4])
        raise TableError(f"No feature column is left to learn from ({reasons or 'none is there'}).")
    return ColumnChoice(tuple(used), left_out)


def storage_of(columns: Sequence[Column]) -> dict[str, Literal["number", "text"]]:
    """How the columns are read from a file."""
    return {column.name: column.storage for column in columns}


def _useless_numbers(frame: Frame) -> dict[str, str]:
    if not isinstance(frame.numbers, np.ndarray):
        return {}  # a sparse table may have a hundred thousand columns: a constant one does no harm
    reasons = {}
    for name, column in zip(frame.number_names, frame.numbers.T, strict=True):
        known = column[~np.isnan(column)]
        if not len(known):
            reasons[name] = "is empty"
        elif len(known) == len(column) and (known == known[0]).all():
            reasons[name] = "never varies"
        elif len(column) > 3 and len(known) == len(column) and (np.diff(known) == 1).all():
            reasons[name] = "numbers the rows"
    return reasons


def _kind_of_texts(texts: NDArray[Any]) -> str:
    """Return "category" or "text", or the reason to leave the column out."""
    known = [text for text in texts if text is not None]
    if not known:
        return "is empty"
    n_values = len(set(known))
    if n_values == 1 and len(known) == len(texts):
        return "never varies"
    if (n_values <= _FEW_CATEGORIES and 2 * n_values <= len(known)) or 10 * n_values <= len(known):
        return "category"
    if all(_DATE.match(text) for text in known):
        return "holds dates: make numbers of them, such as the year"
    if float(np.mean([len(text.split()) for text in known])) >= _WORDS_OF_TEXT:
        return "text"
    return f"has {n_values} different values in {len(known)} rows"
