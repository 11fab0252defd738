"""Decisions on a joint: which vector each loss asks for."""

from __future__ import annotations

import functools
import itertools

import numpy as np
import pytest

from colabel import BinaryRelevance
from colabel.decide import (
    DECISIONS,
    F1,
    F1OverRows,
    Hamming,
    Jaccard,
    Seen,
    Subset,
    decide,
    next_question,
)
from colabel.decide.decisions import candidates, macro_f1_values, mean_overlap
from colabel.joint import Chain, Independent, Mixture, Tree, VectorList, sizes
from colabel.joint.base import APPROXIMATE
from colabel.joint.chain import TableLinks
from colabel.labels import LabelSpace
from colabel.metrics import f1_score
from tests.joint import families
from tests.joint.oracle import every_vector, make_space


@pytest.fixture
def tree():
    return random_joint(np.random.default_rng(11), (3, 2, 4), 40)


def random_joint(rng, sizes, n_rows=12, style=1.0):
    return families.random_tree(rng, sizes, n_rows, style)


def random_tree(rng, n_labels, n_rows=12, style=1.0):
    return random_joint(rng, (2,) * n_labels, n_rows, style)


def probabilities(joint):
    """All vectors (v, d), and their probabilities (n, v)."""
    vectors, n_rows = every_vector(joint.space.cardinalities), joint.n_rows
    rows = np.repeat(np.arange(n_rows), len(vectors))
    log_prob = joint.log_prob_at(rows, np.tile(vectors, (n_rows, 1)))
    return vectors, np.exp(log_prob).reshape(n_rows, -1)


LOSSES = {
    "subset": lambda y, h: float((y != h).any()),
    "hamming": lambda y, h: float((y != h).mean()),
}


def lists_and_a_tree(tree):
    """Return a mixture in which vectors tie, and rows of which some list none of the vectors."""
    vectors = every_vector((3, 2, 4))
    indptr = np.cumsum([0, *[6] * 40])
    indices = np.concatenate([np.arange(row % 19, row % 19 + 6) for row in range(40)])
    listed = VectorList.of_lists(tree.space, vectors, indptr, indices, np.zeros(240))
    return vectors, {"list": listed, "mixture": Mixture([listed, tree]), "tree": tree}


@pytest.mark.parametrize("name", ["list", "mixture", "tree"])
@pytest.mark.parametrize("at_once", [1, 1400, 1 << 23])
def test_of_vectors_seen_the_most_probable_the_first_in_a_tie(tree, name, at_once):
    vectors, joints = lists_and_a_tree(tree)
    joints[name].codes_at_once = at_once
    seen = vectors[np.random.default_rng(0).permutation(len(vectors))[:15]]
    values = np.stack([joints[name].log_prob(y) for y in seen])
    found = decide(joints[name], Seen(seen))
    assert np.isneginf(values).any() == (name == "list")
    np.testing.assert_array_equal(found, seen[values.argmax(axis=0)])


def test_lists_are_asked_about_many_vectors_at_a_time(tree, monkeypatch):
    asked, lookup = [], VectorList.log_prob_at
    monkeypatch.setattr(
        VectorList, "log_prob_at", lambda self, *of: asked.append(len(of[0])) or lookup(self, *of)
    )
    vectors, joints = lists_and_a_tree(tree)
    decide(joints["mixture"], Seen(vectors))
    assert asked == [40 * 24]


# --------------------------------------------------------------- F1 and Jaccard, 0/1 labels


def f1(y, h, empty=1.0):
    return 2 * (y & h).sum() / (y.sum() + h.sum()) if (y | h).any() else empty


def jaccard(y, h, empty=1.0):
    return (y & h).sum() / (y | h).sum() if (y | h).any() else empty


GAINS = {"f1": f1, "jaccard": jaccard}


GAIN_OF = {**GAINS, **{n: (lambda y, h, loss=loss: -loss(y, h)) for n, loss in LOSSES.items()}}
EMPTY_IS_NOTHING = {"f1": F1(zero_division=0.0), "jaccard": Jaccard(zero_division=0.0)}


@functools.cache
def gains_of_pairs(name, sizes, **options):
    """Gain (v, v) of predicting each vector where each is true."""
    vectors = every_vector(sizes)
    return np.array([[GAIN_OF[name](y, h, **options) for h in vectors] for y in vectors])


def cases(*sizes):
    """Every loss and the sizes of labels that it takes: some are of 0/1 labels only."""
    return [(n, k) for n in sorted(GAIN_OF) for k in sizes if n in LOSSES or max(k) == 2]


