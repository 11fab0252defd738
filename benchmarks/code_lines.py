"""Sizes of the library by room, held below ceilings, and the files that a command runs through.

`python -m benchmarks.code_lines` prints code lines (every line that holds a token, without
docstrings, comments and blanks), files, classes, the share of import lines and the number of public
names, and fails above a ceiling (`make lint`). `--walk` runs `fit`, `predict` and `compare` on a
small table and counts the files and functions of colabel that are called.
"""

from __future__ import annotations

import ast
import contextlib
import csv
import io
import re
import sys
import tempfile
import threading
import tokenize
from collections import defaultdict
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

import numpy as np

from benchmarks._common import ROOT

SOURCE = ROOT / "src" / "colabel"
# Code lines of rooms that are counted together; a comment gives the aim where it is not reached.
CEILINGS = {
    ("cli",): 1640,  # 1400
    ("report",): 1240,
    ("comparing",): 1620,  # 1200
    ("saving", "core"): 2155,  # 1300
    ("tables", "datasets"): 3260,  # 2400
    ("models",): 6970,
    ("preprocess",): 860,
    ("learn",): 6380,  # 6300; kernels of a GPU in it
    ("decide",): 943,
    ("rules",): 915,
    ("joint",): 6400,  # 6300; rules by listed states in it
    ("metrics", "model_selection.py", "labels"): 1160,  # 1000
}
# in all
MOST_LINES = 33_500  # 30_500
MOST_FILES = 180
MOST_CLASSES = 412
MOST_NAMES = 150
MOST_IMPORTS = 0.09

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


class Size(NamedTuple):
    """Counts of one file, or of several."""

    lines: int = 0
    files: int = 0
    classes: int = 0
    imports: int = 0

    def plus(self, other: Size) -> Size:
        """Add the counts of other files."""
        return Size(*(a + b for a, b in zip(self, other, strict=True)))

    def __str__(self) -> str:
        share = self.imports / max(self.lines, 1)
        return f"{self.lines:7,} lines {self.files:4} files {self.classes:4} classes {share:6.1%}"


def size_of(path: Path) -> Size:
    """Count one file."""
    with tokenize.open(path) as file:
        text = file.read()
    lines: set[int] = set()
    for token in tokenize.generate_tokens(iter(text.splitlines(keepends=True)).__next__):
        if token.type not in _SILENT:
            lines.update(range(token.start[0], token.end[0] + 1))
    classes = 0
    imports: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        classes += isinstance(node, ast.ClassDef)
        if isinstance(node, ast.Import | ast.ImportFrom):
            imports.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        if isinstance(node, _WITH_DOCSTRING) and ast.get_docstring(node) is not None:
            docstring = node.body[0]
            end = docstring.end_lineno or docstring.lineno
            lines.difference_update(range(docstring.lineno, end + 1))
    return Size(len(lines), 1, classes, len(imports & lines))


def public_names(folder: Path) -> set[str]:
    """Names that the packages export, by ``__all__`` or by the stub of what is imported lazily."""
    names: set[str] = set()
    for path in sorted(folder.rglob("__init__.py*")):
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".pyi":
            listed = re.search(r"__all__ = \[(.*?)\]", text, re.DOTALL)
            names.update(
                re.findall(*((r"\w+", listed[1]) if listed else (r"import \(?\s*(\w+)", text)))
            )
            continue
        for node in ast.parse(text).body:
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.List):
                named = [target.id for target in node.targets if isinstance(target, ast.Name)]
                names.update(ast.literal_eval(node.value) if named == ["__all__"] else ())
    return names


def sizes(folder: Path) -> dict[str, Size]:
    """Count the files of each room, which is a folder or a file."""
    rooms: defaultdict[str, Size] = defaultdict(Size)
    for path in sorted(folder.rglob("*.py")):
        room = path.relative_to(folder).parts[0]
        rooms[room] = rooms[room].plus(size_of(path))
    return dict(rooms)


