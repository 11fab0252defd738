"""Commands that apply a fitted model to a table: predict, ask, explain, explore, evaluate."""

from __future__ import annotations

import json
import time
from collections import Counter
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from colabel.cli import _console as ui
from colabel.core.files import check_not_input
from colabel.core.progress import row_counter

if TYPE_CHECKING:
    from colabel.tables import Frame, TableModel

_DECISION = "The loss to minimise: subset, hamming, f1, micro_f1, macro_f1 or jaccard."
_COVERAGE = (
    "Also list label sets that contain the true one with at least this probability, and say which"
    " labels are sure; for a model fitted with --conformal."
)

_LOSS = "The loss to reduce: subset, hamming, f1, jaccard, or log (the entropy of the joint)."

_LABEL, _DEFAULT_LABELS = "A label to explain; repeatable.", "those of the answer or in doubt"
_OVERALL = "For a table with labels: which columns matter for which labels, over all rows."
_AGAINST = "Rows to compare the row's columns with, such as the training table."

_EVIDENCE = "Also what speaks for and against each label, as in explain: slower."
_AT_ONCE = 100  # rows
_MOST_SETS = 200_000  # on a page

_SHOWN = 10  # labels and confusions on the screen


@ui.command
def predict(
    model: ui.ModelFile,
    table: ui.TableParts,
    options: ui.Reading,
    target: Annotated[Path | None, ui.answers_option(", or a folder")] = None,
    top_k: Annotated[
        int, ui.opt("K", "Also the K most probable label sets of each row.", min=0)
    ] = 0,
    known: ui.Known = [],
    decision: Annotated[str | None, ui.opt("LOSS", _DECISION, default="the model's")] = None,
    coverage: Annotated[float | None, ui.opt("P", _COVERAGE, default=False)] = None,
    keep: ui.Keep = [],
    probabilities: Annotated[
        bool,
        ui.opt(
            "", "Also the probability of each label alone.", "--probabilities/--no-probabilities"
        ),
    ] = True,
    formulas: ui.Formulas = False,
    trust: ui.Trust = False,
    as_json: ui.AsJson = False,
    quiet: ui.Quiet = False,
) -> None:
    """Predict the labels of the rows of a table.

    The table is read a few thousand rows at a time, so it may be larger than
    memory. The output file appears when it is complete. The answers to several
    tables go to a folder, one file each; finished files are not written again.

    [bold]Examples[/bold]

      [cyan]colabel predict model.colabel new.csv -o out.csv[/cyan]

      [cyan]colabel predict model.colabel new.csv --top-k 3 --keep id[/cyan]

      [cyan]colabel predict model.colabel new.csv --given known_tags --decision f1[/cyan]

      [cyan]colabel predict model.colabel new.csv --coverage 0.9[/cyan]

      [cyan]colabel predict model.colabel 'part-*.parquet' -o answers/[/cyan]
    """
    from colabel import tables

    if as_json and target is None:
        raise tables.TableError("--json prints a summary: say with -o where the predictions go.")
    parts = tables.find_parts(table)
    request = tables.PredictionRequest(decision, probabilities, top_k, known, keep, coverage)
    fitted = ui.load_table_model(model, trust=trust)
    pairs = zip(fitted.label_names_, fitted.space.classes, strict=True)
    present = {name: str(values[1]) for name, values in pairs if fitted.space.is_indicator}
    header: list[str] = []
    n_rows = n_finished = 0
    started = time.perf_counter()

    def answer(part: Path, target: Path | None) -> None:
        nonlocal n_rows, header
        if target is not None:
            tables.predicting.check_ending(target)
        predictor = tables.Predictor(fitted, tables.open_table(part, options), request)
        shown: Any = {"quiet": quiet, "present": present, "formulas": formulas}
        n, header = ui.write_answers(predictor.answers(), target, "predicting", **shown)
        n_rows += n

    # "out/" arrives as "out"
    into_folder = target is not None and (target.is_dir() or not target.suffix)
    if len(parts) == 1 and not into_folder:
        check_not_input(target, *parts, model)
        answer(parts[0], target)
    elif target is None:
        raise tables.TableError(
            f"{len(parts)} tables are predicted into a folder: name it with -o."
        )
    else:
        asked = {"request": asdict(request), "options": asdict(options)}
        folder = tables.AnswerFolder.open(target, model, asked)
        for part, own in zip(parts, folder.targets(parts), strict=True):
            if part.exists() and folder.is_finished(part, own):
                n_finished += 1
            else:
                answer(part, own)
                folder.finish(part, own)
    seconds = time.perf_counter() - started
    if as_json:
        found = {"rows": n_rows, "seconds": seconds, "file": str(target), "columns": header}
        ui.output().print_json(json.dumps(found))
    elif not quiet:
        where = f" to {target}" if target else ""
        before = f" {n_finished} of {len(parts)} parts were finished before." * bool(n_finished)
        speed = f"{n_rows / max(seconds, 1e-9):,.0f} rows per second"
        sentence = f"{n_rows:,} rows predicted{where} in {seconds:.1f} s ({speed}).{before}"
        ui.say(sentence, aside=target is None)