def assert_best(joint, name, rule=None, **options):
    """No vector has a larger expected gain than the decision."""
    vectors, prob = probabilities(joint)
    gains = prob @ gains_of_pairs(name, joint.space.cardinalities, **options)
    codes = decide(joint, rule or name)
    own = gains[np.arange(len(codes)), [(vectors == h).all(axis=1).argmax() for h in codes]]
    np.testing.assert_allclose(own, gains.max(axis=1), atol=1e-12)
    return codes


@pytest.mark.parametrize("style", [1.0, "zeros", "ties"])
@pytest.mark.parametrize(("name", "sizes"), cases((3, 2, 4), *((2,) * d for d in (1, 2, 5, 7, 8))))
def test_no_vector_has_a_larger_expected_gain(rng, name, sizes, style):
    assert_best(random_joint(rng, sizes, 4, style), name)


@pytest.mark.parametrize("name", sorted(GAINS))
def test_what_an_empty_row_is_worth(name):
    joint = families.of_marginals(np.full((3, 3), 0.05))
    assert (decide(joint, name) == 0).all()
    assert assert_best(joint, name, EMPTY_IS_NOTHING[name], empty=0.0).any(axis=1).all()


def test_ties_go_to_smaller_sets_and_earlier_labels():
    joint = families.of_marginals([[0.5, 0.5]])
    # all of a, b and {a, b} have an expected F1 of 5/12 to 1/2; {a, b} is best
    np.testing.assert_array_equal(decide(joint, "f1"), [[1, 1]])
    tables = [np.log([[[0.5, 0.5]]]), np.array([[[0.0, -np.inf]] * 2])]
    either = Tree(make_space((2, 2)), [-1, 0], tables)
    np.testing.assert_array_equal(decide(either, "f1"), [[0, 0]])


class Hidden(Tree):
    """A tree that does not know its size marginals and claims to be approximate."""

    exact = APPROXIMATE

    def _size_marginals(self):
        return super(Tree, self)._size_marginals()


@pytest.mark.parametrize("n_labels", [5, 12])
@pytest.mark.parametrize("name", sorted(GAINS))
def test_samplers_decide_nearly_as_well(rng, name, n_labels):
    joint = random_tree(rng, n_labels, n_rows=8)
    draws = joint.sample_codes(4000, rng)

    def value(codes):
        pairs = zip(draws.swapaxes(0, 1), codes, strict=True)
        return np.mean([[GAINS[name](y, h) for y in drawn] for drawn, h in pairs], axis=1)

    by_draws, again = (
        decide(Hidden(joint.space, joint.parents, joint.log_tables), name) for _ in range(2)
    )
    assert (value(by_draws) >= value(decide(joint, name)) - 0.03).all()
    np.testing.assert_array_equal(by_draws, again)


def test_with_many_labels_jaccard_beats_every_candidate(rng):
    joint = random_tree(rng, 12, n_rows=6)
    codes, draws = decide(joint, "jaccard"), sizes.draws_of(joint)
    chosen = mean_overlap(codes[:, None], draws, 1.0)[:, 0]
    others = candidates(joint)
    assert others.shape == (6, 13 + 12 + 1 + 10, 12)
    np.testing.assert_allclose(chosen, mean_overlap(others, draws, 1.0).max(axis=1), atol=1e-12)
    by_loop = [[jaccard(y, h) for y, h in zip(drawn, codes, strict=True)] for drawn in draws]
    np.testing.assert_allclose(chosen, np.mean(by_loop, axis=0), atol=1e-7)
    present = (others == joint.mode_codes()[:, None]).all(axis=2).any(axis=1)
    assert present.all()


@pytest.mark.parametrize("name", sorted(GAINS))
def test_rows_in_chunks_are_decided_alike(rng, name):
    joint = random_tree(rng, 6, n_rows=30)
    whole = decide(joint, name)
    joint.codes_at_once = 6 * 1000 * 7 * 2
    np.testing.assert_array_equal(decide(joint, name), whole)


def test_class_variables_have_no_ones(tree):
    with pytest.raises(ValueError, match=r"'jaccard' counts the ones .* 'y0' has the values"):
        decide(tree, "jaccard")
    answers = LabelSpace(("a",), (np.array(["left", "right"]),), "matrix")
    with pytest.raises(ValueError, match="'a' has the values 'left', 'right'"):
        decide(Independent(answers, [np.log([[0.5, 0.5]])]), "jaccard")
    words = LabelSpace(("a",), (np.array(["no", "yes"]),), "matrix")
    joint = Independent(words, [np.log([[0.1, 0.9]])])
    assert decide(joint, "jaccard").tolist() == [["yes"]]


