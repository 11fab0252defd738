"""Frame: a user's table, or some rows of it, as numbers and texts by column name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from scipy import sparse

from colabel.core.arrays import Array, is_sparse
from colabel.datasets.dataset import DatasetError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from colabel.datasets.dataset import Features

    Texts = NDArray[np.object_]


Storage: TypeAlias = Literal["number", "text"]
"""How a column is held."""


class TableError(DatasetError):
    """A table cannot be used as asked; the message says what to do."""


@dataclass(frozen=True, eq=False, repr=False)
class Frame:
    """Columns of numbers and columns of text.

    Attributes
    ----------
    numbers : ndarray or csr_array of shape (n_rows, n_numbers)
        Columns of numbers, NaN where missing.
    number_names : tuple of n_numbers str
    texts : {name: object array of shape (n_rows,)}
        Columns of strings, None where missing.

    Examples
    --------
    >>> from colabel.tables import Frame
    >>> frame = Frame.of({"size": [1.5, None], "colour": ["red", "blue"]})
    >>> frame
    Frame(2 rows: 1 column of numbers, 1 column of text)
    >>> frame.column("size")
    array([1.5, nan])
    """

    numbers: Features
    number_names: tuple[str, ...]
    texts: Mapping[str, Texts] = field(default_factory=dict)

    @classmethod
    def of(cls, data: Any) -> Frame:
        """Make a frame of a frame, a data frame, a mapping of names to columns, or an array.

        The columns of an array (n, p), dense or sparse, are called x0, x1, ....
        """
        if isinstance(data, Frame):
            return data
        if sparse.issparse(data) or (isinstance(data, np.ndarray) and data.ndim == 2):
            return cls._of_array(data)
        if not hasattr(data, "items") or not hasattr(data, "keys"):
            raise TableError(
                f"A table is a Frame, a data frame, a mapping of names to columns or an array of "
                f"two dimensions, not {type(data).__name__}."
            )
        numbers: dict[str, Array] = {}
        texts: dict[str, Texts] = {}
        for name, column in data.items():
            array = np.asarray(column, dtype=None if hasattr(column, "dtype") else object)
            if _holds_numbers(array):
                numbers[str(name)] = _as_numbers(array)
            else:
                texts[str(name)] = _as_texts(array)
        lengths = {len(column) for column in [*numbers.values(), *texts.values()]}
        if len(lengths) != 1:
            raise TableError(f"The columns have {sorted(lengths)} rows: give them all as many.")
        block = np.stack([*numbers.values()], axis=1) if numbers else np.zeros((lengths.pop(), 0))
        return cls(block, tuple(numbers), texts)

    @classmethod
    def _of_array(cls, array: Any) -> Frame:
        names = tuple(f"x{j}" for j in range(array.shape[1]))
        if is_sparse(array):
            return cls(sparse.csr_array(array, dtype=np.float64), names)
        if array.dtype.kind in "biuf":
            return cls(np.asarray(array, dtype=np.float64), names)
        return cls.of(dict(zip(names, array.T, strict=True)))

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.numbers.shape[0])

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns, those of numbers first."""
        return (*self.number_names, *self.texts)

    @property
    def is_sparse(self) -> bool:
        """Whether the numbers are stored sparsely."""
        return sparse.issparse(self.numbers)

    def __len__(self) -> int:
        return self.n_rows

    def __repr__(self) -> str:
        def counted(n: int, of: str) -> str:
            return f"{n} column{'s' * (n != 1)} of {of}"

        kinds = f"{counted(len(self.number_names), 'numbers')}, {counted(len(self.texts), 'text')}"
        return f"Frame({self.n_rows} row{'s' * (self.n_rows != 1)}: {kinds})"

    def column(self, name: str) -> NDArray[Any]:
        """Return one column (n_rows,): numbers with NaN, or strings with None."""
        if name in self.texts:
            return self.texts[name]
        position = {n: j for j, n in enumerate(self.number_names)}.get(name)
        if position is None:
            raise TableError(f"There is no column {name!r}.")
        block = self.numbers[:, [position]]
        return (block if isinstance(block, np.ndarray) else block.toarray())[:, 0]

    def block(self, names: Sequence[str]) -> Features:
        """Return columns of numbers (n_rows, len(names)), in the order of the names."""
        if tuple(names) == self.number_names:
            return self.numbers
        position = {name: j for j, name in enumerate(self.number_names)}
        absent = [name for name in names if name not in position]
        if absent:
            raise TableError(f"There is no column of numbers named {absent[0]!r}.")
        return self.numbers[:, [position[name] for name in names]]

    def rows(self, index: NDArray[Any] | slice) -> Frame:
        """Return some of the rows."""
        texts = {name: column[index] for name, column in self.texts.items()}
        return Frame(self.numbers[index], self.number_names, texts)

    def __getitem__(self, index: NDArray[Any] | slice) -> Frame:
        return self.rows(index)

    def without(self, names: Sequence[str]) -> Frame:
        """Return the frame without some of its columns."""
        gone = set(names)
        kept = tuple(name for name in self.number_names if name not in gone)
        texts = {name: column for name, column in self.texts.items() if name not in gone}
        return Frame(self.block(kept), kept, texts)

    @classmethod
    def stacked(cls, frames: Sequence[Frame]) -> Frame:
        """Put frames of the same columns below each other."""
        first = frames[0]
        if len(frames) == 1:
            return first
        blocks: list[Any] = [frame.numbers for frame in frames]
        if first.is_sparse:
            numbers: Features = sparse.csr_array(sparse.vstack(blocks, format="csr"))
        else:
            numbers = np.concatenate(blocks)
        texts = {name: np.concatenate([f.texts[name] for f in frames]) for name in first.texts}
        return cls(numbers, first.number_names, texts)


def _holds_numbers(array: NDArray[Any]) -> bool:
    if array.dtype.kind in "biuf":
        return True
    if array.dtype.kind != "O":
        return False
    return all(
        value is None or isinstance(value, bool | int | float | np.number) for value in array
    )


def _as_numbers(array: NDArray[Any]) -> Array:
    if array.dtype.kind == "O":
        array = np.array([np.nan if value is None else value for value in array])
    return array.astype(np.float64)


def _as_texts(array: NDArray[Any]) -> Texts:
    if array.dtype.kind == "M":
        array = array.astype("datetime64[us]")  # the finest that Python has words for
    texts = np.empty(len(array), dtype=object)
    for i, value in enumerate(array.tolist()):
        # NaN is the only value that differs from itself; pandas.NA answers with neither
        missing = value is None or (not isinstance(value, str) and _is_missing(value))
        texts[i] = None if missing else str(value)
    return texts


def _is_missing(value: Any) -> bool:
    different = value != value
    return different is True or not isinstance(different, bool | np.bool_) or bool(different)
