"""`colabel compare`: which model suits one's own table."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.console import Console
from rich.markup import escape

from colabel.cli import _options as given
from colabel.cli._console import (
    INTERRUPTED,
    fail,
    guarded,
    messages,
    output,
    stderr_is_terminal,
)
from colabel.cli._options import opt
from colabel.core.files import refuse_input

if TYPE_CHECKING:
    from colabel.comparing import Progress, TableComparison
    from colabel.tables import TableRequest

_GROUPS = "Rows of equal value in it, such as one patient's, stay on one side of a fold."
_TIME = "Train on older rows, test on newer ones: a column of numbers or dates like 2026-01-31."
_MODELS = "all, default, or some of {models}, joined by commas. {features}"
_DEFAULTS = "br,ctbn,pcc,cdn,mlknn,iblr,forest,forest+pcc,kernel+pcc"
_MEASURE = (
    "What decides: 'exact match', 'joint log-loss', 'Hamming accuracy', 'micro F1' or 'macro F1'."
)
_DECISIVE = "exact match; with --thresholds macro F1"
_CALIBRATE = "Also try the recommended model with its joint calibrated."
_COVERAGE = "Also measure how many label sets it must list to hold the true one this often."
_MAX_ROWS = "Compare on a sample of so many rows; 0 for all of them."
_CHECKPOINT = "Finished results are kept here while the rest runs."


@guarded
def compare(
    table: given.TableFile,
    labels: given.LabelColumns = [],
    models: Annotated[str, opt("NAMES", _MODELS, "--models", "-m", default=_DEFAULTS)] = "default",
    cv: given.Folds = 5,
    measure: Annotated[str, opt("NAME", _MEASURE, default=_DECISIVE)] = "",
    decision: Annotated[str, opt("LOSS", "subset, hamming, f1 or jaccard.")] = "subset",
    thresholds: given.Thresholds = False,
    calibrate: Annotated[bool, opt("", _CALIBRATE, "--calibrate")] = False,
    coverage: Annotated[float | None, opt("P", _COVERAGE, default=False)] = None,
    max_rows: Annotated[int | None, opt("N", _MAX_ROWS, default="5000", min=0)] = None,
    jobs: Annotated[int, opt("N", "Processes; -1 for all cores.", "--jobs", "-j")] = 1,
    report_file: Annotated[Path, opt("FILE", "The HTML report.", "--report")] = Path(
        "compare.html"
    ),
    no_report: Annotated[bool, opt("", "Write no report.", "--no-report")] = False,
    groups: Annotated[str, opt("COLUMN", _GROUPS, default=False)] = "",
    time: Annotated[str, opt("COLUMN", _TIME, default=False)] = "",
    checkpoint: Annotated[Path, opt("FILE", _CHECKPOINT)] = Path("compare.part"),
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

      [cyan]colabel compare data.csv --labels @names.txt --models all --cv 10[/cyan]

      [cyan]colabel compare data.csv --labels 'tag_*' --models default,stack,kernel+ctbn[/cyan]

      [cyan]colabel compare data.csv --labels 'tag_*' --thresholds --measure 'macro F1'[/cyan]

      [cyan]colabel compare visits.csv --labels 'icd_*' --groups patient[/cyan]

      [cyan]colabel compare posts.csv --labels tags --separator ';' --text body[/cyan]
    """
    from colabel.comparing import MOST_ROWS, ComparisonRequest, run_comparison
    from colabel.report import write_comparison_html
    from colabel.report.text import show_decisions, show_scores, show_summary
    from colabel.tables import TableRequest, load_table, summarise
    from colabel.tables.loading import column_of

    options = given.reading_options(delimiter, encoding, missing, decimal)
    own_groups = column_of(table, options, groups) if groups else None
    own_times = column_of(table, options, time, in_order=True) if time else None
    wanted = ComparisonRequest(
        models or "default",
        cv,
        seed,
        measure,
        decision,
        thresholds,
        calibrate,
        coverage,
        MOST_ROWS if max_rows is None else max_rows or None,
        jobs,
        graph=not no_report,
        groups=own_groups,
        times=own_times,
    )
    report = None if no_report else report_file
    refuse_input(report, table)
    left_out = [*drop, *filter(None, (groups, time))]
    request = TableRequest(table, labels, separator, left_out, category, text, options)
    data = load_table(request)
    summary = summarise(data)
    console = output()
    if not (quiet or as_json):
        show_summary(console, summary)
        if wanted.max_rows is not None and data.features.n_rows > wanted.max_rows:
            console.print(
                f"  [yellow]![/yellow] Compared on {wanted.max_rows:,} of these rows, drawn at"
                " random: --max-rows takes more, or all with 0. The model is fitted to all of them."
            )
    with _watched(bar=stderr_is_terminal() and not quiet, lines=not quiet) as watch:
        try:
            comparison = run_comparison(data, wanted, watch, checkpoint)
        except KeyboardInterrupt:
            watch.stop()
            _show_stopped(console, watch.last, checkpoint)

    command = _fit_command(request, comparison)
    if report is not None:
        write_comparison_html(report, summary, comparison, command)
    if as_json:
        found = {"table": summary.to_dict(), **comparison.to_dict()}
        console.print_json(json.dumps({**found, "report": str(report) if report else None}))
        return
    show_scores(console, comparison.results, comparison.n_folds, comparison.measure)
    for name, why in comparison.failed.items():
        console.print(f"  [yellow]![/yellow] {name} failed: {escape(why)}")
    show_decisions(console, comparison)
    console.print(f"\n[bold]Take {comparison.recommended}.[/bold] {escape(comparison.reason)}")
    for sentence in comparison.warnings:
        console.print(f"  [yellow]![/yellow] {escape(sentence)}")
    if comparison.calibration:
        console.print(escape(comparison.calibration))
    if comparison.sets is not None:
        console.print(escape(comparison.sets.sentence))
    if quiet:
        return
    console.print(f"\n  {command}\n", markup=False, soft_wrap=True)
    if comparison.untried:
        console.print(comparison.untried, markup=False)
    if report is not None:
        console.print(f"The report is in {report}.", markup=False, soft_wrap=True)


