"""`colabel predict`: a saved model applied to a table of any length."""

from __future__ import annotations

import csv
import gzip
import itertools
import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, TextIO

import typer

from colabel.cli import _options as given
from colabel.cli._console import messages, output, stderr_is_terminal
from colabel.cli._guard import guarded
from colabel.cli._model import load_table_model
from colabel.core.files import written_whole
from colabel.core.progress import row_counter


@guarded
def predict(
    model: given.ModelFile,
    table: given.TableFile,
    output_file: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="A .csv or .csv.gz file; else the screen."
        ),
    ] = None,
    top_k: Annotated[
        int,
        typer.Option(
            "--top-k", min=0, metavar="K", help="Also the K most probable label sets of each row."
        ),
    ] = 0,
    known: Annotated[
        list[str],
        typer.Option(
            "--given",
            metavar="COLUMNS",
            help="Columns of labels already known: named like the labels, 'known_*', or of tags.",
            show_default=False,
        ),
    ] = [],
    decision: Annotated[
        str | None,
        typer.Option(
            metavar="LOSS",
            help="subset, hamming, f1 or jaccard: what the labels are chosen for.",
            show_default="the model's",
        ),
    ] = None,
    coverage: Annotated[
        float | None,
        typer.Option(
            metavar="P",
            help="Also label sets that have the true one among them with this probability, and"
            " labels that are sure; for a model fitted with --conformal.",
            show_default=False,
        ),
    ] = None,
    keep: Annotated[
        list[str],
        typer.Option(metavar="COLUMNS", help="Columns to copy to the output.", show_default=False),
    ] = [],
    probabilities: Annotated[
        bool, typer.Option(help="Also the probability of each label alone.")
    ] = True,
    missing: given.Missing = [],
    delimiter: given.Delimiter = "",
    encoding: given.Encoding = "utf-8",
    as_json: given.AsJson = False,
    quiet: given.Quiet = False,
) -> None:
    """Predict the labels of the rows of a table.

    The table is read and answered a few thousand rows at a time, so it may be
    larger than the memory. The output file appears when it is complete.

    [bold]Examples[/bold]

      [cyan]colabel predict model.colabel new.csv -o out.csv[/cyan]

      [cyan]colabel predict model.colabel new.csv --top-k 3 --keep id[/cyan]

      [cyan]colabel predict model.colabel new.csv --given known_tags --decision f1[/cyan]

      [cyan]colabel predict model.colabel new.csv --coverage 0.9[/cyan]
    """
    from colabel.tables import PredictionRequest, Predictor, TableError, open_table

    if as_json and output_file is None:
        raise TableError("--json prints a summary: say with -o where the predictions go.")
    _check_ending(output_file)
    fitted = load_table_model(model)
    source = open_table(table, given.reading_options(delimiter, encoding, missing))
    request = PredictionRequest(decision, probabilities, top_k, known, keep, coverage)
    predictor = Predictor(fitted, source, request)
    started = time.perf_counter()
    with (
        _opened(output_file) as text,
        row_counter("predicting", shown=stderr_is_terminal() and not quiet) as count,
    ):
        writer = csv.writer(text, lineterminator="\n")
        n_rows = 0
        chunks = predictor.chunks()
        # The first rows before the header: of a table that cannot be read, nothing is printed.
        first = next(chunks, [])
        writer.writerow(predictor.header)
        for rows in itertools.chain([first], chunks):
            writer.writerows(rows)
            n_rows += len(rows)
            count(len(rows))
    seconds = time.perf_counter() - started
    if as_json:
        found = {"rows": n_rows, "seconds": seconds, "file": str(output_file)}
        output().print_json(json.dumps({**found, "columns": predictor.header}))
    elif not quiet:
        # beside the predictions if these go to a file, away from them if to standard output
        console = messages() if output_file is None else output()
        where = f" to {output_file}" if output_file else ""
        console.print(
            f"{n_rows:,} rows predicted{where} in {seconds:.1f} s "
            f"({n_rows / max(seconds, 1e-9):,.0f} rows a second).",
            soft_wrap=True,
            markup=False,
        )


def _check_ending(file: Path | None) -> None:
    from colabel.tables import TableError

    if file is not None and str(file) != "-" and not file.name.endswith((".csv", ".csv.gz")):
        raise TableError(
            f"{file} is neither .csv nor .csv.gz, which is what is written: rename it."
        )


@contextmanager
def _opened(file: Path | None) -> Iterator[TextIO]:
    """Give standard output, or a file that is there as a whole or not at all."""
    if file is None or str(file) == "-":
        yield sys.stdout
        sys.stdout.flush()
        return
    with written_whole(file) as part:
        if file.suffix == ".gz":
            with gzip.open(part, "wt", encoding="utf-8", newline="") as text:
                yield text
        else:
            with part.open("w", encoding="utf-8", newline="") as text:
                yield text