@ui.command
def ask(
    model: ui.ModelFile,
    table: ui.TableFile,
    options: ui.Reading,
    target: Annotated[Path | None, ui.answers_option()] = None,
    loss: Annotated[str | None, ui.opt("LOSS", _LOSS, default="the model's decision")] = None,
    top: Annotated[int, ui.opt("N", "How many labels to name.", min=1)] = 1,
    known: ui.Known = [],
    keep: ui.Keep = [],
    formulas: ui.Formulas = False,
    trust: ui.Trust = False,
    quiet: ui.Quiet = False,
) -> None:
    """Say which label of each row to check first.

    It is the label whose value would reduce the expected loss of the prediction
    most: ask_1, which removes gain_1 of the expected_loss. If the table has the
    model's label columns, their values count as known and empty cells as unknown.

    [bold]Examples[/bold]

      [cyan]colabel ask model.colabel new.csv -o ask.csv[/cyan]

      [cyan]colabel ask model.colabel new.csv --loss f1 --top 3 --keep id[/cyan]
    """
    from colabel import tables

    if target is not None:
        tables.predicting.check_ending(target)
        check_not_input(target, table, model)
    source = tables.open_table(table, options)
    asker = tables.Asker(ui.load_table_model(model, trust=trust), source, loss, top, known, keep)
    started = time.perf_counter()
    n_rows, _ = ui.write_answers(asker.answers(), target, "asking", quiet=quiet, formulas=formulas)
    if quiet:
        return
    where = f" to {target}" if target else ""
    seconds = time.perf_counter() - started
    sentence = f"Questions about {n_rows:,} rows written{where} in {seconds:.1f} s."
    ui.say(sentence, aside=target is None)
    if n_rows and not asker.n_open:
        ui.note(
            f"{table} knows every label of every row, so there was nothing to ask: leave cells "
            "empty whose label is not known, or the label columns out."
        )


@ui.command
def evaluate(
    model: ui.ModelFile,
    table: ui.TableFile,
    options: ui.Reading,
    page: Annotated[Path | None, ui.page_option("Also a page.")] = None,
    trust: ui.Trust = False,
    as_json: ui.AsJson = False,
) -> None:
    """Measure a fitted model on rows that it has not seen.

    Prints all measures with standard errors over rows, the precision, recall
    and calibration of each label, and the labels that the model confuses. The
    table needs the model's columns and its label columns; empty labels are
    ignored.

    [bold]Examples[/bold]

      [cyan]colabel evaluate model.colabel test.csv[/cyan]

      [cyan]colabel evaluate model.colabel test.csv --html test.html --json[/cyan]
    """
    from colabel import comparing, report, tables
    from colabel.report import text

    check_not_input(page, table, model)
    fitted = ui.load_table_model(model, trust=trust)
    scores = comparing.evaluate_table(fitted, tables.open_table(table, options))
    if page is not None:
        report.write_page(page, report.evaluation_html(scores, f"{model.name} on {table.name}"))
    console = ui.output()
    if as_json:
        console.print_json(scores.to_json())
        return
    console.print(str(scores), markup=False, highlight=False)
    weakest = sorted(scores.labels, key=lambda one: (one.f1 == one.f1, one.f1))
    rows = [
        (one.name, f"{one.n_true:,}", *("–" if v != v else f"{v:.3f}" for v in figures))
        for one in weakest[:_SHOWN]
        for figures in [(one.precision, one.recall, one.f1, one.calibration_error)]
    ]
    titles = ("label", ">rows", ">precision", ">recall", ">F1", ">calibration error")
    text.show_table(console, "The weakest labels", titles, rows)
    if scores.confusions:
        rows = [
            (one.missed, one.predicted, f"{one.n_rows:,}") for one in scores.confusions[:_SHOWN]
        ]
        text.show_table(console, "Confused", ("missed", "predicted instead", ">rows"), rows)
    if page is not None:
        ui.say(f"The page is {page}.")


