"""What preprocessing learns of a column, as plain tables: numbers, category lists, vocabularies.

scikit-learn's transformers learn them; only these tables are kept, so that a model file holds
nothing but data, and their sizes and ranges can be checked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import MaxAbsScaler, OneHotEncoder, StandardScaler

from colabel.core.arrays import Array, Indices
from colabel.core.schema import (
    Dims,
    Fields,
    Many,
    Numbers,
    Positions,
    Text,
    Whole,
    YesNo,
    bind,
    refuse_unless,
    stored,
)

_FARTHEST = 1e300  # a number from which differences and quotients can still be taken
_MOST_CATEGORIES = 100  # of a column; rarer ones share a column
_MOST_WORDS = 10_000  # of a text column


def _check_numbers(fields: Fields, dims: Dims) -> None:
    flagged = fields["flagged"]
    refuse_unless((np.diff(flagged) > 0).all(), "flagged does not ascend")
    refuse_unless(not (fields["is_sparse"] and len(flagged)), "sparse numbers have flags")
    bind(dims, "features", dims["columns"] + len(flagged), "scale")


@stored(
    "number-table",
    check=_check_numbers,
    fill=Numbers("columns", -_FARTHEST, _FARTHEST),
    flagged=Positions("_", below="columns"),
    mean=Numbers("features", -_FARTHEST, _FARTHEST),
    scale=Numbers("features", 1 / _FARTHEST, _FARTHEST),
    is_sparse=YesNo(),
)
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

    fill: Array
    flagged: Indices
    mean: Array
    scale: Array
    is_sparse: bool

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
        features = block - self.mean
        features /= self.scale
        return features


def _without_nan(block: Any) -> Any:
    rows = sparse.csr_array(block, dtype=np.float64, copy=True)
    rows.data[np.isnan(rows.data)] = 0.0
    return rows


def _check_categories(fields: Fields, dims: Dims) -> None:
    refuse_unless(len(set(fields["values"])) == len(fields["values"]), "a category stands twice")
    refuse_unless(-1 <= fields["other"] < dims["features"], "other is no feature")


@stored(
    "category-table",
    check=_check_categories,
    n_features=Whole(0, 10**6, size="features"),
    values=Many(Text(), "v"),
    features=Positions("v", below="features"),
    other=Whole(-1, 10**6),
)
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

    values: Sequence[str]
    features: Indices
    other: int
    n_features: int

    @classmethod
    def fit(cls, column: NDArray[np.object_]) -> CategoryTable:
        """Learn from a column (n,) of strings."""
        encoder = OneHotEncoder(
            handle_unknown="infrequent_if_exist", max_categories=_MOST_CATEGORIES, dtype=np.float64
        ).fit(column[:, None])
        values = encoder.categories_[0]
        features = encoder.transform(values[:, None]).indices.astype(np.intp)
        shared = encoder.infrequent_categories_[0]
        other = -1 if shared is None else int(features[values == shared[0]][0])
        return cls(tuple(map(str, values)), features, other, int(features.max()) + 1)

    @cached_property
    def _feature_of(self) -> dict[str, int]:
        return dict(zip(self.values, self.features.tolist(), strict=True))

    def transform(self, column: NDArray[np.object_]) -> Any:
        """Return the features, CSR (n, n_features), of a column (n,) of strings."""
        found = np.array([self._feature_of.get(v, self.other) for v in column], dtype=np.intp)
        rows = np.flatnonzero(found >= 0)
        entries = (np.ones(len(rows)), (rows, found[rows]))
        return sparse.csr_array(entries, shape=(len(column), self.n_features))


def _check_words(fields: Fields, dims: Dims) -> None:
    refuse_unless(len(set(fields["words"])) == len(fields["words"]), "a word stands twice")


@stored(
    "word-table",
    check=_check_words,
    words=Many(Text(), "features"),
    idf=Numbers("features", 0.0),
)
@dataclass(frozen=True)
class WordTable:
    """A column of text: the words that count, and their inverse document frequencies.

    What a word is stands here and nowhere in a file: two or more letters or digits.

    Attributes
    ----------
    words : tuple of str
    idf : (w,) array
    """

    words: Sequence[str]
    idf: Array

    @classmethod
    def fit(cls, texts: NDArray[np.object_]) -> WordTable:
        """Learn the words of a column (n,) of texts; none, if there are none."""
        for fewest in (2, 1):
            vectorizer = _vectorizer(min_df=fewest, max_features=_MOST_WORDS)
            try:
                vectorizer.fit(texts)
            except ValueError:  # no words at all, or none often enough
                continue
            return cls(tuple(map(str, vectorizer.get_feature_names_out())), vectorizer.idf_)
        return cls((), np.zeros(0))

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
