"""The API reference: which names it has, and links to them.

A name in single backticks is a link where the reference has the name, and code elsewhere:
`CTBN`, `decide()` and `colabel.metrics.exact_match` become links; `C` stays code.
"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx

REFERENCE = Path(__file__).parents[1] / "api" / "index.rst"


@lru_cache(maxsize=1)
def documented() -> dict[str, str]:
    """Return {name: full name} of what the API reference lists, by short and by full names."""
    entries = re.findall(r"^   ([A-Za-z][\w.]*)$", REFERENCE.read_text(encoding="utf-8"), re.M)
    short = [entry.rpartition(".")[2] for entry in entries]
    names = {f"colabel.{entry}": f"colabel.{entry}" for entry in entries}
    for name, entry in zip(short, entries, strict=True):
        if short.count(name) == 1:  # `load` is a model's or a data set's
            names[name] = f"colabel.{entry}"
    return names


def _role(
    _name: str, rawtext: str, text: str, _lineno: int, inliner: Any, *_: Any
) -> tuple[list[nodes.Node], list[nodes.system_message]]:
    shown = nodes.literal(rawtext, text)
    full = documented().get(text.removesuffix("()"))
    if full is None:
        return [shown], []
    link = addnodes.pending_xref(
        rawtext, shown, refdomain="py", reftype="obj", reftarget=full, refexplicit=True
    )
    link["refdoc"] = inliner.document.settings.env.docname
    return [link], []


def _skip_foreign(
    _app: Sphinx, _what: str, _name: str, obj: Any, skip: bool, _options: Any
) -> bool | None:
    """Leave out what scikit-learn adds to every estimator: its own pages explain it."""
    return True if str(getattr(obj, "__module__", "")).startswith("sklearn.") else None


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the role, and what the API reference leaves out."""
    app.add_role("api", _role)
    app.connect("autodoc-skip-member", _skip_foreign)
    return {"version": "1", "parallel_read_safe": True}
