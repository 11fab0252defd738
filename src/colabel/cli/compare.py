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
from colabel.cli._compare_progress import watch_comparison
from colabel.cli._console import INTERRUPTED, fail, output, stderr_is_terminal
from colabel.cli._guard import guarded
from colabel.cli._summary import show_summary
from colabel.core.files import refuse_input

if TYPE_CHECKING:
    from collections.abc import Mapping

    from colabel.comparing import ModelResult, Progress, TableComparison
    from colabel.tables import TableRequest

_WIDE = 105  # columns of a screen that has room for every error
_KEPT = Path("compare.part")


@guarded
def compare(
    table: given.TableFile,
    labels: given.LabelColumns = [],
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
            show_default="exact match; with --thresholds macro F1",
        ),
    ] = "",
    decision: Annotated[
        str, typer.Option(metavar="LOSS", help="subset, hamming, f1 or jaccard.")
    ] = "subset",
    thresholds: given.Thresholds = False,
    calibrate: Annotated[
        bool,
        typer.Option(
            "--calibrate", help="Also try the recommended model with its joint calibrated."
        ),
    ] = False,
    coverage: Annotated[
        float | None,
        typer.Option(
            metavar="P",
            help="Also measure how many label sets it must list to hold the true one this often.",
            show_default=False,
        ),
    ] = None,
    max_rows: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="N",
            help="Compare on a sample of so many rows; 0 for all of them.",
            show_default="{most_rows}",
        ),
    ] = None,
    jobs: Annotated[
        int, typer.Option("--jobs", "-j", metavar="N", help="Processes; -1 for all cores.")
    ] = 1,
    report_file: Annotated[
        Path, typer.Option("--report", metavar="FILE", help="The HTML report.")
    ] = Path("compare.html"),
    no_report: Annotated[bool, typer.Option("--no-report", help="Write no report.")] = False,
    kept: Annotated[
        Path,
        typer.Option("--keep", metavar="FILE", help="What is finished stands here until all is."),
    ] = _KEPT,
    separator: given.Separator = None,
    drop: given.Drop = [],
    category: given.Category = [],
    text: given.Text = [],
    missing: given.Missing = [],
    delimiter: given.Delimiter = "",
    decimal: given.Decimal = "",
    encoding: given.Encoding = "utf-8",
    seed: given.Seed = 0,
    as_json: given.AsJson = False,
    quiet: given.Quiet = False,
) -> None:
    """Check a table, cross-validate models on it, recommend one, write a report.

    Scaling, encoding and filling in are learned from the training folds only.
    A stopped comparison goes on where it stopped when the same command is
    typed again.

    [bold]Examples[/bold]

      [cyan]colabel compare data.csv --labels 'tag_*'[/cyan]

      [cyan]colabel compare data.csv --labels @names.txt --models all --folds 10[/cyan]

      [cyan]colabel compare data.csv --labels 'tag_*' --models default,stack,kernel+ctbn[/cyan]

      [cyan]colabel compare data.csv --labels 'tag_*' --thresholds --measure 'macro F1'[/cyan]

      [cyan]colabel compare posts.csv --labels tags --separator ';' --text body[/cyan]
    """
    from colabel.comparing import MOST_ROWS, ComparisonRequest, run_comparison
    from colabel.report import write_comparison_html
    from colabel.tables import TableRequest, load_table, summarise

    names = [name.strip() for name in (models or "default").split(",")]
    wanted = ComparisonRequest(
        [name for name in names if name],
        folds,
        seed,
        measure,
        decision,
        thresholds,
        calibrate,
        coverage,
        MOST_ROWS if max_rows is None else max_rows or None,
        jobs,
        graph=not no_report,
    )
    refuse_input(None if no_report else report_file, table)
    options = given.reading_options(delimiter, encoding, missing, decimal)
    request = TableRequest(table, labels, separator, drop, category, text, options)
    data = load_table(request)
    summary = summarise(data)
    console = output()
    if not (quiet or as_json):
        show_summary(console, summary)
        _show_sample(console, data.features.n_rows, wanted.max_rows)
    with watch_comparison(bar=stderr_is_terminal() and not quiet, lines=not quiet) as watch:
        try:
            comparison = run_comparison(data, wanted, watch, kept)
        except KeyboardInterrupt:
            watch.stop()
            _show_stopped(console, watch.last, kept)

    report = None if no_report else report_file
    command = _fit_command(request, comparison)
    if report is not None:
        write_comparison_html(report, summary, comparison, command)
    if as_json:
        found = {"table": summary.to_dict(), **comparison.to_dict()}
        console.print_json(json.dumps({**found, "report": str(report) if report else None}))
        return
    _show_table(console, comparison.results, comparison.n_folds, comparison.measure)
    for name, why in comparison.failed.items():
        console.print(f"  [yellow]![/yellow] {name} failed: {escape(why)}")
    if comparison.left_out:
        console.print(escape(comparison.left_out))
    _show_decisions(console, comparison)
    _show_end(console, comparison, report, command, quiet=quiet)


