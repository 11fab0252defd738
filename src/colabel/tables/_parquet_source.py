"""Parquet files as a source of frames, read with pyarrow (the extra named data)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from colabel.datasets.readers._table import first_repeat
from colabel.datasets.readers.parquet import import_pyarrow
from colabel.tables.frame import Frame, TableError

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class ParquetSource:
    """A Parquet file; columns that are neither numbers nor text are not offered."""

    path: Path
    columns: Mapping[str, Literal["number", "text"]]

    @classmethod
    def open(cls, path: Path) -> ParquetSource:
        """Read the schema."""
        with _reading(path) as file:
            schema = file.schema_arrow
        twice = first_repeat(schema.names)
        if twice is not None:
            raise TableError(f"{path} has two columns named {twice!r}: rename one.")
        kinds = {field.name: _storage(field.type) for field in schema}
        return cls(path, {name: kind for name, kind in kinds.items() if kind is not None})

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(self.columns)

    def storage(self) -> dict[str, Literal["number", "text"]]:
        """Return what the schema declares."""
        return dict(self.columns)

    def chunks(
        self, storage: Mapping[str, Literal["number", "text"]], n_rows: int
    ) -> Iterator[Frame]:
        """Read the columns in `storage`, n_rows at a time."""
        for name, how in storage.items():
            if how == "number" and self.columns[name] != "number":
                raise TableError(
                    f"{self.path}: the column {name!r} holds text, but numbers are wanted there."
                )
        numeric = tuple(name for name, how in storage.items() if how == "number")
        with _reading(self.path) as file:
            for batch in file.iter_batches(batch_size=n_rows, columns=list(storage)):
                numbers = np.empty((batch.num_rows, len(numeric)))
                for k, name in enumerate(numeric):
                    numbers[:, k] = _numbers(batch.column(name), name, self.path)
                texts = {
                    name: _texts(batch.column(name))
                    for name, how in storage.items()
                    if how == "text"
                }
                yield Frame(numbers, numeric, texts)


@contextmanager
def _reading(path: Path) -> Iterator[Any]:
    """Open the file; what goes wrong while it is read becomes a sentence."""
    parquet, arrow = import_pyarrow("pyarrow.parquet"), import_pyarrow("pyarrow")
    try:
        with parquet.ParquetFile(path) as file:
            yield file
    except (OSError, arrow.ArrowException, UnicodeDecodeError, OverflowError) as error:
        reason = " ".join(str(error).split())
        raise TableError(
            f"{path} cannot be read as Parquet ({reason}): fetch the file again."
        ) from error


def _storage(kind: Any) -> Literal["number", "text"] | None:
    types = import_pyarrow("pyarrow").types
    if types.is_dictionary(kind):
        kind = kind.value_type
    if (
        types.is_boolean(kind)
        or types.is_integer(kind)
        or types.is_floating(kind)
        or types.is_decimal(kind)
    ):
        return "number"
    if types.is_string(kind) or types.is_large_string(kind) or types.is_temporal(kind):
        return "text"
    return None


def _numbers(column: Any, name: str, path: Path) -> NDArray[np.float64]:
    types = import_pyarrow("pyarrow").types
    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    cast = column.cast("float64", safe=False).to_numpy(zero_copy_only=False)
    numbers = np.asarray(cast, dtype=np.float64)
    if np.isinf(numbers).any():
        raise TableError(
            f"{path}: the column {name!r} holds an infinite number: correct it, or make it null."
        )
    return numbers


def _texts(column: Any) -> NDArray[np.object_]:
    texts = np.empty(len(column), dtype=object)
    for i, value in enumerate(column.to_pylist()):
        texts[i] = None if value is None or value == "" else str(value)
    return texts
