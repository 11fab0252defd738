"""The labels of a fitted model, for a notebook: names, values, and what each depends on."""

from __future__ import annotations

from html import escape
from typing import Any

from colabel.labels import LabelSpace

_MOST = 30


def labels_html(model: Any) -> str:
    """Return a list of the labels of a fitted model; nothing if it is not fitted."""
    space = getattr(model, "label_space_", None)
    if not isinstance(space, LabelSpace):
        return ""
    notes = model.label_notes()
    items = []
    for i, name in enumerate(space.names[:_MOST]):
        values = "" if space.is_indicator else f" [{len(space.classes[i])} values]"
        items.append(f"<li>{escape(name)}{values}{escape(notes.get(i, ''))}</li>")
    if space.n_labels > _MOST:
        items.append(f"<li>and {space.n_labels - _MOST} more</li>")
    what = "labels" if space.is_indicator else "class variables"
    return (
        f"<details><summary>{space.n_labels} {what} learned by {escape(type(model).__name__)}"
        f"</summary><ul>{''.join(items)}</ul></details>"
    )
