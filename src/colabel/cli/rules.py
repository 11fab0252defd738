"""`colabel rules`: what holds for the label sets of all rows of a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from colabel.cli import _options as given
from colabel.cli._console import guarded, output
from colabel.core.files import refuse_input, written_whole


@guarded
def rules(
    table: given.TableFile,
    labels: given.LabelColumns = [],
    output_file: Annotated[
        Path | None, given.opt("FILE", "Where the rules go; else the screen.", "--output", "-o")
    ] = None,
    check: Annotated[
        Path | None,
        given.opt("FILE", "Say which rows break the rules of this file instead.", default=False),
    ] = None,
    support: Annotated[
        int, given.opt("N", "Rows that could have broken a rule, at least.", min=1)
    ] = 10,
    separator: given.Separator = None,
    missing: given.Missing = [],
    delimiter: given.Delimiter = "",
    decimal: given.Decimal = "",
    encoding: given.Encoding = "utf-8",
) -> None:
    """Suggest rules on label sets: implications, exclusions and counts that all rows obey.

    They are printed as a file to edit: delete what merely happens to hold. The
    most surprising rules, if labels were independent, come first.

    [bold]Examples[/bold]

      [cyan]colabel rules data.csv --labels 'tag_*' -o rules.txt[/cyan]

      [cyan]colabel rules data.csv --labels 'tag_*' --check rules.txt[/cyan]

      [cyan]colabel fit data.csv --labels 'tag_*' --rules rules.txt[/cyan]
    """
    from colabel.rules import Rules
    from colabel.tables import TableRequest, load_table

    refuse_input(output_file, table)
    options = given.reading_options(delimiter, encoding, missing, decimal)
    data = load_table(TableRequest(table, labels, separator, [], [], [], options))
    console = output()
    if check is not None:
        found = Rules.load(check).violations(data.labels.Y, data.labels.names)
        numbered = found._replace(rows=data.row_numbers[found.rows] + 1)
        console.print(str(numbered), markup=False, highlight=False, soft_wrap=True)
        if len(found.rows):
            raise typer.Exit(2)
        return
    lines = [f"# Rules that all {data.features.n_rows:,} rows obey. Delete what need not hold."]
    for one in Rules.suggest(data.labels.Y, data.labels.names, min_support=support):
        lines.append(f"{one.rule.text}  # {one.support:,} rows could have broken it")
    if len(lines) == 1:
        lines = [
            f"# No rule on two 0/1 labels holds in all {data.features.n_rows:,} rows and could "
            f"have been broken by {support:,} of them."
        ]
    if output_file is None:
        console.print("\n".join(lines), markup=False, highlight=False, soft_wrap=True)
        return
    with written_whole(output_file) as part:
        part.write_text("\n".join(lines) + "\n", encoding="utf-8")
    console.print(f"{len(lines) - 1:,} rules are in {output_file}.", markup=False, soft_wrap=True)
