"""What preprocessing learns of a column, as plain tables: numbers, category lists, vocabularies.

They are what scikit-learn's transformers learn, of the rows or of statistics of them; only these
tables are kept, so that a model file holds nothing but data, and their sizes and ranges can be
checked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import MaxAbsScaler, StandardScaler

from colabel.core.arrays import Array, Indices
from colabel.core.schema import (
    Ascending,
    Below,
    Between,
    Dims,
    Fields,
    Is,
    Unique,
    bind,
    refuse_unless,
    stored,
)
from colabel.datasets.frame import TableError
from colabel.tables.dates import DATE_FORMS, DATE_NUMBERS, date_block
from colabel.tables.statistics import NumberStatistics, TextStatistics, WordStatistics

_FARTHEST = 1e300  # a number from which differences and quotients can still be taken
_MOST_CATEGORIES = 100  # of a column; rarer ones share a column
_MOST_WORDS = 10_000  # of a text column


@stored("number-table")
@dataclass(frozen=True)
class NumberTable:
    """Columns of numbers: what stands for a missing one, and how they are scaled.

    Attributes
    ----------
    fill : (c,) array
        Replaces a missing number.
    flagged : (m,) array of int
        Columns in which numbers were missing: each has a 0/1 feature more.
    mean, scale : (c + m,) arrays
        Subtracted, and divided by.
    is_sparse : bool
        Whether the numbers are stored sparsely, and only divided.
    """

    fill: Annotated[Array, "columns", Between(-_FARTHEST, _FARTHEST)]
    flagged: Annotated[Indices, "flags", Below("columns"), Ascending()]
    mean: Annotated[Array, "columns+flags", Between(-_FARTHEST, _FARTHEST)]
    scale: Annotated[Array, "columns+flags", Between(1 / _FARTHEST, _FARTHEST)]
    is_sparse: bool

    @staticmethod
    def _check_stored(fields: Fields, dims: Dims) -> None:
        refuse_unless(not (fields["is_sparse"] and dims["flags"]), "sparse numbers have flags")
        dims["features"] = dims["columns"] + dims["flags"]

    @classmethod
    def fit(cls, block: Any) -> NumberTable:
        """Learn from numbers (n, c), NaN where missing."""
        n_columns = block.shape[1]
        if sparse.issparse(block):
            zeros = np.zeros(n_columns)
            known = sparse.csr_array(_without_nan(block))
            none = np.zeros(0, dtype=np.intp)
            return cls(zeros, none, zeros, MaxAbsScaler().fit(known).scale_, True)
        imputer = SimpleImputer(strategy="median", add_indicator=True, keep_empty_features=True)
        scaler = StandardScaler().fit(imputer.fit_transform(block))
        flagged = np.asarray(imputer.indicator_.features_, dtype=np.intp)
        return cls(imputer.statistics_, flagged, scaler.mean_, scaler.scale_, False)

    @classmethod
    def of_statistics(
        cls, counted: NumberStatistics, medians: Array, *, is_sparse: bool
    ) -> NumberTable:
        """Return what `fit` learns of rows of which only the statistics are there.

        Parameters
        ----------
        counted : NumberStatistics
            Of c columns.
        medians : (c,)
        is_sparse : bool
        """
        if is_sparse:
            zeros = np.zeros(len(medians))
            largest = np.maximum(np.abs(counted.lowest), np.abs(counted.highest))
            none = np.zeros(0, dtype=np.intp)
            return cls(zeros, none, zeros, np.where(largest > 0, largest, 1.0), True)
        flagged = np.flatnonzero(counted.n_missing)
        share = counted.n_missing[flagged] / counted.n_rows
        mean, variance = counted.filled(medians)
        mean = np.concatenate([mean, share])
        variance = np.concatenate([variance, share * (1.0 - share)])
        # of a constant column rounding alone may leave a variance, as scikit-learn judges it
        rounding = counted.n_rows * np.finfo(np.float64).eps
        is_constant = variance <= rounding * variance + (rounding * mean) ** 2
        scale = np.where(is_constant, 1.0, np.sqrt(variance))
        return cls(medians, flagged, mean, scale, False)

    @property
    def n_features(self) -> int:
        """Number of features."""
        return len(self.scale)

    def transform(self, block: Any) -> Any:
        """Return the features (n, c + m) of numbers (n, c)."""
        if self.is_sparse:
            rows = sparse.csr_array(_without_nan(block))
            rows.data = rows.data * (1.0 / self.scale)[rows.indices]
            return rows
        missing = np.isnan(block)
        if missing.any():
            block = np.where(missing, self.fill, block)
        if len(self.flagged):
            block = np.concatenate([block, missing[:, self.flagged]], axis=1)
        # files are read by columns, models go through rows
        features = np.subtract(block, self.mean, order="C")
        features /= self.scale
        return features


def _without_nan(block: Any) -> Any:
    rows = sparse.csr_array(block, dtype=np.float64, copy=True)
    rows.data[np.isnan(rows.data)] = 0.0
    return rows


@stored("category-table")
@dataclass(frozen=True)
class CategoryTable:
    """A column of categories: the feature of each value, and of any other.

    Attributes
    ----------
    values : tuple of str
    features : (v,) array of int
        Which 0/1 feature says that a row has the value; rare values share one.
    other : int
        The feature of values that were never seen, -1 for none.
    n_features : int
    """

    values: Annotated[Sequence[str], "v", Unique()]
    features: Annotated[Indices, "v", Below("features")]
    other: Annotated[int, Below("features", or_none=True)]
    n_features: Annotated[int, Between(0, 10**6), Is("features")]

    @classmethod
    def fit(cls, column: NDArray[np.object_]) -> CategoryTable:
        """Learn from a column (n,) of strings."""
        return cls.of_counts(Counter(column.tolist()))

    @classmethod
    def of_counts(cls, counts: Mapping[str, int]) -> CategoryTable:
        """Learn from how many rows have each value: as scikit-learn's ``OneHotEncoder`` does."""
        values = sorted(counts)
        is_rare = np.zeros(len(values), dtype=bool)
        if len(values) >= _MOST_CATEGORIES:
            rarest_first = np.argsort([counts[value] for value in values], kind="stable")
            is_rare[rarest_first[: len(values) - _MOST_CATEGORIES + 1]] = True
        n_common = int((~is_rare).sum())
        features = np.where(is_rare, n_common, np.cumsum(~is_rare) - 1).astype(np.intp)
        other = n_common if is_rare.any() else -1
        return cls(tuple(values), features, other, n_common + int(is_rare.any()))

    @cached_property
    def _feature_of(self) -> dict[str, int]:
        return dict(zip(self.values, self.features.tolist(), strict=True))

    def transform(self, column: NDArray[np.object_]) -> Any:
        """Return the features, CSR (n, n_features), of a column (n,) of strings."""
        found = np.array([self._feature_of.get(v, self.other) for v in column], dtype=np.intp)
        rows = np.flatnonzero(found >= 0)
        entries = (np.ones(len(rows)), (rows, found[rows]))
        return sparse.csr_array(entries, shape=(len(column), self.n_features))


