"""Public names of a package that are imported when they are first asked for."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any


def export_lazily(package: str, homes: Mapping[str, Sequence[str]]) -> list[str]:
    """Let a package offer names of its modules, and its modules, before they are imported.

    Parameters
    ----------
    package : str
        Name of the package, which is being imported.
    homes : {module: names}
        Where each of its public names is defined.

    Returns
    -------
    list of str
        The public names.

    Notes
    -----
    The import system binds every submodule to its package, also over a public name that is
    spelled the same (``colabel.decide`` is a function and a module). The public name wins.
    """
    home_of = {name: home for home, names in homes.items() for name in names}

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
    return list(home_of)
