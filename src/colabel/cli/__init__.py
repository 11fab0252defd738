"""The command line, `colabel`."""

from __future__ import annotations

import sys
from io import TextIOWrapper
from typing import Annotated

import typer

from colabel._version import __version__
from colabel.cli._console import Plain, PlainGroup
from colabel.cli.applying import ask, evaluate, explain, explore, predict
from colabel.cli.choosing import audit, compare, rules
from colabel.cli.fitting import fit
from colabel.cli.listing import datasets, demo, models

__all__ = ["app", "main"]

_EXAMPLES = """
[bold]Examples[/bold]

  [cyan]colabel compare data.csv -l 'tag_*'[/cyan]            which model suits a table

  [cyan]colabel fit data.csv -l 'tag_*' -o m.colabel[/cyan]   fit one and save it

  [cyan]colabel predict m.colabel new.csv -o out.csv[/cyan]   label new rows

  [cyan]colabel evaluate m.colabel test.csv[/cyan]            how good it is on other rows

  [cyan]colabel audit data.csv -l 'tag_*' --html a.html[/cyan] which labels look wrong

  [cyan]colabel rules data.csv -l 'tag_*' -o rules.txt[/cyan] what holds for all label sets

  [cyan]colabel ask m.colabel new.csv -o ask.csv[/cyan]       which label to check first

  [cyan]colabel explain m.colabel new.csv --row 17[/cyan]     why these labels together

  [cyan]colabel explore m.colabel new.csv -o e.html[/cyan]    a page to ask about its rows

  [cyan]colabel demo --quick[/cyan]                           two models on bundled data

[bold]Exit codes[/bold]

  0 fine · 1 a fault of colabel · 2 wrong use, file, column or value

  3 a model or result file that cannot be used safely · 130 interrupted
"""

app = typer.Typer(
    name="colabel",
    cls=PlainGroup,
    epilog=_EXAMPLES,
    rich_markup_mode="rich",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for _one in (demo, compare, fit, predict, evaluate, audit, rules, ask, explain, explore, models):
    app.command(cls=Plain)(_one)
app.add_typer(datasets)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"colabel {__version__}")
        raise typer.Exit


@app.callback()
def _colabel(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version and stop."
        ),
    ] = False,
) -> None:
    """Learn P(y | x) for many labels at once, and ask it anything."""


def main() -> None:
    """Run the command line."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            # a terminal that cannot show a character shows "?" instead of a traceback
            stream.reconfigure(errors="replace")
    app()
