"""How a comparison looks in a notebook: a data frame, a table, a figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from colabel.comparing.measures import COMPARED
from colabel.comparing.recommending import BASELINE
from colabel.comparing.result import ModelResult
from colabel.core.optional import require

if TYPE_CHECKING:
    import pandas as pd


def frame_or_records(
    records: list[dict[str, Any]], index: list[str]
) -> pd.DataFrame | list[dict[str, Any]]:
    """Return a data frame with an index, or the records themselves where pandas is not there."""
    if find_spec("pandas") is None:
        return records
    import pandas as pd

    return pd.DataFrame(records).set_index(index)


def ordered(results: Mapping[str, ModelResult], measure: str) -> list[str]:
    """Names of the models, best first by a measure; those without it last."""
    sign = COMPARED[measure].sign
    means = {name: own.mean(measure) for name, own in results.items()}
    return sorted(means, key=lambda n: -sign * means[n] if np.isfinite(means[n]) else np.inf)


def comparison_notebook_html(
    results: Mapping[str, ModelResult],
    measure: str,
    recommended: str,
    heading: str,
    sentences: Sequence[str],
) -> str:
    """Return a table of all measures, best first, below what is to be said about it."""
    models = [own for name, own in results.items() if name != BASELINE]
    best = {key: how.best([own.mean(key) for own in models]) for key, how in COMPARED.items()}
    rows = []
    for name in ordered(results, measure):
        cells = [f'<th style="text-align:left">{escape(name)}</th>']
        for key, how in COMPARED.items():
            mean, error = results[name].mean(key), results[name].standard_error(key)
            text = how.written(mean)
            if key != "seconds" and np.isfinite(error):
                text += f" ± {error:.{how.digits}f}"
            marked = mean == best[key] and name != BASELINE
            cells.append(f"<td>{f'<b>{text}</b>' if marked else text}</td>")
        weight = ' style="background:rgba(127,127,127,.15)"' if name == recommended else ""
        rows.append(f"<tr{weight}>{''.join(cells)}</tr>")
    head = "".join(f"<th>{escape(how.title)}</th>" for how in COMPARED.values())
    said = "".join(f"<p>{escape(sentence)}</p>" for sentence in sentences if sentence)
    return (
        f"<div><p><b>{escape(heading)}</b></p>{said}"
        f'<div style="overflow-x:auto"><table><thead><tr><th style="text-align:left">model</th>'
        f"{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div></div>"
    )


def plot(results: Mapping[str, ModelResult], measure: str, recommended: str, ax: Any) -> Any:
    """Draw means as dots and standard errors as lines, best model on top."""
    require("matplotlib", "A figure")
    from matplotlib import pyplot as plt

    how = COMPARED[measure]
    names = [n for n in ordered(results, measure) if np.isfinite(results[n].mean(measure))]
    if ax is None:
        _, ax = plt.subplots(figsize=(6.0, 0.6 + 0.32 * len(names)), layout="constrained")
    for place, name in enumerate(names):
        error = float(np.nan_to_num(results[name].standard_error(measure)))
        colour = "C1" if name == recommended else "0.6" if name == BASELINE else "C0"
        ax.errorbar(results[name].mean(measure), place, xerr=error, fmt="o", color=colour)
    ax.set_yticks(range(len(names)), names)
    ax.invert_yaxis()
    better = "more" if how.higher_is_better else "less"
    ax.set_xlabel(f"{how.title} ({better} is better; mean ± standard error over folds)")
    ax.grid(axis="x", color="0.9")
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)
    return ax
