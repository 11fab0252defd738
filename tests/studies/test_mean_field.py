"""Mean field decoding against sums over all label vectors."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from studies.methods.output_coding import mean_field

N_LABELS = 4
VECTORS = np.array(list(itertools.product((0, 1), repeat=N_LABELS)))


@pytest.fixture
def evidence(rng):
    """A precision matrix, and regressions and log-odds of five rows."""
    root = rng.normal(size=(N_LABELS, N_LABELS))
    return root @ root.T, rng.uniform(0, 1, (5, N_LABELS)), rng.normal(size=(5, N_LABELS))


def log_prob(precision, fitted, log_odds):
    """log P(y) of all vectors for one row, normalised."""
    scores = [-0.5 * (y - fitted) @ precision @ (y - fitted) + log_odds @ y for y in VECTORS]
    return np.array(scores) - np.log(np.sum(np.exp(scores)))


def independent(prob):
    return np.prod(np.where(VECTORS == 1, prob, 1.0 - prob), axis=1)


def divergence(prob, target):
    own = independent(prob)
    return float(own @ (np.log(own) - target))


def test_each_label_is_the_best_given_the_others(evidence):
    precision, fitted, log_odds = evidence
    found = mean_field(precision, fitted, log_odds)
    for row in range(5):
        target = log_prob(precision, fitted[row], log_odds[row])
        least = divergence(found[row], target)
        for j, step in itertools.product(range(N_LABELS), (-1e-3, 1e-3)):
            other = found[row].copy()
            other[j] = np.clip(other[j] + step, 1e-9, 1.0 - 1e-9)
            assert divergence(other, target) > least
        # log-odds of label j: expectation of log P over the others
        for j in range(N_LABELS):
            rest = independent(np.where(np.arange(N_LABELS) == j, 0.5, found[row]))
            on = VECTORS[:, j] == 1
            odds = 2 * (rest[on] @ target[on] - rest[~on] @ target[~on])
            assert np.log(found[row, j] / (1 - found[row, j])) == pytest.approx(odds, abs=1e-4)


def test_no_sweep_raises_the_divergence(evidence):
    precision, fitted, log_odds = evidence
    for row in range(5):
        target = log_prob(precision, fitted[row], log_odds[row])
        one = slice(row, row + 1)
        path = [mean_field(precision, fitted[one], log_odds[one], k)[0] for k in range(6)]
        values = [divergence(prob, target) for prob in path]
        assert (np.diff(values) <= 1e-12).all()
        np.testing.assert_allclose(path[0], 1 / (1 + np.exp(-log_odds[row])))


def test_without_a_code_the_classifiers_decide(evidence):
    _, fitted, log_odds = evidence
    found = mean_field(np.zeros((N_LABELS, N_LABELS)), fitted, log_odds)
    np.testing.assert_allclose(found, 1 / (1 + np.exp(-log_odds)))
