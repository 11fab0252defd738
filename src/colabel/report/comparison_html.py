"""The report of `colabel compare`: one HTML file, for phone and desktop, screen and paper."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from colabel.experiments.comparing import BASELINE, LearnedGraph, ModelResult, TableComparison
from colabel.experiments.measures import COMPARED
from colabel.labels import MISSING
from colabel.metrics import f1_score
from colabel.report._html.charts import Mean, means_chart, reliability_chart, tiles
from colabel.report._html.graphs import graph_figure
from colabel.report._html.markup import Html, details, join, paragraph, tag
from colabel.report._html.page import page, section, write_page
from colabel.report._html.tables import Column, Field, table
from colabel.report.graph_text import graph_text
from colabel.report.reliability import reliability
from colabel.tables import TableSummary

_MOST_LABELS, _MOST_VALUES, _MOST_NAMES = 40, 4, 8


def write_comparison_html(
    path: Path, summary: TableSummary, comparison: TableComparison, fit_command: str = ""
) -> None:
    """Write the report; it appears under its name when it is complete."""
    write_page(path, comparison_html(summary, comparison, fit_command))


def comparison_html(
    summary: TableSummary, comparison: TableComparison, fit_command: str = ""
) -> str:
    """Return the report as HTML that needs nothing else.

    Parameters
    ----------
    summary : TableSummary
    comparison : TableComparison
    fit_command : str
        How the recommended model is fitted on the command line.
    """
    name = Path(summary.path).name
    chosen = comparison.results[comparison.recommended]
    about = (
        f"{summary.n_rows:,} rows, {len(summary.labels):,} labels, {comparison.n_folds} folds of "
        "cross-validation."
    )
    verdict = tag(
        "div",
        tag("b", f"Take {chosen.title}"),
        Html(" "),
        tag("code", f"--model {comparison.recommended}"),
        paragraph(comparison.reason),
        class_="verdict",
    )
    title = COMPARED[comparison.measure].title
    parts = [
        section(title[0].upper() + title[1:], "measure", _means(comparison)),
        section("All measures", "measures", _scores(comparison)),
        section("The table", "table", _seen(summary)),
        section("Label by label", "labels", _labels(summary, comparison, chosen)),
    ]
    if comparison.graph is not None:
        content = _graph(comparison.graph)
        parts.append(section("Which label depends on which", "graph", content))
    parts += [
        section("Can its probabilities be believed?", "calibration", _calibration(chosen)),
        section("How to go on", "on", _on(name, comparison, fit_command)),
    ]
    return page(f"{name}: which model?", about, None, join(verdict, parts))


# ------------------------------------------------------------------------------------- scores


def _ordered(comparison: TableComparison) -> list[str]:
    """Names of the models, best first by the measure that decides."""
    sign = COMPARED[comparison.measure].sign
    means = {name: own.mean(comparison.measure) for name, own in comparison.results.items()}
    return sorted(means, key=lambda n: -sign * means[n] if np.isfinite(means[n]) else np.inf)


def _means(comparison: TableComparison) -> Html:
    key, measure = comparison.measure, COMPARED[comparison.measure]
    means = []
    for name in _ordered(comparison):
        result = comparison.results[name]
        error = float(np.nan_to_num(result.standard_error(key)))
        means.append(Mean(result.title, result.mean(key), error, name == comparison.recommended))
    means = [mean for mean in means if np.isfinite(mean.value)]
    low = min(mean.value - mean.error for mean in means)
    high = max(mean.value + mean.error for mean in means)
    pad = 0.05 * max(high - low, 1e-3)
    top = min(1.0, high + pad) if measure.higher_is_better else high + pad
    better = "more" if measure.higher_is_better else "less"
    said = f"{measure.meaning}; {better} is better. Dot: mean over folds; line: one standard error."
    chart = means_chart(means, max(0.0, low - pad), top, measure.digits)
    return join(paragraph(said[0].upper() + said[1:], class_="legend"), chart)


def _scores(comparison: TableComparison) -> Html:
    models = [result for name, result in comparison.results.items() if name != BASELINE]
    best = {key: m.best([own.mean(key) for own in models]) for key, m in COMPARED.items()}
    rows = []
    for name in _ordered(comparison):
        result = comparison.results[name]
        fields = [Field(result.title)]
        for key, measure in COMPARED.items():
            mean, error = result.mean(key), result.standard_error(key)
            is_best = mean == best[key] and name != BASELINE
            written = tag("b" if is_best else "span", measure.written(mean))
            if key != "seconds" and np.isfinite(error):
                spread = tag("span", f" ± {error:.{measure.digits}f}", class_="error")
                written = join(written, spread)
            fields.append(Field(written, mean, "none" if name == BASELINE else None))
        rows.append(fields)
    columns = [Column("model", is_text=True), *(Column(m.title) for m in COMPARED.values())]
    failed = [paragraph(f"{name} failed: {why}") for name, why in comparison.failed.items()]
    caption = "Mean ± standard error over folds; the best of each column is bold"
    return join(table(caption, columns, rows), failed)


# ------------------------------------------------------------------------------ what was seen


def _seen(summary: TableSummary) -> Html:
    n_features = sum(map(len, summary.kinds.values()))
    entries = [
        (f"{summary.n_rows:,}", "rows"),
        (f"{n_features:,}", "sparse features" if summary.is_sparse else "feature columns"),
        (f"{len(summary.labels):,}", "labels"),
        (f"{summary.n_label_sets:,}", "different label sets"),
        (f"{100 * summary.missing_share:.1f} %", "of cells empty"),
    ]
    if summary.labels_per_row is not None:
        entries.insert(3, (f"{summary.labels_per_row:.2f}", "labels a row"))
    lines = [f"{len(n):,} of kind {kind}: {_few(n)}" for kind, n in summary.kinds.items()]
    if summary.left_out:
        reasons = [f"{name} ({reason})" for name, reason in summary.left_out.items()]
        lines.append(f"{len(reasons):,} left out: {_few(reasons)}")
    items = [tag("li", line) for line in lines]
    items += [tag("li", tag("b", sentence)) for sentence in summary.warnings]
    return join(tiles(entries), tag("ul", items))


def _few(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


# ------------------------------------------------------------------------------------- labels


def _labels(summary: TableSummary, comparison: TableComparison, chosen: ModelResult) -> Html:
    indicator = comparison.task.space.is_indicator
    true, predicted = chosen.held_out.true, chosen.held_out.codes
    rows = []
    for i, label in enumerate(summary.labels[:_MOST_LABELS]):
        known = true[:, i] != MISSING
        own, said = true[known, i : i + 1], predicted[known, i : i + 1]
        right = float((own == said).mean()) if len(own) else np.nan
        if indicator:
            share = float(own.mean()) if len(own) else np.nan
            f1 = f1_score(own, said, average="macro") if len(own) else np.nan
            seen, last = Field(f"{100 * share:.1f} %", share), [Field(f"{f1:.3f}", f1)]
        else:
            values = [f"{v} {n:,}" for v, n in [*label.counts.items()][:_MOST_VALUES]]
            more = " …" if len(label.counts) > _MOST_VALUES else ""
            seen, last = Field(", ".join(values) + more), []
        rows.append([Field(label.name), seen, Field(f"{100 * right:.1f} %", right), *last])
    columns = [Column("label", is_text=True), Column("in rows"), Column("right"), Column("F1")]
    if not indicator:
        columns = [columns[0], Column("values", is_text=True), columns[2]]
    more_labels = len(summary.labels) - _MOST_LABELS
    rest = paragraph(f"and {more_labels:,} more labels") if more_labels > 0 else None
    return join(table(f"{chosen.title} on rows it had not seen", columns, rows), rest)


def _graph(found: LearnedGraph) -> Html:
    """Draw what the joints say of every edge, where labels are 0/1, and write the rest as text."""
    if not len(found.graph.ends):
        return paragraph(found.graph.meaning)
    lines = tag("div", tag("pre", graph_text(found.graph)), class_="scroll", tabindex="0")
    text = join(paragraph(found.graph.meaning, class_="legend"), lines)
    by = paragraph(f"By {found.title}, learned from all rows.", class_="legend")
    if found.averaged is None:
        return join(by, text)
    drawing = graph_figure(found.averaged, found.title, "label-graph")
    return join(by, drawing, details("What each edge is worth to the model", text))


# -------------------------------------------------------------------------------- calibration


def _calibration(chosen: ModelResult) -> Html:
    found = chosen.held_out
    assert found.marginals is not None
    assert found.confidence is not None
    known = found.true != MISSING
    came_true = found.true == (1 if found.space.is_indicator else found.codes)
    single = reliability(np.clip(found.marginals, 0, 1), np.where(known, came_true, np.nan))
    right = (found.true == found.codes).all(axis=1)
    whole = np.where(known.all(axis=1), right, np.nan)
    joint = reliability(np.clip(found.confidence, 0, 1), whole)
    said = (
        f"{chosen.title} on rows it had not seen. On the diagonal, what is said with probability p "
        "comes true in a share p of the cases; larger dots stand for more cases."
    )
    charts = [
        reliability_chart(single, "single labels"),
        reliability_chart(joint, "whole label sets"),
    ]
    return join(paragraph(said, class_="legend"), tag("div", charts, class_="charts"))


def _on(name: str, comparison: TableComparison, fit_command: str) -> Html:
    first = fit_command or (
        f"colabel fit {name} --labels … --model {comparison.recommended} -o model.colabel"
    )
    said = (
        "Scaling, encoding and filling in were learned from the training folds only. Folds keep "
        "every label about equally common. Standard errors are over folds, whose training rows "
        "overlap: read small differences with care."
    )
    then = "colabel predict model.colabel new.csv -o out.csv --top-k 3"
    commands = [paragraph(tag("code", command)) for command in (first, then)]
    untried = paragraph(comparison.untried) if comparison.untried else None
    return join(commands, untried, paragraph(said, class_="legend"))
