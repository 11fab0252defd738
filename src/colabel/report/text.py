"""Records as text for a terminal, by rich: tables seen, models compared, rows explained."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from colabel.comparing.result import BASELINE, COMPARED, DECIDED_MEASURES
from colabel.core.progress import columns
from colabel.report.pages import counted

if TYPE_CHECKING:
    from colabel.comparing import ModelResult, TableComparison
    from colabel.models.evidence.record import FeatureEvidence, RowExplanation
    from colabel.tables import TableSummary

_MOST_LABELS, _NAMED = 12, 6
_WIDE = 105  # columns of a screen that has room for every error
_MOST = 5  # lines of a table about a row


def show_summary(console: Console, summary: TableSummary) -> None:
    """Print what was seen in a table: rows, columns by kind, labels with their counts, warnings."""
    n_features = sum(map(len, summary.kinds.values()))
    console.print(
        f"[bold]{escape(summary.path)}[/bold]: {counted(summary.n_rows, 'row')}, "
        f"{counted(n_features, 'sparse feature' if summary.is_sparse else 'feature')}, "
        f"{counted(len(summary.labels), 'label')}",
        soft_wrap=True,
    )
    for line in columns_seen(summary):
        console.print(f"  {escape(line)}")
    if summary.missing_share:
        console.print(f"  {100 * summary.missing_share:.1f} % of the features' cells are empty")
    for label in summary.labels[:_MOST_LABELS]:
        if set(label.counts) <= {"0", "1"}:
            ones, total = label.counts.get("1", 0), max(1, sum(label.counts.values()))
            said = f"in {counted(ones, 'row')} ({100 * ones / total:.0f} %)"
        else:
            said = few([f"{value} {count:,}" for value, count in label.counts.items()])
        console.print(f"  label {escape(label.name)}: {escape(said)}")
    if len(summary.labels) > _MOST_LABELS:
        console.print(f"  and {len(summary.labels) - _MOST_LABELS:,} more labels")
    per_row = "" if summary.labels_per_row is None else f"{summary.labels_per_row:.2f} per row, "
    console.print(f"  {per_row}{summary.n_label_sets:,} different label sets")
    for sentence in summary.warnings:
        console.print(f"  [yellow]![/yellow] {escape(sentence)}")


def columns_seen(summary: TableSummary) -> list[str]:
    """Write which columns a table has, by kind, and which are left out."""
    lines = [f"{len(n):,} of kind {kind}: {few(n)}" for kind, n in summary.kinds.items()]
    if summary.left_out:
        reasons = [f"{name} ({reason})" for name, reason in summary.left_out.items()]
        lines.append(f"{len(reasons):,} left out: {few(reasons)}")
    return lines


def few(names: list[str]) -> str:
    """Write the first of some names.

    >>> few(list("abcdefg"))
    'a, b, c, d, e, f, …'
    """
    return ", ".join(names[:_NAMED]) + (", …" if len(names) > _NAMED else "")


def show_scores(
    console: Console, results: Mapping[str, ModelResult], n_folds: int, decisive: str
) -> None:
    """Print a line for each model with all measures; the best of each is bold."""
    console.print(
        f"\n[bold]Cross-validation[/bold] on {n_folds} folds: mean ± standard error over folds\n"
    )
    # a narrow screen has room for the errors of the measures that decide
    with_error, plus_minus = {*COMPARED} - {"seconds"}, "\u00a0±\u00a0"
    if console.width < _WIDE:
        with_error, plus_minus = {decisive, "joint_log_loss"}, "±"
    models = [result for name, result in results.items() if name != BASELINE]
    best = {key: m.best([own.mean(key) for own in models]) for key, m in COMPARED.items()}
    table = columns("model", *(f">{measure.title}" for measure in COMPARED.values()))
    for name, result in results.items():
        cells = []
        for key, measure in COMPARED.items():
            mean, error = result.mean(key), result.standard_error(key)
            written = measure.written(mean)
            if key in with_error and math.isfinite(error):
                written += f"{plus_minus}{error:.{measure.digits}f}"
            cells.append(f"[bold]{written}[/bold]" if mean == best[key] else written)
        table.add_row(name, *cells, style="dim" if name == BASELINE else None)
    console.print(table)


def show_table(
    console: Console, title: str, titles: Sequence[str], rows: Iterable[Sequence[str]]
) -> None:
    """Print a table of names, which are no markup, below its title."""
    table = columns(*titles)
    for row in rows:
        table.add_row(*map(escape, row))
    console.print(f"\n{title}\n")
    console.print(table)


def show_decisions(console: Console, comparison: TableComparison) -> None:
    """Print the figures of the recommended model under each decision."""
    result, now = comparison.best, comparison.decided_by
    if len(result.decisions) < 2:
        return
    rows = [
        (
            loss + " (now)" * (loss == now),
            *(COMPARED[m].written(result.decided_mean(loss, m)) for m in DECIDED_MEASURES),
        )
        for loss in result.decisions
    ]
    titles = ["decision", *(f">{COMPARED[name].title}" for name in DECIDED_MEASURES)]
    show_table(console, f"[bold]{comparison.recommended}[/bold], by decision", titles, rows)


def label_sets(why: RowExplanation) -> Table:
    """Tabulate the most probable label sets of a row."""
    table = columns("label set", ">P")
    for place, one in enumerate((why.best, *why.runners_up)):
        if place and one.prob < 0.0005:  # 0.000 as it is printed
            break
        name = escape(why.named(one.codes))
        table.add_row(f"[bold]{name}[/bold]" if place == 0 else name, f"{one.prob:.3f}")
    return table


def in_words(why: RowExplanation) -> str:
    """Say what choosing the labels one by one comes to."""
    first = "Chosen one by one, the labels would be the same."
    if why.one_by_one.codes != why.best.codes:
        first = (
            f"Chosen one by one, the labels would be {why.named(why.one_by_one.codes)}: together "
            f"their probability is only {why.one_by_one.prob:.3f}."
        )
    apart = why.prob_if_independent
    if apart <= 0 or len(why.alone) == 1 or abs(apart - why.best.prob) < 0.0005:
        return first
    return (
        f"{first} With the same probability of each label but no dependence between them, the "
        f"answer would have probability {apart:.3f} instead of {why.best.prob:.3f}."
    )


def show_lifts(console: Console, why: RowExplanation) -> None:
    """Print which labels of the answer are more probable together than each alone suggests."""
    if not why.lifts:
        return
    rows = [
        (" and ".join(why.value(i, why.best.codes[i]) for i in pair.labels), f"{pair.lift:.2f}")
        for pair in why.lifts[:_MOST]
    ]
    titles = ("together", ">times as probable as if independent")
    show_table(console, "[bold]Labels that go together[/bold]", titles, rows)


def show_evidence(console: Console, evidence: FeatureEvidence, *, quiet: bool) -> None:
    """Print, for each label, how its log-odds come about and the strongest terms either way."""
    console.print("\n[bold]What speaks for and against each label[/bold], in log-odds\n")
    for place in range(len(evidence.positions)):
        console.print(
            f"[bold]{escape(evidence.statement(place))}[/bold]  P {evidence.prob[place]:.3f}: "
            f"average {evidence.average[place]:+.2f}, "
            f"columns {evidence.columns[place].sum():+.2f}, "
            f"other labels {evidence.labels[place].sum():+.2f}, "
            f"sum {evidence.log_odds[place]:+.2f}"
        )
        sides = Table.grid(padding=(0, 2, 0, 0))
        for side, terms in zip(("for", "against"), evidence.speaking(place), strict=True):
            said = [
                f"{term.log_odds:+.2f} {'label ' * (term.kind == 'label')}{term}" for term in terms
            ]
            sides.add_row(f"  {side}", escape("; ".join(said) or "nothing"))
        console.print(sides)
    if not quiet:
        console.print(
            f"\nThe sum is the log-odds of a label given the other labels of the answer. "
            f"{evidence.how}",
            style="dim",
            markup=False,
        )


def show_counterfactuals(console: Console, why: RowExplanation, most: int = _MOST) -> None:
    """Print what becomes of the answer if one label is known."""
    if not why.counterfactuals or len(why.alone) == 1:
        return
    rows = [
        (
            why.value(one.label, one.value),
            f"{one.prob:.3f}",
            why.named(one.answer.codes),
            f"{one.answer.prob:.3f}",
        )
        for one in why.counterfactuals[:most]
    ]
    title = "[bold]If one label were known[/bold], most change expected first"
    show_table(console, title, ("known", ">P of that", "then the answer is", ">P then"), rows)
