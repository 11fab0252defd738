"""JointForest against loops over scikit-learn's own trees, out of bag too."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.ensemble import RandomForestClassifier

from colabel import JointForest
from colabel.joint import Independent, Mixture, Tree, VectorList
from colabel.labels import LabelSpace
from colabel.learn.conditional import TrainingData
from colabel.learn.forest.forest import Forest, Grown
from colabel.models.forest.joint_forest import learn
from colabel.models.forest.vector_forest import (
    Evidence,
    RowVectors,
    VectorForest,
    VectorPool,
    leaf_lists,
    smooth_tables,
)
from tests.asserts import assert_each_close

SIZES = (2, 3, 2)
SHARE = 0.02  # of the frequencies in what is smoothed


def drawn(rng, n):
    """Rows (n, 4), and codes of three variables that depend on each other."""
    X = rng.normal(size=(n, 4))
    first = X[:, 0] + 0.5 * rng.normal(size=n) > 0
    second = 1 * first + (X[:, 1] + rng.normal(size=n) > 0)
    third = (second > 0) ^ (rng.random(n) < 0.2)
    return X, np.stack([first, second, third], axis=1).astype(np.int32)


@pytest.fixture
def rows(rng):
    return drawn(rng, 80)


@pytest.fixture
def grown(rows, rng):
    """Trees of scikit-learn, how often they drew each row, and weights of rows."""
    X, codes = rows
    forest = RandomForestClassifier(11, min_samples_leaf=3, random_state=0).fit(X, codes)
    in_bag = np.zeros((80, 11), dtype=np.uint16)
    for tree, drawn in enumerate(forest.estimators_samples_):
        in_bag[:, tree] = np.bincount(drawn, minlength=80)
    return forest, in_bag, rng.uniform(0.3, 2.5, size=80)


def slow_list(forest, X, codes, weight, x, trees, without=None, taken=0.0):
    """Mean over trees of the label vectors in the leaf of x: {vector: probability}."""
    found: dict[tuple[int, ...], float] = {}
    for t in trees:
        tree = forest.estimators_[t]
        leaf = tree.apply(x[None].astype(np.float32))[0]
        own = weight * (tree.apply(X.astype(np.float32)) == leaf)
        if without is not None:
            own[without] -= taken
        for row in np.flatnonzero(own > 0):
            vector = tuple(codes[row].tolist())
            found[vector] = found.get(vector, 0.0) + own[row] / own.sum() / len(trees)
    return found


def as_dict(lists, vectors, row):
    part = lists[[row]]
    return {
        tuple(vectors[v].tolist()): p for v, p in zip(part.indices, part.data, strict=True) if p
    }


def filled(grown, rows):
    X, codes = rows
    forest, in_bag, weight = grown
    own = Grown(Forest.of(forest), in_bag)
    vectors = RowVectors.of(codes, weight)
    leaves = own.forest.leaves(X)
    return VectorForest.of(own.forest, SIZES, leaves, vectors, weight), own, leaves, vectors


def test_lists_are_the_mean_of_the_leaves(grown, rows, rng):
    X, codes = rows
    forest, _, weight = grown
    made = filled(grown, rows)[0]
    new = rng.normal(size=(6, 4))
    found = made.lists(new)
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    for row, x in enumerate(new):
        expected = slow_list(forest, X, codes, weight, x, range(11))
        assert as_dict(found, made.vectors, row) == pytest.approx(expected)


def test_out_of_bag_lists_know_nothing_of_the_row(grown, rows):
    X, codes = rows
    forest, in_bag, weight = grown
    in_bag[7] = 1  # a row that all trees have seen
    made, own, leaves, vectors = filled(grown, rows)
    taken = np.minimum(weight, 1.0)
    found = made.out_of_bag_lists(own, leaves, vectors, taken)
    for row in (0, 7, 31, 79):
        unseen = np.flatnonzero(in_bag[row] == 0)
        expected = slow_list(forest, X, codes, weight, X[row], unseen, row, taken[row])
        assert as_dict(found, made.vectors, row) == pytest.approx(expected)
    assert not as_dict(found, made.vectors, 7)


def slow_smoothed(near, codes, weight, holds, n_cells, without=None, taken=0.0):
    """(1 - e) P(A | x) + e (n(A) + a) / (n + 1)."""
    counts = weight.copy()
    if without is not None:
        counts[without] -= taken
    inside = np.array([holds(y) for y in codes.tolist()])
    far = (counts[inside].sum() + 1 / n_cells) / (counts.sum() + 1)
    share = SHARE if near else 1.0
    return (1 - share) * sum(p for y, p in near.items() if holds(y)) + share * far


def slow_parts(near, codes, weight, parents, y, without=None, taken=0.0):
    """P(y) under the independent part and under the tree."""

    def smoothed(holds, n_cells):
        return slow_smoothed(near, codes, weight, holds, n_cells, without, taken)

    alone, tree = 1.0, 1.0
    for i, parent in enumerate(parents):
        own = smoothed(lambda v, i=i: v[i] == y[i], SIZES[i])
        alone *= own
        if parent < 0:
            tree *= own
            continue
        cells = [
            smoothed(
                lambda v, i=i, j=parent, k=k: v[j] == y[j] and v[i] == k, SIZES[i] * SIZES[parent]
            )
            for k in range(SIZES[i])
        ]
        tree *= cells[y[i]] / sum(cells)
    return alone, tree


def test_smooth_parts_and_gains_of_pairs_out_of_bag(grown, rows):
    X, codes = rows
    forest, in_bag, weight = grown
    made, own, leaves, vectors = filled(grown, rows)
    taken = np.minimum(weight, 1.0)
    lists = made.out_of_bag_lists(own, leaves, vectors, taken)
    removed = sp.csr_array(sp.diags_array(taken) @ vectors.shares)
    evidence = Evidence(lists, made.vectors, made.counts, SIZES, removed)
    parents = np.array([-1, 0, 1])
    smooth = smooth_tables(evidence, parents)
    space = LabelSpace(("a", "b", "c"), tuple(np.arange(k) for k in SIZES), "matrix")
    alone = Independent(space, smooth.values).log_prob_codes(codes)
    tree = Tree(space, parents, smooth.tree).log_prob_codes(codes)
    gains = np.zeros((3, 3))
    for row in range(80):
        unseen = np.flatnonzero(in_bag[row] == 0)
        near = slow_list(forest, X, codes, weight, X[row], unseen, row, taken[row])
        y = codes[row].tolist()
        expected = slow_parts(near, codes, weight, parents, y, row, taken[row])
        assert (np.exp(alone[row]), np.exp(tree[row])) == pytest.approx(expected)
        for i, j in itertools.combinations(range(3), 2):
            p = [
                slow_smoothed(near, codes, weight, holds, cells, row, taken[row])
                for holds, cells in (
                    (lambda v, i=i, j=j, y=y: (v[i], v[j]) == (y[i], y[j]), SIZES[i] * SIZES[j]),
                    (lambda v, i=i, y=y: v[i] == y[i], SIZES[i]),
                    (lambda v, j=j, y=y: v[j] == y[j], SIZES[j]),
                )
            ]
            gains[i, j] += weight[row] * np.log(p[0] / (p[1] * p[2])) / weight.sum()
    np.testing.assert_allclose(evidence.pair_gains(codes, weight, 1), gains + gains.T)


def test_the_pool_is_a_product_of_powers(grown, rows):
    X, codes = rows
    forest, _, weight = grown
    made = filled(grown, rows)[0]
    evidence = Evidence(made.lists(X[:3]), made.vectors, made.counts, SIZES)
    parents = np.array([-1, 0, 1])
    pool = VectorPool(evidence, smooth_tables(evidence, parents), parents)
    space = LabelSpace(("a", "b", "c"), tuple(np.arange(k) for k in SIZES), "matrix")
    powers = np.array([0.7, 0.2, -0.5, 0.6, 0.3])
    joint = pool.joint(space, powers)
    n = weight.sum()
    for row in range(3):
        near = slow_list(forest, X, codes, weight, X[row], range(11))
        scores = []
        for v in made.vectors.tolist():
            alone, tree = slow_parts(near, codes, weight, parents, v)
            count = weight[(codes == v).all(axis=1)].sum()
            seen = [weight[codes[:, i] == v[i]].sum() for i in range(3)]
            usual = np.prod([(seen[i] + 1 / SIZES[i]) / (n + 1) for i in range(3)])
            far = (count + 1 / len(made.vectors)) / (n + 1)
            leaf = (1 - SHARE) * near.get(tuple(v), 0.0) + SHARE * far
            scores.append(powers @ np.log([alone, tree, usual, count, leaf]))
        expected = np.exp(scores) / np.exp(scores).sum()
        found = [np.exp(joint.log_prob(v)[row]) for v in made.vectors]
        np.testing.assert_allclose(found, expected)


def test_weights_and_log_loss_are_those_out_of_bag(rows):
    X, codes = rows
    model = JointForest(60, random_state=0).fit(X, codes)
    assert model.weights_.sum() == pytest.approx(1.0)
    # honest: near what new rows get, far above what the training rows themselves would
    new, labels = drawn(np.random.default_rng(5), 3000)
    loss = -model.joint(new).log_prob(labels).mean()
    assert model.oob_log_loss_ == pytest.approx(loss, abs=0.3)
    assert -model.joint(X).log_prob(codes).mean() < model.oob_log_loss_ - 0.2


def test_the_joint_is_a_mixture_that_excludes_nothing(rows):
    X, codes = rows
    model = JointForest(20, random_state=0).fit(X, codes)
    joint = model.joint(X[:5])
    assert isinstance(joint, Mixture)
    assert joint.exact.all
    every = itertools.product(*map(range, SIZES))
    assert (np.array([joint.log_prob(list(y)) for y in every]) > -np.inf).all()
    assert len(model.vectors_) == len(np.unique(codes, axis=0))
    np.testing.assert_array_equal(model.label_graph().parents, model.tree_)


def test_dependent_labels_are_joined(rng):
    X = rng.normal(size=(300, 3))
    hidden = rng.random(300) < 0.5
    Y = np.stack([hidden, X[:, 0] > 0, hidden ^ (rng.random(300) < 0.1)], axis=1).astype(int)
    model = JointForest(40, random_state=0).fit(X, Y, label_names=["a", "b", "c"])
    edges = {frozenset(e) for e in model.label_graph().ends.tolist()}
    assert frozenset((0, 2)) in edges
    assert model.pair_gains_[0, 2] > 0.2
    assert (model.joint(X).given({"a": 1}).marginals()[:, 2] > 0.7).mean() > 0.8


@pytest.mark.parametrize("target", ["labels", "vectors", "auto"])
@pytest.mark.parametrize("kind", ["random", "extra"])
def test_targets_and_kinds(target, kind, rows):
    X, codes = rows
    model = JointForest(15, target=target, kind=kind, random_state=0).fit(X, codes)
    assert model.score(X, codes) > 0.5
    if target == "auto":
        losses = {
            each: JointForest(15, target=each, kind=kind, random_state=0).fit(X, codes)
            for each in ("labels", "vectors")
        }
        assert model.oob_log_loss_ == min(each.oob_log_loss_ for each in losses.values())
        assert losses[model.target_].oob_log_loss_ == model.oob_log_loss_
    else:
        assert model.target_ == target


# ------------------------------------------------------------------------- missing labels


def test_missing_labels_cost_little(rng):
    X = rng.normal(size=(400, 4))
    Y = (X[:, :3] + 0.3 * rng.normal(size=(400, 3)) > 0).astype(float)
    holes = np.where(rng.random(Y.shape) < 0.2, np.nan, Y)
    whole = ~np.isnan(holes).any(axis=1)
    new = rng.normal(size=(500, 4))
    truth = (new[:, :3] > 0).astype(float)
    model = JointForest(60, random_state=0)
    with_holes = model.fit(X, holes).joint(new).log_prob(truth).mean()
    complete_only = model.fit(X[whole], Y[whole]).joint(new).log_prob(truth).mean()
    assert with_holes > complete_only
    none_known = np.full((5, 3), np.nan)
    again = model.fit(np.vstack([X, X[:5]]), np.vstack([holes, none_known]))
    assert again.joint(new).log_prob(truth).mean() == pytest.approx(with_holes)


def test_no_complete_row(rng):
    X = rng.normal(size=(200, 2))
    Y = np.full((200, 2), np.nan)
    Y[:100, 0], Y[100:, 1] = X[:100, 0] > 0, X[100:, 1] > 0
    model = JointForest(30, random_state=0).fit(X, Y)
    assert ((model.predict_proba(X)[:, 0] > 0.5) == (X[:, 0] > 0)).mean() > 0.7


# --------------------------------------------------------------------------- odd problems


def test_one_label_of_several_values(rng):
    X = rng.normal(size=(120, 2))
    y = np.array(["low", "mid", "high"])[np.digitize(X[:, 0], [-0.5, 0.5])]
    model = JointForest(30, random_state=0).fit(X, y)
    assert (model.predict(X) == y).mean() > 0.9
    assert model.weights_[2] == 0.0


def test_sparse_rows_and_missing_features(rows):
    X, codes = rows
    X = np.where(np.abs(X) < 0.5, 0.0, X)
    dense = JointForest(10, random_state=0).fit(X, codes)
    sparse = JointForest(10, random_state=0).fit(sp.csr_array(X), codes)
    assert_each_close(dense.predict_proba(X), sparse.predict_proba(X))
    holes = np.where(X == 0.0, np.nan, X)
    model = JointForest(10, random_state=0).fit(holes, codes)
    assert model.score(holes, codes) > 0.4
    for table in model.predict_proba(np.full((1, X.shape[1]), np.nan)):
        np.testing.assert_allclose(table.sum(), 1.0)


def test_rows_without_a_list_have_the_frequencies():
    lists = sp.csr_array(np.array([[0.0, 0.0], [1.0, 0.0]]))
    vectors = np.array([[0, 0], [1, 1]], dtype=np.int32)
    evidence = Evidence(lists, vectors, np.array([1.0, 3.0]), (2, 2))
    space = LabelSpace(("a", "b"), (np.arange(2), np.arange(2)), "matrix")
    joint = leaf_lists(evidence, space)
    assert isinstance(joint, VectorList)
    np.testing.assert_allclose(joint.marginals()[:, 0], [0.75, 0.0])


def learned(rows, own, **options):
    X, codes = rows
    space = LabelSpace(("a", "b", "c"), tuple(np.arange(k) for k in SIZES), "matrix")
    vectors = RowVectors.of(codes, np.ones(80))
    return learn(own, TrainingData(X, codes, SIZES), vectors, space, 1, **options)


def test_a_forest_that_saw_everything_has_no_log_loss(rows):
    trees = RandomForestClassifier(3, bootstrap=False, random_state=0).fit(*rows)
    found = learned(rows, Grown(Forest.of(trees), np.ones((80, 3), dtype=np.uint16)))
    assert found.log_loss is None
    assert found.weights.sum() == pytest.approx(1.0)


def test_without_room_for_the_tables_of_a_tree_there_is_none(rows, grown):
    own = Grown(Forest.of(grown[0]), grown[1])
    parents = learned(rows, own).parents
    assert (parents >= 0).any()
    cells = sum(SIZES[i] * SIZES[p] for i, p in enumerate(parents) if p >= 0)
    np.testing.assert_array_equal(learned(rows, own, most_cells=80 * cells).parents, parents)
    without = learned(rows, own, most_cells=80 * cells - 1)
    assert (without.parents < 0).all()
    assert without.log_loss < learned(rows, own).log_loss + 0.1
