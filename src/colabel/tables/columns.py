"""What the feature columns of a table are: numbers, categories, text, or of no use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from colabel.core.schema import stored
from colabel.datasets.frame import Frame, TableError
from colabel.tables.statistics import MOST_VALUES, ColumnStatistics, TextStatistics

Kind = Literal["number", "category", "text", "date"]

_FEW_CATEGORIES = 30
_WORDS_OF_TEXT = 2.0  # mean words of a value, from which on a column is text


@stored("column")
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


def choose_columns(
    table: Frame | ColumnStatistics, forced: Mapping[str, Kind] | None = None
) -> ColumnChoice:
    """Decide what each column is.

    A text column of dates is one, by their form; one of few different values is a category; one of
    several words a value is text; any other, such as a name or a key, is left out, as are columns
    that never vary and columns that number the rows.

    Parameters
    ----------
    table : Frame or ColumnStatistics
        Feature columns only, or what was counted in them.
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
    counted = ColumnStatistics.of(table) if isinstance(table, Frame) else table
    said = dict(forced or {})
    unknown = [name for name in said if name not in counted.names]
    if unknown:
        raise TableError(f"There is no feature column {unknown[0]!r} to be a {said[unknown[0]]}.")
    used: list[Column] = []
    left_out: dict[str, str] = {}
    for name, reason in _useless_numbers(counted).items():
        if name not in said:
            left_out[name] = reason
    used += [Column(name, "number") for name in counted.number_names if name not in left_out]
    for name, texts in counted.texts.items():
        found = said.get(name) or _kind_of_texts(texts)
        if found in ("category", "text", "date"):
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


def _useless_numbers(counted: ColumnStatistics) -> dict[str, str]:
    if counted.is_sparse:
        return {}  # a sparse table may have a hundred thousand columns: a constant one does no harm
    numbers = counted.numbers
    reasons: dict[str, str] = {}
    is_full = numbers.n_known == numbers.n_rows
    for reason, which in (
        ("is empty", numbers.n_known == 0),
        ("never varies", is_full & (numbers.lowest == numbers.highest)),
        ("numbers the rows", is_full & numbers.counts_up & (numbers.n_rows > 3)),
    ):
        for j in np.flatnonzero(which):
            reasons.setdefault(counted.number_names[j], reason)
    return {name: reasons[name] for name in counted.number_names if name in reasons}


def _kind_of_texts(texts: TextStatistics) -> str:
    """Return "date", "category" or "text", or the reason to leave the column out."""
    n_known = texts.n_known
    if not n_known:
        return "is empty"
    n_values = MOST_VALUES + 1 if texts.counts is None else len(texts.counts)
    if n_values == 1 and n_known == texts.n_rows:
        return "never varies"
    if texts.date_form:
        return "date"
    if texts.dates:
        return "holds dates whose days and months cannot be told apart: write them as 2026-11-15"
    is_few = n_values <= _FEW_CATEGORIES and 2 * n_values <= n_known
    if texts.counts is not None and (is_few or 10 * n_values <= n_known):
        return "category"
    if texts.all_dates:
        return "holds dates of several or unknown forms: write them as 2026-11-15"
    if texts.n_words >= _WORDS_OF_TEXT * n_known:
        return "text"
    found = f"more than {MOST_VALUES}" if texts.counts is None else str(len(texts.counts))
    return f"has {found} different values in {n_known} rows"
