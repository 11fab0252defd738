"""R-hat and effective sample size on series whose true values are known."""

from __future__ import annotations

import numpy as np
import pytest

from colabel.joint.gibbs.diagnostics import diagnose, effective_sample_size, split_r_hat


def autoregressive(rng, phi, n_chains, length, n_series):
    """AR(1) series of variance one: their effective size is length (1 - phi) / (1 + phi)."""
    noise = rng.normal(size=(n_chains, length, n_series))
    series = np.empty_like(noise)
    series[:, 0] = noise[:, 0]
    for t in range(1, length):
        series[:, t] = phi * series[:, t - 1] + np.sqrt(1 - phi**2) * noise[:, t]
    return series


@pytest.mark.parametrize("phi", [0.0, 0.3, 0.6, 0.9])
@pytest.mark.parametrize("n_chains", [1, 4])
def test_effective_size_of_autoregressive_series(phi, n_chains):
    length = 4000
    series = autoregressive(np.random.default_rng(0), phi, n_chains, length, 40)
    expected = n_chains * length * (1 - phi) / (1 + phi)
    found = effective_sample_size(series)
    assert abs(found.mean() / expected - 1) < 0.08
    assert (abs(found / expected - 1) < 0.6).all()
    assert (abs(split_r_hat(series) - 1) < 0.05).all()


def test_antithetic_series_are_worth_more_than_their_length():
    series = autoregressive(np.random.default_rng(0), -0.6, 2, 2000, 10)
    found = effective_sample_size(series)
    assert (found > 1.5 * 4000).all()
    assert (found <= 4000 * np.log10(4000) + 1e-6).all()


def test_r_hat_by_its_formula_and_when_chains_disagree():
    rng = np.random.default_rng(0)
    series = rng.normal(size=(2, 100)) + np.array([[0.0], [3.0]])
    halves = [series[0, :50], series[0, 50:], series[1, :50], series[1, 50:]]
    within = np.mean([half.var(ddof=1) for half in halves])
    between = np.var([half.mean() for half in halves], ddof=1)
    expected = np.sqrt((49 / 50 * within + between) / within)
    np.testing.assert_allclose(split_r_hat(series[..., None]), expected)
    assert expected > 1.5


def test_a_trend_shows_in_a_single_chain():
    trend = np.linspace(0, 5, 400) + np.random.default_rng(0).normal(size=400)
    assert split_r_hat(trend[None, :, None])[0] > 1.3


def test_frozen_labels():
    same = np.zeros((1, 2, 50, 1), dtype=int)
    apart = same.copy()
    apart[:, 1] = 1
    calm, torn = (diagnose(("a",), samples, (2,)) for samples in (same, apart))
    assert calm.r_hat[0, 0] == 1.0
    assert calm.ess[0, 0] == 100
    assert np.isinf(torn.r_hat[0, 0])
    assert torn.ess[0, 0] < 5
    assert calm.flips[0, 0] == torn.flips[0, 0] == 0


def test_flips_shapes_and_text():
    samples = np.zeros((3, 2, 40, 2), dtype=int)
    samples[:, :, ::2, 0] = 1  # changes at every sweep
    samples[..., 1] = np.arange(40) // 14  # three values, two changes
    found = diagnose(("busy", "slow"), samples, (2, 3))
    np.testing.assert_allclose(found.flips, [[1.0, 2 / 39]] * 3)
    assert found.r_hat.shape == found.ess.shape == (3, 2)
    assert found.r_hat[0, 1] > 1.05
    text = found.to_text()
    assert text == repr(found)
    assert text.startswith("3 rows, 2 labels, 80 samples per row. R-hat above 1.05: ")
    assert [line.split()[0] for line in text.splitlines()[2:]] == ["busy", "slow"]


def test_short_runs_have_answers():
    found = diagnose(("a",), np.zeros((2, 1, 1, 1), dtype=int), (2,))
    assert found.r_hat.tolist() == [[1.0], [1.0]]
    assert found.ess.tolist() == [[1.0], [1.0]]
