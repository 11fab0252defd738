"""The figures of a study: measured beside published, marks, ranks, claims."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from studies.measures import MEASURES
from studies.plan import Claim, Figure, Plan
from studies.record import Measured, Place
from studies.statistics import Paired, Ranking, corrected_t, holm, paired_t, rank_methods

if TYPE_CHECKING:
    from studies.characteristics import Characteristics

LEVEL = 0.05
"""Level of all tests."""
FEWEST_SPLITS = 5
"""Splits below which no difference is called significant."""
WIDE = 2.0 * math.sqrt(2.0)
"""Standard errors of ours within which two figures agree, were they of different rows."""
REDRAWN = 0.5
"""Deviation of a ten-fold mean over draws of the folds, in standard errors over its folds: about
what the study `redrawn` measures."""
NARROW = REDRAWN * WIDE
"""Standard errors of ours within which two figures agree that are ten folds of the same rows."""
SPEED = "seconds of learning"
"""Stands for a measure in verdicts on claims of speed."""
_ONE_SIDED = 1.645
_SLACK = 0.25  # of a measured exponent
# Means nearer than this are the same.
_SAME = 1e-12


class Entry(NamedTuple):
    """One cell of a table.

    Attributes
    ----------
    measured : Measured or None
    published : float or None
    gap : float or None
        Measured minus published in standard errors; positive is better than print. The error is
        ours, or the root mean square of both where the paper prints its own.
    best : bool
        Whether no method has a better mean on this data set.
    """

    measured: Measured | None
    published: float | None
    gap: float | None
    best: bool


class WinTieLoss(NamedTuple):
    """Over data sets: how often the reference wins, ties and loses against a method."""

    win: int
    tie: int
    loss: int


class Verdict(NamedTuple):
    """Whether a claim holds on one data set against one method by one measure.

    `holds` is "yes" (significantly, by the paired t-test), "ahead" (by less than the test can tell,
    or the splits are not kept to tell), "no", "undecided" (whether a difference is within the
    margin of a claim that there is none), "not comparable" (speed: other programs on other
    machines; `difference` says how many times as fast the method learns) or "not measured".
    `corrected` is the p-value of the corrected resampled t-test after Holm's correction for all
    comparisons of the claim.
    """

    dataset: str
    over: str
    measure: str
    holds: str
    difference: float = math.nan
    p_value: float = math.nan
    corrected: float = math.nan


@dataclass(frozen=True)
class Results:
    """All that is known of a study.

    Attributes
    ----------
    plan : Plan
    figures : mapping {(measure, data set, method): Measured}
    characteristics : mapping {data set: Characteristics}
        Of the data sets of which the paper prints some.
    """

    plan: Plan
    figures: Mapping[Place, Measured]
    characteristics: Mapping[str, Characteristics] = field(default_factory=dict)

    @property
    def datasets(self) -> list[str]:
        """Names of the data sets, in the plan's order."""
        return [data.name for data in self.plan.datasets]

    @property
    def methods(self) -> list[str]:
        """Names of the methods, in the plan's order."""
        return [method.name for method in self.plan.methods]

    @cached_property
    def published(self) -> dict[Place, Figure]:
        """The printed figures by their place."""
        return {figure.place: figure for figure in self.plan.figures}

    def gap(self, place: Place, found: Measured) -> float | None:
        """Return how far a figure is from the printed one of a place, in standard errors."""
        figure = self.published.get(place)
        if figure is None or not math.isfinite(found.error):
            return None
        # a rounded error may be smaller than the rounding of print
        error = max(found.error, 0.0005 if abs(figure.value) < 10.0 else 0.05)
        if figure.deviation is not None:
            error = math.hypot(error, figure.deviation / math.sqrt(found.splits)) / math.sqrt(2.0)
        return MEASURES[place[0]].sign * (found.mean - figure.value) / error

    def table(self, measure: str) -> dict[tuple[str, str], Entry]:
        """Return {(data set, method): Entry} for one measure, where measured or published."""
        sign = MEASURES[measure].sign
        entries = {}
        for dataset in self.datasets:
            own = {m: self.figures.get((measure, dataset, m)) for m in self.methods}
            top = max((sign * f.mean for f in own.values() if f is not None), default=math.nan)
            for method, found in own.items():
                place = (measure, dataset, method)
                figure = self.published.get(place)
                if found is None and figure is None:
                    continue
                value = None if figure is None else figure.value
                gap = None if found is None else self.gap(place, found)
                best = found is not None and sign * found.mean >= top - _SAME
                entries[dataset, method] = Entry(found, value, gap, best)
        return entries

    @cached_property
    def compared(self) -> dict[Place, float]:
        """Gaps to print of all figures that have one."""
        gaps = {place: self.gap(place, found) for place, found in self.figures.items()}
        return {place: gap for place, gap in gaps.items() if gap is not None}

    # ------------------------------------------------------------------------------- comparisons

    def _test_share(self, dataset: str) -> float:
        protocol = next(data.protocol for data in self.plan.datasets if data.name == dataset)
        if protocol.train is not None and protocol.test is not None:
            return float(protocol.test) / float(protocol.train)
        return 1.0 / max(protocol.splits - 1, 1)

    def compare(
        self, measure: str, dataset: str, first: str, second: str
    ) -> tuple[Paired, Paired] | None:
        """Both t-tests of two methods, positive where the first is better.

        None where either was not measured; without p-values where the splits are not kept.
        """
        one, two = (self.figures.get((measure, dataset, m)) for m in (first, second))
        if one is None or two is None:
            return None
        sign = MEASURES[measure].sign
        both = min(len(one.values), len(two.values))
        if both < 2:
            plain = Paired(sign * (one.mean - two.mean), math.nan, math.nan)
            return plain, plain
        left, right = (sign * np.array(f.values[:both]) for f in (one, two))
        return paired_t(left, right), corrected_t(left, right, self._test_share(dataset))

    def significant(self, measure: str, dataset: str, first: str, second: str) -> bool | None:
        """Whether the paired t-test tells two methods apart; None where that is not known.

        Where the splits are not kept, the mark tells it, if one of the two is the reference.
        """
        tests = self.compare(measure, dataset, first, second)
        if tests is None:
            return None
        one, two = (self.figures[measure, dataset, m] for m in (first, second))
        if math.isfinite(tests[0].p_value):
            enough = min(one.splits, two.splits) >= FEWEST_SPLITS
            return bool(enough and tests[0].p_value < LEVEL)
        if self.plan.reference == first:
            return bool(two.mark)
        if self.plan.reference == second:
            return bool(one.mark)
        return None

    def mark(self, measure: str, dataset: str, method: str) -> str:
        """Return "+" where the reference is significantly better than a method, "-" if worse."""
        if method == self.plan.reference:
            return ""
        place = (measure, dataset, self.plan.reference, method)
        tests = self.compare(*place)
        if tests is None or not self.significant(*place):
            return ""
        return "+" if tests[0].difference > 0.0 else "-"

    def win_tie_loss(self, measure: str, method: str) -> WinTieLoss:
        """Count the reference's significant wins and losses against a method over data sets."""
        places = [(measure, dataset) for dataset in self.datasets]
        known = [p for p in places if self.compare(*p, self.plan.reference, method) is not None]
        marks = [self.mark(*place, method) for place in known]
        return WinTieLoss(marks.count("+"), marks.count(""), marks.count("-"))

    def printed_win_tie_loss(self, measure: str, method: str) -> WinTieLoss | None:
        """Return the printed counts of the reference against a method, or those of its marks."""
        counts = self.plan.win_tie_loss.get(measure, {})
        if method in counts:
            return WinTieLoss(*counts[method])
        own = [f for f in self.plan.figures if (f.measure, f.method) == (measure, method)]
        marks = [figure.mark for figure in own if figure.mark is not None]
        if not marks or method == self.plan.reference:
            return None
        return WinTieLoss(marks.count("+"), marks.count(""), marks.count("-"))

    def ranking(self, measure: str) -> Ranking | None:
        """Rank methods over data sets; None where fewer than two of either have no gaps.

        Methods measured on fewer than half of the data sets are left out, then data sets on which
        one of the rest is missing. A method counts as measured where it has all the splits that
        any method has there: means over different splits cannot be ranked.
        """
        found = {p[1:]: own for p, own in self.figures.items() if p[0] == measure}
        most = {
            d: max((own.splits for place, own in found.items() if place[0] == d), default=0)
            for d in self.datasets
        }
        means = {place: own.mean for place, own in found.items() if own.splits == most[place[0]]}
        datasets = [d for d in self.datasets if any((d, m) in means for m in self.methods)]
        counts = {m: sum((d, m) in means for d in datasets) for m in self.methods}
        methods = [m for m in self.methods if 2 * counts[m] >= len(datasets) and counts[m]]
        datasets = [d for d in datasets if all((d, m) in means for m in methods)]
        if len(methods) < 2 or len(datasets) < 2:
            return None
        return rank_methods(
            {m: [means[d, m] for d in datasets] for m in methods},
            higher_is_better=MEASURES[measure].higher_is_better,
            level=LEVEL,
        )

    # ------------------------------------------------------------------------------------- claims

    def verdicts(self, claim: Claim, measure: str | None = None) -> list[Verdict]:
        """Check a claim everywhere it is made; with a measure, by that instead of its own."""
        if claim.faster is not None:
            return [self._speed(d, claim.method, o) for d in claim.datasets for o in claim.over]
        measures = claim.measures if measure is None else (measure,)
        places = [(m, d) for m in measures for d in claim.datasets]
        if claim.growth is not None:
            return [self._growth(m, claim, claim.growth) for m in measures]
        if claim.above is not None:
            return [self._level(m, d, claim.method, claim.above) for m, d in places]
        found = [self._verdict(claim, m, d, over) for m, d in places for over in claim.over]
        known = [i for i, verdict in enumerate(found) if math.isfinite(verdict.corrected)]
        for i, p in zip(known, holm([found[i].corrected for i in known]), strict=True):
            found[i] = found[i]._replace(corrected=float(p))
        return found

    def _verdict(self, claim: Claim, measure: str, dataset: str, over: str) -> Verdict:
        tests = self.compare(measure, dataset, claim.method, over)
        if tests is None:
            return Verdict(dataset, over, measure, "not measured")
        difference = tests[0].difference
        if claim.equal is not None or claim.at_least is not None:
            holds = self._within(claim, measure, dataset, over, difference)
        elif difference <= _SAME:
            holds = "no"
        else:
            told = self.significant(measure, dataset, claim.method, over)
            holds = "yes" if told else "ahead"
        return Verdict(
            dataset, over, measure, holds, difference, tests[0].p_value, tests[1].p_value
        )

    def _within(
        self, claim: Claim, measure: str, dataset: str, over: str, difference: float
    ) -> str:
        """Say whether a difference is surely within a margin: two one-sided tests at the level.

        The error is that of the differences over splits, or of both means where these are not kept.
        """
        one, two = (self.figures[measure, dataset, m] for m in (claim.method, over))
        both = min(len(one.values), len(two.values))
        if both > 1:
            apart = np.array(one.values[:both]) - np.array(two.values[:both])
            error = float(apart.std(ddof=1) / math.sqrt(both))
        else:
            error = math.hypot(one.error, two.error)
        low, high = difference - _ONE_SIDED * error, difference + _ONE_SIDED * error
        if claim.equal is not None:
            inside, outside = -claim.equal < low and high < claim.equal, abs(difference)
            return "yes" if inside else "no" if outside > claim.equal else "undecided"
        margin = claim.at_least or 0.0
        return "yes" if low > -margin else "no" if difference < -margin else "undecided"

    def _level(self, measure: str, dataset: str, method: str, level: float) -> Verdict:
        found = self.figures.get((measure, dataset, method))
        if found is None:
            return Verdict(dataset, "", measure, "not measured")
        ahead = MEASURES[measure].sign * (found.mean - level)
        error = found.error if found.splits >= FEWEST_SPLITS else math.inf
        holds = "yes" if ahead > 2.0 * error else "ahead" if ahead > 0 else "no"
        return Verdict(dataset, "", measure, holds, ahead)

    def _growth(self, measure: str, claim: Claim, most: float) -> Verdict:
        """Fit log(measure) by log(number at the end of a data set's name); compare the slope."""
        places = [(measure, dataset, claim.method) for dataset in claim.datasets]
        where = f"{claim.datasets[0]} to {claim.datasets[-1]}"
        if not all(place in self.figures for place in places):
            return Verdict(where, "", measure, "not measured")
        numbers = [float(re.split("[:/]", dataset)[-1]) for dataset in claim.datasets]
        means = [self.figures[place].mean for place in places]
        slope = float(np.polyfit(np.log(numbers), np.log(means), 1)[0])
        return Verdict(where, "", measure, "yes" if slope <= most + _SLACK else "no", slope)

    def _speed(self, dataset: str, method: str, over: str) -> Verdict:
        own, other = (self.seconds.get((dataset, name)) for name in (method, over))
        if own is None or other is None:
            return Verdict(dataset, over, SPEED, "not measured")
        return Verdict(dataset, over, SPEED, "not comparable", other / max(own, 1e-9))

    @cached_property
    def seconds(self) -> dict[tuple[str, str], float]:
        """{(data set, method): median seconds of learning a split}."""
        return {
            place[1:]: own.seconds
            for place, own in self.figures.items()
            if math.isfinite(own.seconds)
        }


def table_order(results: Results, measure: str) -> tuple[list[str], list[str]]:
    """Return data sets and methods in the order in which a paper prints them, others after.

    Methods that have neither a measured nor a printed figure are left out.
    """
    figures: Sequence[Figure] = [f for f in results.plan.figures if f.measure == measure]
    known = {method for _, method in results.table(measure)}
    datasets = dict.fromkeys([*(f.dataset for f in figures), *results.datasets])
    methods = dict.fromkeys([*(f.method for f in figures), *results.methods])
    return (
        [name for name in datasets if name in results.datasets],
        [name for name in methods if name in known],
    )
