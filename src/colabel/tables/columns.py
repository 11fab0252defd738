"""What the feature columns of a table are: numbers, categories, text, dates, or of no use.

Statistics decide it, and the statistics of the parts of a table add up to those of the whole. Means
and squared deviations of two groups of rows are combined as by Chan, Golub and LeVeque (1983):

    mean = mean_a + d n_b / n,    M = M_a + M_b + d^2 n_a n_b / n,    d = mean_b - mean_a
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy import sparse
from sklearn.feature_extraction.text import CountVectorizer

from colabel.core.arrays import Array, Flags, Indices, is_sparse
from colabel.core.schema import stored
from colabel.tables.source import Frame, TableError, added

Kind = Literal["number", "category", "text", "date"]

MOST_VALUES = 1 << 17
"""Distinct texts of a column that are counted; a column with more is not a category."""

_FEW_CATEGORIES = 30
_WORDS_OF_TEXT = 2.0  # a column with at least this mean number of words is text


DATE_NUMBERS = ("year", "month", "weekday", "days")
"""Numbers of a date: Monday is weekday 0; hours are fractions of the days since 1970."""

_TIME = (
    r"(?:[T ]\s*(?P<H>\d{1,2}):(?P<M>\d{2})(?::(?P<S>\d{2}(?:[.,]\d+)?))?\s*(?P<half>[AaPp][Mm])?"
    r"\s*(?:Z|[+-]\d{2}:?\d{2})?)?\s*$"
)
_DAY, _MONTH, _YEAR = r"(?P<d>\d{1,2})", r"(?P<m>\d{1,2})", r"(?P<y>\d{4})"
DATE_FORMS: Mapping[str, str] = MappingProxyType(
    {
        "2026-11-15": rf"^\s*{_YEAR}(?P<s>[-/.]){_MONTH}(?P<z>[-/.]){_DAY}{_TIME}",
        "15.11.2026": rf"^\s*{_DAY}(?P<s>\.){_MONTH}(?P<z>\.){_YEAR}{_TIME}",
        "15/11/2026": rf"^\s*{_DAY}(?P<s>[-/]){_MONTH}(?P<z>[-/]){_YEAR}{_TIME}",
        "11/15/2026": rf"^\s*{_MONTH}(?P<s>[-/]){_DAY}(?P<z>[-/]){_YEAR}{_TIME}",
    }
)
"""Regular expressions of dates, by how the form writes 15 November 2026; a time may follow.

