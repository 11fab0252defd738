"""ARFF files as a source of frames."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from colabel.datasets.frame import Frame, Storage, TableError
from colabel.datasets.readers._arff_rows import Columns, read_rows
from colabel.datasets.readers.arff_header import Header, read_header
from colabel.datasets.readers.encode import is_number, numbers_of
from colabel.datasets.readers.meka import declared_labels
from colabel.datasets.readers.text import lines_of, open_text

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from colabel.datasets.dataset import Features


@dataclass(frozen=True)
class ArffSource:
    """An ARFF file, its rows dense or sparse."""

    path: Path
    header: Header
    encoding: str

    @classmethod
    def open(cls, path: Path, encoding: str) -> ArffSource:
        """Read the header."""
        with open_text(path, encoding) as text:
            header = read_header(enumerate(lines_of(text, path), start=1), path)
        return cls(path, header, encoding)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(attribute.name for attribute in self.header.attributes)

    @property
    def labels(self) -> list[str]:
        """Names of the labels, where the relation counts them as MEKA does."""
        return declared_labels(self.header)

    def storage(self) -> dict[str, Storage]:
        """Return what the header declares: two numbers or yes and no are a number."""
        return {a.name: "number" if is_number(a) else "text" for a in self.header.attributes}

    def chunks(self, storage: Mapping[str, Storage], n_rows: int) -> Iterator[Frame]:
        """Read the columns in `storage`, n_rows at a time."""
        attributes = self.header.attributes
        for attribute in attributes:
            if storage.get(attribute.name) == "number" and not is_number(attribute):
                raise TableError(
                    f"{self.path}: the column {attribute.name!r} is declared "
                    f"{attribute.declared}, but numbers are wanted there: declare it numeric."
                )
        dropped = {j for j, a in enumerate(attributes) if a.name not in storage}
        kind: type | None = None
        with open_text(self.path, self.encoding) as text:
            lines = enumerate(lines_of(text, self.path), start=1)
            read_header(lines, self.path)
            rows = ((i, line) for i, line in lines if line.strip() and line.lstrip()[0] != "%")
            while block := list(islice(rows, n_rows)):
                columns = Columns(attributes, dropped, self.path)
                values = read_rows(block, columns)
                if kind is not None and type(values) is not kind:
                    raise TableError(
                        f"{self.path}, line {block[0][0]}: rows in braces and rows without are "
                        "mixed: write all rows in one of the two ways."
                    )
                kind = type(values)
                yield self._frame(values, columns, storage)

    def _frame(
        self,
        values: Features,
        columns: Columns,
        storage: Mapping[str, Storage],
    ) -> Frame:
        attributes = self.header.attributes
        numeric = [j for j, a in enumerate(attributes) if storage.get(a.name) == "number"]
        texts = {
            attributes[j].name: self._texts(values, j, columns)
            for j, a in enumerate(attributes)
            if storage.get(a.name) == "text"
        }
        names = tuple(attributes[j].name for j in numeric)
        return Frame(numbers_of(values, attributes, numeric), names, texts)

    def _texts(self, values: Features, j: int, columns: Columns) -> NDArray[np.object_]:
        attribute = columns.attributes[j]
        block = values[:, [j]]
        full = (block if isinstance(block, np.ndarray) else block.toarray())[:, 0]
        if attribute.kind == "numeric":
            return np.array([None if np.isnan(v) else f"{v:g}" for v in full], dtype=object)
        listed = columns.texts if attribute.kind == "other" else attribute.values
        return np.array([None if np.isnan(v) else listed[int(v)] for v in full], dtype=object)
