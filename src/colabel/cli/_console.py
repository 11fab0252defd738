"""What the commands share: where they print, how they stop, their options, answers on their way."""

from __future__ import annotations

import functools
import inspect
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, NoReturn, TextIO

import typer
from rich.console import Console
from rich.markup import escape
from typer.core import TyperCommand, TyperGroup

from colabel.core.compiling import told_when_compiling
from colabel.core.progress import columns, row_counter

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.status import Status

    from colabel.tables import Frame, ReadingOptions, TableModel, TableRequest

# Exit codes; `colabel --help` lists them.
INTERNAL = 1  # a fault of colabel
WRONG_USE = 2  # a command, file, column or value that cannot work
MODEL_REFUSED = 3  # a model file that is damaged, too new, not safe, or not there; or results
INTERRUPTED = 130

_SHOWN = 20  # rows on a screen
_CELLS = 30  # columns that are shown of a row
# Control characters but newline and tab, as they are shown.
_WRITTEN_OUT = {n: ascii(chr(n))[1:-1] for n in (*range(9), *range(11, 32), *range(127, 160))}


class _Console(Console):
    """Stays silent when nobody reads any more, as behind `head`; shows names as they are.

    Control characters in the names and values of a table are written out: none reaches a terminal.
    """

    def render(self, renderable: Any, options: Any = None) -> Iterator[Any]:
        for segment in super().render(renderable, options):
            shown = segment.text.translate(_WRITTEN_OUT)
            yield segment if segment.control else segment._replace(text=shown)

    def on_broken_pipe(self) -> None:
        self.quiet = True
        _silence(sys.stderr if self.stderr else sys.stdout)