Only the last two forms can be confused with each other.
"""

ANY_DATE = (
    r"^\s*(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4})"
    r"([T ]\s*\d{1,2}:\d{2}(:\d{2}([.,]\d+)?)?\s*([AaPp][Mm]|Z|[+-]\d{2}:?\d{2})?)?\s*$"
)
"""2026-11-15, 15.11.26, 11/15/2026; with or without a time of day."""


@stored("column")
@dataclass(frozen=True)
class Column:
    """A feature column that is used, and as what."""

    name: str
    kind: Literal["number", "category", "text", "date"]


@dataclass(frozen=True)
class ColumnChoice:
    """The columns that are used, and the reason for each one left out."""

    used: tuple[Column, ...]
    left_out: Mapping[str, str]

    def of_kind(self, kind: Kind) -> list[str]:
        """Names of the columns of one kind."""
        return [column.name for column in self.used if column.kind == kind]


@dataclass(frozen=True)
class NumberStatistics:
    """Statistics of c columns of numbers.

    Attributes
    ----------
    n_rows : int
    n_known, mean, squares, lowest, highest : (c,)
        Of the numbers that are not missing; `squares` is the sum of squared deviations.
    first, last : (c,)
        Numbers of the first and of the last row.
    counts_up : (c,)
        Whether each number is one more than that of the row before.
    """

    n_rows: int
    n_known: Indices
    mean: Array
    squares: Array
    lowest: Array
    highest: Array
    first: Array
    last: Array
    counts_up: Flags

    @classmethod
    def of(cls, block: Any) -> NumberStatistics:
        """Return the statistics of numbers (n, c), NaN where missing; n is at least one."""
        n_rows, n_columns = block.shape
        if is_sparse(block):  # only the range is used
            columns = sparse.csc_array(block)
            columns.data = np.nan_to_num(columns.data)
            limits = columns.min(axis=0).toarray(), columns.max(axis=0).toarray()
            zero, full = np.zeros(n_columns), np.full(n_columns, n_rows)
            return cls(n_rows, full, zero, zero, *limits, zero, zero, zero > 0)
        n_known = n_rows - np.isnan(block).sum(axis=0)
        if (n_known == n_rows).all():
            mean = block.mean(axis=0)
            deviations = block - mean
            squares = np.einsum("ij,ij->j", deviations, deviations)
        else:
            mean = np.nansum(block, axis=0) / np.maximum(n_known, 1)
            squares = np.nansum((block - mean) ** 2, axis=0)
        lowest, highest = np.fmin.reduce(block, axis=0), np.fmax.reduce(block, axis=0)
        # a column that numbers the rows has a range of n_rows - 1
        may = np.flatnonzero(highest - lowest == n_rows - 1)
        counts_up = np.zeros(n_columns, dtype=bool)
        counts_up[may] = (np.diff(block[:, may], axis=0) == 1).all(axis=0)
        return cls(n_rows, n_known, mean, squares, lowest, highest, block[0], block[-1], counts_up)

    def __add__(self, other: NumberStatistics) -> NumberStatistics:
        n_known = self.n_known + other.n_known
        share = other.n_known / np.maximum(n_known, 1)
        apart = other.mean - self.mean
        return NumberStatistics(
            self.n_rows + other.n_rows,
            n_known,
            self.mean + apart * share,
            self.squares + other.squares + apart**2 * self.n_known * share,
            np.fmin(self.lowest, other.lowest),
            np.fmax(self.highest, other.highest),
            self.first,
            other.last,
            self.counts_up & other.counts_up & (other.first - self.last == 1),
        )

    @property
    def n_missing(self) -> Indices:
        """Missing numbers of each column, (c,)."""
        missing: Indices = self.n_rows - self.n_known
        return missing

    def of_columns(self, columns: Sequence[int]) -> NumberStatistics:
        """Return the statistics of some of the columns."""
        own = {name: values for name, values in vars(self).items() if name != "n_rows"}
        chosen = {name: values[list(columns)] for name, values in own.items()}
        return NumberStatistics(self.n_rows, **chosen)


@dataclass(frozen=True)
class TextStatistics:
    """Statistics of a column of texts.

    Attributes
    ----------
    n_rows, n_known : int
    counts : {text: rows}, or None
        None if there are too many distinct ones.
    n_words : int
        Over all rows.
    all_dates : bool
        Whether all texts look like dates of some form.
    dates : {form: NumberStatistics}
        Statistics of the `DATE_NUMBERS`, for each form that all texts have.
    """

    n_rows: int
    n_known: int
    counts: Mapping[str, int] | None
    n_words: int
    all_dates: bool
    dates: Mapping[str, NumberStatistics]

    @classmethod
    def of(cls, values: list[str], codes: Indices) -> TextStatistics:
        """Return the statistics of texts: distinct values and their codes (n,), -1 if missing."""
        times = np.bincount(codes[codes >= 0], minlength=len(values))
        counts = Counter({v: n for v, n in zip(values, times.tolist(), strict=True) if n})
        n_words = sum(len(text.split()) * n_times for text, n_times in counts.items())
        known = pa.array(values, "string").filter(pa.array(times > 0))
        all_dates = bool(pc.all(pc.match_substring_regex(known, ANY_DATE)).as_py() or not counts)
        dates = {}
        for form in DATE_FORMS if all_dates else ():
            numbers = date_numbers(values, form)
            if not np.isnan(numbers[times > 0]).any():
                rows = np.vstack([numbers, np.full((1, numbers.shape[1]), np.nan)])[codes]
                dates[form] = NumberStatistics.of(rows)
        few = counts if len(counts) <= MOST_VALUES else None
        return cls(len(codes), int(times.sum()), few, n_words, all_dates, dates)

    def __add__(self, other: TextStatistics) -> TextStatistics:
        forms = self.dates.keys() & other.dates.keys()
        both = None
        if self.counts is not None and other.counts is not None:
            both = Counter(self.counts) + Counter(other.counts)
            both = both if len(both) <= MOST_VALUES else None
        return TextStatistics(
            self.n_rows + other.n_rows,
            self.n_known + other.n_known,
            both,
            self.n_words + other.n_words,
            self.all_dates and other.all_dates,
            {form: self.dates[form] + other.dates[form] for form in forms},
        )

    @property
    def date_form(self) -> str | None:
        """The form of dates that all texts have; None if there is none, or more than one."""
        return next(iter(self.dates)) if len(self.dates) == 1 else None

    @property
    def kind(self) -> str:
        """The kind of a column of such texts, or the reason to leave it out."""
        if not self.n_known:
            return "is empty"
        n_values = MOST_VALUES + 1 if self.counts is None else len(self.counts)
        if n_values == 1 and self.n_known == self.n_rows:
            return "never varies"
        if self.date_form:
            return "date"
        if self.dates:
            return (
                "holds dates whose days and months cannot be told apart: write them as 2026-11-15"
            )
        is_few = n_values <= _FEW_CATEGORIES and 2 * n_values <= self.n_known
        if self.counts is not None and (is_few or 10 * n_values <= self.n_known):
            return "category"
        if self.all_dates:
            return "holds dates of several or unknown forms: write them as 2026-11-15"
        if self.n_words >= _WORDS_OF_TEXT * self.n_known:
            return "text"
        many = f"more than {MOST_VALUES}" if self.counts is None else str(n_values)
        return f"has {many} different values in {self.n_known} rows"


def count_words(values: list[str], codes: Indices) -> Counter[str]:
    """Count the rows that contain each word, in texts given by distinct values and codes (n,)."""
    # a word is two or more letters or digits, without accents, in small letters
    words = CountVectorizer(strip_accents="unicode").build_analyzer()
    n_rows = np.bincount(codes[codes >= 0], minlength=len(values)).tolist()
    rows = Counter[str]()
    for text, n in zip(values, n_rows, strict=True):
        rows.update(dict.fromkeys(words(text) if n else (), n))
    return rows


@dataclass(frozen=True)
class ColumnStatistics:
    """Statistics of the feature columns of a table.

    Attributes
    ----------
    number_names : tuple of str
    numbers : NumberStatistics
        Of the columns of numbers, in the order of their names.
    is_sparse : bool
        Whether these are stored sparsely.
    texts : {name: TextStatistics}
    """

    number_names: tuple[str, ...]
    numbers: NumberStatistics
    is_sparse: bool
    texts: Mapping[str, TextStatistics]

    @classmethod
    def of(cls, frame: Frame) -> ColumnStatistics:
        """Return the statistics of the rows of a frame, at least one."""
        texts = {name: TextStatistics.of(*frame.coded(name)) for name in frame.texts}
        numbers = NumberStatistics.of(frame.numbers)
        return cls(frame.number_names, numbers, frame.is_sparse, texts)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.numbers.n_rows

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns, those of numbers first."""
        return (*self.number_names, *self.texts)

    def __add__(self, other: ColumnStatistics) -> ColumnStatistics:
        numbers, texts = self.numbers + other.numbers, added(self.texts, other.texts)
        return ColumnStatistics(self.number_names, numbers, self.is_sparse, texts)

    def n_missing(self, names: Sequence[str]) -> int:
        """Return the number of missing values in some of the columns."""
        missing = dict(zip(self.number_names, self.numbers.n_missing.tolist(), strict=True))
        missing |= {name: column.n_rows - column.n_known for name, column in self.texts.items()}
        return sum(missing[name] for name in names)

    @property
    def useless_numbers(self) -> dict[str, str]:
        """Columns of numbers that are not worth using, with the reasons."""
        if self.is_sparse:
            return {}  # there may be 100,000 columns, and a constant one does no harm
        numbers = self.numbers
        is_full = numbers.n_known == numbers.n_rows
        reasons: dict[str, str] = {}
        for reason, which in (
            ("numbers the rows", is_full & numbers.counts_up & (numbers.n_rows > 3)),
            ("never varies", is_full & (numbers.lowest == numbers.highest)),
            ("is empty", numbers.n_known == 0),
        ):
            reasons |= {self.number_names[j]: reason for j in np.flatnonzero(which)}
        return {name: reasons[name] for name in self.number_names if name in reasons}


