"""The report of `colabel compare`: one HTML file, for phone and desktop, screen and paper."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from colabel.comparing import result as records
from colabel.comparing.comparison import TableComparison, ordered
from colabel.labels import MISSING
from colabel.metrics import f1_score
from colabel.report.displays import Reliability, reliability
from colabel.report.graphs import page_graph
from colabel.report.pages import fixed, page
from colabel.report.text import columns_seen
from colabel.tables import TableSummary

_MOST_LABELS, _MOST_VALUES = 40, 4
_OFF = 0.05  # calibration error of whole label sets from which on the remedy is offered
_FAR = 3.0  # times the distance of the middle model from the best: farther ones are off the chart
_DECISIONS = {
    "subset": "the most probable label set",
    "hamming": "each label that is more probable than not",
    "f1": "the set with the largest expected F1",
    "micro_f1": "each label above one threshold, half of the largest expected F1",
    "macro_f1": "each label above a threshold of its own, half of its largest expected F1",
    "jaccard": "the set with the largest expected Jaccard index",
    records.THRESHOLDS: "each label above a threshold of its own, tuned for macro F1",
}


def comparison_html(comparison: TableComparison, fit_command: str = "") -> str:
    """Return the report as HTML that needs nothing else.

    Parameters
    ----------
    comparison : TableComparison
    fit_command : str
        How the recommended model is fitted on the command line.
    """
    summary, chosen = comparison.summary, comparison.best
    name = Path(summary.path).name
    names = ordered(comparison.results, comparison.measure)
    fit = f"colabel fit {name} --labels … --model {comparison.recommended} -o model.colabel"
    graph = comparison.graph
    # class variables are neither on nor off
    with_probabilities = graph is not None and all(
        math.isfinite(edge["given_on"]) for edge in graph["edges"]
    )
    return page(
        "comparison.html",
        title=f"{name}: which model?",
        about=f"{summary.n_rows:,} rows, {len(summary.labels):,} labels, {comparison.n_folds} folds"
        f" of cross-validation. {comparison.sampled}",
        comparison=comparison,
        chosen=chosen,
        measure=records.COMPARED[comparison.measure],
        means=_means(comparison, names),
        columns=["model", *(f"#{measure.title}" for measure in records.COMPARED.values())],
        scores=[_scores(comparison, own) for own in names],
        decided=[f"#{records.COMPARED[measure].title}" for measure in records.DECIDED_MEASURES],
        decisions=_decisions(comparison, [comparison.recommended]),
        all_decisions=_decisions(comparison, names) if len(names) > 1 else [],
        summary=summary,
        n_features=sum(map(len, summary.kinds.values())),
        seen=columns_seen(summary),
        label_columns=["label", "#in rows", "#right", "#predicted", "#F1"]
        if comparison.task.space.is_indicator
        else ["label", "values", "#right"],
        label_rows=_labels(summary, comparison, chosen),
        n_more_labels=len(summary.labels) - _MOST_LABELS,
        graph=graph,
        drawing=page_graph(graph) if graph and graph["edges"] and with_probabilities else None,
        pairs=[
            [
                graph["labels"][edge["from"]],
                graph["labels"][edge["to"]],
                {"text": fixed(edge["nats"], 3), "key": edge["nats"]},
            ]
            for edge in (graph["edges"] if graph else [])
        ]
        if graph and not with_probabilities
        else [],
        calibration=_calibration(comparison),
        off=_OFF,
        commands=[
            fit_command or fit,
            "colabel predict model.colabel new.csv -o out.csv --top-k 3",
        ],
    )


def _means(comparison: TableComparison, names: Sequence[str]) -> dict[str, Any]:
    """Place dots and error bars, in per cent of a scale that shows how the better half differs."""
    key, measure = comparison.measure, records.COMPARED[comparison.measure]
    lines = []
    for name in names:
        result = comparison.results[name]
        mean, error = result.mean(key), float(np.nan_to_num(result.standard_error(key)))
        if math.isfinite(mean):
            lines.append((result.title, mean, error, name == comparison.recommended))
    low, high = zoomed([mean for _, mean, _, _ in lines], [error for _, _, error, _ in lines])
    if measure.higher_is_better:
        high = min(high, 1.0)
    low = max(low, 0.0)
    span = max(high - low, 1e-12)

    def place(value: float) -> float:
        return 100.0 * min(1.0, max(0.0, (value - low) / span))

    return {
        "lines": [
            {
                "name": title,
                "value": f"{mean:.{measure.digits}f}",
                "error": f"{error:.{measure.digits}f}",
                "at": place(mean),
                "left": place(mean - error),
                "right": place(mean + error),
                "off": "below" if mean < low else "above" if mean > high else "",
                "marked": marked,
            }
            for title, mean, error, marked in lines
        ],
        "ends": [f"{end:.{measure.digits}f}" for end in (low, high)],
        "some_off": any(not low <= mean <= high for _, mean, _, _ in lines),
    }


def zoomed(means: Sequence[float], errors: Sequence[float]) -> tuple[float, float]:
    """Return the ends of a scale for means, best first, and their standard errors.

    What is more than three times as far from the best as the middle one is left off it: it would
    make the others look alike.

    >>> [round(end, 2) for end in zoomed([0.83, 0.82, 0.81, 0.80, 0.20], [0.01] * 5)]
    [0.79, 0.84]
    >>> [round(end, 2) for end in zoomed([0.6, 0.5, 0.4], [0.0] * 3)]
    [0.39, 0.61]
    """
    far = _FAR * max(abs(means[len(means) // 2] - means[0]), 2.0 * max(errors[0], 1e-3))
    near = [(m, e) for m, e in zip(means, errors, strict=True) if abs(m - means[0]) <= far]
    low, high = min(m - e for m, e in near), max(m + e for m, e in near)
    pad = 0.05 * max(high - low, 1e-3)
    return low - pad, high + pad


def _scores(comparison: TableComparison, name: str) -> list[Any]:
    models = [result for own, result in comparison.results.items() if own != records.BASELINE]
    result = comparison.results[name]
    cells: list[Any] = [result.title]
    for key, measure in records.COMPARED.items():
        mean, error = result.mean(key), result.standard_error(key)
        best = measure.best([own.mean(key) for own in models])
        shown = key != "seconds" and math.isfinite(error)
        cells.append(
            {
                "text": measure.written(mean),
                "key": mean,
                "bold": mean == best and name != records.BASELINE,
                "error": f"{error:.{measure.digits}f}" if shown else "",
                "quiet": name == records.BASELINE,
            }
        )
    return cells


def _decisions(comparison: TableComparison, names: Sequence[str]) -> list[list[Any]]:
    now, rows = comparison.decided_by, []
    for name in names:
        result = comparison.results[name]
        for loss in result.decisions:
            means = [result.decided_mean(loss, measure) for measure in records.DECIDED_MEASURES]
            numbers = [
                {"text": records.COMPARED[measure].written(mean), "key": mean}
                for measure, mean in zip(records.DECIDED_MEASURES, means, strict=True)
            ]
            first = [result.title] if len(names) > 1 else []
            said = f"{loss} (now)" if loss == now else loss
            rows.append([*first, said, *numbers, _DECISIONS.get(loss, loss)])
    return rows


def _labels(
    summary: TableSummary, comparison: TableComparison, chosen: records.ModelResult
) -> list[list[Any]]:
    true, predicted = chosen.held_out.true, chosen.held_out.codes
    rows = []
    for i, label in enumerate(summary.labels[:_MOST_LABELS]):
        known = true[:, i] != MISSING
        own, said = true[known, i : i + 1], predicted[known, i : i + 1]

        def share(flags: Any) -> dict[str, Any]:
            value = float(flags.mean()) if len(flags) else math.nan
            return {"text": f"{100 * value:.1f} %", "key": value}

        if comparison.task.space.is_indicator:
            f1 = f1_score(own, said, average="macro") if len(own) else math.nan
            last = [share(said), {"text": f"{f1:.3f}", "key": f1}]
            rows.append([label.name, share(own), share(own == said), *last])
        else:
            values = [f"{v} {n:,}" for v, n in [*label.counts.items()][:_MOST_VALUES]]
            more = " …" if len(label.counts) > _MOST_VALUES else ""
            rows.append([label.name, ", ".join(values) + more, share(own == said)])
    return rows


def _calibration(comparison: TableComparison) -> dict[str, Any] | None:
    """Reliability of single labels and of whole label sets, before and after calibrating."""
    if comparison.best.held_out.marginals is None or comparison.best.held_out.confidence is None:
        return None
    after = comparison.calibrated
    charts, joint_error = [], math.nan
    for result, when in ((comparison.best, ", before" if after else ""), (after, ", calibrated")):
        if result is None:
            continue
        held_out = result.held_out
        assert held_out.marginals is not None
        assert held_out.confidence is not None
        assert held_out.mode_right is not None
        known = held_out.true != MISSING
        came_true = held_out.true == (1 if held_out.space.is_indicator else held_out.codes)
        single = reliability(np.clip(held_out.marginals, 0, 1), np.where(known, came_true, np.nan))
        right = np.where(known.all(axis=1), held_out.mode_right, np.nan)
        whole = reliability(np.clip(held_out.confidence, 0, 1), right)
        joint_error = whole.error if result is comparison.best else joint_error
        charts.append(
            [_chart(single, f"Single labels{when}"), _chart(whole, f"Whole label sets{when}")]
        )
    return {"charts": charts, "error": joint_error, "calibrated": after is not None}


def _chart(curve: Reliability, title: str) -> dict[str, Any]:
    bins = zip(
        curve.predicted.tolist(), curve.observed.tolist(), curve.counts.tolist(), strict=True
    )
    most = max(curve.counts.tolist(), default=1)
    dots = [(p, share, n, 2.5 + 5.5 * math.sqrt(n / most)) for p, share, n in bins]
    return {"title": title, "error": curve.error, "dots": dots}
