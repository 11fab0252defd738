"""Ordinary columns to features: numbers scaled, categories encoded, texts as TF-IDF."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MaxAbsScaler, OneHotEncoder, StandardScaler

from colabel.datasets.frame import Frame, TableError
from colabel.tables.columns import Column

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from colabel.datasets.dataset import Features

_MOST_CATEGORIES = 100  # of a column; rarer ones share a column
_MOST_WORDS = 10_000  # of a text column
_MOST_DENSE = 200  # features that are stored densely although most are zero


class Preprocessor(BaseEstimator):
    """Turn the columns of a frame into features; everything it needs is learned by `fit`.

    Numbers: missing ones become the column's median, and where there were any a 0/1 feature says
    which; then mean 0 and variance 1. Sparse numbers are only divided by their largest value.
    Categories: one 0/1 feature for each of the 100 most common values, one for the others;
    missing is a value of its own, one never seen before is all zeros or "the others". Texts:
    TF-IDF of the words that occur at least twice, 10,000 at most.

    Parameters
    ----------
    columns : sequence of Column
        The columns to use, and as what.

    Attributes
    ----------
    numbers_, categories_ : transformer or None
    texts_ : list of transformers or None
    n_features_out_ : int
    is_sparse_ : bool
        Whether the features are a CSR array.

    Examples
    --------
    >>> from colabel.tables import Column, Frame, Preprocessor
    >>> frame = Frame.of({"size": [1.0, None, 3.0], "colour": ["red", "blue", "red"]})
    >>> columns = [Column("size", "number"), Column("colour", "category")]
    >>> Preprocessor(columns).fit(frame).transform(frame).round(2)
    array([[-1.22, -0.71,  0.  ,  1.  ],
           [ 0.  ,  1.41,  1.  ,  0.  ],
           [ 1.22, -0.71,  0.  ,  1.  ]])
    """

    def __init__(self, columns: Sequence[Column] = ()) -> None:
        self.columns = columns

    def fit(self, frame: Frame, y: Any = None) -> Self:
        """Learn medians, scales, categories and words from the rows of a frame."""
        numbers, categories, texts = (self._names(k) for k in ("number", "category", "text"))
        self.numbers_ = _numbers(frame.is_sparse).fit(frame.block(numbers)) if numbers else None
        self.categories_ = None
        if categories:
            self.categories_ = OneHotEncoder(
                handle_unknown="infrequent_if_exist",
                max_categories=_MOST_CATEGORIES,
                dtype=np.float64,
            ).fit(_table(frame, categories))
        self.texts_ = [_words(_filled(frame, name)) for name in texts]
        parts = self._parts(frame.rows(slice(0, 1)))
        self.n_features_out_ = sum(part.shape[1] for part in parts)
        if not self.n_features_out_:
            raise TableError("The columns give no feature: the texts hold no words.")
        wide = self.n_features_out_ > _MOST_DENSE
        self.is_sparse_ = frame.is_sparse or (wide and any(map(sparse.issparse, parts)))
        return self

    def fit_transform(self, frame: Frame, y: Any = None) -> Features:
        """Learn from the rows of a frame, and return their features."""
        return self.fit(frame).transform(frame)

    def transform(self, frame: Frame) -> Features:
        """Return the features (n, n_features_out_), dense or CSR."""
        parts = self._parts(frame)
        if self.is_sparse_:
            blocks = [sparse.csr_array(part) for part in parts]
            return sparse.csr_array(sparse.hstack(blocks, format="csr"))
        dense = [part if isinstance(part, np.ndarray) else part.toarray() for part in parts]
        return dense[0] if len(dense) == 1 else np.concatenate(dense, axis=1)

    def _names(self, kind: str) -> list[str]:
        return [column.name for column in self.columns if column.kind == kind]

    def _parts(self, frame: Frame) -> list[Any]:
        parts: list[Any] = []
        if self.numbers_ is not None:
            parts.append(self.numbers_.transform(frame.block(self._names("number"))))
        if self.categories_ is not None:
            parts.append(self.categories_.transform(_table(frame, self._names("category"))))
        for name, words in zip(self._names("text"), self.texts_, strict=True):
            if words is not None:
                parts.append(words.transform(_filled(frame, name)))
        return parts


def _numbers(is_sparse: bool) -> Pipeline:
    if is_sparse:
        imputer = SimpleImputer(strategy="constant", fill_value=0.0, keep_empty_features=True)
        return make_pipeline(imputer, MaxAbsScaler())
    imputer = SimpleImputer(strategy="median", add_indicator=True, keep_empty_features=True)
    return make_pipeline(imputer, StandardScaler())


def _words(texts: NDArray[np.object_]) -> TfidfVectorizer | None:
    """Learn the words of a text column; None if there are none."""
    for fewest in (2, 1):
        vectorizer = TfidfVectorizer(
            strip_accents="unicode", sublinear_tf=True, min_df=fewest, max_features=_MOST_WORDS
        )
        try:
            return vectorizer.fit(texts)
        except ValueError:  # no words at all, or none often enough
            continue
    return None


def _filled(frame: Frame, name: str) -> NDArray[np.object_]:
    """Text column with "" where missing."""
    column = frame.column(name)
    return np.array(["" if text is None else text for text in column], dtype=object)


def _table(frame: Frame, names: Sequence[str]) -> NDArray[np.object_]:
    return np.stack([_filled(frame, name) for name in names], axis=1)