@ui.command
def explain(
    model: ui.ModelFile,
    options: ui.Reading,
    table: Annotated[
        Path | None, typer.Argument(metavar="TABLE", help="A table, to explain a row of it.")
    ] = None,
    row: Annotated[int, ui.opt("N", "Its row; the first below the header is 1.")] = 1,
    known: ui.Known = [],
    top_k: Annotated[int, ui.opt("K", "Runner-up label sets to list.", min=1)] = 3,
    labels: Annotated[list[str], ui.opt("NAME", _LABEL, "--label", default=_DEFAULT_LABELS)] = [],
    against: Annotated[Path | None, ui.opt("TABLE", _AGAINST, default="the rows around it")] = None,
    page: Annotated[Path | None, ui.page_option("Write it as a page, too.")] = None,
    overall: Annotated[bool, ui.opt("", _OVERALL, "--overall")] = False,
    trust: ui.Trust = False,
    as_json: ui.AsJson = False,
    quiet: ui.Quiet = False,
) -> None:
    """Show the label graph of a model, or why a row has the labels it has.

    With --overall: which columns matter, measured by how much the joint log-loss
    grows when a column is shuffled, and which labels depend on each other given
    the columns. For a row: the most probable label set and the runners-up, which
    columns and words speak for and against each label, which labels go together,
    and which label, if it were known, would change the answer most.

    [bold]Examples[/bold]

      [cyan]colabel explain model.colabel[/cyan]

      [cyan]colabel explain model.colabel test.csv --overall[/cyan]

      [cyan]colabel explain model.colabel new.csv --row 17[/cyan]

      [cyan]colabel explain model.colabel new.csv --row 17 --label happy --html why.html[/cyan]
    """
    from colabel import report, tables
    from colabel.models.evidence.record import explain_row
    from colabel.report import text

    check_not_input(page, table, model, against)
    fitted = ui.load_table_model(model, trust=trust)
    console = ui.output()
    if table is None:
        _explain_model(console, fitted, as_json=as_json, quiet=quiet)
        return
    if overall:
        _explain_overall(console, fitted, tables.open_table(table, options), as_json=as_json)
        return
    if row < 1:
        raise tables.TableError(
            f"--row {row}: rows are counted from 1, the first one below the header."
        )
    asked = tables.PredictionRequest(given=known)
    predictor = tables.Predictor(fitted, tables.open_table(table, options), asked)
    n_before = 0
    for around in predictor.frames():
        if row <= n_before + around.n_rows:
            break
        n_before += around.n_rows
    else:
        raise tables.TableError(f"{table} has {n_before} rows, so no row {row}.")
    own = around.rows(slice(row - n_before - 1, row - n_before))
    why = explain_row(predictor.joint(own, row), n_runners_up=top_k)
    if against is not None:
        other = tables.open_table(against, options)
        around = next(tables.Predictor(fitted, other, tables.PredictionRequest()).frames())
    evidence = None
    try:
        explained = [why.space.index(name) for name in labels]
    except KeyError as error:
        raise tables.TableError(str(error.args[0])) from None
    if around.n_rows > 1:
        codes = predictor.known_codes(own, row)[0]
        facts = {
            name: classes[code]
            for name, classes, code in zip(why.space.names, why.space.classes, codes, strict=True)
            if code >= 0
        }
        chosen = explained or [i for i in why.in_question if codes[i] < 0]
        with ui.working("asking what speaks for and against each label", shown=not quiet):
            evidence = fitted.feature_evidence(
                own, background=around, given=facts or None, labels=chosen or None
            )
    if page is not None:
        html = report.explanation_html(why, evidence, f"{table.name}, row {row}")
        report.write_page(page, html)
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
        ui.say(f"\nThe page is in {page}.")


def _explain_model(console: Console, model: TableModel, *, as_json: bool, quiet: bool) -> None:
    from colabel import report
    from colabel.models.wrapped import title_of

    graph = report.label_graph(model)
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
        console.print(report.graph_text(graph), markup=False, soft_wrap=True)


def _explain_overall(console: Console, model: TableModel, source: Any, *, as_json: bool) -> None:
    from colabel import comparing
    from colabel.comparing.evaluating import labelled_rows
    from colabel.report.text import show_table

    found = comparing.describe(model, *labelled_rows(model, source))
    if as_json:
        console.print_json(json.dumps(found.to_dict()))
        return
    rows: list[tuple[str, ...]] = []
    for k, name in enumerate(found.columns[: 2 * _SHOWN]):
        figure = f"{found.importance[k]:.3f} ± {found.errors[k]:.3f}"
        rows.append((name, figure, ", ".join(found.matters_for(k))))
    title = "[bold]Columns that matter[/bold]: nats of joint log-loss lost where shuffled"
    show_table(console, title, ("column", ">importance", "for the labels"), rows)
    if found.graph is None:
        return
    rows = []
    for edge in found.graph["edges"][:_SHOWN]:
        ends = (found.graph["labels"][edge[end]] for end in ("from", "to"))
        change = edge["given_on"] - edge["given_off"]  # NaN where there is none
        kind = "attract" if change > 0 else "repel" if change < 0 else ""
        rows.append((*ends, f"{edge['nats']:.3f}", kind))
    title = "[bold]Labels that depend on each other[/bold] given the columns, in nats"
    if rows:
        show_table(console, title, ("one", "other", ">nats", ""), rows)
    else:
        console.print(f"\n{title}\n\nNone do.")


