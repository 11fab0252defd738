"""How a command ends: a sentence instead of a traceback, and an exit code that says why."""

from __future__ import annotations

import functools
import os
import sys
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

import typer

from colabel.cli._console import (
    INTERNAL,
    INTERRUPTED,
    MODEL_REFUSED,
    WRONG_USE,
    fail,
    note,
    silence,
)
from colabel.core.compiling import told_when_compiling

Command = TypeVar("Command", bound=Callable[..., None])


def guarded(command: Command) -> Command:
    """Turn what a command raises into a sentence and an exit code, and warnings into notes.

    With COLABEL_DEBUG set, errors keep their traceback.
    """

    @functools.wraps(command)
    def run(*arguments: Any, **options: Any) -> None:
        if os.environ.get("COLABEL_DEBUG"):
            command(*arguments, **options)
            return
        notes = _Notes(shown=not options.get("quiet"))
        with warnings.catch_warnings(), told_when_compiling(notes):
            warnings.showwarning = notes
            _run(command, arguments, options)

    return run  # type: ignore[return-value]


def _run(command: Callable[..., None], arguments: Any, options: Any) -> None:
    from colabel.saving import ModelFileError

    try:
        command(*arguments, **options)
    except (typer.Exit, typer.Abort):
        raise
    except ModelFileError as error:
        fail(str(error), MODEL_REFUSED)
    except BrokenPipeError:
        # who read the output has stopped reading, as `head` does; nothing is wrong
        silence(sys.stdout)
        raise typer.Exit(0) from None
    except KeyboardInterrupt:
        fail("Stopped; nothing was written.", INTERRUPTED)
    except MemoryError:
        fail("The memory does not suffice: use fewer rows or fewer columns.", WRONG_USE)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        fail(f"{where}{error.strerror or error}.", WRONG_USE)
    except (ValueError, ImportError, NotImplementedError) as error:
        # the library's own errors are sentences that say what to do
        fail(_one_line(error), WRONG_USE)
    except Exception as error:
        # told by name, so that the studies need not be imported to print an error
        if type(error).__name__ == "StoreError":
            fail(_one_line(error), MODEL_REFUSED)
        fail(
            f"colabel failed by a fault of its own ({type(error).__name__}: {_one_line(error)}): "
            "please report it. With COLABEL_DEBUG=1 the same command shows where.",
            INTERNAL,
        )


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__


class _Notes:
    """Shows each warning once, as a note on standard error."""

    def __init__(self, *, shown: bool) -> None:
        self.shown = shown
        self.seen: set[str] = set()

    def __call__(self, message: Warning | str, *_: Any, **__: Any) -> None:
        text = " ".join(str(message).split())
        if self.shown and text not in self.seen:
            self.seen.add(text)
            note(text)
