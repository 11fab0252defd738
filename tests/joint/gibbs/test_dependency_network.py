"""DependencyNetwork: agreement with enumeration where a joint exists, and every answer."""

from __future__ import annotations

import numpy as np
import pytest

from colabel.decide import decide
from colabel.joint import DependencyNetwork, LinearConditionals
from colabel.joint.base import APPROXIMATE
from colabel.joint.gibbs.sampler import GibbsOptions
from colabel.labels import MISSING
from tests.joint.families import Opaque, field_behind, random_network
from tests.joint.oracle import (
    assert_frequencies,
    assert_tables,
    every_vector,
    make_space,
    random_evidence,
)

SPACES = [(2, 2, 2), (2, 3, 2), (4, 3), (2, 2, 2, 2, 2)]


def build(network, **settings):
    return DependencyNetwork(make_space(network.cardinalities), network, **settings)


def of_seed(seed, n_rows, sizes, opaque=False, **options):
    network = random_network(np.random.default_rng(seed), n_rows, sizes, **options)
    return Opaque(network) if opaque else network


def assert_close(joint, oracle, atol, draws=8000):
    """Draws, marginals, pairs and probabilities are those of the distribution but for noise."""
    drawn = joint.sample_codes(draws, np.random.default_rng(1))
    assert_frequencies(drawn, oracle, 2.0)  # successive sweeps are not independent
    assert_tables(joint.marginal_tables(), oracle.marginals(), atol)
    np.testing.assert_allclose(joint.pair_table(0, 1), oracle.pair(0, 1), atol=atol)
    for vector in every_vector(oracle.sizes):
        codes = np.tile(vector, (joint.n_rows, 1))
        found, exact = np.exp([joint.log_prob_codes(codes), oracle.log_prob(codes)])
        np.testing.assert_allclose(found, exact, atol=atol)


@pytest.mark.parametrize("sizes", SPACES)
@pytest.mark.parametrize("seed", range(2))
def test_answers_agree_with_the_exact_joint(sizes, seed):
    network = of_seed(seed, 3, sizes)
    assert_close(build(network, n_sweeps=8000, n_chains=2, seed=seed), field_behind(network), 0.02)


def test_answers_of_conditionals_of_any_kind():
    network = of_seed(0, 10, (2, 3, 2))
    joint = build(Opaque(network), n_sweeps=1500, n_chains=2)
    assert_close(joint, field_behind(network), 0.05, 3000)


def test_evidence_gives_the_conditional_distribution():
    rng = np.random.default_rng(5)
    network = random_network(rng, 4, (2, 3, 2, 2))
    evidence = random_evidence(rng, 4, (2, 3, 2, 2), 0.4)
    joint = build(network, n_sweeps=8000, n_chains=2).given_codes(evidence)
    assert_close(joint, field_behind(network).given(evidence), 0.03)


@pytest.mark.parametrize("opaque", [False, True])
@pytest.mark.parametrize("evidence", [{}, {"y1": 2}])
def test_estimated_probabilities_are_a_distribution(opaque, evidence):
    joint = build(of_seed(6, 3, (2, 3, 2), opaque, symmetric=False), n_sweeps=40, burn_in=5)
    joint = joint.given(evidence)
    everything = joint.top_k(100)
    assert everything.labels.shape == (3, 12, 3)
    np.testing.assert_allclose(np.exp(everything.log_prob).sum(axis=1), 1.0, atol=1e-10)
    np.testing.assert_allclose(joint.pair_table(0, 2).sum(axis=(1, 2)), 1.0, atol=1e-10)
    for i, table in enumerate(joint.marginal_tables()):
        np.testing.assert_allclose(table.sum(axis=1), 1.0)
        for value in range(table.shape[1]):
            alone = np.full((3, 3), MISSING, dtype=np.int32)
            alone[:, i] = value
            found = np.exp(joint.log_prob_codes(alone))
            np.testing.assert_allclose(found, table[:, value], atol=1e-10)
    n_possible = 4 if evidence else 12  # what can occur comes first
    for k in (1, 3, 12):
        labels, log_prob = joint.top_k(k)
        assert (np.isfinite(log_prob).sum(axis=1) == min(k, n_possible)).all()
        assert (np.diff(np.exp(log_prob), axis=1) <= 0).all()
        for rank in range(k):
            np.testing.assert_allclose(log_prob[:, rank], joint.log_prob(labels[:, rank]))
        assert all(len({tuple(y) for y in row}) == k for row in labels.tolist())


def test_equal_rows_share_answers_but_not_draws():
    network = of_seed(8, 1, (2, 3, 2, 2)).rows(np.zeros(5, dtype=np.intp))
    joint = build(network, n_chains=2, row_keys=np.zeros(5, int))
    first, other = (joint.sample(31, seed) for seed in (0, 1))
    assert (first != other).any()
    assert (first[:, 0] != first[:, 1]).any()
    assert len(np.unique(joint.marginal_tables()[1].round(12), axis=0)) == 1


