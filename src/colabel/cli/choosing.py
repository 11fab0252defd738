"""Commands about a table with labels: compare, audit, rules."""

from __future__ import annotations

import csv
import json
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from colabel.cli import _console as ui
from colabel.core.files import check_not_input, written_whole
from colabel.core.progress import columns

if TYPE_CHECKING:
    from colabel.comparing import Progress, TableComparison
    from colabel.decide import Audit
    from colabel.tables import TableData, TableRequest

_GROUPS = "Rows of equal value in it, such as one patient's, stay on one side of a fold."
_TIME = "Train on older rows, test on newer ones: a column of numbers or dates like 2026-01-31."
_MODELS = "all, default, or some of {models}, joined by commas. {features}"
_DEFAULTS = "br,ctbn,pcc,cdn,mlknn,iblr,forest,forest+pcc,kernel+pcc"
_MEASURE = (
    "What decides: 'exact match', 'joint log-loss', 'Hamming accuracy', 'micro F1' or 'macro F1'."
)
_DECISIVE = "exact match; with --thresholds macro F1"
_CALIBRATE = "Also try the recommended model with its joint calibrated."
_COVERAGE = "Also measure how many label sets must be listed to contain the true one this often."
_MAX_ROWS = "Compare on a random sample of this many rows; 0 for all rows."
_CHECKPOINT = "Finished results are kept here while the rest runs."
_WEIGHTS = "How many rows each row stands for."
_TIME_LIMIT = "Models that would not finish within it are left out, the slowest first."

_COMPARED_RULES = "Rules on label sets: models are compared with and without them."

_MODEL = (
    "auto (two forests of label vectors and a chain on forest features), or one of {models}."
    " {features}"
)
_FIX = (
    "Also write a copy of a CSV table with the corrections of --at-least, and a column that says"
    " what changed."
)
_EXPLAIN = "For this many of the worst labels, name the columns and labels that speak against them."
_SHOWN = 15  # labels on the screen


