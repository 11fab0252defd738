"""Tests of significance against SciPy, worked cases and the literature."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from studies.statistics import corrected_t, holm, paired_t, rank_methods


def test_paired_t_is_scipys(rng):
    first, second = rng.normal(size=(2, 10))
    expected = stats.ttest_rel(first, second)
    found = paired_t(first, second)
    assert found.p_value == pytest.approx(expected.pvalue)
    assert found.difference == pytest.approx((first - second).mean())
    assert found.effect == pytest.approx((first - second).mean() / (first - second).std(ddof=1))


def test_the_correction_widens_the_variance(rng):
    first = rng.normal(size=10)
    second = first - 0.3 + 0.2 * rng.normal(size=10)
    plain, corrected = paired_t(first, second), corrected_t(first, second, 1 / 9)
    difference = first - second
    t = difference.mean() / np.sqrt((1 / 10 + 1 / 9) * difference.var(ddof=1))
    assert corrected.p_value == pytest.approx(2 * stats.t.sf(abs(t), 9))
    assert corrected.p_value > plain.p_value


def test_no_spread():
    assert paired_t([1.0, 1.0], [1.0, 1.0]).p_value == 1.0
    assert paired_t([2.0, 2.0], [1.0, 1.0]).p_value == 0.0
    assert paired_t([2.0], [1.0]).p_value == 1.0  # one split tells nothing


def test_holm_by_hand():
    # Sorted .01, .02, .03, .4 times 4, 3, 2, 1, never falling.
    assert holm([0.4, 0.01, 0.03, 0.02]) == pytest.approx([0.4, 0.04, 0.06, 0.06])
    assert holm([0.9, 0.8]) == pytest.approx([1.0, 1.0])


def test_nemenyi_critical_value_of_the_literature():
    # Demsar (2006), table 5: q at 0.05 is 2.343 for 3 classifiers, 2.850 for 6.
    for k, q in ((3, 2.343), (6, 2.850)):
        scores = {str(i): [0.1 * i + 0.01 * j for j in range(14)] for i in range(k)}
        ranking = rank_methods(scores, higher_is_better=True)
        assert ranking.critical_difference == pytest.approx(q * np.sqrt(k * (k + 1) / 84), abs=2e-3)


def test_ranks_ties_and_groups():
    scores = {"low": [1, 1, 1, 1], "top": [9, 9, 9, 9], "tie": [1, 1, 1, 1]}
    ranking = rank_methods(scores, higher_is_better=True)
    assert ranking.methods[0] == "top"
    assert ranking.ranks.tolist() == [1.0, 2.5, 2.5]
    assert ranking.groups == ((0, 2),)  # critical difference 1.66 at four data sets
    many = {name: values * 10 for name, values in scores.items()}
    assert rank_methods(many, higher_is_better=True).groups == ((1, 2),)
    assert rank_methods(many, higher_is_better=False).methods[-1] == "top"
    assert ranking.wilcoxon_p[1, 2] == 1.0


def test_friedman_is_scipys(rng):
    table = rng.normal(size=(4, 7))
    ranking = rank_methods(dict(zip("abcd", table, strict=True)), higher_is_better=True)
    assert ranking.friedman_p == pytest.approx(stats.friedmanchisquare(*table).pvalue)


def test_too_little_to_rank():
    with pytest.raises(ValueError, match="at least two methods and two data sets"):
        rank_methods({"a": [1.0, 2.0]}, higher_is_better=True)
    with pytest.raises(ValueError, match="without gaps"):
        rank_methods({"a": [1.0, np.nan], "b": [1.0, 2.0]}, higher_is_better=True)
