"""Formulas as MathML, which browsers draw by themselves: no script, nothing fetched."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from docutils.utils.math import MathError, latex2mathml
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.writers.html5 import HTML5Translator


def _as_mathml(formula: str, *, block: bool) -> str:
    if block and r"\\" in formula and r"\begin" not in formula:
        formula = rf"\begin{{aligned}}{formula}\end{{aligned}}"
    # the size of a bracket follows from its content in MathML
    formula = re.sub(r"\\(?:[bB]ig+[lrm]?)(?![a-zA-Z])", "", formula)
    formula = re.sub(r"\\dots(?![a-zA-Z])", r"\\ldots", formula)
    try:
        return str(latex2mathml.tex2mathml(formula, as_block=block))
    except MathError as error:
        raise ExtensionError(f"The formula {formula!r} cannot be drawn: {error}.") from error


def _visit_inline(self: HTML5Translator, node: nodes.math) -> None:
    self.body.append(_as_mathml(node.astext(), block=False))
    raise nodes.SkipNode


def _visit_block(self: HTML5Translator, node: nodes.math_block) -> None:
    self.body.append('<div class="formula">')
    self.body.append(_as_mathml(node.astext(), block=True))
    self.body.append("</div>")
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the renderer."""
    app.add_html_math_renderer("mathml", (_visit_inline, None), (_visit_block, None))
    return {"version": "1", "parallel_read_safe": True}
