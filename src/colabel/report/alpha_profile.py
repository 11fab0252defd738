"""How structure learning keeps and drops candidate edges, as SVG for reports."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from colabel.core.arrays import Array
from colabel.report._html.markup import Html, cut, join, tag, text_width
from colabel.report._html.numbers import fixed

__all__ = ["alpha_profile_svg"]


_WIDTH, _HEIGHT = 460.0, 260.0
_LEFT, _TOP, _BOTTOM = 44.0, 12.0, 38.0
_FONT = 12.0
_MOST_NAMES = 12
_COLOURS = 6  # of lines, in the style sheet


def alpha_profile_svg(profile: ArrayLike, edges: ArrayLike, names: Sequence[str]) -> str:
    r"""Draw one line for each candidate edge: its slack :math:`\alpha_e` after each iteration.

    Edges that end above zero are in the graph and named at the end of their line, up to twelve;
    the others are pale and dashed.

    Parameters
    ----------
    profile : array of shape (iterations + 1, E)
        Such as `PairwiseCRF.alpha_profile_`.
    edges : int array of shape (E, 2)
        Pairs of labels, such as `PairwiseCRF.candidates_`.
    names : sequence of d str
        Names of the labels.

    Returns
    -------
    svg : str
        For `StudyFigure`.

    Examples
    --------
    >>> from colabel.report import alpha_profile_svg
    >>> svg = alpha_profile_svg([[0.5, 0.4], [0.7, 0.1], [0.8, 0.0]], [(0, 1), (1, 2)], "abc")
    >>> svg.count('class="kept'), svg.count('class="dropped"')
    (1, 1)
    """
    values = np.asarray(profile, dtype=np.float64)
    pairs = np.asarray(edges, dtype=np.intp).reshape(-1, 2)
    if values.ndim != 2 or values.shape[1] != len(pairs) or not len(values):
        raise ValueError(
            f"The profile has shape {values.shape}, but there are {len(pairs)} edges: give one "
            "column for each edge, and at least one row."
        )
    if len(pairs) and not (pairs.min() >= 0 and pairs.max() < len(names)):
        raise ValueError(f"The edges name label {pairs.max()}, but there are {len(names)} names.")
    final = values[-1]
    order = np.argsort(-final, kind="stable")
    named = [int(e) for e in order if final[e] > 0.0][:_MOST_NAMES]
    said = [_edge_name(pairs[e], names) for e in named]
    margin = 16.0 + max((text_width(text, _FONT) for text in said), default=40.0)
    top = max(float(np.nanmax(values, initial=0.0)), 1e-3) * 1.05
    kinds = {int(e): "kept" if final[e] > 0.0 else "dropped" for e in order}
    kinds |= {e: f"kept c{place % _COLOURS}" for place, e in enumerate(named)}
    lines = [_line(values[:, e], top, kinds[int(e)]) for e in order[::-1]]
    return tag(
        "svg",
        tag("title", f"Profile of {len(pairs)} candidate edges over {len(values) - 1} iterations"),
        _axes(len(values) - 1, top),
        lines,
        _end_names(said, [float(final[e]) for e in named], top),
        xmlns="http://www.w3.org/2000/svg",
        class_="chart profile",
        viewBox=f"0 0 {_WIDTH + margin:.0f} {_HEIGHT:.0f}",
        style=f"width:{(_WIDTH + margin) * 1.1:.0f}px",
        role="img",
    )


def _edge_name(pair: NDArray[np.intp], names: Sequence[str]) -> str:
    return f"{cut(str(names[pair[0]]), 16)} – {cut(str(names[pair[1]]), 16)}"


def _y(value: float, top: float) -> float:
    floor = _HEIGHT - _BOTTOM
    return floor - (floor - _TOP) * value / top


def _line(values: Array, top: float, kind: str) -> Html:
    last = max(len(values) - 1, 1)
    points = [
        f"{_LEFT + (_WIDTH - _LEFT) * i / last:.1f} {_y(float(v), top):.1f}"
        for i, v in enumerate(values)
        if np.isfinite(v)
    ]
    return tag("path", d="M" + "L".join(points), class_=kind)


def _axes(last: int, top: float) -> Html:
    floor = _HEIGHT - _BOTTOM
    parts = [tag("path", d=f"M{_LEFT:.0f} {_TOP:.0f}V{floor:.0f}H{_WIDTH:.0f}", class_="frame")]
    for share in (0.0, 0.5, 1.0):
        value = top / 1.05 * share
        y = _y(value, top)
        text = fixed(value, 2)
        parts.append(tag("text", text, x=_LEFT - 6.0, y=y + 4.0, text_anchor="end", class_="q"))
    for step in sorted({0, last // 2, last}):
        x = _LEFT + (_WIDTH - _LEFT) * step / max(last, 1)
        parts.append(tag("text", str(step), x=x, y=floor + 16.0, text_anchor="middle", class_="q"))
    middle = (_LEFT + _WIDTH) / 2.0
    words = "iteration; upwards: α of the edge"
    parts.append(tag("text", words, x=middle, y=_HEIGHT - 5.0, text_anchor="middle", class_="q"))
    return join(parts)


def _end_names(said: Sequence[str], values: Sequence[float], top: float) -> list[Html]:
    """Write names at the ends of their lines, from top to bottom, moved apart where needed."""
    wanted = [_y(value, top) for value in values]
    places: list[float] = []
    for y in wanted:
        places.append(max(y, places[-1] + _FONT + 2.0) if places else y)
    # Names that were pushed below the axis move up, and push those above them.
    floor = _HEIGHT - _BOTTOM
    for i in range(len(places) - 1, -1, -1):
        below = places[i + 1] - _FONT - 2.0 if i + 1 < len(places) else floor
        places[i] = min(places[i], below)
    return [
        tag("text", text, x=_WIDTH + 8.0, y=y + 4.0, class_=f"c{place % _COLOURS}")
        for place, (text, y) in enumerate(zip(said, places, strict=True))
    ]
