"""`python -m studies`: plans run, shown, reported and exported."""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import Annotated

import typer

from studies.cells import Cell, expand
from studies.characteristics import sizes
from studies.evaluate import Outcome
from studies.plan import PLANS, Plan, PlanError, load_plan
from studies.record import FILE, measured, read_record, update, write_record
from studies.report import ROOT, study_section, write_report
from studies.results import Results
from studies.runner import Runner
from studies.store import Row, Store, StoreError

app = typer.Typer(
    name="studies", help=__doc__, no_args_is_help=True, pretty_exceptions_enable=False
)
PlanFile = Annotated[
    str,
    typer.Argument(help="A TOML file, or the name of one in studies/plans; all to run every one."),
]
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
    for name in every_plan() if plan == "all" else [plan]:
        _run(load_plan(name, quick=quick).only(data, method), store, n_jobs, data_home, retry)


def _run(plan: Plan, path: Path, n_jobs: int, data_home: str | None, retry: bool) -> None:
    done = 0

    def told(cell: Cell, outcome: Outcome) -> None:
        nonlocal done
        done += 1
        what = outcome.error if outcome.status == "failed" else f"{outcome.learn_seconds:.1f} s"
        place = f"{cell.dataset}, {cell.method}, split {cell.split}"
        sys.stderr.write(f"[{done}] {place}: {what}\n")

    with Store(path) as opened:
        summary = Runner(opened, n_jobs, data_home, retry).run(plan, told)
    typer.echo(
        f"{plan.name}, {summary.total} cells: {summary.before} had results, {summary.run} were"
        f" run, {summary.failed} of them failed. Results are in {path}."
    )


@app.command()
def show(plan: PlanFile, store: StoreFile = DEFAULT_STORE, quick: Quick = False) -> None:
    """Print the tables of a plan: measured beside published, and whether its claims hold."""
    chosen = load_plan(plan, quick=quick)
    figures = dict(read_record().get(chosen.name, {}))
    if store.is_file():
        with Store(store) as opened:
            figures |= measured(opened.rows(expand(chosen)))
    elif not figures:
        raise StoreError(f"There are no results in {store} yet: run {chosen.name}.")
    typer.echo("\n".join(study_section(Results(chosen, figures), {})))


@app.command()
def export(
    plan: PlanFile,
    output: Annotated[Path, typer.Option("--output", "-o", help="A .csv file.")],
    store: StoreFile = DEFAULT_STORE,
    quick: Quick = False,
) -> None:
    """Write the cells of a plan as one tidy table: a row for each measure of each cell."""
    if not store.is_file():
        raise StoreError(f"There are no results in {store} yet: run {plan}.")
    with Store(store) as opened:
        rows = list(opened.rows(expand(load_plan(plan, quick=quick))))
    with output.open("w", encoding="utf-8", newline="") as lines:
        writer = csv.writer(lines)
        writer.writerow(Row._fields)
        writer.writerows(rows)
    typer.echo(f"{len(rows)} rows written to {output}.")


@app.command()
def report(
    store: StoreFile = DEFAULT_STORE,
    root: Annotated[Path, typer.Option(help="Where RESULTS.md and docs/results are.")] = ROOT,
) -> None:
    """Put what was run into the record, and write RESULTS.md and docs/results/ from it."""
    record = read_record(root / "studies" / FILE.name)
    plans = {name: load_plan(name) for name in every_plan()}
    if store.is_file():
        with Store(store) as opened:
            new = {n: update(record, p, opened.rows(expand(p))) for n, p in plans.items()}
        write_record(
            {name: record[name] for name in plans if name in record}, root / "studies" / FILE.name
        )
        typer.echo(", ".join(f"{n}: {k} figures" for n, k in new.items() if k) or "Nothing is new.")
    studies = {
        name: Results(plan, record.get(name, {}), sizes(plan)) for name, plan in plans.items()
    }
    files = write_report(studies, root)
    typer.echo(f"Written: {', '.join(str(file.relative_to(root)) for file in files)}.")


def every_plan() -> list[str]:
    """Return the names of all plans but the small one, those that judge papers first."""
    names = sorted(file.stem for file in PLANS.glob("*.toml") if file.stem != "demo")
    return sorted(names, key=lambda name: (not name.endswith("_authors"), name))


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
