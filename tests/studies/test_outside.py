"""The laboratory stands outside: it uses what colabel exports, and no wheel has it."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "studies").rglob("*.py"))


def imports(file):
    """Yield (module, name) of everything a file imports from colabel."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "colabel":
            yield from ((node.module, alias.name) for alias in node.names)
        if isinstance(node, ast.Import):
            for alias in node.names:
                assert alias.name.split(".")[0] != "colabel", "say what is imported from it"


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_only_what_is_exported_is_used(file):
    for module, name in imports(file):
        assert not any(part.startswith("_") for part in f"{module}.{name}".split("."))
        home = import_module(module)
        is_package = hasattr(home, "__path__")
        assert is_package, f"{file.name} reaches into {module}: import from its package"
        assert name in home.__all__ or hasattr(getattr(home, name), "__all__"), f"{module}.{name}"


def test_the_checker_sees_imports():
    assert ("colabel.comparing", "HeldOut") in {p for file in FILES for p in imports(file)}


def test_no_wheel_has_it():
    wheel = pytest.importorskip("hatchling.builders.wheel")
    builder = wheel.WheelBuilder(str(ROOT))
    inside = [file.distribution_path for file in builder.recurse_included_files()]
    assert "colabel/comparing/held_out.py" in [path.replace("\\", "/") for path in inside]
    assert not [path for path in inside if not path.startswith("colabel")]
    assert not [path for path in inside if "studies" in path or "plans" in path]
