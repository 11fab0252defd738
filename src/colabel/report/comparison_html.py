"""The report of `colabel compare`: one HTML file, for phone and desktop, screen and paper."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from colabel._version import __version__
from colabel.core.files import written_whole
from colabel.experiments.comparing import BASELINE, ModelResult, TableComparison
from colabel.experiments.measures import COMPARED
from colabel.labels import MISSING
from colabel.metrics import f1_score
from colabel.models.label_graph import LabelGraph
from colabel.report import _html
from colabel.report.reliability import Reliability, reliability
from colabel.report.tree_shape import Forest, strength_note
from colabel.tables import TableSummary

_MOST_LABELS = 40
_MOST_EDGES = 15
_SIDE, _MARGIN = 280, 42  # of a reliability diagram


def write_comparison_html(
    path: Path, summary: TableSummary, comparison: TableComparison, fit_command: str = ""
) -> None:
    """Write the report; it appears under its name when it is complete."""
    content = comparison_html(summary, comparison, fit_command)
    with written_whole(path) as part:
        part.write_text(content, encoding="utf-8")


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
    parts = [
        f"<h1>{escape(name)}: which model?</h1>",
        f'<p class="quiet">{summary.n_rows:,} rows, {len(summary.labels):,} labels, '
        f"{comparison.n_folds} folds of cross-validation · colabel {__version__}</p>",
        f'<div class="verdict"><b>Take {escape(chosen.title)}</b> '
        f"<code>--model {comparison.recommended}</code>"
        f"<p>{escape(comparison.reason)}</p></div>",
        _scores(comparison),
        _seen(summary),
        _labels(summary, comparison, chosen),
        _graph(comparison),
        _calibration(comparison, chosen),
        _on(name, comparison, fit_command),
    ]
    return _html.page(f"{name}: colabel compare", "\n".join(parts))


# ------------------------------------------------------------------------------------- scores


def _scores(comparison: TableComparison) -> str:
    key, measure = comparison.measure, COMPARED[comparison.measure]
    results = comparison.results
    means = {name: result.mean(key) for name, result in results.items()}
    worst = -measure.sign * np.inf
    ordered = sorted(
        means, key=lambda n: -measure.sign * (means[n] if np.isfinite(means[n]) else worst)
    )
    values = [means[n] for n in ordered]
    errors = [np.nan_to_num(results[n].standard_error(key)) for n in ordered]
    finite = [(v, e) for v, e in zip(values, errors, strict=True) if np.isfinite(v)]
    low = min(v - e for v, e in finite)
    high = max(v + e for v, e in finite)
    pad = 0.05 * max(high - low, 1e-3)
    points = [
        (results[n].title, v, float(e), measure.written(v), n == comparison.recommended)
        for n, v, e in zip(ordered, values, errors, strict=True)
        if np.isfinite(v)
    ]
    better = "more" if measure.sign > 0 else "less"
    top = min(1.0, high + pad) if measure.sign > 0 else high + pad
    plot = _html.dots(points, max(0.0, low - pad), top, measure.digits)
    return (
        f"<h2>{escape(measure.title[0].upper() + measure.title[1:])}</h2>"
        f'<p class="quiet">{escape(measure.meaning)}; {better} is better. Dot: mean over folds; '
        f"line: one standard error either way.</p>{plot}"
        f"<h2>All measures</h2>{_score_table(comparison, ordered)}{_failed(comparison.failed)}"
    )


def _score_table(comparison: TableComparison, ordered: list[str]) -> str:
    rows = []
    models = [r for n, r in comparison.results.items() if n != BASELINE]
    best = {key: m.best([r.mean(key) for r in models]) for key, m in COMPARED.items()}
    for name in ordered:
        result = comparison.results[name]
        cells = [escape(result.title)]
        for key, measure in COMPARED.items():
            mean, error = result.mean(key), result.standard_error(key)
            written = measure.written(mean)
            if mean == best[key] and name != BASELINE:
                written = f"<b>{written}</b>"
            if key != "seconds" and np.isfinite(error):
                written += f" <small>± {error:.{measure.digits}f}</small>"
            cells.append(written)
        kind = "best" if name == comparison.recommended else "base" if name == BASELINE else ""
        rows.append((kind, cells))
    return _html.table(["model", *(m.title for m in COMPARED.values())], rows)


def _failed(failed: Mapping[str, str]) -> str:
    return "".join(f"<p>{escape(name)} failed: {escape(why)}</p>" for name, why in failed.items())


# ------------------------------------------------------------------------------ what was seen


def _seen(summary: TableSummary) -> str:
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
    lines = [
        f"<li>{len(names):,} of kind {kind}: {escape(_few(names))}</li>"
        for kind, names in summary.kinds.items()
    ]
    if summary.left_out:
        reasons = [f"{name} ({reason})" for name, reason in summary.left_out.items()]
        lines.append(f"<li>{len(reasons):,} left out: {escape(_few(reasons))}</li>")
    lines += [f"<li><b>{escape(sentence)}</b></li>" for sentence in summary.warnings]
    return f"<h2>The table</h2>{_html.tiles(entries)}<ul>{''.join(lines)}</ul>"


def _few(names: list[str], most: int = 8) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


# ------------------------------------------------------------------------------------- labels


def _labels(summary: TableSummary, comparison: TableComparison, chosen: ModelResult) -> str:
    rows = []
    codes, predicted = comparison.task.codes, chosen.held_out.codes
    for i, label in enumerate(summary.labels[:_MOST_LABELS]):
        known = codes[:, i] != MISSING
        right = float((codes[known, i] == predicted[known, i]).mean()) if known.any() else np.nan
        if comparison.task.space.is_indicator:
            f1 = f1_score(codes[known, i : i + 1], predicted[known, i : i + 1], average="macro")
            share = float((codes[known, i] == 1).mean())
            cells = [f"{100 * share:.1f} %", f"{100 * right:.1f} %", f"{f1:.3f}"]
        else:
            values = ", ".join(f"{v} {n:,}" for v, n in list(label.counts.items())[:4])
            more = " …" if len(label.counts) > 4 else ""
            cells = [escape(values + more), f"{100 * right:.1f} %"]
        rows.append(("", [escape(label.name), *cells]))
    header = ["label", "in rows", "right", "F1"]
    if not comparison.task.space.is_indicator:
        header = ["label", "values", "right"]
    more_labels = len(summary.labels) - _MOST_LABELS
    more_line = f"<p>and {more_labels:,} more labels</p>" if more_labels > 0 else ""
    return (
        f"<h2>Label by label</h2><p class='quiet'>{escape(chosen.title)} on rows it had not seen."
        f"</p>{_html.table(header, rows)}{more_line}"
    )


def _graph(comparison: TableComparison) -> str:
    if comparison.graph is None:
        return ""
    title, graph = comparison.graph
    drawn = _tree(graph) if graph.parents is not None else _edges(graph)
    return (
        f"<h2>Which label depends on which</h2><p class='quiet'>By {escape(title)}. "
        f"{escape(graph.meaning)}</p>{drawn}"
    )


def _tree(graph: LabelGraph) -> str:
    forest = Forest.from_parents(graph.parents if graph.parents is not None else [])
    strengths = dict(
        zip(
            graph.ends[:, 1].tolist(),
            (
                graph.strengths if graph.strengths is not None else np.full(len(graph.ends), np.nan)
            ).tolist(),
            strict=True,
        )
    )

    def item(label: int) -> str:
        gain = strength_note(strengths.get(label, np.nan))
        number = f'<span class="gain">{escape(gain)}</span>' if gain else ""
        below = "".join(item(child) for child in forest.children[label])
        inner = f"<ul>{below}</ul>" if below else ""
        return f'<li><span class="node">{escape(graph.names[label])}</span>{number}{inner}</li>'

    return f'<ul class="tree">{"".join(item(root) for root in forest.children[-1])}</ul>'


def _edges(graph: LabelGraph) -> str:
    strengths = np.ones(len(graph.ends)) if graph.strengths is None else np.abs(graph.strengths)
    order = np.argsort(-strengths, kind="stable")[:_MOST_EDGES]
    top = max(float(strengths.max(initial=0.0)), 1e-12)
    arrow = "→" if graph.directed else "–"
    rows = []
    for e in order.tolist():
        one, two = (graph.names[int(i)] for i in graph.ends[e])
        note = "" if graph.strengths is None else f"{strengths[e]:.2f}"
        if graph.signs is not None and graph.signs[e]:
            note = f"{'+' if graph.signs[e] > 0 else '−'}{note}"
        rows.append((f"{one} {arrow} {two}", float(strengths[e]) / top, note))
    more = len(graph.ends) - len(order)
    return _html.bars(rows) + (f"<p class='quiet'>and {more:,} more</p>" if more > 0 else "")


# -------------------------------------------------------------------------------- calibration


def _calibration(comparison: TableComparison, chosen: ModelResult) -> str:
    codes, answers = comparison.task.codes, chosen.held_out
    assert answers.marginals is not None
    assert answers.confidence is not None
    known = codes != MISSING
    if comparison.task.space.is_indicator:
        came_true = np.where(known, codes == 1, np.nan)
    else:
        came_true = np.where(known, codes == answers.codes, np.nan)
    single = reliability(np.clip(answers.marginals, 0, 1), came_true)
    right = np.where(known.all(axis=1), (codes == answers.codes).all(axis=1), np.nan)
    joint = reliability(np.clip(answers.confidence, 0, 1), right)
    return (
        "<h2>Can its probabilities be believed?</h2>"
        f"<p class='quiet'>{escape(chosen.title)} on rows it had not seen. On the diagonal, what "
        "is said with probability p comes true in a share p of the cases; larger dots stand for "
        "more cases.</p><div class='figures'>"
        + _diagram(single, "single labels", f"off by {single.error:.3f} on average")
        + _diagram(joint, "whole label sets", f"off by {joint.error:.3f} on average")
        + "</div>"
    )


def _diagram(found: Reliability, title: str, caption: str) -> str:
    inner = _SIDE - _MARGIN - 10

    def at(x: float, y: float) -> tuple[float, float]:
        return _MARGIN + inner * x, 10 + inner * (1 - y)

    (x0, y0), (x1, y1) = at(0, 0), at(1, 1)
    grid = "".join(
        f'<line x1="{x0}" x2="{x1}" y1="{at(0, t)[1]:.1f}" y2="{at(0, t)[1]:.1f}" '
        'stroke="var(--line)"/>'
        f'<text x="{x0 - 6}" y="{at(0, t)[1] + 4:.1f}" text-anchor="end">{t:g}</text>'
        f'<text x="{at(t, 0)[0]:.1f}" y="{y0 + 17:.1f}" text-anchor="middle">{t:g}</text>'
        for t in (0.0, 0.5, 1.0)
    )
    points = [at(p, o) for p, o in zip(found.predicted, found.observed, strict=True)]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    sizes = _radii(found.counts)
    dots = "".join(
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{r:.1f}" fill="var(--accent)" fill-opacity=".75">'
        f"<title>said {p:.2f}, came true {o:.2f}, {n:,} cases</title></circle>"
        for (x, y), r, p, o, n in zip(
            points, sizes, found.predicted, found.observed, found.counts.tolist(), strict=True
        )
    )
    return (
        f'<figure><svg viewBox="0 0 {_SIDE} {_SIDE - 8}" role="img" '
        f'aria-label="Reliability of {escape(title)}">{grid}'
        f'<line x1="{x0}" y1="{y0}" x2="{x1}" y2="{y1}" stroke="var(--quiet)" '
        'stroke-dasharray="4 4"/>'
        f'<polyline points="{path}" fill="none" stroke="var(--accent)" stroke-width="1.5"/>{dots}'
        f"</svg><figcaption>{escape(title.capitalize())}: {escape(caption)}. Across: probability "
        "said; up: share that came true.</figcaption></figure>"
    )


def _radii(counts: NDArray[np.intp]) -> list[float]:
    most = max(1, int(counts.max(initial=1)))
    return [float(2.5 + 5.5 * np.sqrt(n / most)) for n in counts.tolist()]


def _on(name: str, comparison: TableComparison, fit_command: str) -> str:
    first = fit_command or (
        f"colabel fit {name} --labels … --model {comparison.recommended} -o model.colabel"
    )
    return (
        "<h2>How to go on</h2>"
        f"<p><code>{escape(first)}</code></p>"
        "<p><code>colabel predict model.colabel new.csv -o out.csv --top-k 3</code></p>"
        '<p class="quiet">Scaling, encoding and filling in were learned from the training folds '
        "only. Folds keep every label about equally common. Standard errors are over folds, whose "
        "training rows overlap: read small differences with care.</p>"
    )
