r"""Comparing methods: over the splits of one data set, and over data sets.

Over the splits of one data set, the papers of the field use the paired t-test. Training sets of
different splits overlap, so it finds differences too easily; the corrected resampled t-test
(Nadeau and Bengio, 2003) widens the variance. Over data sets, ranks are compared: Friedman's test
with Nemenyi's critical difference, and Wilcoxon's signed ranks with Holm's correction (Demsar,
2006; Benavoli, Corani and Mangili, 2016).
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from studies.methods.arrays import Array


class Paired(NamedTuple):
    """A comparison of two methods over splits.

    Attributes
    ----------
    difference : float
        Mean of first minus second.
    p_value : float
        Two-sided.
    effect : float
        Cohen's d of the differences: their mean in standard deviations.
    """

    difference: float
    p_value: float
    effect: float


def paired_t(first: ArrayLike, second: ArrayLike) -> Paired:
    """Paired t-test.

    Examples
    --------
    >>> result = paired_t([0.5, 0.6, 0.7], [0.4, 0.5, 0.5])
    >>> round(result.difference, 3), round(result.p_value, 3)
    (0.133, 0.057)
    """
    return corrected_t(first, second, test_share=0.0)


def corrected_t(first: ArrayLike, second: ArrayLike, test_share: float) -> Paired:
    r"""Corrected resampled t-test.

    The variance of the mean of J differences is taken as
    :math:`(1 / J + n_{test} / n_{train}) \, s^2`.

    Parameters
    ----------
    first, second : (J,)
        One value a split.
    test_share : float
        :math:`n_{test} / n_{train}`; 0 gives the ordinary paired t-test.
    """
    difference = np.asarray(first, dtype=np.float64) - np.asarray(second, dtype=np.float64)
    n, mean = len(difference), float(difference.mean())
    spread = float(difference.std(ddof=1)) if n > 1 else np.nan
    if n < 2 or spread <= 1e-15 * max(1.0, abs(mean)):
        # No spread: the same everywhere, or a difference that nothing contradicts.
        same = n < 2 or abs(mean) < 1e-15
        return Paired(mean, 1.0 if same else 0.0, 0.0 if same else float(np.copysign(np.inf, mean)))
    t = mean / (spread * np.sqrt(1.0 / n + test_share))
    return Paired(mean, float(2.0 * stats.t.sf(abs(t), n - 1)), mean / spread)


class Ranking(NamedTuple):
    """Methods compared over data sets.

    Attributes
    ----------
    methods : tuple of str
        From best to worst.
    ranks : (k,)
        Their average ranks; 1 is best.
    friedman_p : float
        Of the hypothesis that all methods are alike; NaN where there is too little data.
    critical_difference : float
        Nemenyi's: average ranks nearer than this are not told apart.
    groups : tuple of (first, last)
        Maximal runs of methods within the critical difference, as positions.
    wilcoxon_p : (k, k)
        Holm-corrected p-values of pairs; NaN where there is too little data.
    """

    methods: tuple[str, ...]
    ranks: Array
    friedman_p: float
    critical_difference: float
    groups: tuple[tuple[int, int], ...]
    wilcoxon_p: Array


def rank_methods(
    scores: Mapping[str, Sequence[float]], *, higher_is_better: bool, level: float = 0.05
) -> Ranking:
    """Rank methods by one score for each data set.

    Parameters
    ----------
    scores : {method: (N,)}
        The same N data sets for every method, at least two of each.
    higher_is_better : bool
    level : float
        Level of the critical difference.

    Examples
    --------
    >>> scores = {"A": [0.9, 0.8, 0.7], "B": [0.8, 0.7, 0.6], "C": [0.7, 0.75, 0.5]}
    >>> ranking = rank_methods(scores, higher_is_better=True)
    >>> ranking.methods, [round(float(rank), 2) for rank in ranking.ranks]
    (('A', 'B', 'C'), [1.0, 2.33, 2.67])
    """
    names, table = list(scores), np.array(list(scores.values()), dtype=np.float64)
    if table.ndim != 2 or min(table.shape) < 2 or not np.isfinite(table).all():
        raise ValueError(
            f"Ranks need at least two methods and two data sets without gaps; got {table.shape}."
        )
    k, n = table.shape
    ranks = stats.rankdata(-table if higher_is_better else table, axis=0).mean(axis=1)
    order = np.argsort(ranks, kind="stable")
    friedman = float(stats.friedmanchisquare(*table).pvalue) if k > 2 else np.nan
    quantile = float(stats.studentized_range.ppf(1.0 - level, k, np.inf)) / np.sqrt(2.0)
    critical = quantile * np.sqrt(k * (k + 1) / (6.0 * n))
    return Ranking(
        tuple(names[i] for i in order),
        ranks[order],
        friedman,
        float(critical),
        _groups(ranks[order], critical),
        wilcoxon_holm(table[order]),
    )


def _groups(ranks: Array, critical: float) -> tuple[tuple[int, int], ...]:
    """Maximal runs of sorted ranks that lie within the critical difference."""
    ends = [int(np.searchsorted(ranks, rank + critical, side="right")) - 1 for rank in ranks]
    runs = [(start, end) for start, end in enumerate(ends) if end > start]
    return tuple(run for place, run in enumerate(runs) if place == 0 or run[1] > runs[place - 1][1])


def wilcoxon_holm(table: Array) -> Array:
    """Wilcoxon's p-values of all pairs of rows (k, N), corrected for their number by Holm."""
    k = len(table)
    pairs = list(itertools.combinations(range(k), 2))
    raw = np.array([_wilcoxon(table[i], table[j]) for i, j in pairs])
    corrected = np.full((k, k), np.nan)
    for (i, j), p in zip(pairs, holm(raw), strict=True):
        corrected[i, j] = corrected[j, i] = p
    return corrected


def _wilcoxon(first: Array, second: Array) -> float:
    if np.allclose(first, second, rtol=0.0, atol=1e-15):
        return 1.0
    return float(stats.wilcoxon(first, second).pvalue)


def holm(p_values: ArrayLike) -> Array:
    """Correct p-values for their number, step-down.

    Examples
    --------
    >>> holm([0.01, 0.04, 0.03]).tolist()
    [0.03, 0.06, 0.06]
    """
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p)
    steps = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    corrected = np.empty_like(p)
    corrected[order] = np.minimum(steps, 1.0)
    return corrected
