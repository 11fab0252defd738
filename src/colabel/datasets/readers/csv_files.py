"""CSV files with a header line. Needs nothing beyond the standard library and NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from colabel.datasets.dataset import Dataset
from colabel.datasets.readers.csv_source import CsvSource
from colabel.datasets.readers.encode import to_dataset
from colabel.datasets.readers.table import Table, find_columns, label_positions, whole_table
from colabel.datasets.readers.text import FilePath


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
        Encoding of the file.

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
    table = read_csv_table(path, drop=drop, delimiter=delimiter, encoding=encoding)
    return to_dataset(
        table,
        label_positions(table.names, labels, label_position, path),
        name=name or Path(path).name.split(".")[0],
        dropped=find_columns(table.names, drop, path),
    )


def read_csv_table(
    path: FilePath,
    *,
    drop: Sequence[str] = (),
    delimiter: str = ",",
    encoding: str = "utf-8",
) -> Table:
    """Read a CSV file into numbers and codes; columns in `drop` read as 0."""
    source = CsvSource.open(Path(path), delimiter, encoding)
    find_columns(source.names, drop, path)
    return whole_table(source, source.storage(doubtful="text", ignored=drop), source.names)
