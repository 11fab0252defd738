"""Weights of mixtures and exponents of pools, against their conditions of optimality."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.optimize import minimize

from colabel.joint.vectors.vector_list import row_log_sum
from colabel.learn.pool import mixture_weights, pool_coefficients


@pytest.mark.parametrize("seed", range(4))
def test_no_other_weights_are_more_likely(seed):
    rng = np.random.default_rng(seed)
    log_prob = np.log(rng.dirichlet(np.ones(5), size=60)[:, :4])
    share = rng.uniform(0, 2, 60)
    found = mixture_weights(log_prob, share)
    assert found.sum() == pytest.approx(1)

    def likelihood(weights):
        return share @ np.log(np.exp(log_prob) @ weights)

    others = [*rng.dirichlet(np.ones(4), size=200), *np.eye(4)]
    assert all(likelihood(found) >= likelihood(other) - 1e-4 * share.sum() for other in others)


def test_a_useless_part_has_no_weight():
    rng = np.random.default_rng(0)
    good = np.log(rng.uniform(0.3, 0.9, 200))
    assert mixture_weights(np.stack([good, good - 3], axis=1)).tolist() == [1.0, 0.0]


def test_impossible_rows_say_nothing():
    log_prob = np.log([[0.5, 0.1], [0.1, 0.5]])
    with_impossible = np.vstack([log_prob, [-np.inf, -np.inf]])
    np.testing.assert_array_equal(mixture_weights(with_impossible), mixture_weights(log_prob))
    only = np.full((2, 3), -np.inf)
    np.testing.assert_allclose(mixture_weights(only), 1 / 3)


def test_impossible_under_one_part_is_not_impossible():
    weights = mixture_weights(np.array([[-np.inf, -5.0], [-0.1, -9.0], [-0.1, -9.0]]))
    assert 0 < weights[1] < 0.5


def lists(seed, n=40):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 6, n)
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    features = rng.normal(size=(indptr[-1], 3))
    return rng, indptr, features, indptr[:-1] + rng.integers(0, lengths)


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_exponents_maximise_the_penalised_likelihood(seed, several):
    """Of a true vector in each list, or several that may be."""
    rng, indptr, features, truth = lists(seed)
    weight, prior = rng.uniform(0.1, 2, len(truth)), np.array([0.5, 0.2, 0.0])
    if several:
        others = np.flatnonzero(rng.random(len(features)) < 0.3)
        truth = np.union1d(truth, others)

    def slow(coef):
        total = 0.5 * 0.7 * ((coef - prior) ** 2).sum()
        for r, (start, end) in enumerate(itertools.pairwise(indptr)):
            scores = np.exp(features[start:end] @ coef)
            true = [t - start for t in truth if start <= t < end]
            total -= weight[r] * np.log(scores[true].sum() / scores.sum())
        return total

    found = pool_coefficients(features, indptr, truth, prior, weight, penalty=0.7)
    np.testing.assert_allclose(found, minimize(slow, prior).x, atol=1e-3)


def test_without_evidence_the_prior_stays():
    prior = np.array([0.3, 0.7])
    one_each = np.arange(5)
    found = pool_coefficients(np.ones((4, 2)), one_each, one_each[:-1], prior)
    np.testing.assert_allclose(found, prior)


def test_log_sums_of_lists():
    found = row_log_sum(np.array([0.0, 0.0, -1000.0, -1001.0]), np.array([0, 2, 4]))
    np.testing.assert_allclose(found, [np.log(2), -1000 + np.log1p(np.exp(-1))])
