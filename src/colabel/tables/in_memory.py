"""A table that is in memory already: a data frame or arrays, with what a user says about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from colabel.datasets.frame import Frame, TableError
from colabel.labels import MISSING, LabelSpace
from colabel.tables.columns import choose_columns
from colabel.tables.loading import TableData
from colabel.tables.table_labels import Labels, LabelSource, match_columns, read_labels


def table_of(
    data: Any, labels: Any, label_names: Sequence[str] | None = None, name: str = "table"
) -> TableData:
    """Return features, labels and column kinds of what is in memory.

    Parameters
    ----------
    data : data frame, mapping of names to columns, or array of shape (n, p), dense or sparse
    labels : str, sequence of str, or labels of n rows
        Names, globs or @lists of the label columns of `data`; or the labels themselves, as models
        take them.
    label_names : sequence of d str, optional
        Names of the labels, where they have none.
    name : str
        What the table is called.

    Examples
    --------
    >>> import numpy as np
    >>> from colabel.tables import table_of
    >>> columns = {"size": [1.0, 4.0, 2.0], "tag_a": [0, 1, 1], "tag_b": [1, 1, 0]}
    >>> table_of(columns, "tag_*").labels.names
    ('tag_a', 'tag_b')
    >>> table_of(np.eye(3), [{"a"}, {"a", "b"}, set()]).labels.Y.tolist()
    [[1, 0], [1, 1], [0, 0]]
    """
    frame = Frame.of(data if hasattr(data, "keys") else _as_array(data))
    patterns = [labels] if isinstance(labels, str) else labels
    has_names = isinstance(data, Frame) or hasattr(data, "keys")
    if has_names and isinstance(patterns, list | tuple) and _are_names(patterns):
        columns = match_columns(patterns, frame.names, "label")
        found, features = read_labels(frame, columns), frame.without(columns)
    elif isinstance(labels, str):
        raise TableError(
            f"labels is {labels!r}, but an array has no columns of that name: give the labels "
            "themselves, or a data frame."
        )
    else:
        found, features = _labels(labels, label_names), frame
    if len(found.Y) != features.n_rows:
        raise TableError(
            f"There are {features.n_rows:,} rows of features and {len(found.Y):,} of labels: give "
            "as many of both."
        )
    known = ~found.missing.all(axis=1)
    if not known.all():
        features, found = features[np.flatnonzero(known)], replace(found, Y=found.Y[known])
    if not features.names or features.n_rows < 2:
        raise TableError(
            f"The table has {features.n_rows} rows with labels and {len(features.names)} feature "
            "columns: at least two rows and one column are needed to learn from."
        )
    choice = choose_columns(features)
    return TableData(Path(name), features, found, choice, int((~known).sum()))


def _are_names(entries: Sequence[Any]) -> bool:
    return bool(entries) and all(isinstance(entry, str) for entry in entries)


def _as_array(data: Any) -> Any:
    if isinstance(data, Frame) or hasattr(data, "tocsr"):
        return data
    array = np.asarray(data)
    if array.ndim != 2:
        raise TableError(
            f"The features have {array.ndim} dimension{'s' * (array.ndim != 1)}: give a data frame "
            "or an array of shape (rows, columns)."
        )
    return array


def _labels(Y: Any, names: Sequence[str] | None) -> Labels:
    """Labels in any container, as a table would hold them."""
    space, codes = LabelSpace.infer(Y, names)
    missing = codes == MISSING
    source = LabelSource(tuple(space.names))
    if space.is_indicator:
        known = np.where(missing, np.nan, codes) if missing.any() else codes.astype(np.int64)
        return Labels(tuple(space.names), known, source)
    values = np.empty(codes.shape, dtype=object)
    for i, classes in enumerate(space.classes):
        values[:, i] = [None if code == MISSING else classes[code] for code in codes[:, i]]
    return Labels(tuple(space.names), values, source)
