"""Parquet files, read with pyarrow (the extra named data)."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from colabel.datasets.dataset import Dataset, DatasetError
from colabel.datasets.readers._arff_header import Attribute
from colabel.datasets.readers._encode import to_dataset
from colabel.datasets.readers._table import Table, find_columns, label_columns
from colabel.datasets.readers._text import FilePath

if TYPE_CHECKING:
    from numpy.typing import NDArray


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
    parquet = import_pyarrow("pyarrow.parquet")
    try:
        file = parquet.ParquetFile(path)
        names = list(file.schema_arrow.names)
        if len(set(names)) != len(names):
            raise DatasetError(f"{path} has two columns of one name: rename one.")
        dropped = find_columns(names, drop, path)
        label_at = label_columns(names, labels, label_position, path)
        kept = [n for n in names if n not in set(drop)]
        content = file.read(columns=kept)
    except FileNotFoundError as error:
        raise DatasetError(f"There is no file {path}: check the path.") from error
    except (OSError, import_pyarrow("pyarrow").ArrowException) as error:
        raise DatasetError(
            f"{path} cannot be read as Parquet ({error}): fetch the file again."
        ) from error
    values = np.zeros((content.num_rows, len(names)))
    attributes = [Attribute(n, "numeric") for n in names]
    for j, column_name in enumerate(names):
        if column_name in set(kept):
            attributes[j], values[:, j] = _column(content.column(column_name), column_name, path)
    table = Table(path, tuple(attributes), values)
    return to_dataset(table, label_at, name=name or Path(path).name.split(".")[0], dropped=dropped)


def import_pyarrow(module: str) -> Any:
    """Import part of pyarrow, which carries no types."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError("Reading Parquet needs pyarrow: run pip install pyarrow.") from error


def _column(column: Any, name: str, path: FilePath) -> tuple[Attribute, NDArray[np.float64]]:
    """Turn an Arrow column into numbers, or into codes of its sorted values."""
    types = import_pyarrow("pyarrow").types
    kind = column.type
    if types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind):
        numbers = np.asarray(column.cast("float64", safe=False).to_numpy(), dtype=np.float64)
        return Attribute(name, "numeric"), numbers
    if types.is_dictionary(kind):
        column = column.cast(kind.value_type)
        kind = column.type
    if not (types.is_string(kind) or types.is_large_string(kind)):
        raise DatasetError(
            f"{path}: the column {name!r} is of type {kind}, which is not a feature or a label; "
            f"leave it out with drop=[{name!r}]."
        )
    try:
        texts = column.to_pylist()
    except UnicodeDecodeError as error:
        raise DatasetError(
            f"{path}: the column {name!r} holds text that is not UTF-8: write the file again."
        ) from error
    ordered = sorted({text for text in texts if text is not None})
    code = {text: float(i) for i, text in enumerate(ordered)}
    codes = np.array([np.nan if text is None else code[text] for text in texts])
    return Attribute(name, "nominal", tuple(ordered), "nominal"), codes
