"""Scores of parent sets: hand-worked cases, a slow oracle from the formulas, pyAgrum."""

from __future__ import annotations

import itertools
from math import lgamma, log

import numpy as np
import pytest

from colabel.learn.structure.bayes_network import candidate_sets


def score_parent_sets(codes, sizes, weight=None, **options):
    codes = np.asarray(codes)
    return candidate_sets(
        codes, tuple(sizes), np.ones(len(codes)) if weight is None else weight, **options
    )


def parent_sets(scores, variable):
    """Sets of one variable with their scores, best first; the empty set is the last."""
    first, values, parents = scores
    return [
        (tuple(int(j) for j in parents[c] if j >= 0), float(values[c]))
        for c in range(first[variable], first[variable + 1])
    ]


def family_score(codes, sizes, weight, i, parents, score, prior=1.0) -> float:
    """One family's score as the docstring has it, by loops over parent values and values."""
    result = 0.0
    n_parent_values = int(np.prod([sizes[j] for j in parents]))
    for values in itertools.product(*(range(sizes[j]) for j in parents)):
        rows = (codes[:, list(parents)] == np.array(values, dtype=int)).all(axis=1)
        counts = [weight[rows & (codes[:, i] == v)].sum() for v in range(sizes[i])]
        if score == "bdeu":
            a = prior / n_parent_values
            result += lgamma(a) - lgamma(a + sum(counts))
            result += sum(lgamma(a / sizes[i] + n) - lgamma(a / sizes[i]) for n in counts)
        else:
            result += sum(n * log(n / sum(counts)) for n in counts if n > 0)
    if score == "bic":
        result -= log(weight.sum()) / 2 * n_parent_values * (sizes[i] - 1)
    return result


def random_table(seed, sizes=(2, 3, 2, 4, 2), n=60):
    rng = np.random.default_rng(seed)
    codes = np.stack([rng.integers(0, size, n) for size in sizes], axis=1)
    codes[:, 2] = codes[:, 0] ^ (codes[:, 1] > 0)
    return codes, list(sizes), rng.uniform(0.2, 2.0, n)


# --------------------------------------------------------------------------------- by hand


@pytest.mark.parametrize(
    ("codes", "options", "sets"),
    [
        # Two heads and one tail under Beta(1/2, 1/2): (1/2 * 3/2 * 1/2) / (1 * 2 * 3)
        ([[1], [1], [0]], {}, {(): log(1 / 16)}),
        # Two equal columns 0, 1 with a = 4. Alone: Beta(2, 2), so (2 * 2) / (4 * 5). Given the
        # other: each parent value has Beta(1, 1) and sees one row, so 1/2 * 1/2.
        ([[0, 0], [1, 1]], {"equivalent_sample_size": 4.0}, {(1,): log(1 / 4), (): log(1 / 5)}),
        # 3 : 1 rows; log-likelihood 3 log(3/4) + log(1/4), one parameter of log(4) / 2.
        ([[0], [0], [0], [1]], {"score": "bic"}, {(): 3 * log(3 / 4) + log(1 / 4) - log(4) / 2}),
    ],
)
def test_scores_by_hand(codes, options, sets):
    found = parent_sets(score_parent_sets(codes, [2] * len(codes[0]), **options), 0)
    assert [parents for parents, _ in found] == list(sets)  # the best first
    assert dict(found) == pytest.approx(sets)


# ------------------------------------------------------------------------------- the oracle