def _silence(stream: TextIO) -> None:
    """Let nothing that is still written to a stream reach the reader, who has gone."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def output() -> Console:
    """Give the console for results: plain text unless standard output is a terminal."""
    return _Console(highlight=False)


def messages() -> Console:
    """Give the console for what is said beside the results, on standard error."""
    return _Console(stderr=True, highlight=False)


def stderr_is_terminal() -> bool:
    """Whether somebody is watching standard error, where progress is shown."""
    return messages().is_terminal


def working(what: str, *, shown: bool) -> AbstractContextManager[Status | None]:
    """Show on a terminal that work is going on, and at what."""
    console = messages()
    return console.status(escape(what)) if shown and console.is_terminal else nullcontext()


def note(sentence: str) -> None:
    """Say on standard error what may be of interest."""
    messages().print(f"[bold]Note:[/bold] {escape(sentence)}", soft_wrap=True)


def fail(sentence: str, code: int = INTERNAL) -> NoReturn:
    """Say on standard error what was wrong, on one line, and stop with an exit code."""
    messages().print(f"[bold red]Error:[/bold red] {escape(sentence)}", soft_wrap=True)
    raise typer.Exit(code)


# ------------------------------------------------------------------------ options

_FILES = "A .csv, .tsv or .arff file, each also as .gz; or .parquet, .feather, .jsonl or .xlsx."
_PARTS = " Several files, or a quoted glob such as 'part-*.parquet', are the parts of one table."
_LABELS = (
    "The label columns. A name, a glob ('tag_*'), a list file (@names.txt, @mulan.xml), or a,b,c."
    " Repeatable. A MEKA file needs none: its -C counts them."
)
_KEEP = "Columns to copy beside the answers, such as one that names the rows."
_KNOWN = "Columns of labels already known: named like the labels, 'known_*', or of tags."
_SEPARATOR = "Separator of the tags in a single label column; detected by default."
_MISSING = "Another text that means missing, beside empty, ?, NA, NaN and null."
_DECIMAL = "Decimal mark of a CSV file, a point or a comma; the other may separate thousands."
_TRUST = (
    "Load a classifier in the model that cannot be checked, such as boosting, whose code runs: only"
    " of a file from someone you trust."
)
_FORMULAS = "Write text that a spreadsheet would run (=, +, -, @) without a leading apostrophe."
_THRESHOLDS = "Predict each label by a threshold of its own, tuned for macro F1."
_RULES = "File of rules on label sets, one per line, that every answer obeys."


def opt(metavar: str, help: str, *names: str, default: str | bool = True, **more: Any) -> Any:
    """Return an option; `default` is what the help shows of its default, False for nothing."""
    return typer.Option(*names, metavar=metavar or None, help=help, show_default=default, **more)


def columns_option(help: str, *names: str) -> Any:
    """Return an option that names columns."""
    return opt("COLUMNS", help, *names, default=False)


def answers_option(more: str = "") -> Any:
    """Return the option of the file that answers go to; "-" is standard output, too."""
    return opt(
        "FILE",
        f"A .csv, .csv.gz or .parquet file{more}.",
        "--output",
        "-o",
        default="the screen: the first rows, or CSV for another program",
        callback=lambda file: None if file is None or str(file) == "-" else file,
    )


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


TableFile = Annotated[Path, typer.Argument(metavar="TABLE", help=_FILES)]
TableParts = Annotated[list[str], typer.Argument(metavar="TABLE...", help=_FILES + _PARTS)]
ModelFile = Annotated[Path, typer.Argument(metavar="MODEL", help="A file written by colabel fit.")]
_LabelColumns = Annotated[
    list[str],
    opt("COLUMNS", _LABELS, "--labels", "-l", default=False, callback=_needed_labels),
]
Keep = Annotated[list[str], columns_option(_KEEP)]
Known = Annotated[list[str], columns_option(_KNOWN, "--given")]
Folds = Annotated[int, opt("N", "Folds of the cross-validation.", "--cv")]
Seed = Annotated[int, opt("N", "Seed.", min=0, max=2**32 - 1)]
Trust = Annotated[bool, opt("", _TRUST, "--trust")]
RulesFile = Annotated[Path | None, opt("FILE", _RULES, default=False)]
Thresholds = Annotated[bool, opt("", _THRESHOLDS, "--thresholds")]
Formulas = Annotated[bool, opt("", _FORMULAS, "--formulas")]
AsJson = Annotated[bool, opt("", "Print one JSON object instead of text.", "--json")]
Quiet = Annotated[bool, opt("", "Print only results and errors.", "--quiet", "-q")]


def page_option(help: str) -> Any:
    """Return the option of a page that is written, too."""
    return opt("FILE", help, "--html", default=False)


class _Bundle(NamedTuple):
    """Options that stand for one argument of a command, and how it is made of them."""

    options: Mapping[str, tuple[Any, Any]]  # annotation and default
    made: Callable[..., Any]


def _reading(delimiter: str, decimal: str, encoding: str, missing: Sequence[str]) -> ReadingOptions:
    """Gather how a file is read; a tab may be written as a backslash and a t."""
    from colabel.tables import ReadingOptions

    return ReadingOptions(delimiter.replace("\\t", "\t"), encoding, tuple(missing), decimal=decimal)


def _table_request(
    table: Any,
    labels: list[str],
    separator: str | None = None,
    drop: Sequence[str] = (),
    category: Sequence[str] = (),
    text: Sequence[str] = (),
    **reading: Any,
) -> Any:
    """Return a request for one table, or for a table in parts and the files of these."""
    from colabel.tables import TableRequest, find_parts

    options = _reading(**reading)
    if isinstance(table, Path):
        return TableRequest(table, labels, separator, drop, category, text, options)
    parts, more = find_parts(table), f" and {len(table) - 1} more" * (len(table) > 1)
    path = parts[0] if len(parts) == 1 else Path(f"{table[0]}{more}")
    return TableRequest(path, labels, separator, drop, category, text, options), parts


_OPTIONS: dict[str, tuple[Any, Any]] = {
    "table": (TableFile, inspect.Parameter.empty),
    "labels": (_LabelColumns, []),
    "separator": (Annotated[str | None, opt("CHAR", _SEPARATOR, default=False)], None),
    "drop": (Annotated[list[str], columns_option("Columns to leave out.")], []),
    "category": (Annotated[list[str], columns_option("Columns that are categories.")], []),
    "text": (Annotated[list[str], columns_option("Columns of text.")], []),
    "missing": (Annotated[list[str], opt("TEXT", _MISSING, default=False)], []),
    "delimiter": (Annotated[str, opt("CHAR", "Delimiter of a CSV file.", default="detected")], ""),
    "decimal": (Annotated[str, opt("CHAR", _DECIMAL, default="detected")], ""),
    "encoding": (Annotated[str, opt("NAME", "Encoding of a text file.")], "utf-8"),
}
if TYPE_CHECKING:
    Reading = ReadingOptions
    LabelledTable = TableRequest
    LearnedTable = TableRequest
    LearnedParts = tuple[TableRequest, list[Path]]
else:
    _PARTS = {**_OPTIONS, "table": (TableParts, inspect.Parameter.empty)}
    _ROLES = ("drop", "category", "text")
    Reading = _Bundle(dict(list(_OPTIONS.items())[6:]), _reading)
    LabelledTable = _Bundle({k: v for k, v in _OPTIONS.items() if k not in _ROLES}, _table_request)
    LearnedTable = _Bundle(_OPTIONS, _table_request)
    LearnedParts = _Bundle(_PARTS, _table_request)


# -------------------------------------------------------------------------- how a command ends


def command(function: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options that its arguments stand for, and let it end in a sentence.

    What it raises becomes a sentence and an exit code, and warnings become notes. With
    COLABEL_DEBUG set, errors keep their traceback.
    """
    own = inspect.signature(function, eval_str=True).parameters.values()
    bundles = {p.name: p.annotation for p in own if isinstance(p.annotation, _Bundle)}
    options = {
        name: inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=d, annotation=a)
        for bundle in bundles.values()
        for name, (a, d) in bundle.options.items()
    }
    first = [options.pop(name) for name in ("table", "labels") if name in options]
    plain = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own if p.name not in bundles]
    # arguments before options, and what is typed most before what says how a file is read
    arguments = [p for p in plain if p.default is inspect.Parameter.empty]
    last = [p for p in plain if p.name in ("seed", "as_json", "quiet")]
    middle = [p for p in plain if p not in arguments + last]

    @functools.wraps(function)
    def run(**given: Any) -> None:
        def made() -> None:
            for name, bundle in bundles.items():
                given[name] = bundle.made(**{one: given.pop(one) for one in bundle.options})
            function(**given)

        if os.environ.get("COLABEL_DEBUG"):
            made()
            return
        seen: set[str] = set()

        def warn(message: Warning | str, *_: Any, **__: Any) -> None:
            text = " ".join(str(message).split())
            if not given.get("quiet") and text not in seen:
                seen.add(text)
                note(text)

        with warnings.catch_warnings(), told_when_compiling(warn):
            warnings.showwarning = warn
            try:
                made()
            except (typer.Exit, typer.Abort):
                raise
            except BrokenPipeError:
                # who read the output has stopped reading, as `head` does; nothing is wrong
                _silence(sys.stdout)
                raise typer.Exit(0) from None
            except BaseException as error:
                fail(*_sentence(error))

    shown = [*arguments, *first, *middle, *options.values(), *last]
    run.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in shown}
    return run


