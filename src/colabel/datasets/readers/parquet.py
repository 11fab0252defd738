"""Parquet files, read with pyarrow (the extra named data)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from colabel.datasets.dataset import Dataset, DatasetError
from colabel.datasets.readers.encode import to_dataset
from colabel.datasets.readers.parquet_source import ParquetSource
from colabel.datasets.readers.table import find_columns, label_positions, whole_table
from colabel.datasets.readers.text import FilePath


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

    Raises
    ------
    ImportError
        When pyarrow is not installed.
    """
    source = ParquetSource.open(Path(path))
    names = list(source.declared)
    dropped = find_columns(names, drop, path)
    storage = {name: how for name, how in source.columns.items() if name not in set(drop)}
    for column, declared in source.declared.items():
        # dates are text to a table of one's own, but no feature and no label of a data set
        if column not in drop and (column not in storage or _is_date(declared)):
            raise DatasetError(
                f"{path}: the column {column!r} is of type {declared}, which is not a feature or a "
                f"label; leave it out with drop=[{column!r}]."
            )
    return to_dataset(
        whole_table(source, storage, names),
        label_positions(names, labels, label_position, path),
        name=name or Path(path).name.split(".")[0],
        dropped=dropped,
    )


def _is_date(declared: str) -> bool:
    return declared.startswith(("date", "time", "duration"))
