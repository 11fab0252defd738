"""Arguments and options that several commands share."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

if TYPE_CHECKING:
    from colabel.tables import ReadingOptions

_FILES = "A .csv, .tsv or .arff file, each also as .gz; or .parquet, .feather, .jsonl or .xlsx."


def opt(metavar: str, help: str, *names: str, default: str | bool = True, **more: Any) -> Any:
    """Return an option; `default` is what the help shows of its default, False for nothing."""
    return typer.Option(*names, metavar=metavar or None, help=help, show_default=default, **more)


def _columns(help: str, *names: str) -> Any:
    return opt("COLUMNS", help, *names, default=False)


def _needed_labels(ctx: typer.Context, value: list[str]) -> list[str]:
    """Refuse a table without named labels before anything is imported, unless it may be MEKA's."""
    tables = ctx.params.get("table") or ()
    files = [str(tables)] if isinstance(tables, Path | str) else list(map(str, tables))
    if not value and not any(".arff" in file.lower() for file in files):
        raise typer.BadParameter(
            "name the label columns. Only a MEKA file (.arff) says itself which they are.",
            param_hint="'--labels' / '-l'",
        )
    return value


_LABELS = (
    "The label columns. A name, a glob ('tag_*'), a list file (@names.txt, @mulan.xml), or a,b,c."
    " Repeatable. A MEKA file needs none: its -C counts them."
)
_PARTS = " Several files, or a quoted glob such as 'part-*.parquet', are the parts of one table."
_KEEP = "Columns to keep beside the answers, such as one that names the rows."
_KNOWN = "Columns of labels already known: named like the labels, 'known_*', or of tags."
_SEPARATOR = "What separates the tags in a single label column; found out if left away."
_MISSING = "What else means missing, beside empty, ?, NA, NaN and null."
_DECIMAL = (
    "What stands before a fraction in a CSV file, a point or a comma; the other may separate"
    " thousands."
)
_TRUST = (
    "Load a classifier in the model that cannot be checked, such as boosting, whose code runs: only"
    " of a file from someone you trust."
)
_FORMULAS = "Write texts that a spreadsheet would run (=, +, -, @) without an apostrophe before."
_THRESHOLDS = "Predict each label by a threshold of its own, tuned for macro F1."

TableFile = Annotated[Path, typer.Argument(metavar="TABLE", help=_FILES)]
TableParts = Annotated[list[str], typer.Argument(metavar="TABLE...", help=_FILES + _PARTS)]
ModelFile = Annotated[Path, typer.Argument(metavar="MODEL", help="A file written by colabel fit.")]
LabelColumns = Annotated[
    list[str],
    opt("COLUMNS", _LABELS, "--labels", "-l", default=False, callback=_needed_labels),
]
Keep = Annotated[list[str], _columns(_KEEP)]
Known = Annotated[list[str], _columns(_KNOWN, "--given")]
Drop = Annotated[list[str], _columns("Columns to leave out.")]
Category = Annotated[list[str], _columns("Columns that are categories.")]
Text = Annotated[list[str], _columns("Columns of text.")]
Separator = Annotated[str | None, opt("CHAR", _SEPARATOR, default=False)]
Missing = Annotated[list[str], opt("TEXT", _MISSING, default=False)]
Delimiter = Annotated[str, opt("CHAR", "Of a CSV file.", default="found out")]
Decimal = Annotated[str, opt("CHAR", _DECIMAL, default="found out")]
Encoding = Annotated[str, opt("NAME", "Encoding of a text file.")]
Folds = Annotated[int, opt("N", "Folds of the cross-validation.", "--cv")]
Seed = Annotated[int, opt("N", "Seed.", min=0, max=2**32 - 1)]
Trust = Annotated[bool, opt("", _TRUST, "--trust")]
RulesFile = Annotated[
    Path | None,
    opt("FILE", "Rules on label sets, one per line, that every answer obeys.", default=False),
]
Thresholds = Annotated[bool, opt("", _THRESHOLDS, "--thresholds")]
Formulas = Annotated[bool, opt("", _FORMULAS, "--formulas")]
AsJson = Annotated[bool, opt("", "Print one JSON object instead of text.", "--json")]
Quiet = Annotated[bool, opt("", "Print only results and errors.", "--quiet", "-q")]


def reading_options(
    delimiter: str, encoding: str, missing: Sequence[str], decimal: str = ""
) -> ReadingOptions:
    """Gather how a file is read; a tab may be written as a backslash and a t."""
    from colabel.tables import ReadingOptions

    return ReadingOptions(delimiter.replace("\\t", "\t"), encoding, tuple(missing), decimal=decimal)


class _PlainFlags:
    """Says nothing of the type of a flag: it is there or not."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters."""
        parameters: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for parameter in parameters:
            if getattr(parameter, "is_flag", False):
                parameter.metavar = ""
        return parameters


class Plain(_PlainFlags, TyperCommand):
    """A command in whose help a flag is only a flag."""


class PlainGroup(_PlainFlags, TyperGroup):
    """Commands in whose help a flag is only a flag."""


class NamesModels(Plain):
    """A command whose help names models, looked up when it is asked for.

    ``{models}`` is all of them, ``{features}`` says what may stand before one.
    """

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the names in, then the help."""
        from colabel.cli.models import known_features, known_models

        prefixes = " or ".join(f"{name}+" for name in known_features())
        known = {
            "{models}": ", ".join(known_models()),
            "{features}": f"Prefix one with {prefixes} to fit it on such features.",
        }
        parameter: Any
        for parameter in self.params:
            for place, names in known.items():
                if isinstance(getattr(parameter, "help", None), str):
                    parameter.help = parameter.help.replace(place, names)
        super().format_help(ctx, formatter)
