"""What is counted in the columns of a table; the counts of its parts add up to those of the whole.

Mean and squared deviations of two groups of rows are added as by Chan, Golub and LeVeque (1983):

    mean = mean_a + d n_b / n,    M = M_a + M_b + d^2 n_a n_b / n,    d = mean_b - mean_a
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.feature_extraction.text import CountVectorizer

from colabel.core.arrays import Array, Flags, Indices, is_sparse
from colabel.datasets.frame import Frame
from colabel.tables.dates import date_block, forms_of

MOST_VALUES = 1 << 17
"""Different texts of a column that are counted; more of them are no categories."""

# 2026-11-15, 15.11.26, 11/15/2026; with or without a time of day.
_DATE = re.compile(
    r"\s*(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4})"
    r"([T ]\s*\d{1,2}:\d{2}(:\d{2}([.,]\d+)?)?\s*([AaPp][Mm]|Z|[+-]\d{2}:?\d{2})?)?\s*$"
)


@dataclass(frozen=True)
class NumberStatistics:
    """What is counted in c columns of numbers.

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
        """Count in numbers (n, c), NaN where missing; n is at least one."""
        if is_sparse(block):
            return cls._of_sparse(sparse.csc_array(block))
        n_known = block.shape[0] - np.isnan(block).sum(axis=0)
        divisor = np.maximum(n_known, 1)
        if (n_known == len(block)).all():
            mean = block.mean(axis=0)
            deviations = block - mean
            squares = np.einsum("ij,ij->j", deviations, deviations)
        else:
            mean = np.nansum(block, axis=0) / divisor
            squares = np.nansum((block - mean) ** 2, axis=0)
        lowest, highest = np.fmin.reduce(block, axis=0), np.fmax.reduce(block, axis=0)
        # only a column whose range is its length can number the rows
        may = np.flatnonzero(highest - lowest == len(block) - 1)
        counts_up = np.zeros(block.shape[1], dtype=bool)
        counts_up[may] = (np.diff(block[:, may], axis=0) == 1).all(axis=0)
        return cls(
            len(block), n_known, mean, squares, lowest, highest, block[0], block[-1], counts_up
        )

    @classmethod
    def _of_sparse(cls, columns: Any) -> NumberStatistics:
        """Count in a sparse block, where only the range of a column is of interest."""
        columns.data = np.nan_to_num(columns.data)
        n_rows, n_columns = columns.shape
        highest, lowest = columns.max(axis=0).toarray(), columns.min(axis=0).toarray()
        nothing = np.zeros(n_columns)
        known = np.full(n_columns, n_rows)
        never = np.zeros(n_columns, dtype=bool)
        return cls(n_rows, known, nothing, nothing, lowest, highest, nothing, nothing, never)

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
        """Return those of some of the columns."""
        own = {name: values for name, values in vars(self).items() if name != "n_rows"}
        chosen = {name: values[list(columns)] for name, values in own.items()}
        return NumberStatistics(self.n_rows, **chosen)

    def filled(self, fill: Array) -> tuple[Array, Array]:
        """Mean and variance (c,) once the missing numbers have become `fill` (c,)."""
        share = self.n_missing / self.n_rows
        apart = fill - self.mean
        mean = self.mean + apart * share
        return mean, self.squares / self.n_rows + apart**2 * share * (1.0 - share)


@dataclass(frozen=True)
class TextStatistics:
    """What is counted in a column of texts.

    Attributes
    ----------
    n_rows, n_known : int
    counts : {text: rows}, or None
        None where there are too many different ones.
    n_words : int
        Of all the rows together.
    all_dates : bool
        Whether all texts look like dates, of whatever form.
    dates : {form: NumberStatistics}
        Of the `DATE_NUMBERS` of the texts, for each form of dates that all of them have.
    """

    n_rows: int
    n_known: int
    counts: Mapping[str, int] | None
    n_words: int
    all_dates: bool
    dates: Mapping[str, NumberStatistics]

    @classmethod
    def of(cls, texts: NDArray[np.object_]) -> TextStatistics:
        """Count in texts (n,), None where missing."""
        counts = Counter(texts.tolist())
        n_known = len(texts) - counts.pop(None, 0)
        n_words = sum(len(text.split()) * n_times for text, n_times in counts.items())
        all_dates = all(_DATE.match(text) for text in counts)
        dates = {
            form: NumberStatistics.of(date_block(texts, form, "")) for form in forms_of(counts)
        }
        return cls(len(texts), n_known, _few(counts), n_words, all_dates, dates)

    def __add__(self, other: TextStatistics) -> TextStatistics:
        both = None
        if self.counts is not None and other.counts is not None:
            both = _few(Counter(self.counts) + Counter(other.counts))
        return TextStatistics(
            self.n_rows + other.n_rows,
            self.n_known + other.n_known,
            both,
            self.n_words + other.n_words,
            self.all_dates and other.all_dates,
            {
                form: own + other.dates[form]
                for form, own in self.dates.items()
                if form in other.dates
            },
        )

    @property
    def date_form(self) -> str | None:
        """The form of the dates that all texts are; None if they are none, or of two forms."""
        return next(iter(self.dates)) if len(self.dates) == 1 else None


def _few(counts: Counter[str]) -> Counter[str] | None:
    return counts if len(counts) <= MOST_VALUES else None


@dataclass(frozen=True)
class WordStatistics:
    """How often each word occurs in a column of texts, and in how many of its rows."""

    n_rows: int
    times: Counter[str]
    rows: Counter[str]

    @classmethod
    def of(cls, texts: NDArray[np.object_]) -> WordStatistics:
        """Count the words of texts (n,), "" where missing."""
        times, rows = Counter[str](), Counter[str]()
        words_of = _analyzer()
        for text in texts:
            words = words_of(text)
            times.update(words)
            rows.update(set(words))
        return cls(len(texts), times, rows)

    def __add__(self, other: WordStatistics) -> WordStatistics:
        return WordStatistics(
            self.n_rows + other.n_rows, self.times + other.times, self.rows + other.rows
        )


@cache
def _analyzer() -> Callable[[str], list[str]]:
    # what a word is: two or more letters or digits, without accents, in small letters
    words: Callable[[str], list[str]] = CountVectorizer(strip_accents="unicode").build_analyzer()
    return words


@dataclass(frozen=True)
class ColumnStatistics:
    """What is counted in the feature columns of a table.

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
        """Count in the rows of a frame, at least one."""
        texts = {name: TextStatistics.of(column) for name, column in frame.texts.items()}
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
        texts = {name: column + other.texts[name] for name, column in self.texts.items()}
        return ColumnStatistics(
            self.number_names, self.numbers + other.numbers, self.is_sparse, texts
        )

    def n_missing(self, names: Sequence[str]) -> int:
        """Missing values of some of the columns."""
        missing = dict(zip(self.number_names, self.numbers.n_missing.tolist(), strict=True))
        missing |= {name: column.n_rows - column.n_known for name, column in self.texts.items()}
        return sum(missing[name] for name in names)
