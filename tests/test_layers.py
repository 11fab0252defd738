"""What import-linter and ruff cannot say about the rooms (pyproject.toml has their order)."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
SOURCE = TESTS.parent / "src"
FILES = sorted((SOURCE / "colabel").rglob("*.py"))


def rooms() -> list[str]:
    """From top to bottom, those that exist."""
    settings = tomllib.loads((TESTS.parent / "pyproject.toml").read_text(encoding="utf-8"))
    (contract,) = settings["tool"]["importlinter"]["contracts"]
    named = [layer.strip("()") for layer in contract["layers"]]
    return [room for room in named if (SOURCE / "colabel" / room).is_dir()]


def imports_of(text: str) -> Iterator[str]:
    """Dotted names; relative imports are banned by ruff."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def is_module(name: str) -> bool:
    place = SOURCE.joinpath(*name.split("."))
    return place.with_suffix(".py").is_file() or place.is_dir()


def faults(module: str, text: str) -> Iterator[str]:
    """Private modules of other packages, and names of the package, which gathers all rooms."""
    for imported in imports_of(text):
        parts = imported.split(".")
        if parts[0] != "colabel":
            continue
        if module != "colabel.__init__" and (len(parts) == 1 or not is_module(".".join(parts[:2]))):
            yield f"{module} imports {imported} from the package: name the room it lives in"
        for end in range(2, len(parts) + 1):
            package, private = ".".join(parts[: end - 1]), ".".join(parts[:end])
            hidden = parts[end - 1].startswith("_") and is_module(private)
            if hidden and not module.startswith(f"{package}."):
                yield f"{module} imports {private}: make it public, or move what is needed to core/"


def test_packages_are_named_by_room_and_private_modules_stay_inside_theirs():
    names = {path: ".".join(path.relative_to(SOURCE).with_suffix("").parts) for path in FILES}
    found = [fault for path in FILES for fault in faults(names[path], path.read_text("utf-8"))]
    assert not found, "\n" + "\n".join(found)


@pytest.mark.parametrize(
    ("module", "code", "n_faults"),
    [
        ("colabel.models.crf", "def f():\n    from colabel.core._lines import x", 1),
        ("colabel.models.crf", "from colabel.core import _lines", 1),
        ("colabel.core.inner.part", "from colabel.core import _lines", 0),
        ("colabel.models.crf", "from colabel.core import progress, _name", 0),
        ("colabel.models.crf", "from colabel import CTBN", 1),
        ("colabel.models.crf", "import colabel", 1),
        ("colabel.models.crf", "from colabel import joint", 0),
        ("colabel.__init__", "from colabel import CTBN", 0),
    ],
)
def test_the_check_sees(module, code, n_faults, tmp_path, monkeypatch):
    for name in ("core/_lines", "core/progress", "joint/base"):
        file = tmp_path / "colabel" / f"{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    monkeypatch.setitem(globals(), "SOURCE", tmp_path)
    assert len(list(faults(module, code))) == n_faults


def test_every_folder_of_tests_is_a_package():
    folders = {path.parent for path in TESTS.rglob("*.py")}
    bare = sorted(
        str(f.relative_to(TESTS.parent)) for f in folders if not (f / "__init__.py").exists()
    )
    assert not bare, f"Give {bare} an empty __init__.py, or files of the same name will clash."


def test_contributing_names_the_rooms_in_their_order_and_the_packages_in_them():
    text = (TESTS.parent / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = re.findall(r"(?m)^\| `(\w+)/` \| (.*) \|$", text)
    assert [room for room, _ in rows] == rooms()
    for room, described in rows:
        packages = (SOURCE / "colabel" / room).glob("[a-z]*/__init__.py")
        folders = {file.parent.name for file in packages}
        named = set(re.findall(r"`(\w+)/`", described)) - set(rooms())
        assert named == folders - set(rooms()), room


def test_array_types_have_one_name_each():
    spelled = re.compile(r"NDArray\[np\.(float64|intp|bool_)\]")
    # aliases for the type checker alone, in a block of their own
    allowed = {"arrays.py", "dataset.py"}
    found = {path.name for path in FILES if spelled.search(path.read_text("utf-8"))}
    assert found <= allowed, "use Array, Indices or Flags of colabel.core.arrays"
