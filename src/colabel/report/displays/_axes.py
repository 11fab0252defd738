"""Axes to draw in, and the colours that the displays share."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INK, QUIET, ACCENT = "#1b2430", "#5c6773", "#0072b2"


def axes_or_new(ax: Axes | None, what: str, width: float = 6.0, height: float = 4.0) -> Axes:
    """Return the axes, or those of a new figure; a sentence if matplotlib is not there."""
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot as plt
    except ImportError:
        raise ImportError(
            f"Drawing {what} needs matplotlib, which is not installed: run pip install matplotlib."
        ) from None
    return plt.figure(figsize=(width, height), layout="constrained").add_subplot()
