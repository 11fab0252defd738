"""The features of a row in the words of its table: columns with their values, and words."""

from __future__ import annotations

from typing import Any

import numpy as np

from colabel.core.arrays import dense
from colabel.datasets.frame import Frame
from colabel.models.evidence import FeatureTerms
from colabel.tables.preprocessing import Preprocessor

_LONGEST = 40  # characters of a value that is shown


def terms_of_row(preprocessor: Preprocessor, frame: Frame, x: Any) -> FeatureTerms:
    """Return the terms of the one row of a frame, whose features are x (1, p).

    A column is a term, whatever features it was made into. A column of text has a term for each
    word that stands in it and one for all words that do not; of sparse numbers, those that are 0
    share one.

    Examples
    --------
    >>> from colabel.tables import Column, Frame, Preprocessor
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
    words = iter(preprocessor.texts_)
    names: list[str] = []
    values: list[str] = []
    owner = np.zeros(len(row), dtype=np.intp)
    zeros = None
    for place, column in enumerate(preprocessor.columns):
        features = np.flatnonzero(columns == place)
        if column.kind == "text":
            vocabulary = next(words).words
            absent = features[row[features] == 0]
            for feature in features[row[features] != 0]:
                owner[feature] = len(names)
                names.append(f"{column.name}: “{vocabulary[feature - features[0]]}”")
                values.append("")
            if len(absent):
                owner[absent] = len(names)
                names.append(f"{column.name}: words not in it")
                values.append("")
            continue
        if frame.is_sparse and column.kind == "number" and not row[features].any():
            if zeros is None:
                zeros = len(names)
                names.append("columns that are 0")
                values.append("")
            owner[features] = zeros
            continue
        owner[features] = len(names)
        names.append(column.name)
        values.append(_shown(frame.column(column.name)[0]))
    return FeatureTerms(tuple(names), tuple(values), owner)


def _shown(value: Any) -> str:
    if value is None or value != value:
        return "missing"
    if isinstance(value, str):
        text = " ".join(value.split())
        return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
    return f"{value:.4g}"
