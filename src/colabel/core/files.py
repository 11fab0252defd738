"""Files that are either there as a whole or not at all."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """Give a temporary file beside `path`, renamed to it at the end and removed after an error.

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
    if not path.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "there is no such folder", str(path.parent))
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "is a folder, not a file", str(path))
    # the suffix stays last, so that .gz still says how the file is written
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=path.suffix, dir=path.parent)
    os.close(handle)
    part = Path(name)
    try:
        yield part
        mask = os.umask(0)
        os.umask(mask)
        part.chmod(0o666 & ~mask)  # as any new file; a temporary one is for its owner alone
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
