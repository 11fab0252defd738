"""Readers of the field's files as data sets: CSV, Parquet, ARFF, and ARFF of MEKA and Mulan."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn
from xml.parsers import expat

import numpy as np
from scipy import sparse

from colabel.datasets.arff import ArffSource
from colabel.datasets.arrow_table import ArrowSource
from colabel.datasets.csv_table import CsvSource
from colabel.datasets.dataset import Dataset, DatasetError
from colabel.datasets.frame import Frame, Storage
from colabel.datasets.text import FilePath, first_repeat, shown

if TYPE_CHECKING:
    from numpy.typing import NDArray

_CHUNK_VALUES = 1 << 19  # held at once while a file is read
_MOST_CELLS = 50_000_000  # that one-hot coding may add to a table: 400 MB of numbers
_LARGEST_XML = 16 * 2**20  # bytes; the largest Mulan label file is far below one megabyte
_TRUTH = {"false": 0, "true": 1}


def read_csv(
    path: FilePath,
    labels: Sequence[str] | int,
    *,
    label_position: Literal["first", "last"] = "last",
    drop: Sequence[str] = (),
    name: str | None = None,
    delimiter: str = ",",
    encoding: str = "utf-8",
) -> Dataset:
    r"""Read a CSV file whose first line names the columns.

    Parameters
    ----------
    path : str or path
        The file; compressed when its name ends in .gz.
    labels : sequence of str or int
        Names of the label columns, or how many there are.
    label_position : {"last", "first"}
        At which end they stand when `labels` is a number.
    drop : sequence of str
        Columns to leave out.
    name : str, optional
        Name of the data set; by default the file's.
    delimiter : str, default=","
        What separates the values.
    encoding : str, default="utf-8"
        Encoding of the file; UTF-16 is recognised.

    Returns
    -------
    Dataset
        A column of numbers stays; a column with any text is nominal and encoded as by
        `read_arff`. Empty cells, ``?``, ``NA``, ``NaN`` and ``null`` are missing.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from colabel.datasets import read_csv
    >>> folder = tempfile.TemporaryDirectory()
    >>> file = pathlib.Path(folder.name) / "toy.csv"
    >>> _ = file.write_text("size,colour,heavy,round\n1.5,red,0,1\n2,blue,1,1\n3,red,1,0\n")
    >>> data = read_csv(file, labels=2)
    >>> data.feature_names, data.label_names
    (('size', 'colour=blue', 'colour=red'), ('heavy', 'round'))
    >>> folder.cleanup()
    """
    source = CsvSource.open(Path(path), delimiter, encoding)
    chosen = label_columns(source.names, labels, label_position, path)
    found = source.storage(doubtful_is_text=True, ignored=set(_found(source.names, drop, path)))
    return to_dataset(source, found, chosen, drop, name)


def read_parquet(
    path: FilePath,
    labels: Sequence[str] | int,
    *,
    label_position: Literal["first", "last"] = "last",
    drop: Sequence[str] = (),
    name: str | None = None,
) -> Dataset:
    """Read a Parquet file.

    Parameters
    ----------
    path : str or path
        The file.
    labels : sequence of str or int
        Names of the label columns, or how many there are.
    label_position : {"last", "first"}
        At which end they stand when `labels` is a number.
    drop : sequence of str
        Columns to leave out; they are not read.
    name : str, optional
        Name of the data set; by default the file's.

    Returns
    -------
    Dataset
        Numbers and booleans stay numbers; text and dictionary columns are nominal and encoded as
        by `read_arff`; nulls are missing.
    """
    source = ArrowSource.open(Path(path))
    names = list(source.declared)
    _found(names, drop, path)
    storage = {name: how for name, how in source.columns.items() if name not in set(drop)}
    for column, declared in source.declared.items():
        # dates and lists are text to a table of one's own, but no feature and no label here
        other = declared.startswith(("date", "time", "duration", "list", "large_list"))
        if column not in drop and (column not in storage or other):
            raise DatasetError(
                f"{path}: the column {column!r} is of type {declared}, which is not a feature or a "
                f"label; leave it out with drop=[{column!r}]."
            )
    chosen = label_columns(names, labels, label_position, path)
    return to_dataset(source, storage, chosen, drop, name)


def read_arff(
    path: FilePath,
    labels: Sequence[str] | int,
    *,
    label_position: Literal["first", "last"] = "last",
    drop: Sequence[str] = (),
    name: str | None = None,
    encoding: str = "utf-8",
) -> Dataset:
    """Read an ARFF file, with dense or sparse rows.

    Parameters
    ----------
    path : str or path
        The file; compressed when its name ends in .gz.
    labels : sequence of str or int
        Names of the label columns, or how many there are.
    label_position : {"last", "first"}
        At which end they stand when `labels` is a number.
    drop : sequence of str
        Columns to leave out; needed for columns of type string or date.
    name : str, optional
        Name of the data set; by default the file's.
    encoding : str, default="utf-8"
        Encoding of the file.

    Returns
    -------
    Dataset
        Labels stand in the order of the file's columns. Features: numbers stay; a nominal feature
        with two numbers, or with yes/no or true/false, fills one column; any other becomes one 0/1
        column a value, named ``feature=value``. Sparse rows give a sparse X. A ``?`` is missing.

    Raises
    ------
    DatasetError
        When the file is not as it should be; the message names the line.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from colabel.datasets import read_arff
    >>> folder = tempfile.TemporaryDirectory()
    >>> file = pathlib.Path(folder.name) / "weather.arff"
    >>> _ = file.write_text('''@relation weather
    ... @attribute degrees numeric
    ... @attribute sky {clear, cloud, fog}
    ... @attribute rain {FALSE, TRUE}
    ... @attribute wind {FALSE, TRUE}
    ... @data
    ... 21.5, clear, FALSE, TRUE
    ... 9, fog, TRUE, FALSE
    ... ''')
    >>> data = read_arff(file, labels=["rain", "wind"])
    >>> data.feature_names
    ('degrees', 'sky=clear', 'sky=cloud', 'sky=fog')
    >>> data.Y.tolist()
    [[0, 1], [1, 0]]
    >>> folder.cleanup()
    """
    source = ArffSource.open(Path(path), encoding)
    chosen = label_columns(source.names, labels, label_position, path)
    return read_arff_source(source, chosen, drop, name)


def read_meka(
    path: FilePath,
    *,
    drop: Sequence[str] = (),
    name: str | None = None,
    encoding: str = "utf-8",
) -> Dataset:
    """Read a MEKA file.

    The relation reads ``'name: -C n ...'``: the first n attributes are labels, or, for a negative
    n, the last -n are.

    Parameters
    ----------
    path : str or path
        The ARFF file.
    drop : sequence of str
        Columns to leave out.
    name : str, optional
        Name of the data set; by default the one in the relation, or the file's.
    encoding : str, default="utf-8"
        Encoding of the file.

    Returns
    -------
    Dataset
        Encoded as by `read_arff`.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from colabel.datasets import read_meka
    >>> folder = tempfile.TemporaryDirectory()
    >>> file = pathlib.Path(folder.name) / "a.arff"
    >>> _ = file.write_text('''@relation 'toy: -C 2'
    ... @attribute red {0,1}
    ... @attribute round {0,1}
    ... @attribute size numeric
    ... @data
    ... 1,0,2.5
    ... 1,1,7
    ... ''')
    >>> read_meka(file)
    Dataset('toy': 2 rows, 1 features, 2 labels)
    >>> folder.cleanup()
    """
    source = ArffSource.open(Path(path), encoding)
    if not source.labels:
        raise DatasetError(
            f"{path}: the relation {source.relation!r} does not say how many of the "
            f"{len(source.names)} attributes are labels: write it as 'name: -C n', or use "
            "read_arff and name the labels.",
        )
    own_name = source.relation.partition(":")[0].strip()
    return read_arff_source(source, source.labels, drop, name or own_name)


def read_mulan(
    path: FilePath,
    xml_path: FilePath | None = None,
    *,
    drop: Sequence[str] = (),
    name: str | None = None,
    encoding: str = "utf-8",
) -> Dataset:
    """Read a Mulan data set: an ARFF file and an XML file with the label names.

    Parameters
    ----------
    path : str or path
        The ARFF file, with dense or sparse rows.
    xml_path : str or path, optional
        The XML file; by default the file of the same name ending in .xml.
    drop : sequence of str
        Columns to leave out, such as row identifiers.
    name : str, optional
        Name of the data set; by default the file's.
    encoding : str, default="utf-8"
        Encoding of the ARFF file.

    Returns
    -------
    Dataset
        Encoded as by `read_arff`. Labels stand in the order of the ARFF's columns, which in some
        published files (yeast) is not the order of the XML; a hierarchy of labels is read flat.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from colabel.datasets import read_mulan
    >>> folder = tempfile.TemporaryDirectory()
    >>> file = pathlib.Path(folder.name) / "toy.arff"
    >>> _ = file.write_text('''@relation toy
    ... @attribute size numeric
    ... @attribute red {0,1}
    ... @attribute round {0,1}
    ... @data
    ... {0 2.5,1 1}
    ... {2 1}
    ... ''')
    >>> _ = file.with_suffix(".xml").write_text(
    ...     '<labels><label name="round"/><label name="red"/></labels>')
    >>> data = read_mulan(file)
    >>> data, data.label_names
    (Dataset('toy': 2 rows, 1 sparse features, 2 labels), ('red', 'round'))
    >>> folder.cleanup()
    """
    file = Path(path)
    stem = file.with_suffix("") if file.suffix == ".gz" else file
    labels = read_label_names(xml_path or stem.with_suffix(".xml"))
    return read_arff_source(ArffSource.open(file, encoding), labels, drop, name)


def read_arff_source(
    source: ArffSource, labels: Sequence[str], drop: Sequence[str], name: str | None
) -> Dataset:
    """Read a data set from an ARFF file whose header is read."""
    kept = set(source.names) - set(_found(source.names, drop, source.path))
    chosen = set(_found(source.names, labels, source.path))
    storage: dict[str, Storage] = {}
    for attribute in source.attributes:
        if attribute.name not in kept:
            continue
        if attribute.kind == "other":
            raise DatasetError(
                f"{source.path}: the column {attribute.name!r} is of type {attribute.declared}, "
                f"which is not a feature or a label; leave it out with drop=[{attribute.name!r}]."
            )
        is_text = attribute.kind == "nominal" if attribute.name in chosen else None
        is_text = not attribute.is_number if is_text is None else is_text
        storage[attribute.name] = "text" if is_text else "number"
    return to_dataset(source, storage, list(labels), drop, name)


def to_dataset(
    source: ArffSource | ArrowSource | CsvSource,
    storage: dict[str, Storage],
    labels: Sequence[str],
    drop: Sequence[str],
    name: str | None,
) -> Dataset:
    """Read columns of a file and split them into features and labels, in the file's order."""
    chosen = set(_found(list(storage) + list(drop), labels, source.path))
    both = [label for label in labels if label in set(drop)]
    if both:
        raise DatasetError(
            f"The column {both[0]!r} of {source.path} is a label and in drop: choose one."
        )
    features = [column for column in storage if column not in chosen]
    if not chosen or not features:
        raise DatasetError(
            f"{source.path} leaves {len(chosen)} label and {len(features)} feature columns: at "
            "least one of each is needed."
        )
    is_arff = isinstance(source, ArffSource)  # which takes as many rows as suit it
    n_rows = 1 << 62 if is_arff else max(1, _CHUNK_VALUES // max(1, len(storage)))
    frames = list(source.chunks(storage, n_rows))
    if not frames:
        raise DatasetError(
            f"{source.path} has a header but no rows: give a table with at least one."
        )
    frame = Frame.stacked(frames)
    # ARFF declares the values of nominal columns, and their order
    X, feature_names = _features(frame, features, source.path, declared=is_arff)
    label_names = tuple(column for column in storage if column in chosen)
    Y = _labels(frame, label_names, source.path, declared=is_arff)
    return Dataset(name or source.path.name.split(".")[0], X, Y, feature_names, label_names)


def _features(
    frame: Frame, names: Sequence[str], path: Path, *, declared: bool
) -> tuple[Any, tuple[str, ...]]:
    """Encode the feature columns: numbers as they are, other values by a 0/1 column each."""
    nominal = {name: frame.coded(name) for name in names if name in frame.texts}
    numbers = [name for name in names if name not in nominal]
    n_cells = frame.n_rows * sum(len(values) for values, _ in nominal.values())
    if n_cells > _MOST_CELLS:
        widest = max(nominal, key=lambda name: len(nominal[name][0]))
        raise DatasetError(
            f"Encoding the nominal columns of {path} would take {n_cells} numbers (the widest is "
            f"{widest!r}): list such columns in drop."
        )
    blocks: dict[str, Any] = {}
    every: dict[str, tuple[str, ...]] = {name: (name,) for name in numbers}
    for name, (values, codes) in nominal.items():
        order = range(len(values)) if declared else np.argsort(np.array(values, dtype=object))
        block = (codes[:, None] == np.asarray(order)).astype(np.float64)
        block[codes < 0] = np.nan
        blocks[name] = sparse.csc_array(block) if frame.is_sparse else block
        every[name] = tuple(f"{name}={values[k]}" for k in order)
    X: Any = frame.block(numbers)
    if blocks:
        position = {name: k for k, name in enumerate(names)}
        order = np.argsort(
            [position[name] for name, own in every.items() for _ in own], kind="stable"
        )
        parts: list[Any] = [X, *blocks.values()]
        stacked: Any = sparse.hstack(parts, format="csc") if frame.is_sparse else np.hstack(parts)
        X = stacked[:, order]
    if frame.is_sparse:
        X = sparse.csr_array(X, dtype=np.float64)
        X.eliminate_zeros()
        X.sort_indices()
    return X, tuple(column for name in names for column in every[name])


def _labels(frame: Frame, names: Sequence[str], path: Path, *, declared: bool) -> NDArray[Any]:
    """Return Y of shape (n_rows, n_labels): whole numbers where all are, else strings."""
    columns: list[NDArray[Any]] = []
    missing = np.zeros((frame.n_rows, len(names)), dtype=bool)
    for k, name in enumerate(names):
        if name not in frame.texts:
            column = frame.column(name)
            missing[:, k] = np.isnan(column)
            known = np.where(missing[:, k], 0.0, column)
            odd = known[(known != np.round(known)) | (np.abs(known) > 2**53)]
            if len(odd):
                raise DatasetError(
                    f"The label column {name!r} of {path} holds {shown(str(odd[0]))}: labels are "
                    "whole numbers or names. Is this column a feature?"
                )
            columns.append(known.astype(np.int64))
            continue
        values, codes = frame.coded(name)
        missing[:, k] = codes < 0
        if all(value.lower() in _TRUTH for value in values):
            lookup: NDArray[Any] = np.array([_TRUTH[value.lower()] for value in values])
        elif declared and all(_is_integer(value) for value in values):
            lookup = np.array([int(value) for value in values], dtype=np.int64)
        else:
            lookup = np.array(values, dtype=np.str_)
        columns.append(lookup[codes])
    # A set with one textual variable is textual as a whole: an array has one type.
    texts = any(column.dtype.kind == "U" for column in columns)
    Y = np.stack([column.astype(str) if texts else column for column in columns], axis=1)
    if missing.any():
        Y = Y.astype(object if texts else np.float64)
        Y[missing] = None if texts else np.nan
    return Y


def _is_integer(text: str) -> bool:
    digits = text[1:] if text[:1] in ("-", "+") else text
    return digits.isdecimal() and len(digits) < 16


def _found(names: Sequence[str], wanted: Sequence[str], path: FilePath) -> Sequence[str]:
    """Return the wanted columns, or say which of them is not there or named twice."""
    missing = [name for name in wanted if name not in set(names)]
    if missing:
        listed = ", ".join(map(repr, missing[:3]))
        raise DatasetError(
            f"{path} has no column {listed}{' and others' if len(missing) > 3 else ''}: "
            f"its columns are {', '.join(map(repr, names[:5]))}{', …' if len(names) > 5 else ''}."
        )
    if len(set(wanted)) != len(wanted):
        raise DatasetError(f"A column of {path} is named twice: name each column once.")
    return wanted


def label_columns(
    names: Sequence[str],
    labels: Sequence[str] | int,
    position: Literal["first", "last"],
    path: FilePath,
) -> Sequence[str]:
    """Names of label columns given by names, or by how many come first or last."""
    if isinstance(labels, str):
        labels = [labels]
    if not isinstance(labels, int):
        if not labels:
            raise DatasetError(f"No label column of {path} is named: name at least one.")
        return _found(names, labels, path)
    if position not in ("first", "last"):
        raise DatasetError(f'label_position is {position!r}: choose "first" or "last".')
    if not 1 <= labels < len(names):
        raise DatasetError(
            f"{path} has {len(names)} columns, so {labels} of them cannot be labels: choose "
            f"between 1 and {len(names) - 1}."
        )
    return names[:labels] if position == "first" else names[-labels:]


def read_label_names(path: FilePath) -> tuple[str, ...]:
    """Names in a Mulan XML file, in its order; nested labels follow their parent.

    The file may come from anyone, so document types and entities are refused before they are
    expanded, nothing is fetched, and the size is limited.
    """
    try:
        with Path(path).open("rb") as stream:
            data = stream.read(_LARGEST_XML + 1)
    except FileNotFoundError as error:
        raise DatasetError(
            f"There is no file {path}: give the XML file with the label names as xml_path, or use "
            "read_arff and name the labels."
        ) from error
    except OSError as error:
        raise DatasetError(f"{path} cannot be read: {error}.") from error
    if len(data) > _LARGEST_XML:
        raise DatasetError(
            f"{path} is larger than {_LARGEST_XML} bytes: a list of labels is not; check the file."
        )
    names: list[str] = []
    parser = expat.ParserCreate(namespace_separator=" ")

    def refuse(*_: object) -> NoReturn:
        raise DatasetError(
            f"{path} declares a document type or entities, which a list of labels does not need "
            "and which can harm: remove the declaration."
        )

    def start(tag: str, attributes: dict[str, str]) -> None:
        # With a namespace the tag reads "address tag"; Mulan's files carry one, others do not.
        if tag.rpartition(" ")[2] == "label":
            if not attributes.get("name"):
                raise DatasetError(
                    f"{path}, line {parser.CurrentLineNumber}: a label has no name: add one."
                )
            names.append(attributes["name"])

    parser.StartElementHandler = start
    parser.StartDoctypeDeclHandler = refuse
    parser.EntityDeclHandler = refuse
    parser.ExternalEntityRefHandler = refuse
    try:
        parser.Parse(data, True)
    except (expat.ExpatError, LookupError, ValueError) as error:  # or an encoding nobody knows
        if isinstance(error, DatasetError):
            raise
        raise DatasetError(
            f"{path} is not well-formed XML ({error}): correct it, or fetch the file again."
        ) from error
    if not names:
        raise DatasetError(f'{path} names no labels: write <labels><label name="..."/></labels>.')
    twice = first_repeat(names)
    if twice is not None:
        raise DatasetError(f"{path} names the label {twice!r} twice: keep one.")
    return tuple(names)
