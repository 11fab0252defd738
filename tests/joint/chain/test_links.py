"""Links: pairs, grids and bounds of linear and estimator links agree with the plain formulas."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import log_expit, log_softmax

from colabel.joint import Chain
from colabel.joint.chain.links import LinearLink, LinearLinks
from tests.joint.oracle import Enumerated, every_vector, make_space, random_evidence
from tests.joint.test_families import assert_exact

pytestmark = pytest.mark.filterwarnings("error")
SETTINGS = settings(max_examples=60, deadline=None)


@st.composite
def linear_links(draw, max_labels=5, max_rows=4):
    """Random linear links, some with a floor for values that training lacked."""
    two_valued = st.lists(st.just(2), min_size=1, max_size=max_labels)
    sizes = draw(two_valued | st.lists(st.integers(1, 4), min_size=1, max_size=max_labels))
    n_rows = draw(st.integers(1, max_rows))
    spread = draw(st.sampled_from([0.3, 2.0, 30.0]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    links = []
    for position, k in enumerate(sizes):
        n_scores = 1 if k == 2 else k
        gain = rng.normal(scale=spread, size=(position, max(sizes), n_scores))
        for earlier, values in enumerate(sizes[:position]):
            gain[earlier, values:] = 0.0
        floor = np.zeros(k)
        if k > 2 and rng.random() < 0.5:
            floor[-1] = 0.05
        base = rng.normal(scale=spread, size=(n_rows, n_scores))
        links.append(LinearLink(base, gain, k, floor))
    return LinearLinks(tuple(links)), rng


def plain_table(link, row, prefix):
    """Log-probabilities of one link after one prefix, by the textbook."""
    scores = link.base[row] + sum(link.gain[j, v] for j, v in enumerate(prefix))
    if link.n_classes == 2:
        return np.array([log_expit(-scores[0]), log_expit(scores[0])])
    absent = link.floor > 0
    prob = link.floor.copy()
    prob[~absent] = np.exp(log_softmax(scores[~absent])) * (1 - link.floor.sum())
    with np.errstate(divide="ignore"):
        return np.log(prob)


def prefixes_of(links, position):
    return every_vector(links.cardinalities[:position])


@SETTINGS
@given(linear_links())
def test_pairs_and_grids_follow_the_formula(instance):
    links, _ = instance
    for position, link in enumerate(links.links):
        prefixes = prefixes_of(links, position)
        expected = np.array(
            [[plain_table(link, r, y) for y in prefixes.tolist()] for r in range(links.n_rows)]
        )
        grid = links.log_prob_grid(prefixes)
        rows = np.repeat(np.arange(links.n_rows), len(prefixes))
        pairs = links.log_prob(rows, np.tile(prefixes, (links.n_rows, 1)))
        likely = expected > -600  # beyond, logarithms of probabilities underflow
        np.testing.assert_allclose(grid[likely], expected[likely], rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(pairs.reshape(grid.shape), grid, rtol=1e-9, atol=1e-9)


@SETTINGS
@given(linear_links())
def test_no_prefix_passes_the_ceiling(instance):
    links, rng = instance
    known = random_evidence(rng, links.n_rows, links.cardinalities)
    ceiling = links.log_ceiling(known)
    assert ceiling.shape == known.shape
    assert (ceiling <= 0).all()
    for position in range(known.shape[1]):
        prefixes = prefixes_of(links, position)
        largest = links.log_prob_grid(prefixes).max(axis=2)
        for row in range(links.n_rows):
            given_here = known[row, :position]
            agree = ((prefixes == given_here) | (given_here == -1)).all(axis=1)
            assert largest[row, agree].max() <= ceiling[row, position] + 1e-9


@SETTINGS
@given(linear_links(max_labels=4))
def test_chains_of_linear_links_answer_as_enumeration(instance):
    links, rng = instance
    order = rng.permutation(len(links.cardinalities))
    sizes = tuple(int(k) for k in np.array(links.cardinalities)[np.argsort(order)])

    def score(r, y):
        along = [y[i] for i in order]
        return [plain_table(link, r, along[:k])[along[k]] for k, link in enumerate(links.links)]

    joint = Chain(make_space(sizes), order, links)
    oracle = Enumerated.of_scores(sizes, links.n_rows, score)
    best = oracle.log_prob(joint.mode_codes())
    np.testing.assert_allclose(best, oracle.best(1)[:, 0], rtol=1e-9, atol=1e-9)
    if oracle.best(10**4).min() > -200:
        assert_exact(joint, oracle, rng)


def test_the_ceiling_spares_prefixes():
    rng = np.random.default_rng(0)
    d = 24  # labels that hardly depend on each other: the mode is improbable but obvious
    links = LinearLinks(
        tuple(
            LinearLink(rng.normal(size=(3, 1)), 0.01 * rng.normal(size=(k, 2, 1)), 2, np.zeros(2))
            for k in range(d)
        )
    )
    joint = Chain(make_space((2,) * d), np.arange(d), links)
    mode = joint.mode_codes()  # a cut search would warn
    greedy = Chain(make_space((2,) * d), np.arange(d), links, inference="greedy").mode_codes()
    assert (joint.log_prob_codes(mode) >= joint.log_prob_codes(greedy)).all()
