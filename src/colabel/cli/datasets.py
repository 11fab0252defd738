"""`colabel datasets`: the catalogue as a table, and data sets as CSV files."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from colabel.cli._console import guarded, output
from colabel.cli._options import Plain, PlainGroup
from colabel.core.files import written_whole
from colabel.core.progress import columns

if TYPE_CHECKING:
    from colabel.datasets import Dataset

BUNDLED = "digit-traits"
_MOST_CELLS = 50_000_000

datasets = typer.Typer(
    cls=PlainGroup,
    name="datasets",
    help="List the data sets the library knows by name, or write one as a CSV file.",
    invoke_without_command=True,
    rich_markup_mode="rich",
)


@datasets.command(cls=Plain)
@guarded
def export(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help=f"{BUNDLED}, or a name of colabel datasets.")
    ],
    output_file: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="The CSV file.", show_default="NAME.csv"
        ),
    ] = None,
) -> None:
    """Write a data set as a CSV file, features first, then labels.

    [bold]Example[/bold]

      [cyan]colabel datasets export digit-traits -o digits.csv[/cyan]
    """
    from colabel.datasets import load, load_digit_traits
    from colabel.tables import TableError

    name = BUNDLED if name.replace("_", "-") == BUNDLED else name
    data = load_digit_traits() if name == BUNDLED else load(name)
    file = output_file or Path(f"{name}.csv")
    if data.n_rows * (data.n_features + data.n_labels) > _MOST_CELLS:
        raise TableError(f"{name!r} is too large for a CSV file: load it in Python.")
    _write(data, file)
    output().print(
        f"{data.n_rows:,} rows, {data.n_features:,} features and {data.n_labels:,} labels "
        f"({', '.join(data.label_names[:8])}{', …' if data.n_labels > 8 else ''}) written to "
        f"{file}.",
        markup=False,
        soft_wrap=True,
    )


def _write(data: Dataset, file: Path) -> None:
    rows = range(data.n_rows)
    with written_whole(file) as part, part.open("w", encoding="utf-8", newline="") as text:
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow([*data.feature_names, *data.label_names])
        for i in rows:
            block: Any = data.X[[i]]
            features = (block.toarray() if data.is_sparse else block)[0]
            cells = [("" if v != v else f"{v:.15g}") for v in features.tolist()]
            writer.writerow([*cells, *("" if v is None else v for v in data.Y[i].tolist())])


@datasets.callback()
def listed(context: typer.Context) -> None:
    """List the data sets the library knows by name, or write one as a CSV file."""
    if context.invoked_subcommand is not None:
        return
    from colabel.datasets import OPENML

    table = columns("name", "from")
    table.add_row(BUNDLED, "scikit-learn's digits, part of the library")
    for name, number in OPENML.items():
        table.add_row(name, f"OpenML {number}, fetched when it is asked for")
    output().print(table)
