"""How papers stand, in words and numbers: the head of RESULTS.md and of the HTML report."""

from __future__ import annotations

from collections.abc import Mapping

from studies.measures import MEASURES
from studies.plan import KINDS
from studies.record import Broken, Counts, Paper
from studies.results import BOTH, LIMIT, Results

_VERDICTS = {
    "yes": "hold",
    "better": "better, not significantly",
    "no": "do not hold",
    "not comparable": "not comparable",
    "not measured": "not measured",
}
HEADS = (
    "figures",
    "agree",
    *KINDS.values(),
    "not measured",
    "claims",
    "hold",
)
"""Heads of a paper's row: its figures, and the comparisons that its claims make."""
AGREE = (
    f"Figures agree that are within {BOTH:.1f} standard errors of ours, as two means with errors "
    f"like ours would be; {LIMIT:g} standard errors are the stricter limit. Where a paper prints "
    "its own errors, the root mean square of both stands for ours. Each printed figure is counted "
    "once, each claim where the paper is judged."
)


def how_judged(study: Results) -> str:
    """Say whether a paper is judged by its authors' own protocol."""
    return ", as its authors ran it" if study.plan.as_run else ""


def paper_numbers(found: Counts) -> list[int]:
    """Return the numbers of a paper's row, under `HEADS`."""
    kinds = [found.kinds.get(kind, 0) for kind in KINDS]
    verdicts, hold = sum(found.verdicts.values()), found.verdicts.get("yes", 0)
    return [found.printed, found.agree, *kinds, found.missing, verdicts, hold]


def paper_sentence(paper: Paper) -> str:
    """Say in one sentence how a paper stands."""
    found, parts = paper.counts, []
    if found.compared:
        apart = [*_by_kind(found.kinds), *_some(found.missing, "not measured")]
        others = f", the others do not ({', '.join(apart)})" if apart else ""
        parts.append(f"of {found.printed} printed figures {found.agree} agree{others}")
    elif found.printed:
        parts.append(f"none of {found.printed} printed figures has been measured")
    else:
        parts.append("no printed figure is known")
    verdicts = sum(found.verdicts.values())
    if verdicts:
        said = [f"{n} {_VERDICTS[key]}" for key in _VERDICTS if (n := found.verdicts.get(key, 0))]
        why = ", ".join(_by_kind(paper.causes))
        lost = f"{found.verdicts.get('no', 0)} {_VERDICTS['no']}"
        said = [f"{text} ({why})" if text == lost and why else text for text in said]
        parts.append(f"of {verdicts} comparisons that its claims make {', '.join(said)}")
    return "; ".join(parts)


def _by_kind(kinds: Mapping[str, int]) -> list[str]:
    return [text for kind in KINDS for text in _some(kinds.get(kind, 0), KINDS[kind])]


def _some(number: int, what: str) -> list[str]:
    return [f"{number} {what}"] if number else []


def comparison_words(broken: Broken) -> str:
    """Name the comparison of a claim: data set, methods, measure."""
    claim, verdict = broken.claim, broken.verdict
    over = f"over {verdict.over}" if verdict.over else f"above {claim.above:g}"
    return f"{verdict.dataset}, {claim.method} {over}, {MEASURES[verdict.measure].title}"