@ui.command
def compare(
    request: ui.LearnedTable,
    models: Annotated[
        str, ui.opt("NAMES", _MODELS, "--models", "-m", default=_DEFAULTS)
    ] = "default",
    cv: ui.Folds = 5,
    measure: Annotated[str, ui.opt("NAME", _MEASURE, default=_DECISIVE)] = "",
    decision: Annotated[
        str, ui.opt("LOSS", "subset, hamming, f1, micro_f1, macro_f1 or jaccard.")
    ] = "subset",
    thresholds: ui.Thresholds = False,
    calibrate: Annotated[bool, ui.opt("", _CALIBRATE, "--calibrate")] = False,
    coverage: Annotated[float | None, ui.opt("P", _COVERAGE, default=False)] = None,
    max_rows: Annotated[int | None, ui.opt("N", _MAX_ROWS, default="5000", min=0)] = None,
    jobs: Annotated[int, ui.opt("N", "Processes; -1 for all cores.", "--jobs", "-j")] = 1,
    report_file: Annotated[Path, ui.opt("FILE", "The HTML report.", "--report")] = Path(
        "compare.html"
    ),
    no_report: Annotated[bool, ui.opt("", "Write no report.", "--no-report")] = False,
    groups: Annotated[str, ui.opt("COLUMN", _GROUPS, default=False)] = "",
    time: Annotated[str, ui.opt("COLUMN", _TIME, default=False)] = "",
    weights: Annotated[str, ui.opt("COLUMN", _WEIGHTS, default=False)] = "",
    time_limit: Annotated[float | None, ui.opt("SECONDS", _TIME_LIMIT, default=False)] = None,
    rules: Annotated[Path | None, ui.opt("FILE", _COMPARED_RULES, default=False)] = None,
    checkpoint: Annotated[Path, ui.opt("FOLDER", _CHECKPOINT)] = Path("compare.part"),
    seed: ui.Seed = 0,
    as_json: ui.AsJson = False,
    quiet: ui.Quiet = False,
) -> None:
    """Check a table, cross-validate models on it, recommend one, write a report.

    Scaling, encoding and filling in are learned from the training folds only.
    Typed again, a stopped command continues where it stopped.

    [bold]Examples[/bold]

      [cyan]colabel compare data.csv --labels 'tag_*'[/cyan]

      [cyan]colabel compare data.csv --labels @names.txt --models all --cv 10[/cyan]

      [cyan]colabel compare data.csv --labels 'tag_*' --models default,stack,kernel+ctbn[/cyan]

      [cyan]colabel compare data.csv --labels 'tag_*' --thresholds --measure 'macro F1'[/cyan]

      [cyan]colabel compare visits.csv --labels 'icd_*' --groups patient[/cyan]

      [cyan]colabel compare posts.csv --labels tags --separator ';' --text body[/cyan]
    """
    from colabel import comparing, tables
    from colabel.report import comparison_html, text, write_page
    from colabel.rules import Rules
    from colabel.tables.loading import column_of

    table, options = request.path, request.options
    most = comparing.MOST_ROWS if max_rows is None else max_rows or None
    report = None if no_report else report_file
    check_not_input(report, table)
    request = replace(request, drop=[*request.drop, *filter(None, (groups, time, weights))])
    data = tables.load_table(request)
    console = ui.output()
    if not (quiet or as_json):
        text.show_summary(console, tables.summarise(data))
        if most is not None and data.features.n_rows > most:
            console.print(
                f"  [yellow]![/yellow] Compared on {most:,} of these rows, drawn at random:"
                " --max-rows takes more, or all with 0. The model is fitted to all of them."
            )
    reached: list[Progress] = []
    try:
        with watched(reached, quiet=quiet) as watch:
            comparison = comparing.compare(
                data,
                models=models or "default",
                cv=cv,
                measure=measure,
                decision=decision,
                thresholds=thresholds,
                calibrate=calibrate,
                coverage=coverage,
                max_rows=most,
                groups=column_of(table, options, groups) if groups else None,
                times=column_of(table, options, time, in_order=True) if time else None,
                weights=column_of(table, options, weights) if weights else None,
                time_limit=time_limit,
                rules="" if rules is None else Rules.load(rules),
                graph=not no_report,
                random_state=seed,
                n_jobs=jobs,
                store=checkpoint,
                verbose=watch,
            )
    except KeyboardInterrupt:
        _show_stopped(console, reached[-1] if reached else None, checkpoint)

    command = _fit_command(request, comparison, weights, rules)
    if report is not None:
        write_page(report, comparison_html(comparison, command))
    if as_json:
        found = {"table": comparison.summary.to_dict(), **comparison.to_dict()}
        console.print_json(json.dumps({**found, "report": str(report) if report else None}))
        return
    text.show_scores(console, comparison.results, comparison.n_folds, comparison.measure)
    for name, why in comparison.failed.items():
        console.print(f"  [yellow]![/yellow] {name} failed: {escape(why)}")
    text.show_decisions(console, comparison)
    console.print(f"\n[bold]Take {comparison.recommended}.[/bold] {escape(comparison.reason)}")
    for sentence in comparison.warnings:
        console.print(f"  [yellow]![/yellow] {escape(sentence)}")
    if comparison.calibration:
        console.print(escape(comparison.calibration))
    if comparison.sets is not None:
        console.print(escape(comparison.sets.sentence))
    if quiet:
        return
    ui.say(f"\n  {command}\n")
    if comparison.untried:
        console.print(comparison.untried, markup=False)
    if report is not None:
        ui.say(f"The report is in {report}.")


@contextmanager
def watched(
    reached: list[Progress] | None = None, *, quiet: bool
) -> Iterator[Callable[[Progress], None]]:
    """Give what is to be called with every `Progress`: it prints a line for each model done.

    The last one is left in `reached`. On a terminal it also says what is at work, and how long the
    rest will take.
    """
    console = ui.messages()
    moving = console.status("") if console.is_terminal and not quiet else nullcontext()
    with moving as status:

        def watch(progress: Progress) -> None:
            if reached is not None:
                reached[:] = [progress]
            for line in () if quiet else progress.news():
                console.print(line, markup=False, soft_wrap=True)
            if status is not None and progress.left:
                (name, fold), seconds = progress.left[0], progress.seconds_left
                n_parts = len(progress.parts)
                done = f"{n_parts - len(progress.left)} of {n_parts} folds done"
                left = f", about {timedelta(seconds=round(seconds))} left" if seconds > 0 else ""
                status.update(f"{name}, fold {fold + 1}: {done}{left}")

        yield watch


