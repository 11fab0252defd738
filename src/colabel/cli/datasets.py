"""`colabel datasets`: the catalogue as a table, and data sets as CSV files."""

from __future__ import annotations

import csv
import os
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from colabel.cli._console import guarded, output
from colabel.cli._options import Plain, PlainGroup
from colabel.core.files import written_whole
from colabel.core.progress import columns

if TYPE_CHECKING:
    from colabel.datasets import Dataset
    from colabel.datasets.catalogue import CatalogueEntry

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
    from colabel.datasets import DatasetError, list_datasets, load, load_digit_traits

    name = BUNDLED if name.replace("_", "-") == BUNDLED else name
    if name not in (BUNDLED, *(known := list_datasets())):
        close = get_close_matches(name.lower(), [BUNDLED, *known], n=3)
        hint = f"did you mean {' or '.join(close)}?" if close else "colabel datasets lists them."
        raise DatasetError(f"There is no data set {name!r}: {hint}")
    data = load_digit_traits() if name == BUNDLED else load(name)
    file = output_file or Path(f"{name}.csv")
    if data.n_rows * (data.n_features + data.n_labels) > _MOST_CELLS:
        raise DatasetError(f"{name!r} is too large for a CSV file: load it in Python.")
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
    """List the data sets the library knows by name, or write one as a CSV file.

    [b]bundled[/b]: part of the library; [b]local[/b]: in the folder that COLABEL_DATA names;
    [b]cache[/b]: fetched before; [b]not here[/b]: none of these.
    """
    if context.invoked_subcommand is not None:
        return
    from colabel.datasets import load_digit_traits
    from colabel.datasets.catalogue import CATALOGUE
    from colabel.datasets.loading import default_cache

    home = os.environ.get("COLABEL_DATA")
    cache = Path(os.environ.get("COLABEL_CACHE") or default_cache())
    table = columns("name", ">rows", ">features", ">labels", "found")
    own = load_digit_traits()
    sizes = (own.n_rows, own.n_features, own.n_labels)
    table.add_row(BUNDLED, *(f"{size:,}" for size in sizes), "bundled")
    # cut or mended from another that is listed
    derived = [entry for entry in CATALOGUE.values() if entry.derived_from]
    for entry in CATALOGUE.values():
        if entry in derived:
            continue
        found = _where(entry, Path(home) if home else None, cache)
        style = "dim" if found == "not here" else None
        table.add_row(entry.name, *(f"{size:,}" for size in entry.shape), found, style=style)
    console = output()
    console.print(table)
    names = f"{derived[0].name}, {derived[1].name}, …" if len(derived) > 1 else ""
    console.print(
        f"\n{len(derived)} more are cut or mended from these ({names}): list_datasets() has all."
        " Load one with colabel.datasets.load(name): from the folder that COLABEL_DATA names, "
        "from the cache, or from OpenML; digit-traits with load_digit_traits()."
    )


def _where(entry: CatalogueEntry, home: Path | None, cache: Path) -> str:
    """Say where the files of an entry are, without reading them."""
    files = [file for file, _ in entry.files]
    if home is not None and files and all((home / entry.name / file).is_file() for file in files):
        return "local"
    if (cache / "openml" / entry.name / "description.json").is_file():
        return "cache"
    return "not here"
