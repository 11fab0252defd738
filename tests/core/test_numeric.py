"""Sums in logarithms and by bin."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp

from colabel.core.numeric import bin_sums, log_sum_exp

pytestmark = pytest.mark.filterwarnings("error")


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_log_sum_exp_is_scipys(rng, axis):
    values = rng.normal(scale=300.0, size=(4, 5))
    values[0, 1] = -np.inf
    np.testing.assert_allclose(log_sum_exp(values, axis), logsumexp(values, axis=axis))


def test_nothing_possible_is_impossible_without_a_warning():
    assert np.isneginf(log_sum_exp(np.full((2, 3), -np.inf))).all()


def test_bins_without_values_are_zero():
    np.testing.assert_array_equal(bin_sums(np.empty(0, dtype=np.intp), np.empty(0), 2), [0.0, 0.0])