def _show_stopped(console: Console, last: Progress | None, kept: Path) -> None:
    """Print what is done, and stop."""
    from colabel.report import text

    done = {} if last is None else {n: own for n, own in last.answers.items() if own}
    if last is not None and done:
        results = {name: last.result(name) for name in done}
        text.show_scores(console, results, len(last.folds), last.measure)
        folds = ", ".join(f"{name} {len(own)}" for name, own in done.items())
        console.print(f"Folds done of {len(last.folds)}: {folds}.")
    ui.fail(
        f"Stopped. What is finished is kept in {kept}: the same command goes on from there.",
        ui.INTERRUPTED,
    )


def _fit_command(
    request: TableRequest, comparison: TableComparison, weights: str, rules: Path | None
) -> str:
    """Write the command that fits a model to the same table, read in the same way."""
    model, ruled, _ = comparison.recommended.partition(", ruled")
    said: dict[str, Any] = {
        **vars(request),
        **vars(request.options),
        "drop": [name for name in request.drop if name != weights],
        "weights": weights,
        "model": model,
        "rules": rules if ruled else None,
    }
    words = ["colabel", "fit", str(request.path)]
    of_table = "labels", "drop", "category", "text", "missing", "separator", "delimiter"
    for name in (*of_table, "decimal", "encoding", "weights", "model", "rules"):
        values = said[name] if isinstance(said[name], list | tuple) else [said[name]]
        for value in values:
            if value and (name, value) != ("encoding", "utf-8"):
                words += [f"--{name}", str(value)]
    decision = comparison.decided_by
    if decision == "thresholds":
        words.append("--thresholds")
    elif decision != "subset":
        words += ["--set", f"decision={decision}"]
    words += ["--calibrate"] * comparison.calibration_helps
    words += ["--conformal"] * (comparison.sets is not None and decision != "thresholds")
    return shlex.join([*words, "-o", "model.colabel"])