class _Watch:
    """Prints a line for each model that is done, and moves a bar where there is one."""

    def __init__(self, bar: Any, *, lines: bool) -> None:
        self.bar, self.lines = bar, lines
        self.last: Progress | None = None
        self.printed: set[str] = set()
        self.task = None if bar is None else bar.add_task("", total=None, at_work="", left="")

    def __call__(self, progress: Progress) -> None:
        self.last = progress
        for name in progress.finished if self.lines else ():
            if name not in self.printed:
                self.printed.add(name)
                line = progress.line(name)
                if self.bar is None:
                    sys.stderr.write(f"{line}\n")
                else:
                    self.bar.console.print(line, markup=False, highlight=False)
        if self.bar is None:
            return
        at_work, seconds, left = "what was learned", progress.seconds_left, ""
        if progress.at_work is not None:
            name, fold = progress.at_work
            at_work = f"{name}, fold {fold + 1} of {progress.n_folds}"
        if seconds >= 90:
            left = f"about {round(seconds / 60)} min left"
        elif seconds > 0:
            left = f"about {max(1, round(seconds / 10)) * 10} s left"
        done = {"completed": progress.n_done, "total": progress.n_parts}
        self.bar.update(self.task, **done, at_work=at_work, left=left)

    def stop(self) -> None:
        """Take the bar away."""
        if self.bar is not None:
            self.bar.stop()


@contextmanager
def _watched(*, bar: bool, lines: bool) -> Iterator[_Watch]:
    """Give what is to be called with every `Progress`: for a terminal a bar, and lines."""
    if not bar:
        yield _Watch(None, lines=lines)
        return
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    parts = (
        TextColumn("{task.fields[at_work]}", style="bold"),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}"),
    )
    with Bar(*parts, console=messages(), transient=True) as shown:
        yield _Watch(shown, lines=lines)


def _show_stopped(console: Console, last: Progress | None, kept: Path) -> None:
    """Print what is done, and stop."""
    from colabel.report.text import show_scores

    if last is not None and last.answers:
        results = {name: last.result(name) for name in last.answers}
        show_scores(console, results, last.n_folds, last.measure)
        few = [f"{name} {len(a)}" for name, a in last.answers.items() if len(a) < last.n_folds]
        rest = "; of the others all" if len(few) < len(last.answers) else ""
        if few:
            console.print(f"Folds done of {last.n_folds}: {', '.join(few)}{rest}.")
    fail(
        f"Stopped. What is finished is kept in {kept}: the same command goes on from there.",
        INTERRUPTED,
    )


def _fit_command(request: TableRequest, comparison: TableComparison) -> str:
    """Write the command that fits a model to the same table, read in the same way."""
    options, asked = request.options, comparison.request
    several = {
        "--labels": request.labels,
        "--drop": request.drop,
        "--category": request.category,
        "--text": request.text,
        "--missing": options.missing,
    }
    single = {
        "--separator": request.separator,
        "--delimiter": options.delimiter or None,
        "--decimal": options.decimal or None,
        "--encoding": options.encoding if options.encoding != "utf-8" else None,
        "--model": comparison.recommended,
    }
    words = ["colabel", "fit", str(request.path)]
    words += [word for name, own in several.items() for value in own for word in (name, value)]
    words += [word for name, own in single.items() if own is not None for word in (name, own)]
    if asked.thresholds:
        words.append("--thresholds")
    elif asked.decision != "subset":
        words += ["--set", f"decision={asked.decision}"]
    words += ["--calibrate"] * comparison.calibration_helps
    words += ["--conformal"] * (comparison.sets is not None and not asked.thresholds)
    return shlex.join([*words, "-o", "model.colabel"])
