"""HTML and SVG written so that nothing is left unescaped: text is text unless it says otherwise."""

from __future__ import annotations

import re
import unicodedata
from html import escape
from typing import TypeAlias

_VOID = frozenset({"meta", "br", "wbr", "line", "circle", "rect", "path", "link"})
# Where a name consists of parts: after _, -, ., / and :, and before a capital in the middle.
_PARTS = re.compile(r"(?<=[_\-./:])(?=\w)|(?<=[a-z0-9])(?=[A-Z])")


class Html(str):
    """Text that is markup already."""

    __slots__ = ()


Child: TypeAlias = "str | list[Html] | None"
Value: TypeAlias = "str | float | bool | None"


def tag(name: str, /, *children: Child, **attributes: Value) -> Html:
    """Write an element.

    Parameters
    ----------
    name : str
    *children : str, Html, list of Html or None
        Plain strings are escaped.
    **attributes : str, number, bool or None
        ``class_`` becomes class, and other underscores hyphens; None and False are left out.

    Examples
    --------
    >>> tag("td", "a < b", class_="best", data_value=0.5, hidden=True)
    '<td class="best" data-value="0.5" hidden>a &lt; b</td>'
    """
    said = "".join(_attribute(key, value) for key, value in attributes.items())
    if name in _VOID and not children:
        return Html(f"<{name}{said}/>")
    return Html(f"<{name}{said}>{join(*children)}</{name}>")


def join(*children: Child) -> Html:
    """Put children one after another; plain strings are escaped."""
    parts: list[str] = []
    for child in children:
        if isinstance(child, Html):
            parts.append(child)
        elif isinstance(child, str):
            parts.append(escape(child))
        elif child is not None:
            parts.extend(child)
    return Html("".join(parts))


def _attribute(key: str, value: Value) -> str:
    if value is None or value is False:
        return ""
    name = key.rstrip("_").replace("_", "-")
    if value is True:
        return f" {name}"
    text = f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
    return f' {name}="{escape(text)}"'


def name_text(name: str) -> Html:
    """Write a name so that a narrow column breaks it between its parts.

    Examples
    --------
    >>> name_text("tag_<new>Posts")
    'tag_&lt;new&gt;Posts'
    >>> name_text("amazed-surprised")
    'amazed-<wbr/>surprised'
    """
    return Html("<wbr/>".join(escape(part) for part in _PARTS.split(name)))


def paragraph(*children: Child, class_: str | None = None) -> Html:
    """Write a paragraph."""
    return tag("p", *children, class_=class_)


def hidden(text: str) -> Html:
    """Write text for readers that do not see the page."""
    return tag("span", text, class_="unseen")


def details(summary: str, *children: Child) -> Html:
    """Write what opens on demand, and when printed."""
    return tag("details", tag("summary", summary), *children)


def counted(number: int, singular: str, plural: str | None = None) -> str:
    """Write a number and what it counts.

    Examples
    --------
    >>> counted(1, "cell"), counted(0, "cell"), counted(2, "study", "studies")
    ('1 cell', '0 cells', '2 studies')
    """
    return f"{number:,} {singular if number == 1 else plural or singular + 's'}"


def listed(names: list[str]) -> str:
    """Write names as in a sentence.

    Examples
    --------
    >>> listed(["BR"]), listed(["BR", "CC", "CTBN"])
    ('BR', 'BR, CC and CTBN')
    """
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + f" and {names[-1]}"


# ------------------------------------------------------------------------------- text in drawings


def text_width(text: str, size: float) -> float:
    """Estimate the width of text in a common sans-serif face, on the generous side."""
    return size * sum(map(_glyph, text))


def _glyph(letter: str) -> float:
    if letter in "iljtfrI.,:;'|!()[] ":
        return 0.38
    if letter in "mwMW@%" or letter.isupper():
        return 0.88 if letter in "mwMW@%" else 0.72
    return 1.05 if unicodedata.east_asian_width(letter) in "WF" else 0.6


def cut(name: str, longest: int) -> str:
    """Shorten a name for a drawing; its full form is in the tooltip.

    Examples
    --------
    >>> cut("short", 8), cut("rather long", 8)
    ('short', 'rather …')
    """
    text = " ".join(name.split())
    return text if len(text) <= longest else text[: longest - 1] + "…"
