"""ARFF files: the table itself, and data sets whose label columns the caller names."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from colabel.datasets.dataset import Dataset, DatasetError
from colabel.datasets.readers._arff_rows import Columns, read_rows
from colabel.datasets.readers.arff_header import Header, read_header
from colabel.datasets.readers.encode import to_dataset
from colabel.datasets.readers.table import Table, find_columns, label_positions
from colabel.datasets.readers.text import FilePath, lines_of, open_text


def read_arff_table(
    path: FilePath, *, drop: Sequence[str] = (), encoding: str = "utf-8"
) -> tuple[Header, Table]:
    """Read an ARFF file, dense or sparse, into numbers and codes.

    Columns in `drop` are not looked at: they may be of any type, and their values read as 0.
    """
    with open_text(path, encoding) as text:
        lines = enumerate(lines_of(text, path), start=1)
        header = read_header(lines, path)
        names = [attribute.name for attribute in header.attributes]
        dropped = set(find_columns(names, drop, path))
        for j, attribute in enumerate(header.attributes):
            if attribute.kind == "other" and j not in dropped:
                raise DatasetError(
                    f"{path}: the column {attribute.name!r} is of type {attribute.declared}, which "
                    f"is not a feature or a label; leave it out with drop=[{attribute.name!r}]."
                )
        values = read_rows(lines, Columns(header.attributes, dropped, path))
    return header, Table(path, header.attributes, values)


def read_arff(
    path: FilePath,
    labels: Sequence[str] | int,
    *,
    label_position: Literal["first", "last"] = "last",
    drop: Sequence[str] = (),
    name: str | None = None,
    encoding: str = "utf-8",
) -> Dataset:
    """Read an ARFF file whose label columns are named, or counted from one end.

    Parameters
    ----------
    path : str or path
        The file; compressed when its name ends in .gz. Rows may be dense or sparse.
    labels : sequence of str or int
        Names of the label columns, or how many there are.
    label_position : {"last", "first"}
        At which end they stand when `labels` is a number.
    drop : sequence of str
        Columns to leave out. Columns of type string and date must be listed here.
    name : str, optional
        Name of the data set; by default the file's.
    encoding : str, default="utf-8"
        Encoding of the file.

    Returns
    -------
    Dataset
        Labels in the order of the file's columns. Features: numbers stay; a nominal feature with
        two numbers, or with yes/no or true/false, fills one column; any other becomes one 0/1
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
    _, table = read_arff_table(path, drop=drop, encoding=encoding)
    return to_dataset(
        table,
        label_positions(table.names, labels, label_position, path),
        name=name or Path(path).name.split(".")[0],
        dropped=find_columns(table.names, drop, path),
    )
