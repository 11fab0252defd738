"""`colabel study`: plans that compare methods on data sets, run, shown, exported, reported."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from colabel.cli import _options as given
from colabel.cli._console import INTERRUPTED, fail, note, output, stderr_is_terminal
from colabel.cli._guard import guarded
from colabel.cli._options import Plain, PlainGroup

if TYPE_CHECKING:
    from colabel.experiments import Plan, Results

study = typer.Typer(
    cls=PlainGroup,
    name="study",
    help="Compare methods on data sets by a plan: run it, show it, export it, report it.",
    no_args_is_help=True,
)

PlanFile = Annotated[
    str,
    typer.Argument(
        metavar="PLAN", help="A TOML file, or the name of one: demo, or any in studies/."
    ),
]
PlanFiles = Annotated[
    list[str], typer.Argument(metavar="PLAN...", help="TOML files, or names of some in studies/.")
]
StoreFile = Annotated[
    Path, typer.Option("--store", "-s", metavar="FILE", help="Where results are kept.")
]
Quick = Annotated[bool, typer.Option("--quick", help="The plan's quick form.")]
OnlyData = Annotated[
    list[str], typer.Option("--data", "-d", metavar="NAME", help="Only these data sets.")
]
OnlyMethods = Annotated[
    list[str], typer.Option("--method", "-m", metavar="NAME", help="Only these methods.")
]
DEFAULT_STORE = Path("colabel-studies.sqlite")


@study.command(cls=Plain)
@guarded
def run(
    plan: PlanFile,
    store: StoreFile = DEFAULT_STORE,
    quick: Quick = False,
    data: OnlyData = [],
    method: OnlyMethods = [],
    n_jobs: Annotated[int, typer.Option("--jobs", "-j", help="Processes; -1 for all cores.")] = -1,
    data_home: Annotated[
        Path | None, typer.Option(help="Folder of the data sets; by default COLABEL_DATA.")
    ] = None,
    retry: Annotated[bool, typer.Option("--retry", help="Run failed cells again.")] = False,
    quiet: given.Quiet = False,
) -> None:
    """Run the cells of a plan that have no result yet.

    Every cell (data set x method x split) is saved as soon as it is finished:
    stop the command at any time, and the next run goes on where it stopped.

    [bold]Examples[/bold]

      [cyan]colabel study run demo --quick[/cyan]

      [cyan]colabel study run mlcrf --data emotions --method MLCRF --method BR[/cyan]
    """
    from colabel.cli._study_progress import watch_cells
    from colabel.experiments import Results, Runner, Store, load_plan
    from colabel.report.study_text import failures_text

    chosen = load_plan(plan, quick=quick).only(data, method)
    with Store(store) as results:
        runner = Runner(results, n_jobs, None if data_home is None else str(data_home), retry)
        shown = stderr_is_terminal() and not quiet
        try:
            with watch_cells(runner, chosen, shown=shown, lines=not quiet) as watch:
                summary = runner.run(chosen, watch)
        except KeyboardInterrupt:
            fail("Stopped. What was finished is kept: run the same command to go on.", INTERRUPTED)
        failures = Results.read(chosen, results).failures
    if failures and not quiet:
        note(failures_text(failures))
    if not quiet:
        output().print(
            f"{summary.total} cells: {summary.before} had results, {summary.run} were run, "
            f"{summary.failed} of them failed. Results are in {store}.",
            markup=False,
            soft_wrap=True,
        )


@study.command(cls=Plain)
@guarded
def show(
    plan: PlanFile,
    store: StoreFile = DEFAULT_STORE,
    quick: Quick = False,
    data: OnlyData = [],
    method: OnlyMethods = [],
) -> None:
    """Print the tables of a plan: measured beside published, and whether its claims hold.

    [bold]Example[/bold]

      [cyan]colabel study show demo --quick[/cyan]
    """
    from colabel.experiments import load_plan
    from colabel.report.study_text import (
        QUICK_FORM,
        claim_sentence,
        failures_text,
        legend,
        study_tables,
    )

    results = _results(load_plan(plan, quick=quick).only(data, method), store)
    console = output()
    console.print(f"[bold]{escape(results.plan.title)}[/bold]\n")
    if results.plan.is_quick:
        console.print(f"[bold]{QUICK_FORM}[/bold]\n")
    for table in study_tables(results, console.width):
        console.print(table)
    console.print(legend(results), markup=False)
    for claim in results.plan.claims:
        console.print(f"\nClaim {escape(claim_sentence(claim, results.verdicts(claim)))}")
    if results.missing:
        note(f"{results.missing} cells have no result yet: colabel study run {plan}.")
    if results.failures:
        note(failures_text(results.failures))


@study.command(cls=Plain)
@guarded
def export(
    plan: PlanFile,
    output_file: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="A .csv or .parquet file.")
    ],
    store: StoreFile = DEFAULT_STORE,
    quick: Quick = False,
) -> None:
    """Write the results of a plan as one tidy table: a row for each measure of each cell.

    [bold]Example[/bold]

      [cyan]colabel study export mlcrf -o mlcrf.parquet[/cyan]
    """
    from colabel.experiments import load_plan
    from colabel.experiments.export import write_rows

    results = _results(load_plan(plan, quick=quick), store)
    write_rows(results.rows, output_file)
    output().print(
        f"{len(results.rows)} rows written to {output_file}.", markup=False, soft_wrap=True
    )


@study.command(cls=Plain)
@guarded
def report(
    plans: PlanFiles,
    output_file: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="An .html or .md file.")
    ] = Path("study.html"),
    store: StoreFile = DEFAULT_STORE,
    quick: Quick = False,
) -> None:
    """Write one self-contained HTML file, or Markdown, about one or several plans.

    [bold]Examples[/bold]

      [cyan]colabel study report ctbn mlcrf -o results.html[/cyan]

      [cyan]colabel study report ctbn mlcrf -o RESULTS.md[/cyan]
    """
    from dataclasses import replace

    from colabel.core.files import written_whole
    from colabel.experiments import edge_profiles, load_plan
    from colabel.experiments.characteristics import measured
    from colabel.report import profile_figures, write_study_report
    from colabel.report.study_markdown import results_markdown

    results = [_results(load_plan(plan, quick=quick), store) for plan in plans]
    results = [replace(found, characteristics=measured(found.plan)) for found in results]
    for found in results:
        if found.missing:
            note(f"{found.missing} cells of {found.plan.name} have no result yet.")
    if output_file.suffix == ".md":
        with written_whole(output_file) as part:
            part.write_text(results_markdown(results), encoding="utf-8")
    elif output_file.suffix in (".html", ".htm"):
        profiles = [profile for study in results for profile in edge_profiles(study.plan)]
        try:
            figures = profile_figures(profiles)
        except ImportError as error:
            note(f"{error} The report goes without the profiles.")
            figures = []
        write_study_report(results, output_file, figures=figures)
    else:
        fail(f"{output_file} is neither .html nor .md: name one of these.", 2)
    output().print(f"Report written to {output_file}.", markup=False, soft_wrap=True)


def _results(plan: Plan, store: Path) -> Results:
    from colabel.experiments import Results, Store

    if not store.is_file():
        fail(f"There are no results in {store} yet: colabel study run {plan.name}.", 2)
    with Store(store) as opened:
        return Results.read(plan, opened)
