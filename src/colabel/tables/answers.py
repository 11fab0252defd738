"""Answers for some rows of a table, as columns; and how they are written."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from colabel.core.arrays import Array, Codes, Indices


class CodedTexts(NamedTuple):
    """A column of texts: the different ones, and which of them each row has."""

    values: Sequence[str]
    codes: Codes | Indices

    @classmethod
    def of(cls, texts: Iterable[str | None]) -> CodedTexts:
        """Code any texts; None is empty."""
        place: dict[str, int] = {}
        codes = [place.setdefault(text or "", len(place)) for text in texts]
        return cls(tuple(place), np.array(codes, dtype=np.intp))


AnswerColumn: TypeAlias = Array | Indices | CodedTexts
"""Probabilities or other numbers, whole numbers, or texts."""


@dataclass(frozen=True)
class Answers:
    """Columns of answers by name, n rows each.

    Examples
    --------
    >>> import numpy as np
    >>> from colabel.tables.answers import Answers, CodedTexts
    >>> colour = CodedTexts(("red", "blue"), np.array([1, 0]))
    >>> answers = Answers({"row": np.array([1, 2]), "colour": colour, "p": np.array([1 / 3, 1.0])})
    >>> answers.rows()
    [('1', 'blue', '0.333333'), ('2', 'red', '1')]
    >>> print(answers.to_csv().decode(), end="")
    1,blue,0.333333
    2,red,1
    """

    columns: Mapping[str, AnswerColumn]

    @classmethod
    def of(cls, names: Sequence[str], columns: Sequence[AnswerColumn | list[str]]) -> Answers:
        """Make answers of columns, of which some may be texts as they are."""
        coded = (CodedTexts.of(c) if isinstance(c, list) else c for c in columns)
        return cls(dict(zip(names, coded, strict=True)))

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        first = next(iter(self.columns.values()))
        return len(first.codes if isinstance(first, CodedTexts) else first)

    def rows(self) -> list[tuple[str, ...]]:
        """Return the rows as texts: numbers with six digits."""
        return list(zip(*map(_as_texts, self.columns.values()), strict=True))

    def to_csv(self) -> bytes:
        """Return the rows as lines of a CSV file, in UTF-8."""
        # numba is imported when there is something to write
        from colabel.tables import _csv_kernels as kernels

        kinds: list[int] = []
        cells: list[Any] = []
        texts: list[bytes] = []
        longest = 0
        for column in self.columns.values():
            if isinstance(column, CodedTexts):
                own = [csv_cell(text).encode() for text in column.values]
                kinds.append(kernels.TEXT)
                cells.append(column.codes + len(texts))
                texts += own
                longest += max(map(len, own), default=0) + 1
                continue
            is_whole = column.dtype.kind in "iu"
            kinds.append(kernels.WHOLE if is_whole else kernels.REAL)
            cells.append(column)
            longest += kernels.LONGEST_NUMBER + 1
        ends = np.cumsum([0, *map(len, texts)])
        out = np.empty(self.n_rows * longest, dtype=np.uint8)
        n_bytes = kernels.write_lines(
            np.array(kinds, dtype=np.intp),
            np.array(cells, dtype=np.float64),
            np.frombuffer(b"".join(texts), dtype=np.uint8),
            ends,
            out,
        )
        return out[:n_bytes].tobytes()

    def to_arrow(self) -> Any:
        """Return a table of pyarrow: numbers as they are."""
        arrow = importlib.import_module("pyarrow")
        return arrow.table({name: _as_arrow(arrow, c) for name, c in self.columns.items()})


def csv_cell(text: str) -> str:
    """Quote a text where a CSV file needs it."""
    if any(special in text for special in ',"\n\r'):
        return '"' + text.replace('"', '""') + '"'
    return text


def _as_texts(column: AnswerColumn) -> list[str]:
    if isinstance(column, CodedTexts):
        return [column.values[code] for code in column.codes.tolist()]
    if column.dtype.kind in "iu":
        return [str(number) for number in column.tolist()]
    return ["" if value != value else f"{value:.6g}" for value in column.tolist()]


def _as_arrow(arrow: Any, column: AnswerColumn) -> Any:
    if isinstance(column, CodedTexts):
        return arrow.array(column.values, arrow.string()).take(arrow.array(column.codes))
    return arrow.array(column)
