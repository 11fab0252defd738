"""The report of `colabel compare`: one HTML file, for phone and desktop, screen and paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from colabel.comparing import (
    BASELINE,
    THRESHOLDS,
    ModelResult,
    TableComparison,
    ordered,
)
from colabel.comparing.measures import COMPARED, DECIDED_MEASURES
from colabel.labels import MISSING
from colabel.metrics import f1_score
from colabel.report._html.charts import Mean, means_chart, reliability_chart, tiles
from colabel.report._html.graphs import graph_figure
from colabel.report._html.markup import Html, details, join, paragraph, tag
from colabel.report._html.numbers import fixed
from colabel.report._html.page import page, section, write_page
from colabel.report._html.tables import Column, Field, table
from colabel.report.reliability import Reliability, reliability
from colabel.tables import TableSummary

_MOST_LABELS, _MOST_VALUES, _MOST_NAMES = 40, 4, 8
_OFF = 0.05  # calibration error of whole label sets from which on the remedy is offered


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
    chosen = comparison.best
    about = (
        f"{summary.n_rows:,} rows, {len(summary.labels):,} labels, {comparison.n_folds} folds of "
        f"cross-validation. {comparison.sampled}"
    )
    warned = [tag("li", sentence) for sentence in comparison.warnings]
    verdict = tag(
        "div",
        tag("b", f"Take {chosen.title}"),
        Html(" "),
        tag("code", f"--model {comparison.recommended}"),
        paragraph(comparison.reason),
        tag("ul", warned, class_="warned") if warned else None,
        paragraph(comparison.sets.sentence) if comparison.sets else None,
        class_="verdict",
    )
    title = COMPARED[comparison.measure].title
    parts = [
        section(title[0].upper() + title[1:], "measure", _means(comparison)),
        section("All measures", "measures", _scores(comparison)),
        section("By what is announced", "decisions", _decisions(comparison)),
        section("The table", "table", _seen(summary)),
        section("Label by label", "labels", _labels(summary, comparison, chosen)),
    ]
    if comparison.graph is not None:
        content = _graph(comparison.graph, chosen.title)
        parts.append(section("Which label depends on which", "graph", content))
    parts += [
        section("Can its probabilities be believed?", "calibration", _calibration(comparison)),
        section("How to go on", "on", _on(name, comparison, fit_command)),
    ]
    return page(f"{name}: which model?", about, None, join(verdict, parts))


# ------------------------------------------------------------------------------------- scores


def _means(comparison: TableComparison) -> Html:
    key, measure = comparison.measure, COMPARED[comparison.measure]
    means = []
    for name in ordered(comparison.results, comparison.measure):
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
    for name in ordered(comparison.results, comparison.measure):
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
    left_out = paragraph(comparison.left_out) if comparison.left_out else None
    return join(table(caption, columns, rows), failed, left_out)


_DECISIONS = {
    "subset": "the most probable label set",
    "hamming": "each label that is more probable than not",
    "f1": "the set with the largest expected F1",
    "jaccard": "the set with the largest expected Jaccard index",
    THRESHOLDS: "each label above a threshold of its own, tuned for macro F1",
}


def _decisions(comparison: TableComparison) -> Html:
    """Figures under each decision: of the recommended model, and of all on demand."""
    said = (
        "The probabilities are the same in every line; what differs is which labels are announced "
        "given them. Thresholds of a fold are tuned on the rows of the other folds."
    )
    chosen = _decision_table(comparison, [comparison.recommended], comparison.best.title)
    names = ordered(comparison.results, comparison.measure)
    every = _decision_table(comparison, names, "All models by what they announce")
    more = details("All models", every) if len(names) > 1 else None
    return join(paragraph(said, class_="legend"), chosen, more)


def _decision_table(comparison: TableComparison, names: Sequence[str], caption: str) -> Html:
    now, rows = comparison.request.decided_by, []
    for name in names:
        result = comparison.results[name]
        for loss in result.decisions:
            means = [result.decided_mean(loss, measure) for measure in DECIDED_MEASURES]
            written = [COMPARED[m].written(v) for m, v in zip(DECIDED_MEASURES, means, strict=True)]
            what = _DECISIONS.get(loss, loss)
            first = [Field(result.title)] if len(names) > 1 else []
            fields = [*first, Field(loss + (" (now)" if loss == now else ""))]
            numbers = [Field(text, value) for text, value in zip(written, means, strict=True)]
            rows.append([*fields, *numbers, Field(what)])
    columns = [Column("model", is_text=True)] if len(names) > 1 else []
    columns.append(Column("decision", is_text=True))
    columns += [Column(COMPARED[measure].title) for measure in DECIDED_MEASURES]
    columns.append(Column("what is announced", is_text=True))
    return table(caption, columns, rows)


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
            announced = float(said.mean()) if len(own) else np.nan
            seen = Field(f"{100 * share:.1f} %", share)
            last = [Field(f"{100 * announced:.1f} %", announced), Field(f"{f1:.3f}", f1)]
        else:
            values = [f"{v} {n:,}" for v, n in [*label.counts.items()][:_MOST_VALUES]]
            more = " …" if len(label.counts) > _MOST_VALUES else ""
            seen, last = Field(", ".join(values) + more), []
        rows.append([Field(label.name), seen, Field(f"{100 * right:.1f} %", right), *last])
    columns = [Column("label", is_text=True), Column("in rows"), Column("right")]
    columns += [Column("announced"), Column("F1")]
    if not indicator:
        columns = [columns[0], Column("values", is_text=True), columns[2]]
    more_labels = len(summary.labels) - _MOST_LABELS
    rest = paragraph(f"and {more_labels:,} more labels") if more_labels > 0 else None
    return join(table(f"{chosen.title} on rows it had not seen", columns, rows), rest)


def _graph(graph: Mapping[str, Any], title: str) -> Html:
    """Draw which labels depend on each other, as measured in the joints of the model."""
    if not graph["edges"]:
        return paragraph(
            f"Given the features, {title} finds no two labels that say anything of each other."
        )
    about = (
        f"Measured in the joint distributions of {title}, learned from all rows compared on: what "
        "one label says of another once the features are known, in nats (conditional mutual "
        "information, averaged over rows)."
    )
    left_out = graph["n_labels"] - len(graph["labels"])
    if left_out:
        about += f" Of the {graph['n_labels']:,} labels, the {len(graph['labels'])} least certain."
    if all(np.isfinite(edge["given_on"]) for edge in graph["edges"]):
        drawing = graph_figure(graph, title, "label-graph")
    else:  # class variables: neither on nor off
        drawing = _pairs(graph, title)
    return join(paragraph(about, class_="legend"), drawing)


def _pairs(graph: Mapping[str, Any], title: str) -> Html:
    """Write pairs of class variables with what they say of each other."""
    rows = [
        [
            Field(graph["labels"][edge["from"]]),
            Field(graph["labels"][edge["to"]]),
            Field(fixed(edge["nats"], 3), edge["nats"]),
        ]
        for edge in graph["edges"]
    ]
    columns = [Column("one", is_text=True), Column("other", is_text=True), Column("nats")]
    return table(f"Labels of {title} that depend on each other", columns, rows)


# -------------------------------------------------------------------------------- calibration


def _calibration(comparison: TableComparison) -> Html:
    chosen, after = comparison.best, comparison.calibrated
    if chosen.held_out.marginals is None or chosen.held_out.confidence is None:
        return paragraph(f"{chosen.title} has no probabilities.")
    said = (
        f"{chosen.title} on rows it had not seen. On the diagonal, what is said with probability p "
        "comes true in a share p of the cases; larger dots stand for more cases."
    )
    single, joint = _reliabilities(chosen)
    parts = [_charts(single, joint, "before" if after else "")]
    if after is not None:
        parts += [_charts(*_reliabilities(after), "calibrated"), paragraph(comparison.calibration)]
    elif joint.error > _OFF:
        parts.append(
            paragraph(
                f"Whole label sets are off by {fixed(joint.error, 3)}. ",
                tag("code", "--calibrate"),
                ", on compare or on fit, learns on rows held out how far the joint is to be "
                "trusted, and shows what that does.",
            )
        )
    return join(paragraph(said, class_="legend"), parts)


def _reliabilities(result: ModelResult) -> tuple[Reliability, Reliability]:
    """Of single labels, and of whole label sets."""
    found = result.held_out
    assert found.marginals is not None
    assert found.confidence is not None
    known = found.true != MISSING
    came_true = found.true == (1 if found.space.is_indicator else found.codes)
    single = reliability(np.clip(found.marginals, 0, 1), np.where(known, came_true, np.nan))
    assert found.mode_right is not None
    whole = np.where(known.all(axis=1), found.mode_right, np.nan)
    return single, reliability(np.clip(found.confidence, 0, 1), whole)


def _charts(single: Reliability, joint: Reliability, when: str) -> Html:
    after = f", {when}" if when else ""
    charts = [
        reliability_chart(single, f"single labels{after}"),
        reliability_chart(joint, f"whole label sets{after}"),
    ]
    return tag("div", charts, class_="charts")


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
