"""Why a row has its labels, as a page: its label sets, and what speaks for and against each."""

from __future__ import annotations

from pathlib import Path

from colabel.models.evidence import FeatureEvidence, RowExplanation, Term
from colabel.report._html.charts import Contribution, contributions_chart
from colabel.report._html.markup import Html, details, join, paragraph, tag
from colabel.report._html.numbers import fixed, signed
from colabel.report._html.page import page, section, write_page
from colabel.report._html.tables import Column, Field, table

_DRAWN = 10  # terms of a label; the others are one


def write_explanation_html(
    path: str | Path, why: RowExplanation, evidence: FeatureEvidence | None, name: str
) -> None:
    """Write the page; it appears under its name when it is complete."""
    write_page(path, explanation_html(why, evidence, name))


def explanation_html(why: RowExplanation, evidence: FeatureEvidence | None, name: str) -> str:
    """Return why a row has its labels as HTML that needs nothing else.

    Parameters
    ----------
    why : RowExplanation
    evidence : FeatureEvidence or None
        What its columns say; None leaves that part out.
    name : str
        What the row is called.
    """
    answer = tag(
        "div",
        tag("b", why.named(why.best.codes)),
        paragraph(
            f"Probability of these labels together: {fixed(why.best.prob, 3)}; if they were "
            f"independent of each other: {fixed(why.prob_if_independent, 3)}."
        ),
        class_="verdict",
    )
    parts = [section("The most probable label sets", "sets", _sets(why))]
    if evidence is not None:
        parts.append(section("What speaks for and against each label", "labels", _labels(evidence)))
    if why.pulls:
        parts.append(section("Labels that hold each other", "pulls", _pulls(why)))
    if why.switches and len(why.alone) > 1:
        parts.append(section("If one label were known", "known", _switches(why)))
    return page(f"{name}: why these labels?", why.how, None, join(answer, parts))


def _sets(why: RowExplanation) -> Html:
    rows = [
        [Field(why.named(one.codes)), Field(fixed(one.prob, 3), one.prob)]
        for one in (why.best, *why.runners_up)
    ]
    return table("Joint probabilities", [Column("label set", is_text=True), Column("P")], rows)


def _labels(evidence: FeatureEvidence) -> Html:
    said = (
        "In log-odds, which add up: what holds for an average row, what each column of this row "
        "adds, and what the other labels of the answer add. The sum is the log-odds of the label "
        f"given those other labels. {evidence.how}"
    )
    blocks = [_label(evidence, place) for place in range(len(evidence.positions))]
    return join(paragraph(said, class_="legend"), blocks)


def _label(evidence: FeatureEvidence, place: int) -> Html:
    terms = evidence.terms(place)
    shown, rest = terms[:_DRAWN], terms[_DRAWN:]
    bars = [Contribution("average row", float(evidence.average[place]), "start")]
    bars += [_bar(term) for term in shown]
    if rest:
        total = sum(term.log_odds for term in rest)
        bars.append(Contribution(f"{len(rest):,} more", total, "rest"))
    bars.append(Contribution("sum", float(evidence.log_odds[place]), "sum"))
    heading = f"{evidence.statement(place)}: P = {fixed(float(evidence.prob[place]), 3)}"
    return join(tag("h4", heading), contributions_chart(bars), _all_terms(terms, rest))


def _bar(term: Term) -> Contribution:
    label = "label " if term.kind == "label" else ""
    return Contribution(f"{label}{term}", term.log_odds, term.kind.split()[-1])


def _all_terms(terms: list[Term], rest: list[Term]) -> Html | None:
    if not rest:
        return None
    columns = [Column("what", is_text=True), Column("adds"), Column("standard error")]
    rows = [
        [
            Field(str(term)),
            Field(signed(term.log_odds, 3), term.log_odds),
            Field(fixed(term.error, 3), term.error),
        ]
        for term in terms
    ]
    return details(f"All {len(terms):,} terms as a table", table("In log-odds", columns, rows))


def _pulls(why: RowExplanation) -> Html:
    rows = [
        [
            Field(" and ".join(why.value(i, why.best.codes[i]) for i in pull.labels)),
            Field(f"{pull.lift:.2f}", pull.lift),
        ]
        for pull in why.pulls[:_DRAWN]
    ]
    columns = [Column("together", is_text=True), Column("times as probable as if independent")]
    return table("More probable together than each alone suggests", columns, rows)


def _switches(why: RowExplanation) -> Html:
    rows = [
        [
            Field(why.value(switch.label, switch.value)),
            Field(fixed(switch.prob, 3), switch.prob),
            Field(why.named(switch.answer.codes)),
            Field(fixed(switch.answer.prob, 3), switch.answer.prob),
        ]
        for switch in why.switches[:_DRAWN]
    ]
    columns = [
        Column("known", is_text=True),
        Column("P of that"),
        Column("then the answer is", is_text=True),
        Column("P then"),
    ]
    return table("Most change expected first", columns, rows)
