"""`colabel ask`: which label of each row a person should check first."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

from colabel.cli import _options as given
from colabel.cli._answering import SCREEN, answer_file, counting, say, write_answers
from colabel.cli._console import guarded, load_table_model, note
from colabel.cli._options import opt
from colabel.core.files import refuse_input

_LOSS = "subset, hamming, f1 or jaccard: what a wrong answer costs; log: to be unsure."


@guarded
def ask(
    model: given.ModelFile,
    table: given.TableFile,
    output_file: Annotated[
        Path | None,
        opt("FILE", "A .csv, .csv.gz or .parquet file.", "--output", "-o", default=SCREEN),
    ] = None,
    loss: Annotated[str | None, opt("LOSS", _LOSS, default="the model's decision")] = None,
    top: Annotated[int, opt("N", "How many labels to name.", min=1)] = 1,
    known: given.Known = [],
    keep: given.Keep = [],
    formulas: given.Formulas = False,
    trust: given.Trust = False,
    missing: given.Missing = [],
    delimiter: given.Delimiter = "",
    decimal: given.Decimal = "",
    encoding: given.Encoding = "utf-8",
    quiet: given.Quiet = False,
) -> None:
    """Say which label of each row to check first.

    It is the label whose value, once known, removes most of the loss that is
    expected of the prediction: ask_1, and gain_1 of the expected_loss. Where the
    table has the label columns of the model, their values are taken as known
    and empty cells as unknown.

    [bold]Examples[/bold]

      [cyan]colabel ask model.colabel new.csv -o ask.csv[/cyan]

      [cyan]colabel ask model.colabel new.csv --loss f1 --top 3 --keep id[/cyan]
    """
    from colabel.tables import Asker, open_table
    from colabel.tables.answers import check_ending

    target = answer_file(output_file)
    if target is not None:
        check_ending(target)
        refuse_input(target, table, model)
    source = open_table(table, given.reading_options(delimiter, encoding, missing, decimal))
    asker = Asker(load_table_model(model, trust=trust), source, loss, top, known, keep)
    started = time.perf_counter()
    with counting("asking", target, quiet=quiet) as count:
        n_rows = write_answers(asker.answers(), target, count, formulas=formulas)
    if not quiet:
        where = f" to {target}" if target else ""
        seconds = time.perf_counter() - started
        say(f"{n_rows:,} rows asked about{where} in {seconds:.1f} s.", target)
        if n_rows and not asker.n_open:
            note(
                f"{table} knows every label of every row, so there was nothing to ask: leave cells "
                "empty whose label is not known, or the label columns out."
            )
