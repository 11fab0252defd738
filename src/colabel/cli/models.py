"""`colabel models`: what may be typed after --model, each in one line."""

from __future__ import annotations

from rich import box
from rich.table import Table

from colabel.cli._console import output
from colabel.cli._guard import guarded


@guarded
def models() -> None:
    """List the models by the names that fit and compare take.

    [bold]Example[/bold]

      [cyan]colabel models[/cyan]
    """
    from colabel.tables.model_names import FEATURE_NAMES, MODEL_NAMES, description

    table = Table(
        "name", "class", "what it is", box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False
    )
    for name, kind in MODEL_NAMES.items():
        table.add_row(name, kind.__name__, description(kind))
    table.add_section()
    for name, kind in FEATURE_NAMES.items():
        table.add_row(f"{name}+…", kind.__name__, description(kind))
    output().print(table)
