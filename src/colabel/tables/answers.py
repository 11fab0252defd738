"""Answers as files: CSV with numbers of six digits, or Parquet with the numbers as they are.

What a spreadsheet would run as a formula (a text that begins with =, +, -, @ or a tab, and is no
number) is written to CSV with an apostrophe before it, which a spreadsheet takes for "this is
text"; so are the names of columns.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv

from colabel.core.arrays import Array
from colabel.core.files import refuse_input, written_whole
from colabel.tables.csv_file import as_numbers
from colabel.tables.source import TableError, state_of

ENDINGS = (".csv", ".csv.gz", ".parquet")
_RECORD = ".colabel-predict.json"
_FORMULA = r"^[=+\-@\t]"


def texts_of(answers: pa.Table) -> list[tuple[str, ...]]:
    """Return the rows of answers as texts: numbers with six digits.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from colabel.tables.answers import texts_of
    >>> texts_of(pa.table({"row": [1, 2], "colour": ["=blue", None], "p": [1 / 3, 1.0]}))
    [('1', '=blue', '0.333333'), ('2', '', '1')]
    """
    columns = _as_written(answers, safe=False).columns
    return list(zip(*(c.cast("string").fill_null("").to_pylist() for c in columns), strict=True))


def csv_of(answers: pa.Table, *, safe: bool = True, header: bool = False) -> bytes:
    """Return answers as lines of a CSV file, in UTF-8; `safe` has spreadsheets run nothing.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from colabel.tables.answers import csv_of
    >>> print(csv_of(pa.table({"colour": ["=blue", "red"], "p": [1 / 3, 1.0]})).decode(), end="")
    '=blue,0.333333
    red,1
    """
    table = _as_written(answers, safe=safe)
    found = b""
    if header:
        names = _harmless(pa.array(answers.column_names), safe=safe).to_pylist()
        found = csv_of(pa.table({str(k): [name] for k, name in enumerate(names)}), safe=False)
    for style in ("none", "needed"):  # where a text needs quotes, all texts have them
        lines = pa.BufferOutputStream()
        options = arrow_csv.WriteOptions(include_header=False, quoting_style=style)
        try:
            arrow_csv.write_csv(table, lines, options)
            break
        except pa.ArrowInvalid:
            continue
    return found + bytes(lines.getvalue())


def _as_written(answers: pa.Table, *, safe: bool) -> pa.Table:
    columns = {}
    for name, column in zip(answers.column_names, answers.columns, strict=True):
        kind = column.type
        if pa.types.is_floating(kind):
            column = pa.array(_six_digits(column.to_numpy()), from_pandas=True)
        elif pa.types.is_dictionary(kind):
            column = column.combine_chunks()
            values = _harmless(column.dictionary, safe=safe)
            column = pa.DictionaryArray.from_arrays(column.indices, values).cast("string")
        elif pa.types.is_string(kind):
            column = _harmless(column, safe=safe)
        columns[name] = column
    return pa.table(columns)


def _harmless(texts: Any, *, safe: bool) -> Any:
    """Put an apostrophe before texts that are formulas."""
    formula = pc.match_substring_regex(texts, _FORMULA)
    if not safe or not pc.any(formula).as_py():
        return texts
    is_number = pa.array(~as_numbers(pc.fill_null(texts, ""), [])[1])
    marked = pc.binary_join_element_wise("'", texts, "")
    return pc.if_else(pc.and_not(formula, is_number), marked, texts)


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


def check_ending(file: Path) -> None:
    """Refuse the name of a file that is none that can be written."""
    if not file.name.endswith(ENDINGS):
        raise TableError(
            f"{file} is neither .csv nor .csv.gz nor .parquet, which is what is written: rename it."
        )


@contextmanager
def answers_written(
    file: Path | None, *, safe: bool = True
) -> Iterator[Callable[[pa.Table], None]]:
    """Give a function that writes answers to a file, or (None) to standard output.

    Of answers that do not come nothing is written, not even the names of the columns. With `safe`,
    no cell of a CSV file is a formula to a spreadsheet.
    """
    header_is_due = True

    def put(answers: pa.Table) -> None:
        nonlocal header_is_due
        lines = csv_of(answers, safe=safe, header=header_is_due)
        header_is_due = False
        if raw is None:
            sys.stdout.write(lines.decode())
        else:
            raw.write(lines)

    raw: Any = None
    if file is None:
        yield put
        sys.stdout.flush()
        return
    with written_whole(file) as part:
        if file.suffix != ".parquet":
            with gzip.open(part, "wb") if file.suffix == ".gz" else part.open("wb") as raw:
                yield put
            return
        with ExitStack() as stack:
            writer: Any = None

            def write(answers: pa.Table) -> None:
                nonlocal writer
                import pyarrow.parquet as parquet

                texts = [f.name for f in answers.schema if pa.types.is_dictionary(f.type)]
                plain = [f.with_type(pa.string()) if f.name in texts else f for f in answers.schema]
                if writer is None:
                    # probabilities and numbers of rows do not repeat: a dictionary costs time
                    options = {"use_dictionary": texts}
                    writer = parquet.ParquetWriter(part, pa.schema(plain), **options)
                    stack.callback(writer.close)
                writer.write_table(answers.cast(pa.schema(plain)))

            yield write


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
        return target.exists() and self._finished().get(target.name) == [*state_of(part)]

    def finish(self, part: Path, target: Path) -> None:
        """Note that a part is answered."""
        record = {
            "request": self.request,
            "parts": self._finished() | {target.name: state_of(part)},
        }
        with written_whole(self.folder / _RECORD) as file:
            file.write_text(json.dumps(record), encoding="utf-8")

    def _finished(self) -> dict[str, Any]:
        try:
            record = json.loads((self.folder / _RECORD).read_text(encoding="utf-8"))
            parts = record["parts"] if record["request"] == self.request else {}
        except (OSError, ValueError, LookupError, TypeError):
            return {}
        return parts if isinstance(parts, dict) else {}
