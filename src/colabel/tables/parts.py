"""The files that make up a table, by name or by a glob."""

from __future__ import annotations

import glob
from collections.abc import Iterable
from pathlib import Path

from colabel.datasets.frame import TableError

LARGE_BYTES = 500_000_000
"""Files that are larger, all together, are learned from in parts."""

_GZIP = 4  # how many times longer a text is than its compressed file


def find_parts(patterns: Iterable[str | Path]) -> list[Path]:
    """Find files by name or by a glob ("part-*.parquet"), those of a glob in alphabetical order.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from colabel.tables import find_parts
    >>> folder = tempfile.TemporaryDirectory()
    >>> for name in ("part-1.csv", "part-0.csv", "notes.txt"):
    ...     (pathlib.Path(folder.name) / name).touch()
    >>> [file.name for file in find_parts([folder.name + "/part-*.csv"])]
    ['part-0.csv', 'part-1.csv']
    >>> folder.cleanup()
    """
    found: dict[Path, None] = {}
    for pattern in patterns:
        file = Path(pattern)
        if file.exists() or not glob.has_magic(str(pattern)):
            found[file] = None
            continue
        matches = sorted(map(Path, glob.glob(str(pattern))))
        if not matches:
            raise TableError(f"No file matches {str(pattern)!r}: check the path.")
        found.update(dict.fromkeys(matches))
    return list(found)


def is_large(parts: Iterable[Path]) -> bool:
    """Whether files are larger than what is read into memory as a whole: 500 MB."""
    sizes = (part.stat().st_size * (_GZIP if part.suffix == ".gz" else 1) for part in parts)
    return sum(sizes) > LARGE_BYTES
