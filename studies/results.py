"""Rows of a store as the tables of a study: measured beside published, marks, ranks, claims."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from studies.cells import Cell, expand
from studies.measures import MEASURES
from studies.methods.arrays import Array
from studies.plan import Claim, Plan
from studies.statistics import Paired, Ranking, corrected_t, paired_t, rank_methods
from studies.store import Row, Store

if TYPE_CHECKING:
    from studies.characteristics import Characteristics
    from studies.plan import Figure, Protocol

LEVEL = 0.05
"""Level of all tests."""
FEWEST_SPLITS = 5
"""Splits below which no difference is called significant."""
LIMIT = 2.0
"""Standard errors beyond which a measured figure differs from the printed one."""
BOTH = LIMIT * math.sqrt(2.0)
"""The same, since print has an error too: beyond it, figures disagree. Where print's error is not
known it is taken to be as large as ours."""
SPEED = "seconds of learning"
"""Stands for a measure in verdicts on claims of speed."""
# Means nearer than this are the same.
_SAME = 1e-12


class Entry(NamedTuple):
    """One cell of a table.

    Attributes
    ----------
    mean, error : float
        Over splits; `error` is the standard error of the mean. NaN where nothing was measured.
    splits : int
        How many splits have a value.
    published : float or None
    gap : float or None
        Measured minus published in standard errors; positive is better than print. The error is
        ours, or the root mean square of both where the paper prints its own.
    best : bool
        Whether no method has a better mean on this data set.
    """

    mean: float
    error: float
    splits: int
    published: float | None
    gap: float | None
    best: bool


class Comparison(NamedTuple):
    """A method against the plan's reference on one data set.

    Attributes
    ----------
    paired, corrected : Paired
        Ordinary and corrected t-test, reference minus method; signs turned so that positive means
        the reference is better.
    mark : {"+", "-", ""}
        As in the papers: "+" where the reference is significantly better by the paired t-test,
        "-" where it is worse; none below five splits.
    """

    paired: Paired
    corrected: Paired
    mark: str


class WinTieLoss(NamedTuple):
    """Over data sets: how often the reference wins, ties and loses against a method."""

    win: int
    tie: int
    loss: int


class Verdict(NamedTuple):
    """Whether a claim holds on one data set against one method by one measure.

    `holds` is "yes" (significantly better), "better" (by less than the test can tell), "no", or
    "not measured". For claims on speed `measure` is `SPEED`, `difference` says how many times as
    fast the method learns, and `holds` is "not comparable": they are about other implementations on
    other machines. For claims that measures lie above a value `over` is empty, `difference` is the
    mean less the value, and "yes" means by more than `LIMIT` standard errors.
    """

    dataset: str
    over: str
    measure: str
    holds: str
    difference: float
    p_value: float


@dataclass(frozen=True)
class Results:
    """All that is known of a study.

    Attributes
    ----------
    plan : Plan
    rows : tuple of Row
    graphs : tuple of (Cell, dict)
        See `label_graph`.
    failures : tuple of (Cell, str)
    missing : int
        Cells that have no result yet.
    characteristics : mapping {data set: Characteristics}
        Of the data sets of which the paper prints some.
    spent : mapping {key of a cell: seconds}
        Of learning and predicting; studies that share cells have the same keys.
    """

    plan: Plan
    rows: tuple[Row, ...]
    graphs: tuple[tuple[Cell, dict[str, Any]], ...] = ()
    failures: tuple[tuple[Cell, str], ...] = ()
    missing: int = 0
    characteristics: Mapping[str, Characteristics] = field(default_factory=dict)
    spent: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def read(cls, plan: Plan, store: Store) -> Results:
        """Collect what a store holds of a plan."""
        cells = expand(plan)
        known = store.finished()
        return cls(
            plan,
            tuple(store.rows(cells)),
            tuple(store.graphs(cells)),
            tuple(store.failures(cells)),
            sum(cell.key not in known for cell in cells),
            spent=store.seconds(cells),
        )

    @property
    def datasets(self) -> list[str]:
        """Names of the data sets, in the plan's order."""
        return [data.name for data in self.plan.datasets]

    @property
    def methods(self) -> list[str]:
        """Names of the methods, in the plan's order."""
        return [method.name for method in self.plan.methods]

    @cached_property
    def _by_split(self) -> dict[tuple[str, str, str], dict[int, float]]:
        found: dict[tuple[str, str, str], dict[int, float]] = defaultdict(dict)
        for row in self.rows:
            if np.isfinite(row.value):
                found[row.measure, row.dataset, row.method][row.split] = row.value
        return found

    @cached_property
    def _published(self) -> dict[tuple[str, str, str], Figure]:
        return {(f.measure, f.dataset, f.method): f for f in self.plan.figures}

    def values(self, measure: str, dataset: str, method: str) -> Array:
        """Return one value for each split that has one, in order of the splits."""
        found = self._by_split.get((measure, dataset, method), {})
        return np.array([found[split] for split in sorted(found)])

    def table(self, measure: str) -> dict[tuple[str, str], Entry]:
        """Return {(data set, method): Entry} for one measure, where measured or published."""
        better = 1.0 if MEASURES[measure].higher_is_better else -1.0
        entries = {}
        for data in self.plan.datasets:
            dataset = data.name
            measured = {m: self.values(measure, dataset, m) for m in self.methods}
            means = {m: float(v.mean()) for m, v in measured.items() if len(v)}
            top = max((better * mean for mean in means.values()), default=np.nan)
            for method, values in measured.items():
                figure = self._published.get((measure, dataset, method))
                if method not in means and figure is None:
                    continue
                mean, error = means.get(method, np.nan), _standard_error(values)
                gap = None
                if figure is not None and error > 0.0:
                    gap = better * (mean - figure.value) / _mean_error(error, figure, data.protocol)
                best = method in means and better * mean >= top - _SAME
                published = None if figure is None else figure.value
                entry = Entry(mean, error, len(values), published, gap, best)
                entries[dataset, method] = entry
        return entries

    def compare(
        self, measure: str, dataset: str, first: str, second: str
    ) -> tuple[Paired, Paired] | None:
        """Both t-tests of two methods, positive where the first is better; None without pairs."""
        one = self._by_split.get((measure, dataset, first), {})
        two = self._by_split.get((measure, dataset, second), {})
        common = sorted(set(one) & set(two))
        if len(common) < 2:
            return None
        better = 1.0 if MEASURES[measure].higher_is_better else -1.0
        left = better * np.array([one[split] for split in common])
        right = better * np.array([two[split] for split in common])
        return paired_t(left, right), corrected_t(left, right, self._test_share[dataset])

    @cached_property
    def _test_share(self) -> dict[str, float]:
        return {row.dataset: row.n_test / row.n_train for row in self.rows if row.n_train}

    def comparison(self, measure: str, dataset: str, method: str) -> Comparison | None:
        """Compare the reference with a method; None where either was not measured."""
        if method == self.plan.reference:
            return None
        tests = self.compare(measure, dataset, self.plan.reference, method)
        if tests is None:
            return None
        mark = ""
        if self._tells(tests[0], measure, dataset, self.plan.reference, method):
            mark = "+" if tests[0].difference > 0.0 else "-"
        return Comparison(*tests, mark)

    def _tells(self, paired: Paired, measure: str, dataset: str, *methods: str) -> bool:
        """Whether a difference is significant, over as many splits as it takes to tell."""
        splits = (set(self._by_split.get((measure, dataset, m), ())) for m in methods)
        return paired.p_value < LEVEL and len(set.intersection(*splits)) >= FEWEST_SPLITS

    @property
    def too_few_splits(self) -> bool:
        """Whether nothing was measured on enough splits to call a difference significant."""
        return max(map(len, self._by_split.values()), default=0) < FEWEST_SPLITS

    def win_tie_loss(self, measure: str, method: str) -> WinTieLoss:
        """Count the reference's significant wins and losses against a method over data sets."""
        found = [self.comparison(measure, dataset, method) for dataset in self.datasets]
        marks = [comparison.mark for comparison in found if comparison is not None]
        return WinTieLoss(marks.count("+"), marks.count(""), marks.count("-"))

    def ranking(self, measure: str) -> Ranking | None:
        """Rank methods over data sets; None where fewer than two of either have no gaps.

        Methods measured on fewer than half of the data sets are left out, then data sets on which
        one of the rest is missing. A method counts as measured where it has all the splits that
        any method has there: means over different splits cannot be ranked.
        """
        entries = self.table(measure)
        most = {
            d: max((e.splits for (own, _), e in entries.items() if own == d), default=0)
            for d in self.datasets
        }
        means = {
            (d, m): entry.mean
            for (d, m), entry in entries.items()
            if entry.splits and entry.splits == most[d]
        }
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

    def seconds(self) -> dict[tuple[str, str], float]:
        """Return {(data set, method): median seconds of learning a split}.

        The median, since the first split in a process also loads compiled code.
        """
        return _median_by_cell(self.rows, lambda row: row.learn_seconds)

    def memory(self) -> dict[tuple[str, str], float]:
        """Return {(data set, method): median peak memory of a split in MB}."""
        return _median_by_cell(self.rows, lambda row: row.memory_mb)

    def verdicts(self, claim: Claim) -> list[Verdict]:
        """Check a claim everywhere it is made."""
        if claim.faster is not None:
            return self._speed_verdicts(claim)
        if claim.above is not None:
            return self._level_verdicts(claim, claim.above)
        found = []
        for measure in claim.measures:
            for dataset in claim.datasets:
                for over in claim.over:
                    tests = self.compare(measure, dataset, claim.method, over)
                    if tests is None:
                        found.append(Verdict(dataset, over, measure, "not measured", *[np.nan] * 2))
                        continue
                    paired = tests[0]
                    holds = "better" if paired.difference > _SAME else "no"
                    significant = self._tells(paired, measure, dataset, claim.method, over)
                    if paired.difference > _SAME and significant:
                        holds = "yes"
                    found.append(
                        Verdict(dataset, over, measure, holds, paired.difference, paired.p_value)
                    )
        return found

    def _level_verdicts(self, claim: Claim, level: float) -> list[Verdict]:
        found = []
        for measure in claim.measures:
            better = MEASURES[measure].sign
            for dataset in claim.datasets:
                values = self.values(measure, dataset, claim.method)
                if not len(values):
                    found.append(Verdict(dataset, "", measure, "not measured", *[np.nan] * 2))
                    continue
                ahead = better * (float(values.mean()) - level)
                error = _standard_error(values) if len(values) >= FEWEST_SPLITS else np.inf
                holds = "yes" if ahead > LIMIT * error else "better" if ahead > 0 else "no"
                found.append(Verdict(dataset, "", measure, holds, ahead, np.nan))
        return found

    def _speed_verdicts(self, claim: Claim) -> list[Verdict]:
        seconds = self.seconds()
        found = []
        for dataset in claim.datasets:
            for over in claim.over:
                own, other = (seconds.get((dataset, name)) for name in (claim.method, over))
                if own is None or other is None:
                    found.append(Verdict(dataset, over, SPEED, "not measured", *[np.nan] * 2))
                    continue
                ratio = other / max(own, 1e-9)
                found.append(Verdict(dataset, over, SPEED, "not comparable", ratio, np.nan))
        return found

    @cached_property
    def compared(self) -> tuple[tuple[str, str, str, Entry], ...]:
        """All figures that have a gap to print: (measure, data set, method, entry)."""
        return tuple(
            (measure, dataset, method, entry)
            for measure in self.plan.measures
            for (dataset, method), entry in self.table(measure).items()
            if entry.gap is not None and np.isfinite(entry.gap)
        )

    def below_print(self, limit: float = LIMIT) -> list[tuple[str, str, str, Entry]]:
        """Return what of `compared` is worse than print by more than `limit` standard errors."""
        return [found for found in self.compared if (found[3].gap or 0.0) < -limit]

    def above_print(self, limit: float = LIMIT) -> list[tuple[str, str, str, Entry]]:
        """Return what of `compared` is better than print by more than `limit` standard errors."""
        return [found for found in self.compared if (found[3].gap or 0.0) > limit]


def _standard_error(values: Sequence[float] | Array) -> float:
    if len(values) < 2:
        return float("nan")
    return float(np.std(values, ddof=1) / np.sqrt(len(values)))


def _mean_error(error: float, figure: Figure, protocol: Protocol) -> float:
    """Root mean square of our standard error and print's; ours where print gives none."""
    if figure.deviation is None:
        return error
    return math.hypot(error, figure.deviation / math.sqrt(protocol.splits)) / math.sqrt(2.0)


def _median_by_cell(rows: Iterable[Row], value: Any) -> dict[tuple[str, str], float]:
    found: dict[tuple[str, str], dict[int, float]] = defaultdict(dict)
    for row in rows:
        if row.status == "done":
            found[row.dataset, row.method][row.split] = value(row)
    return {key: float(np.median(list(splits.values()))) for key, splits in found.items()}
