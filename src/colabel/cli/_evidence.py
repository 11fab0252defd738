"""What speaks for and against the labels of a row, on the screen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.table import Table

if TYPE_CHECKING:
    from colabel.core.arrays import Codes
    from colabel.models.evidence import FeatureEvidence, Term
    from colabel.tables import Frame, TableModel

NOTHING_TO_COMPARE = (
    "What its columns say is measured against other rows, and the table has only this one: give "
    "some, such as the training table, by --against."
)


def row_evidence(
    model: TableModel, own: Frame, around: Frame, known: Codes, labels: Sequence[str]
) -> FeatureEvidence | None:
    """Return the evidence of the one row of a frame; None where there is nothing to compare."""
    from colabel.tables import TableError

    space = model.space
    try:
        chosen = [space.index(name) for name in labels]
    except KeyError as error:
        raise TableError(str(error.args[0])) from None
    if around.n_rows < 2:
        return None
    given = {
        name: classes[code]
        for name, classes, code in zip(space.names, space.classes, known, strict=True)
        if code >= 0
    }
    return model.feature_evidence(
        own, background=around, given=given or None, labels=chosen or None
    )


def show_evidence(console: Console, evidence: FeatureEvidence, *, quiet: bool) -> None:
    """Print, for each label, how its log-odds come about and the strongest terms either way."""
    console.print("\n[bold]What speaks for and against each label[/bold], in log-odds\n")
    for place in range(len(evidence.positions)):
        parts = (
            f"average {evidence.average[place]:+.2f}, "
            f"columns {evidence.columns[place].sum():+.2f}, "
            f"other labels {evidence.labels[place].sum():+.2f}"
        )
        console.print(
            f"[bold]{escape(evidence.statement(place))}[/bold]  P {evidence.prob[place]:.3f}: "
            f"{parts}, sum {evidence.log_odds[place]:+.2f}"
        )
        sides = Table.grid(padding=(0, 2, 0, 0))
        for side, terms in zip(("for", "against"), evidence.speaking(place), strict=True):
            sides.add_row(f"  {side}", escape("; ".join(map(_written, terms)) or "nothing"))
        console.print(sides)
    if not quiet:
        console.print(
            f"\nThe sum is the log-odds of a label given the other labels of the answer. "
            f"{evidence.how}",
            style="dim",
            markup=False,
        )


def _written(term: Term) -> str:
    label = "label " if term.kind == "label" else ""
    return f"{term.log_odds:+.2f} {label}{term}"
