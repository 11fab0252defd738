"""`colabel compare`: which model suits one's own table."""

from __future__ import annotations

import json
import math
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from colabel.cli import _options as given
from colabel.cli._console import output, stderr_is_terminal
from colabel.cli._guard import guarded
from colabel.cli._summary import show_summary
from colabel.core.progress import progress_bar

if TYPE_CHECKING:
    from colabel.experiments.comparing import TableComparison
    from colabel.tables import TableRequest

_WIDE = 105  # columns of a screen that has room for every error


@guarded
def compare(
    table: given.TableFile,
    labels: given.LabelColumns,
    models: Annotated[
        str,
        typer.Option(
            "--models",
            "-m",
            metavar="NAMES",
            help="all, default, or some of {models}. {features}",
            show_default="{defaults}",
        ),
    ] = "",
    folds: Annotated[
        int, typer.Option(min=2, metavar="N", help="Folds of the cross-validation.")
    ] = 5,
    measure: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="What decides: 'exact match', 'joint log-loss', 'Hamming accuracy', 'micro F1' "
            "or 'macro F1'.",
        ),
    ] = "exact match",
    decision: Annotated[
        str, typer.Option(metavar="LOSS", help="subset, hamming, f1 or jaccard.")
    ] = "subset",
    report_file: Annotated[
        Path, typer.Option("--report", metavar="FILE", help="The HTML report.")
    ] = Path("compare.html"),
    no_report: Annotated[bool, typer.Option("--no-report", help="Write no report.")] = False,
    separator: given.Separator = None,
    drop: given.Drop = [],
    category: given.Category = [],
    text: given.Text = [],
    missing: given.Missing = [],
    delimiter: given.Delimiter = "",
    encoding: given.Encoding = "utf-8",
    seed: given.Seed = 0,
    as_json: given.AsJson = False,
    quiet: given.Quiet = False,
) -> None:
    """Check a table, cross-validate models on it, recommend one, write a report.

    Scaling, encoding and filling in are learned from the training folds only.

    [bold]Examples[/bold]

      [cyan]colabel compare data.csv --labels 'tag_*'[/cyan]

      [cyan]colabel compare data.csv --labels @names.txt --models all --folds 10[/cyan]

      [cyan]colabel compare data.csv --labels 'tag_*' --models default,stack,kernel+ctbn[/cyan]

      [cyan]colabel compare posts.csv --labels tags --separator ';' --text body[/cyan]
    """
    from colabel.experiments.comparing import ComparisonRequest
    from colabel.experiments.comparing import compare as run_comparison
    from colabel.report import write_comparison_html
    from colabel.tables import TableRequest, load_table, summarise

    names = [name.strip() for name in (models or "default").split(",")]
    wanted = ComparisonRequest(
        [name for name in names if name],
        folds,
        seed,
        measure,
        decision,
        graph=not no_report,
    )
    options = given.reading_options(delimiter, encoding, missing)
    request = TableRequest(table, labels, separator, drop, category, text, options)
    data = load_table(request)
    summary = summarise(data)
    console = output()
    shown = not (quiet or as_json)
    if shown:
        show_summary(console, summary)
    n_steps = (len(wanted.short_names) + 1) * folds
    with progress_bar(
        "cross-validation", n_steps, shown=stderr_is_terminal() and not quiet
    ) as advance:
        comparison = run_comparison(data, wanted, lambda _: advance())

    report = None if no_report else report_file
    command = _fit_command(request, comparison.recommended)
    if report is not None:
        write_comparison_html(report, summary, comparison, command)
    if as_json:
        found = {"table": summary.to_dict(), **comparison.to_dict()}
        console.print_json(json.dumps({**found, "report": str(report) if report else None}))
        return
    _show_table(console, comparison)
    _show_end(console, comparison, report, command, quiet=quiet)


def _show_table(console: Console, comparison: TableComparison) -> None:
    from colabel.experiments.comparing import BASELINE
    from colabel.experiments.measures import COMPARED

    console.print(
        f"\n[bold]Cross-validation[/bold] on {comparison.n_folds} folds: mean ± standard error "
        "over folds\n"
    )
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("model", no_wrap=True)
    for measure in COMPARED.values():
        table.add_column(measure.title, justify="right")
    # a narrow screen has room for the errors of the measures that decide
    with_error = {*COMPARED} - {"seconds"}
    plus_minus = "\u00a0±\u00a0"
    if console.width < _WIDE:
        with_error, plus_minus = {comparison.measure, "joint_log_loss"}, "±"
    models = [result for name, result in comparison.results.items() if name != BASELINE]
    best = {key: m.best([own.mean(key) for own in models]) for key, m in COMPARED.items()}
    for name, result in comparison.results.items():
        cells = []
        for key, measure in COMPARED.items():
            mean, error = result.mean(key), result.standard_error(key)
            written = measure.written(mean)
            if key in with_error and math.isfinite(error):
                written += f"{plus_minus}{error:.{measure.digits}f}"
            cells.append(f"[bold]{written}[/bold]" if mean == best[key] else written)
        style = "dim" if name == BASELINE else None
        table.add_row(name, *cells, style=style)
    console.print(table)
    for name, why in comparison.failed.items():
        console.print(f"  [yellow]![/yellow] {name} failed: {escape(why)}")


def _show_end(
    console: Console,
    comparison: TableComparison,
    report: Path | None,
    fit_command: str,
    *,
    quiet: bool,
) -> None:
    console.print(f"\n[bold]Take {comparison.recommended}.[/bold] {escape(comparison.reason)}")
    if quiet:
        return
    console.print(f"\n  {fit_command}\n", markup=False, soft_wrap=True)
    if comparison.untried:
        console.print(comparison.untried, markup=False)
    if report is not None:
        console.print(f"The report is in {report}.", markup=False, soft_wrap=True)


def _fit_command(request: TableRequest, model: str) -> str:
    """Write the command that fits a model to the same table, read in the same way."""
    words = ["colabel", "fit", str(request.path)]
    for option, values in (
        ("--labels", request.labels),
        ("--drop", request.drop),
        ("--category", request.category),
        ("--text", request.text),
        ("--missing", request.options.missing),
    ):
        words += [word for value in values for word in (option, value)]
    if request.separator is not None:
        words += ["--separator", request.separator]
    if request.options.delimiter:
        words += ["--delimiter", request.options.delimiter]
    if request.options.encoding != "utf-8":
        words += ["--encoding", request.options.encoding]
    return shlex.join([*words, "--model", model, "-o", "model.colabel"])
