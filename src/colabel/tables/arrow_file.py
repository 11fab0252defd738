"""Parquet, Feather, JSON lines and Excel files as a source of frames."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from colabel.core.lazy import require
from colabel.tables.frame import Frame, Storage, storage_of_type
from colabel.tables.source import Count, Seen, Source, ignore
from colabel.tables.text import PLAIN, ReadingOptions, TableError, first_repeat

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
class ArrowSource(Source):
    """A file that says the types of its columns; those neither numbers nor text are not offered."""

    path: Path
    names: tuple[str, ...]
    as_text: frozenset[str]
    columns: Mapping[str, Seen]

    @classmethod
    def open(cls, path: Path, options: ReadingOptions = PLAIN) -> ArrowSource:
        """Read the schema."""
        with _reading(path) as (schema, _):
            twice = first_repeat(schema.names)
        if twice is not None:
            raise TableError(f"{path} has two columns named {twice!r}: rename one.")
        kinds = {field.name: storage_of_type(field.type) for field in schema}
        nulls = {field.name for field in schema if field.type == pa.null()}
        columns = {n: Seen(n not in nulls, kind == "text") for n, kind in kinds.items() if kind}
        return cls(path, tuple(columns), frozenset(options.as_text), columns)

    def seen(self, count: Count = ignore) -> dict[str, Seen]:
        """Return what the schema declares."""
        return dict(self.columns)

    def chunks(self, storage: Mapping[str, Storage], n_rows: int) -> Iterator[Frame]:
        """Read the columns in `storage`, n_rows at a time."""
        for name, how in storage.items():
            if how == "number" and self.columns[name].n_odd:
                raise TableError(
                    f"{self.path}: the column {name!r} holds text, but numbers are wanted there."
                )
        wanted = [name for name in self.names if name in storage]
        as_text = [name for name in wanted if storage[name] == "text"]
        with _reading(self.path) as (_, batches):
            for batch in batches(wanted, n_rows):
                if batch.num_rows:
                    columns = dict(zip(wanted, batch.columns, strict=True))
                    yield Frame.of_arrow(columns, as_text)


@contextmanager
def _reading(path: Path) -> Iterator[tuple[Any, Callable[[list[str], int], Iterable[Any]]]]:
    """Give the schema of a file and what reads batches of some columns, of n rows at most.

    What goes wrong while it is read becomes a sentence.
    """
    format_name = FORMATS[path.suffix.lower()]
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
