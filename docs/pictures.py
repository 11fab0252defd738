"""Draw the pictures of the guide that show what the code on their pages makes.

`make pictures` runs the Python of docs/guide/nonlinear.md and draws docs/images/regions.svg of the
models that it leaves behind; docs/images/label_tree.svg is that of `colabel demo`.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib import rc_context
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from colabel.cli import app

if TYPE_CHECKING:
    from numpy.typing import NDArray

DOCS = Path(__file__).parent
PAGE, PICTURE = DOCS / "guide" / "nonlinear.md", DOCS / "images" / "regions.svg"
_SETS = {
    "no label": ((0, 0, 0), "#e4e7ec"),
    "ring, day": ((1, 1, 0), "#e69f00"),
    "ring, night": ((1, 0, 1), "#3b6fb6"),
}
_OTHER = ("a set that no row has", "#222222")
_SIDE, _POINTS = 2.0, 120


def left_behind(page: Path) -> dict[str, Any]:
    """Run the Python of a page, and return its names."""
    names: dict[str, Any] = {}
    code = re.findall(r"^```python\n(.*?)^```$", page.read_text(encoding="utf-8"), re.M | re.S)
    exec(compile("\n".join(code), str(page), "exec"), names)
    return names


def kinds(labels: NDArray[np.int_]) -> NDArray[np.int_]:
    """Position of each label vector (n, 3) among the sets; the last for any other."""
    found = np.full(len(labels), len(_SETS))
    for position, (codes, _) in enumerate(_SETS.values()):
        found[(labels == codes).all(axis=1)] = position
    return found


def truth(ring: NDArray[np.float64], day: NDArray[np.float64]) -> NDArray[np.int_]:
    """Most probable label vectors, from the chances of the ring and of a day in it."""
    prob = np.stack([1 - ring, ring * day, ring * (1 - day)], axis=1)
    return np.array([codes for codes, _ in _SETS.values()])[prob.argmax(axis=1)]


def regions(names: dict[str, Any]) -> Figure:
    """Draw the most probable label set of every point, under each of the page's models."""
    ticks = (np.arange(_POINTS) + 0.5) / _POINTS * 2 * _SIDE - _SIDE
    grid = np.stack(np.meshgrid(ticks, ticks), axis=-1).reshape(-1, 2)
    maps = {"the truth, and 400 rows": truth(*names["chances"](grid))}
    maps |= {
        name.replace(" + ", " +\u00a0"): model.predict(grid)
        for name, model in names["models"].items()
        if name != "MixtureOfTrees"  # few straight pieces: it looks like CTBN here
    }
    colours = [colour for _, colour in _SETS.values()]
    figure = Figure(figsize=(9.0, 6.6), layout="constrained")
    for ax, (title, labels) in zip(figure.subplots(2, 3).flat, maps.items(), strict=True):
        ax.imshow(
            kinds(labels).reshape(_POINTS, _POINTS),
            cmap=ListedColormap([*colours, _OTHER[1]]),
            vmin=-0.5,
            vmax=len(_SETS) + 0.5,
            origin="lower",
            extent=(-_SIDE, _SIDE, -_SIDE, _SIDE),
            interpolation="nearest",
        )
        ax.set_title(title, fontsize=12)
        ax.set_xticks([])
        ax.set_yticks([])
        ax.spines[:].set_visible(False)
    first = figure.axes[0]
    shown = np.array(colours)[kinds(names["Y"])]
    first.scatter(*names["X"].T, s=9, c=shown, edgecolors="#33363c", linewidths=0.5)
    drawn = np.concatenate([kinds(labels) for labels in maps.values()])
    entries = [*((name, colour) for name, (_, colour) in _SETS.items()), _OTHER]
    patches = [
        Patch(facecolor=colour, edgecolor="#33363c", linewidth=0.5, label=name)
        for position, (name, colour) in enumerate(entries)
        if (drawn == position).any()
    ]
    figure.legend(handles=patches, loc="outside lower center", ncols=4, frameon=False, fontsize=12)
    return figure


if __name__ == "__main__":
    app(["demo", "--cv", "2", "--output", str(PICTURE.parent)], standalone_mode=False)
    with rc_context({"svg.hashsalt": "colabel", "svg.fonttype": "none"}):
        regions(left_behind(PAGE)).savefig(PICTURE, metadata={"Date": None})