def test_the_f1_of_class_variables_is_the_hamming_accuracy(tree):
    expected = decide(tree, "hamming")
    np.testing.assert_array_equal(decide(tree, "f1"), expected)
    np.testing.assert_array_equal(decide(tree, "micro_f1"), expected)
    np.testing.assert_allclose(F1().risk(tree), Hamming().risk(tree))


# ------------------------------------------------------------------------ F1 over rows


def f1_of_counts(prob, chosen):
    """F1 of the expected counts, of probabilities and predictions of the same shape."""
    return 2 * (prob * chosen).sum() / max(chosen.sum() + prob.sum(), 1e-300)


def random_probabilities(rng, n_rows, n_labels, ties):
    prob = rng.random((n_rows, n_labels)) ** 2
    return np.round(prob, 1) if ties else prob


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("name", ["micro_f1", "macro_f1"])
def test_no_predictions_of_all_rows_have_a_larger_f1(rng, name, ties):
    every = np.array(list(itertools.product([0, 1], repeat=8))).reshape(-1, 4, 2)
    for _ in range(20):
        prob = random_probabilities(rng, 4, 2, ties)
        found = decide(families.of_marginals(prob), name)

        def value(chosen, prob=prob):
            if name == "micro_f1":
                return f1_of_counts(prob, chosen)
            return np.mean([f1_of_counts(p, c) for p, c in zip(prob.T, chosen.T, strict=True)])

        assert value(found) == pytest.approx(max(map(value, every)), abs=1e-12)


def test_macro_f1_of_class_variables(rng):
    """The ascent ends where no row can be changed to advantage, and mostly at the best of all."""
    every = np.array(list(itertools.product(range(3), repeat=6)))
    n_best = 0
    for _ in range(30):
        prob = rng.dirichlet([2.0, 0.7, 0.3], size=6)

        def value(values, prob=prob):
            columns = zip(prob.T, range(3), strict=True)
            return sum(f1_of_counts(p, values == v) for p, v in columns) / 3

        found = macro_f1_values(prob)
        own = value(found)
        assert own >= value(prob.argmax(axis=1)) - 1e-12
        for row, other in itertools.product(range(6), range(3)):
            changed = found.copy()
            changed[row] = other
            assert value(changed) <= own + 1e-12
        best = max(map(value, every))
        assert own >= 0.9 * best
        n_best += own >= best - 1e-12
    assert n_best >= 20


def test_macro_f1_names_rare_values_of_many_rows(rng):
    """Labels drawn by the probabilities: the real F1 of the macro decision is the larger one."""
    prob = rng.dirichlet([4.0, 0.6, 0.4], size=3000)
    true = (prob.cumsum(axis=1) < rng.random((3000, 1))).sum(axis=1)[:, None]
    joint = Independent(make_space((3,)), [np.log(prob)])
    codes, plain = decide(joint, "macro_f1"), decide(joint, "hamming")
    macro = f1_score(true, codes, average="macro")
    assert macro > f1_score(true, plain, average="macro") + 0.02
    expected = [f1_of_counts(p, codes[:, 0] == v) for v, p in enumerate(prob.T)]
    assert macro == pytest.approx(np.mean(expected), abs=0.03)


def test_values_that_never_occur_and_no_rows():
    prob = np.array([[0.7, 0.3, 0.0], [0.4, 0.6, 0.0]])
    assert macro_f1_values(prob).tolist() == [0, 1]
    assert decide(families.of_marginals(np.zeros((3, 2))), "macro_f1").tolist() == [[0, 0]] * 3
    assert F1OverRows()(families.of_marginals(np.zeros((0, 2)))).shape == (0, 2)
    assert macro_f1_values(np.zeros((0, 3))).shape == (0,)


@pytest.mark.parametrize("n_values", [2, 3])
@pytest.mark.parametrize("name", ["micro_f1", "macro_f1"])
def test_models_decide_over_all_rows_in_parts_of_any_size(rng, name, n_values):
    X = rng.normal(size=(10_000, 3))  # more rows than have a joint at the same time
    Y = np.digitize(
        X @ rng.normal(size=(3, 4)) + rng.logistic(size=(10_000, 4)), range(1, n_values)
    )
    model = BinaryRelevance(C=1.0, decision=name).fit(X[:90], Y[:90])
    whole = decide(model.joint(X), name)
    np.testing.assert_array_equal(model.predict(X), whole)
    assert (whole != decide(model.joint(X), "hamming")).any() or (name, n_values) == ("micro_f1", 3)