def _sentence(error: BaseException) -> tuple[str, int]:
    """Return what to say of an error, and the exit code."""
    from colabel.saving import ModelFileError

    said = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, ModelFileError):
        return said, MODEL_REFUSED
    if isinstance(error, KeyboardInterrupt):
        return "Stopped; nothing was written.", INTERRUPTED
    if isinstance(error, MemoryError):
        return "There is not enough memory: use fewer rows or fewer columns.", WRONG_USE
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror or error}.", WRONG_USE
    if isinstance(error, ValueError | ImportError | NotImplementedError):
        # the library's own errors are sentences that say what to do
        return said, WRONG_USE
    if not isinstance(error, Exception):
        raise error
    return (
        f"colabel failed by a fault of its own ({type(error).__name__}: {said}): please report it."
        " With COLABEL_DEBUG=1 the same command shows where.",
        INTERNAL,
    )


class _PlainFlags:
    """Says nothing of the type of a flag: it is there or not."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters."""
        parameters: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for parameter in parameters:
            if getattr(parameter, "is_flag", False):
                parameter.metavar = ""
        return parameters


class PlainGroup(_PlainFlags, TyperGroup):
    """Commands in whose help a flag is only a flag."""


class Plain(_PlainFlags, TyperCommand):
    """A command in whose help a flag is only a flag, and which may name models.

    In the help of an option ``{models}`` is all of them, ``{features}`` says what may stand before
    one: looked up when the help is asked for.
    """

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the names in, then the help."""
        from colabel.cli.listing import known_features, known_models

        for parameter in self.params:
            said = getattr(parameter, "help", None)
            if isinstance(said, str) and "{models}" in said:
                prefixes = " or ".join(f"{name}+" for name in known_features())
                features = f"Prefix one with {prefixes} to fit it on such features."
                named = said.format(models=", ".join(known_models()), features=features)
                parameter.help = named  # type: ignore[attr-defined]
        super().format_help(ctx, formatter)


# ------------------------------------------------------------------------ models and answers


def load_table_model(path: Path, *, trust: bool = False) -> TableModel:
    """Load a model that `colabel fit` has saved; with `trust` also what cannot be checked."""
    from colabel.saving import ModelFileError, load, types_to_trust
    from colabel.tables import TableModel
    from colabel.tables.reading import is_table_name

    if is_table_name(path):
        raise ModelFileError(
            f"{path} is a table by its name: the model comes first, then the table."
        )
    model = load(path, trusted=types_to_trust(path) if trust else ())
    if not isinstance(model, TableModel):
        raise ModelFileError(
            f"{path} holds a {type(model).__name__} without the columns of a table: use it with "
            "colabel.load in Python, or make a file with colabel fit."
        )
    return model


def write_answers(
    found: Iterable[pa.Table],
    target: Path | None,
    what: str,
    *,
    quiet: bool,
    present: Mapping[str, str] | None = None,
    formulas: bool = False,
) -> tuple[int, list[str]]:
    """Write answers as CSV or Parquet; on a terminal the first of them, for people to read.

    `present` has the columns of labels that are there or not, which people read as a set, and what
    each says where its label is there. Returns the number of rows and the names of the columns.
    """
    from colabel.tables import answers_written

    if target is None and sys.stdout.isatty():
        return _show(found, present or {})
    n_rows, header = 0, list[str]()
    shown = stderr_is_terminal() and not quiet
    with row_counter(what, shown=shown) as count, answers_written(target, safe=not formulas) as w:
        for answers in found:
            w(answers)
            n_rows, header = n_rows + answers.num_rows, answers.column_names
            count(answers.num_rows)
    return n_rows, header


def _show(found: Iterable[pa.Table], present: Mapping[str, str]) -> tuple[int, list[str]]:
    """Print the first rows as a table; it has as many columns as the screen has room for."""
    from colabel.tables import texts_of

    names: list[str] = []
    rows: list[tuple[str, ...]] = []
    for answers in found:
        names = answers.column_names
        rows += texts_of(answers)[: _SHOWN + 1 - len(rows)]
        if len(rows) > _SHOWN:
            break
    more, rows = len(rows) > _SHOWN, rows[:_SHOWN]
    if present and {*present} <= {*names}:  # beside each other, in this order
        own = slice(start := names.index(next(iter(present))), start + len(present))
        pairs = [zip(present.items(), row[own], strict=True) for row in rows]
        sets = [", ".join(name for (name, is_there), text in p if text == is_there) for p in pairs]
        rows = [
            (*row[:start], labels or "no label", *row[own.stop :])
            for row, labels in zip(rows, sets, strict=True)
        ]
        names = [*names[:start], "labels", *names[own.stop :]]
    console = output()
    # a blank within each column, and one between columns
    widths = [max(map(len, each)) + 2 for each in zip(names, *rows, strict=True)]
    fits = max(1, sum(sum(widths[: k + 1]) <= console.width for k in range(len(widths))))
    table = columns(*names[:fits])
    for row in rows:
        table.add_row(*row[:fits])
    console.print(table)
    left_out = [f"{len(names) - fits} more columns"] * (fits < len(names)) + ["more rows"] * more
    if left_out:
        say(f"There are {' and '.join(left_out)}: -o out.csv writes everything.", aside=True)
    return len(rows), names


def say(sentence: str, *, aside: bool = False) -> None:
    """Say what was done, on one line; aside, on standard error, where the answers are printed."""
    console = messages() if aside else output()
    console.print(sentence, soft_wrap=True, markup=False)


def row_cells(frame: Frame) -> list[tuple[tuple[str, str], ...]]:
    """Write what each row holds; of sparse rows, what is not 0."""
    from colabel.tables.source import written_value

    own = [(name, frame.column(name)) for name in frame.names[: 10 * _CELLS]]
    rows = []
    for i in range(frame.n_rows):
        held = [(name, column[i]) for name, column in own]
        if frame.is_sparse:
            held = [(name, value) for name, value in held if isinstance(value, str) or value]
        rows.append(tuple((name, written_value(value, 6, 200)) for name, value in held[:_CELLS]))
    return rows
