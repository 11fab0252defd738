"""`colabel models`: the models by the names that commands take.

The list is read from the sources: nothing that takes long is imported to show it.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

from colabel.cli._console import guarded, output
from colabel.core.progress import columns

_CLASS = re.compile(r'(?m)^class (\w+)\(([^)]*)\):\n    r?"""(.*)\n((?:[ \n].*\n?|\n)*)')
_SHORT_NAME = re.compile(r'\n    short_name.* = "(\w+)"')


class Known(NamedTuple):
    """The class of a model or of features, and the first line of its docstring."""

    kind: str
    description: str


@cache
def known_models() -> dict[str, Known]:
    """Return the probabilistic models but those around others, by their short names."""
    from colabel import models

    found = {}
    for name, bases, description, body in _classes("models"):
        learns = " def _joint(" in body or " short_name" in body
        if name in models.__all__ and learns and "Mixin" not in bases:
            short = _SHORT_NAME.search(body)
            found[short[1] if short else name.lower()] = Known(name, description)
    return dict(sorted(found.items()))


@cache
def known_features() -> dict[str, Known]:
    """Return what may stand before a model, joined to its name by a plus."""
    kinds = {name: Known(name, said) for name, _, said, _ in _classes("preprocess")}
    return {name: kinds[f"{name.capitalize()}Features"] for name in ("forest", "kernel")}


def _classes(room: str) -> list[tuple[str, str, str, str]]:
    """Return name, bases, first line of the docstring and body of every class of a room."""
    files = (Path(__file__).parents[1] / room).rglob("*.py")
    texts = (file.read_text("utf-8") for file in files if not file.stem.startswith("base"))
    return [found for text in texts for found in _CLASS.findall(text)]


@guarded
def models() -> None:
    """List the models by the names that fit and compare take.

    [bold]Example[/bold]

      [cyan]colabel models[/cyan]
    """
    table = columns("name", "class", "what it is")
    for name, known in known_models().items():
        table.add_row(name, *known)
    table.add_section()
    for name, known in known_features().items():
        table.add_row(f"{name}+…", *known)
    output().print(table)
