"""One table for each measure: measured beside published, marks, wins and ties, p-values."""

from __future__ import annotations

import math
from collections.abc import Sequence

from colabel.experiments import Results
from colabel.experiments.measures import MEASURES
from colabel.experiments.record import (
    marks_alike,
    printed_mark,
    printed_win_tie_loss,
    table_order,
)
from colabel.experiments.results import LEVEL, Comparison, Entry
from colabel.report._html.markup import Html, counted, details, hidden, join, paragraph, tag
from colabel.report._html.numbers import digits_for, fixed, p_value, signed
from colabel.report._html.tables import EMPTY, Column, Field, table
from colabel.report.study_text import TOO_FEW_SPLITS

_SAID = {
    "+": "the reference is significantly better",
    "-": "the reference is significantly worse",
}


def measure_table(results: Results, measure: str) -> Html:
    """Write the table of one measure; `measures_legend` explains it."""
    entries = results.table(measure)
    if not entries:
        return paragraph("Not measured yet.")
    digits = digits_for(
        value for entry in entries.values() for value in (entry.mean, entry.published or 0.0)
    )

    splits = {data.name: data.n_run for data in results.plan.datasets}

    def field(dataset: str, method: str) -> Field:
        entry = entries.get((dataset, method))
        if entry is None:
            return EMPTY
        comparison = results.comparison(measure, dataset, method)
        content = join(
            _measured(entry, comparison, digits),
            _published(entry, printed_mark(results.plan, measure, dataset, method), digits),
            _incomplete(entry, splits[dataset]),
        )
        return Field(content, entry.mean, "best" if entry.best else None)

    datasets, methods = table_order(results, measure)
    rows = [[Field(d), *(field(d, m) for m in methods)] for d in datasets]
    columns = [Column("data set", is_text=True), *(Column(name) for name in methods)]
    better = "more" if MEASURES[measure].higher_is_better else "less"
    alike, total = marks_alike(results, measure)
    said = f"Of {counted(total, 'mark')} of significance in print {alike} are measured too."
    return join(
        table(
            f"Mean ± standard error of {MEASURES[measure].title}; {better} is better",
            columns,
            rows,
            _foot(results, measure, methods),
            kind="measures",
        ),
        paragraph(said, class_="legend") if total else None,
        _tests(results, measure),
    )


def _measured(entry: Entry, comparison: Comparison | None, digits: int) -> Html:
    if not entry.splits:
        return tag("span", "–", class_="mean")
    sign = comparison.mark if comparison else ""
    mark = tag(
        "span", sign.replace("-", "−"), class_="mark", title=_SAID.get(sign), aria_hidden="true"
    )
    error = "" if math.isnan(entry.error) else f" ± {fixed(entry.error, digits)}"
    return join(
        tag("b" if entry.best else "span", fixed(entry.mean, digits), class_="mean"),
        tag("span", error, class_="error") if error else None,
        mark,
        hidden(", best") if entry.best else None,
        hidden(f", {_SAID[sign]}") if sign else None,
    )


def _published(entry: Entry, mark: str | None, digits: int) -> Html | None:
    if entry.published is None:
        return None
    gap = "" if entry.gap is None else f" ({signed(entry.gap, 1)})"
    words = hidden(", published ")
    sign = f" {mark.replace('-', '−')}" if mark else ""
    return tag("small", words, f"{fixed(entry.published, digits)}{sign}{gap}", class_="print")


def _incomplete(entry: Entry, splits: int) -> Html | None:
    """Warn of a mean that is not over the same splits as the others."""
    if entry.splits in (0, splits):
        return None
    return tag("small", hidden(", "), f"{entry.splits} of {splits} splits", class_="print")


def _foot(results: Results, measure: str, methods: Sequence[str]) -> list[list[Field]]:
    plan, lines = results.plan, []
    others = [m for m in methods if m != plan.reference]
    ours = {m: results.win_tie_loss(measure, m) for m in others}
    print_ = {m: printed_win_tie_loss(plan, measure, m) for m in others}
    for name, counts in ((f"{plan.reference} wins/ties/losses", ours), ("in print", print_)):
        known = {m: "/".join(map(str, c)) for m, c in counts.items() if c is not None and any(c)}
        if known:
            fields = [Field(known[m]) if m in known else EMPTY for m in methods]
            lines.append([Field(name), *fields])
    ranking = results.ranking(measure)
    if ranking is not None:
        ranks = dict(zip(ranking.methods, ranking.ranks.tolist(), strict=True))
        fields = [Field(fixed(ranks[m], 2)) if m in ranks else EMPTY for m in methods]
        lines.append([Field("average rank"), *fields])
    return lines


def measures_legend(results: Results) -> Html | None:
    """Say how the tables of all measures are read; None where there is nothing to say."""
    entries = {
        (measure, *key): entry
        for measure in results.plan.measures
        for key, entry in results.table(measure).items()
    }
    reference = results.plan.reference
    level = fixed(LEVEL, 2)
    parts = []
    if len(results.methods) > 1:
        marks = (
            f"+ where {reference} is significantly better than the method and − where it is worse "
            f"(paired t-test over splits, level {level})."
        )
        parts = [
            "Bold: the best mean of a data set.",
            TOO_FEW_SPLITS if results.too_few_splits else marks,
        ]
    if any(entry.published is not None for entry in entries.values()):
        parts.append(
            "Small, below: the published figure, with its own mark where the paper prints marks, "
            "and in brackets by how many standard errors the measured one is better (+) or worse "
            "(−)."
        )
    if len(entries) < len(results.plan.measures) * len(results.datasets) * len(results.methods):
        parts.append("–: not measured, or not defined for the method.")
    return paragraph(" ".join(parts), class_="legend") if parts else None


def _tests(results: Results, measure: str) -> Html | None:
    others = [m for m in results.methods if m != results.plan.reference]
    found = {(d, m): results.comparison(measure, d, m) for d in results.datasets for m in others}
    if not any(found.values()):
        return None
    rows = [[Field(d), *(_test(found[d, m]) for m in others)] for d in results.datasets]
    return details(
        f"p-values against {results.plan.reference}",
        table(
            f"{results.plan.reference} against the others: p of the paired t-test, p of the "
            "corrected resampled t-test, Cohen’s d of the differences",
            [Column("data set", is_text=True), *(Column(m) for m in others)],
            rows,
        ),
        paragraph(
            "Training sets of different splits overlap, which the corrected test (Nadeau and "
            "Bengio, 2003) takes into account and the paired one does not. Sorted by the paired p.",
            class_="legend",
        ),
    )


def _test(found: Comparison | None) -> Field:
    if found is None:
        return EMPTY
    text = f"{p_value(found.paired.p_value)}, {p_value(found.corrected.p_value)}"
    effect = tag("small", f"d {signed(found.paired.effect, 1)}", class_="print")
    return Field(join(text, effect), found.paired.p_value)
