"""TableModel: a model that takes a user's table, and the features it makes of the columns.

Numbers and dates are scaled, categories are one-hot encoded, texts become TF-IDF.

The preprocessing learns what scikit-learn's imputer, scaler, encoder and vectoriser learn, but from
additive statistics, so it is the same whether the rows are in memory or come in parts. It keeps
plain tables only, so a model file holds nothing but data that can be checked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from colabel.core import schema
from colabel.core.arrays import Array, Indices, dense
from colabel.models.evidence.evidence import FeatureTerms, evidence_of_row
from colabel.models.wrapped import fit_arguments, joint_of, model_inside, title_of
from colabel.tables.columns import (
    DATE_NUMBERS,
    MOST_VALUES,
    Column,
    ColumnChoice,
    ColumnStatistics,
    NumberStatistics,
    TextStatistics,
    count_words,
    date_numbers,
)
from colabel.tables.source import Frame, TableError, written_value
from colabel.tables.table_labels import Labels, LabelSource

if TYPE_CHECKING:
    from colabel.joint import Joint
    from colabel.labels import LabelSpace
    from colabel.models.evidence.record import FeatureEvidence
    from colabel.models.label_graph import LabelGraph
    from colabel.tables.source import Features
    from colabel.tables.streaming import PreparedTable

_FAR = schema.Between(-1e300, 1e300)  # differences and quotients of such numbers are finite
_SCALE = schema.Between(1e-300, 1e300)
_MOST_CATEGORIES = 100  # features of a column; the rarest values share one
_MOST_WORDS = 10_000  # of a text column
_MOST_DENSE = 200  # features that are stored densely even if most are zero


@schema.stored("number-table")
@dataclass(frozen=True)
class NumberTable:
    """Columns of numbers: their means, which also replace missing numbers, and their scales.

    Attributes
    ----------
    mean, scale : (c + m,) arrays
        Subtracted from the numbers, and what they are divided by.
    flagged : (m,) array of int
        Columns with missing numbers: each has an additional 0/1 feature.
    is_sparse : bool
        Whether the numbers are sparse, and only divided.
    """

    mean: Annotated[Array, "features", _FAR]
    scale: Annotated[Array, "features", _SCALE]
    flagged: Annotated[Indices, "m", schema.Below("features"), schema.ASCENDING]
    is_sparse: bool

    @staticmethod
    def _check_stored(fields: schema.Fields, dims: schema.Dims) -> None:
        schema.check_that(not (fields["is_sparse"] and dims["m"]), "sparse numbers have flags")
        schema.bind(dims, "columns", dims["features"] - dims["m"], "scale")
        inside = (fields["flagged"] < dims["columns"]).all()
        schema.check_that(
            dims["columns"] > 0 and inside, "flagged names columns that are not there"
        )

    @classmethod
    def of_statistics(
        cls, counted: NumberStatistics, *, is_sparse: bool = False, most_flags: int | None = None
    ) -> NumberTable:
        """Learn what scikit-learn's ``SimpleImputer`` and ``StandardScaler`` learn."""
        if is_sparse:  # like scikit-learn's ``MaxAbsScaler``
            zeros = np.zeros(len(counted.mean))
            largest = np.maximum(np.abs(counted.lowest), np.abs(counted.highest))
            none = np.zeros(0, dtype=np.intp)
            return cls(zeros, np.where(largest > 0, largest, 1.0), none, True)
        flagged = np.flatnonzero(counted.n_missing)[:most_flags]
        share = counted.n_missing[flagged] / counted.n_rows
        mean = np.concatenate([counted.mean, share])
        variance = np.concatenate([counted.squares / counted.n_rows, share * (1.0 - share)])
        # the variance of a constant column may be a rounding error; the bound is scikit-learn's
        rounding = counted.n_rows * np.finfo(np.float64).eps
        is_constant = variance <= rounding * variance + (rounding * mean) ** 2
        return cls(mean, np.where(is_constant, 1.0, np.sqrt(variance)), flagged, False)

    @property
    def n_features(self) -> int:
        """Number of features."""
        return len(self.scale)

    def transform(self, block: Any) -> Any:
        """Return the features (n, c + m) of numbers (n, c)."""
        if self.is_sparse:
            rows = sparse.csr_array(block, dtype=np.float64, copy=True)
            rows.data = np.nan_to_num(rows.data) * (1.0 / self.scale)[rows.indices]
            return rows
        missing = np.isnan(block)
        if missing.any():
            block = np.where(missing, self.mean[: block.shape[1]], block)
        if len(self.flagged):
            block = np.concatenate([block, missing[:, self.flagged]], axis=1)
        # files are read in columns, models read rows
        features = np.subtract(block, self.mean, order="C")
        features /= self.scale
        return features


