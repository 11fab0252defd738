"""Features and labels from a file or from memory, and a summary of them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, get_args

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from colabel.core.arrays import Indices
from colabel.labels import MISSING, LabelSpace
from colabel.tables import table_labels
from colabel.tables.columns import ColumnChoice, ColumnStatistics, Kind, choose_columns
from colabel.tables.reading import open_table, read_chunks, read_frame
from colabel.tables.source import Frame, ReadingOptions, Source, TableError

_MOST_LIKELY = 12  # distinct values of a column that looks like a label
_RARE = 10  # rows; a rarer label can hardly be learned, and its score is not reliable
_LISTED = 5


@dataclass(frozen=True)
class TableRequest:
    """What a user asks of a table.

    Attributes
    ----------
    path : Path
    labels : sequence of str
        Names, globs, @lists of label columns; by default those that a MEKA file declares.
    separator : str, optional
        What separates the tags in a single label column; None detects it, "" means no tags.
    drop, category, text : sequence of str
        Names, globs, @lists of columns to leave out, and of columns that are categories or text; a
        label column named as a category is a class variable with any values.
    options : ReadingOptions
    """

    path: Path
    labels: Sequence[str]
    separator: str | None = None
    drop: Sequence[str] = ()
    category: Sequence[str] = ()
    text: Sequence[str] = ()
    options: ReadingOptions = field(default_factory=ReadingOptions)

    def resolved(self, source: Source) -> TableRequest:
        """Return the request with names of columns of a table instead of patterns.

        Its labels, and other columns that need not be numbers, are read as texts.
        """
        names = source.names
        labels = tuple(source.labels)
        if self.labels or not labels:
            try:
                labels = table_labels.match_columns(self.labels, names, "label")
            except TableError as error:
                likely = _label_like(source) if self.labels else []
                more = f" These look like labels: {', '.join(likely)}." if likely else ""
                raise TableError(f"{error}{more}") from None
        asked = {"column to drop": self.drop, "category": self.category, "text": self.text}
        drop, category, text = (
            table_labels.match_columns(patterns, names, what) if patterns else ()
            for what, patterns in asked.items()
        )
        both = set(labels) & set(drop)
        if both:
            raise TableError(f"The column {min(both)!r} is a label and to be dropped: choose one.")
        as_text = (*category, *text, *drop, *labels, *self.options.as_text)
        options = replace(self.options, as_text=as_text)
        return TableRequest(self.path, labels, self.separator, drop, category, text, options)

    def features(self, frame: Frame) -> Frame:
        """Return the columns of a frame that may be features."""
        features = frame.without([*self.labels, *self.drop])
        if not features.names:
            raise TableError(
                f"{self.path} leaves no column for features: the others are labels, dropped, or "
                "neither numbers nor text."
            )
        return features

    def reader(self, counted: table_labels.LabelStatistics) -> table_labels.LabelReader:
        """Return a reader of the labels with these statistics."""
        return counted.reader(self.labels, self.separator, [*self.category, *self.text])

    def choose(self, counted: ColumnStatistics) -> ColumnChoice:
        """Decide the kinds of the columns, except for those that the user has chosen."""
        known = set(counted.names)
        forced: dict[str, Kind] = {n: "category" for n in self.category if n in known}
        return choose_columns(counted, forced | {n: "text" for n in self.text if n in known})


def _label_like(source: Source) -> list[str]:
    """Return the names of the columns with few distinct values in their first rows."""
    try:
        rows = next(iter(read_chunks(source, dict.fromkeys(source.names, "text"), 1000)))
    except ValueError:  # reading the table will raise the error
        return []
    values = {name: np.unique(rows.coded(name)[1]) for name in rows.texts}
    most = min(_MOST_LIKELY, rows.n_rows // 2)
    return [repr(name) for name, codes in values.items() if 2 <= (codes >= 0).sum() <= most]


@dataclass(frozen=True, eq=False)
class TableData:
    """A table to learn from: its rows with at least one known label.

    Attributes
    ----------
    path : Path
    features : Frame
    labels : Labels
    counted : ColumnStatistics
        Statistics of the features.
    choice : ColumnChoice
    n_unlabelled : int
        Number of rows left out because they have no known label.
    row_numbers : (n,)
        Positions of these rows in the table, from 0.
    """

    path: Path
    features: Frame
    labels: table_labels.Labels
    counted: ColumnStatistics
    choice: ColumnChoice
    n_unlabelled: int
    row_numbers: Indices

    @classmethod
    def of(cls, request: TableRequest, features: Frame, labels: table_labels.Labels) -> TableData:
        """Leave out the rows without a known label, and decide the kinds of the columns."""
        known = (labels.codes != MISSING).any(axis=1)
        rows = np.flatnonzero(known)
        if not known.all():
            features, labels = features.rows(rows), labels.rows(known)
        check_rows(features.n_rows, request.path)
        counted = ColumnStatistics.of(features)
        choice = request.choose(counted)
        return cls(request.path, features, labels, counted, choice, int((~known).sum()), rows)


def load_table(request: TableRequest) -> TableData:
    r"""Read a table, split it into features and labels, and decide the kinds of its columns.

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
    request = request.resolved(open_table(request.path, request.options))
    frame = read_frame(request.path, request.options)
    counted = table_labels.LabelStatistics.of(frame, request.labels, request.path)
    return TableData.of(request, request.features(frame), request.reader(counted).read(frame))