@ui.command
def audit(
    request: ui.LearnedTable,
    model: Annotated[str, ui.opt("NAME", _MODEL, "--model", "-m")] = "auto",
    cv: ui.Folds = 5,
    output_file: Annotated[
        Path, ui.opt("FILE", "A .csv, .csv.gz or .parquet file.", "--output", "-o")
    ] = Path("audit.csv"),
    page: Annotated[Path | None, ui.page_option("Also a page to read, with the rows.")] = None,
    fix: Annotated[Path | None, ui.opt("FILE", _FIX, default=False)] = None,
    at_least: Annotated[
        float, ui.opt("P", "How probably wrong a label must be.", min=0.5, max=1.0)
    ] = 0.9,
    most: Annotated[int, ui.opt("N", "Most labels in the file and on the page.", min=1)] = 1000,
    explain: Annotated[int, ui.opt("N", _EXPLAIN, min=0)] = 100,
    rules: ui.RulesFile = None,
    groups: Annotated[str, ui.opt("COLUMN", _GROUPS, default=False)] = "",
    seed: ui.Seed = 0,
    as_json: ui.AsJson = False,
    quiet: ui.Quiet = False,
) -> None:
    """Rank the labels of a table by how wrong they look, the worst first.

    Each label is judged by models that have not seen its row, from the
    features and the row's other labels: P(label | features, other labels).
    Rows are counted from 1.

    [bold]Examples[/bold]

      [cyan]colabel audit data.csv --labels 'tag_*' -o audit.csv --html audit.html[/cyan]

      [cyan]colabel audit data.csv --labels 'tag_*' --fix corrected.csv --at-least 0.99[/cyan]
    """
    import pyarrow as pa

    from colabel import comparing, report, tables
    from colabel.report.pages import counted
    from colabel.rules import Rules

    tables.predicting.check_ending(output_file)
    for target in (output_file, page, fix):
        check_not_input(target, request.path)
    own = tables.loading.column_of(request.path, request.options, groups) if groups else None
    request = replace(request, drop=[*request.drop, *filter(None, [groups])])
    data = tables.load_table(request)
    with ui.working("fitting models to folds", shown=not quiet):
        known = None if rules is None else Rules.load(rules)
        found = comparing.audit_table(data, model, cv, seed, known, own, explain)
    listed = found.listed(most)
    rows = listed["row"]
    listed |= {
        "row": data.row_numbers[rows] + 1,
        "given": list(map(str, listed["given"])),
        "suggestion": list(map(str, listed["suggestion"])),
        "surprise": found.surprise[rows],
    }
    with tables.answers_written(output_file) as write:
        write(pa.table(listed))
    if page is not None:
        cells = partial(_row_cells, data)
        report.write_page(page, report.audit_html(found, data.row_numbers, cells, most))
    n_changed = None if fix is None else _write_fixed(fix, request, data, found, at_least)
    n_wrong = found.n_wrong()
    if as_json:
        noise = {kind: asdict(rate) for kind, rate in found.noise().items()}
        summary = {"n_wrong": asdict(n_wrong), "noise": noise, "n_changed": n_changed}
        ui.output().print_json(json.dumps({**summary, "output": str(output_file)}))
        return
    if quiet:
        return
    console = ui.output()
    shown = columns(">row", "label", "given", ">P(given)", "rather", ">P(wrong)", "against it")
    n_suspicious = int((listed["wrong"] > 0.1).sum())
    lines = list(zip(*listed.values(), strict=True))[: min(_SHOWN, n_suspicious)]
    for row, name, was, p, rather, wrong, _, against, _ in lines:
        most_against = against.partition(";")[0]
        shown.add_row(str(row), name, was, f"{p:.3f}", rather, f"{wrong:.3f}", most_against)
    if n_suspicious:
        console.print(shown)
    else:
        console.print("No given label is wrong with a probability above 0.1.")
    ui.say(
        f"About {n_wrong.rate:,.0f} of {int(found.known.sum()):,} labels look wrong (between "
        f"{n_wrong.low:,.0f} and {n_wrong.high:,.0f}); {_rates(found)}. {output_file} "
        f"lists {len(rows):,} labels, the most suspicious first."
    )
    if fix is not None:
        ui.say(f"{n_changed:,} labels are corrected in {fix}.")
    if page is not None:
        ui.say(f"The page is {page}.")
    if found.broken.any():
        rows_broken = data.row_numbers[found.broken.any(axis=1)] + 1
        ui.note(
            f"Rows that break a rule: {len(rows_broken):,}, such as "
            f"{', '.join(map(str, rows_broken[:5]))}. Their labels come first."
        )
    if data.n_unlabelled:
        ui.note(f"{counted(data.n_unlabelled, 'row')} without any label left out.")


def _rates(found: Audit) -> str:
    """Say how often labels are wrong, and name the label that is forgotten most."""
    noise = found.noise()
    if "wrong" in noise:
        return f"{noise['wrong'].rate:.1%} of them"
    said = f"{noise['forgotten'].rate:.1%} forgotten, {noise['added'].rate:.1%} added"
    each = {name: found.noise(name)["forgotten"] for name in found.space.names}
    often = [name for name, rate in each.items() if rate.low > 2 * noise["forgotten"].rate + 0.02]
    if often and noise["forgotten"].rate >= 0.001:
        worst = max(often, key=lambda name: each[name].rate)
        said += f"; {worst} is forgotten most ({each[worst].rate:.0%})"
    return said


def _row_cells(data: TableData, row: int) -> list[tuple[str, str]]:
    """What the columns of a row hold, for people."""
    (cells,) = ui.row_cells(data.features.rows(slice(row, row + 1)))
    return [(name, text) for name, text in cells if text]