@stored("word-table")
@dataclass(frozen=True)
class WordTable:
    """A column of text: the words that count, and their inverse document frequencies.

    What a word is stands here and nowhere in a file: two or more letters or digits.

    Attributes
    ----------
    words : tuple of str
    idf : (w,) array
    """

    words: Annotated[Sequence[str], "features", Unique()]
    idf: Annotated[Array, "features", Between(0.0)]

    @classmethod
    def fit(cls, texts: NDArray[np.object_]) -> WordTable:
        """Learn the words of a column (n,) of texts; none, if there are none."""
        return cls.of_statistics(WordStatistics.of(texts))

    @classmethod
    def of_statistics(cls, counted: WordStatistics) -> WordTable:
        """Learn from how often words occur: as scikit-learn's ``TfidfVectorizer`` does."""
        words = np.array(sorted(counted.times), dtype=object)
        times = np.array([counted.times[word] for word in words], dtype=np.intp)
        rows = np.array([counted.rows[word] for word in words], dtype=np.intp)
        kept = np.flatnonzero(rows >= 2)
        if not len(kept):
            kept = np.arange(len(words))
        if len(kept) > _MOST_WORDS:
            kept = np.sort(kept[np.argsort(-times[kept], kind="stable")[:_MOST_WORDS]])
        idf = np.log((1.0 + counted.n_rows) / (1.0 + rows[kept])) + 1.0
        return cls(tuple(words[kept].tolist()), idf)

    @property
    def n_features(self) -> int:
        """Number of words."""
        return len(self.words)

    @cached_property
    def _counter(self) -> TfidfVectorizer:
        vectorizer = _vectorizer(vocabulary={word: i for i, word in enumerate(self.words)})
        vectorizer.idf_ = self.idf
        return vectorizer

    def transform(self, texts: NDArray[np.object_]) -> Any:
        """Return TF-IDF, CSR (n, w), of a column (n,) of texts."""
        return self._counter.transform(texts)


def _vectorizer(**options: Any) -> TfidfVectorizer:
    return TfidfVectorizer(strip_accents="unicode", sublinear_tf=True, **options)


@stored("date-table")
@dataclass(frozen=True)
class DateTable:
    """A column of dates: their form, and how year, month, weekday and days are scaled.

    Scaled to mean 0, days since any date are days since the first. A missing date is a mean one,
    and has, where some were missing in the rows learned from, a 0/1 feature that says so.

    Attributes
    ----------
    form : str
        One of `DATE_FORMS`.
    mean, scale : (4,) arrays
        Subtracted, and divided by.
    has_missing : bool
    """

    form: str
    mean: Annotated[Array, "numbers", Between(-_FARTHEST, _FARTHEST)]
    scale: Annotated[Array, "numbers", Between(1 / _FARTHEST, _FARTHEST)]
    has_missing: bool

    @staticmethod
    def _check_stored(fields: Fields, dims: Dims) -> None:
        refuse_unless(
            fields["form"] in DATE_FORMS, f"form is {fields['form']!r:.40}, which is none"
        )
        bind(dims, "numbers", len(DATE_NUMBERS), "mean")
        dims["features"] = dims["numbers"] + fields["has_missing"]

    @classmethod
    def of_statistics(cls, counted: TextStatistics, name: str) -> DateTable:
        """Learn from what was counted in a column."""
        form = counted.date_form
        if form is None:
            raise TableError(f"The column {name!r} does not hold dates of one form.")
        numbers = counted.dates[form]
        varies = numbers.highest > numbers.lowest
        variance = numbers.squares / np.maximum(numbers.n_known, 1)
        scale = np.where(varies, np.sqrt(variance), 1.0)
        return cls(form, numbers.mean, scale, bool(numbers.n_missing.any()))

    @property
    def n_features(self) -> int:
        """Number of features."""
        return len(DATE_NUMBERS) + self.has_missing

    def transform(self, texts: NDArray[np.object_], name: str) -> Array:
        """Return the features (n, n_features) of a column (n,) of texts, None where missing."""
        block = date_block(texts, self.form, name)
        missing = np.isnan(block[:, :1])
        features = np.where(missing, 0.0, (block - self.mean) / self.scale)
        return np.concatenate([features, missing], axis=1) if self.has_missing else features
