"""Forests as arrays: the same leaves as scikit-learn's, and nothing that cannot be walked."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.tree import DecisionTreeClassifier

from colabel.core.schema import DECLARED, Node, NotAsDeclaredError, checked, declared_for
from colabel.learn.forest.contents import PlainForest
from colabel.learn.forest.forest import Forest, grow, single_precision, trees_at_once


@pytest.fixture
def rows(rng):
    X = rng.normal(size=(150, 7))
    return X, (X[:, :3] + rng.normal(size=(150, 3)) > 0).astype(int)


def scikit_learns(forest, leaves):
    """Leaves as `apply` numbers them: by node, from each root on."""
    return forest.leaf_nodes[leaves] - forest.roots[:-1]


GROWN = {
    "random": RandomForestClassifier(9, random_state=0),
    "extra": ExtraTreesClassifier(9, min_samples_leaf=3, random_state=0),
    "best first": RandomForestClassifier(9, max_leaf_nodes=8, random_state=0),
    "numbers": RandomForestRegressor(9, random_state=0),
    "stumps and roots": RandomForestClassifier(9, min_samples_leaf=70, random_state=0),
}


@pytest.mark.parametrize("name", GROWN)
def test_leaves_are_scikit_learns(name, rows, rng):
    X, Y = rows
    grown = GROWN[name].fit(X, Y)
    forest = Forest.of(grown)
    # thresholds themselves, and their neighbours, are what rounding could get wrong
    inner = forest.feature >= 0
    edges = rng.normal(size=(inner.sum(), 7)).astype(np.float32)
    edges[np.arange(len(edges)), forest.feature[inner]] = forest.threshold[inner]
    others = [X, rng.normal(size=(1001, 7)), edges, np.nextafter(edges, np.float32(np.inf)), X[:0]]
    for each in others:
        leaves = forest.leaves(each)
        assert leaves.dtype == np.int32
        assert leaves.shape == (len(each), 9)
        if len(each):
            np.testing.assert_array_equal(scikit_learns(forest, leaves), grown.apply(each))
    assert forest.first_leaves[-1] == forest.n_leaves
    first, last = forest.first_leaves[:-1], forest.first_leaves[1:]
    assert ((first <= forest.leaves(X)) & (forest.leaves(X) < last)).all()


def test_one_tree_is_a_forest(rows):
    X, Y = rows
    tree = DecisionTreeClassifier(random_state=0).fit(X, Y)
    forest = Forest.of(tree)
    np.testing.assert_array_equal(scikit_learns(forest, forest.leaves(X))[:, 0], tree.apply(X))


@pytest.mark.parametrize("width", [7, 300_000])
def test_sparse_rows_end_in_the_same_leaves(width, rng):
    X = sp.random_array((60, width), density=min(0.5, 50 / width), random_state=rng, format="csr")
    X.data -= 0.4
    Y = np.asarray(X[:, :3].toarray() > 0, dtype=int)
    grown = RandomForestClassifier(5, max_features=5, random_state=0).fit(X, Y)
    forest = Forest.of(grown)
    assert (scikit_learns(forest, forest.leaves(X)) == grown.apply(X)).all()
    assert (forest.leaves(X, n_jobs=2) == forest.leaves(X, n_jobs=1)).all()


@pytest.mark.parametrize("kind", [RandomForestClassifier, ExtraTreesClassifier])
def test_missing_features_go_where_scikit_learn_sends_them(kind, rows, rng):
    X, Y = rows
    X[rng.random(X.shape) < 0.3] = np.nan
    X[:, 0] = np.where(Y[:, 0] == 1, np.nan, 0.0)  # told by what is missing alone
    grown = kind(20, random_state=0).fit(X, Y)
    forest = Forest.of(grown)
    assert np.isfinite(forest.threshold).all()
    other = np.where(rng.random((200, 7)) < 0.4, np.nan, rng.normal(size=(200, 7)))
    np.testing.assert_array_equal(scikit_learns(forest, forest.leaves(other)), grown.apply(other))


def test_other_rows_are_refused(rows):
    X, Y = rows
    forest, _ = grow(X, Y, n_estimators=2)
    with pytest.raises(ValueError, match="X has 3 columns, but the forest was grown on 7"):
        forest.leaves(X[:, :3])
    with pytest.raises(ValueError, match=r"beyond 3\.4e\+38"):
        forest.leaves(X * 1e40)
    assert single_precision(np.full((1, 1), np.nan)).dtype == np.float32


# -------------------------------------------------------------------------------- growing


@pytest.mark.parametrize("kind", ["random", "extra"])
def test_rows_out_of_bag_do_not_change_the_tree(kind, rows):
    X, Y = rows
    options = {"kind": kind, "n_estimators": 6, "random_state": 3}
    grown = grow(X, Y, **options)
    assert grown.in_bag.shape == (150, 6)
    assert (grown.in_bag.sum(axis=0) == 150).all()
    for tree in range(6):
        unseen = grown.out_of_bag[:, tree]
        assert 30 < unseen.sum() < 80
        other = grow(X, np.where(unseen[:, None], 1 - Y, Y), **options)
        same = slice(grown.forest.roots[tree], grown.forest.roots[tree + 1])
        moved = slice(other.forest.roots[tree], other.forest.roots[tree + 1])
        assert (grown.forest.threshold[same] == other.forest.threshold[moved]).all()


def test_numbers_of_0_and_1_give_the_classes_forest(rows):
    X, Y = rows
    one, two = (grow(X, Y.astype(kind), n_estimators=4).forest.leaves(X) for kind in (int, float))
    assert (one == two).mean() > 0.9  # ties between cuts are broken by rounding


def test_the_number_of_threads_changes_nothing(rows):
    X, Y = rows
    one, two = (grow(X, Y, n_estimators=5, n_jobs=n) for n in (1, 2))
    assert (one.in_bag == two.in_bag).all()
    assert (one.forest.leaves(X, 2) == two.forest.leaves(X, 1)).all()


@pytest.mark.filterwarnings("error")
def test_as_many_vectors_as_rows_are_no_concern(rng):
    grow(rng.normal(size=(30, 2)), np.arange(30), n_estimators=4)


def test_columns_far_from_zero_are_told_apart(rng):
    X = rng.normal(size=(60, 3))
    y = (X[:, 0] > 0).astype(int)
    away = np.array([1e8, 0.0, 0.0])
    near, far = (grow(rows, y, n_estimators=5)[0] for rows in (X, X + away))
    assert near.shift is None
    assert far.shift[0] > 9e7
    assert far.shift[1:].tolist() == [0.0, 0.0]
    assert (far.leaves(X + away) == near.leaves(X)).mean() > 0.95


@pytest.mark.parametrize("many", [1, 3])
def test_trees_grown_a_few_at_a_time_are_those_of_scikit_learn(rows, many):
    X, labels = rows
    targets = labels if many == 3 else labels[:, 0]
    forest, in_bag = grow(X, targets, n_estimators=45, random_state=3)  # by 20, 20 and 5
    plain = RandomForestClassifier(45, random_state=3).fit(X.astype(np.float32), targets)
    np.testing.assert_array_equal(forest.threshold, Forest.of(plain).threshold)
    drawn = [np.bincount(own, minlength=len(X)) for own in plain.estimators_samples_]
    np.testing.assert_array_equal(in_bag.T, drawn)


def test_few_trees_at_once_where_their_nodes_hold_many_classes():
    vectors = np.arange(3000)
    assert trees_at_once(6000, vectors[np.arange(6000) % 3000], 2) == 2
    assert trees_at_once(6000, np.zeros((6000, 5), dtype=int), 2) == 20


def test_an_unknown_kind_is_named(rows):
    with pytest.raises(ValueError, match="kind='rotten' is not known"):
        grow(*rows, kind="rotten")


# ------------------------------------------------------------------------ damaged forests


@pytest.fixture
def fields(rows):
    forest, _ = grow(*rows, n_estimators=3, min_samples_leaf=20)
    return {name: np.copy(v) for name, v in declared_for(forest).take(forest).items()} | {
        "n_features": 7,
        "shift": None,
    }


def damaged(fields, match, tag="forest"):
    with pytest.raises(NotAsDeclaredError, match=match):
        checked(DECLARED[tag], fields)


def test_a_whole_forest_is_accepted(fields):
    dims = checked(DECLARED["forest"], fields)
    assert dims["trees"] == 3
    assert dims["leaves"] == (fields["feature"] < 0).sum()


def leaf(fields):
    return np.flatnonzero(fields["feature"] < 0)[0]


def inner(fields):
    return np.flatnonzero(fields["feature"] >= 0)[1]


CHILD_LATER, LEAF_OR_SPLIT = "do not come after it in its tree", "neither a leaf without"
DAMAGES = {
    "a child out of range": ("children", (0, 1), lambda f: len(f["feature"]), "between -1"),
    "a child in another tree": ("children", (0, 1), lambda f: f["roots"][1] + 1, CHILD_LATER),
    "a cycle": ("children", lambda f: (inner(f), 0), lambda f: inner(f), CHILD_LATER),
    "two parents": ("children", (0, 1), lambda f: f["children"][0, 0], "has no parent, or two"),
    "a leaf with a child": ("children", lambda f: leaf(f), [1, -1], LEAF_OR_SPLIT),
    "a split with one child": ("children", (0, 0), -1, LEAF_OR_SPLIT),
    "a feature too high": ("feature", 0, 7, "between -1 and 6"),
    "a feature too low": ("feature", 0, -2, "between -1 and 6"),
    "NaN": ("threshold", 0, np.nan, "not between"),
    "infinity": ("threshold", 0, np.inf, "not between"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_forests_are_refused(fields, damage):
    name, *at, match = DAMAGES[damage]
    place, value = (each(fields) if callable(each) else each for each in at)
    fields[name][place] = value
    damaged(fields, match)


@pytest.mark.parametrize("spoil", ["none", "empty", "first", "last", "order"])
def test_trees_that_do_not_follow_one_another_are_refused(fields, spoil):
    roots = fields["roots"]
    fields["roots"] = {
        "none": roots[:0],
        "empty": roots[:1],
        "first": roots + 1,
        "last": roots[:-1],
        "order": roots[[0, 2, 1, 3]],
    }[spoil]
    damaged(fields, "trees do not follow one another|does not ascend|not between")


def test_what_is_missing_must_be_true_or_false(fields):
    fields["missing_left"] = fields["missing_left"].astype(int)
    damaged(fields, r"missing_left is .*, not an array of bool")


# ------------------------------------------------------------------ classifiers as plain arrays


@pytest.mark.parametrize("name", ["random", "extra", "best first", "stumps and roots"])
@pytest.mark.parametrize("labels", ["two", "three", "texts"])
def test_plain_forests_answer_as_the_classifiers_do(name, labels, rows):
    X, Y = rows
    y = {"two": Y[:, 0], "three": Y.sum(axis=1) % 3, "texts": np.array(["no", "yes"])[Y[:, 0]]}
    grown = clone(GROWN[name]).fit(X, y[labels])
    plain = PlainForest.of(grown)
    np.testing.assert_allclose(plain.predict_proba(X), grown.predict_proba(X), rtol=0, atol=1e-15)
    np.testing.assert_array_equal(plain.predict(X), grown.predict(X))


def test_probabilities_that_do_not_sum_to_one_are_refused(rows):
    X, Y = rows
    plain = PlainForest.of(RandomForestClassifier(3, random_state=0).fit(X, Y[:, 0]))
    dims = {"leaves": plain.forest_.n_leaves, "p": 7}
    fields = {
        **declared_for(plain).take(plain),
        "forest_": Node(DECLARED["forest"], {}, dims),
    }
    assert checked(DECLARED["plain-forest"], fields)["fitted"]
    tag, prob = "plain-forest", plain.probabilities_
    for value, match in (
        (0.7, "do not sum to one"),
        (np.nan, "not between"),
        (-0.5, "not between"),
    ):
        wrong = prob.copy()
        wrong[0, 0] = value
        damaged({**fields, "probabilities_": wrong}, match, tag)
    damaged({**fields, "probabilities_": prob[1:]}, "axis 0", tag)
    damaged({**fields, "classes_": np.arange(3)}, "classes_", tag)
