"""learn_bayes_network: against all networks, its searches against each other, known networks."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from colabel.learn.structure import bayes_network
from colabel.learn.structure.bayes_network import (
    best_by_orders,
    best_by_subsets,
    candidate_sets,
    sets_of_order,
)
from tests.learn.structure.test_parent_scores import family_score


def learn_bayes_network(codes, sizes, weight=None, **options):
    weight = np.ones(len(codes)) if weight is None else weight
    codes = np.asarray(codes)
    return bayes_network.learn_bayes_network(codes, tuple(sizes), weight, **options)


def network_score(parents, codes, sizes, score="bdeu"):
    weight = np.ones(len(codes))
    return sum(family_score(codes, sizes, weight, i, p, score) for i, p in enumerate(parents))


def is_acyclic(parents) -> bool:
    left = set(range(len(parents)))
    while ready := {i for i in left if left.isdisjoint(parents[i])}:
        left -= ready
    return not left


def networks(d: int, most: int) -> list[tuple[tuple[int, ...], ...]]:
    """Give every network without cycles in which each variable has at most `most` parents."""
    sets = [
        [s for k in range(most + 1) for s in itertools.combinations(set(range(d)) - {i}, k)]
        for i in range(d)
    ]
    return [parents for parents in itertools.product(*sets) if is_acyclic(parents)]


def random_codes(seed: int, d: int, n: int = 120, most: int = 2):
    """Draw from a random network, so that there are arcs to be found."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 4, d)
    codes = np.zeros((n, d), dtype=int)
    for place, i in enumerate(order := rng.permutation(d)):
        above = rng.permutation(order[:place])[:most]
        key = np.zeros(n, dtype=int)
        for j in above:
            key = key * sizes[j] + codes[:, j]
        tables = rng.dirichlet(np.full(sizes[i], 0.5), size=key.max() + 1)
        codes[:, i] = (tables[key].cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
    return np.minimum(codes, sizes - 1), sizes


# ----------------------------------------------------------------------------- all networks


@pytest.mark.parametrize("most", [1, 2, 3])
@pytest.mark.parametrize("score", ["bdeu", "bic"])
def test_both_searches_find_the_best_of_all_networks_of_four(score, most):
    every = networks(4, most)
    assert most < 3 or len(every) == 543
    for seed in range(3):
        codes, sizes = random_codes(seed, 4)
        families = {
            (i, own): family_score(codes, sizes, np.ones(len(codes)), i, own, score)
            for i in range(4)
            for own in {parents[i] for parents in every}
        }
        best = max(sum(families[i, p] for i, p in enumerate(parents)) for parents in every)
        found = learn_bayes_network(codes, sizes, score=score, max_parents=most)
        assert found in every
        assert network_score(found, codes, sizes, score) == pytest.approx(best, abs=1e-6)
        candidates = candidate_sets(
            codes, tuple(sizes), np.ones(len(codes)), score=score, max_parents=most
        )
        chosen = best_by_orders(candidates, np.random.default_rng(0), np.inf)
        assert candidates.scores[chosen].sum() == pytest.approx(best, abs=1e-6)


# ----------------------------------------------------------------------- one search by another


@pytest.mark.parametrize("seed", range(6))
def test_order_search_agrees_with_dynamic_programming(seed):
    codes, sizes = random_codes(seed, 9, n=300)
    candidates = candidate_sets(codes, tuple(sizes), np.ones(300), max_parents=3)
    exact = candidates.scores[best_by_subsets(candidates)].sum()
    chosen = best_by_orders(candidates, np.random.default_rng(0), np.inf)
    order = candidates.scores[chosen].sum()
    assert order <= exact + 1e-6
    assert order == pytest.approx(exact, rel=1e-3)
    assert is_acyclic([tuple(j for j in row if j >= 0) for row in candidates.parents[chosen]])


def test_one_climb_is_no_better_than_many():
    codes, sizes = random_codes(0, 15, n=400)
    candidates = candidate_sets(codes, tuple(sizes), np.ones(400))
    rng = np.random.default_rng(0)
    many = candidates.scores[best_by_orders(candidates, rng, np.inf)].sum()
    one = candidates.scores[best_by_orders(candidates, np.random.default_rng(0), 0.0)].sum()
    ordered = candidates.scores[sets_of_order(candidates, np.random.default_rng(0).permutation(15))]
    assert ordered.sum() < one <= many


def test_a_search_out_of_time_gives_a_network():
    codes, sizes = random_codes(1, 22, n=300)
    found = learn_bayes_network(codes, sizes, time_limit=1e-9)
    assert is_acyclic(found)
    assert network_score(found, codes, sizes) > network_score([()] * 22, codes, sizes)


# --------------------------------------------------------------------------------- known networks


def test_a_known_network_is_recovered_from_many_rows():
    # 0 -> 2 <- 1, 2 -> 3 -> 4: the collider fixes its arcs, and these the arcs below it
    rng = np.random.default_rng(0)
    n = 20_000
    a, b = rng.integers(0, 3, n), rng.integers(0, 2, n)
    c = (rng.random(n) < np.array([[0.05, 0.6], [0.5, 0.95], [0.7, 0.2]])[a, b]).astype(int)
    e = np.where(rng.random(n) < 0.8, c, 1 - c)
    f = np.where(rng.random(n) < 0.8, e, rng.integers(0, 4, n))
    for score in ("bdeu", "bic"):
        found = learn_bayes_network(np.stack([a, b, c, e, f], axis=1), [3, 2, 2, 2, 4], score=score)
        assert found == ((), (), (0, 1), (2,), (3,))


def test_what_has_no_parents():
    rng = np.random.default_rng(1)
    codes = rng.integers(0, 2, (3000, 5))
    codes[:, 4] = 1  # a constant, and independent variables
    assert learn_bayes_network(codes, [2] * 5, score="bic") == ((),) * 5
    codes, sizes = random_codes(0, 5)
    assert learn_bayes_network(codes, sizes, max_parents=0) == ((),) * 5
    assert learn_bayes_network([[1]], [2]) == ((),)
    assert is_acyclic(learn_bayes_network([[1, 0, 1]], [2, 2, 2]))


def test_weights_reach_the_search():
    codes, sizes = random_codes(2, 6, n=200)
    times = np.random.default_rng(0).integers(0, 4, 200)
    weighted = learn_bayes_network(codes, sizes, times)
    assert weighted == learn_bayes_network(np.repeat(codes, times, axis=0), sizes)


def test_the_same_seed_gives_the_same_network():
    codes, sizes = random_codes(3, 22, n=200)
    one, two = (learn_bayes_network(codes, sizes, random_state=5) for _ in range(2))
    assert one == two
