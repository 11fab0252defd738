"""`colabel explain`: what a saved model has learned, and why a row has its labels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from colabel.cli import _options as given
from colabel.cli._console import output, working
from colabel.cli._evidence import NOTHING_TO_COMPARE, row_evidence, show_evidence
from colabel.cli._guard import guarded
from colabel.cli._model import load_table_model
from colabel.core.files import refuse_input

if TYPE_CHECKING:
    from colabel.report import RowExplanation
    from colabel.tables import Frame, Predictor, TableModel

_PULLS, _SWITCHES = 5, 5


@guarded
def explain(
    model: given.ModelFile,
    table: Annotated[
        Path | None,
        typer.Argument(metavar="TABLE", help="A table, to explain a row of it."),
    ] = None,
    row: Annotated[int, typer.Option(min=1, metavar="N", help="Its row, from 1.")] = 1,
    known: given.Known = [],
    top_k: Annotated[
        int, typer.Option("--top-k", min=1, metavar="K", help="Runner-up label sets to list.")
    ] = 3,
    labels: Annotated[
        list[str],
        typer.Option(
            "--label",
            metavar="NAME",
            help="A label to explain; repeatable.",
            show_default="all, or the eight most in question",
        ),
    ] = [],
    against: Annotated[
        Path | None,
        typer.Option(
            metavar="TABLE",
            help="Rows to compare the row's columns with, such as the training table.",
            show_default="the rows around it",
        ),
    ] = None,
    page: Annotated[
        Path | None,
        typer.Option("--html", metavar="FILE", help="Write it as a page, too.", show_default=False),
    ] = None,
    trust: given.Trust = False,
    missing: given.Missing = [],
    delimiter: given.Delimiter = "",
    decimal: given.Decimal = "",
    encoding: given.Encoding = "utf-8",
    as_json: given.AsJson = False,
    quiet: given.Quiet = False,
) -> None:
    """Show the label graph of a model, or why a row has the labels it has.

    For a row: the most probable label set and the runners-up, which columns
    and words speak for and against each label, which labels hold each other,
    and which label, if it were known, would change the answer most.

    [bold]Examples[/bold]

      [cyan]colabel explain model.colabel[/cyan]

      [cyan]colabel explain model.colabel new.csv --row 17[/cyan]

      [cyan]colabel explain model.colabel new.csv --row 17 --label happy --html why.html[/cyan]
    """
    from colabel.report import explain_row, write_explanation_html
    from colabel.tables import PredictionRequest, Predictor, open_table

    refuse_input(page, table, model, against)
    fitted = load_table_model(model, trust=trust)
    console = output()
    if table is None:
        _explain_model(console, fitted, as_json=as_json, quiet=quiet)
        return
    options = given.reading_options(delimiter, encoding, missing, decimal)
    predictor = Predictor(fitted, open_table(table, options), PredictionRequest(given=known))
    around, place = _find_row(predictor, row)
    own = around.rows(slice(place, place + 1))
    why = explain_row(predictor.joint(own, row), n_runners_up=top_k)
    if against is not None:
        other = Predictor(fitted, open_table(against, options), PredictionRequest())
        around = next(other.frames())
    with working("asking what speaks for and against each label", shown=not quiet):
        evidence = row_evidence(fitted, own, around, predictor.known_codes(own, row)[0], labels)
    if page is not None:
        write_explanation_html(page, why, evidence, f"{table.name}, row {row}")
    if as_json:
        found = {"row": row, **why.to_dict()}
        if evidence is not None:
            found["evidence"] = evidence.to_dict()
        console.print_json(json.dumps(found))
        return
    _show_row(console, why, row, quiet=quiet)
    if evidence is not None:
        show_evidence(console, evidence, quiet=quiet)
    elif not quiet:
        console.print(f"\n{NOTHING_TO_COMPARE}", style="dim", markup=False)
    _show_switches(console, why)
    if not why.exact and not quiet:
        console.print(f"\n{why.how}", style="dim", markup=False)
    if page is not None and not quiet:
        console.print(f"\nThe page is in {page}.", markup=False, soft_wrap=True)


def _explain_model(console: Console, model: TableModel, *, as_json: bool, quiet: bool) -> None:
    from colabel.models.wrapped import title_of
    from colabel.report import graph_text, label_graph

    graph = label_graph(model)
    if as_json:
        console.print_json(json.dumps({"model": title_of(model.model), **graph.to_dict()}))
        return
    if not quiet:
        kinds: dict[str, int] = {}
        for column in model.columns:
            kinds[column.kind] = kinds.get(column.kind, 0) + 1
        columns = ", ".join(f"{n:,} {kind}" for kind, n in kinds.items())
        console.print(
            f"[bold]{title_of(model.model)}[/bold], fitted to {model.n_rows:,} rows: "
            f"{len(graph.names):,} labels; columns: {columns}.\n"
        )
        console.print(graph.meaning, style="dim", markup=False)
        console.print()
    if len(graph.ends) or graph.parents is not None:
        console.print(graph_text(graph), markup=False, soft_wrap=True)


def _find_row(predictor: Predictor, row: int) -> tuple[Frame, int]:
    """Return the part of the table that has a row, which counts from 1, and its place there."""
    from colabel.tables import TableError

    start = 1
    for frame in predictor.frames():
        if row < start + frame.n_rows:
            return frame, row - start
        start += frame.n_rows
    raise TableError(f"{predictor.source.path} has {start - 1} rows, so no row {row}.")


def _show_row(console: Console, why: RowExplanation, row: int, *, quiet: bool) -> None:
    console.print(f"[bold]Row {row}[/bold]: the most probable label sets\n")
    sets = _table("label set", ">P")
    for place, one in enumerate((why.best, *why.runners_up)):
        name = escape(why.named(one.codes))
        sets.add_row(f"[bold]{name}[/bold]" if place == 0 else name, f"{one.prob:.3f}")
    console.print(sets)
    if not quiet:
        console.print()
        console.print(_in_words(why), markup=False)
    if why.lifts:
        console.print("\n[bold]Labels that go together[/bold]\n")
        pulls = _table("together", ">times as probable as if independent")
        for pair in why.lifts[:_PULLS]:
            names = " and ".join(why.value(i, why.best.codes[i]) for i in pair.labels)
            pulls.add_row(escape(names), f"{pair.lift:.2f}")
        console.print(pulls)


def _show_switches(console: Console, why: RowExplanation) -> None:
    if not why.counterfactuals or len(why.alone) == 1:
        return
    console.print("\n[bold]If one label were known[/bold], most change expected first\n")
    table = _table("known", ">P of that", "then the answer is", ">P then")
    for switch in why.counterfactuals[:_SWITCHES]:
        table.add_row(
            escape(why.value(switch.label, switch.value)),
            f"{switch.prob:.3f}",
            escape(why.named(switch.answer.codes)),
            f"{switch.answer.prob:.3f}",
        )
    console.print(table)


def _in_words(why: RowExplanation) -> str:
    if why.one_by_one.codes == why.best.codes:
        first = "Chosen one by one, the labels would be the same."
    else:
        first = (
            f"Chosen one by one, the labels would be {why.named(why.one_by_one.codes)}: together "
            f"their probability is only {why.one_by_one.prob:.3f}."
        )
    apart = why.prob_if_independent
    if apart <= 0 or len(why.alone) == 1:
        return first
    return (
        f"{first} With the same probability of each label but no dependence between them, the "
        f"answer would have probability {apart:.3f} instead of {why.best.prob:.3f}."
    )


def _table(*titles: str, **options: Any) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, **options)
    for title in titles:
        table.add_column(title.lstrip(">"), justify="right" if title[0] == ">" else "left")
    return table
