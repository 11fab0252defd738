"""Parquet, Feather, JSON lines and Excel files as a source of frames."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from colabel.core.optional import require
from colabel.datasets.frame import Frame, Storage, TableError, storage_of_type
from colabel.datasets.text import first_repeat, no_file

Batches: TypeAlias = Callable[[list[str], int], Iterable[Any]]

FORMATS = {
    ".parquet": "Parquet",
    ".pq": "Parquet",
    ".feather": "Feather",
    ".arrow": "Feather",
    ".jsonl": "JSON",
    ".ndjson": "JSON",
    ".xlsx": "Excel",
    ".xls": "Excel",
}
"""What the ending of a file says of it."""


@dataclass(frozen=True)
class ArrowSource:
    """A file that says the types of its columns; those neither numbers nor text are not offered.

    Attributes
    ----------
    path : Path
    columns : {name: "number" or "text"}
    declared : {name: type}
        Of every column, those not offered included.
    """

    path: Path
    columns: Mapping[str, Storage]
    declared: Mapping[str, str]

    @classmethod
    def open(cls, path: Path) -> ArrowSource:
        """Read the schema."""
        with _reading(path) as (schema, _):
            pass
        twice = first_repeat(schema.names)
        if twice is not None:
            raise TableError(f"{path} has two columns named {twice!r}: rename one.")
        kinds = {field.name: storage_of_type(field.type) for field in schema}
        offered = {name: kind for name, kind in kinds.items() if kind is not None}
        return cls(path, offered, {field.name: str(field.type) for field in schema})

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(self.columns)

    def storage(self) -> dict[str, Storage]:
        """Return what the schema declares."""
        return dict(self.columns)

    def chunks(self, storage: Mapping[str, Storage], n_rows: int) -> Iterator[Frame]:
        """Read the columns in `storage`, n_rows at a time."""
        for name, how in storage.items():
            if how == "number" and self.columns[name] != "number":
                raise TableError(
                    f"{self.path}: the column {name!r} holds text, but numbers are wanted there."
                )
        wanted = [name for name in self.columns if name in storage]
        as_text = [name for name in wanted if storage[name] == "text"]
        before = 0
        with _reading(self.path) as (_, batches):
            for batch in batches(wanted, n_rows):
                if not batch.num_rows:
                    continue
                frame = Frame.of_arrow(dict(zip(wanted, batch.columns, strict=True)), as_text)
                numbers: Any = frame.numbers
                if not np.isfinite(np.sum(numbers)) and np.isinf(numbers).any():
                    i, k = np.argwhere(np.isinf(numbers))[0]
                    raise TableError(
                        f"{self.path}, row {before + i + 1}: the column {frame.number_names[k]!r} "
                        "holds an infinite number: correct it, or make it null."
                    )
                yield frame
                before += batch.num_rows


@contextmanager
def _reading(path: Path) -> Iterator[tuple[Any, Batches]]:
    """Give the schema of a file and what reads batches of some columns, of n rows at most.

    What goes wrong while it is read becomes a sentence.
    """
    format_name = FORMATS.get(path.suffix.lower(), "Parquet")
    if not path.exists():
        raise no_file(path)
    try:
        if format_name == "Parquet":
            import pyarrow.parquet as parquet

            # a row group may be most of a file: its columns are not all fetched before the first
            # rows; threads would cost more than they save, for batches this small
            with parquet.ParquetFile(path, pre_buffer=False, buffer_size=1 << 18) as file:
                yield (
                    file.schema_arrow,
                    lambda names, n: file.iter_batches(n, columns=names, use_threads=False),
                )
            return
        import pyarrow.dataset as datasets

        if format_name == "Excel":
            require("pandas", "Reading Excel")
            import pandas as pd

            try:
                table = pd.read_excel(path)
            except (ValueError, KeyError, zipfile.BadZipFile) as error:
                raise OSError(str(error)) from error
            found = datasets.dataset(pa.Table.from_pandas(table, preserve_index=False))
        else:
            found = datasets.dataset(path, format=format_name.lower())
        yield (
            found.schema,
            lambda names, n: found.to_batches(
                columns=names, batch_size=n, use_threads=False, batch_readahead=0
            ),
        )
    except (OSError, pa.ArrowException, UnicodeDecodeError, OverflowError) as error:
        is_text = isinstance(error, UnicodeDecodeError) or "UTF8" in str(error)
        reason = "a text in it is not UTF-8" if is_text else " ".join(str(error).split())
        raise TableError(
            f"{path} cannot be read as {format_name} ({reason}): write or fetch it again."
        ) from error