@schema.stored("category-table")
@dataclass(frozen=True)
class CategoryTable:
    """A column of categories: the feature of each value, and of unseen values.

    Attributes
    ----------
    n_features : int
    values : tuple of str
        Missing is "".
    features : (v,) array of int
        The 0/1 feature of each value; rare values share one.
    other : int
        The feature of values not seen in training, -1 for none.
    """

    n_features: Annotated[int, schema.Is("features"), schema.Between(0, 10**6)]
    values: Annotated[Sequence[str], "v", schema.UNIQUE]
    features: Annotated[Indices, "v", schema.Below("features")]
    other: Annotated[int, schema.Below("features", or_none=True)]

    @classmethod
    def of_statistics(cls, counted: TextStatistics, name: str) -> CategoryTable:
        """Learn from the number of rows with each value, like scikit-learn's ``OneHotEncoder``."""
        if counted.counts is None:
            raise TableError(
                f"The column {name!r} has more than {MOST_VALUES} different values, too many "
                "for a category: leave it out (--drop), or take it for text (--text)."
            )
        n_missing = counted.n_rows - counted.n_known
        counts = {**counted.counts, **({"": n_missing} if n_missing else {})}
        values = sorted(counts)
        is_rare = np.zeros(len(values), dtype=bool)
        if len(values) >= _MOST_CATEGORIES:
            rarest_first = np.argsort([counts[value] for value in values], kind="stable")
            is_rare[rarest_first[: len(values) - _MOST_CATEGORIES + 1]] = True
        n_common = int((~is_rare).sum())
        features = np.where(is_rare, n_common, np.cumsum(~is_rare) - 1).astype(np.intp)
        other = n_common if is_rare.any() else -1
        return cls(n_common + int(is_rare.any()), tuple(values), features, other)

    @cached_property
    def _feature_of(self) -> dict[str, int]:
        return dict(zip(self.values, self.features.tolist(), strict=True))

    def transform(self, values: list[str], codes: Indices, name: str = "") -> Any:
        """Return the features, CSR (n, n_features), of texts given by distinct values and codes."""
        places = [self._feature_of.get(value, self.other) for value in (*values, "")]
        features = np.array(places, dtype=np.intp)[codes]
        rows = np.flatnonzero(features >= 0)
        entries = (np.ones(len(rows)), (rows, features[rows]))
        return sparse.csr_array(entries, shape=(len(codes), self.n_features))


@schema.stored("word-table")
@dataclass(frozen=True)
class WordTable:
    """A column of text: its vocabulary, and inverse document frequencies.

    A word is two or more letters or digits; a model file cannot change that.

    Attributes
    ----------
    words : tuple of str
    idf : (w,) array
    """

    words: Annotated[Sequence[str], "features", schema.UNIQUE]
    idf: Annotated[Array, "features", schema.Between(0.0)]

    @classmethod
    def of_counts(cls, rows: Mapping[str, int], n_rows: int) -> WordTable:
        """Learn from the number of rows with each word, like scikit-learn's ``TfidfVectorizer``."""
        several = [word for word, n in rows.items() if n >= 2] or list(rows)
        kept = sorted(sorted(several, key=lambda word: (-rows[word], word))[:_MOST_WORDS])
        idf = np.log((1.0 + n_rows) / (1.0 + np.array([rows[word] for word in kept]))) + 1.0
        return cls(tuple(kept), idf)

    @property
    def n_features(self) -> int:
        """Number of words."""
        return len(self.words)

    @cached_property
    def _vectorizer(self) -> TfidfVectorizer:
        vocabulary = {word: i for i, word in enumerate(self.words)}
        made = TfidfVectorizer(strip_accents="unicode", sublinear_tf=True, vocabulary=vocabulary)
        made.idf_ = self.idf
        return made

    def transform(self, values: list[str], codes: Indices, name: str = "") -> Any:
        """Return TF-IDF, CSR (n, w), of texts given by distinct values and codes."""
        return self._vectorizer.transform([*values, ""])[codes]


