"""Measured against print: which figures differ, by how much, and why."""

from __future__ import annotations

from colabel.experiments import Results
from colabel.experiments.characteristics import COLUMNS, size_words
from colabel.experiments.measures import MEASURES
from colabel.experiments.record import Difference, counts, differences, other_remarks
from colabel.experiments.remarks import KINDS
from colabel.experiments.results import BOTH, LIMIT
from colabel.report._html.markup import Html, counted, join, paragraph, tag
from colabel.report._html.numbers import digits_for, fixed, signed
from colabel.report._html.tables import EMPTY, Column, Field, table


def differences_section(results: Results) -> Html:
    """Write one table of all figures that differ from print, and the remaining remarks."""
    found = differences(results)
    columns = [
        Column("figure", is_text=True),
        *(Column(name) for name in ("ours", "print")),
        Column("errors", note="Standard errors by which ours is better (+) or worse (−)"),
        *(Column(name, is_text=True) for name in ("from", "cause", "evidence")),
    ]
    rows = [_row(difference) for difference in found]
    return join(
        paragraph(_compared(results)),
        table("Measured figures that differ from print", columns, rows) if rows else None,
        _other_remarks(results),
    )


def _compared(results: Results) -> str:
    """Say how many figures fall short of print, and how many exceed it."""
    found = counts(results)
    if not found.compared:
        return "Nothing that has a published figure has been measured yet."
    (below, far_below), (above, far_above) = found.worse, found.better
    return (
        f"Of {counted(found.compared, 'figure')}, {below or 'none'} fall{'s' * (below <= 1)} short "
        f"of print by more than {LIMIT:g} standard errors ({far_below or 'none'} by more than "
        f"{BOTH:.1f}), and {above or 'none'} exceed{'s' * (above <= 1)} it by as much "
        f"({far_above or 'none'})."
    )


def _row(difference: Difference) -> list[Field]:
    measure, dataset, method, entry, remark = difference
    digits = digits_for([entry.mean, entry.published or 0.0])
    ours = f"{fixed(entry.mean, digits)} ± {fixed(entry.error, digits)}"
    return [
        Field(f"{dataset}, {method}, {MEASURES[measure].title}"),
        Field(ours, entry.mean),
        Field(fixed(entry.published or 0.0, digits), entry.published),
        Field(signed(entry.gap or 0.0, 1), entry.gap),
        Field(KINDS[remark.kind]),
        Field(remark.cause, kind="remark"),
        Field(remark.evidence, kind="remark") if remark.evidence else EMPTY,
    ]


def _other_remarks(results: Results) -> Html | None:
    remarks = other_remarks(results)
    if not remarks:
        return None
    items = [
        join(
            tag("dt", key.replace("/", ", ")),
            tag("dd", " ".join(filter(None, (remark.cause, remark.evidence)))),
        )
        for key, remark in remarks.items()
    ]
    return join(paragraph("Other remarks:"), tag("dl", items))


def characteristics_table(results: Results) -> Html | None:
    """Write what the data sets look like, and what the paper prints of them."""
    printed = {data.name: data.printed for data in results.plan.datasets if data.printed}
    if not printed or not results.characteristics:
        return None
    names = [name for name in COLUMNS if any(name in own for own in printed.values())]
    rows = []
    for dataset, own in printed.items():
        found = results.characteristics.get(dataset)
        fields = []
        for name in names:
            ours = None if found is None else float(getattr(found, name))
            shown = "–" if ours is None else size_words(ours)
            beside = tag("small", size_words(own[name]), class_="print") if name in own else None
            fields.append(Field(join(shown, beside), ours))
        rows.append([Field(dataset), *fields])
    columns = [Column("data set", is_text=True), *(Column(COLUMNS[name]) for name in names)]
    return table("Data sets; small, below: the printed numbers", columns, rows)
