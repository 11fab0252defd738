"""Every family subject to random rules, against enumeration in exact arithmetic."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from colabel.joint import Chain
from colabel.labels import MISSING
from colabel.rules import Rules
from tests.joint.families import APPROXIMATE, EXACT, FAMILIES, many_labels
from tests.joint.oracle import assert_frequencies, assert_tables, every_vector, log_of
from tests.joint.test_families import SEEDS, assert_exact, slack_of
from tests.rules.random_rules import rule_set

pytestmark = pytest.mark.filterwarnings("error")


def some_sizes(rng, most=8):
    """Of two to eight labels, few enough vectors for exact arithmetic."""
    sizes = rng.choice([2, 2, 2, 3, 4], size=rng.integers(2, most + 1))
    while np.prod(sizes) > 256:
        sizes[sizes.argmax()] -= 1
    return tuple(sizes.tolist())


def case(build, seed, most=8):
    """A joint, its distribution, rules that can be obeyed, their test, and a generator."""
    rng = np.random.default_rng(seed)
    joint, exact = build(rng, some_sizes(rng, most), 2, 1.0)
    while True:
        text, test = rule_set(rng, exact.sizes)
        if any(map(test, every_vector(exact.sizes).tolist())):
            return joint, exact, text, test, rng


def obeys(test, drawn):
    return all(map(test, drawn.reshape(-1, drawn.shape[-1]).tolist()))


def check(joint, exact, text, test, rng, **options):
    expected = exact.where(lambda _, y: test(y))
    mass = [log_of(exact.sum(r, test)) for r in range(len(exact.rows))]
    np.testing.assert_allclose(joint.log_prob_of(text, **options), mass, atol=1e-8)
    obeying_joint = joint.subject_to(text, **options)
    assert_exact(obeying_joint, expected, rng)
    assert obeys(test, obeying_joint.sample_codes(3, rng))
    return obeying_joint, expected


@pytest.mark.parametrize("name", EXACT)
@settings(max_examples=5, deadline=None)
@given(SEEDS)
def test_every_answer(name, seed):
    joint, exact, text, test, rng = case(EXACT[name], seed)
    found, expected = check(joint, exact, text, test, rng)
    # rules after evidence, and evidence after rules
    codes = found.sample_codes(1, rng)[0]
    evidence = np.where(rng.random(codes.shape) < 0.4, codes, MISSING).astype(np.int32)
    assert_exact(found.given_codes(evidence), expected.given(evidence), rng)
    check(joint.given_codes(evidence), exact.given(evidence), text, test, rng)
    assert_exact(found.rows(np.array([1, 0, 1])), rows_of(expected, [1, 0, 1]), rng)


@pytest.mark.parametrize("name", [*EXACT, "dependency network", "field, gibbs"])
def test_frequencies_of_draws(name):
    """Draws that obey have the frequencies of the distribution that obeys."""
    joint, exact, text, test, _ = case(FAMILIES[name], 11, 4)
    drawn = joint.subject_to(text).sample_codes(4000, np.random.default_rng(0))
    assert_frequencies(drawn, exact.where(lambda _, y: test(y)), slack_of(name))


def rows_of(exact, index):
    return type(exact)(exact.sizes, [exact.rows[r] for r in index])


LISTS = [(name, {}) for name in EXACT]
FACTORS = [(name, {"max_listed": 0}) for name in ("independent", "tree", "field", "repeated")]


@pytest.mark.parametrize(("name", "options"), [*LISTS, *FACTORS])
@settings(max_examples=4, deadline=None)
@given(SEEDS)
def test_rules_one_after_the_other(name, options, seed):
    """By lists of what obeys, and by factors of pairs instead of lists."""
    joint, exact, text, test, rng = case(EXACT[name], seed, 5 if options else 8)
    found, expected = check(joint, exact, text, test, rng, **options)
    more, also = rule_set(rng, exact.sizes)
    if any(test(y) and also(y) for y in every_vector(exact.sizes).tolist()):
        check(found, expected, more, also, rng, **options)


def check_draws(found, mass, exact, test, rng, atol):
    """Sums are close to the exact ones, and the mode is exact."""
    expected = exact.where(lambda _, y: test(y))
    exact_mass = [log_of(exact.sum(r, test)) for r in range(2)]
    np.testing.assert_allclose(np.exp(mass), np.exp(exact_mass), atol=atol)
    assert "mode" in found.exact
    best = expected.log_prob(found.mode_codes())
    np.testing.assert_allclose(best, expected.best(1)[:, 0], atol=1e-8)
    assert_tables(found.marginal_tables(), expected.marginals(), atol)
    assert obeys(test, found.sample_codes(20, rng))


@pytest.mark.parametrize("name", [*EXACT, *APPROXIMATE])
@settings(max_examples=8, deadline=None)
@given(SEEDS)
def test_draws_that_obey(name, seed):
    """Where neither lists nor factors are affordable: close, and every mode obeys."""
    joint, exact, text, test, rng = case(FAMILIES[name], seed, 4)
    found, mass = (
        ask(text, max_listed=0, memory=1) for ask in (joint.subject_to, joint.log_prob_of)
    )
    assert obeys(test, found.mode_codes())
    assert obeys(test, found.sample_codes(20, rng))
    assert (mass <= 0).all()
    assert found.exact.all or "sums" not in found.exact
    if name == "chain":
        check_draws(found, mass, exact, test, rng, 0.15)


@pytest.mark.parametrize("name", APPROXIMATE)
@settings(max_examples=10, deadline=None)
@given(SEEDS)
def test_approximate_families_are_close_and_obey(name, seed):
    joint, exact, text, test, _ = case(APPROXIMATE[name], seed, 4)
    found = joint.subject_to(text)
    assert obeys(test, found.mode_codes())
    if not name.startswith("lds, "):
        expected = exact.where(lambda _, y: test(y)).marginals()
        assert_tables(found.marginal_tables(), expected, 0.3)


@settings(max_examples=8, deadline=None)
@given(SEEDS)
def test_a_chain_that_cannot_be_enumerated_draws_around_dead_ends(seed):
    joint, exact, text, test, rng = case(EXACT["chain"], seed, 4)
    long = Chain(joint.space, joint.order, joint.links, limit=1, n_samples=4000)
    found, mass = (ask(text, max_listed=0) for ask in (long.subject_to, long.log_prob_of))
    check_draws(found, mass, exact, test, rng, 0.1)


@pytest.mark.parametrize("n_labels", [8, 40, 90])
def test_counts_of_many_labels_are_exact_along_a_tree(n_labels):
    """Counts go along the tree, whatever the order of its labels; sizes have another algorithm."""
    joint, rng = many_labels(n_labels), np.random.default_rng(0)
    sizes = joint.size_marginals()
    low, high = n_labels // 3, n_labels // 2
    text = f"{low}..{high} of *"
    mass = sizes.size[:, low : high + 1].sum(axis=1)
    np.testing.assert_allclose(joint.log_prob_of(text), np.log(mass), atol=1e-9)
    found = joint.subject_to(text)
    assert found.exact.all, found.how
    expected = sizes.with_label[:, :, low : high + 1].sum(axis=2) / mass[:, None]
    np.testing.assert_allclose(found.marginals(), expected, atol=1e-9)
    codes = found.sample_codes(5, rng)
    counts = np.concatenate([found.mode_codes()[None], codes]).sum(axis=2)
    assert ((counts >= low) & (counts <= high)).all()
    empty = found[:0]
    assert empty.marginals().shape == empty.mode().shape == empty.sample(2)[0].shape
    # exclusions, and evidence that differs by row
    joint, pairs = joint.subject_to(text), "at most one of y0, y1\nat most one of y2, y5, y7"
    more = joint.subject_to(pairs)
    assert more.exact.all
    known = np.where(rng.random(codes[0].shape) < 0.3, more.sample_codes(1, rng)[0], MISSING)
    given = more.given_codes(known.astype(np.int32))
    assert given.exact.all
    both = Rules.parse(f"{text}\n{pairs}").compiled(joint.space)
    for row in range(3):
        alone = given.rows(np.array([row]))
        np.testing.assert_allclose(alone.marginals(), given.marginals()[[row]], atol=1e-9)
        assert both.may_hold(alone.mode_codes()).all()
        agrees = (known[row] == MISSING) | (alone.mode_codes()[0] == known[row])
        assert agrees.all()


def test_rules_of_probability_zero_are_named():
    rng = np.random.default_rng(0)
    joint, _ = EXACT["tree"](rng, (2, 2, 2), 3, 1.0)
    known = joint.given({"y0": [1, 0, 1]})
    with pytest.raises(ValueError, match=r"probability zero in 2 of 3 rows \(0, 2\)"):
        known.subject_to("not y0")
    np.testing.assert_array_equal(np.isneginf(known.log_prob_of("not y0")), [True, False, True])
    with pytest.raises(ValueError, match="no label is called 'y9'"):
        joint.subject_to(Rules.parse("y9 -> y0"))
    with pytest.raises(ValueError, match="The evidence on 'y0' has probability zero"):
        joint.subject_to("not y0").given({"y0": 1})
