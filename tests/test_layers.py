"""Imports point down the list of rooms in CONTRIBUTING.md, and never need an optional package.

Every file is parsed, not imported: imports inside functions and under TYPE_CHECKING count for the
order of the rooms too, since a room that needs a higher one only sometimes still depends on it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

TESTS = Path(__file__).parent
SOURCE = TESTS.parent / "src"

# From top to bottom; a room may import itself and the rooms below it.
ROOMS = (
    "cli",
    "report",
    "comparing",
    "saving",
    "tables",
    "datasets",
    "models",
    "preprocess",
    "learn",
    "decide",
    "joint",
    "metrics",
    "labels",
    "core",
)
# Private files beside the rooms belong to the room they serve.
HELPERS = {"_version": "core"}
# skops is always there, but slow to import.
OPTIONAL = frozenset(
    {
        "pandas",
        "matplotlib",
        "skops",
        "pyarrow",
        "networkx",
        "torch",
        "dask",
        "distributed",
        "pytoulbar2",
        "pyagrum",
    }
)


class Import(NamedTuple):
    line: int
    module: str  # absolute, with the imported name appended where it may be a module
    at_import_time: bool  # not inside a function, not under TYPE_CHECKING


def room_of(module: str) -> str | None:
    """Room of a module of colabel; None for the package itself, which gathers all rooms."""
    parts = module.split(".")
    if len(parts) == 1:
        return None
    name = parts[1]
    if name in HELPERS:
        return HELPERS[name]
    if name in ROOMS:
        return name
    raise LookupError(
        f"colabel.{name} is in no room: add it to ROOMS or HELPERS in tests/test_layers.py."
    )


def module_of(path: Path, source: Path) -> str:
    parts = path.relative_to(source).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def is_type_checking(node: ast.AST) -> bool:
    test = node.test if isinstance(node, ast.If) else None
    name = test.attr if isinstance(test, ast.Attribute) else getattr(test, "id", None)
    return name == "TYPE_CHECKING"


def imports_of(tree: ast.AST, package: str, at_import_time: bool = True) -> Iterator[Import]:
    """All imports in a tree; `package` is what a relative import starts from."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(node.lineno, alias.name, at_import_time)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = package.split(".")
                above = parents[: len(parents) - node.level + 1]
                base = ".".join([*above, base] if base else above)
            for alias in node.names:
                yield Import(node.lineno, f"{base}.{alias.name}", at_import_time)
        elif is_type_checking(node):
            yield from imports_of(ast.Module(node.body, []), package, False)
            yield from imports_of(ast.Module(node.orelse, []), package, at_import_time)
        else:
            deferred = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            yield from imports_of(node, package, at_import_time and not deferred)


def is_file_in(module: str, source: Path) -> bool:
    place = source.joinpath(*module.split("."))
    return place.with_suffix(".py").is_file() or place.is_dir()


def private_module(imported: str, source: Path) -> str | None:
    """The first module in a dotted name whose own name begins with "_", if there is one."""
    parts = imported.split(".")
    for end in range(2, len(parts) + 1):
        module = ".".join(parts[:end])
        if parts[end - 1].startswith("_") and is_file_in(module, source):
            return module
    return None


def is_behind_wall(module: str, private: str) -> bool:
    """Whether a module is outside the package that a private module belongs to."""
    package = private.rpartition(".")[0]
    return module != package and not module.startswith(f"{package}.")


def imports_in(path: Path, module: str) -> tuple[Import, ...]:
    """All imports of the file of a module."""
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    return imports_of_text(path.read_text(encoding="utf-8"), package)


@cache
def imports_of_text(text: str, package: str) -> tuple[Import, ...]:
    return tuple(imports_of(ast.parse(text), package))


def opened_walls(path: Path, source: Path) -> Iterator[tuple[str, str]]:
    """Pairs of a module and a private module of another package that it imports."""
    module = module_of(path, source)
    for _, imported, _ in imports_in(path, module):
        private = private_module(imported, source) if imported.startswith("colabel.") else None
        if private is not None and is_behind_wall(module, private):
            yield module, private


def violations(path: Path, source: Path) -> Iterator[str]:
    """Sentences, one per import of a file that breaks a rule."""
    module = module_of(path, source)
    own = room_of(module)
    for line, imported, at_import_time in imports_in(path, module):
        where = f"{path.relative_to(source.parent)}:{line}"
        top = imported.split(".")[0]
        if top in OPTIONAL and at_import_time:
            yield f"{where} imports {imported} at module level: {top} is optional, import it inside"
        if top != "colabel" or own is None:
            continue
        if imported.count(".") == 1 and not is_file_in(imported, source):
            # `from colabel import X`: X is a name of the package, which gathers all rooms
            yield f"{where} imports {imported} from the package: name the room it lives in"
            continue
        other = room_of(imported)
        if other is None:
            yield f"{where} imports the whole package, which gathers all rooms: name the room"
        elif ROOMS.index(other) < ROOMS.index(own):
            yield f"{where} ({own}) imports {imported} ({other}): imports point down only"


def source_files() -> list[Path]:
    return sorted((SOURCE / "colabel").rglob("*.py"))


def test_imports_point_down_and_optional_packages_wait():
    assert len(source_files()) > 300
    found = [sentence for path in source_files() for sentence in violations(path, SOURCE)]
    assert not found, "\n" + "\n".join(found)


def test_private_modules_are_imported_inside_their_package_only():
    found = sorted({wall for path in source_files() for wall in opened_walls(path, SOURCE)})
    assert not found, f"{found}: make the module public, or move what is needed to core/."