@schema.stored("date-table")
@dataclass(frozen=True)
class DateTable:
    """A column of dates: their form, and year, month, weekday and days as columns of numbers.

    If dates were missing in training, one feature tells which.

    Attributes
    ----------
    form : str
        One of `DATE_FORMS`.
    numbers : NumberTable
    """

    form: Literal["2026-11-15", "15.11.2026", "15/11/2026", "11/15/2026"]
    numbers: Annotated[NumberTable, "features"]

    @staticmethod
    def _check_stored(fields: schema.Fields, dims: schema.Dims) -> None:
        is_four = fields["numbers"].dims["columns"] == len(DATE_NUMBERS)
        schema.check_that(is_four, "a date has four numbers")

    @classmethod
    def of_statistics(cls, counted: TextStatistics, name: str) -> DateTable:
        """Learn from the statistics of a column."""
        form: Any = counted.date_form
        if form is None:
            raise TableError(f"The column {name!r} does not hold dates of one form.")
        return cls(form, NumberTable.of_statistics(counted.dates[form], most_flags=1))

    @property
    def n_features(self) -> int:
        """Number of features."""
        return self.numbers.n_features

    def transform(self, values: list[str], codes: Indices, name: str) -> Array:
        """Return the features (n, n_features) of texts given by distinct values and codes."""
        numbers = date_numbers(values, self.form)
        odd = np.isnan(numbers[:, 0]) & np.isin(np.arange(len(values)), codes)
        if odd.any():
            raise TableError(
                f"The column {name!r} holds {values[int(odd.argmax())]!r}, which is no date like "
                f"{self.form}, the form of the dates learned from: correct it, or leave it empty."
            )
        missing = np.full((1, len(DATE_NUMBERS)), np.nan)
        features: Array = self.numbers.transform(np.vstack([numbers, missing])[codes])
        return features