def test_f1_over_rows_has_no_risk_of_a_row(tree):
    with pytest.raises(ValueError, match=r"has no risk.*'f1', 'jaccard', 'log'"):
        next_question(tree, "macro_f1")


# ------------------------------------------------------------------------- all of them


def test_every_named_loss_is_tested_and_subset_is_the_default(tree):
    assert {*LOSSES, *GAINS, "micro_f1", "macro_f1"} == set(DECISIONS)
    np.testing.assert_array_equal(decide(tree), tree.mode_codes())


def test_hamming_resolves_ties_as_rounding_does():
    p = np.array([0.5, np.nextafter(0.5, 1), np.nextafter(0.5, 0), 0.0, 1.0])
    with np.errstate(divide="ignore"):
        table = np.log(np.stack([1 - p, p], axis=1))
    # P(y=0) a rounding error below one half must not tip a probability of exactly one half
    table[0, 0] = np.nextafter(table[0, 0], -1)
    joint = Independent(make_space((2,)), [table])
    np.testing.assert_array_equal(decide(joint, "hamming"), np.round(joint.marginals()))
    assert decide(joint, "hamming")[:, 0].tolist() == [0, 1, 0, 0, 1]


def test_decisions_and_functions_are_accepted(tree):
    np.testing.assert_array_equal(decide(tree, Subset()), decide(tree, "subset"))
    np.testing.assert_array_equal(decide(tree, Hamming()), decide(tree, "hamming"))
    np.testing.assert_array_equal(decide(tree, lambda joint: joint.mode()), tree.mode())


def test_decisions_speak_in_the_users_values():
    classes = np.array([1, 2, 3]), np.array(["no", "yes"])
    space = LabelSpace(("stage", "treated"), classes, "matrix")
    joint = Independent(space, [np.log([[0.1, 0.2, 0.7]]), np.log([[0.3, 0.7]])])
    for loss in ("subset", "hamming", Subset(), lambda joint: joint.mode()):
        assert decide(joint, loss).tolist() == joint.mode().tolist() == [[3, "yes"]]
    assert Hamming()(joint).tolist() == [[3, "yes"]]
    with pytest.raises(ValueError, match="stage"):
        decide(joint, lambda joint: np.array([[0, "yes"]], dtype=object))
    of_ones = Independent(make_space((2, 2)), [np.log([[0.6, 0.4]])] * 2)
    for loss in ("f1", "jaccard"):
        assert decide(of_ones, loss).dtype == of_ones.mode().dtype


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        ("zero-one", "no decision for the loss 'zero-one'.*'subset', 'hamming', 'f1', 'micro_f1'"),
        (3, "but it is 3"),
        (
            lambda joint: np.zeros(3, dtype=np.int32),
            r"must return label values of shape \(40, 3\)",
        ),
    ],
)
def test_what_is_no_decision(tree, loss, message):
    with pytest.raises(ValueError, match=message):
        decide(tree, loss)


def test_f1_on_a_greedy_chain_uses_its_exact_sums(rng, monkeypatch):
    """Twelve labels: too many for all vectors of any family, few enough for a chain's sums."""
    tables = [np.log(rng.dirichlet(np.ones(2), size=(4, *(2,) * k))) for k in range(12)]
    space, order = make_space((2,) * 12), rng.permutation(12)
    joint = Chain(space, order, TableLinks.of(tables), inference="greedy")
    assert "mode" not in joint.exact
    monkeypatch.setattr(Chain, "sample_codes", None)  # nothing may be drawn
    vectors, prob = probabilities(joint)
    found = joint.size_marginals()
    for s in range(13):
        mass = np.where(vectors.sum(axis=1) == s, prob, 0.0)
        np.testing.assert_allclose(found.size[:, s], mass.sum(axis=1), atol=1e-12)
        np.testing.assert_allclose(found.with_label[:, :, s], mass @ vectors, atol=1e-12)
    mixture = Mixture([joint, joint.given_codes(np.full((4, 12), -1, dtype=np.int32))])
    np.testing.assert_array_equal(decide(mixture, "f1"), decide(joint, "f1"))
