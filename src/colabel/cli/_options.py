"""Arguments and options that several commands share."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

if TYPE_CHECKING:
    from colabel.tables import ReadingOptions

_COLUMNS = "A name, a glob ('tag_*'), a list file (@names.txt, @mulan.xml), or a,b,c"

TableFile = Annotated[
    Path,
    typer.Argument(
        metavar="TABLE", help="A .csv, .tsv, .arff or .parquet file; the text formats also as .gz."
    ),
]
TableParts = Annotated[
    list[str],
    typer.Argument(
        metavar="TABLE...",
        help="A .csv, .tsv, .arff or .parquet file; the text formats also as .gz. Several files, "
        "or a quoted glob such as 'part-*.parquet', are the parts of one table.",
    ),
]
Keep = Annotated[
    list[str],
    typer.Option(
        metavar="COLUMNS",
        help="Columns to keep beside the answers, such as one that names the rows.",
        show_default=False,
    ),
]
Folds = Annotated[int, typer.Option("--cv", metavar="N", help="Folds of the cross-validation.")]
Known = Annotated[
    list[str],
    typer.Option(
        "--given",
        metavar="COLUMNS",
        help="Columns of labels already known: named like the labels, 'known_*', or of tags.",
        show_default=False,
    ),
]
ModelFile = Annotated[Path, typer.Argument(metavar="MODEL", help="A file written by colabel fit.")]


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


LabelColumns = Annotated[
    list[str],
    typer.Option(
        "--labels",
        "-l",
        metavar="COLUMNS",
        help=f"The label columns. {_COLUMNS}. Repeatable. A MEKA file needs none: its -C counts"
        " them.",
        callback=_needed_labels,
        show_default=False,
    ),
]
Separator = Annotated[
    str | None,
    typer.Option(
        metavar="CHAR",
        help="What separates the tags in a single label column; found out if left away.",
        show_default=False,
    ),
]
Drop = Annotated[
    list[str], typer.Option(metavar="COLUMNS", help="Columns to leave out.", show_default=False)
]
Category = Annotated[
    list[str],
    typer.Option(metavar="COLUMNS", help="Columns that are categories.", show_default=False),
]
Text = Annotated[
    list[str], typer.Option(metavar="COLUMNS", help="Columns of text.", show_default=False)
]
Missing = Annotated[
    list[str],
    typer.Option(
        metavar="TEXT",
        help="What else means missing, beside empty, ?, NA, NaN and null.",
        show_default=False,
    ),
]
Delimiter = Annotated[
    str, typer.Option(metavar="CHAR", help="Of a CSV file.", show_default="found out")
]
Decimal = Annotated[
    str,
    typer.Option(
        metavar="CHAR",
        help="What stands before a fraction in a CSV file, a point or a comma; the other may"
        " separate thousands.",
        show_default="found out",
    ),
]
Encoding = Annotated[str, typer.Option(metavar="NAME", help="Encoding of a text file.")]
Trust = Annotated[
    bool,
    typer.Option(
        "--trust",
        help="Load a classifier in the model that cannot be checked, such as boosting, whose code"
        " runs: only of a file from someone you trust.",
    ),
]
Thresholds = Annotated[
    bool,
    typer.Option(
        "--thresholds", help="Predict each label by a threshold of its own, tuned for macro F1."
    ),
]
Seed = Annotated[int, typer.Option(min=0, max=2**32 - 1, metavar="N", help="Seed.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only results and errors.")]


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
