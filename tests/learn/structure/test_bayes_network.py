"""learn_bayes_network: against all networks, its searches against each other, known networks."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from colabel.learn.structure import (
    best_network,
    learn_bayes_network,
    network_score,
    score_parent_sets,
)
from colabel.learn.structure.bayes_network import best_by_orders, sets_of_order, topological_order

SEARCHES = ("dynamic programming", "order search")


def is_acyclic(parents) -> bool:
    try:
        topological_order(tuple(map(tuple, parents)))
    except ValueError:
        return False
    return True


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


def test_there_are_543_networks_of_four():
    assert len(networks(4, 3)) == 543


@pytest.mark.parametrize("most", [1, 2, 3])
@pytest.mark.parametrize("score", ["bdeu", "bic"])
def test_every_search_finds_the_best_of_all_networks_of_four(score, most):
    every = networks(4, most)
    for seed in range(3):
        codes, sizes = random_codes(seed, 4)
        best = max(network_score(parents, codes, sizes, score=score) for parents in every)
        for search in ("auto", *SEARCHES):
            found = learn_bayes_network(
                codes, sizes, score=score, max_parents=most, search=search, random_state=0
            )
            assert found.score == pytest.approx(best, abs=1e-8)
            assert found.bound >= best - 1e-6
            assert found.parents in every
            again = network_score(found.parents, codes, sizes, score=score)
            assert found.score == pytest.approx(again, abs=1e-8)
            if search != "order search":
                assert found.optimal
                assert found.bound == pytest.approx(best, abs=1e-6)


# ----------------------------------------------------------------------- one search by another


@pytest.mark.parametrize("seed", range(6))
def test_order_search_agrees_with_dynamic_programming(seed):
    codes, sizes = random_codes(seed, 9, n=300)
    scores = score_parent_sets(codes, sizes, max_parents=3)
    exact = best_network(scores, search="dynamic programming")
    order = best_network(scores, search="order search", random_state=0)
    assert (exact.search, exact.optimal) == ("dynamic programming", True)
    assert order.search == "order search"
    assert order.score <= exact.score + 1e-6
    assert order.score == pytest.approx(exact.score, rel=1e-3)


def test_one_climb_is_no_better_than_many():
    codes, sizes = random_codes(0, 15, n=400)
    candidates = score_parent_sets(codes, sizes).candidates
    rng = np.random.default_rng(0)
    many = candidates.scores[best_by_orders(candidates, rng, np.inf)].sum()
    one = candidates.scores[best_by_orders(candidates, np.random.default_rng(0), 0.0)].sum()
    ordered = candidates.scores[sets_of_order(candidates, np.random.default_rng(0).permutation(15))]
    assert ordered.sum() < one <= many


def test_the_answer_of_a_search_out_of_time_is_a_network_and_says_so():
    codes, sizes = random_codes(1, 22, n=300)
    found = learn_bayes_network(codes, sizes, time_limit=1e-9, random_state=0)
    assert (found.search, found.optimal) == ("order search", False)
    assert is_acyclic(found.parents)
    assert found.bound > found.score
    assert found.score == pytest.approx(network_score(found.parents, codes, sizes))


def test_parts_between_which_no_cycle_runs_are_searched_alone():
    # Three blocks of ten, every row of one with every row of the others, so that no arc between
    # them can gain. Dynamic programming over all thirty variables would need 2^30 sets.
    rng = np.random.default_rng(1)
    blocks = [(rng.normal(size=(20, 10)).cumsum(axis=1) > 0).astype(int) for _ in range(3)]
    rows = np.stack(np.meshgrid(*[range(20)] * 3), axis=-1).reshape(-1, 3)
    codes = np.hstack([block[rows[:, at]] for at, block in enumerate(blocks)])
    whole = learn_bayes_network(codes, [2] * 30)
    assert (whole.search, whole.optimal) == ("dynamic programming", True)
    assert all(j // 10 == i // 10 for j, i in whole.edges)
    alone = [learn_bayes_network(np.repeat(b, 400, axis=0), [2] * 10).score for b in blocks]
    assert whole.score == pytest.approx(sum(alone))


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
        assert found.parents == ((), (), (0, 1), (2,), (3,))
        assert found.order == (0, 1, 2, 3, 4)
        assert found.edges == ((0, 2), (1, 2), (2, 3), (3, 4))


def test_independent_and_constant_variables_have_no_parents():
    rng = np.random.default_rng(1)
    codes = rng.integers(0, 2, (3000, 5))
    codes[:, 4] = 1
    found = learn_bayes_network(codes, [2] * 5, score="bic")
    assert found.parents == ((),) * 5


def test_one_row_and_one_variable():
    assert learn_bayes_network([[1]], [2]).parents == ((),)
    assert learn_bayes_network([[1, 0, 1]], [2, 2, 2]).optimal


def test_no_parents_allowed():
    codes, sizes = random_codes(0, 5)
    assert learn_bayes_network(codes, sizes, max_parents=0).parents == ((),) * 5


def test_weights_reach_the_search():
    codes, sizes = random_codes(2, 6, n=200)
    times = np.random.default_rng(0).integers(0, 4, 200)
    weighted = learn_bayes_network(codes, sizes, sample_weight=times)
    repeated = learn_bayes_network(np.repeat(codes, times, axis=0), sizes)
    assert weighted.score == pytest.approx(repeated.score)
    assert weighted.parents == repeated.parents


def test_the_same_seed_gives_the_same_network():
    codes, sizes = random_codes(3, 12, n=200)
    one, two = (
        learn_bayes_network(codes, sizes, search="order search", random_state=5) for _ in range(2)
    )
    assert one == two


@pytest.mark.parametrize(
    ("d", "options", "message"),
    [
        (3, {"search": "magic"}, "search='magic' is not known"),
        (3, {"time_limit": 0.0}, r"time_limit=0.0 must be a positive number"),
        (3, {"time_limit": np.nan}, r"time_limit=nan must be a positive number"),
        (27, {"search": "dynamic programming"}, "Dynamic programming looks at 2.27 sets"),
    ],
)
def test_wrong_options_are_named(d, options, message):
    rng = np.random.default_rng(0)
    codes = (rng.normal(size=(100, d)).cumsum(axis=1) > 0).astype(int)
    with pytest.raises(ValueError, match=message):
        learn_bayes_network(codes, [2] * d, **options)


def test_a_cycle_has_no_order():
    with pytest.raises(ValueError, match=r"parents of the variables \[0, 1\] close a cycle"):
        topological_order(((1,), (0,), ()))
