"""BayesNetEnsemble against products over its members, written out."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from colabel import BayesNetEnsemble
from colabel.joint.vectors import WrittenOut
from colabel.models.bayes_nets import FeatureFactor
from tests.asserts import assert_each_close

SIZES = (2, 3, 2)


@pytest.fixture
def rows(rng):
    """Discrete features that follow from one label, from two, and from none."""
    Y = np.stack([rng.integers(0, k, 200) for k in SIZES], axis=1)
    Y[:, 2] = np.where(rng.random(200) < 0.8, Y[:, 0], Y[:, 2])
    X = np.stack(
        [
            np.where(rng.random(200) < 0.7, Y[:, 1], rng.integers(0, 3, 200)),
            np.where(rng.random(200) < 0.8, Y[:, 0] ^ Y[:, 2], rng.integers(0, 2, 200)),
            rng.integers(0, 3, 200),
            np.where(rng.random(200) < 0.9, Y[:, 0] + Y[:, 1], 0),
        ],
        axis=1,
    )
    return X, Y


def frequencies(columns, sizes, smoothing):
    """Smoothed P(last | others) from loops: dictionary of the others' values to a list."""
    tables = {}
    for above in itertools.product(*map(range, sizes[:-1])):
        counts = [smoothing] * sizes[-1]
        for row in zip(*columns, strict=True):
            if tuple(row[:-1]) == above:
                counts[row[-1]] += 1
        tables[above] = [c / sum(counts) for c in counts]
    return tables


def member(model, X, Y, root, x):
    """P(y, x) of one member for all y, from the formula."""
    s = model.smoothing_
    n_values = [int(column.max()) + 2 for column in X.T]  # with the value never seen
    found = {}
    for y in itertools.product(*map(range, SIZES)):
        p = frequencies([Y[:, root]], [SIZES[root]], s)[()][y[root]]
        for i in range(3):
            if i != root:
                pair = frequencies([Y[:, root], Y[:, i]], [SIZES[root], SIZES[i]], s)
                p *= pair[(y[root],)][y[i]]
        for j, parents in enumerate(model.feature_parents_):
            table = frequencies(
                [*(Y[:, i] for i in parents), X[:, j]],
                [*(SIZES[i] for i in parents), n_values[j]],
                s,
            )
            p *= table[tuple(y[i] for i in parents)][x[j]]
        found[y] = p
    return found


@pytest.mark.parametrize(
    ("data", "max_parents", "parents"),
    [
        ("rows", 2, ((1,), (0, 2), (), (0, 1))),
        ("of_three", 4, ((0, 1, 2), (1,), (0, 2), (0, 1, 2))),
    ],
)
def test_parents_joint_members_and_pooled_marginals_by_the_formulas(
    request, data, max_parents, parents
):
    X, Y = request.getfixturevalue(data)
    model = BayesNetEnsemble(None, max_parents=max_parents, smoothing=0.7).fit(X, Y)
    assert model.feature_parents_ == parents
    x = X[7]
    members = [member(model, X, Y, root, x) for root in range(3)]
    vectors = np.array(list(members[0]))
    prob = np.array([list(m.values()) for m in members])
    prob /= prob.sum(axis=1, keepdims=True)
    joints = model.member_joints(x[None])
    assert len(joints) == 3
    for joint, expected in zip(joints, prob, strict=True):
        found = [joint.log_prob(y)[0] for y in vectors]
        np.testing.assert_allclose(found, np.log(expected))
    pooled = np.prod(prob, axis=0) ** (1 / 3)  # the joint is the geometric mean of the members
    pooled /= pooled.sum()
    joint = model.joint(x[None])
    assert joint.exact.all
    found = [joint.log_prob(y)[0] for y in vectors]
    np.testing.assert_allclose(found, np.log(pooled), atol=1e-9)
    np.testing.assert_array_equal(joint.mode()[0], vectors[pooled.argmax()])
    for i, table in enumerate(model.pooled_marginals(x[None])):
        marginals = [prob[:, vectors[:, i] == v].sum(axis=1) for v in range(SIZES[i])]
        mean = np.prod(marginals, axis=1) ** (1 / 3)
        np.testing.assert_allclose(table[0], mean / mean.sum())
    listed = np.concatenate([factor.features for factor in model.factors_])
    assert sorted(listed.tolist()) == [0, 1, 2, 3]  # every feature once
    for factor in model.factors_:
        assert isinstance(factor, FeatureFactor)
        for table in factor.log_tables:
            np.testing.assert_allclose(np.exp(table).sum(axis=1), 1.0)


