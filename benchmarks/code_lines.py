"""Lines of code by room: every line that holds a token, without docstrings, comments and blanks.

`python -m benchmarks.code_lines [FOLDER]`; by default the sources of colabel.
"""

from __future__ import annotations

import ast
import sys
import tokenize
from collections import Counter
from pathlib import Path

from benchmarks._common import ROOT

_SILENT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}
_WITH_DOCSTRING = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def code_lines(path: Path) -> int:
    """Count the lines of one file."""
    with tokenize.open(path) as file:
        text = file.read()
    lines: set[int] = set()
    for token in tokenize.generate_tokens(iter(text.splitlines(keepends=True)).__next__):
        if token.type not in _SILENT:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, _WITH_DOCSTRING) and ast.get_docstring(node) is not None:
            said = node.body[0]
            lines.difference_update(range(said.lineno, (said.end_lineno or said.lineno) + 1))
    return len(lines)


def main() -> None:
    """Print the lines of each folder."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "src" / "colabel"
    rooms: Counter[str] = Counter()
    for path in sorted(folder.rglob("*.py")):
        rooms[path.relative_to(folder).parts[0]] += code_lines(path)
    for room, count in rooms.most_common():
        print(f"{count:7,} {room}")
    print(f"{rooms.total():7,} in all")


if __name__ == "__main__":
    main()
