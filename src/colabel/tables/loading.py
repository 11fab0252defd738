"""From a file, or what is in memory, and what a user says about it to features and labels."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from colabel.core.arrays import Indices
from colabel.labels import MISSING, LabelSpace
from colabel.tables.columns import ColumnChoice, ColumnStatistics, Kind, choose_columns
from colabel.tables.frame import Frame
from colabel.tables.reading import open_table, read_chunks, read_frame
from colabel.tables.source import ReadingOptions, Source, TableError
from colabel.tables.table_labels import (
    Labels,
    LabelSource,
    LabelStatistics,
    match_columns,
    read_labels,
)

_MOST_LIKELY = 12  # different values of a column that may be a label


@dataclass(frozen=True)
class TableRequest:
    """What a user says about a table.

    Attributes
    ----------
    path : Path
    labels : sequence of str
        Names, globs, @lists of label columns; none for those that a MEKA file counts itself.
    separator : str, optional
        What separates the tags in a single label column; None finds out, "" says nothing does.
    drop, category, text : sequence of str
        Names, globs, @lists of columns to leave out, and of columns that are categories or text;
        a label column that is named as a category is a class variable as it stands.
    options : ReadingOptions
    """

    path: Path
    labels: Sequence[str]
    separator: str | None = None
    drop: Sequence[str] = ()
    category: Sequence[str] = ()
    text: Sequence[str] = ()
    options: ReadingOptions = field(default_factory=ReadingOptions)

    def roles(self, source: Source) -> ColumnRoles:
        """Find the columns that are spoken of among those of the table."""
        names = source.names
        columns = tuple(source.labels)
        if self.labels or not columns:
            try:
                columns = match_columns(self.labels, names, "label")
            except TableError as error:
                likely = _label_like(source) if self.labels else []
                more = f" These look like labels: {', '.join(likely)}." if likely else ""
                raise TableError(f"{error}{more}") from None
        dropped = match_columns(self.drop, names, "column to drop") if self.drop else ()
        both = set(columns) & set(dropped)
        if both:
            raise TableError(f"The column {min(both)!r} is a label and to be dropped: choose one.")
        kinds: dict[Kind, Sequence[str]] = {"category": self.category, "text": self.text}
        forced = {
            name: kind
            for kind, patterns in kinds.items()
            for name in (match_columns(patterns, names, kind) if patterns else ())
        }
        return ColumnRoles(columns, dropped, forced)


def _label_like(source: Source) -> list[str]:
    """Names of the columns whose first rows hold the same few values again and again."""
    try:
        rows = next(iter(read_chunks(source, dict.fromkeys(source.names, "text"), 1000)))
    except ValueError:  # what is wrong with the table is said when it is read
        return []
    found = {name: np.unique(rows.coded(name)[1]) for name in rows.texts}
    most = min(_MOST_LIKELY, rows.n_rows // 2)
    return [repr(name) for name, codes in found.items() if 2 <= (codes >= 0).sum() <= most]


@dataclass(frozen=True)
class ColumnRoles:
    """What a user says of the columns of a table.

    Attributes
    ----------
    labels, dropped : tuple of str
    forced : {name: kind}
        Columns whose kind is said.
    """

    labels: tuple[str, ...]
    dropped: tuple[str, ...]
    forced: Mapping[str, Kind]

    def options(self, options: ReadingOptions) -> ReadingOptions:
        """How a file is read: labels as they stand, and columns not looked at in any form."""
        return replace(
            options, as_text=(*self.forced, *self.dropped, *self.labels, *options.as_text)
        )

    def features(self, frame: Frame, path: Path) -> Frame:
        """Return the columns of a frame that may be features."""
        features = frame.without([*self.labels, *self.dropped])
        if not features.names:
            raise TableError(
                f"{path} leaves no column for features: the others are labels, dropped, or "
                "neither numbers nor text."
            )
        return features

    def kinds(self, names: Sequence[str]) -> dict[str, Kind]:
        """Kinds that are said of some of the columns."""
        known = set(names)
        return {name: kind for name, kind in self.forced.items() if name in known}


@dataclass(frozen=True, eq=False)
class TableData:
    """A table ready to be learned from: the rows with at least one label known.

    Attributes
    ----------
    path : Path
    features : Frame
    labels : Labels
    choice : ColumnChoice
    n_unlabelled : int
        Rows left out because none of their labels is known.
    row_numbers : (n,)
        Which rows of the table these are, from 0.
    """

    path: Path
    features: Frame
    labels: Labels
    choice: ColumnChoice
    n_unlabelled: int
    row_numbers: Indices

    @classmethod
    def of(
        cls, path: Path, features: Frame, labels: Labels, forced: Mapping[str, Kind]
    ) -> TableData:
        """Leave out the rows without a known label, and decide what the columns are."""
        known = (labels.codes != MISSING).any(axis=1)
        if not known.all():
            features, labels = features.rows(np.flatnonzero(known)), labels.rows(known)
        refuse_few(features.n_rows, path)
        choice = choose_columns(features, forced)
        left = np.flatnonzero(known)
        return cls(path, features, labels, choice, int((~known).sum()), left)

    @cached_property
    def counted(self) -> ColumnStatistics:
        """What is counted in the features."""
        return ColumnStatistics.of(self.features)


def load_table(request: TableRequest) -> TableData:
    r"""Read a table, split it into features and labels, and decide what its columns are.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from colabel.tables import TableRequest, load_table
    >>> folder = tempfile.TemporaryDirectory()
    >>> file = pathlib.Path(folder.name) / "toy.csv"
    >>> _ = file.write_text("size,tag_a,tag_b\n" + "1,0,1\n2,1,1\n3,1,0\n5,0,0\n")
    >>> data = load_table(TableRequest(file, ["tag_*"]))
    >>> data.features, data.labels.names
    (Frame(4 rows: 1 column of numbers, 0 columns of text), ('tag_a', 'tag_b'))
    >>> folder.cleanup()
    """
    roles = request.roles(open_table(request.path, request.options))
    frame = read_frame(request.path, roles.options(request.options))
    counted = LabelStatistics.of(frame, roles.labels, lambda i: f"{request.path}, row {i + 1}: ")
    labels = counted.reader(roles.labels, request.separator, [*roles.forced]).read(frame)
    features = roles.features(frame, request.path)
    return TableData.of(request.path, features, labels, roles.kinds(features.names))


def refuse_few(n_rows: int, path: Path) -> None:
    """Refuse a table of too few rows."""
    if n_rows < 2:
        raise TableError(
            f"{path} has {n_rows} row{'s' * (n_rows != 1)} with labels: at least two are needed to "
            "learn from."
        )


def table_of(
    data: Any, labels: Any, label_names: Sequence[str] | None = None, name: str = "table"
) -> TableData:
    """Return features, labels and column kinds of what is in memory.

    Parameters
    ----------
    data : data frame of any library, mapping of names to columns, or array of shape (n, p)
        An array may be sparse.
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
    names = _names_of(data)
    patterns = [labels] if isinstance(labels, str) else labels
    are_names = isinstance(patterns, list | tuple) and all(isinstance(p, str) for p in patterns)
    if names is not None and are_names and patterns:
        columns = match_columns(patterns, names, "label")
        frame = Frame.of(data, columns)
        found, features = read_labels(frame, columns), frame.without(columns)
    elif isinstance(labels, str):
        raise TableError(
            f"labels is {labels!r}, but an array has no columns of that name: give the labels "
            "themselves, or a data frame."
        )
    else:
        if names is None and not hasattr(data, "tocsr"):
            data = np.asarray(data)
            if data.ndim != 2:
                raise TableError(
                    f"The features have {data.ndim} dimension{'s' * (data.ndim != 1)}: give a data "
                    "frame or an array of shape (rows, columns)."
                )
        features = Frame.of(data)
        space, codes = LabelSpace.infer(labels, label_names)
        found = Labels(space, codes, LabelSource(space.names))
    if len(found.codes) != features.n_rows:
        raise TableError(
            f"There are {features.n_rows:,} rows of features and {len(found.codes):,} of labels: "
            "give as many of both."
        )
    if not features.names:
        raise TableError("The table has no feature columns: at least one is needed to learn from.")
    return TableData.of(Path(name), features, found, {})


