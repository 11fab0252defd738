"""`python -m studies`: plans run, shown, reported and exported."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from studies.cells import Cell
from studies.characteristics import measured
from studies.evaluate import Outcome
from studies.export import write_rows
from studies.plan import Plan, PlanError, load_plan
from studies.results import Results
from studies.runner import Runner
from studies.store import Store, StoreError
from studies.study_markdown import results_markdown
from studies.study_text import QUICK_FORM, claim_sentence, failures_text, legend, study_tables

app = typer.Typer(
    name="studies", help=__doc__, no_args_is_help=True, pretty_exceptions_enable=False
)
PlanFile = Annotated[str, typer.Argument(help="A TOML file, or the name of one in studies/plans.")]
PlanFiles = Annotated[list[str], typer.Argument(help="TOML files, or names in studies/plans.")]
StoreFile = Annotated[Path, typer.Option("--store", "-s", help="Where results are kept.")]
Quick = Annotated[bool, typer.Option("--quick", help="The plan's quick form.")]
OnlyData = Annotated[list[str], typer.Option("--data", "-d", help="Only these data sets.")]
OnlyMethods = Annotated[list[str], typer.Option("--method", "-m", help="Only these methods.")]
DEFAULT_STORE = Path("colabel-studies.sqlite")


@app.command()
def run(
    plan: PlanFile,
    store: StoreFile = DEFAULT_STORE,
    quick: Quick = False,
    data: OnlyData = [],
    method: OnlyMethods = [],
    n_jobs: Annotated[int, typer.Option("--jobs", "-j", help="Processes; -1 for all cores.")] = -1,
    data_home: Annotated[str | None, typer.Option(help="Folder of the data sets.")] = None,
    retry: Annotated[bool, typer.Option("--retry", help="Run failed cells again.")] = False,
) -> None:
    """Run the cells of a plan that have no result yet.

    Every cell (data set x method x split) is saved as soon as it is finished: stop the command at
    any time, and the next run goes on where it stopped.
    """
    chosen = load_plan(plan, quick=quick).only(data, method)
    done = 0

    def told(cell: Cell, outcome: Outcome) -> None:
        nonlocal done
        done += 1
        what = outcome.error if outcome.status == "failed" else f"{outcome.learn_seconds:.1f} s"
        place = f"{cell.dataset}, {cell.method}, split {cell.split}"
        sys.stderr.write(f"[{done}] {place}: {what}\n")

    with Store(store) as opened:
        summary = Runner(opened, n_jobs, data_home, retry).run(chosen, told)
        failures = Results.read(chosen, opened).failures
    if failures:
        sys.stderr.write(f"{failures_text(failures)}\n")
    typer.echo(
        f"{summary.total} cells: {summary.before} had results, {summary.run} were run, "
        f"{summary.failed} of them failed. Results are in {store}."
    )


@app.command()
def show(
    plan: PlanFile,
    store: StoreFile = DEFAULT_STORE,
    quick: Quick = False,
    data: OnlyData = [],
    method: OnlyMethods = [],
) -> None:
    """Print the tables of a plan: measured beside published, and whether its claims hold."""
    results = _results(load_plan(plan, quick=quick).only(data, method), store)
    console = Console()
    console.print(results.plan.title, style="bold", markup=False)
    if results.plan.is_quick:
        console.print(QUICK_FORM)
    for table in study_tables(results, console.width):
        console.print(table)
    console.print(legend(results), markup=False)
    for claim in results.plan.claims:
        console.print(f"\nClaim {claim_sentence(claim, results.verdicts(claim))}", markup=False)
    if results.missing:
        sys.stderr.write(f"{results.missing} cells have no result yet: run {plan}.\n")
    if results.failures:
        sys.stderr.write(f"{failures_text(results.failures)}\n")


@app.command()
def export(
    plan: PlanFile,
    output: Annotated[Path, typer.Option("--output", "-o", help="A .csv or .parquet file.")],
    store: StoreFile = DEFAULT_STORE,
    quick: Quick = False,
) -> None:
    """Write the results of a plan as one tidy table: a row for each measure of each cell."""
    results = _results(load_plan(plan, quick=quick), store)
    write_rows(results.rows, output)
    typer.echo(f"{len(results.rows)} rows written to {output}.")


@app.command()
def report(
    plans: PlanFiles,
    output: Annotated[Path, typer.Option("--output", "-o", help="A Markdown file.")],
    store: StoreFile = DEFAULT_STORE,
    quick: Quick = False,
) -> None:
    """Write Markdown about one or several plans."""
    results = [_results(load_plan(plan, quick=quick), store) for plan in plans]
    results = [replace(found, characteristics=measured(found.plan)) for found in results]
    for found in results:
        if found.missing:
            note = f"{found.missing} cells of {found.plan.name} have no result yet."
            sys.stderr.write(f"{note}\n")
    output.write_text(results_markdown(results), encoding="utf-8")
    typer.echo(f"Report written to {output}.")


def _results(plan: Plan, store: Path) -> Results:
    if not store.is_file():
        raise StoreError(f"There are no results in {store} yet: run {plan.name}.")
    with Store(store) as opened:
        return Results.read(plan, opened)


def main() -> None:
    """Run the command line; what is wrong is said in a sentence."""
    try:
        app()
    except (PlanError, StoreError, ValueError, OSError) as error:
        sys.stderr.write(f"Error: {error}\n")
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        sys.stderr.write("Stopped. What was finished is kept: run the same command to go on.\n")
        raise SystemExit(130) from None


if __name__ == "__main__":
    main()