def _write_fixed(
    target: Path, request: TableRequest, data: TableData, found: Audit, at_least: float
) -> int:
    """Write a copy of a CSV table with corrected labels; return how many were corrected."""
    import numpy as np

    from colabel.tables import TableError
    from colabel.tables.reading import CsvSource
    from colabel.tables.source import LONGEST_LINE, open_text

    path, options, source = request.path, request.options, data.labels.source
    endings = path.name.lower().removesuffix(".gz")
    if not endings.endswith((".csv", ".tsv", ".txt")):
        raise TableError(f"--fix corrects CSV tables, and {path} is none.")
    _, changed = found.corrected(at_least)
    by_row = {int(data.row_numbers[row]): row for row in np.flatnonzero(changed.any(axis=1))}
    opened = CsvSource.open(path, options)

    def corrected(lines: Iterator[list[str]]) -> Iterator[list[str]]:
        header = next(lines)
        yield [*header, "corrected"]
        at = [header.index(name) for name in source.columns]
        for number, line in enumerate(line for line in lines if line):
            row = by_row.get(number)
            if row is None:
                yield [*line, ""]
                continue
            cells = np.flatnonzero(changed[row])
            after = np.where(changed[row], found.suggestion[row], found.codes[row])
            if source.separator:
                tags = [found.space.names[i] for i in np.flatnonzero(after == 1)]
                line[at[0]] = source.written(tags)
            else:
                for i in cells:
                    line[at[i]] = str(found.space.classes[i][after[i]])
            yield [*line, "; ".join(found.space.names[i] for i in cells)]

    csv.field_size_limit(max(csv.field_size_limit(), LONGEST_LINE))  # as the table was read
    with (
        written_whole(target) as part,
        part.open("w", encoding="utf-8", newline="") as writing,
        open_text(path, options.encoding) as text,
    ):
        lines = csv.reader(text, delimiter=opened.delimiter)
        csv.writer(writing, delimiter=opened.delimiter).writerows(corrected(lines))
    return int(changed.sum())


@ui.command
def rules(
    request: ui.LabelledTable,
    output_file: Annotated[
        Path | None, ui.opt("FILE", "Where the rules go; else the screen.", "--output", "-o")
    ] = None,
    check: Annotated[
        Path | None,
        ui.opt("FILE", "Say which rows break the rules of this file instead.", default=False),
    ] = None,
    support: Annotated[
        int, ui.opt("N", "Rows that could have broken a rule, at least.", min=1)
    ] = 10,
) -> None:
    """Suggest rules on label sets: implications, exclusions and counts that all rows obey.

    They are printed as a file to edit: delete rules that merely happen to hold.
    The rules that would be most surprising if labels were independent come first.

    [bold]Examples[/bold]

      [cyan]colabel rules data.csv --labels 'tag_*' -o rules.txt[/cyan]

      [cyan]colabel rules data.csv --labels 'tag_*' --check rules.txt[/cyan]

      [cyan]colabel fit data.csv --labels 'tag_*' --rules rules.txt[/cyan]
    """
    from colabel.rules import Rules
    from colabel.tables import load_table

    check_not_input(output_file, request.path)
    data = load_table(request)
    if check is not None:
        found = Rules.load(check).violations(data.labels.Y, data.labels.names)
        numbered = found._replace(rows=data.row_numbers[found.rows] + 1)
        ui.say(str(numbered))
        if len(found.rows):
            raise typer.Exit(2)
        return
    lines = [f"# Rules that all {data.features.n_rows:,} rows obey. Delete what need not hold."]
    for one in Rules.suggest(data.labels.Y, data.labels.names, min_support=support):
        lines.append(f"{one.rule.text}  # {one.support:,} rows could have broken it")
    n_rules = len(lines) - 1
    if not n_rules:
        lines = [
            f"# No rule on two 0/1 labels holds in all {data.features.n_rows:,} rows and could "
            f"have been broken by {support:,} of them."
        ]
    if output_file is None:
        ui.say("\n".join(lines))
        return
    with written_whole(output_file) as part:
        part.write_text("\n".join(lines) + "\n", encoding="utf-8")
    ui.say(f"{n_rules:,} rule{'s' * (n_rules != 1)} written to {output_file}.")
