"""`colabel datasets`: the catalogue as a table."""

from __future__ import annotations

import os
from pathlib import Path

from rich import box
from rich.table import Table

from colabel.cli._console import output
from colabel.datasets.catalogue import CATALOGUE, CatalogueEntry
from colabel.datasets.loading import default_cache


def datasets() -> None:
    """List the data sets that can be loaded by name, and where each is found.

    [b]local[/b]: in the folder that COLABEL_DATA names; [b]cache[/b]: fetched before;
    [b]not here[/b]: neither.
    """
    home = os.environ.get("COLABEL_DATA")
    cache = Path(os.environ.get("COLABEL_CACHE") or default_cache())
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("name")
    for title in ("rows", "features", "labels"):
        table.add_column(title, justify="right")
    table.add_column("found")
    for entry in CATALOGUE.values():
        found = _where(entry, Path(home) if home else None, cache)
        style = "dim" if found == "not here" else None
        table.add_row(entry.name, *(f"{size:,}" for size in entry.shape), found, style=style)
    console = output()
    console.print(table)
    console.print(
        "\nLoad one with colabel.datasets.load(name): from the folder that COLABEL_DATA names, "
        "from the cache, or from OpenML."
    )


def _where(entry: CatalogueEntry, home: Path | None, cache: Path) -> str:
    """Say where the files of an entry are, without reading them."""
    stored = CATALOGUE[entry.derived_from] if entry.derived_from else entry
    files = [file for file, _ in stored.files]
    if home is not None and files and all((home / stored.name / file).is_file() for file in files):
        return "local"
    if (cache / "openml" / stored.name / "current.json").is_file():
        return "cache"
    return "not here"
