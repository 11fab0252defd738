"""What the papers claim against what was measured."""

from __future__ import annotations

import math
from collections import Counter

from colabel.experiments import Results
from colabel.experiments.claims import Claim
from colabel.experiments.measures import MEASURES
from colabel.experiments.record import broken_claims
from colabel.experiments.remarks import KINDS
from colabel.experiments.results import LEVEL, LIMIT, SPEED, Verdict
from colabel.report._html.markup import Html, counted, hidden, join, listed, paragraph, tag
from colabel.report._html.numbers import digits_for, fixed, p_value, signed
from colabel.report._html.tables import EMPTY, Column, Field, table
from colabel.report.study_papers import comparison_words

# Verdict: (sign, words, place when sorted).
_SHOWN = {
    "yes": ("●", "holds", 3.0),
    "better": ("◐", "better, but not significantly", 2.0),
    "no": ("○", "no", 1.0),
    "not comparable": ("·", "not comparable", 0.5),
    "not measured": ("–", "not measured", 0.0),
}


def claims_section(results: Results, level: str) -> Html:
    """Write every claim of a plan with its verdicts; `level` is the tag of the headings."""
    parts = [_claim(results, claim, level) for claim in results.plan.claims]
    legend = paragraph(
        f"● holds: better by a paired t-test at {fixed(LEVEL, 2)}. ◐ better, but not "
        "significantly. ○ not better. – not measured. Beside: by how much the claimed method is "
        "better, and the p-value. · claims of speed are not comparable: other implementations were "
        "timed, on other machines; beside: how many times as fast the method learns here. "
        f"Claims of a level hold where the mean is above it by {LIMIT:g} standard errors.",
        class_="legend",
    )
    return join(parts, legend, _broken(results))


def _broken(results: Results) -> Html | None:
    """Write a table of all comparisons that do not hold, with their causes."""
    found = broken_claims(results)
    if not found:
        return None
    digits = digits_for(each.verdict.difference for each in found)
    names = ("from", "cause", "evidence")
    columns = [
        Column("comparison", is_text=True),
        Column("by"),
        *(Column(name, is_text=True) for name in names),
    ]
    rows = [
        [
            Field(comparison_words(each)),
            Field(signed(each.verdict.difference, digits), each.verdict.difference),
            Field(KINDS[each.remark.kind]),
            Field(each.remark.cause, kind="remark"),
            Field(each.remark.evidence, kind="remark") if each.remark.evidence else EMPTY,
        ]
        for each in found
    ]
    return table("Comparisons of claims that do not hold, and why", columns, rows)


def _claim(results: Results, claim: Claim, level: str) -> Html:
    verdicts = results.verdicts(claim)
    heading, said = tag(level, claim.text), paragraph(_sentence(verdicts))
    if all(verdict.holds == "not measured" for verdict in verdicts):
        return join(heading, said)
    over = claim.over or ("",)
    columns = [
        Column("data set", is_text=True),
        *([Column("measure", is_text=True)] if len(claim.measures) > 1 else []),
        *(Column(f"over {name}" if name else f"above {claim.above:g}") for name in over),
    ]
    found = {(v.measure, v.dataset, v.over): v for v in verdicts}
    rows = []
    for measure in claim.measures or (SPEED,):
        digits = digits_for(v.difference for v in verdicts if v.measure == measure)
        for dataset in claim.datasets:
            named = [Field(MEASURES[measure].title)] if len(claim.measures) > 1 else []
            cells = [_verdict(found[measure, dataset, name], digits) for name in over]
            rows.append([Field(dataset), *named, *cells])
    against = f" against {listed(list(claim.over))}" if claim.over else ""
    caption = f"{claim.method}{against}"
    return join(heading, said, table(caption, columns, rows, kind="verdicts"))


def _sentence(verdicts: list[Verdict]) -> str:
    counts = Counter(verdict.holds for verdict in verdicts)
    measured = len(verdicts) - counts["not measured"]
    if not measured:
        return f"Not measured yet, in any of {counted(len(verdicts), 'comparison')}."
    missing = f" Not measured: {counts['not measured']}." if counts["not measured"] else ""
    if counts["not comparable"]:
        return f"Not comparable, in any of {counted(measured, 'comparison')}.{missing}"
    said = [f"Holds significantly in {counts['yes']} of {counted(measured, 'comparison')}"]
    if counts["better"]:
        said.append(f"better but not significantly in {counts['better']}")
    if counts["no"]:
        said.append(f"not better in {counts['no']}")
    return listed(said) + "." + missing


def _verdict(verdict: Verdict, digits: int) -> Field:
    sign, words, place = _SHOWN[verdict.holds]
    kind = "holds-" + verdict.holds.replace(" ", "-")
    if verdict.holds == "not measured":
        return Field(join(tag("span", sign, aria_hidden="true"), hidden(words)), None, kind)
    if verdict.measure == SPEED:
        amount, beside = f" {verdict.difference:.2g} times as fast", None
    else:
        amount = f" {signed(verdict.difference, digits)}"
        known = not math.isnan(verdict.p_value)
        beside = tag("small", f"p {p_value(verdict.p_value)}", class_="print") if known else None
    sign_tag = tag("span", sign, class_="sign", aria_hidden="true")
    content = join(sign_tag, hidden(f"{words}: "), amount, beside)
    # By verdict first, then by difference.
    return Field(content, 1e6 * place + verdict.difference, kind)
