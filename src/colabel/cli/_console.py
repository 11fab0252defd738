"""What the commands share: where they print, how they stop, how they open a model."""

from __future__ import annotations

import functools
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TextIO, TypeVar

import typer
from rich.console import Console
from rich.markup import escape

from colabel.core.compiling import told_when_compiling

if TYPE_CHECKING:
    from colabel.tables import TableModel

Command = TypeVar("Command", bound=Callable[..., None])

# Exit codes; `colabel --help` lists them.
INTERNAL = 1  # a fault of colabel
WRONG_USE = 2  # a command, file, column or value that cannot work
MODEL_REFUSED = 3  # a model file that is damaged, too new, not safe, or not there; or results
INTERRUPTED = 130


class _Console(Console):
    """Goes on in silence when nobody reads any more, as behind `head`; shows names as they are.

    Control characters in the names and values of a table are written out: none reaches a terminal.
    """

    def render(self, renderable: Any, options: Any = None) -> Iterator[Any]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=_visible(segment.text))

    def on_broken_pipe(self) -> None:
        self.quiet = True
        _silence(sys.stderr if self.stderr else sys.stdout)


def _visible(text: str) -> str:
    return text if text.isprintable() else "".join(map(_written_out, text))


def _written_out(character: str) -> str:
    is_control = (ord(character) < 32 and character not in "\n\t") or 127 <= ord(character) < 160
    return ascii(character)[1:-1] if is_control else character


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


@contextmanager
def working(what: str, *, shown: bool) -> Iterator[None]:
    """Show on a terminal that work is going on, and at what."""
    console = messages()
    if not (shown and console.is_terminal):
        yield
        return
    with console.status(escape(what)):
        yield


def note(sentence: str) -> None:
    """Say on standard error what may be of interest."""
    messages().print(f"[bold]Note:[/bold] {escape(sentence)}", soft_wrap=True)


def fail(sentence: str, code: int = INTERNAL) -> NoReturn:
    """Say on standard error what was wrong, on one line, and stop with an exit code."""
    messages().print(f"[bold red]Error:[/bold red] {escape(sentence)}", soft_wrap=True)
    raise typer.Exit(code)


# -------------------------------------------------------------------------- how a command ends


def guarded(command: Command) -> Command:
    """Turn what a command raises into a sentence and an exit code, and warnings into notes.

    With COLABEL_DEBUG set, errors keep their traceback.
    """

    @functools.wraps(command)
    def run(*arguments: Any, **options: Any) -> None:
        if os.environ.get("COLABEL_DEBUG"):
            command(*arguments, **options)
            return
        seen: set[str] = set()

        def warn(message: Warning | str, *_: Any, **__: Any) -> None:
            text = " ".join(str(message).split())
            if not options.get("quiet") and text not in seen:
                seen.add(text)
                note(text)

        with warnings.catch_warnings(), told_when_compiling(warn):
            warnings.showwarning = warn
            try:
                command(*arguments, **options)
            except (typer.Exit, typer.Abort):
                raise
            except BrokenPipeError:
                # who read the output has stopped reading, as `head` does; nothing is wrong
                _silence(sys.stdout)
                raise typer.Exit(0) from None
            except BaseException as error:
                fail(*_sentence(error))

    return run  # type: ignore[return-value]


def _sentence(error: BaseException) -> tuple[str, int]:
    """Return what to say of an error, and the exit code."""
    from colabel.saving import ModelFileError

    said = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, ModelFileError):
        return said, MODEL_REFUSED
    if isinstance(error, KeyboardInterrupt):
        return "Stopped; nothing was written.", INTERRUPTED
    if isinstance(error, MemoryError):
        return "The memory does not suffice: use fewer rows or fewer columns.", WRONG_USE
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


# ------------------------------------------------------------------------ models and tables


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