def test_one_label_is_naive_bayes(rng):
    y = rng.integers(0, 3, size=(80, 1))
    X = np.column_stack([(y[:, 0] + rng.integers(0, 2, 80)) % 3, y[:, 0] > 0])
    model = BayesNetEnsemble(None, smoothing=1.0).fit(X, y)
    assert model.feature_parents_ == ((0,), (0,))
    prob = (np.bincount(y[:, 0]) + 1.0) / 83
    for j, size in ((0, 4), (1, 3)):
        table = np.array(
            [(np.bincount(X[y[:, 0] == v, j], minlength=size) + 1.0) for v in range(3)]
        )
        prob = prob * (table / table.sum(axis=1, keepdims=True))[:, X[0, j]]
    np.testing.assert_allclose(model.joint(X[:1]).marginals()[0][0], prob / prob.sum())


def test_the_number_of_parents_can_be_limited(rows):
    for most in (0, 1):
        model = BayesNetEnsemble(None, max_parents=most, smoothing=1.0).fit(*rows)
        assert max(map(len, model.feature_parents_)) == most
    with pytest.raises(ValueError, match="max_parents=-1 must be an integer"):
        BayesNetEnsemble(max_parents=-1).fit(*rows)


@pytest.fixture
def of_three(rng):
    """Features that follow from three labels at once, besides those of one and of two."""
    Y = np.stack([rng.integers(0, k, 900) for k in SIZES], axis=1)
    parity = Y.sum(axis=1) % 2
    X = np.stack(
        [
            np.where(rng.random(900) < 0.9, parity, rng.integers(0, 2, 900)),
            np.where(rng.random(900) < 0.7, Y[:, 1], rng.integers(0, 3, 900)),
            np.where(rng.random(900) < 0.8, Y[:, 0] ^ Y[:, 2], rng.integers(0, 2, 900)),
            np.where(rng.random(900) < 0.8, 2 * parity + (Y[:, 1] == 2), 0),
        ],
        axis=1,
    )
    return X, Y


def test_more_parents_help_where_features_follow_from_three_labels(of_three):
    X, Y = of_three
    two, four = (
        BayesNetEnsemble(None, max_parents=most, smoothing=1.0).fit(X[:600], Y[:600])
        for most in (2, 4)
    )
    assert four.score(X[600:], Y[600:]) > two.score(X[600:], Y[600:]) + 0.03


def test_vectors_written_out_are_those_of_the_field(rows):
    X, Y = rows
    model = BayesNetEnsemble(None, smoothing=0.7).fit(X, Y)
    field = model.joint(X)
    scores = model._fitted_tables().vector_scores(model.features_.codes(X))
    listed = WrittenOut(model.label_space_, scores.__getitem__, len(X))
    np.testing.assert_allclose(listed.log_prob(Y), field.log_prob(Y), atol=1e-9)
    assert_each_close(listed.marginals(), field.marginals(), atol=1e-9)


def test_more_parents_than_two_need_few_label_vectors(rng):
    Y = rng.integers(0, 2, size=(40, 15))
    with pytest.raises(ValueError, match="15 labels have 32,768 of them, more than 16,384"):
        BayesNetEnsemble(max_parents=3).fit(rng.normal(size=(40, 2)), Y)


def test_the_smoothing_is_chosen(rows):
    assert BayesNetEnsemble(None, random_state=0).fit(*rows).smoothing_ in (0.01, 0.1, 1.0)
    sure = np.repeat(np.eye(6, dtype=int), 8, axis=0)
    assert BayesNetEnsemble(None, random_state=0).fit(sure, sure).smoothing_ == 0.01


def test_the_decision_by_pooled_marginals(rng):
    X = rng.integers(0, 3, size=(90, 4)).astype(float)
    Y = (X[:, :3] + rng.integers(0, 2, size=(90, 3)) > 1.5).astype(int)
    model = BayesNetEnsemble(None, smoothing=1.0, decision="pooled").fit(X, Y)
    np.testing.assert_array_equal(model.predict(X), model.pooled_marginals(X) > 0.5)
    classes = BayesNetEnsemble(None, smoothing=1.0, decision="pooled").fit(X, Y.astype(str))
    np.testing.assert_array_equal(classes.predict(X), model.predict(X).astype(str))
    with pytest.raises(ValueError, match="no decision for the loss 'poled'"):
        BayesNetEnsemble(None, decision="poled").fit(X, Y)
