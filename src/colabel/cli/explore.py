"""`colabel explore`: a page to ask the joint of the rows of a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from colabel.cli import _options as given
from colabel.cli._console import guarded, load_table_model, output, stderr_is_terminal
from colabel.cli._options import opt
from colabel.core.files import refuse_input
from colabel.core.progress import row_counter

if TYPE_CHECKING:
    from colabel.report import Exploration
    from colabel.tables import Frame, Predictor

_EVIDENCE = "Also what speaks for and against each label, as in explain: slower."
_CELLS = 30  # columns that are shown of a row
_LONGEST = 200  # characters of a value
_AT_ONCE = 100  # rows
_MOST_SETS = 200_000  # on a page


@guarded
def explore(
    model: given.ModelFile,
    table: given.TableFile,
    page: Annotated[Path, opt("FILE", "The page.", "--output", "-o")] = Path("explore.html"),
    rows: Annotated[int, opt("N", "Most rows on the page.", min=1, max=5000)] = 200,
    start: Annotated[int, opt("N", "The first of them, from 1.", min=1)] = 1,
    top_k: Annotated[int, opt("K", "Most label sets of a row.", min=1, max=2000)] = 200,
    keep: given.Keep = [],
    evidence: Annotated[bool, opt("", _EVIDENCE, "--evidence")] = False,
    trust: given.Trust = False,
    missing: given.Missing = [],
    delimiter: given.Delimiter = "",
    decimal: given.Decimal = "",
    encoding: given.Encoding = "utf-8",
    quiet: given.Quiet = False,
) -> None:
    """Write a page to ask the joint: set labels of a row, watch the others follow.

    One HTML file that needs no network. It holds the most probable label
    sets of each row and what its columns hold: share it as you would share
    the table.

    [bold]Examples[/bold]

      [cyan]colabel explore model.colabel new.csv -o explore.html[/cyan]

      [cyan]colabel explore model.colabel new.csv --keep title --start 1001 --rows 100[/cyan]
    """
    from colabel.report import write_exploration_html
    from colabel.tables import PredictionRequest, Predictor, open_table

    refuse_input(page, table, model)
    fitted = load_table_model(model, trust=trust)
    options = given.reading_options(delimiter, encoding, missing, decimal)
    predictor = Predictor(fitted, open_table(table, options), PredictionRequest(keep=keep))
    with row_counter("asking", shown=stderr_is_terminal() and not quiet) as count:
        found, more = _explored(predictor, keep, start, rows, top_k, evidence, count)
    write_exploration_html(page, found, f"{table.name}: ask the joint")
    console = output()
    listed = f"{found.listed_text} of the probability"
    console.print(
        f"{len(found.rows):,} rows with {found.n_vectors:,} label sets, {listed} of a row on "
        f"average, are in {page}.",
        markup=False,
        soft_wrap=True,
    )
    if more and not quiet:
        console.print(
            f"The table has more rows: --rows {2 * rows} writes more of them, "
            f"--start {start + rows} goes on.",
            markup=False,
        )


def _explored(
    predictor: Predictor,
    keep: Sequence[str],
    start: int,
    n_rows: int,
    top_k: int,
    with_evidence: bool,
    count: Callable[[int], None],
) -> tuple[Exploration, bool]:
    """Ask the joint about rows from `start` (from 1) on; also say whether there are more."""
    from colabel.comparing.graphs import averaged_graph
    from colabel.core.wrapping import model_inside
    from colabel.models import ConformalSets
    from colabel.report import Exploration, explored_rows
    from colabel.rules import Rules
    from colabel.tables import Frame, TableError

    model = predictor.model
    most = max(1, min(top_k, _MOST_SETS // n_rows))
    frames: list[Frame] = []
    found, joint, first, more = [], None, 1, False
    for frame in predictor.frames(_AT_ONCE):
        last = first + frame.n_rows
        wanted = frame.rows(slice(max(0, start - first), max(0, start + n_rows - first)))
        if wanted.n_rows:
            number = max(start, first)
            joint = predictor.joint(wanted, number)
            cells = _cells(wanted)
            names = _names(wanted, keep, number)
            listed = explored_rows(joint, names, cells, most)
            for i, row in enumerate(listed):
                if with_evidence and frame.n_rows > 1:
                    own = model.feature_evidence(wanted, i, background=frame)
                    listed[i] = replace(row, evidence=own)
                count(1)
            found += listed
            frames.append(wanted)
        more = last > start + n_rows
        if more:
            break
        first = last
    if joint is None:
        raise TableError(
            f"{predictor.source.path} has {first - 1} rows, so none from row {start} on."
        )
    graph = averaged_graph(model.model, model.preprocessor.transform(Frame.stacked(frames)))
    exact = "log_prob" in joint.exact
    inside = model_inside(model.model)
    inside = inside.members_[0] if isinstance(inside, ConformalSets) else inside
    text = getattr(inside, "rules_", "")
    rules = Rules.parse(text).compiled(joint.space) if text else None
    return Exploration(joint.space, tuple(found), joint.how, exact, graph, rules), more


def _names(frame: Frame, keep: Sequence[str], number: int) -> list[str]:
    """Name rows by their number in the table and the columns to keep."""
    kept = [name for name in frame.names if name in keep]
    names = []
    for i in range(frame.n_rows):
        said = [_shown(frame.column(name)[i]) for name in kept]
        names.append(" · ".join([f"row {number + i}", *(text for text in said if text)]))
    return names


def _cells(frame: Frame) -> list[tuple[tuple[str, str], ...]]:
    """Write what each row holds; of sparse rows, what is not 0."""
    columns = [(name, frame.column(name)) for name in frame.names[: 10 * _CELLS]]
    rows = []
    for i in range(frame.n_rows):
        held = [(name, column[i]) for name, column in columns]
        if frame.is_sparse:
            held = [(name, value) for name, value in held if isinstance(value, str) or value]
        rows.append(tuple((name, _shown(value)) for name, value in held[:_CELLS]))
    return rows


def _shown(value: Any) -> str:
    if value is None or value != value:
        return ""
    text = value if isinstance(value, str) else f"{value:.6g}"
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
