"""What the papers say against what was measured: claims, and figures that differ from print."""

from __future__ import annotations

import math
from collections import Counter

from colabel.experiments import Results
from colabel.experiments.measures import MEASURES
from colabel.experiments.plan import Claim
from colabel.experiments.results import LEVEL, Verdict
from colabel.report._study.markup import Html, counted, hidden, join, listed, paragraph, tag
from colabel.report._study.numbers import digits_for, fixed, p_value, signed
from colabel.report._study.tables import EMPTY, Column, Field, table

# Verdict: (sign, words, place when sorted).
_SHOWN = {
    "yes": ("●", "holds", 3.0),
    "better": ("◐", "better, but not significantly", 2.0),
    "no": ("○", "no", 1.0),
    "not measured": ("–", "not measured", 0.0),
}
_LIMIT = 2.0  # standard errors beyond which a figure disagrees with print


def claims_section(results: Results, level: str) -> Html:
    """Write every claim of a plan with its verdicts; `level` is the tag of the headings."""
    parts = [_claim(results, claim, level) for claim in results.plan.claims]
    legend = paragraph(
        f"● holds: better by a paired t-test at {fixed(LEVEL, 2)}. ◐ better, but not "
        "significantly. ○ not better. – not measured. Beside: by how much the claimed method is "
        "better, and the p-value.",
        class_="legend",
    )
    return join(parts, legend)


def _claim(results: Results, claim: Claim, level: str) -> Html:
    verdicts = results.verdicts(claim)
    heading, said = tag(level, claim.text), paragraph(_sentence(verdicts))
    if all(verdict.holds == "not measured" for verdict in verdicts):
        return join(heading, said)
    columns = [
        Column("data set", is_text=True),
        *([Column("measure", is_text=True)] if len(claim.measures) > 1 else []),
        *(Column(f"over {name}") for name in claim.over),
    ]
    found = {(v.measure, v.dataset, v.over): v for v in verdicts}
    rows = []
    for measure in claim.measures:
        digits = digits_for(v.difference for v in verdicts if v.measure == measure)
        for dataset in claim.datasets:
            named = [Field(MEASURES[measure].title)] if len(claim.measures) > 1 else []
            cells = [_verdict(found[measure, dataset, over], digits) for over in claim.over]
            rows.append([Field(dataset), *named, *cells])
    caption = f"{claim.method} against {listed(list(claim.over))}"
    return join(heading, said, table(caption, columns, rows, kind="verdicts"))


def _sentence(verdicts: list[Verdict]) -> str:
    counts = Counter(verdict.holds for verdict in verdicts)
    measured = len(verdicts) - counts["not measured"]
    if not measured:
        return f"Not measured yet, in any of {counted(len(verdicts), 'comparison')}."
    said = [f"Holds significantly in {counts['yes']} of {counted(measured, 'comparison')}"]
    if counts["better"]:
        said.append(f"better but not significantly in {counts['better']}")
    if counts["no"]:
        said.append(f"not better in {counts['no']}")
    missing = f" Not measured: {counts['not measured']}." if counts["not measured"] else ""
    return listed(said) + "." + missing


def _verdict(verdict: Verdict, digits: int) -> Field:
    sign, words, place = _SHOWN[verdict.holds]
    kind = "holds-" + verdict.holds.replace(" ", "-")
    if verdict.holds == "not measured":
        return Field(join(tag("span", sign, aria_hidden="true"), hidden(words)), None, kind)
    content = join(
        tag("span", sign, class_="sign", aria_hidden="true"),
        hidden(f"{words}: "),
        f" {signed(verdict.difference, digits)}",
        tag("small", f"p {p_value(verdict.p_value)}", class_="print"),
    )
    # By verdict first, then by difference.
    return Field(content, 1e6 * place + verdict.difference, kind)


def disagreements_section(results: Results) -> Html:
    """List figures that fall short of print, and the plan's remarks on them."""
    found = results.disagreements(_LIMIT)
    remarks = results.plan.remarks
    used = {_remark_key(results, dataset, method) for _, dataset, method, _ in found}
    others = {key: text for key, text in remarks.items() if key not in used}
    listing = _disagreements(results) if found else None
    return join(paragraph(_compared(results)), listing, _other_remarks(others))


def _compared(results: Results) -> str:
    """Say how many figures fall short of print, and how many exceed it."""
    gaps = [
        entry.gap
        for measure in results.plan.measures
        for entry in results.table(measure).values()
        if entry.gap is not None and math.isfinite(entry.gap)
    ]
    if not gaps:
        return "Nothing that has a published figure has been measured yet."
    below, above = (sum(side * gap > _LIMIT for gap in gaps) for side in (-1, 1))
    return (
        f"Of {counted(len(gaps), 'figure')}, {below or 'none'} fall{'s' * (below <= 1)} short of "
        f"print by more than {_LIMIT:g} standard errors, and {above or 'none'} "
        f"exceed{'s' * (above <= 1)} it by as much."
    )


def _disagreements(results: Results) -> Html:
    rows = []
    for measure, dataset, method, entry in results.disagreements(_LIMIT):
        digits = digits_for([entry.mean, entry.published or 0.0])
        key = _remark_key(results, dataset, method)
        remark = results.plan.remarks[key] if key else None
        error = f"{fixed(entry.mean, digits)} ± {fixed(entry.error, digits)}"
        rows.append(
            [
                Field(dataset),
                Field(method),
                Field(MEASURES[measure].title),
                Field(error, entry.mean),
                Field(fixed(entry.published or 0.0, digits), entry.published),
                Field(signed(entry.gap or 0.0, 1), entry.gap),
                Field(remark, kind="remark") if remark else EMPTY,
            ]
        )
    columns = [
        Column("data set", is_text=True),
        Column("method", is_text=True),
        Column("measure", is_text=True),
        Column("measured"),
        Column("print"),
        Column("standard errors"),
        Column("remark", is_text=True),
    ]
    return table("Measured figures that fall short of print", columns, rows)


def _remark_key(results: Results, dataset: str, method: str) -> str | None:
    """Return the key of the nearest remark: on data set and method, or on the data set."""
    keys = (f"{dataset}/{method}", dataset)
    return next((key for key in keys if key in results.plan.remarks), None)


def _other_remarks(remarks: dict[str, str]) -> Html | None:
    if not remarks:
        return None
    items = [
        join(tag("dt", key.replace("/", ", ")), tag("dd", text)) for key, text in remarks.items()
    ]
    return join(paragraph("Other remarks:"), tag("dl", items))
