"""Answers for some rows of a table, as Arrow columns; and how they are written to files.

A spreadsheet runs a cell as a formula that begins with =, +, -, @ or a tab. Unless told otherwise,
texts that do so and are no numbers are written to CSV with an apostrophe before them, which a
spreadsheet takes for "this is text"; so are the names of columns.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from colabel.core.arrays import Array, Codes, Indices
from colabel.core.files import refuse_input, written_whole
from colabel.tables.csv_file import as_numbers
from colabel.tables.text import TableError

ENDINGS = (".csv", ".csv.gz", ".parquet")
_RECORD = ".colabel-predict.json"
_SPECIAL = r"[,\"\n\r]"
_FORMULA = r"^[=+\-@\t]"

AnswerColumn: TypeAlias = Any
"""Probabilities or other numbers, whole numbers, or texts."""


def coded_texts(values: Sequence[str], codes: Codes | Indices) -> pa.DictionaryArray:
    """Return a column of texts: the different ones, and which of them each row has."""
    return pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(values, "string"))


@dataclass(frozen=True)
class Answers:
    """Columns of answers by name, n rows each.

    Examples
    --------
    >>> import numpy as np
    >>> from colabel.tables.answers import Answers, coded_texts
    >>> colour = coded_texts(("red", "=blue"), np.array([1, 0]))
    >>> answers = Answers({"row": np.array([1, 2]), "colour": colour, "p": np.array([1 / 3, 1.0])})
    >>> answers.rows()
    [('1', '=blue', '0.333333'), ('2', 'red', '1')]
    >>> print(answers.to_csv().decode(), end="")
    1,'=blue,0.333333
    2,red,1
    """

    columns: Mapping[str, AnswerColumn]

    @classmethod
    def of(cls, names: Sequence[str], columns: Iterable[AnswerColumn | list[str]]) -> Answers:
        """Make answers of columns, of which some may be texts as they are."""
        coded = (pa.array(c).dictionary_encode() if isinstance(c, list) else c for c in columns)
        return cls(dict(zip(names, coded, strict=True)))

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(next(iter(self.columns.values())))

    def rows(self) -> list[tuple[str, ...]]:
        """Return the rows as texts: numbers with six digits."""
        texts = (_as_texts(column, cell=None).to_pylist() for column in self.columns.values())
        return list(zip(*texts, strict=True))

    def to_csv(self, *, safe: bool = True) -> bytes:
        """Return the rows as lines of a CSV file, in UTF-8; `safe` has spreadsheets run nothing."""
        if not self.n_rows:
            return b""
        texts = [_as_texts(column, cell=safe) for column in self.columns.values()]
        lines = pc.binary_join_element_wise(*texts, ",") if len(texts) > 1 else texts[0]
        whole = pa.ListArray.from_arrays(pa.array([0, len(lines)], "int32"), lines)
        return bytes(pc.binary_join(whole, "\n")[0].as_buffer()) + b"\n"

    def to_arrow(self) -> Any:
        """Return a table of pyarrow: numbers as they are."""
        columns = {
            name: c if isinstance(c, np.ndarray) else c.cast("string")
            for name, c in self.columns.items()
        }
        return pa.table(columns)


def csv_cells(texts: Any, *, safe: bool) -> Any:
    """Quote texts where a CSV file needs it, and make formulas harmless."""
    if safe:
        formula = pc.match_substring_regex(texts, _FORMULA)
        if pc.any(formula).as_py():
            is_number = pa.array(~as_numbers(texts, [])[1])
            marked = pc.binary_join_element_wise("'", texts, "")
            texts = pc.if_else(pc.and_not(formula, is_number), marked, texts)
    special = pc.match_substring_regex(texts, _SPECIAL)
    if not pc.any(special).as_py():
        return texts
    doubled = pc.replace_substring(texts, '"', '""')
    return pc.if_else(special, pc.binary_join_element_wise('"', doubled, '"', ""), texts)


def _as_texts(column: AnswerColumn, cell: bool | None) -> Any:
    """Write a column as texts; as cells of a CSV file, harmless ones if `cell` is True."""
    if not isinstance(column, np.ndarray):
        values = pc.fill_null(column.dictionary, "")
        if cell is not None:
            values = csv_cells(values, safe=cell)
        return pc.fill_null(values.take(column.indices), "")
    if column.dtype.kind in "iu":
        return pa.array(column).cast("string")
    return pc.fill_null(pa.array(_six_digits(column), from_pandas=True).cast("string"), "")


def _six_digits(values: Array) -> Array:
    """Round numbers to six digits: the double next to the decimal number, as it is printed."""
    size = np.abs(values)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        shift = np.clip(5 - np.floor(np.log10(size)), -22, 22)
        # powers of ten up to the 22nd are exact, and so is the whole number between them
        up, down = 10.0 ** np.maximum(shift, 0), 10.0 ** np.maximum(-shift, 0)
        rounded = np.rint(values * up / down) / up * down
    plain = (size > 1e-16) & (size < 1e16)
    return np.where(plain, rounded, values)


Write = Callable[[Answers], None]


def check_ending(file: Path) -> None:
    """Refuse the name of a file that is none that can be written."""
    if not file.name.endswith(ENDINGS):
        raise TableError(
            f"{file} is neither .csv nor .csv.gz nor .parquet, which is what is written: rename it."
        )


@contextmanager
def answers_written(file: Path | None, *, safe: bool = True) -> Iterator[Write]:
    """Give a function that writes answers to a file, or (None) to standard output.

    Of answers that do not come nothing is written, not even the names of the columns. With `safe`,
    no cell of a CSV file is a formula to a spreadsheet.
    """
    if file is None:
        yield _csv_writer(lambda lines: sys.stdout.write(lines.decode()), safe)
        sys.stdout.flush()
        return
    with written_whole(file) as part:
        if file.suffix == ".parquet":
            with _parquet_writer(part) as write:
                yield write
        else:
            with gzip.open(part, "wb") if file.suffix == ".gz" else part.open("wb") as raw:
                yield _csv_writer(raw.write, safe)


def _csv_writer(put: Callable[[bytes], Any], safe: bool) -> Write:
    header_is_due = True

    def write(answers: Answers) -> None:
        nonlocal header_is_due
        lines = answers.to_csv(safe=safe)
        if header_is_due:
            names = csv_cells(pa.array([*answers.columns], "string"), safe=safe).to_pylist()
            put((",".join(names) + "\n").encode())
            header_is_due = False
        put(lines)

    return write


@contextmanager
def _parquet_writer(part: Path) -> Iterator[Write]:
    import pyarrow.parquet as parquet

    file: Any = None

    def write(answers: Answers) -> None:
        nonlocal file
        table = answers.to_arrow()
        if file is None:
            # probabilities and numbers of rows do not repeat: a dictionary of them costs time
            repeats = [n for n, c in answers.columns.items() if not isinstance(c, np.ndarray)]
            file = parquet.ParquetWriter(part, table.schema, use_dictionary=repeats)
        file.write_table(table)

    try:
        yield write
    finally:
        if file is not None:
            file.close()


@dataclass(frozen=True)
class AnswerFolder:
    """A folder with one file of answers for each part of a table.

    A record in it says of which request, and of which state of each part, the answers are, so
    that what is finished need not be done again.

    Attributes
    ----------
    folder : Path
    request : str
        A digest of the model and of what is asked.
    """

    folder: Path
    request: str

    @classmethod
    def open(cls, folder: Path, model: Path, asked: Mapping[str, Any]) -> AnswerFolder:
        """Make the folder if need be."""
        if folder.exists() and not folder.is_dir():
            raise TableError(f"{folder} is a file: several tables are answered into a folder.")
        folder.mkdir(exist_ok=True)
        digest = hashlib.sha256(model.read_bytes())
        digest.update(json.dumps(asked, sort_keys=True).encode())
        return cls(folder, digest.hexdigest())

    def targets(self, parts: Sequence[Path]) -> list[Path]:
        """Return the file that each part is answered to: of its format, CSV for other texts."""
        targets: dict[Path, Path] = {}
        for part in parts:
            is_parquet = part.suffix.lower() in (".parquet", ".pq")
            name = part.name.split(".")[0] + (".parquet" if is_parquet else ".csv")
            other = targets.setdefault(self.folder / name, part)
            if other != part:
                raise TableError(
                    f"{other} and {part} would both be answered to {self.folder / name}: rename "
                    "one, or give them folders of their own."
                )
        for target in targets:
            refuse_input(target, *parts)
        return list(targets)

    def is_finished(self, part: Path, target: Path) -> bool:
        """Whether the answers to a part as it is now are there."""
        return target.exists() and self._finished().get(target.name) == _state(part)

    def finish(self, part: Path, target: Path) -> None:
        """Note that a part is answered."""
        record = {"request": self.request, "parts": self._finished() | {target.name: _state(part)}}
        with written_whole(self.folder / _RECORD) as file:
            file.write_text(json.dumps(record), encoding="utf-8")

    def _finished(self) -> dict[str, Any]:
        try:
            record = json.loads((self.folder / _RECORD).read_text(encoding="utf-8"))
            parts = record["parts"] if record["request"] == self.request else {}
        except (OSError, ValueError, LookupError, TypeError):
            return {}
        return parts if isinstance(parts, dict) else {}


def _state(part: Path) -> list[int]:
    found = part.stat()
    return [found.st_size, found.st_mtime_ns]
