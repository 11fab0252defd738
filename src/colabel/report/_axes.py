"""Axes to draw in, and the colours that the figures share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from colabel.core.optional import require

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INK, QUIET, FAINT = "#1b2430", "#5c6773", "#c3cad3"
# Okabe and Ito's colours, which differ for every kind of colour vision.
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
ACCENT = PALETTE[0]
# Of what attracts, repels and does neither; what repels is dashed as well, so that a print without
# colour still tells them apart.
SIGN_COLOURS = {1: PALETTE[0], -1: PALETTE[1], 0: QUIET}


def axes_or_new(ax: Axes | None, what: str, width: float = 6.0, height: float = 4.0) -> Axes:
    """Return the axes, or those of a new figure; a sentence if matplotlib is not there."""
    require("matplotlib", f"Drawing {what}")
    if ax is not None:
        return ax
    from matplotlib import pyplot as plt

    figure = plt.figure(figsize=(width, height), facecolor="white", layout="constrained")
    return figure.add_subplot()