def above_ceilings(rooms: dict[str, Size], n_names: int) -> list[str]:
    """Sentences about every ceiling that the rooms, or the names they export, are above."""
    counts: list[tuple[str, float, float]] = []
    for names, ceiling in CEILINGS.items():
        lines = sum(rooms[name].lines for name in names if name in rooms)
        counts.append((f"code lines of {' and '.join(names)}", lines, ceiling))
    whole = Size()
    for size in rooms.values():
        whole = whole.plus(size)
    counts += [
        ("code lines", whole.lines, MOST_LINES),
        ("files", whole.files, MOST_FILES),
        ("classes", whole.classes, MOST_CLASSES),
        ("public names", n_names, MOST_NAMES),
        ("import lines per cent", 100 * whole.imports / whole.lines, 100 * MOST_IMPORTS),
    ]
    alone = {"__init__.py", "__main__.py", "_version.py"}
    named = {name for names in CEILINGS for name in names} | alone
    return [f"{what}: {n:,.6g}, at most {top:,.6g}" for what, n, top in counts if n > top] + [
        f"{room} has no ceiling: give it one" for room in rooms if room not in named
    ]


class Walk:
    """While it is entered, keeps the code of every function of colabel that is called."""

    def __init__(self) -> None:
        self.code: set[CodeType] = set()

    def _profile(self, frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            self.code.add(frame.f_code)

    def __enter__(self) -> Walk:
        threading.setprofile(self._profile)
        sys.setprofile(self._profile)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)
        self.code = {
            code
            for code in self.code
            if code.co_filename.startswith(str(SOURCE))
            and code.co_filename.endswith(".py")
            and code.co_name != "<module>"
        }

    def __str__(self) -> str:
        return f"{len({code.co_filename for code in self.code})} files, {len(self.code)} functions"


def walk() -> None:
    """Fit a tree, then run three commands, on two hundred rows, three columns and three labels.

    Each runs twice, and the second run counts: what imports and compiles is not of interest.
    """
    from colabel import CTBN
    from colabel.cli import app

    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    Y = X + rng.normal(size=X.shape) > X[:, [1, 2, 0]]
    CTBN(random_state=0).fit(X, Y)
    with Walk() as walked:
        CTBN(random_state=0).fit(X, Y)
    print(f"CTBN.fit {walked}")
    with tempfile.TemporaryDirectory() as folder:
        table, model = Path(folder, "table.csv"), str(Path(folder, "model.colabel"))
        with table.open("w", newline="") as file:
            names = [kind + str(j) for kind in ("x", "y") for j in range(3)]
            csv.writer(file).writerows([names, *np.column_stack([X, Y]).tolist()])
        data = [str(table), "--labels", "y*", "--quiet"]
        commands = {
            "fit": ["fit", *data, "--model", "ctbn", "--output", model],
            "predict": ["predict", model, str(table), "--output", f"{folder}/out.csv", "-q"],
            "compare": ["compare", *data, "--models", "br,ctbn", "--report", f"{folder}/c.html"],
        }
        for name, arguments in commands.items():
            with contextlib.redirect_stdout(io.StringIO()):
                app(arguments, standalone_mode=False)
                with Walk() as walked:
                    app(arguments, standalone_mode=False)
            print(f"{name:8} {walked}")


def main() -> None:
    """Print the sizes of a folder, by default of colabel, and fail above a ceiling; or walk."""
    if "--walk" in sys.argv:
        walk()
        return
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else SOURCE
    rooms = sizes(folder)
    whole = Size()
    for room, size in sorted(rooms.items(), key=lambda item: -item[1].lines):
        print(f"{size} imports  {room}")
        whole = whole.plus(size)
    n_names = len(public_names(folder))
    stubs = sum(size_of(path).lines for path in folder.rglob("*.pyi"))
    print(f"{whole} imports  in all\n{n_names:7,} public names, in {stubs} lines of stubs")
    if folder == SOURCE:
        sentences = above_ceilings(rooms, n_names)
        sys.exit("\n".join(["Above the ceilings:", *sentences]) if sentences else 0)


if __name__ == "__main__":
    main()
