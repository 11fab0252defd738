"""A page in one file: nothing is fetched, and it suits a phone, a screen, the dark and paper."""

from __future__ import annotations

import base64
import hashlib
import json
from importlib import resources
from pathlib import Path
from typing import Any

from colabel._version import __version__
from colabel.core.files import written_whole
from colabel.report._html.markup import Html, join, paragraph, tag


def page(title: str, about: str, contents: Html | None, body: Html, extra: str = "") -> str:
    """Return a whole page.

    Parameters
    ----------
    title : str
    about : str
        A line below the title, before what wrote the page.
    contents : Html or None
        Links to its parts.
    body : Html
    extra : str
        Name of a style and a script that the page needs beside those of all pages.
    """
    names = ["report", extra] if extra else ["report"]
    style = "".join(_asset(f"{name}.css") for name in names)
    scripts = [_asset(f"{name}.js") for name in names]
    # No network at all; of scripts, only these very ones. Drawings carry styles of their own.
    digests = [base64.b64encode(hashlib.sha256(s.encode()).digest()).decode() for s in scripts]
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests)
    policy = (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", title),
        tag("style", Html(style)),
    )
    skip = tag("a", "Skip to the results", class_="skip", href="#main")
    written_by = f"{about} Written by colabel {__version__}.".strip()
    header = tag("header", tag("h1", title), paragraph(written_by, class_="q"), contents)
    main = tag("main", body, id="main", tabindex="-1")
    whole = tag("body", skip, header, main, [tag("script", Html(s)) for s in scripts])
    return f"<!doctype html>\n{tag('html', head, whole, lang='en')}\n"


def section(title: str, key: str, content: Html, level: int = 2) -> Html:
    """Return a part of a page, with its heading."""
    return join(tag("section", tag(f"h{level}", title), content, id=key), Html("\n"))


def data_block(content: Any, key: str | None = None) -> Html:
    """Write plain data for a script; "<" stands as in a string, so that no tag can end early."""
    text = json.dumps(content, separators=(",", ":"), ensure_ascii=True).replace("<", "\\u003c")
    return tag("script", Html(text), type="application/json", id=key)


def write_page(path: str | Path, content: str) -> None:
    """Write a page; it appears under its name when it is complete."""
    with written_whole(Path(path)) as part:
        # A lone surrogate in a name must not cost the report.
        part.write_bytes(content.encode("utf-8", errors="replace"))


def _asset(name: str) -> str:
    folder = resources.files("colabel.report").joinpath("assets")
    return folder.joinpath(name).read_text(encoding="utf-8")
