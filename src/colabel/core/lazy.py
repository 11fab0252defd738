"""Public names of a package that are imported when they are first asked for; optional packages."""

from __future__ import annotations

import re
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any


def export_lazily(package: str) -> list[str]:
    """Let a package offer names of its modules, and its modules, before they are imported.

    The names are those that the stub of the package, ``__init__.pyi``, imports: type checkers and
    users see the same. Public are those that its ``__all__`` lists, or else all of them.

    Parameters
    ----------
    package : str
        Name of the package, which is being imported.

    Returns
    -------
    list of str
        The public names.

    Notes
    -----
    The import system binds every submodule to its package, also over a public name that is
    spelled the same (``colabel.decide`` is a function and a module). The public name wins.
    """
    stub = Path(sys.modules[package].__file__ or "").with_suffix(".pyi")
    text = stub.read_text(encoding="utf-8")
    home_of = {name: home for home, name in re.findall(r"from (\S+) import \(?\s*(\w+)", text)}
    listed = re.search(r"__all__ = \[(.*?)\]", text, re.DOTALL)

    class Lazy(ModuleType):
        def __getattr__(self, name: str) -> Any:
            if name in home_of:
                value = getattr(import_module(home_of[name]), name)
                super().__setattr__(name, value)
                return value
            if not name.startswith("_") and find_spec(f"{package}.{name}"):
                return import_module(f"{package}.{name}")
            raise AttributeError(f"module {package!r} has no attribute {name!r}", name=name)

        def __setattr__(self, name: str, value: Any) -> None:
            if not (name in home_of and isinstance(value, ModuleType)):
                super().__setattr__(name, value)

        def __dir__(self) -> list[str]:
            return sorted({*super().__dir__(), *home_of})

    sys.modules[package].__class__ = Lazy
    return re.findall(r"\w+", listed[1]) if listed else list(home_of)


def require(package: str, what: str, instead: str = "") -> None:
    """Raise an ImportError that says what to install, unless a package is there.

    Parameters
    ----------
    package : str
    what : str
        What needs it, as the beginning of a sentence.
    instead : str
        How to do without, as its end.

    Examples
    --------
    >>> require("pandas", "A data frame")
    """
    try:
        __import__(package)
    except ImportError:
        raise ImportError(
            f"{what} needs {package}, which is not installed: run pip install {package}{instead}."
        ) from None