def _names_of(data: Any) -> tuple[str, ...] | None:
    """Names of the columns of a table; None for an array."""
    if isinstance(data, Frame):
        return data.names
    if isinstance(data, Mapping):
        return tuple(map(str, data))
    frame: Any = nw.from_native(data, pass_through=True)
    is_frame = isinstance(frame, nw.DataFrame | nw.LazyFrame)
    return tuple(map(str, frame.collect_schema().names())) if is_frame else None


def column_of(
    path: Path, options: ReadingOptions, name: str, *, in_order: bool = False
) -> NDArray[Any]:
    """Read one column of a table, numbers or texts; with `in_order`, one that can be sorted."""
    source = open_table(path, options)
    (name,) = match_columns([name], source.names, "folds")
    storage = source.storage()[name]
    values = Frame.stacked(list(read_chunks(source, {name: storage}))).column(name)
    if not in_order:
        return values
    texts = [] if storage == "number" else [str(value) for value in values]
    odd = next((text for text in texts if not re.match(r"\d{4}-\d\d-\d\d", text)), None)
    if odd is not None or (not texts and np.isnan(values).any()):
        shown = "an empty cell" if odd is None else repr(odd)
        raise TableError(
            f"The column {name!r} of {path} holds {shown}: to order rows by it, give numbers or "
            "dates such as 2026-01-31 in every row."
        )
    return values
