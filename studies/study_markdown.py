"""Results of studies as Markdown, the text of RESULTS.md: papers first, then study by study."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from studies.characteristics import COLUMNS, size_words
from studies.measures import MEASURES
from studies.plan import KINDS, Plan, Remark
from studies.record import (
    Difference,
    broken_claims,
    counts,
    differences,
    marks_alike,
    other_remarks,
    papers,
    printed_win_tie_loss,
    table_order,
    table_title,
)
from studies.results import BOTH, LIMIT, Results
from studies.study_papers import (
    AGREE,
    HEADS,
    comparison_words,
    how_judged,
    paper_numbers,
    paper_sentence,
)
from studies.study_text import (
    QUICK_FORM,
    capital,
    claim_sentence,
    failures_text,
    legend,
    number,
    table_cell,
)

if TYPE_CHECKING:
    from studies.plan import DataPlan


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
    found = papers(studies)
    if not found:
        return []
    lines = [
        f"- **{name}**{how_judged(paper.judge)}: {paper_sentence(paper)}."
        for name, paper in found.items()
    ]
    rows = [[name, *map(str, paper_numbers(paper.counts))] for name, paper in found.items()]
    return [*lines, "", *_table(["paper", *HEADS], rows), "", AGREE, ""]


def _studies(studies: Sequence[Results]) -> list[str]:
    """A line for each study, its cells, its cost, its figures against print; and the sum."""
    limits = [f"by {LIMIT:g}", f"by {BOTH:.1f}"]
    cost = ["cells", "core minutes", "new cells", "core minutes"]
    header = ["study", *cost, "figures", "worse", limits[1], "better", limits[1]]
    rows, known = [], dict[str, float]()
    for results in studies:
        found = counts(results)
        new = {key: spent for key, spent in results.spent.items() if key not in known}
        known |= new
        numbers = [found.compared, *found.worse, *found.better]
        cells = [*_cost(results.spent), *_cost(new)]
        rows.append([results.plan.title, *cells, *map(str, numbers)])
    rows.append(["all", *_cost(known), *_cost(known), *[""] * 5])
    said = (
        "Core minutes are those of learning and predicting. Studies share cells: new ones are "
        "those that no study above has, and all of them are what a run of all studies costs. "
        f"Worse and better than print {limits[0]} standard errors, and of these {limits[1]}."
    )
    return [*_table(header, rows), "", said, ""]


def _cost(spent: Mapping[str, float]) -> list[str]:
    return [str(len(spent)), f"{sum(spent.values()) / 60:.0f}"]


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
    said: dict[str, list[str]] = {}
    for data in plan.datasets:
        said.setdefault(_protocol(data), []).append(data.name)
    listed = [f"{', '.join(names)}: {how}" for how, names in said.items()]
    text = "; ".join(listed) if len(said) > 1 else next(iter(said))
    return " ".join([f"Protocol: {text}.", *_run_on_less(plan)])


def _protocol(data: DataPlan) -> str:
    protocol = data.protocol
    if protocol.kind == "random":
        sizes = f"{protocol.train:g} training and {protocol.test:g} test rows"
        text = f"{protocol.splits} random splits with {sizes} (seed {protocol.seed})"
    elif protocol.kind == "draws":
        text = f"{protocol.splits} draws (seeds from {protocol.seed})"
    else:
        kind = "stratified " if protocol.kind == "stratified" else ""
        how = ", stratified by the first label" if protocol.kind == "first_label" else ""
        text = f"{kind}{protocol.splits}-fold cross-validation{how} (seed {protocol.seed})"
    return text if data.first is None else f"the first {data.first} splits of {text}"


def _run_on_less(plan: Plan) -> list[str]:
    """Sentences about methods that are run on fewer splits, or not at all, on some data sets."""
    found = []
    for method in plan.methods:
        few: dict[str, list[str]] = {}
        for data in plan.datasets:
            if data.name in method.without:
                few.setdefault(f"not run: {method.without[data.name]}", []).append(data.name)
            elif (n_run := plan.n_run(data, method)) != data.n_run:
                few.setdefault(f"the first {n_run} splits", []).append(data.name)
        found += [f"{method.name} on {', '.join(names)}: {said}." for said, names in few.items()]
    return found


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
    rows = _explained([(d.remark, _difference(d)) for d in found])
    return [*lines, *_table(header, rows), ""]


def _explained(rows: Sequence[tuple[Remark, list[str]]]) -> list[list[str]]:
    """Add kind, cause and evidence to rows; those of one cause together, said once."""
    found = []
    for remark in dict.fromkeys(remark for remark, _ in rows):
        words = [remark.cause, remark.evidence]
        for fields in (fields for own, fields in rows if own == remark):
            found.append([*fields, KINDS[remark.kind], *words])
            words = ["〃" if text else "" for text in words]
    return found


def _signed(difference: float) -> str:
    return f"{'-' if difference < 0 else '+'}{number(abs(difference))}"


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
    lines.append("")
    found = broken_claims(results)
    if not found:
        return lines
    header = ["comparison that does not hold", "by", "from", "cause", "evidence"]
    rows = [(b.remark, [comparison_words(b), _signed(b.verdict.difference)]) for b in found]
    return [*lines, *_table(header, _explained(rows)), ""]


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
