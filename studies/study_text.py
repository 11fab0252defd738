"""Results of a study as text: tables for a terminal, and sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from studies.cells import Cell
from studies.measures import MEASURES
from studies.record import printed_mark
from studies.results import FEWEST_SPLITS, LEVEL, Entry, Results, Verdict

if TYPE_CHECKING:
    from studies.plan import Claim

QUICK_FORM = (
    "The quick form of a study, to see that everything runs: fewer splits, and no figure to quote."
)
TOO_FEW_SPLITS = f"Fewer than {FEWEST_SPLITS} splits cannot tell what is significant: no marks."
_MEANS = "Mean ± standard error over splits{printed}, the best in bold."
_MARKS = (
    "+ the reference ({reference}) is significantly better than this method, - it is worse "
    f"(paired t-test at {LEVEL:g})."
)
_VERDICTS = {
    "yes": "holds",
    "better": "better, not significantly",
    "no": "does not hold",
    "not comparable": "not comparable",
    "not measured": "not measured",
}


def legend(results: Results) -> str:
    """Say how the tables of a study are to be read."""
    printed = ", the printed figure in parentheses" if results.plan.figures else ""
    if results.too_few_splits:
        return f"{_MEANS.format(printed=printed)} {TOO_FEW_SPLITS}"
    return f"{_MEANS} {_MARKS}".format(printed=printed, reference=results.plan.reference)


def study_tables(results: Results, width: int | None = None) -> Iterator[Table]:
    """Yield a table for each measure, methods down, data sets across.

    With a `width` in characters, tables that would be wider are cut between data sets.
    """
    for measure in results.plan.measures:
        entries = results.table(measure)
        columns = {
            d: [table_cell(results, measure, d, m, entries, "[bold]") for m in results.methods]
            for d in results.datasets
        }
        title = capital(MEASURES[measure].title)
        for part in _fitting(columns, max(map(len, results.methods)), width):
            table = Table(title=title, title_justify="left")
            table.add_column("method")
            for dataset in part:
                table.add_column(escape(dataset), justify="right")
            for position, method in enumerate(results.methods):
                table.add_row(escape(method), *(columns[dataset][position] for dataset in part))
            yield table
            title = f"{capital(MEASURES[measure].title)}, continued"


def _fitting(
    columns: Mapping[str, Sequence[str]], first: int, width: int | None
) -> Iterator[list[str]]:
    """Cut columns into runs that fit a width beside a first column of `first` characters."""
    frame = 3  # between two columns: a line and a blank on either side
    start = used = max(first, len("method")) + frame + 1
    part: list[str] = []
    for name, cells in columns.items():
        needed = max(len(name), *(Text.from_markup(cell).cell_len for cell in cells)) + frame
        if part and width is not None and used + needed > width:
            yield part
            part, used = [], start
        part.append(name)
        used += needed
    yield part


def failures_text(failures: Sequence[tuple[Cell, str]]) -> str:
    """Say which cells failed, equal errors of one method on one data set once."""
    parts = []
    for (dataset, method, error), same in groupby(
        failures, key=lambda pair: (pair[0].dataset, pair[0].method, pair[1])
    ):
        parts.append(f"{method} on {dataset} ({len(list(same))}x): {error}")
    return f"{len(failures)} cells failed. " + "; ".join(parts)


def table_cell(
    results: Results,
    measure: str,
    dataset: str,
    method: str,
    entries: dict[tuple[str, str], Entry],
    bold: str,
) -> str:
    """Write mean, error and mark, and in parentheses what is printed; empty where there is none."""
    entry = entries.get((dataset, method))
    if entry is None:
        return ""
    printed = printed_mark(results.plan, measure, dataset, method) or ""
    sign = f" {printed}" if printed else ""
    published = "" if entry.published is None else f" ({number(entry.published)}{sign})"
    if not entry.splits:
        return f"-{published}"
    spread = "" if np.isnan(entry.error) else f" ± {number(entry.error, entry.mean)}"
    text = f"{number(entry.mean)}{spread}"
    most = max(other.splits for (own, _), other in entries.items() if own == dataset)
    if entry.splits < most:
        text = f"{text} [{entry.splits} of {most} splits]"
    if entry.best:
        text = f"{bold}{text}{bold.replace('[', '[/')}"
    comparison = results.comparison(measure, dataset, method)
    mark = f" {comparison.mark}" if comparison is not None and comparison.mark else ""
    return f"{text}{mark}{published}"


def number(value: float, like: float | None = None) -> str:
    """Three digits after the point below ten, one above; no leading zero, as the papers print."""
    large = abs(value if like is None else like) >= 10.0
    text = f"{value:.1f}" if large else f"{value:.3f}"
    return text.removeprefix("0") if text.startswith("0.") else text


def claim_sentence(claim: Claim, verdicts: Sequence[Verdict]) -> str:
    """Say in how many comparisons a claim holds, and name those in which it does not."""
    counts = {key: sum(v.holds == key for v in verdicts) for key in _VERDICTS}
    said = ", ".join(f"{_VERDICTS[key]} in {n}" for key, n in counts.items() if n)
    comparisons = "comparison" if len(verdicts) == 1 else "comparisons"
    start = f"“{claim.text}”: of {len(verdicts)} {comparisons}, {said}."
    if claim.faster is not None:
        measured = [v for v in verdicts if v.holds != "not measured"]
        times = ", ".join(f"{v.difference:.2g} ({v.dataset}, {v.over})" for v in measured)
        why = "Other implementations on other machines were timed."
        return f"{start} {why} Times as fast here: {times}." if times else start
    against = [
        f"{v.dataset} ({', '.join(filter(None, (v.over, MEASURES[v.measure].title)))})"
        for v in verdicts
    ]
    lost = [text for text, v in zip(against, verdicts, strict=True) if v.holds == "no"]
    return f"{start} It does not hold on {', '.join(lost)}." if lost else start


def capital(text: str) -> str:
    """Write a text with its first letter in upper case."""
    return text[:1].upper() + text[1:]
