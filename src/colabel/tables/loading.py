"""From a file and what a user says about it to features, labels and column kinds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from colabel.datasets.frame import Frame, TableError
from colabel.datasets.readers.arff_source import ArffSource
from colabel.datasets.readers.table import Source
from colabel.tables.columns import ColumnChoice, Kind, choose_columns
from colabel.tables.reading import ReadingOptions, open_table, read_frame
from colabel.tables.statistics import ColumnStatistics
from colabel.tables.table_labels import Labels, match_columns, read_labels


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
        Names, globs, @lists of columns to leave out, and of columns that are categories or text.
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
        columns = tuple(source.labels) if isinstance(source, ArffSource) else ()
        if self.labels or not columns:
            columns = match_columns(self.labels, names, "label")
        dropped = match_columns(self.drop, names, "column to drop") if self.drop else ()
        both = set(columns) & set(dropped)
        if both:
            raise TableError(f"The column {min(both)!r} is a label and to be dropped: choose one.")
        forced: dict[str, Kind] = {}
        kinds: tuple[tuple[Kind, Sequence[str]], ...] = (
            ("category", self.category),
            ("text", self.text),
        )
        for kind, patterns in kinds:
            for name in match_columns(patterns, names, kind) if patterns else ():
                forced[name] = kind
        return ColumnRoles(columns, dropped, forced)


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
        """How a file is read: columns that are not looked at need not be well-formed."""
        return replace(
            options, as_text=(*self.forced, *self.dropped, *options.as_text), whole=self.labels
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
        return {name: kind for name, kind in self.forced.items() if name in names}


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
    """

    path: Path
    features: Frame
    labels: Labels
    choice: ColumnChoice
    n_unlabelled: int

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
    labels = read_labels(frame, roles.labels, request.separator)
    features = roles.features(frame, request.path)
    known = ~labels.missing.all(axis=1)
    if not known.all():
        features = features.rows(np.flatnonzero(known))
        labels = replace(labels, Y=labels.Y[known])
    refuse_few(features.n_rows, request.path)
    choice = choose_columns(features, roles.kinds(features.names))
    return TableData(request.path, features, labels, choice, int((~known).sum()))


def refuse_few(n_rows: int, path: Path) -> None:
    """Refuse a table of too few rows."""
    if n_rows < 2:
        raise TableError(
            f"{path} has {n_rows} row{'s' * (n_rows != 1)} with labels: at least two are needed to "
            "learn from."
        )