def test_same_seed_same_answers_other_seed_others():
    network = of_seed(9, 6, (2,) * 4)
    one, alone, other = (build(network, seed=s, n_jobs=j) for s, j in ((1, None), (1, 1), (2, 1)))
    np.testing.assert_array_equal(one.marginals(), alone.marginals())
    assert (one.marginals() != other.marginals()).any()


def test_best_and_plain_decide_differently():
    network = of_seed(3, 40, (2,) * 6, strength=1.5, symmetric=False)
    best, plain = (build(network, marginals=m, n_best=10) for m in ("best", "plain"))
    np.testing.assert_array_equal(best.marginals(), plain.marginals())
    assert (best.mode() != plain.mode()).any()
    all_best = build(network, n_best=500)  # of 500 sweeps: the best are all of them
    np.testing.assert_array_equal(all_best.mode(), plain.mode())
    np.testing.assert_array_equal(decide(plain, "hamming"), plain.marginals() > 0.5)


def test_marginals_are_never_certain_without_evidence():
    base = np.array([[800.0, -800.0, 40.0]])
    joint = build(LinearConditionals(base, np.zeros((3, 3)), (2, 2, 2)))
    np.testing.assert_allclose(joint.marginals()[:, 1:], [[1e-15, 1.0]])
    assert (joint.marginals() < 1).all()
    assert joint.mode().tolist() == [[1, 0, 1]]
    assert joint.log_prob([1, 0, 1])[0] == pytest.approx(0)
    assert joint.log_prob([0, 0, 1])[0] == pytest.approx(-800)
    assert joint.given({"y0": 0}).marginals()[0, 0] == 0.0


def test_diagnostics_are_computed_once_and_see_trouble():
    calm = build(of_seed(0, 3, (2, 2, 3), strength=0.3), n_chains=2)
    found = calm.diagnostics()
    assert found is calm.diagnostics()
    assert found.r_hat.shape == (3, 3)
    assert (found.r_hat < 1.1).all()
    assert (found.ess > 100).all()
    weights = np.array([[0.0, 30.0], [30.0, 0.0]])  # all on or all off, and never a change
    stuck = LinearConditionals(np.full((20, 2), -15.0), weights, (2, 2))
    assert (build(stuck, n_chains=4).diagnostics().r_hat > 1.5).any()
    assert calm[:0].diagnostics().to_text().startswith("0 rows")


def test_large_runs_are_diagnosed_in_blocks():
    whole, blocks = (build(of_seed(0, 7, (2, 2, 3)), n_sweeps=40) for _ in range(2))
    blocks.codes_at_once = 3 * 40 * 2
    np.testing.assert_array_equal(blocks.diagnostics().ess, whole.diagnostics().ess)
    np.testing.assert_array_equal(blocks.top_k(3).labels, whole.top_k(3).labels)


def test_the_joint_says_what_it_is():
    joint = build(of_seed(0, 2, (2, 2)), n_chains=3)
    assert joint.exact == APPROXIMATE
    assert joint.how.startswith("Approximate: Gibbs sampling, 3 chain(s) per row, 100 sweeps")
    assert repr(joint) == "<DependencyNetwork: 2 rows, 2 labels, approximate>"
    with pytest.raises(NotImplementedError, match="entropy"):
        joint.entropy()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda n: DependencyNetwork(make_space((2, 2)), n), r"but the label space has \(2, 2\)"),
        (lambda n: build(n, marginals="top"), "marginals='top'"),
        (lambda n: build(n, row_keys=[1, 2, 3]), "row_keys has shape"),
        (lambda n: build(n, n_sweeps=0), "n_sweeps=0"),
        (lambda n: LinearConditionals(np.zeros((2, 3)), n.weights, (2, 3)), "base has shape"),
        (lambda n: LinearConditionals(n.base, np.zeros((3, 3)), (2, 3)), "weights has shape"),
        (lambda n: build(n).given({0: 1}).given({0: 0}), "evidence on 'y0' has probability zero"),
        (lambda n: GibbsOptions(burn_in=-1), "burn_in=-1"),
        (lambda n: GibbsOptions(n_sweeps=2.5), "n_sweeps=2.5"),
        (lambda n: GibbsOptions(n_best=0), "n_best=0"),
        (lambda n: GibbsOptions(n_chains=0), "n_chains=0"),
    ],
)
def test_errors_are_sentences(make, message):
    with pytest.raises(ValueError, match=message):
        make(of_seed(0, 2, (2, 3)))


def test_any_conditionals_are_asked_for_all_rows_and_chains_at_once():
    network = of_seed(0, 50, (2, 2, 2), opaque=True)
    build(network, burn_in=5, n_sweeps=10, n_chains=4).mode()
    assert network.calls == 15 * 3 + 10 * 3  # a draw of every label, a look at every kept sample