def check_rows(n_rows: int, path: Path) -> None:
    """Raise an error if a table has too few rows."""
    if n_rows < 2:
        raise TableError(
            f"{path} has {n_rows} row{'s' * (n_rows != 1)} with labels: at least two are needed to "
            "learn from."
        )


def table_of(
    data: Any, labels: Any, label_names: Sequence[str] | None = None, name: str = "table"
) -> TableData:
    """Return features, labels and kinds of columns of a table in memory.

    Parameters
    ----------
    data : data frame of any library, mapping of names to columns, or array of shape (n, p)
        An array may be sparse.
    labels : str, sequence of str, or labels of n rows
        Names, globs or @lists of the label columns of `data`; or the labels themselves, as models
        take them.
    label_names : sequence of d str, optional
        Names of labels that have none.
    name : str
        Name of the table.

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
        columns = table_labels.match_columns(patterns, names, "label")
        frame = Frame.of(data, columns)
        known, features = table_labels.read_labels(frame, columns), frame.without(columns)
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
        known = table_labels.Labels(space, codes, table_labels.LabelSource(space.names))
    if len(known.codes) != features.n_rows:
        raise TableError(
            f"There are {features.n_rows:,} rows of features and {len(known.codes):,} of labels: "
            "give as many of both."
        )
    if not features.names:
        raise TableError("The table has no feature columns: at least one is needed to learn from.")
    return TableData.of(TableRequest(Path(name), ()), features, known)


def _names_of(data: Any) -> tuple[str, ...] | None:
    """Return the names of the columns of a table; None for an array."""
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
    """Read one column of a table; with `in_order`, refuse one that cannot be sorted."""
    source = open_table(path, options)
    (name,) = table_labels.match_columns([name], source.names, "folds")
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


@dataclass(frozen=True)
class LabelCount:
    """Number of rows with each value of a label, most frequent first."""

    name: str
    counts: dict[str, int]
    n_missing: int


@dataclass(frozen=True)
class TableSummary:
    """Summary of a table.

    Attributes
    ----------
    path : str
    n_rows : int
        Rows with at least one known label.
    kinds : {kind: names of the columns}
    left_out : {name: reason}
    missing_share : float
        Share of the used features' cells that are empty.
    is_sparse : bool
    labels : tuple of LabelCount
    labels_per_row : float or None
        Mean number of labels per row; None for class variables.
    n_label_sets : int
        Distinct label vectors among the fully labelled rows.
    warnings : tuple of str
        Sentences about possible problems.
    """

    path: str
    n_rows: int
    kinds: dict[str, list[str]]
    left_out: dict[str, str]
    missing_share: float
    is_sparse: bool
    labels: tuple[LabelCount, ...]
    labels_per_row: float | None
    n_label_sets: int
    warnings: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return asdict(self)


def summarise(data: TableData) -> TableSummary:
    r"""Count rows, columns, labels and missing values, and look for possible problems.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from colabel.tables import TableRequest, load_table, summarise
    >>> folder = tempfile.TemporaryDirectory()
    >>> file = pathlib.Path(folder.name) / "toy.csv"
    >>> _ = file.write_text("size,a,b\n" + "1,0,1\n2,1,1\n5,1,1\n" * 10)
    >>> summary = summarise(load_table(TableRequest(file, ["a", "b"])))
    >>> summary.labels[0].counts, summary.labels_per_row.__round__(2)
    ({'1': 20, '0': 10}, 1.67)
    >>> summary.warnings
    ('The same in every row: b. Nothing can be learned about it.',)
    >>> folder.cleanup()
    """
    labels = data.labels
    return summary_of(
        str(data.path),
        labels.space,
        count_vectors(labels),
        data.choice,
        data.counted,
        data.n_unlabelled,
    )


def count_vectors(labels: table_labels.Labels) -> Counter[bytes]:
    """Count the rows with each vector of codes; the counts of parts of a table add up."""
    codes = np.ascontiguousarray(labels.codes, dtype=np.int32)
    rows = codes.view(np.dtype((np.void, codes.itemsize * codes.shape[1]))).ravel()
    vectors, times = np.unique(rows, return_counts=True)
    return Counter(dict(zip(vectors.tolist(), times.tolist(), strict=True)))


def summary_of(
    path: str,
    space: LabelSpace,
    vectors: Mapping[bytes, int],
    choice: ColumnChoice,
    counted: ColumnStatistics,
    n_unlabelled: int,
) -> TableSummary:
    """Return the summary of a table from statistics of its labels and columns."""
    codes = np.frombuffer(b"".join(vectors), dtype=np.int32).reshape(-1, space.n_labels)
    times = np.array(list(vectors.values()))
    n_rows = int(times.sum())
    labels = []
    alike: dict[Any, list[str]] = {}
    for name, classes, own in zip(space.names, space.classes, codes.T, strict=True):
        rows = np.bincount(own + 1, times, len(classes) + 1).astype(np.intp).tolist()
        pairs = zip(map(str, classes.tolist()), rows[1:], strict=True)
        counts = dict(sorted((p for p in pairs if p[1]), key=lambda pair: (-pair[1], pair[0])))
        labels.append(LabelCount(name, counts, rows[0]))
        alike.setdefault((repr(classes.tolist()), own.tobytes()), []).append(name)
    used = [column.name for column in choice.used]
    kinds = {kind: choice.of_kind(kind) for kind in get_args(Kind)}
    n_present = (times @ (codes == 1) / np.maximum(times @ (codes >= 0), 1)).sum()
    return TableSummary(
        path=path,
        n_rows=n_rows,
        kinds={kind: names for kind, names in kinds.items() if names},
        left_out=dict(choice.left_out),
        missing_share=counted.n_missing(used) / max(1, n_rows * len(used)),
        is_sparse=counted.is_sparse,
        labels=tuple(labels),
        labels_per_row=float(n_present) if space.is_indicator else None,
        n_label_sets=int((codes >= 0).all(axis=1).sum()),
        warnings=tuple(_warnings(n_unlabelled, labels, list(alike.values()))),
    )


def _warnings(n_unlabelled: int, labels: list[LabelCount], alike: list[list[str]]) -> list[str]:
    def listed(names: list[str]) -> str:
        more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
        return ", ".join(names[:_LISTED]) + more

    def it(names: list[str]) -> str:
        return "it" if len(names) == 1 else "them"

    sentences = []
    if n_unlabelled:
        rows = f"{n_unlabelled:,} row{'s' * (n_unlabelled != 1)}"
        sentences.append(f"{rows} without any known label left out.")
    constant = [own.name for own in labels if len(own.counts) < 2 and not own.n_missing]
    if constant:
        sentences.append(
            f"The same in every row: {listed(constant)}. Nothing can be learned about "
            f"{it(constant)}."
        )
    same = [names for names in alike if len(names) > 1]
    sentences += [f"The labels {listed(names)} are the same in every row." for names in same]
    rare = [o.name for o in labels if len(o.counts) > 1 and min(o.counts.values()) < _RARE]
    if rare:
        sentences.append(
            f"Fewer than {_RARE} rows have a value of {listed(rare)}: expect little for {it(rare)}."
        )
    n_missing = sum(own.n_missing for own in labels)
    if n_missing:
        sentences.append(
            f"{n_missing:,} missing label{'s' * (n_missing != 1)}: models learn from the labels "
            "that a row has. Exact match, multi-label accuracy and rankings count rows without "
            "missing labels; the other measures count known labels."
        )
    return sentences
