"""What was seen in a table, as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape

if TYPE_CHECKING:
    from colabel.tables import TableSummary

_MOST_LABELS = 12
_NAMED = 6


def show_summary(console: Console, summary: TableSummary) -> None:
    """Print what was seen: rows, columns by kind, labels with their counts, warnings."""
    n_features = sum(map(len, summary.kinds.values()))
    console.print(
        f"[bold]{escape(summary.path)}[/bold]: {_counted(summary.n_rows, 'row')}, "
        f"{_counted(n_features, 'sparse feature' if summary.is_sparse else 'feature')}, "
        f"{_counted(len(summary.labels), 'label')}",
        soft_wrap=True,
    )
    for kind, names in summary.kinds.items():
        console.print(f"  {len(names):,} of kind {kind}: {escape(_few(names))}")
    if summary.left_out:
        reasons = [f"{name} ({reason})" for name, reason in summary.left_out.items()]
        console.print(f"  {len(reasons):,} left out: {escape(_few(reasons))}")
    if summary.missing_share:
        console.print(f"  {100 * summary.missing_share:.1f} % of the features' cells are empty")
    for label in summary.labels[:_MOST_LABELS]:
        console.print(f"  label {escape(label.name)}: {escape(_counts(label.counts))}")
    if len(summary.labels) > _MOST_LABELS:
        console.print(f"  and {len(summary.labels) - _MOST_LABELS:,} more labels")
    per_row = "" if summary.labels_per_row is None else f"{summary.labels_per_row:.2f} a row, "
    console.print(f"  {per_row}{summary.n_label_sets:,} different label sets")
    for sentence in summary.warnings:
        console.print(f"  [yellow]![/yellow] {escape(sentence)}")


def _counts(counts: dict[str, int]) -> str:
    if set(counts) <= {"0", "1"}:
        total = sum(counts.values())
        ones = counts.get("1", 0)
        return f"in {_counted(ones, 'row')} ({100 * ones / max(1, total):.0f} %)"
    shown = [f"{value} {count:,}" for value, count in list(counts.items())[:_NAMED]]
    return ", ".join(shown) + (", …" if len(counts) > _NAMED else "")


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'s' * (count != 1)}"


def _few(names: list[str]) -> str:
    return ", ".join(names[:_NAMED]) + (", …" if len(names) > _NAMED else "")
