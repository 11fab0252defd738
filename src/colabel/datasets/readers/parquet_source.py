"""Parquet files as a source of frames, read with pyarrow (the extra named data)."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from colabel.core.arrays import Array
from colabel.core.optional import require
from colabel.datasets.frame import Frame, Storage, TableError
from colabel.datasets.readers.table import first_repeat

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class ParquetSource:
    """A Parquet file; columns that are neither numbers nor text are not offered."""

    path: Path
    columns: Mapping[str, Storage]
    declared: Mapping[str, str]  # the type of every column, those not offered included

    @classmethod
    def open(cls, path: Path) -> ParquetSource:
        """Read the schema."""
        with _reading(path) as file:
            schema = file.schema_arrow
        twice = first_repeat(schema.names)
        if twice is not None:
            raise TableError(f"{path} has two columns named {twice!r}: rename one.")
        kinds = {field.name: _storage(field.type) for field in schema}
        offered = {name: kind for name, kind in kinds.items() if kind is not None}
        return cls(path, offered, {field.name: str(field.type) for field in schema})

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(self.columns)

    @property
    def empty(self) -> frozenset[str]:
        """Names of the columns that are declared to hold nothing but nulls."""
        return frozenset(name for name, declared in self.declared.items() if declared == "null")

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
        numeric = tuple(name for name, how in storage.items() if how == "number")
        before = 0
        with _reading(self.path) as file:
            # threads would cost more than they save, for batches this small
            for batch in file.iter_batches(n_rows, columns=list(storage), use_threads=False):
                numbers = np.empty((len(numeric), batch.num_rows))
                for k, name in enumerate(numeric):
                    numbers[k] = _numbers(batch.column(name))
                self._refuse_infinite(numbers, numeric, before)
                texts = {
                    name: _texts(batch.column(name))
                    for name, how in storage.items()
                    if how == "text"
                }
                yield Frame(numbers.T, numeric, texts)
                before += batch.num_rows

    def _refuse_infinite(self, numbers: Array, names: Sequence[str], before: int) -> None:
        if np.isfinite(np.sum(numbers)):
            return
        infinite = np.argwhere(np.isinf(numbers))
        if len(infinite):
            k, row = infinite[0]
            raise TableError(
                f"{self.path}, row {before + row + 1}: the column {names[k]!r} holds an infinite "
                "number: correct it, or make it null."
            )


@contextmanager
def _reading(path: Path) -> Iterator[Any]:
    """Open the file; what goes wrong while it is read becomes a sentence."""
    parquet, arrow = _pyarrow("pyarrow.parquet"), _pyarrow("pyarrow")
    try:
        # a row group may be most of a file: its columns are not all fetched before the first rows
        with parquet.ParquetFile(path, pre_buffer=False, buffer_size=1 << 18) as file:
            yield file
    except FileNotFoundError as error:
        raise TableError(f"There is no file {path}: check the path.") from error
    except (OSError, arrow.ArrowException, UnicodeDecodeError, OverflowError) as error:
        is_text = isinstance(error, UnicodeDecodeError)
        reason = "a text in it is not UTF-8" if is_text else " ".join(str(error).split())
        raise TableError(
            f"{path} cannot be read as Parquet ({reason}): fetch the file again."
        ) from error


def _pyarrow(module: str) -> Any:
    """Import part of pyarrow, which carries no types."""
    require("pyarrow", "Reading Parquet")
    return importlib.import_module(module)


def _storage(kind: Any) -> Storage | None:
    types = _pyarrow("pyarrow").types
    if types.is_dictionary(kind):
        kind = kind.value_type
    if (
        types.is_boolean(kind)
        or types.is_integer(kind)
        or types.is_floating(kind)
        or types.is_decimal(kind)
        or types.is_null(kind)
    ):
        return "number"
    if types.is_string(kind) or types.is_large_string(kind) or types.is_temporal(kind):
        return "text"
    return None


def _numbers(column: Any) -> NDArray[Any]:
    types = _pyarrow("pyarrow").types
    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if column.null_count or not (types.is_integer(column.type) or types.is_floating(column.type)):
        column = column.cast("float64", safe=False)
    numbers: NDArray[Any] = column.to_numpy(zero_copy_only=False)
    return numbers


def _texts(column: Any) -> NDArray[np.object_]:
    coded = column if hasattr(column, "dictionary") else column.dictionary_encode()
    values = [None if v is None or v == "" else str(v) for v in coded.dictionary.to_pylist()]
    missing = len(values)  # where a null has its place
    table = np.array([*values, None], dtype=object)
    codes: NDArray[np.integer[Any]] = coded.indices.fill_null(missing).to_numpy(
        zero_copy_only=False
    )
    texts: NDArray[np.object_] = table[codes]
    return texts
