"""Results of studies as Markdown, the text of RESULTS.md: papers first, then study by study."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from colabel.experiments import Plan, Results
from colabel.experiments.characteristics import COLUMNS, size_words
from colabel.experiments.measures import MEASURES
from colabel.experiments.record import (
    Counts,
    Difference,
    counts,
    differences,
    judging,
    marks_alike,
    other_remarks,
    printed_win_tie_loss,
    table_order,
    table_title,
)
from colabel.experiments.remarks import KINDS
from colabel.experiments.results import BOTH, LIMIT
from colabel.report.study_text import (
    QUICK_FORM,
    capital,
    claim_sentence,
    failures_text,
    legend,
    number,
    table_cell,
)

if TYPE_CHECKING:
    from colabel.experiments.plan import Protocol

_VERDICTS = {
    "yes": "hold",
    "better": "better, not significantly",
    "no": "do not hold",
    "not comparable": "not comparable",
    "not measured": "not measured",
}
HEADS = (
    "figures",
    "agree",
    *KINDS.values(),
    "not measured",
    "claims",
    "hold",
)
"""Heads of a paper's row: its figures, and the comparisons that its claims make."""
AGREE = (
    f"Figures agree that are within {BOTH:.1f} standard errors of ours, as two means with errors "
    f"like ours would be (print has an error of its own, which is not given); {LIMIT:g} standard "
    "errors are the stricter limit. Each printed figure is counted once."
)


def results_markdown(studies: Sequence[Results]) -> str:
    """Return the text of RESULTS.md."""
    lines = ["# Results", "", "Written by `colabel study report`; not edited by hand.", ""]
    lines += [*_papers(studies), *_studies(studies)]
    for results in studies:
        lines += _study(results)
    return "\n".join(lines).rstrip() + "\n"


# ------------------------------------------------------------------------------------ the overview


def _papers(studies: Sequence[Results]) -> list[str]:
    """A sentence and a row for each paper, by the study that judges it."""
    judges = {name: counts(study) for name, study in judging(studies).items()}
    if not judges:
        return []
    lines = [
        f"- **{name}**{how_judged(study)}: {paper_sentence(judges[name])}."
        for name, study in judging(studies).items()
    ]
    header = ["paper", *HEADS]
    rows = []
    for name, found in judges.items():
        rows.append([name, *map(str, paper_numbers(found))])
    return [*lines, "", *_table(header, rows), "", AGREE, ""]


def how_judged(study: Results) -> str:
    """Say whether a paper is judged by its authors' own protocol."""
    return ", as its authors ran it" if study.plan.as_run else ""


def paper_numbers(found: Counts) -> list[int]:
    """Return the numbers of a paper's row, under `HEADS`."""
    kinds = [found.kinds.get(kind, 0) for kind in KINDS]
    verdicts, hold = sum(found.verdicts.values()), found.verdicts.get("yes", 0)
    return [found.printed, found.agree, *kinds, found.missing, verdicts, hold]


def paper_sentence(found: Counts) -> str:
    """Say in one sentence how a paper stands."""
    parts = []
    if found.compared:
        apart = [f"{found.kinds[kind]} {KINDS[kind]}" for kind in KINDS if found.kinds.get(kind)]
        apart += [f"{found.missing} not measured"] if found.missing else []
        others = f", the others do not ({', '.join(apart)})" if apart else ""
        parts.append(f"of {found.printed} printed figures {found.agree} agree{others}")
    elif found.printed:
        parts.append(f"none of {found.printed} printed figures has been measured")
    verdicts = sum(found.verdicts.values())
    if verdicts:
        said = [f"{n} {_VERDICTS[key]}" for key in _VERDICTS if (n := found.verdicts.get(key, 0))]
        parts.append(f"of {verdicts} comparisons that its claims make {', '.join(said)}")
    return "; ".join(parts) or "neither figures nor claims are known"


def _studies(studies: Sequence[Results]) -> list[str]:
    """A line for each study: its cells, its cost, its figures against print."""
    limits = [f"by {LIMIT:g}", f"by {BOTH:.1f}"]
    header = ["study", "cells", "core minutes", "figures", "worse", limits[1], "better", limits[1]]
    rows = []
    for results in studies:
        cells = {(r.dataset, r.method, r.split): r for r in results.rows}
        spent = sum(r.learn_seconds + r.predict_seconds for r in cells.values())
        found = counts(results)
        numbers = [len(cells), round(spent / 60), found.compared, *found.worse, *found.better]
        rows.append([results.plan.title, *map(str, numbers)])
    said = (
        f"Worse and better than print {limits[0]} standard errors, and of these {limits[1]}. Core "
        "minutes are those of learning and predicting."
    )
    return [*_table(header, rows), "", said, ""]


# --------------------------------------------------------------------------------------- one study


def _study(results: Results) -> list[str]:
    plan = results.plan
    lines = [f"## {plan.title}", "", plan.description.strip(), "", _protocols(plan), ""]
    if plan.is_quick:
        lines += [f"**{QUICK_FORM}**", ""]
    lines += [*_characteristics(results), legend(results), ""]
    for measure in plan.measures:
        lines += _measure(results, measure)
    lines += _differences(results)
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


