"""Results of a study as text: tables for a terminal, and the Markdown of RESULTS.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np
from rich.table import Table
from rich.text import Text

from colabel.experiments import MEASURES, Cell, Plan, Results
from colabel.experiments.results import FEWEST_SPLITS, LEVEL, LIMIT, Entry, Verdict

if TYPE_CHECKING:
    from colabel.experiments.plan import Claim, Protocol

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
            d: [_cell(results, measure, d, m, entries, "[bold]") for m in results.methods]
            for d in results.datasets
        }
        title = _capital(MEASURES[measure].title)
        for part in _fitting(columns, max(map(len, results.methods)), width):
            table = Table(title=title, title_justify="left")
            table.add_column("method")
            for dataset in part:
                table.add_column(dataset, justify="right")
            for position, method in enumerate(results.methods):
                table.add_row(method, *(columns[dataset][position] for dataset in part))
            yield table
            title = f"{_capital(MEASURES[measure].title)}, continued"


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


def results_markdown(studies: Sequence[Results]) -> str:
    """Return the text of RESULTS.md."""
    lines = ["# Results", "", "Written by `colabel study report`; not edited by hand.", ""]
    lines += _overview(studies)
    for results in studies:
        lines += _study(results)
    return "\n".join(lines).rstrip() + "\n"


def _overview(studies: Sequence[Results]) -> list[str]:
    """A line for each study: its cells, its figures against print, its claims."""
    header = [
        "study",
        "cells",
        "core minutes",
        "figures in print",
        "worse",
        "better",
        "claims: comparisons",
        "hold",
        "better, not significantly",
        "do not hold",
    ]
    lines = _markdown_row(header) + _markdown_row(["---"] * len(header))
    for results in studies:
        cells = {(r.dataset, r.method, r.split): r for r in results.rows}
        spent = sum(r.learn_seconds + r.predict_seconds for r in cells.values())
        against = [len(found()) for found in (results.below_print, results.above_print)]
        verdicts = [v.holds for claim in results.plan.claims for v in results.verdicts(claim)]
        claims = [len(verdicts), *(verdicts.count(key) for key in ("yes", "better", "no"))]
        counts = [len(cells), round(spent / 60), len(results.compared), *against, *claims]
        lines += _markdown_row([results.plan.title, *map(str, counts)])
    return [
        *lines,
        "",
        f"“Worse” and “better” than print are by more than {LIMIT:g} standard errors of the "
        "measured mean (print has an error of its own, which is not given). Core minutes are those "
        "of learning and predicting.",
        "",
    ]


def _study(results: Results) -> list[str]:
    plan = results.plan
    lines = [f"## {plan.title}", "", plan.description.strip(), "", _protocols(plan), ""]
    if plan.is_quick:
        lines += [f"**{QUICK_FORM}**", ""]
    lines += [legend(results), ""]
    for measure in plan.measures:
        lines += _measure(results, measure)
    lines += _disagreements(results)
    lines += _claims(results)
    lines += _other_remarks(results)
    lines += _seconds(results)
    if results.failures:
        lines += ["### Failures", "", failures_text(results.failures), ""]
    if results.missing:
        lines += [f"{results.missing} cells of this study have not been run.", ""]
    return lines


def _protocols(plan: Plan) -> str:
    said = {data.name: _protocol(data.protocol) for data in plan.datasets}
    if len(set(said.values())) == 1:
        return f"Protocol: {next(iter(said.values()))}."
    return "Protocol: " + "; ".join(f"{name}: {text}" for name, text in said.items()) + "."


def _protocol(protocol: Protocol) -> str:
    if protocol.kind == "random":
        sizes = f"{protocol.train:g} training and {protocol.test:g} test rows"
        return f"{protocol.splits} random splits with {sizes} (seed {protocol.seed})"
    if protocol.kind == "draws":
        return f"{protocol.splits} draws (seeds from {protocol.seed})"
    kind = "stratified " if protocol.kind == "stratified" else ""
    how = ", stratified by the first label" if protocol.kind == "first_label" else ""
    return f"{kind}{protocol.splits}-fold cross-validation{how} (seed {protocol.seed})"


def _measure(results: Results, measure: str) -> list[str]:
    entries = results.table(measure)
    if not entries:
        return []
    lines = [f"### {_capital(MEASURES[measure].title)}", ""]
    several = len(results.methods) > 1
    header = ["method", *results.datasets, *(["win/tie/loss"] if several else [])]
    lines += _markdown_row(header) + _markdown_row(["---"] * len(header))
    for method in results.methods:
        row = [_cell(results, measure, d, method, entries, "**") for d in results.datasets]
        if several:
            counts = results.win_tie_loss(measure, method)
            own = method == results.plan.reference or not sum(counts)
            row.append("" if own else "/".join(map(str, counts)))
        lines += _markdown_row([method, *row])
    return [*lines, "", *_ranks(results, measure)]


def _cell(
    results: Results,
    measure: str,
    dataset: str,
    method: str,
    entries: dict[tuple[str, str], Entry],
    bold: str,
) -> str:
    entry = entries.get((dataset, method))
    if entry is None:
        return ""
    published = "" if entry.published is None else f" ({_number(entry.published)})"
    if not entry.splits:
        return f"-{published}"
    spread = "" if np.isnan(entry.error) else f" ± {_number(entry.error, entry.mean)}"
    text = f"{_number(entry.mean)}{spread}"
    most = max(other.splits for (own, _), other in entries.items() if own == dataset)
    if entry.splits < most:
        text = f"{text} [{entry.splits} of {most} splits]"
    if entry.best:
        text = f"{bold}{text}{bold.replace('[', '[/')}"
    comparison = results.comparison(measure, dataset, method)
    mark = f" {comparison.mark}" if comparison is not None and comparison.mark else ""
    return f"{text}{mark}{published}"


def _number(value: float, like: float | None = None) -> str:
    """Three digits after the point below ten, one above; no leading zero, as the papers print."""
    large = abs(value if like is None else like) >= 10.0
    text = f"{value:.1f}" if large else f"{value:.3f}"
    return text.removeprefix("0") if text.startswith("0.") else text


def _ranks(results: Results, measure: str) -> list[str]:
    ranking = results.ranking(measure)
    if ranking is None:
        return []
    listed = ", ".join(
        f"{name} {rank:.2f}" for name, rank in zip(ranking.methods, ranking.ranks, strict=True)
    )
    friedman = "" if np.isnan(ranking.friedman_p) else f" (Friedman p = {ranking.friedman_p:.3g})"
    distance = f"Nemenyi's critical difference is {ranking.critical_difference:.2f}"
    return [f"Average ranks{friedman}: {listed}. {distance}.", ""]


def _disagreements(results: Results) -> list[str]:
    compared = results.compared
    if not compared:
        return []
    below, above = results.below_print(), results.above_print()
    lines = [
        "### Where measured and printed figures disagree",
        "",
        f"Of {len(compared)} figures, {len(below)} are worse than print by more than {LIMIT:g} "
        f"standard errors, {len(above)} better by as much. In parentheses: standard errors.",
        "",
    ]
    for word, found in (("Worse", below), ("Better", above)):
        if found:
            lines += [f"**{word} than print**", "", *_by_reason(results.plan, found), ""]
    return lines


def _by_reason(plan: Plan, found: Sequence[tuple[str, str, str, Entry]]) -> list[str]:
    """One item for each remark with its figures, and one for each method that has none."""
    items: dict[tuple[str, str], list[str]] = {}
    for measure, dataset, method, entry in found:
        key = plan.remark_key(measure, dataset, method)
        figure = (
            f"{method} on {dataset}, {MEASURES[measure].title} {_number(entry.mean)} against "
            f"{_number(entry.published or 0.0)} ({entry.gap:+.1f})"
        )
        place = (plan.remarks[key], "") if key else ("No reason was found.", method)
        items.setdefault(place, []).append(figure)
    return [f"- {'; '.join(figures)}. {reason}" for (reason, _), figures in items.items()]


def _claims(results: Results) -> list[str]:
    if not results.plan.claims:
        return []
    lines = ["### Claims", ""]
    for claim in results.plan.claims:
        lines += [f"- {claim_sentence(claim, results.verdicts(claim))}"]
    return [*lines, ""]


def _other_remarks(results: Results) -> list[str]:
    """What the plan says of figures that have no print, or do not differ from it."""
    others = [f"- {key}: {text}" for key, text in results.other_remarks().items()]
    return ["### Remarks", "", *others, ""] if others else []


def claim_sentence(claim: Claim, verdicts: Sequence[Verdict]) -> str:
    """Say in how many comparisons a claim holds, and name those in which it does not."""
    counts = {key: sum(v.holds == key for v in verdicts) for key in _VERDICTS}
    words = _VERDICTS if claim.faster is None else {**_VERDICTS, "better": "faster by less"}
    said = ", ".join(f"{words[key]} in {n}" for key, n in counts.items() if n)
    comparisons = "comparison" if len(verdicts) == 1 else "comparisons"
    start = f"“{claim.text}”: of {len(verdicts)} {comparisons}, {said}."
    if claim.faster is not None:
        measured = [v for v in verdicts if v.holds != "not measured"]
        times = ", ".join(f"{v.difference:.2g} ({v.dataset}, {v.over})" for v in measured)
        return f"{start} Times as fast: {times}." if times else start
    against = [f"{v.dataset} ({v.over}, {MEASURES[v.measure].title})" for v in verdicts]
    lost = [text for text, v in zip(against, verdicts, strict=True) if v.holds == "no"]
    return f"{start} It does not hold on {', '.join(lost)}." if lost else start


def _seconds(results: Results) -> list[str]:
    seconds = results.seconds()
    if not seconds:
        return []
    header = ["method", *results.datasets]
    lines = ["### Seconds of learning, median of the splits", ""]
    lines += _markdown_row(header) + _markdown_row(["---"] * len(header))
    for method in results.methods:
        known = [seconds.get((dataset, method)) for dataset in results.datasets]
        lines += _markdown_row([method, *("" if s is None else f"{s:.2f}" for s in known)])
    return [*lines, ""]


def _markdown_row(cells: Sequence[str]) -> list[str]:
    return ["| " + " | ".join(cells) + " |"]


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
