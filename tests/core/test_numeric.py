"""Sums in logarithms and by bin, and eigenvectors."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp
from threadpoolctl import threadpool_info

from colabel.core import numeric
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


def test_eigenvectors_are_found_on_one_thread(rng, monkeypatch):
    seen = []
    real = numeric.sla.eigh

    def recorded(matrix):
        seen.extend(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas")
        return real(matrix)

    monkeypatch.setattr(numeric.sla, "eigh", recorded)
    matrix = rng.normal(size=(6, 6))
    values, vectors = numeric.eigenvectors(matrix @ matrix.T)
    assert set(seen) == {1}
    np.testing.assert_allclose(vectors * values @ vectors.T, matrix @ matrix.T, atol=1e-12)
