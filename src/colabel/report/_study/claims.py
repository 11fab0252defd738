"""What the papers say against what was measured: claims, and figures that differ from print."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from colabel.experiments import Results
from colabel.experiments.measures import MEASURES
from colabel.experiments.plan import Claim
from colabel.experiments.results import LEVEL, LIMIT, SPEED, Entry, Verdict
from colabel.report._html.markup import Html, counted, hidden, join, listed, paragraph, tag
from colabel.report._html.numbers import digits_for, fixed, p_value, signed
from colabel.report._html.tables import EMPTY, Column, Field, table

# Verdict: (sign, words, place when sorted).
_SHOWN = {
    "yes": ("●", "holds", 3.0),
    "better": ("◐", "better, but not significantly", 2.0),
    "no": ("○", "no", 1.0),
    "not measured": ("–", "not measured", 0.0),
}
# Words for "yes", "better" and "no" on a claim of speed.
_OF_SPEED = ("holds", "faster by less", "not faster")


def claims_section(results: Results, level: str) -> Html:
    """Write every claim of a plan with its verdicts; `level` is the tag of the headings."""
    parts = [_claim(results, claim, level) for claim in results.plan.claims]
    legend = paragraph(
        f"● holds: better by a paired t-test at {fixed(LEVEL, 2)}. ◐ better, but not "
        "significantly. ○ not better. – not measured. Beside: by how much the claimed method is "
        "better, and the p-value; for claims of speed, how many times as fast it learns (● as "
        "claimed, ◐ faster by less).",
        class_="legend",
    )
    return join(parts, legend)


def _claim(results: Results, claim: Claim, level: str) -> Html:
    verdicts = results.verdicts(claim)
    heading, said = tag(level, claim.text), paragraph(_sentence(verdicts, claim.faster))
    if all(verdict.holds == "not measured" for verdict in verdicts):
        return join(heading, said)
    columns = [
        Column("data set", is_text=True),
        *([Column("measure", is_text=True)] if len(claim.measures) > 1 else []),
        *(Column(f"over {name}") for name in claim.over),
    ]
    found = {(v.measure, v.dataset, v.over): v for v in verdicts}
    rows = []
    for measure in claim.measures or (SPEED,):
        digits = digits_for(v.difference for v in verdicts if v.measure == measure)
        for dataset in claim.datasets:
            named = [Field(MEASURES[measure].title)] if len(claim.measures) > 1 else []
            cells = [_verdict(found[measure, dataset, over], digits) for over in claim.over]
            rows.append([Field(dataset), *named, *cells])
    caption = f"{claim.method} against {listed(list(claim.over))}"
    return join(heading, said, table(caption, columns, rows, kind="verdicts"))


def _sentence(verdicts: list[Verdict], faster: float | None) -> str:
    counts = Counter(verdict.holds for verdict in verdicts)
    measured = len(verdicts) - counts["not measured"]
    if not measured:
        return f"Not measured yet, in any of {counted(len(verdicts), 'comparison')}."
    yes, better, no = (
        ("holds significantly", "better but not significantly", "not better")
        if faster is None
        else _OF_SPEED
    )
    said = [f"{yes.capitalize()} in {counts['yes']} of {counted(measured, 'comparison')}"]
    if counts["better"]:
        said.append(f"{better} in {counts['better']}")
    if counts["no"]:
        said.append(f"{no} in {counts['no']}")
    missing = f" Not measured: {counts['not measured']}." if counts["not measured"] else ""
    return listed(said) + "." + missing


def _verdict(verdict: Verdict, digits: int) -> Field:
    sign, words, place = _SHOWN[verdict.holds]
    kind = "holds-" + verdict.holds.replace(" ", "-")
    if verdict.holds == "not measured":
        return Field(join(tag("span", sign, aria_hidden="true"), hidden(words)), None, kind)
    if verdict.measure == SPEED:
        words = _OF_SPEED[("yes", "better", "no").index(verdict.holds)]
        amount, beside = f" {verdict.difference:.2g} times as fast", None
    else:
        amount = f" {signed(verdict.difference, digits)}"
        beside = tag("small", f"p {p_value(verdict.p_value)}", class_="print")
    sign_tag = tag("span", sign, class_="sign", aria_hidden="true")
    content = join(sign_tag, hidden(f"{words}: "), amount, beside)
    # By verdict first, then by difference.
    return Field(content, 1e6 * place + verdict.difference, kind)


def disagreements_section(results: Results, key: str) -> Html:
    """List figures that are worse or better than print; `key` begins the ids of the remarks."""
    below, above = results.below_print(), results.above_print()
    plan = results.plan
    used = [plan.remark_key(*place) for *place, _ in (*below, *above)]
    # Each remark once, in the order in which the tables point to it.
    texts = list(dict.fromkeys(plan.remarks[name] for name in used if name))
    links = {text: f"{key}-{place}" for place, text in enumerate(texts, start=1)}
    return join(
        paragraph(_compared(results)),
        _disagreements(results, below, "Measured figures that fall short of print", links),
        _disagreements(results, above, "Measured figures that exceed print", links),
        _remarks(links),
        _other_remarks(results.other_remarks()),
    )


def _remarks(links: Mapping[str, str]) -> Html | None:
    if not links:
        return None
    items = [tag("li", text, id=name) for text, name in links.items()]
    return join(paragraph("Remarks:"), tag("ol", items))


def _compared(results: Results) -> str:
    """Say how many figures fall short of print, and how many exceed it."""
    total = len(results.compared)
    if not total:
        return "Nothing that has a published figure has been measured yet."
    below, above = len(results.below_print()), len(results.above_print())
    return (
        f"Of {counted(total, 'figure')}, {below or 'none'} fall{'s' * (below <= 1)} short of "
        f"print by more than {LIMIT:g} standard errors, and {above or 'none'} "
        f"exceed{'s' * (above <= 1)} it by as much."
    )


def _disagreements(
    results: Results,
    found: list[tuple[str, str, str, Entry]],
    caption: str,
    links: Mapping[str, str],
) -> Html | None:
    if not found:
        return None
    rows = []
    for measure, dataset, method, entry in found:
        digits = digits_for([entry.mean, entry.published or 0.0])
        key = results.plan.remark_key(measure, dataset, method)
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
                _remark_link(links[remark]) if remark else EMPTY,
            ]
        )
    columns = [
        Column("data set", is_text=True),
        Column("method", is_text=True),
        Column("measure", is_text=True),
        Column("measured"),
        Column("print"),
        Column("standard errors"),
        Column("remark"),
    ]
    return table(caption, columns, rows)


def _remark_link(name: str) -> Field:
    number = name.rsplit("-", 1)[1]
    return Field(tag("a", number, href=f"#{name}", aria_label=f"remark {number}"), float(number))


def _other_remarks(remarks: dict[str, str]) -> Html | None:
    if not remarks:
        return None
    items = [
        join(tag("dt", key.replace("/", ", ")), tag("dd", text)) for key, text in remarks.items()
    ]
    return join(paragraph("Other remarks:"), tag("dl", items))