@pytest.mark.parametrize("score", ["bdeu", "bic"])
@pytest.mark.parametrize("most", [0, 1, 2, 3, 4])
def test_scores_and_what_is_left_out_agree_with_the_formulas(score, most):
    codes, sizes, weight = random_table(most)
    prior = 1.7
    found = score_parent_sets(
        codes, sizes, score=score, max_parents=most, equivalent_sample_size=prior, weight=weight
    )
    n_left_out = 0
    for i in range(5):
        others = [j for j in range(5) if j != i]
        every = [s for k in range(most + 1) for s in itertools.combinations(others, k)]
        value = {s: family_score(codes, sizes, weight, i, s, score, prior) for s in every}
        kept = {
            s: v for s, v in value.items() if all(value[t] < v for t in every if set(t) < set(s))
        }
        n_left_out += len(every) - len(kept)
        sets = parent_sets(found, i)
        assert dict(sets).keys() == kept.keys()
        assert [v for _, v in sets] == sorted((v for _, v in sets), reverse=True)
        for parents, v in sets:
            assert v == pytest.approx(value[parents])
    if most > 1:
        assert n_left_out > 0


@pytest.mark.parametrize("score", ["bdeu", "bic"])
def test_equivalent_networks_have_the_same_score(score):
    codes, sizes, _ = random_table(3)
    found = score_parent_sets(codes, sizes, score=score)
    for i, j in itertools.combinations(range(5), 2):
        forward, backward = dict(parent_sets(found, j)), dict(parent_sets(found, i))
        if (i,) in forward and (j,) in backward:
            # to the last digit, so that no rounding chooses between them
            assert forward[i,] + backward[()] == backward[j,] + forward[()]
    assert any((i,) in dict(parent_sets(found, 2)) for i in (0, 1))


@pytest.mark.parametrize("score", ["bdeu", "bic"])
def test_whole_weights_are_repeated_rows(score):
    codes, sizes, _ = random_table(1)
    times = np.random.default_rng(0).integers(0, 3, len(codes))
    weighted = score_parent_sets(codes, sizes, score=score, weight=times)
    repeated = score_parent_sets(np.repeat(codes, times, axis=0), sizes, score=score)
    for i in range(5):
        for one, two in zip(parent_sets(weighted, i), parent_sets(repeated, i), strict=True):
            assert one[0] == two[0]
            assert one[1] == pytest.approx(two[1])


def test_a_constant_variable_and_values_that_never_occur():
    codes = np.zeros((20, 3), dtype=int)
    codes[10:, 0] = 1
    codes[:, 2] = codes[:, 0]
    scores = score_parent_sets(codes, [2, 1, 5])
    assert parent_sets(scores, 1) == [((), pytest.approx(0.0))]
    assert all(1 not in parents for i in range(3) for parents, _ in parent_sets(scores, i))
    weight = np.ones(20)
    for parents, value in parent_sets(scores, 2):
        assert value == pytest.approx(family_score(codes, [2, 1, 5], weight, 2, parents, "bdeu"))


# ---------------------------------------------------------------------------------- pyAgrum


@pytest.mark.parametrize("score", ["bdeu", "bic"])
def test_differences_agree_with_pyagrum(score):
    gum = pytest.importorskip("pyagrum")
    pd = pytest.importorskip("pandas")
    codes, sizes, _ = random_table(5, n=200)
    names = [f"v{i}" for i in range(5)]
    network = gum.BayesNet()
    for name, size in zip(names, sizes, strict=True):
        network.add(gum.LabelizedVariable(name, name, size))
    learner = gum.BNLearner(pd.DataFrame(codes.astype(str), columns=names), network)
    learner.useNoPrior()
    if score == "bdeu":
        learner.useScoreBDeu()
    else:
        learner.useScoreBIC()
    # pyAgrum takes logarithms to base 2. The prior of its BDeu is worth one row; its logarithm of
    # the gamma function is not good enough for the small shares of two parents.
    sets = [(), (0,), (4,)] if score == "bdeu" else [(), (0,), (4,), (0, 1), (1, 3)]
    theirs = [log(2) * learner.score("v2", [names[j] for j in above]) for above in sets]
    ours = [family_score(codes, sizes, np.ones(200), 2, above, score) for above in sets]
    np.testing.assert_allclose(np.diff(ours), np.diff(theirs), rtol=1e-6)


def test_tables_that_are_too_large_are_named():
    with pytest.raises(ValueError, match="Lower max_parents or join rare values"):
        score_parent_sets([[0] * 3], [10**4] * 3)
