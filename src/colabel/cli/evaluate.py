"""`colabel evaluate`: how good a fitted model is on a table with known labels."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from colabel.cli import _options as given
from colabel.cli._console import guarded, load_table_model, output
from colabel.cli._options import opt
from colabel.core.files import refuse_input
from colabel.core.progress import columns

_SHOWN = 10  # labels and confusions on the screen


@guarded
def evaluate(
    model: given.ModelFile,
    table: given.TableFile,
    page: Annotated[Path | None, opt("FILE", "Also a page.", "--html", default=False)] = None,
    trust: given.Trust = False,
    missing: given.Missing = [],
    delimiter: given.Delimiter = "",
    decimal: given.Decimal = "",
    encoding: given.Encoding = "utf-8",
    as_json: given.AsJson = False,
) -> None:
    """Measure a fitted model on rows that it has not seen.

    All measures with standard errors over rows, precision, recall and
    calibration of each label, and the labels that it confuses. The table
    needs the model's columns and its label columns; empty labels count
    neither way.

    [bold]Examples[/bold]

      [cyan]colabel evaluate model.colabel test.csv[/cyan]

      [cyan]colabel evaluate model.colabel test.csv --html test.html --json[/cyan]
    """
    from colabel.comparing import evaluate_table
    from colabel.report import write_evaluation_html
    from colabel.tables import open_table

    if page is not None:
        refuse_input(page, table, model)
    fitted = load_table_model(model, trust=trust)
    options = given.reading_options(delimiter, encoding, missing, decimal)
    scores = evaluate_table(fitted, open_table(table, options))
    if page is not None:
        write_evaluation_html(page, scores, f"{model.name} on {table.name}")
    console = output()
    if as_json:
        console.print_json(scores.to_json())
        return
    console.print(str(scores), markup=False, highlight=False)
    weakest = sorted(scores.labels, key=lambda one: (one.f1 == one.f1, one.f1))
    shown = columns("label", ">rows", ">precision", ">recall", ">F1", ">calibration error")
    for one in weakest[:_SHOWN]:
        numbers = (one.precision, one.recall, one.f1, one.calibration_error)
        shown.add_row(one.name, f"{one.n_true:,}", *(_written(value) for value in numbers))
    console.print("\nThe weakest labels", markup=False)
    console.print(shown)
    if scores.confusions:
        shown = columns("missed", "predicted instead", ">rows")
        for missed, predicted, n_rows in scores.confusions[:_SHOWN]:
            shown.add_row(missed, predicted, f"{n_rows:,}")
        console.print("\nConfused", markup=False)
        console.print(shown)
    if page is not None:
        console.print(f"The page is {page}.", markup=False, soft_wrap=True)


def _written(value: float) -> str:
    return "–" if value != value else f"{value:.3f}"