@ui.command
def explore(
    model: ui.ModelFile,
    table: ui.TableFile,
    options: ui.Reading,
    page: Annotated[Path, ui.opt("FILE", "The page.", "--output", "-o")] = Path("explore.html"),
    rows: Annotated[int, ui.opt("N", "Most rows on the page.", min=1, max=5000)] = 200,
    start: Annotated[int, ui.opt("N", "The first of them, from 1.", min=1)] = 1,
    top_k: Annotated[int, ui.opt("K", "Most label sets of a row.", min=1, max=2000)] = 200,
    keep: ui.Keep = [],
    evidence: Annotated[bool, ui.opt("", _EVIDENCE, "--evidence")] = False,
    trust: ui.Trust = False,
    quiet: ui.Quiet = False,
) -> None:
    """Write a page to explore the joint: set labels of a row, watch the others change.

    The page is one HTML file that needs no network. It contains the most
    probable label sets and the cells of each row: share it as you would share
    the table.

    [bold]Examples[/bold]

      [cyan]colabel explore model.colabel new.csv -o explore.html[/cyan]

      [cyan]colabel explore model.colabel new.csv --keep title --start 1001 --rows 100[/cyan]
    """
    from colabel import comparing, report, tables
    from colabel.core.estimators import model_inside
    from colabel.models import ConformalSets
    from colabel.rules import Rules
    from colabel.tables.source import written_value

    check_not_input(page, table, model)
    fitted = ui.load_table_model(model, trust=trust)
    source = tables.open_table(table, options)
    predictor = tables.Predictor(fitted, source, tables.PredictionRequest(keep=keep))
    most = max(1, min(top_k, _MOST_SETS // rows))
    frames: list[Frame] = []
    found, joint, first, more = [], None, 1, False
    with row_counter("asking", shown=ui.stderr_is_terminal() and not quiet) as count:
        for frame in predictor.frames(_AT_ONCE):
            last = first + frame.n_rows
            wanted = frame.rows(slice(max(0, start - first), max(0, start + rows - first)))
            if wanted.n_rows:
                number = max(start, first)
                joint = predictor.joint(wanted, number)
                names = [f"row {number + i}" for i in range(wanted.n_rows)]
                for name in (name for name in wanted.names if name in keep):
                    own = [written_value(value, 6, 200) for value in wanted.column(name)]
                    names = [
                        " · ".join(filter(None, pair)) for pair in zip(names, own, strict=True)
                    ]
                for i, row in enumerate(
                    report.explored_rows(joint, names, ui.row_cells(wanted), most)
                ):
                    if evidence and frame.n_rows > 1:
                        why = fitted.feature_evidence(wanted, i, background=frame)
                        row = replace(row, evidence=why)
                    found.append(row)
                    count(1)
                frames.append(wanted)
            more = last > start + rows
            if more:
                break
            first = last
    if joint is None:
        raise tables.TableError(f"{source.path} has {first - 1} rows, so none from row {start} on.")
    graph = None
    if set(joint.space.cardinalities) == {2}:
        X = fitted.preprocessor.transform(tables.Frame.stacked(frames))
        graph = comparing.dependence_graph(fitted.model, X)
    exact = "log_prob" in joint.exact
    inside = model_inside(fitted.model)
    inside = inside.members_[0] if isinstance(inside, ConformalSets) else inside
    rules = Rules.parse(getattr(inside, "rules_", "")).compiled(joint.space)
    explored = report.Exploration(joint.space, tuple(found), joint.how, exact, graph, rules)
    report.write_page(page, report.exploration_html(explored, f"{table.name}: ask the joint"))
    ui.say(
        f"{page} shows {len(found):,} rows with {explored.n_vectors:,} label sets, which hold "
        f"{explored.listed_text} of a row's probability on average."
    )
    if more and not quiet:
        ui.say(
            f"The table has more rows: --rows {2 * rows} writes more of them, "
            f"--start {start + rows} goes on."
        )
