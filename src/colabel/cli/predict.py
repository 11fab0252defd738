"""`colabel predict`: a saved model applied to a table of any length."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from colabel.cli import _options as given
from colabel.cli._answering import SCREEN, answer_file, counting, say, write_answers
from colabel.cli._console import guarded, load_table_model, output
from colabel.cli._options import opt
from colabel.core.files import refuse_input

if TYPE_CHECKING:
    from colabel.tables import PredictionRequest, ReadingOptions, TableModel

_DECISION = "subset, hamming, f1 or jaccard: what the labels are chosen for."
_COVERAGE = (
    "Also label sets that contain the true one with at least this probability, and labels that are"
    " sure; for a model fitted with --conformal."
)


@guarded
def predict(
    model: given.ModelFile,
    table: given.TableParts,
    output_file: Annotated[
        Path | None,
        opt(
            "FILE",
            "A .csv, .csv.gz or .parquet file, or a folder.",
            "--output",
            "-o",
            default=SCREEN,
        ),
    ] = None,
    top_k: Annotated[int, opt("K", "Also the K most probable label sets of each row.", min=0)] = 0,
    known: given.Known = [],
    decision: Annotated[str | None, opt("LOSS", _DECISION, default="the model's")] = None,
    coverage: Annotated[float | None, opt("P", _COVERAGE, default=False)] = None,
    keep: given.Keep = [],
    probabilities: Annotated[
        bool,
        opt("", "Also the probability of each label alone.", "--probabilities/--no-probabilities"),
    ] = True,
    formulas: given.Formulas = False,
    trust: given.Trust = False,
    missing: given.Missing = [],
    delimiter: given.Delimiter = "",
    decimal: given.Decimal = "",
    encoding: given.Encoding = "utf-8",
    as_json: given.AsJson = False,
    quiet: given.Quiet = False,
) -> None:
    """Predict the labels of the rows of a table.

    The table is read and answered a few thousand rows at a time, so it may be
    larger than the memory. The output file appears when it is complete. Several
    tables are answered into a folder, each to a file of its own; those that are
    finished are not done again.

    [bold]Examples[/bold]

      [cyan]colabel predict model.colabel new.csv -o out.csv[/cyan]

      [cyan]colabel predict model.colabel new.csv --top-k 3 --keep id[/cyan]

      [cyan]colabel predict model.colabel new.csv --given known_tags --decision f1[/cyan]

      [cyan]colabel predict model.colabel new.csv --coverage 0.9[/cyan]

      [cyan]colabel predict model.colabel 'part-*.parquet' -o answers/[/cyan]
    """
    from colabel.tables import PredictionRequest, TableError, find_parts

    if as_json and answer_file(output_file) is None:
        raise TableError("--json prints a summary: say with -o where the predictions go.")
    parts = find_parts(table)
    request = PredictionRequest(decision, probabilities, top_k, known, keep, coverage)
    options = given.reading_options(delimiter, encoding, missing, decimal)
    job = _Job(load_table_model(model, trust=trust), request, options, formulas)
    target = answer_file(output_file)
    started = time.perf_counter()
    with counting("predicting", target, quiet=quiet) as count:
        if len(parts) == 1 and not _is_folder(output_file):
            refuse_input(target, *parts, model)
            n_rows, n_finished = job.answer(parts[0], target, count), 0
        else:
            n_rows, n_finished = job.answer_all(parts, output_file, model, count)
    seconds = time.perf_counter() - started
    if as_json:
        found = {"rows": n_rows, "seconds": seconds, "file": str(output_file)}
        output().print_json(json.dumps({**found, "columns": job.header}))
    elif not quiet:
        where = f" to {target}" if target else ""
        before = f" {n_finished} of {len(parts)} parts were finished before." * bool(n_finished)
        speed = f"{n_rows / max(seconds, 1e-9):,.0f} rows a second"
        say(f"{n_rows:,} rows predicted{where} in {seconds:.1f} s ({speed}).{before}", target)


@dataclass
class _Job:
    """A model and what is asked of it, for one table after the other."""

    model: TableModel
    request: PredictionRequest
    options: ReadingOptions
    formulas: bool = False
    header: list[str] = field(default_factory=list)  # of the last table

    def answer(self, part: Path, target: Path | None, count: Callable[[int], None]) -> int:
        """Predict one table; return how many rows it has."""
        from colabel.tables import Predictor, open_table
        from colabel.tables.answers import check_ending

        if target is not None:
            check_ending(target)
        predictor = Predictor(self.model, open_table(part, self.options), self.request)
        self.header = predictor.header
        labels = self.model.label_names_ if self.model.space.is_indicator else ()
        return write_answers(predictor.answers(), target, count, labels, self.formulas)

    def answer_all(
        self, parts: list[Path], folder: Path | None, model: Path, count: Callable[[int], None]
    ) -> tuple[int, int]:
        """Predict several tables into a folder; how many rows, and how many parts were there."""
        from colabel.tables import AnswerFolder, TableError

        if folder is None:
            raise TableError(f"{len(parts)} tables are predicted into a folder: name it with -o.")
        asked = {"request": asdict(self.request), "options": asdict(self.options)}
        answered = AnswerFolder.open(folder, model, asked)
        n_rows = n_finished = 0
        for part, target in zip(parts, answered.targets(parts), strict=True):
            if part.exists() and answered.is_finished(part, target):
                n_finished += 1
                continue
            n_rows += self.answer(part, target, count)
            answered.finish(part, target)
        return n_rows, n_finished


def _is_folder(path: Path | None) -> bool:
    """Whether a name can only be that of a folder; "out/" arrives as "out"."""
    return path is not None and str(path) != "-" and (path.is_dir() or not path.suffix)