def _show_sample(console: Console, n_rows: int, max_rows: int | None) -> None:
    """Say it where only a sample of the rows is compared on."""
    if max_rows is not None and n_rows > max_rows:
        console.print(
            f"  [yellow]![/yellow] Compared on {max_rows:,} of these rows, drawn at random: "
            "--max-rows takes more, or all with 0. The model is fitted to all of them."
        )


def _show_stopped(console: Console, last: Progress | None, kept: Path) -> None:
    """Print what is done, and stop."""
    if last is not None and last.answers:
        results = {name: last.result(name) for name in last.answers}
        _show_table(console, results, last.n_folds, last.measure)
        unfinished = {name: len(own) for name, own in last.answers.items()}
        few = [f"{name} {n}" for name, n in unfinished.items() if n < last.n_folds]
        rest = "; of the others all" if len(few) < len(unfinished) else ""
        if few:
            console.print(f"Folds done of {last.n_folds}: {', '.join(few)}{rest}.")
    fail(
        f"Stopped. What is finished is kept in {kept}: the same command goes on from there.",
        INTERRUPTED,
    )


def _show_table(
    console: Console, results: Mapping[str, ModelResult], n_folds: int, decisive: str
) -> None:
    from colabel.comparing import BASELINE
    from colabel.comparing.measures import COMPARED

    console.print(
        f"\n[bold]Cross-validation[/bold] on {n_folds} folds: mean ± standard error over folds\n"
    )
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("model", no_wrap=True)
    for measure in COMPARED.values():
        table.add_column(measure.title, justify="right")
    # a narrow screen has room for the errors of the measures that decide
    with_error = {*COMPARED} - {"seconds"}
    plus_minus = "\u00a0±\u00a0"
    if console.width < _WIDE:
        with_error, plus_minus = {decisive, "joint_log_loss"}, "±"
    models = [result for name, result in results.items() if name != BASELINE]
    best = {key: m.best([own.mean(key) for own in models]) for key, m in COMPARED.items()}
    for name, result in results.items():
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


def _show_decisions(console: Console, comparison: TableComparison) -> None:
    """Print the figures of the recommended model under each decision."""
    from colabel.comparing.measures import COMPARED, DECIDED_MEASURES

    result, now = comparison.best, comparison.request.decided_by
    if len(result.decisions) < 2:
        return
    console.print(f"\n[bold]{comparison.recommended}[/bold], by what it announces\n")
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("decision", no_wrap=True)
    for name in DECIDED_MEASURES:
        table.add_column(COMPARED[name].title, justify="right")
    for loss in result.decisions:
        means = [result.decided_mean(loss, name) for name in DECIDED_MEASURES]
        cells = [COMPARED[m].written(mean) for m, mean in zip(DECIDED_MEASURES, means, strict=True)]
        table.add_row(loss + (" (now)" if loss == now else ""), *cells)
    console.print(table)


def _show_end(
    console: Console,
    comparison: TableComparison,
    report: Path | None,
    fit_command: str,
    *,
    quiet: bool,
) -> None:
    console.print(f"\n[bold]Take {comparison.recommended}.[/bold] {escape(comparison.reason)}")
    for sentence in comparison.warnings:
        console.print(f"  [yellow]![/yellow] {escape(sentence)}")
    if comparison.calibration:
        console.print(escape(comparison.calibration))
    if comparison.sets is not None:
        console.print(escape(comparison.sets.sentence))
    if quiet:
        return
    console.print(f"\n  {fit_command}\n", markup=False, soft_wrap=True)
    if comparison.untried:
        console.print(comparison.untried, markup=False)
    if report is not None:
        console.print(f"The report is in {report}.", markup=False, soft_wrap=True)


def _fit_command(request: TableRequest, comparison: TableComparison) -> str:
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
    if request.options.decimal:
        words += ["--decimal", request.options.decimal]
    if request.options.encoding != "utf-8":
        words += ["--encoding", request.options.encoding]
    words += ["--model", comparison.recommended]
    if comparison.request.thresholds:
        words.append("--thresholds")
    elif comparison.request.decision != "subset":
        words += ["--set", f"decision={comparison.request.decision}"]
    if comparison.calibration_helps:
        words.append("--calibrate")
    if comparison.sets is not None and not comparison.request.thresholds:
        words.append("--conformal")
    return shlex.join([*words, "-o", "model.colabel"])
