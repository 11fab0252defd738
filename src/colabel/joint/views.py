"""A joint for people: as a data frame, as lines of text, as HTML for a notebook."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from colabel.labels import LabelSpace

if TYPE_CHECKING:
    import pandas as pd

    from colabel.joint.base import Joint

_ROWS, _SETS = 5, 3


def named_set(codes: Sequence[int], space: LabelSpace) -> list[str]:
    """Write a label vector: the labels that are 1, or variable=value for class variables."""
    if space.is_indicator:
        return [name for name, code in zip(space.names, codes, strict=True) if code]
    return [
        f"{name}={classes[code]}"
        for name, classes, code in zip(space.names, space.classes, codes, strict=True)
    ]


def label_set_text(codes: Sequence[int], space: LabelSpace) -> str:
    """Write a label vector on one line."""
    return ", ".join(named_set(codes, space)) or "no label"


def marginals_frame(joint: Joint) -> pd.DataFrame:
    """Probability of each label alone: one row per row, one column per label or value."""
    require_pandas()
    import pandas as pd

    marginals = joint.marginals()
    space = joint.space
    if isinstance(marginals, np.ndarray):
        return pd.DataFrame(marginals, joint.index, list(space.names))
    pairs = [
        (name, value)
        for name, classes in zip(space.names, space.classes, strict=True)
        for value in classes.tolist()
    ]
    columns = pd.MultiIndex.from_tuples(pairs, names=["label", "value"])
    return pd.DataFrame(np.concatenate(marginals, axis=1), joint.index, columns)


def top_k_frame(joint: Joint, k: int) -> pd.DataFrame:
    """The k most probable label vectors of each row: one line each, with its probability."""
    require_pandas()
    import pandas as pd

    labels, log_prob = joint.top_k(k)
    n_rows, n_sets = log_prob.shape
    rows = range(n_rows) if joint.index is None else joint.index
    index = pd.MultiIndex.from_product([rows, range(1, n_sets + 1)], names=["row", "rank"])
    flat = labels.reshape(n_rows * n_sets, -1)
    frame = pd.DataFrame(flat, columns=list(joint.space.names), index=index)
    frame.insert(0, "probability", np.exp(log_prob).ravel())
    return frame


def require_pandas() -> None:
    """Raise an ImportError that says what to install, unless pandas is there."""
    try:
        import pandas  # noqa: F401
    except ImportError:
        raise ImportError(
            "A data frame needs pandas, which is not installed: run pip install pandas."
        ) from None


def as_text(joint: Joint) -> str:
    """Return the first line of the representation, then the best label sets of some rows."""
    lines = [repr(joint), f"  {joint.how}"]
    for row, sets in enumerate(_best_sets(joint)):
        written = " | ".join(f"{prob:.3f} {text}" for text, prob in sets)
        lines.append(f"  row {row}: {written}")
    if joint.n_rows > _ROWS:
        lines.append(f"  and {joint.n_rows - _ROWS} more rows")
    return "\n".join(lines)


def as_html(joint: Joint) -> str:
    """Return a small table: the best label sets of some rows, with bars for probabilities."""
    rows = []
    for row, sets in enumerate(_best_sets(joint)):
        for rank, (text, prob) in enumerate(sets):
            number = f'<th rowspan="{len(sets)}" scope="row">{row}</th>' if rank == 0 else ""
            bar = (
                '<span style="display:inline-block;height:.7em;vertical-align:baseline;'
                f"background:currentColor;opacity:.45;margin-right:.4em;"
                f'width:{6 * prob:.2f}em"></span>'
            )
            cells = f'<td style="text-align:left">{escape(text)}</td>'
            prob_cell = f'<td style="text-align:left">{bar}{prob:.3f}</td>'
            rows.append(f"<tr>{number}{cells}{prob_cell}</tr>")
    more = f"<p>and {joint.n_rows - _ROWS} more rows</p>" if joint.n_rows > _ROWS else ""
    return (
        f"<div><p><b>{escape(repr(joint)[1:-1])}</b><br><small>{escape(joint.how)}</small></p>"
        "<table><thead><tr><th>row</th><th>label set</th><th>probability</th></tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table>{more}</div>"
    )


def _best_sets(joint: Joint) -> list[list[tuple[str, float]]]:
    """The most probable label sets of the first rows, as texts with probabilities."""
    if not joint.n_rows:
        return []
    first = joint[: min(_ROWS, joint.n_rows)]
    try:
        codes, log_prob = first.top_k_codes(first._at_most_all(_SETS))
    except NotImplementedError:  # a family that has only its most probable vectors
        codes = first.mode_codes()[:, None]
        log_prob = np.full(codes.shape[:2], np.nan)
    return [
        [
            (label_set_text(vector, joint.space), float(np.exp(log)))
            for vector, log in zip(vectors.tolist(), logs.tolist(), strict=True)
            if log > -np.inf or np.isnan(log)
        ]
        for vectors, logs in zip(codes, log_prob, strict=True)
    ]
