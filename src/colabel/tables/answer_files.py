"""Files of answers: CSV or Parquet, there as a whole or not at all; and folders of them."""

from __future__ import annotations

import gzip
import hashlib
import importlib
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from colabel.core.files import refuse_input, written_whole
from colabel.core.optional import require
from colabel.datasets.frame import TableError
from colabel.tables.answers import Answers, CodedTexts, csv_cell

ENDINGS = (".csv", ".csv.gz", ".parquet")
_RECORD = ".colabel-predict.json"

Write = Callable[[Answers], None]


def check_ending(file: Path) -> None:
    """Refuse the name of a file that is none that can be written."""
    if not file.name.endswith(ENDINGS):
        raise TableError(
            f"{file} is neither .csv nor .csv.gz nor .parquet, which is what is written: rename it."
        )
    if file.suffix == ".parquet":
        require("pyarrow", "Writing Parquet", ", or write .csv")


@contextmanager
def answers_written(file: Path | None) -> Iterator[Write]:
    """Give a function that writes answers to a file, or (None) to standard output.

    Of answers that do not come nothing is written, not even the names of the columns.
    """
    if file is None:
        yield _csv_writer(lambda lines: sys.stdout.write(lines.decode()))
        sys.stdout.flush()
        return
    with written_whole(file) as part:
        if file.suffix == ".parquet":
            with _parquet_writer(part) as write:
                yield write
        else:
            with gzip.open(part, "wb") if file.suffix == ".gz" else part.open("wb") as raw:
                yield _csv_writer(raw.write)


def _csv_writer(put: Callable[[bytes], Any]) -> Write:
    header_is_due = True

    def write(answers: Answers) -> None:
        nonlocal header_is_due
        lines = answers.to_csv()
        if header_is_due:
            put((",".join(map(csv_cell, answers.columns)) + "\n").encode())
            header_is_due = False
        put(lines)

    return write


@contextmanager
def _parquet_writer(part: Path) -> Iterator[Write]:
    parquet = importlib.import_module("pyarrow.parquet")
    file: Any = None

    def write(answers: Answers) -> None:
        nonlocal file
        table = answers.to_arrow()
        if file is None:
            # probabilities and numbers of rows do not repeat: a dictionary of them costs time
            repeats = [n for n, c in answers.columns.items() if isinstance(c, CodedTexts)]
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
