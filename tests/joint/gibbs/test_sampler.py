"""The Gibbs sampler: streams, the compiled path against the reference, Algorithm 1 as printed."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import expit

from colabel.joint import LinearConditionals
from colabel.joint.gibbs import kernels
from colabel.joint.gibbs import sampler as gibbs
from colabel.joint.gibbs.kernels import chain_keys, random_labels, random_orders, uniforms
from colabel.joint.gibbs.sampler import GibbsOptions, run
from colabel.labels import MISSING
from tests.joint.families import Opaque, random_network
from tests.joint.oracle import random_evidence

CASES = [(2, 2, 2, 2), (3, 2, 4), (2,), (1, 2, 3), (2,) * 9]


def keys_of(n_rows, n_chains=1, seed=0):
    return chain_keys(np.arange(n_rows, dtype=np.uint64), n_chains, seed)


def unknown(n_rows, cardinalities):
    return np.full((n_rows, len(cardinalities)), MISSING, dtype=np.int32)


# ------------------------------------------------------------------------------------- streams


def test_streams_are_uniform_and_unrelated():
    keys = keys_of(400, 5, seed=3)
    drawn = np.stack([uniforms(keys, t) for t in range(100)]).reshape(100, -1)
    assert drawn.min() > 0
    assert drawn.max() < 1
    assert abs(drawn.mean() - 0.5) < 5 / math.sqrt(12 * drawn.size)
    counts = np.histogram(drawn, bins=64, range=(0, 1))[0]
    expected = drawn.size / 64
    assert ((counts - expected) ** 2 / expected).sum() < 63 + 5 * math.sqrt(2 * 63)
    bound = 5 / math.sqrt(drawn.shape[1] * 99)
    assert abs(np.corrcoef(drawn[:-1].ravel(), drawn[1:].ravel())[0, 1]) < bound
    assert abs(np.corrcoef(drawn[:, :-1].ravel(), drawn[:, 1:].ravel())[0, 1]) < bound


def test_compiled_and_plain_streams_agree():
    keys = keys_of(7, seed=1)[0]
    for position in (0, 1, 17, 10**6):
        expected = [kernels.uniform_at(key, position) for key in keys]
        np.testing.assert_array_equal(uniforms(keys, position), expected)


def test_thresholds_and_logistics_written_out():
    key = keys_of(1)[0, 0]
    levels = np.empty(5000)
    kernels.thresholds(key, 3, levels)
    u = np.array([kernels.uniform_at(key, 3 + t) for t in range(5000)])
    np.testing.assert_allclose(levels, np.log(u) - np.log1p(-u), rtol=1e-14, atol=1e-15)
    scores = np.concatenate([np.linspace(-800, 800, 4001), np.linspace(-3, 3, 1000)])
    prob, decay = np.empty_like(scores), np.empty_like(scores)
    kernels.logistics(scores, prob, decay)
    inner = abs(scores) < 700
    np.testing.assert_allclose(decay[inner], np.exp(-abs(scores[inner])), rtol=1e-15 * 4)
    np.testing.assert_allclose(prob[inner], expit(scores[inner]), rtol=1e-15 * 8)


def test_seed_chain_and_row_all_change_the_stream():
    keys = np.concatenate([keys_of(50, 4, seed).ravel() for seed in range(5)])
    assert len(np.unique(keys)) == keys.size


def test_orders_and_starts_are_uniform():
    keys = keys_of(6000)[0]
    orders = random_orders(keys, 3)
    counts = np.unique(orders, axis=0, return_counts=True)[1]
    assert len(counts) == 6
    assert (abs(counts - 1000) < 5 * math.sqrt(1000)).all()
    starts = random_labels(keys, (2, 3))
    assert (abs(np.bincount(starts[:, 1]) - 2000) < 5 * math.sqrt(2000)).all()
    assert starts[:, 0].max() == 1


# -------------------------------------------------------------------- compiled and reference


def both_runs(model, plan=None, evidence=None, **options):
    """What the compiled path and the reference make of the same streams: the same."""
    plan = plan or GibbsOptions(3, 25, 8, 2)
    keys = keys_of(model.n_rows, plan.n_chains)
    evidence = unknown(model.n_rows, model.cardinalities) if evidence is None else evidence
    found, expected = (
        run(own, plan, keys, evidence, keep_samples=True, **options)
        for own in (model, Opaque(model))
    )
    np.testing.assert_array_equal(found.samples, expected.samples)
    for name in ("best", "plain", "smooth", "log_prob"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), atol=1e-10)
    return found


@pytest.mark.parametrize("cardinalities", CASES)
@pytest.mark.parametrize("n_chains", [1, 3])
@pytest.mark.parametrize("known", [0.0, 0.4])
def test_compiled_path_equals_the_reference_sample_for_sample(cardinalities, n_chains, known):
    rng = np.random.default_rng(len(cardinalities) + 10 * n_chains)
    model = random_network(rng, 6, cardinalities, symmetric=False)
    evidence = random_evidence(rng, 6, cardinalities, known)
    queries = np.stack([random_evidence(rng, 6, cardinalities, 0.7) for _ in range(3)], axis=1)
    plan = GibbsOptions(burn_in=3, n_sweeps=25, n_best=8, n_chains=n_chains)
    samples = both_runs(model, plan, evidence, queries=queries).samples
    told = np.broadcast_to(evidence[:, None, None], samples.shape)
    assert ((samples == told) | (told == MISSING)).all()  # known labels stay
    both_runs(model, plan, evidence, order=rng.permutation(len(cardinalities)))


@pytest.mark.parametrize("cardinalities", [(2,) * 12, (3, 2, 4, 2, 2)])
def test_few_edges_are_walked_one_by_one_and_give_the_same_samples(cardinalities):
    rng = np.random.default_rng(3)
    dense = random_network(rng, 6, cardinalities, symmetric=False)
    weights = np.where(rng.random(dense.weights.shape) < 0.15, 3.0 * dense.weights, 0.0)
    model = LinearConditionals(dense.base, weights, cardinalities)
    net = model.compiled.net
    for column, row in enumerate(model.weights):
        targets = net.targets[net.start[column] : net.start[column + 1]]
        np.testing.assert_array_equal(targets, np.flatnonzero(row))  # and nothing else is touched
    assert not dense.compiled.net.targets.size  # a row of weights at a time
    both_runs(model)
    both_runs(LinearConditionals(dense.base, 0.0 * weights, cardinalities))  # none at all


def test_floor_for_values_never_seen():
    model = random_network(np.random.default_rng(0), 4, (3, 2), symmetric=False)
    base = model.base.copy()
    base[:, 1] = -1e6
    model = LinearConditionals(base, model.weights, (3, 2), np.array([0.0, 0.2, 0.0, 0.0]))
    prob = np.exp(model.log_prob(np.zeros((1, 4, 2), dtype=np.int32), 0))
    np.testing.assert_allclose(prob[..., 1], 0.2)
    np.testing.assert_allclose(prob.sum(axis=2), 1.0)
    np.testing.assert_allclose(both_runs(model, GibbsOptions(2, 200, 5)).smooth[:, 1], 0.2)


def test_neither_threads_nor_other_rows_nor_parts_change_the_samples():
    model = random_network(np.random.default_rng(0), 31, (2, 2, 3, 2), symmetric=False)
    plan, evidence, keys = GibbsOptions(5, 40, 10, 2), unknown(31, (2,) * 4), keys_of(31, 2)
    for own in (model, Opaque(model)):
        one = run(own, plan, keys, evidence, keep_samples=True, n_jobs=1)
        for changed in ({"n_jobs": 2}, {"n_jobs": 3}, {"numbers_at_once": 2 * 40 * 4 * 2}):
            other = run(own, plan, keys, evidence, keep_samples=True, **changed)
            for first, second in zip(one, other, strict=True):
                np.testing.assert_allclose(first, second, rtol=1e-12)
    some = np.array([17, 3, 4])
    part = run(model.rows(some), plan, keys[:, some], evidence[some], keep_samples=True)
    whole = run(model, plan, keys, evidence, keep_samples=True)
    np.testing.assert_array_equal(part.samples, whole.samples[some])
    np.testing.assert_array_equal(part.best, whole.best[some])


def test_a_flip_costs_one_row_of_weights_and_no_flip_costs_none():
    cardinalities = (2, 2, 3, 2)
    model = random_network(np.random.default_rng(0), 1, cardinalities, symmetric=False)
    (_, base, weights, net), key = model.compiled, keys_of(1)[0, 0]
    labels, scores, scratch = np.zeros(4, dtype=np.int32), np.empty(6), np.empty((2, 6))
    kernels.start_scores(base[0], weights[0], labels, net, scores)
    n_flips = 0
    for number in range(30):
        before, before_scores = labels.copy(), scores.copy()
        order, free = np.arange(4), np.full(4, -1, np.int32)
        kernels.sweep(labels, scores, weights[0], order, free, key, number, net, scratch)
        n_flips += int((before != labels).sum())
        if (before == labels).all():
            np.testing.assert_array_equal(scores, before_scores)
    assert n_flips > 10
    fresh = np.empty(6)
    kernels.start_scores(base[0], weights[0], labels, net, fresh)
    np.testing.assert_allclose(scores, fresh, atol=1e-10)


# ---------------------------------------------------------------------- Algorithm 1 as printed


def algorithm_1(conditional, labels, order, draws, t_b, t_c, n):
    """Guo & Gu, Algorithm 1, transcribed line by line; labels are 0/1 instead of -1/+1.

    conditional(i, y): p(y_i = 1 | x, y_-i). draws: numbers in (0, 1), in the order of use.
    """
    k = len(labels)
    y = list(labels)
    ell, S, B = 0, [], []
    for iteration in range(1, t_b + t_c + 1):
        for i in range(k):
            q = conditional(order[i], y)
            u = next(draws)
            if u < q:
                y[order[i]] = 1
            else:
                y[order[i]] = 0
        if iteration > t_b:
            s = 1.0
            for j in range(k):
                p = conditional(j, y)
                s *= p if y[j] == 1 else 1 - p
            if ell < n:
                ell = ell + 1
                S.append(s)
                B.append(list(y))
            else:
                j = S.index(min(S))
                v = S[j]
                if v < s:
                    S[j] = s
                    B[j] = list(y)
    return np.array(B), np.array(S)


@pytest.mark.parametrize("n_best", [1, 4, 10, 60, 100])
@pytest.mark.parametrize("compiled", [True, False])
def test_algorithm_1_against_its_transcription(n_best, compiled):
    n_rows, d, t_b, t_c = 6, 4, 7, 60
    model = random_network(np.random.default_rng(n_best), n_rows, (2,) * d, symmetric=False)
    keys, evidence = keys_of(n_rows, seed=n_best), unknown(n_rows, (2,) * d)
    plan = GibbsOptions(t_b, t_c, n_best)
    order = None if compiled else np.array([3, 1, 0, 2])
    found = run(model if compiled else Opaque(model), plan, keys, evidence, order=order)
    labels, orders = gibbs.start(keys, model.cardinalities, evidence, order)
    for row in range(n_rows):

        def conditional(i, y, row=row):
            score = model.base[row, i] + sum(model.weights[j, i] * y[j] for j in range(d))
            return 1 / (1 + math.exp(-score))

        draws = (float(uniforms(keys[0, row : row + 1], t)[0]) for t in range(10**6))
        B, S = algorithm_1(conditional, labels[0, row], orders[0, row], draws, t_b, t_c, n_best)
        assert len(B) == len(S) == min(n_best, t_c)
        np.testing.assert_allclose(found.best[row], B.mean(axis=0), atol=1e-12)


def test_best_of_several_chains_are_the_best_of_all():
    model = random_network(np.random.default_rng(1), 3, (2,) * 5, symmetric=False)
    keys, evidence = keys_of(3, 3), unknown(3, (2,) * 5)
    found = run(model, GibbsOptions(0, 20, 12, 3), keys, evidence, keep_samples=True)
    for row in range(3):
        samples = found.samples[row].reshape(-1, 5).astype(np.int32)
        alone = model.rows(np.array([row]))
        score = gibbs.evaluate(samples[:, None], alone, evidence[:1])[0][:, 0]
        best = np.argsort(-score.round(9), kind="stable")[:12]
        np.testing.assert_allclose(found.best[row], samples[best].mean(axis=0), atol=1e-12)
        np.testing.assert_allclose(found.plain[row], samples.mean(axis=0), atol=1e-12)
