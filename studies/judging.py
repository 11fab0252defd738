"""What of a paper is reproduced: figures that agree with print, causes that cells show, claims."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from studies.measures import MEASURES
from studies.plan import KINDS, Claim, Remark
from studies.record import Measured, Place
from studies.results import NARROW, WIDE, Results, Verdict

Studies = Mapping[str, Results]
"""All studies, by the name of their plan."""


class Tested(NamedTuple):
    """A cause and the figure that was measured to test it.

    Attributes
    ----------
    remark : Remark
    cell : str
        Study, data set, method and measure of the figure; empty where none was measured.
    found : Measured or None
    shown : bool
        Whether the figure agrees with print and is at most half as far from it as ours, or a claim
        holds there significantly: the cause stands then.
    """

    remark: Remark
    cell: str
    found: Measured | None
    shown: bool


class Difference(NamedTuple):
    """A measured figure that differs from print by more than `NARROW` standard errors."""

    place: Place
    found: Measured
    published: float
    gap: float
    tested: Tested | None

    @property
    def far(self) -> bool:
        """Whether it differs by more than `WIDE`, too."""
        return abs(self.gap) > WIDE

    @property
    def kind(self) -> str:
        """What it comes from, if cells show it, or ""."""
        return self.tested.remark.kind if self.tested is not None and self.tested.shown else ""


def differences(results: Results, studies: Studies) -> list[Difference]:
    """Return all figures that differ from print, those that differ most first."""
    found = []
    for place, gap in results.compared.items():
        if abs(gap) > NARROW:
            published = results.published[place].value
            tested = _tested(results, studies, place)
            found.append(Difference(place, results.figures[place], published, gap, tested))
    return sorted(found, key=lambda own: -abs(own.gap))


def _tested(results: Results, studies: Studies, place: Place) -> Tested | None:
    """Return the nearest remark on a figure, and whether the cells it names show it."""
    key = results.plan.remark_key(*place)
    if key is None:
        return None
    remark = results.plan.remarks[key]
    measure, dataset, method = place
    other = (measure, remark.dataset or dataset, (remark.method or "{}").format(method))
    study = studies.get(remark.study)
    found = None if study is None else study.figures.get(other)
    if found is None:
        return Tested(remark, "", None, shown=False)
    gap = results.gap(place, found)
    before = abs(results.figures[place].mean - results.published[place].value)
    halved = 2.0 * abs(found.mean - results.published[place].value) <= before
    shown = gap is not None and abs(gap) <= NARROW and halved
    return Tested(remark, "/".join((remark.study, *other[1:], measure)), found, shown)


class Broken(NamedTuple):
    """A comparison in which a claim does not hold; `why` says so where print has it so itself."""

    claim: Claim
    verdict: Verdict
    why: str
    tested: Tested | None

    @property
    def kind(self) -> str:
        """What it comes from, if print or cells show it, or ""."""
        if self.why:
            return "print"
        return self.tested.remark.kind if self.tested is not None and self.tested.shown else ""


def broken(results: Results, studies: Studies, claim: Claim) -> list[Broken]:
    """Return the comparisons in which a claim does not hold."""
    found = []
    for verdict in results.verdicts(claim):
        if verdict.holds == "no":
            why = _in_print(results, claim, verdict)
            found.append(
                Broken(claim, verdict, why, _claim_tested(results, studies, claim, verdict))
            )
    return found


def _in_print(results: Results, claim: Claim, verdict: Verdict) -> str:
    """Say that a comparison does not hold in print either, where its figures are printed."""
    names = (claim.method, verdict.over)
    figures = [results.published.get((verdict.measure, verdict.dataset, m)) for m in names]
    own, other = figures if len(figures) == 2 else (None, None)
    if own is None or other is None or claim.equal is not None or claim.at_least is not None:
        return ""
    behind = MEASURES[verdict.measure].sign * (own.value - other.value) <= 0.0
    return f"not so in print either: {own.value:g} against {other.value:g}" if behind else ""


def _claim_tested(
    results: Results, studies: Studies, claim: Claim, verdict: Verdict
) -> Tested | None:
    """Return the nearest remark, and whether the claim holds in the study that it names."""
    if claim.equal is not None or claim.at_least is not None:
        return None
    for method in (verdict.over, claim.method):
        key = results.plan.remark_key(verdict.measure, verdict.dataset, method)
        remark = None if key is None else results.plan.remarks[key]
        study = None if remark is None else studies.get(remark.study)
        if remark is None or study is None:
            continue
        dataset = remark.dataset or verdict.dataset
        pattern = remark.method or "{}"
        names = [pattern.format(name) for name in (claim.method, verdict.over)]
        if "{}" not in pattern:  # another name of the one method
            names = [pattern if m == method else m for m in (claim.method, verdict.over)]
        tests = study.compare(verdict.measure, dataset, *names)
        if tests is None:
            continue
        found = study.figures[verdict.measure, dataset, names[0]]
        cell = f"{remark.study}/{dataset}/{names[0]} over {names[1]}/{verdict.measure}"
        told = study.significant(verdict.measure, dataset, names[0], names[1])
        return Tested(remark, cell, found, tests[0].difference > 0.0 and bool(told))
    return None


class Counts(NamedTuple):
    """How a paper stands.

    Attributes
    ----------
    printed : int
        Figures in print, each counted once.
    agree, doubtful : int
        Within `NARROW` standard errors of ours; beyond, but within `WIDE`.
    kinds : mapping {kind: int}
        Those beyond `NARROW` whose cause cells show.
    differ : int
        The others beyond `WIDE`: not reproduced.
    left_out, missing : int
        Of data that are not to be had; not measured.
    verdicts : mapping {verdict: int}
        Of the comparisons that the claims make.
    strict : int
        Comparisons that hold by the corrected t-test with Holm's correction, too.
    untold : int
        Comparisons whose splits are not kept, so that this is not known.
    """

    printed: int
    agree: int
    doubtful: int
    kinds: Mapping[str, int]
    differ: int
    left_out: int
    missing: int
    verdicts: Mapping[str, int]
    strict: int
    untold: int


class Paper(NamedTuple):
    """The study that judges a paper, its studies, and the counts."""

    name: str
    judge: Results
    studies: tuple[Results, ...]
    counts: Counts


def papers(studies: Studies) -> list[Paper]:
    """Return how each paper stands.

    It is judged by the study as its authors ran it, or else by the one with printed figures. A
    claim that several studies of a paper check (it has the same text) is counted where the paper is
    judged, or else in the first of them.
    """
    names = dict.fromkeys(r.plan.paper for r in studies.values() if r.plan.paper)
    return [
        _paper(name, [r for r in studies.values() if r.plan.paper == name], studies)
        for name in names
    ]


def _paper(name: str, own: Sequence[Results], studies: Studies) -> Paper:
    judge = max(own, key=lambda r: (r.plan.as_run, bool(r.plan.figures)))
    differ = differences(judge, studies)
    kinds: Counter[str] = Counter(d.kind for d in differ if d.kind)
    doubtful = sum(not d.far and not d.kind for d in differ)
    left_out = sum(dataset in judge.plan.left_out for _, dataset, _ in judge.published)
    verdicts: Counter[str] = Counter()
    strict = untold = 0
    for study, claim in claims(judge, own):
        for verdict in study.verdicts(claim):
            verdicts[verdict.holds] += 1
            strict += verdict.holds == "yes" and verdict.corrected < 0.05
            untold += verdict.holds in ("yes", "ahead") and math.isnan(verdict.corrected)
    printed = len(judge.published)
    counts = Counts(
        printed,
        len(judge.compared) - len(differ),
        doubtful,
        kinds,
        len(differ) - doubtful - sum(kinds.values()),
        left_out,
        printed - len(judge.compared) - left_out,
        verdicts,
        strict,
        untold,
    )
    return Paper(name, judge, tuple(own), counts)


def claims(judge: Results, own: Sequence[Results]) -> list[tuple[Results, Claim]]:
    """Return every claim of a paper once, with the study that checks it."""
    known: set[str] = set()
    found = []
    for study in (judge, *(s for s in own if s is not judge)):
        new = [claim for claim in study.plan.claims if claim.text not in known]
        known.update(claim.text for claim in new)
        found += [(study, claim) for claim in new]
    return found


__all__ = [
    "KINDS",
    "Broken",
    "Counts",
    "Difference",
    "Paper",
    "Studies",
    "Tested",
    "broken",
    "claims",
    "differences",
    "papers",
]
