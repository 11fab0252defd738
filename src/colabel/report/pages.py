"""Pages in one file: nothing is fetched, and they suit a phone, a screen, the dark and paper.

Templates, the style sheet and the scripts are in `assets/`. Text is escaped by jinja2.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from colabel._version import __version__
from colabel.core.files import written_whole

if TYPE_CHECKING:
    from jinja2 import Environment

# Where a name consists of parts: after _, -, ., / and :, and before a capital in the middle.
_PARTS = re.compile(r"(?<=[_\-./:])(?=\w)|(?<=[a-z0-9])(?=[A-Z])")


@cache
def _templates() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=PackageLoader("colabel.report", "assets"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["fixed"] = fixed
    environment.filters["signed"] = signed
    environment.filters["counted"] = counted
    # a narrow column breaks a name between its parts
    environment.filters["name"] = lambda text: Markup("<wbr>").join(_PARTS.split(str(text)))
    # plain data for a script; "<" stands as in a string, so that no tag can end early
    environment.filters["data"] = lambda content: Markup(
        json.dumps(content, separators=(",", ":")).replace("<", "\\u003c")
    )
    return environment


def rendered(template: str, **content: Any) -> str:
    """Return a template of `assets/` with its content."""
    return _templates().get_template(template).render(**content)


def page(template: str, *scripts: str, **content: Any) -> str:
    """Return a whole page; `scripts` are those it needs beside that of all pages."""
    from markupsafe import Markup

    folder = resources.files("colabel.report").joinpath("assets")
    texts = [folder.joinpath(name).read_text("utf-8") for name in ("page.js", *scripts)]
    # No network at all; of scripts, only these very ones. Drawings carry styles of their own.
    digests = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in texts]
    return rendered(
        template,
        **content,
        version=__version__,
        allowed=Markup(" ".join(f"'sha256-{digest}'" for digest in digests)),
        style=Markup(folder.joinpath("page.css").read_text("utf-8")),
        scripts=[Markup(text) for text in texts],
    )


def write_page(path: str | Path, content: str) -> None:
    """Write a page; it appears under its name when it is complete."""
    with written_whole(Path(path)) as part:
        # A lone surrogate in a name must not cost the report.
        part.write_bytes(content.encode("utf-8", errors="replace"))


def cut(name: str, longest: int) -> str:
    """Shorten a name for a drawing.

    >>> cut("short", 8), cut("rather long", 8)
    ('short', 'rather …')
    """
    text = " ".join(name.split())
    return text if len(text) <= longest else text[: longest - 1] + "…"


def counted(number: int, singular: str, plural: str | None = None) -> str:
    """Write a number and what it counts.

    >>> counted(1, "cell"), counted(0, "cell"), counted(2000, "study", "studies")
    ('1 cell', '0 cells', '2,000 studies')
    """
    return f"{number:,} {singular if number == 1 else plural or singular + 's'}"


def fixed(value: float, digits: int) -> str:
    """Write a number with a fixed number of digits and without a zero before the point.

    >>> fixed(0.4321, 3), fixed(-0.05, 2), fixed(-0.001, 2), fixed(1.25, 1), fixed(math.nan, 1)
    ('.432', '−.05', '.00', '1.2', '–')
    """
    if not math.isfinite(value):
        return "–" if math.isnan(value) else "∞" if value > 0 else "−∞"
    text = f"{abs(value):.{digits}f}"
    sign = "−" if value < 0 and float(text) > 0 else ""
    return sign + (text[1:] if digits > 1 and text.startswith("0.") else text)


def signed(value: float, digits: int) -> str:
    """Write a number with its sign.

    >>> signed(0.25, 2), signed(-1.5, 1), signed(0.0, 1)
    ('+.25', '−1.5', '0.0')
    """
    text = fixed(value, digits)
    return f"+{text}" if value > 0 and float(f"{value:.{digits}f}") > 0 else text