def test_every_folder_of_tests_is_a_package():
    folders = {path.parent for path in TESTS.rglob("*.py")}
    bare = sorted(
        str(f.relative_to(TESTS.parent)) for f in folders if not (f / "__init__.py").exists()
    )
    assert not bare, f"Give {bare} an empty __init__.py, or files of the same name will clash."


# ------------------------------------------------------------------------- the checker itself


def checked(tmp_path: Path, place: str, code: str) -> list[str]:
    """Violations of a file at `place` in a package that has some files in its rooms."""
    source = tmp_path / "src"
    files = "labels/inputs", "core/progress", "models/ctbn", "joint/tree", "joint/chain/_sums"
    for name in (*files, place):
        file = source / "colabel" / f"{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    file = source / "colabel" / f"{place}.py"
    file.write_text(code, encoding="utf-8")
    return list(violations(file, source))


@pytest.mark.parametrize(
    ("place", "code"),
    [
        ("joint/base", "from colabel.models import ctbn"),
        ("joint/base", "import colabel.models.ctbn"),
        ("joint/base", "from colabel import models"),
        ("joint/base", "from ..models import ctbn"),
        ("joint/base", "from .. import models"),
        ("joint/__init__", "from ..models.ctbn import CTBN"),
        ("joint/base", "def f():\n    from colabel.models import ctbn"),
        ("joint/base", "if TYPE_CHECKING:\n    from colabel.models import ctbn"),
        ("joint/base", "from colabel import CTBN"),
        ("joint/base", "import colabel"),
        ("labels", "from colabel import metrics as m"),
        ("labels/columns", "from colabel.metrics._pairs import aligned"),
        ("core/progress", "from colabel.labels import LabelSpace"),
        ("joint/base", "import pandas as pd"),
        ("cli/main", "from matplotlib import pyplot"),
        ("cli/main", "try:\n    import torch.nn\nexcept ImportError:\n    torch = None"),
        ("cli/main", "class A:\n    import dask.array"),
        ("__init__", "import networkx"),
    ],
)
def test_checker_catches(tmp_path, place, code):
    found = checked(tmp_path, place, code)
    assert len(found) == 1
    line = code.count("\n", 0, code.index("import ")) + 1
    assert found[0].startswith(f"src/colabel/{place}.py:{line} ")


@pytest.mark.parametrize(
    ("place", "code"),
    [
        ("models/crf", "from colabel.joint.tree import Tree"),
        ("models/crf", "from colabel import joint"),
        ("models/crf", "from .ctbn import CTBN\nfrom ..joint.tree import Tree"),
        ("models/__init__", "from .ctbn import CTBN"),
        ("metrics", "from colabel.labels import LabelSpace"),
        ("labels", "from colabel.labels.inputs import read"),
        ("labels", "from colabel.core.progress import progress_bar"),
        ("__init__", "from colabel.models.ctbn import CTBN"),
        ("report/tree", "def f():\n    import matplotlib"),
        ("report/tree", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import pandas"),
        ("report/tree", "import typing as t\nif t.TYPE_CHECKING:\n    import pandas"),
        ("report/tree", "import numpy, scipy.sparse, rich"),
    ],
)
def test_checker_allows(tmp_path, place, code):
    assert checked(tmp_path, place, code) == []


@pytest.mark.parametrize(
    ("place", "code", "open_wall"),
    [
        ("models/crf", "from colabel.joint.chain._sums import total", True),
        ("models/crf", "from colabel.joint.chain import _sums as sums", True),
        ("joint/mixture", "def f():\n    from .chain import _sums", True),
        ("joint/chain/chain", "from colabel.joint.chain._sums import total", False),
        ("joint/chain/inner/part", "from colabel.joint.chain import _sums", False),
        ("joint/chain/__init__", "from ._sums import total", False),
        ("models/crf", "from colabel.joint.tree import _name", False),
    ],
)
def test_checker_knows_walls(tmp_path, place, code, open_wall):
    checked(tmp_path, place, code)
    file = tmp_path / "src" / "colabel" / f"{place}.py"
    found = list(opened_walls(file, tmp_path / "src"))
    wall = module_of(file, tmp_path / "src"), "colabel.joint.chain._sums"
    assert found == ([wall] if open_wall else [])


def test_checker_asks_for_a_room(tmp_path):
    with pytest.raises(LookupError, match=r"colabel\.attic is in no room"):
        checked(tmp_path, "attic", "")


def test_contributing_names_the_rooms_in_their_order_and_the_packages_in_them():
    text = (TESTS.parent / "CONTRIBUTING.md").read_text()
    rows = re.findall(r"(?m)^\| `(\w+)/` \| (.*) \|$", text)
    assert tuple(room for room, _ in rows) == ROOMS
    for room, described in rows:
        packages = (SOURCE / "colabel" / room).glob("[a-z]*/__init__.py")
        folders = {file.parent.name for file in packages}
        named = set(re.findall(r"`(\w+)/`", described)) - set(ROOMS)
        assert named == folders - set(ROOMS), room


def test_array_types_have_one_name_each():
    spelled = re.compile(r"NDArray\[np\.(float64|intp|bool_)\]")
    # aliases for the type checker alone, in a block of their own
    allowed = {"core/arrays.py", "datasets/dataset.py"}
    found = [
        path.relative_to(SOURCE / "colabel").as_posix()
        for path in (SOURCE / "colabel").rglob("*.py")
        if spelled.search(path.read_text())
    ]
    assert set(found) <= allowed, "use Array, Indices or Flags of colabel.core.arrays"