def choose_columns(
    table: Frame | ColumnStatistics, forced: Mapping[str, Kind] | None = None
) -> ColumnChoice:
    """Decide what each column is.

    A text column whose values are dates of one form is a date; one with few distinct values is a
    category; one with several words per value is text. Others, such as names or keys, are left out,
    as are columns that never vary and columns that number the rows.

    Parameters
    ----------
    table : Frame or ColumnStatistics
        Feature columns only, or their statistics.
    forced : {name: kind}, optional
        Columns whose kind the user has chosen.

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
    known = set(counted.names)
    unknown = [name for name in said if name not in known]
    if unknown:
        raise TableError(f"There is no feature column {unknown[0]!r} to be a {said[unknown[0]]}.")
    useless = counted.useless_numbers
    left_out = {name: reason for name, reason in useless.items() if name not in said}
    used = [Column(name, "number") for name in counted.number_names if name not in left_out]
    for name, texts in counted.texts.items():
        kind: Any = said.get(name) or texts.kind
        if kind in ("category", "text", "date"):
            used.append(Column(name, kind))
        else:
            left_out[name] = kind
    if not used:
        reasons = "; ".join(f"{name} {reason}" for name, reason in list(left_out.items())[:4])
        raise TableError(f"No feature column is left to learn from ({reasons or 'none is there'}).")
    return ColumnChoice(tuple(used), left_out)


def date_numbers(texts: Any, form: str) -> Array:
    """Return `DATE_NUMBERS` (n, 4) of texts; NaN where a text is not a date of the form.

    Examples
    --------
    >>> from colabel.tables.columns import date_numbers
    >>> date_numbers(["1970-01-02 06:00", "31.2.2026"], "2026-11-15").tolist()
    [[1970.0, 1.0, 4.0, 1.25], [nan, nan, nan, nan]]
    """
    parts = pc.extract_regex(pa.array(texts, "string"), DATE_FORMS[form])

    def part(name: str) -> Array:
        own = pc.struct_field(parts, name)
        plain = pc.replace_substring(pc.if_else(pc.equal(own, ""), "0", own), ",", ".")
        numbers: Array = pc.fill_null(plain, "0").cast("float64").to_numpy(zero_copy_only=False)
        return numbers

    same = pc.equal(pc.struct_field(parts, "s"), pc.struct_field(parts, "z"))
    year, month, day, hour = map(part, "ymdH")
    months = ((year - 1970) * 12 + month - 1).astype(np.int64).astype("M8[M]")
    days = months.astype("M8[D]") + (day - 1).astype(np.int64)
    good = pc.fill_null(same, False).to_numpy(zero_copy_only=False)
    good = good & (year >= 1) & (month >= 1) & (month <= 12) & (day >= 1)
    good &= days.astype("M8[M]") == months
    half = pc.fill_null(pc.utf8_lower(pc.struct_field(parts, "half")), "")
    late = pc.equal(half, "pm").to_numpy(zero_copy_only=False)
    is_half = pc.not_equal(half, "").to_numpy(zero_copy_only=False)
    hour = np.where(is_half, hour % 12 + 12 * late, hour)
    count = days.astype(np.int64)
    total = count + (60 * (60 * hour + part("M")) + part("S")) / 86_400
    numbers = np.column_stack([year, month, (count + 3) % 7, total])
    numbers[~good] = np.nan
    return numbers
