"""`colabel audit`: which given labels of a table look wrong."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from colabel.cli import _options as given
from colabel.cli._console import guarded, note, output, stderr_is_terminal, working
from colabel.cli._options import opt
from colabel.core.files import refuse_input, written_whole
from colabel.core.progress import columns

if TYPE_CHECKING:
    from colabel.decide import Audit
    from colabel.tables import TableData, TableRequest

_MODEL = (
    "auto (a forest of label vectors and a chain on forest features), or one of {models}."
    " {features}"
)
_FIX = (
    "Also write a copy of a CSV table with the corrections of --at-least, and a column that says"
    " what changed."
)
_SHOWN = 15  # labels on the screen
_LONGEST = 300  # characters of a cell on the page


@guarded
def audit(
    table: given.TableFile,
    labels: given.LabelColumns = [],
    model: Annotated[str, opt("NAME", _MODEL, "--model", "-m")] = "auto",
    cv: given.Folds = 5,
    output_file: Annotated[
        Path, opt("FILE", "A .csv, .csv.gz or .parquet file.", "--output", "-o")
    ] = Path("audit.csv"),
    page: Annotated[
        Path | None, opt("FILE", "Also a page to read, with the rows.", "--html", default=False)
    ] = None,
    fix: Annotated[Path | None, opt("FILE", _FIX, default=False)] = None,
    at_least: Annotated[
        float, opt("P", "How probable a correction must be.", min=0.5, max=1.0)
    ] = 0.95,
    most: Annotated[int, opt("N", "Most labels in the file and on the page.", min=1)] = 1000,
    rules: given.RulesFile = None,
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
    """Rank the labels of a table by how wrong they look, the worst first.

    Each label is judged by models that have not seen its row, from the
    features and the row's other labels: P(label | features, other labels).
    Rows are counted from 1.

    [bold]Examples[/bold]

      [cyan]colabel audit data.csv --labels 'tag_*' -o audit.csv --html audit.html[/cyan]

      [cyan]colabel audit data.csv --labels 'tag_*' --fix corrected.csv --at-least 0.99[/cyan]
    """
    from colabel.comparing import audit_table
    from colabel.report import write_audit_html
    from colabel.rules import Rules
    from colabel.tables import Answers, TableRequest, answers_written, load_table
    from colabel.tables.answers import check_ending

    check_ending(output_file)
    for target in (output_file, page, fix):
        if target is not None:
            refuse_input(target, table)
    options = given.reading_options(delimiter, encoding, missing, decimal)
    request = TableRequest(table, labels, separator, drop, category, text, options)
    data = load_table(request)
    with working("fitting models to folds", shown=stderr_is_terminal() and not quiet):
        known = None if rules is None else Rules.load(rules)
        found = audit_table(data, model, cv, seed, known)
    cells = found.worst_labels[:most]
    rows, at = data.row_numbers[cells[:, 0]] + 1, cells[:, 1]
    names = [found.space.names[i] for i in at]
    listed: dict[str, Any] = {
        "row": rows,
        "label": names,
        "given": [str(value) for value in found.values_at(found.codes, cells)],
        "probability": found.probability[cells[:, 0], at],
        "suggestion": [str(value) for value in found.values_at(found.suggestion, cells)],
        "gain": found.log_odds[cells[:, 0], at],
    }
    with answers_written(output_file) as write:
        write(Answers.of(list(listed), list(listed.values())))
    if page is not None:
        write_audit_html(page, found, data.row_numbers, _row_cells(data), most)
    n_changed = None if fix is None else _write_fixed(fix, request, data, found, at_least)
    n_wrong = found.n_wrong()
    if as_json:
        noise = {kind: asdict(rate) for kind, rate in found.noise().items()}
        summary = {"n_wrong": asdict(n_wrong), "noise": noise, "n_changed": n_changed}
        output().print_json(json.dumps({**summary, "output": str(output_file)}))
        return
    if quiet:
        return
    console = output()
    shown = columns(">row", "label", "given", ">P(given)", "rather", ">gain, nats")
    n_suspicious = int((listed["gain"] > 0).sum())
    for row in range(min(_SHOWN, n_suspicious)):
        shown.add_row(
            str(rows[row]),
            names[row],
            str(listed["given"][row]),
            f"{listed['probability'][row]:.3f}",
            str(listed["suggestion"][row]),
            f"{listed['gain'][row]:+.1f}",
        )
    if n_suspicious:
        console.print(shown)
    else:
        console.print("No given label is less probable than another value would be.")
    console.print(
        f"About {n_wrong.rate:,.0f} of {int(found.known.sum()):,} labels look wrong (between "
        f"{n_wrong.low:,.0f} and {n_wrong.high:,.0f}); {_rates(found)}. The worst "
        f"{len(cells):,} are in {output_file}.",
        markup=False,
        soft_wrap=True,
    )
    if fix is not None:
        console.print(f"{n_changed:,} labels are corrected in {fix}.", markup=False, soft_wrap=True)
    if page is not None:
        console.print(f"The page is {page}.", markup=False, soft_wrap=True)
    if found.broken.any():
        rows_broken = data.row_numbers[found.broken][:5] + 1
        note(
            f"{int(found.broken.sum()):,} rows break a rule, such as "
            f"{', '.join(map(str, rows_broken))}: they come first on the page."
        )
    if data.n_unlabelled:
        note(f"{data.n_unlabelled:,} rows without any label were left out.")


def _rates(found: Audit) -> str:
    """Say how often labels are wrong, and name the label that is forgotten most."""
    noise = found.noise()
    if "wrong" in noise:
        return f"{noise['wrong'].rate:.1%} of them"
    said = f"{noise['forgotten'].rate:.1%} forgotten, {noise['added'].rate:.1%} added"
    each = {name: found.noise(name)["forgotten"] for name in found.space.names}
    often = [name for name, rate in each.items() if rate.low > 2 * noise["forgotten"].rate + 0.02]
    if often:
        worst = max(often, key=lambda name: each[name].rate)
        said += f"; {worst} is forgotten most ({each[worst].rate:.0%})"
    return said


def _row_cells(data: TableData) -> Any:
    """Return a function that gives what the columns of a row hold, for people."""

    def cells(row: int) -> list[tuple[str, str]]:
        frame = data.features.rows(slice(row, row + 1))
        values = ((name, str(frame.column(name)[0])) for name in frame.names[:30])
        return [(name, text[:_LONGEST]) for name, text in values if text not in ("", "nan", "None")]

    return cells


def _write_fixed(
    target: Path, request: TableRequest, data: TableData, found: Audit, at_least: float
) -> int:
    """Write a copy of a CSV table with corrected labels; return how many were corrected."""
    import numpy as np

    from colabel.tables import TableError
    from colabel.tables.csv_file import CsvSource
    from colabel.tables.text import LONGEST_LINE, open_text

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
