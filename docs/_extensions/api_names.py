"""Names in single backticks: links to the API where it has the name, code elsewhere.

`CTBN`, `decide()` and `colabel.metrics.exact_match` become links; `C` stays code.
"""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx

MODULES = (
    "colabel",
    "colabel.models",
    "colabel.joint",
    "colabel.decide",
    "colabel.labels",
    "colabel.metrics",
    "colabel.datasets",
    "colabel.preprocess",
    "colabel.experiments",
    "colabel.report",
)
"""Rooms of the API reference. A name exported twice belongs to the first."""


@lru_cache(maxsize=1)
def documented() -> dict[str, str]:
    """Return {name: full name} of everything the API reference lists."""
    names: dict[str, str] = {}
    for module_name in MODULES:
        module = import_module(module_name)
        for name in getattr(module, "__all__", ()):
            full = f"{module_name}.{name}"
            value = getattr(module, name)
            if not name.startswith("_") and callable(value):
                names.setdefault(name, full)
                names.setdefault(full, full)
    return names


def _role(
    _name: str, rawtext: str, text: str, _lineno: int, inliner: Any, *_: Any
) -> tuple[list[nodes.Node], list[nodes.system_message]]:
    shown = nodes.literal(rawtext, text)
    full = documented().get(text.removesuffix("()").removeprefix("~"))
    if full is None:
        return [shown], []
    link = addnodes.pending_xref(
        rawtext, shown, refdomain="py", reftype="obj", reftarget=full, refexplicit=True
    )
    link["refdoc"] = inliner.document.settings.env.docname
    return [link], []


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the role."""
    app.add_role("api", _role)
    return {"version": "1", "parallel_read_safe": True}
