"""The record against print: which figures agree, which differ, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from studies.measures import MEASURES
from studies.plan import Claim, Plan, Remark
from studies.results import BOTH, LIMIT, Entry, Results, Verdict, WinTieLoss

UNEXPLAINED = Remark("No reason was found.")


class Difference(NamedTuple):
    """A measured figure that is more than `LIMIT` standard errors from print.

    Attributes
    ----------
    measure, dataset, method : str
    entry : Entry
    remark : Remark
    """

    measure: str
    dataset: str
    method: str
    entry: Entry
    remark: Remark

    @property
    def disagrees(self) -> bool:
        """Whether it is beyond what an error of print could explain, too."""
        return abs(self.entry.gap or 0.0) > BOTH


def differences(results: Results) -> list[Difference]:
    """Return all figures that differ from print, in the order of the tables."""
    plan, found = results.plan, []
    for measure, dataset, method, entry in results.compared:
        if abs(entry.gap or 0.0) > LIMIT:
            key = plan.remark_key(measure, dataset, method)
            remark = UNEXPLAINED if key is None else plan.remarks[key]
            found.append(Difference(measure, dataset, method, entry, remark))
    return found


class Broken(NamedTuple):
    """A comparison in which a claim does not hold, and why."""

    claim: Claim
    verdict: Verdict
    remark: Remark


def broken_claims(results: Results) -> list[Broken]:
    """Return all comparisons in which the claims of a plan do not hold, in their order."""
    plan = results.plan
    return [
        Broken(claim, verdict, claim_remark(plan, claim, verdict))
        for claim in plan.claims
        for verdict in results.verdicts(claim)
        if verdict.holds == "no"
    ]


def claim_remark(plan: Plan, claim: Claim, verdict: Verdict) -> Remark:
    """Return the remark that says why a comparison of a claim does not hold.

    If it does not hold in print either (the claim is about most data sets, say), that is why. Else
    it is the remark on the method that was to be beaten, or on the claimed one.
    """
    printed = {f.place: f.value for f in plan.figures}
    places = [(verdict.measure, verdict.dataset, name) for name in (claim.method, verdict.over)]
    if all(place in printed for place in places):
        own, other = (printed[place] for place in places)
        if MEASURES[verdict.measure].sign * (own - other) <= 0.0:
            return Remark("Not so in print either.", "print", f"Print: {own:g} against {other:g}.")
    for method in (verdict.over, claim.method):
        key = plan.remark_key(verdict.measure, verdict.dataset, method)
        if key is not None:
            return plan.remarks[key]
    return UNEXPLAINED


def other_remarks(results: Results) -> dict[str, Remark]:
    """Return the remarks of a plan that no differing figure and no broken claim calls for."""
    used = {found.remark for found in differences(results)}
    used |= {found.remark for found in broken_claims(results)}
    return {key: remark for key, remark in results.plan.remarks.items() if remark not in used}


class Counts(NamedTuple):
    """How a study stands against print.

    Attributes
    ----------
    printed, compared : int
        Figures in print, and those of them that were measured; each is counted once.
    agree : int
        Within `BOTH` standard errors of ours, so that print's own error could explain the rest.
    kinds : mapping {kind: int}
        The others, by what the difference comes from (`KINDS`); figures of data sets that a plan
        leaves out are other data.
    worse, better : (int, int)
        Beyond `LIMIT` and beyond `BOTH` standard errors.
    verdicts : mapping {verdict: int}
        Of the comparisons that the claims make.
    """

    printed: int
    compared: int
    agree: int
    kinds: Mapping[str, int]
    worse: tuple[int, int]
    better: tuple[int, int]
    verdicts: Mapping[str, int]

    @property
    def missing(self) -> int:
        """Printed figures that were neither measured nor left out."""
        return self.printed - self.agree - sum(self.kinds.values())


def counts(results: Results) -> Counts:
    """Count figures and claims of a study."""
    differ = [d for d in differences(results) if d.disagrees]
    verdicts = [v.holds for claim in results.plan.claims for v in results.verdicts(claim)]
    plan = results.plan
    printed = {(f.measure, f.dataset, f.method) for f in plan.figures}
    kinds: Counter[str] = Counter(d.remark.kind for d in differ)
    kinds["data"] += sum(dataset in plan.left_out for _, dataset, _ in printed)
    return Counts(
        len(printed),
        len(results.compared),
        len(results.compared) - len(differ),
        kinds,
        (len(results.below_print(LIMIT)), len(results.below_print(BOTH))),
        (len(results.above_print(LIMIT)), len(results.above_print(BOTH))),
        Counter(verdicts),
    )


def judging(studies: Sequence[Results]) -> dict[str, Results]:
    """Return the study of each paper that judges it: that as the authors ran it, or the first.

    A study with printed figures goes before one with claims alone. Studies that name no paper
    stand for themselves, under their title, if they have figures or claims of one.
    """
    found: dict[str, Results] = {}
    for results in studies:
        if not (results.plan.figures or results.plan.claims):
            continue
        name = results.plan.paper or results.plan.title
        if name not in found or _rank(results.plan) > _rank(found[name].plan):
            found[name] = results
    return found


def _rank(plan: Plan) -> tuple[bool, bool]:
    return plan.as_run, bool(plan.figures)


class Paper(NamedTuple):
    """How a paper stands: the study that judges it, and what is counted.

    Attributes
    ----------
    judge : Results
    counts : Counts
        Figures of the study that judges the paper, claims of all its studies.
    causes : mapping {kind: int}
        Where the comparisons that do not hold come from (`KINDS`).
    """

    judge: Results
    counts: Counts
    causes: Mapping[str, int]


def papers(studies: Sequence[Results]) -> dict[str, Paper]:
    """Return how each paper stands, in the order of the studies.

    A claim that several studies of a paper check (it has the same text in each) is counted where
    the paper is judged, or else in the first of them.
    """
    found = {}
    for name, judge in judging(studies).items():
        others = [s for s in studies if s is not judge and s.plan.paper == name]
        known: set[str] = set()
        verdicts: Counter[str] = Counter()
        causes: Counter[str] = Counter()
        for study in (judge, *others):
            new = [claim for claim in study.plan.claims if claim.text not in known]
            known.update(claim.text for claim in new)
            verdicts.update(v.holds for claim in new for v in study.verdicts(claim))
            causes.update(b.remark.kind for b in broken_claims(study) if b.claim in new)
        found[name] = Paper(judge, counts(judge)._replace(verdicts=verdicts), causes)
    return found


# ---------------------------------------------------------------------------- marks, print's order


def printed_mark(plan: Plan, measure: str, dataset: str, method: str) -> str | None:
    """Return the mark that the paper prints beside a figure; None where it prints none."""
    place = (measure, dataset, method)
    return next((f.mark for f in plan.figures if f.place == place), None)


def printed_win_tie_loss(plan: Plan, measure: str, method: str) -> WinTieLoss | None:
    """Return the printed counts of the reference against a method, or those of its marks."""
    if method in plan.win_tie_loss.get(measure, {}):
        return WinTieLoss(*plan.win_tie_loss[measure][method])
    marks = [
        figure.mark
        for figure in plan.figures
        if (figure.measure, figure.method) == (measure, method) and figure.mark is not None
    ]
    if not marks or method == plan.reference:
        return None
    return WinTieLoss(marks.count("+"), marks.count(""), marks.count("-"))


def marks_alike(results: Results, measure: str) -> tuple[int, int]:
    """Return how many printed marks of a measure are measured too, and how many there are."""
    alike = total = 0
    for figure in results.plan.figures:
        if figure.measure != measure or figure.mark is None:
            continue
        comparison = results.comparison(measure, figure.dataset, figure.method)
        if comparison is not None:
            total += 1
            alike += comparison.mark == figure.mark
    return alike, total


def table_order(results: Results, measure: str) -> tuple[list[str], list[str]]:
    """Return data sets and methods in the order in which a paper prints them, others after.

    Methods that have neither a measured nor a printed figure are left out.
    """
    figures = [f for f in results.plan.figures if f.measure == measure]
    known = {method for _, method in results.table(measure)}
    datasets = dict.fromkeys([*(f.dataset for f in figures), *results.datasets])
    methods = dict.fromkeys([*(f.method for f in figures), *results.methods])
    return (
        [name for name in datasets if name in results.datasets],
        [name for name in methods if name in known],
    )


def table_title(results: Results, measure: str) -> str:
    """Return the title of a measure's table, after the paper's where it has one.

    Examples
    --------
    "Table 2: exact match" for figures of table 2, "Slides: exact match" for those of "slides".
    """
    title = MEASURES[measure].title
    tables = dict.fromkeys(f.table for f in results.plan.figures if f.measure == measure)
    if not tables:
        return title[:1].upper() + title[1:]
    names = [f"Table {name}" if name.isdigit() else name.capitalize() for name in tables]
    return f"{' and '.join(names)}: {title}"