def _characteristics(results: Results) -> list[str]:
    printed = {data.name: data.printed for data in results.plan.datasets if data.printed}
    if not printed or not results.characteristics:
        return []
    names = [name for name in COLUMNS if any(name in own for own in printed.values())]
    rows = []
    for dataset, own in printed.items():
        found = results.characteristics.get(dataset)
        ours = ["-" if found is None else size_words(getattr(found, name)) for name in names]
        print_ = [f" ({size_words(own[name])})" if name in own else "" for name in names]
        rows.append([dataset, *(a + b for a, b in zip(ours, print_, strict=True))])
    header = ["data set", *(COLUMNS[name] for name in names)]
    return ["### Data sets, the printed numbers in parentheses", "", *_table(header, rows), ""]


def _measure(results: Results, measure: str) -> list[str]:
    """Data sets down and methods across, in the order of the paper's table."""
    entries = results.table(measure)
    if not entries:
        return []
    datasets, methods = table_order(results, measure)
    rows = [
        [d, *(table_cell(results, measure, d, m, entries, "**") for m in methods)] for d in datasets
    ]
    rows += _win_tie_loss(results, measure, methods)
    title = f"### {table_title(results, measure)}"
    return [title, "", *_table(["data set", *methods], rows), "", *_below(results, measure)]


def _win_tie_loss(results: Results, measure: str, methods: Sequence[str]) -> list[list[str]]:
    plan, rows = results.plan, []
    others = [m for m in methods if m != plan.reference]
    ours = {m: results.win_tie_loss(measure, m) for m in others}
    print_ = {m: printed_win_tie_loss(plan, measure, m) for m in others}
    for name, found in (("win/tie/loss", ours), ("win/tie/loss in print", print_)):
        known = {m: c for m, c in found.items() if c is not None and any(c)}
        if known:
            cells = ("/".join(map(str, known[m])) if m in known else "" for m in methods)
            rows.append([name, *cells])
    return rows


def _below(results: Results, measure: str) -> list[str]:
    """What is said below a table: marks that are alike, and ranks."""
    said = []
    alike, total = marks_alike(results, measure)
    if total:
        said.append(f"Of {total} marks of significance in print {alike} are measured too.")
    ranking = results.ranking(measure)
    if ranking is not None:
        listed = ", ".join(
            f"{name} {rank:.2f}" for name, rank in zip(ranking.methods, ranking.ranks, strict=True)
        )
        known = not np.isnan(ranking.friedman_p)
        friedman = f" (Friedman p = {ranking.friedman_p:.3g})" if known else ""
        said.append(
            f"Average ranks{friedman}: {listed}. Nemenyi's critical difference is "
            f"{ranking.critical_difference:.2f}."
        )
    return [" ".join(said), ""] if said else []


def _differences(results: Results) -> list[str]:
    found = differences(results)
    if not results.compared:
        return []
    counted = counts(results)
    lines = [
        "### Figures that differ from print",
        "",
        f"Of {counted.compared} figures, {counted.worse[0]} are worse than print by more than "
        f"{LIMIT:g} standard errors ({counted.worse[1]} by more than {BOTH:.1f}), "
        f"{counted.better[0]} better ({counted.better[1]}).",
        "",
    ]
    if not found:
        return lines
    header = ["figure", "ours", "print", "errors", "from", "cause", "evidence"]
    # figures of one cause together, in the order of the first of each
    order = {remark: place for place, remark in reversed(list(enumerate(d.remark for d in found)))}
    found.sort(key=lambda d: order[d.remark])
    rows = []
    for remark, same in groupby(found, key=lambda d: d.remark):
        for place, difference in enumerate(same):
            said = [remark.cause, remark.evidence] if not place else ["〃", "〃"]
            if not remark.evidence:
                said[1] = ""
            rows.append([*_difference(difference), KINDS[remark.kind], *said])
    return [*lines, *_table(header, rows), ""]


def _difference(difference: Difference) -> list[str]:
    measure, dataset, method, entry, _ = difference
    return [
        f"{dataset}, {method}, {MEASURES[measure].title}",
        f"{number(entry.mean)} ± {number(entry.error, entry.mean)}",
        number(entry.published or 0.0),
        f"{entry.gap:+.1f}",
    ]


def _claims(results: Results) -> list[str]:
    if not results.plan.claims:
        return []
    lines = ["### Claims", ""]
    for claim in results.plan.claims:
        lines += [f"- {claim_sentence(claim, results.verdicts(claim))}"]
    return [*lines, ""]


def _other_remarks(results: Results) -> list[str]:
    """What the plan says of figures that have no print, or do not differ from it."""
    others = [
        f"- {key}: {' '.join(filter(None, (remark.cause, remark.evidence)))}"
        for key, remark in other_remarks(results).items()
    ]
    return ["### Remarks", "", *others, ""] if others else []


def _seconds(results: Results) -> list[str]:
    seconds = results.seconds()
    if not seconds:
        return []
    rows = []
    for dataset in results.datasets:
        known = [seconds.get((dataset, method)) for method in results.methods]
        rows.append([dataset, *("" if s is None else f"{s:.2f}" for s in known)])
    title = capital("seconds of learning, median of the splits")
    return [f"### {title}", "", *_table(["data set", *results.methods], rows), ""]


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return [
        "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
        for cells in (header, ["---"] * len(header), *rows)
    ]
