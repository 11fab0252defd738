"""Ordinary columns to features: numbers and dates scaled, categories encoded, texts as TF-IDF."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator

from colabel.core.arrays import Array, Indices
from colabel.core.schema import Between, Dims, Fields, Is, refuse_unless, stored
from colabel.datasets.frame import Frame, TableError
from colabel.tables._feature_tables import CategoryTable, DateTable, NumberTable, WordTable
from colabel.tables.columns import Column
from colabel.tables.statistics import MOST_VALUES, ColumnStatistics, TextStatistics, WordStatistics

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from colabel.datasets.dataset import Features

_MOST_DENSE = 200  # features that are stored densely although most are zero


@stored("preprocessor")
class Preprocessor(BaseEstimator):
    """Turn the columns of a frame into features; everything it needs is learned by `fit`.

    Numbers: missing ones become the column's median, and where there were any a 0/1 feature says
    which; then mean 0 and variance 1. Sparse numbers are only divided by their largest value.
    Categories: one 0/1 feature for each of the 100 most common values, one for the others;
    missing is a value of its own, one never seen before is all zeros or "the others". Texts:
    TF-IDF of the words that occur at least twice, 10,000 at most. Dates: year, month, weekday and
    days since the first, as numbers; a missing one is a mean one, with a 0/1 feature that says so.

    Parameters
    ----------
    columns : sequence of Column
        The columns to use, and as what.

    Attributes
    ----------
    numbers_ : NumberTable or None
    categories_ : list of CategoryTable
        One for each column of categories.
    texts_ : list of WordTable
        One for each column of text.
    dates_ : list of DateTable
        One for each column of dates.
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

    columns: Sequence[Column]
    numbers_: NumberTable | None
    categories_: list[CategoryTable]
    texts_: list[WordTable]
    dates_: list[DateTable]
    n_features_out_: Annotated[int, Between(1), Is("p")]
    is_sparse_: bool

    @staticmethod
    def _check_stored(fields: Fields, dims: Dims) -> None:
        kinds = [column.fields["kind"] for column in fields["columns"]]
        numbers = [fields["numbers_"]] if fields["numbers_"] is not None else []
        by_kind = {"category": "categories_", "text": "texts_", "date": "dates_"}
        for kind, name in by_kind.items():
            refuse_unless(
                kinds.count(kind) == len(fields[name]), f"a {kind} column lacks its table"
            )
        n_numbers = sum(table.dims["columns"] for table in numbers)
        refuse_unless(kinds.count("number") == n_numbers, "numbers_ does not fit the columns")
        tables = [*numbers, *(table for name in by_kind.values() for table in fields[name])]
        total = sum(table.dims["features"] for table in tables)
        refuse_unless(total == dims["p"], "the tables do not give as many features as there are")

    def __init__(self, columns: Sequence[Column] = ()) -> None:
        self.columns = columns

    def fit(self, frame: Frame, y: Any = None) -> Self:
        """Learn medians, scales, categories and words from the rows of a frame."""
        numbers, categories, texts = (self._names(k) for k in ("number", "category", "text"))
        self.numbers_ = NumberTable.fit(frame.block(numbers)) if numbers else None
        self.categories_ = [CategoryTable.fit(_filled(frame, name)) for name in categories]
        self.texts_ = [WordTable.fit(_filled(frame, name)) for name in texts]
        self.dates_ = [
            DateTable.of_statistics(TextStatistics.of(_texts(frame, name)), name)
            for name in self._names("date")
        ]
        return self._finish(frame.is_sparse)

    def fit_statistics(
        self, counted: ColumnStatistics, medians: Array, words: Mapping[str, WordStatistics]
    ) -> Self:
        """Learn what `fit` learns, to rounding, of rows of which only statistics are there.

        Parameters
        ----------
        counted : ColumnStatistics
            Of these columns, and perhaps others.
        medians : (c,)
            Of the columns of numbers among them, in their order.
        words : {name: WordStatistics}
            Of the columns of text.
        """
        place = {name: j for j, name in enumerate(counted.number_names)}
        own = [place[name] for name in self._names("number")]
        self.numbers_ = None
        if own:
            self.numbers_ = NumberTable.of_statistics(
                counted.numbers.of_columns(own), medians, is_sparse=counted.is_sparse
            )
        self.categories_ = []
        for name in self._names("category"):
            texts = counted.texts[name]
            if texts.counts is None:
                raise TableError(
                    f"The column {name!r} has more than {MOST_VALUES} different values, too many "
                    "for a category: leave it out (--drop), or take it for text (--text)."
                )
            n_missing = texts.n_rows - texts.n_known
            missing = {"": n_missing + texts.counts.get("", 0)} if n_missing else {}
            self.categories_.append(CategoryTable.of_counts({**texts.counts, **missing}))
        self.texts_ = [WordTable.of_statistics(words[name]) for name in self._names("text")]
        self.dates_ = [
            DateTable.of_statistics(counted.texts[name], name) for name in self._names("date")
        ]
        return self._finish(counted.is_sparse)

    def count_words(self, frame: Frame) -> dict[str, WordStatistics]:
        """Count the words in the columns of text."""
        return {name: WordStatistics.of(_filled(frame, name)) for name in self._names("text")}

    def _finish(self, is_sparse: bool) -> Self:
        self.n_features_out_ = sum(table.n_features for table in self._tables())
        if not self.n_features_out_:
            raise TableError("The columns give no feature: the texts hold no words.")
        wide = self.n_features_out_ > _MOST_DENSE
        has_texts = bool(self.categories_ or self.texts_)
        self.is_sparse_ = is_sparse or (wide and has_texts)
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

    def column_of_feature(self) -> Indices:
        """Return the position in `columns` that each feature (n_features_out_,) is made of."""
        place = {column.name: i for i, column in enumerate(self.columns)}
        numbers = np.array([place[name] for name in self._names("number")], dtype=np.intp)
        owners = []
        if self.numbers_ is not None:
            owners += [numbers, numbers[self.numbers_.flagged]]
        names = [name for kind in ("category", "text", "date") for name in self._names(kind)]
        tables: list[CategoryTable | WordTable | DateTable]
        tables = [*self.categories_, *self.texts_, *self.dates_]
        for name, table in zip(names, tables, strict=True):
            owners.append(np.full(table.n_features, place[name], dtype=np.intp))
        return np.concatenate(owners)

    def _names(self, kind: str) -> list[str]:
        return [column.name for column in self.columns if column.kind == kind]

    def _tables(self) -> list[NumberTable | CategoryTable | WordTable | DateTable]:
        numbers = [] if self.numbers_ is None else [self.numbers_]
        return [*numbers, *self.categories_, *self.texts_, *self.dates_]

    def _parts(self, frame: Frame) -> list[Any]:
        parts: list[Any] = []
        if self.numbers_ is not None:
            parts.append(self.numbers_.transform(frame.block(self._names("number"))))
        names = [*self._names("category"), *self._names("text")]
        tables: list[CategoryTable | WordTable] = [*self.categories_, *self.texts_]
        for name, table in zip(names, tables, strict=True):
            if table.n_features:
                parts.append(table.transform(_filled(frame, name)))
        for name, dates in zip(self._names("date"), self.dates_, strict=True):
            parts.append(dates.transform(_texts(frame, name), name))
        return parts


def _texts(frame: Frame, name: str) -> NDArray[np.object_]:
    """Text column with None where missing; one of missing values alone may be held as numbers."""
    if name in frame.texts:
        return frame.texts[name]
    column = frame.column(name)
    return np.array([None if value != value else f"{value:g}" for value in column], dtype=object)


def _filled(frame: Frame, name: str) -> NDArray[np.object_]:
    """Text column with "" where missing."""
    column = frame.column(name)
    return np.array(["" if text is None else text for text in column], dtype=object)
