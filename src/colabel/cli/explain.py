"""`colabel explain`: what a saved model has learned, and why a row has its labels."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from colabel.cli import _options as given
from colabel.cli._console import guarded, load_table_model, output, working
from colabel.cli._options import opt
from colabel.core.files import refuse_input

if TYPE_CHECKING:
    from colabel.tables import Frame, Predictor, TableModel

_LABEL, _DEFAULT_LABELS = "A label to explain; repeatable.", "those of the answer or in doubt"
_AGAINST = "Rows to compare the row's columns with, such as the training table."


@guarded
def explain(
    model: given.ModelFile,
    table: Annotated[
        Path | None, typer.Argument(metavar="TABLE", help="A table, to explain a row of it.")
    ] = None,
    row: Annotated[int, opt("N", "Its row; the first below the header is 1.", min=1)] = 1,
    known: given.Known = [],
    top_k: Annotated[int, opt("K", "Runner-up label sets to list.", min=1)] = 3,
    labels: Annotated[list[str], opt("NAME", _LABEL, "--label", default=_DEFAULT_LABELS)] = [],
    against: Annotated[Path | None, opt("TABLE", _AGAINST, default="the rows around it")] = None,
    page: Annotated[
        Path | None, opt("FILE", "Write it as a page, too.", "--html", default=False)
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
    and words speak for and against each label, which labels go together, and
    which label, if it were known, would change the answer most.

    [bold]Examples[/bold]

      [cyan]colabel explain model.colabel[/cyan]

      [cyan]colabel explain model.colabel new.csv --row 17[/cyan]

      [cyan]colabel explain model.colabel new.csv --row 17 --label happy --html why.html[/cyan]
    """
    from colabel.models.evidence.rows import explain_row
    from colabel.report import text
    from colabel.tables import PredictionRequest, Predictor, TableError, open_table

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
    evidence = None
    try:
        explained = [why.space.index(name) for name in labels]
    except KeyError as error:
        raise TableError(str(error.args[0])) from None
    if around.n_rows > 1:
        codes = predictor.known_codes(own, row)[0]
        facts = {
            name: classes[code]
            for name, classes, code in zip(why.space.names, why.space.classes, codes, strict=True)
            if code >= 0
        }
        chosen = explained or [i for i in why.in_question if codes[i] < 0]
        with working("asking what speaks for and against each label", shown=not quiet):
            evidence = fitted.feature_evidence(
                own, background=around, given=facts or None, labels=chosen or None
            )
    if page is not None:
        from colabel.report import write_explanation_html

        write_explanation_html(page, why, evidence, f"{table.name}, row {row}")
    if as_json:
        extra = {} if evidence is None else {"evidence": evidence.to_dict()}
        console.print_json(json.dumps({"row": row, **why.to_dict(), **extra}))
        return
    console.print(f"[bold]Row {row}[/bold]: the most probable label sets\n")
    console.print(text.label_sets(why))
    if not quiet:
        console.print()
        console.print(text.in_words(why), markup=False)
    text.show_lifts(console, why)
    if evidence is not None:
        text.show_evidence(console, evidence, quiet=quiet)
    elif not quiet:
        console.print(
            "\nWhat its columns say is measured against other rows, and the table has only this"
            " one: give some, such as the training table, by --against.",
            style="dim",
        )
    text.show_counterfactuals(console, why)
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
        kinds = Counter(column.kind for column in model.columns)
        said = ", ".join(f"{n:,} {kind}" for kind, n in kinds.items())
        console.print(
            f"[bold]{title_of(model.model)}[/bold], fitted to {model.n_rows:,} rows: "
            f"{len(graph.names):,} labels; columns: {said}.\n"
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
