"""DependencyNetwork: agreement with enumeration where a joint exists, and every answer."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from colabel.decide import decide
from colabel.joint import DependencyNetwork, LinearConditionals
from colabel.joint.base import APPROXIMATE
from colabel.joint.gibbs.diagnostics import effective_sample_size
from colabel.labels import MISSING
from tests.joint.gibbs.networks import Opaque, oracle_of, random_network
from tests.joint.oracle import make_space, random_evidence

SPACES = [(2, 2, 2), (2, 3, 2), (4, 3), (2, 2, 2, 2, 2)]


def build(network, **settings):
    return DependencyNetwork(make_space(network.cardinalities), network, **settings)


def all_vectors(cardinalities):
    return np.array(list(itertools.product(*map(range, cardinalities))), dtype=np.int32)


def assert_frequencies(joint, oracle, sigmas=5.0):
    """Sample frequencies of all vectors within Monte-Carlo error of the exact probabilities."""
    samples = joint._run(keep_samples=True).samples
    for row, exact in enumerate(oracle.rows):
        for vector, p in exact.items():
            hit = (samples[row] == vector).all(axis=2).astype(float)
            size = effective_sample_size(hit[..., None])[0] if hit.any() else hit.size
            spread = np.sqrt(p * (1 - p) / min(size, hit.size))
            assert abs(hit.mean() - p) <= sigmas * spread + 2 / hit.size, (row, vector)


@pytest.mark.parametrize("cardinalities", SPACES)
@pytest.mark.parametrize("seed", range(3))
def test_gibbs_frequencies_agree_with_the_exact_joint(cardinalities, seed):
    network = random_network(np.random.default_rng(seed), 3, cardinalities)
    joint = build(network, n_sweeps=8000, n_chains=2, seed=seed)
    assert_frequencies(joint, oracle_of(network))


@pytest.mark.parametrize("seed", range(2))
def test_frequencies_of_conditionals_of_any_kind(seed):
    network = random_network(np.random.default_rng(seed), 30, (2, 3, 2))
    joint = build(Opaque(network), n_sweeps=1500, n_chains=2, seed=seed)
    assert_frequencies(joint, oracle_of(network))


@pytest.mark.parametrize("cardinalities", SPACES)
def test_estimates_agree_with_the_exact_joint(cardinalities):
    network = random_network(np.random.default_rng(4), 3, cardinalities)
    joint, oracle = build(network, n_sweeps=10000), oracle_of(network)
    for table, exact in zip(joint.marginal_tables(), oracle.marginals(), strict=True):
        np.testing.assert_allclose(table, exact, atol=0.02)
    np.testing.assert_allclose(joint.pair_table(0, 1), oracle.pair(0, 1), atol=0.02)
    vectors = all_vectors(cardinalities)
    found = np.exp(joint._log_prob_of(np.tile(vectors, (3, 1, 1))))
    exact = np.array(
        [[float(row[tuple(vector)]) for vector in vectors.tolist()] for row in oracle.rows]
    )
    np.testing.assert_allclose(found, exact, atol=0.02)


def test_evidence_gives_the_conditional_distribution():
    rng = np.random.default_rng(5)
    network = random_network(rng, 4, (2, 3, 2, 2))
    evidence = random_evidence(rng, 4, (2, 3, 2, 2), 0.4)
    joint = build(network, n_sweeps=8000, n_chains=2).given_codes(evidence)
    oracle = oracle_of(network).given(evidence)
    assert_frequencies(joint, oracle)
    for table, exact in zip(joint.marginal_tables(), oracle.marginals(), strict=True):
        np.testing.assert_allclose(table, exact, atol=0.03)
    known = evidence != MISSING
    np.testing.assert_array_equal(joint.mode_codes()[known], evidence[known])
    assert (joint.sample_codes(20, rng)[:, known] == evidence[known]).all()
    wrong = np.where(known, (evidence + 1) % 2, 0).astype(np.int32)
    contradicted = known.any(axis=1)
    np.testing.assert_array_equal(np.isneginf(joint.log_prob_codes(wrong)), contradicted)


@pytest.mark.parametrize("opaque", [False, True])
@pytest.mark.parametrize("with_evidence", [False, True])
def test_estimated_probabilities_are_a_distribution(opaque, with_evidence):
    rng = np.random.default_rng(6)
    network = random_network(rng, 3, (2, 3, 2), symmetric=False)
    joint = build(Opaque(network) if opaque else network, n_sweeps=40, burn_in=5)
    if with_evidence:
        joint = joint.given({"y1": 2})
    vectors = all_vectors((2, 3, 2))
    total = sum(np.exp(joint.log_prob_codes(np.tile(v, (3, 1)))) for v in vectors)
    np.testing.assert_allclose(total, 1.0, atol=1e-10)
    np.testing.assert_allclose(joint.pair_table(0, 2).sum(axis=(1, 2)), 1.0, atol=1e-10)
    for i, table in enumerate(joint.marginal_tables()):
        np.testing.assert_allclose(table.sum(axis=1), 1.0)
        for value in range(table.shape[1]):
            alone = np.full((3, 3), MISSING, dtype=np.int32)
            alone[:, i] = value
            found = np.exp(joint.log_prob_codes(alone))
            np.testing.assert_allclose(found, table[:, value], atol=1e-10)


@pytest.mark.parametrize("opaque", [False, True])
def test_top_k(opaque):
    network = random_network(np.random.default_rng(7), 4, (2, 3, 2), symmetric=False)
    joint = build(Opaque(network) if opaque else network, n_sweeps=60)
    everything = joint.top_k(12)
    np.testing.assert_allclose(np.exp(everything.log_prob).sum(axis=1), 1.0, atol=1e-10)
    for k in (1, 3, 100):
        labels, log_prob = joint.top_k(k)
        assert labels.shape == (4, min(k, 12), 3)
        assert (np.diff(log_prob, axis=1) <= 0).all()
        for rank in range(labels.shape[1]):
            np.testing.assert_allclose(log_prob[:, rank], joint.log_prob(labels[:, rank]))
        for row in labels.tolist():
            assert len({tuple(y) for y in row}) == len(row)


def test_top_k_with_evidence_lists_what_can_occur_first():
    network = random_network(np.random.default_rng(7), 2, (2, 2, 2))
    joint = build(network, n_sweeps=30).given({"y0": 1, "y2": 0})
    labels, log_prob = joint.top_k(4)
    assert np.isfinite(log_prob[:, :2]).all()
    assert np.isneginf(log_prob[:, 2:]).all()
    assert (labels[:, :2, 0] == 1).all()
    assert (labels[:, :2, 2] == 0).all()


def test_samples_are_seeded_and_rows_differ():
    network = random_network(np.random.default_rng(8), 1, (2, 3, 2, 2))
    joint = build(network.rows(np.zeros(5, dtype=np.intp)), n_chains=2, row_keys=np.zeros(5, int))
    first, again, other = (joint.sample(31, seed) for seed in (0, 0, 1))
    assert first.shape == (31, 5, 4)
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()
    assert (first[:, 0] != first[:, 1]).any()
    assert joint.sample(0).shape == (0, 5, 4)
    # equal rows with equal keys do get equal answers
    assert len(np.unique(joint.marginal_tables()[1].round(12), axis=0)) == 1


def test_same_seed_same_answers_other_seed_others():
    network = random_network(np.random.default_rng(9), 6, (2,) * 4)
    one, again, other = (build(network, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.marginals(), again.marginals())
    assert (one.marginals() != other.marginals()).any()
    np.testing.assert_array_equal(one.marginals(), build(network, seed=1, n_jobs=1).marginals())


@pytest.mark.parametrize("index", [slice(1, 4), [5, 0], np.array([True, False] * 3)])
def test_rows_keep_their_answers(index):
    network = random_network(np.random.default_rng(10), 6, (2, 3, 2))
    joint = build(network, n_sweeps=50)
    part = joint[index]
    np.testing.assert_array_equal(part.mode(), joint.mode()[index])
    for ours, whole in zip(part.marginal_tables(), joint.marginal_tables(), strict=True):
        np.testing.assert_array_equal(ours, whole[index])
    np.testing.assert_array_equal(part.top_k(2).labels, joint.top_k(2).labels[index])


def test_best_and_plain_decide_differently():
    network = random_network(np.random.default_rng(3), 40, (2,) * 6, strength=1.5, symmetric=False)
    best, plain = (build(network, marginals=m, n_best=10) for m in ("best", "plain"))
    np.testing.assert_array_equal(best.marginals(), plain.marginals())
    assert (best.mode() != plain.mode()).any()
    summary = plain._summary
    np.testing.assert_array_equal(plain.mode_codes(), summary.plain > 0.5)
    np.testing.assert_array_equal(best.mode_codes(), summary.best > 0.5)
    np.testing.assert_array_equal(decide(plain, "hamming"), plain.marginals() > 0.5)


def test_marginals_are_never_certain_without_evidence():
    base = np.array([[800.0, -800.0, 40.0]])
    joint = build(LinearConditionals(base, np.zeros((3, 3)), (2, 2, 2)))
    marginals = joint.marginals()
    assert ((marginals > 0) & (marginals < 1)).all()
    assert np.isfinite(np.log(marginals)).all()
    assert joint.mode().tolist() == [[1, 0, 1]]
    assert joint.log_prob([1, 0, 1])[0] == pytest.approx(0)
    assert joint.log_prob([0, 0, 1])[0] == pytest.approx(-800)
    assert joint.given({"y0": 0}).marginals()[0, 0] == 0.0


def test_diagnostics_are_computed_once_and_see_trouble():
    calm = build(random_network(np.random.default_rng(0), 3, (2, 2, 3), 0.3), n_chains=2)
    found = calm.diagnostics()
    assert found is calm.diagnostics()
    assert found.r_hat.shape == (3, 3)
    assert (found.r_hat < 1.1).all()
    assert (found.ess > 100).all()
    weights = np.array([[0.0, 30.0], [30.0, 0.0]])  # all on or all off, and never a change
    stuck = LinearConditionals(np.full((20, 2), -15.0), weights, (2, 2))
    assert (build(stuck, n_chains=4).diagnostics().r_hat > 1.5).any()


def test_large_runs_are_diagnosed_in_blocks():
    network = random_network(np.random.default_rng(0), 7, (2, 2, 3))
    whole = build(network, n_sweeps=40)
    expected, top = whole.diagnostics(), whole.top_k(3)
    blocks = build(network, n_sweeps=40)
    blocks.codes_at_once = 3 * 40 * 2
    np.testing.assert_array_equal(blocks.diagnostics().ess, expected.ess)
    np.testing.assert_array_equal(blocks.top_k(3).labels, top.labels)


def test_the_joint_says_what_it_is():
    joint = build(random_network(np.random.default_rng(0), 2, (2, 2)), n_chains=3)
    assert joint.exact == APPROXIMATE
    assert joint.how.startswith("Approximate: Gibbs sampling, 3 chain(s) a row, 100 sweeps")
    assert repr(joint) == "<DependencyNetwork: 2 rows, 2 labels, approximate>"
    with pytest.raises(NotImplementedError, match="entropy"):
        joint.entropy()


def test_no_rows():
    joint = build(random_network(np.random.default_rng(0), 0, (2, 3)))
    assert joint.mode().shape == (0, 2)
    assert [table.shape for table in joint.marginal_tables()] == [(0, 2), (0, 3)]
    assert joint.top_k(2).labels.shape == (0, 2, 2)
    assert joint.sample(3, 0).shape == (3, 0, 2)
    assert joint.diagnostics().to_text().startswith("0 rows")


def test_errors_are_sentences():
    network = random_network(np.random.default_rng(0), 2, (2, 3))
    with pytest.raises(ValueError, match=r"values but the label space has \(2, 2\)"):
        DependencyNetwork(make_space((2, 2)), network)
    with pytest.raises(ValueError, match="marginals='top'"):
        build(network, marginals="top")
    with pytest.raises(ValueError, match="row_keys has shape"):
        build(network, row_keys=[1, 2, 3])
    with pytest.raises(ValueError, match="n_sweeps=0"):
        build(network, n_sweeps=0)
    with pytest.raises(ValueError, match="base has shape"):
        LinearConditionals(np.zeros((2, 3)), np.zeros((4, 4)), (2, 3))
    with pytest.raises(ValueError, match="weights has shape"):
        LinearConditionals(np.zeros((2, 4)), np.zeros((3, 3)), (2, 3))
    with pytest.raises(ValueError, match="evidence on 'y0' has probability zero"):
        build(network).given({"y0": 1}).given({"y0": 0})


def test_any_conditionals_are_asked_for_all_rows_and_chains_at_once():
    network = Opaque(random_network(np.random.default_rng(0), 50, (2, 2, 2)))
    build(network, burn_in=5, n_sweeps=10, n_chains=4).mode()
    assert network.calls == 15 * 3 + 10 * 3  # a draw of every label, a look at every kept sample