@schema.stored("preprocessor")
class Preprocessor(BaseEstimator):
    """Turn the columns of a frame into features.

    Numbers: the mean of the column replaces missing ones, and a 0/1 feature tells which were
    missing, if any; then they are scaled to mean 0 and variance 1. Sparse numbers are only divided
    by their largest absolute value. Categories: one 0/1 feature for each of the 100 most common
    values, and one for the others; missing is a value of its own, and an unseen value is all zeros
    or one of the others. Texts: TF-IDF of the 10,000 most common words that occur in at least two
    rows. Dates: year, month, weekday and days, as columns of numbers.

    Parameters
    ----------
    columns : sequence of Column
        The columns to use, and their kinds.

    Attributes
    ----------
    numbers_ : NumberTable or None
    tables_ : list of CategoryTable, WordTable or DateTable
        One for each column of categories, then of text, then of dates.
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
    tables_: Sequence[CategoryTable | WordTable | DateTable]
    n_features_out_: Annotated[int, schema.Is("p"), schema.Between(1)]
    is_sparse_: bool

    def __init__(self, columns: Sequence[Column] = ()) -> None:
        self.columns = columns

    @staticmethod
    def _check_stored(fields: schema.Fields, dims: schema.Dims) -> None:
        kinds = [column.fields["kind"] for column in fields["columns"]]
        tags = {"category": "category-table", "text": "word-table", "date": "date-table"}
        wanted = [tag for kind, tag in tags.items() for _ in range(kinds.count(kind))]
        tables, numbers = fields["tables_"], fields["numbers_"]
        tags_of_tables = [table.declared.tag for table in tables]
        schema.check_that(tags_of_tables == wanted, "a column has no table, or one of another kind")
        n_numbers = 0 if numbers is None else numbers.dims["columns"]
        schema.check_that(kinds.count("number") == n_numbers, "numbers_ does not fit the columns")
        every = [*tables, *(() if numbers is None else (numbers,))]
        total = sum(table.dims["features"] for table in every)
        schema.check_that(
            total == dims["p"], "the tables do not give as many features as there are"
        )

    def fit(self, frame: Frame, y: Any = None) -> Self:
        """Learn means, scales, categories and words from the rows of a frame."""
        # a column of nothing but missing values may be held as numbers
        counted = ColumnStatistics.of(frame.held(self._names("number"), self._coded_names))
        return self.fit_statistics(counted, self.count_words(frame))

    def fit_statistics(
        self, counted: ColumnStatistics, words: Mapping[str, Mapping[str, int]]
    ) -> Self:
        """Learn from statistics of rows.

        Parameters
        ----------
        counted : ColumnStatistics
            Statistics of these columns, and perhaps others.
        words : {name: {word: rows}}
            Numbers of rows with each word, for each column of text.
        """
        place = {name: j for j, name in enumerate(counted.number_names)}
        own = [place[name] for name in self._names("number")]
        self.numbers_ = None
        if own:
            self.numbers_ = NumberTable.of_statistics(
                counted.numbers.of_columns(own), is_sparse=counted.is_sparse
            )
        texts = counted.texts
        self.tables_ = [
            *(CategoryTable.of_statistics(texts[name], name) for name in self._names("category")),
            *(WordTable.of_counts(words[name], counted.n_rows) for name in self._names("text")),
            *(DateTable.of_statistics(texts[name], name) for name in self._names("date")),
        ]
        every: list[Any] = [self.numbers_, *self.tables_] if self.numbers_ else [*self.tables_]
        self.n_features_out_ = sum(table.n_features for table in every)
        if not self.n_features_out_:
            raise TableError("The columns give no feature: the texts hold no words.")
        wide = self.n_features_out_ > _MOST_DENSE
        is_coded = any(not isinstance(table, DateTable) for table in self.tables_)
        self.is_sparse_ = counted.is_sparse or (wide and is_coded)
        return self

    def count_words(self, frame: Frame) -> dict[str, Mapping[str, int]]:
        """Count the rows with each word in the columns of text."""
        return {name: count_words(*frame.coded(name)) for name in self._names("text")}

    def fit_transform(self, frame: Frame, y: Any = None) -> Features:
        """Fit to the rows of a frame, and return their features."""
        return self.fit(frame).transform(frame)

    def transform(self, frame: Frame) -> Features:
        """Return the features (n, n_features_out_), dense or CSR."""
        parts: list[Any] = []
        if self.numbers_ is not None:
            parts.append(self.numbers_.transform(frame.block(self._names("number"))))
        for name, table in zip(self._coded_names, self.tables_, strict=True):
            if table.n_features:
                parts.append(table.transform(*frame.coded(name), name))
        if self.is_sparse_:
            blocks = [sparse.csr_array(part) for part in parts]
            return sparse.csr_array(sparse.hstack(blocks, format="csr"))
        full = [part if isinstance(part, np.ndarray) else part.toarray() for part in parts]
        return full[0] if len(full) == 1 else np.concatenate(full, axis=1)

    def column_of_feature(self) -> Indices:
        """Return the position in `columns` of the column of each feature (n_features_out_,)."""
        place = {column.name: i for i, column in enumerate(self.columns)}
        numbers = np.array([place[name] for name in self._names("number")], dtype=np.intp)
        owners = []
        if self.numbers_ is not None:
            owners += [numbers, numbers[self.numbers_.flagged]]
        for name, table in zip(self._coded_names, self.tables_, strict=True):
            owners.append(np.full(table.n_features, place[name], dtype=np.intp))
        return np.concatenate(owners)

    @property
    def _coded_names(self) -> list[str]:
        return [name for kind in ("category", "text", "date") for name in self._names(kind)]

    def _names(self, kind: str) -> list[str]:
        return [column.name for column in self.columns if column.kind == kind]


def terms_of_row(preprocessor: Preprocessor, frame: Frame, x: Any) -> FeatureTerms:
    """Return the terms of the one row of a frame, whose features are x (1, p).

    A column is one term, however many features it has. A column of text has a term for each word in
    it, and one for all other words; sparse numbers that are 0 share one term.

    Examples
    --------
    >>> from colabel.tables import Column, Frame, Preprocessor
    >>> from colabel.tables.model import terms_of_row
    >>> frame = Frame.of({"size": [1.0, None], "said": ["so it is", "is it so bad"]})
    >>> columns = [Column("size", "number"), Column("said", "text")]
    >>> prepared = Preprocessor(columns).fit(frame)
    >>> one = frame.rows(slice(1, 2))
    >>> terms = terms_of_row(prepared, one, prepared.transform(one))
    >>> list(zip(terms.names, terms.values))
    [('size', 'missing'), ('said: “is”', ''), ('said: “it”', ''), ('said: “so”', '')]
    """
    row = dense(x)[0]
    columns = preprocessor.column_of_feature()
    words = (table.words for table in preprocessor.tables_ if isinstance(table, WordTable))
    terms: list[tuple[str, str]] = []
    owner = np.zeros(len(row), dtype=np.intp)
    zeros = None

    def add(features: Any, name: str, value: str = "") -> None:
        owner[features] = len(terms)
        terms.append((name, value))

    for place, column in enumerate(preprocessor.columns):
        features = np.flatnonzero(columns == place)
        if column.kind == "text":
            vocabulary = next(words)
            for feature in features[row[features] != 0]:
                add(feature, f"{column.name}: “{vocabulary[feature - features[0]]}”")
            absent = features[row[features] == 0]
            if len(absent):
                add(absent, f"{column.name}: words not in it")
        elif frame.is_sparse and column.kind == "number" and not row[features].any():
            if zeros is None:
                zeros = len(terms)
                add(features, "columns that are 0")
            owner[features] = zeros
        else:
            add(features, column.name, written_value(frame.column(column.name)[0]) or "missing")
    names, values = zip(*terms, strict=True)
    return FeatureTerms(names, values, owner)


@schema.stored("table-model")
@dataclass(eq=False, repr=False)
class TableModel:
    """Columns, their preprocessing, and a fitted model of the labels.

    Attributes
    ----------
    columns : tuple of Column
        The feature columns of the table.
    preprocessor : Preprocessor
    model : fitted estimator of colabel, or a pipeline that ends in one
    label_source : LabelSource
        Where the labels were in the training table.
    n_rows : int
        Number of rows it was fitted to.

    Examples
    --------
    >>> from colabel import CTBN
    >>> from colabel.tables import Frame, TableModel, choose_columns, read_labels
    >>> frame = Frame.of({"size": [1, 5, 2, 6] * 5, "tags": ["a", "a;b", "a", "b"] * 5})
    >>> features = frame.without(["tags"])
    >>> model = TableModel.fit(
    ...     CTBN(C=1.0, random_state=0), features, choose_columns(features),
    ...     read_labels(frame, ["tags"]))
    >>> model
    TableModel(CTBN: 1 column, 2 labels, fitted to 20 rows)
    >>> model.joint(features.rows(slice(0, 1))).mode()
    array([[1, 0]])
    """

    columns: tuple[Column, ...]
    preprocessor: Annotated[Preprocessor, "p"]
    model: Annotated[Any, "p", schema.Estimator(does="predict")]
    label_source: LabelSource
    n_rows: int

    @staticmethod
    def _check_stored(fields: schema.Fields, dims: schema.Dims) -> None:
        own, theirs = (
            [column.fields for column in columns]
            for columns in (fields["columns"], fields["preprocessor"].fields["columns"])
        )
        schema.check_that(own == theirs, "its columns are not those of its preprocessor")

    @classmethod
    def fit(
        cls, model: Any, frame: Frame, choice: ColumnChoice, labels: Labels, weight: Any = None
    ) -> TableModel:
        """Learn the preprocessing and a clone of the model from the rows of a frame."""
        preprocessor = Preprocessor(choice.used).fit(frame)
        fresh = clone(model)
        base = getattr(model_inside(fresh), "estimator", None)
        takes_sparse = not isinstance(base, ClassifierMixin) or get_tags(base).input_tags.sparse
        if preprocessor.is_sparse_ and not takes_sparse:
            raise TableError(
                f"{type(base).__name__} takes no sparse features, which columns of text and of many"
                " categories become: leave such columns out (--drop), or choose an estimator that "
                "does, such as forest or nb."
            )
        arguments = fit_arguments(fresh, labels.names, weight)
        fitted = fresh.fit(preprocessor.transform(frame), labels.Y, **arguments)
        return cls(choice.used, preprocessor, fitted, labels.source, frame.n_rows)

    @classmethod
    def fit_parts(cls, model: Any, table: PreparedTable) -> TableModel:
        """Learn a clone of the model from a table in parts (`prepare_parts`), by Dask."""
        X, Y = table.dask_arrays()
        fresh = clone(model)
        fitted = fresh.fit(X, Y, **fit_arguments(fresh, table.labels.space.names))
        return cls(table.choice.used, table.preprocessor, fitted, table.labels.source, table.n_rows)

    @property
    def space(self) -> LabelSpace:
        """Names and values of the labels."""
        inner = model_inside(self.model)
        check_is_fitted(inner)
        space: LabelSpace = inner.label_space_
        return space

    @property
    def label_names_(self) -> tuple[str, ...]:
        """Names of the labels."""
        return self.space.names

    @property
    def storage(self) -> Mapping[str, Literal["number", "text"]]:
        """The columns that it needs, and how each is read from a file."""
        return {c.name: "number" if c.kind == "number" else "text" for c in self.columns}

    def joint(self, frame: Any) -> Joint:
        """Return the joint distribution of the labels for each row of a frame."""
        joint = joint_of(self.model, self.preprocessor.transform(Frame.of(frame)))
        return joint.with_index(frame.index if hasattr(frame, "iloc") else None)

    def predict(self, frame: Any) -> Any:
        """Predict the labels of each row of a frame, (n, d)."""
        return np.asarray(self.model.predict(self.preprocessor.transform(Frame.of(frame))))

    def predict_proba(self, frame: Any) -> Any:
        """Probability of each label alone."""
        return self.model.predict_proba(self.preprocessor.transform(Frame.of(frame)))

    def feature_evidence(
        self, frame: Any, row: int = 0, *, background: Any = None, **options: Any
    ) -> FeatureEvidence:
        """Return what speaks for each label of a row: columns, words and other labels.

        Parameters
        ----------
        frame : Frame, data frame or mapping of names to columns
        row : int
            The row of it to explain.
        background : rows like those of `frame`, optional
            The rows that the row is compared with; by default `frame`.
        **options
            Those of `colabel.feature_evidence`.
        """
        table = Frame.of(frame)
        if not -table.n_rows <= row < table.n_rows:
            raise TableError(
                f"row={row!r} is not there: the table has {table.n_rows} rows, from 0."
            )
        own = table.rows(np.array([row % table.n_rows]))
        x = self.preprocessor.transform(own)
        other = table if background is None else Frame.of(background)
        return evidence_of_row(
            self.model,
            x,
            self.preprocessor.transform(other),
            terms_of_row(self.preprocessor, own, x),
            **options,
        )

    def label_graph(self) -> LabelGraph:
        """Return the graph of dependences between the labels."""
        graph: LabelGraph = model_inside(self.model).label_graph()
        return graph

    def __repr__(self) -> str:
        def counted(n: int, what: str) -> str:
            return f"{n} {what}{'s' * (n != 1)}"

        return (
            f"TableModel({title_of(self.model)}: {counted(len(self.columns), 'column')}, "
            f"{counted(len(self.label_names_), 'label')}, fitted to "
            f"{counted(self.n_rows, 'row')})"
        )
