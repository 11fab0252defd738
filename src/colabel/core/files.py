"""Files that are written completely or not at all, and temporary folders."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def check_not_input(output: Path | None, *inputs: Path | None) -> None:
    """Raise ValueError if an output file would overwrite one of the inputs.

    Examples
    --------
    >>> from pathlib import Path
    >>> from colabel.core.files import check_not_input
    >>> check_not_input(Path("answers.csv"), Path("table.csv"))
    """
    if output is None or not output.exists():
        return
    for each in inputs:
        if each is not None and each.exists() and output.samefile(each):
            raise ValueError(f"{output} is read, and would be overwritten: name another file.")


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """Give an empty file in a hidden folder beside `path`, which takes its place at the end.

    A symbolic link is followed: its target is replaced, not the link. A folder, a device or a pipe
    of that name raises an OSError. A process that is
    asked to end (SIGTERM) removes the hidden folder first.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> folder = tempfile.TemporaryDirectory()
    >>> with written_whole(Path(folder.name) / "a.txt") as part:
    ...     _ = part.write_text("all of it")
    >>> [file.name for file in Path(folder.name).iterdir()]
    ['a.txt']
    >>> folder.cleanup()
    """
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "there is no such folder", str(target.parent))
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, "is a folder, not a file", str(path))
    if target.exists() and not target.is_file():
        reason = "is a device, a pipe or a socket, not a file"
        raise OSError(errno.EINVAL, reason, str(path))
    with scratch_folder(target.parent, f".{target.name}.") as folder:
        part = folder / target.name  # whose suffix says how it is written
        part.touch()
        yield part
        part.replace(target)


@contextmanager
def scratch_folder(parent: Path, prefix: str) -> Iterator[Path]:
    """Give an empty folder in `parent`, removed with all that is in it at the end.

    It is removed after an error too, and by a process that is asked to end (SIGTERM).

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> parent = tempfile.TemporaryDirectory()
    >>> with scratch_folder(Path(parent.name), ".rows-") as folder:
    ...     _ = (folder / "a.txt").write_text("for a while")
    >>> list(Path(parent.name).iterdir())
    []
    >>> parent.cleanup()
    """
    with tempfile.TemporaryDirectory(prefix=prefix, dir=parent) as folder:
        # only the main thread may set a signal handler, and one that is set already stays
        main = threading.current_thread() is threading.main_thread()
        if not main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
            yield Path(folder)
            return

        def end(number: int, frame: Any) -> None:
            shutil.rmtree(folder, ignore_errors=True)
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

        signal.signal(signal.SIGTERM, end)
        try:
            yield Path(folder)
        finally:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
