"""Formulas as pictures in the page, drawn while it is built: no script, no font, nothing fetched.

They take the colour of the text around them, and are read out as they are written.
"""

from __future__ import annotations

import re
from functools import cache
from html import escape
from typing import Any

import ziamath
from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.writers.html5 import HTML5Translator

# glyphs as paths: those shared by name would collide between formulas of one page
ziamath.config.svg2 = False
ziamath.config.precision = 2

_PIXELS = 16.0  # of one em
_SIZE = 18.0


@cache
def drawn(formula: str, *, block: bool) -> str:
    """Return a formula in LaTeX as SVG that stands on the line of the text."""
    if r"\\" in formula and r"\begin" not in formula:
        formula = rf"\begin{{aligned}}{formula}\end{{aligned}}"
    if "\\" in convert(formula):
        raise ExtensionError(f"The formula {formula!r} has a command that cannot be drawn.")
    picture = ziamath.Latex(formula, size=_SIZE, inline=not block, color="currentColor")
    svg = picture.svg()
    box = re.search(r'viewBox="([^"]*)"', svg)
    assert box is not None
    _, top, width, height = (float(value) / _PIXELS for value in box.group(1).split())
    svg = re.sub(r' (?:width|height)="[^"]*"', "", svg, count=2)
    # the line of the text is where y is 0
    place = f"width:{width:.3f}em;height:{height:.3f}em;vertical-align:{-top - height:.3f}em"
    read = escape(" ".join(formula.split()), quote=True)
    return svg.replace(
        "<svg ", f'<svg class="math" role="img" aria-label="{read}" style="{place}" '
    )


def _visit_inline(self: HTML5Translator, node: nodes.math) -> None:
    self.body.append(drawn(node.astext(), block=False))
    raise nodes.SkipNode


def _visit_block(self: HTML5Translator, node: nodes.math_block) -> None:
    self.body.append(f'<div class="formula">{drawn(node.astext(), block=True)}</div>')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the renderer."""
    app.add_html_math_renderer("svg", (_visit_inline, None), (_visit_block, None))
    return {"version": "1", "parallel_read_safe": True}
