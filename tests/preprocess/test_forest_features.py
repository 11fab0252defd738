"""ForestFeatures: against a slow version, honest for its own rows, and scikit-learn's contract."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from colabel import CTBN, BinaryRelevance, BoostedFeatures, ForestFeatures, joint_of

# Strict: a check that begins to pass, or another that begins to fail, is news.
FAILS = {
    "check_transformer_general": "fit_transform is out of bag, transform by all trees",
    "check_transformer_data_not_an_array": "fit_transform is out of bag, transform by all trees",
    "check_sample_weight_equivalence_on_dense_data": "a row written twice is drawn anew",
    "check_sample_weight_equivalence_on_sparse_data": "a row written twice is drawn anew",
}


@parametrize_with_checks(
    [
        ForestFeatures(10, random_state=0),
        ForestFeatures(10, passthrough=True, random_state=0),
        BoostedFeatures(10, random_state=0),
    ],
    expected_failed_checks=lambda estimator: FAILS,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.fixture
def table(rng):
    """Draw 150 rows of four features; three labels that follow an XOR, a step and chance."""
    X = rng.normal(size=(150, 4))
    Y = np.stack(
        [
            X[:, 0] * X[:, 1] > 0,
            np.abs(X[:, 2]) + 0.3 * rng.normal(size=150) > 0.7,
            rng.random(150) < 0.3,
        ],
        axis=1,
    ).astype(int)
    return X, Y


def features(n_estimators=40, **options):
    """Without X, and of few trees with the best cuts: they need fewer rows to see an XOR."""
    quick = {"kind": "random", "passthrough": False, "random_state": 0}
    return ForestFeatures(n_estimators, **{**quick, **options})


def slow_log_odds(model, X_train, Y_train, X, own=None):
    """Average frequencies of the training rows in the same leaf, one tree at a time."""
    forest = model.forest_.forest
    train, new = forest.leaves(X_train), forest.leaves(X)
    prior = (Y_train.sum(axis=0) + 1) / (len(Y_train) + 2)
    found = np.zeros((len(X), Y_train.shape[1]))
    for row in range(len(X)):
        for tree in range(forest.n_trees):
            inside = train[:, tree] == new[row, tree]
            found[row] += (Y_train[inside].sum(axis=0) + prior) / (inside.sum() + 1)
    found /= forest.n_trees
    return np.log(found / (1 - found))


def test_new_rows_have_the_log_odds_of_average_frequencies(table, rng):
    X, Y = table
    new = rng.normal(size=(20, 4))
    model = features().fit(X, Y)
    np.testing.assert_allclose(
        model.transform(new), slow_log_odds(model, X, Y, new), rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize("options", [{}, {"cv": 3}], ids=["out of bag", "cross-fitted"])
def test_training_rows_are_described_by_trees_that_have_not_seen_them(table, options):
    """The label that is chance stays chance, which in-sample frequencies would give away."""
    X, Y = table
    model = features(**options)
    honest, plain = model.fit_transform(X, Y), model.transform(X)
    assert honest.shape == plain.shape == (150, 3)
    noise = Y[:, 2] == 1
    gap = np.array([part[noise, 2].mean() - part[~noise, 2].mean() for part in (honest, plain)])
    assert abs(gap[0]) < 0.5 * gap[1]
    np.testing.assert_array_equal(model.transform(X), clone(model).fit(X, Y).transform(X))
    # what can be learned is seen, and XOR is nothing a linear model would see
    signal = Y[:, 0] == 1
    assert honest[signal, 0].mean() - honest[~signal, 0].mean() > 0.3


@pytest.mark.parametrize("copies", [1, 2])
def test_no_label_reaches_its_own_row_or_a_copy_of_it(table, copies):
    """Flip the labels of one row, or of it and its copy, of which a tree may have drawn either.

    Its features out of bag move only as other trees' draws do.
    """
    X, Y = (np.vstack([part, part[::-1]][:copies]) for part in table)
    own = [7, 292][:copies]
    other = Y.copy()
    other[own] = 1 - Y[7]
    one, two = (features(300).fit_transform(X, labels) for labels in (Y, other))
    np.testing.assert_allclose(one[own], one[[7] * copies])
    moved = np.abs(one[own] - two[own]).max()
    assert moved < 0.05  # the prior, of which they are a row each
    assert np.abs(one - two).max() > moved


def test_rows_of_many_copies_are_cross_fitted(rng):
    """Every tree has seen one of ten copies, and knows its labels, of pure chance."""
    X, Y = rng.normal(size=(60, 3)), rng.integers(0, 2, size=(60, 1))
    told = features().fit_transform(np.repeat(X, 10, axis=0), np.repeat(Y, 10, axis=0))[::10, 0]
    above = told[Y[:, 0] == 1][:, None] > told[Y[:, 0] == 0]
    assert 0.2 < above.mean() < 0.7  # area under the curve
    alike = features().fit_transform(np.zeros((30, 2)), np.ones((30, 1)))  # nothing to hold out
    assert (alike > 2).all()


@pytest.mark.parametrize("times", [1, 40])
def test_rows_that_are_equal_by_chance_know_of_each_other(rng, times):
    """Eight kinds of rows: without all its equals, a row would see only the other labels."""
    X = rng.integers(0, 2, size=(300, 3)).astype(float)
    kind = (X[:, 0] + X[:, 1]) % 2 == 1
    y = kind ^ (rng.random(300) < 0.2)
    if times > 1:  # so many copies that there is no tree without one
        X, kind = np.repeat(X[:8], times, axis=0), np.repeat(kind[:8], times)
        y = kind
    found = features(60).fit_transform(X, y.astype(int))[:, 0]
    assert ((found > 0) == kind).mean() > 0.95


def test_keeping_x_is_chosen_by_held_out_likelihood(table, rng):
    X, Y = table
    kept = ForestFeatures(40, random_state=0).fit(X, (X @ rng.normal(size=(4, 3)) > 0).astype(int))
    assert kept.passthrough_  # the labels are linear in X
    left = ForestFeatures(40, random_state=0).fit(X, Y[:, :2])
    assert not left.passthrough_  # the labels are not
    assert kept.transform(X).shape == (150, 7)
    np.testing.assert_array_equal(kept.transform(X)[:, :4], X)
    assert left.transform(X).shape == (150, 2)
    names = [*(f"x{i}" for i in range(4)), *(f"forest_y{i}" for i in range(3))]
    assert kept.get_feature_names_out().tolist() == names


@pytest.mark.parametrize("passthrough", [False, True, "auto"])
def test_sparse_rows_are_described_like_dense_ones(table, passthrough):
    X, Y = table
    X = np.where(np.abs(X) > 0.4, X, 0.0)
    one, two = (
        features(passthrough=passthrough).fit_transform(rows, Y) for rows in (X, sp.csr_array(X))
    )
    assert sp.issparse(two) == (one.shape[1] == 7)
    np.testing.assert_allclose(one, two.toarray() if sp.issparse(two) else two)


def test_variables_of_many_values_have_centred_columns(table):
    X, Y = table
    V = np.stack([Y[:, 0] + 2 * Y[:, 1], Y[:, 1], np.full(150, 5)], axis=1)
    model = features()
    found = model.fit_transform(X, V)
    assert found.shape == (150, 6)
    np.testing.assert_allclose(found[:, :4].sum(axis=1), 0.0, atol=1e-9)
    np.testing.assert_allclose(model.transform(X)[:, :4].sum(axis=1), 0.0, atol=1e-9)
    assert (found[:, 5] == 0).all()  # a variable of one value says nothing
    assert model.get_feature_names_out().tolist() == [
        *(f"forest_y0={value}" for value in range(4)),
        "forest_y1",
        "forest_y2=5",
    ]
    assert (found[:, :4].argmax(axis=1) == V[:, 0]).mean() > 0.5


def test_missing_labels_are_left_out_of_the_leaves(table, rng):
    X, Y = table
    gaps = np.where(rng.random(Y.shape) < 0.3, np.nan, Y)
    gaps[:, 1] = Y[:, 1]
    found = features(100).fit_transform(X, gaps)
    full = features(100).fit_transform(X, Y)
    assert np.corrcoef(found[:, 0], full[:, 0])[0, 1] > 0.7
    hidden = np.isnan(gaps[:, 0])
    right = (found[hidden, 0] > 0) == Y[hidden, 0]
    assert right.mean() > 0.6


def test_a_weight_counts_rows(table):
    X, Y = table
    weight = np.where(Y[:, 2] == 1, 1.0, 0.0)  # only rows with the last label
    weight[:3] = 1.0
    found = features().fit(X, Y, sample_weight=weight).transform(X)
    assert (found[:, 2] > 0).mean() > 0.95
    with pytest.raises(ValueError, match="zero"):
        features().fit(X, Y, sample_weight=np.zeros(150))


def test_one_label_and_labels_that_never_vary(table):
    X, Y = table
    one = features().fit_transform(X, Y[:, 0])
    np.testing.assert_array_equal(one, features().fit_transform(X, Y[:, :1]))
    constant = np.column_stack([Y[:, 0], np.zeros(150, int), np.ones(150, int)])
    for options in ({}, {"passthrough": "auto"}, {"cv": 3}):
        found = features(**options).fit_transform(X, constant)[:, -3:]
        assert (found[:, 1] < -3).all()
        assert (found[:, 2] > 3).all()


def test_a_row_never_out_of_bag_has_the_log_odds_of_all_rows(table):
    X, Y = table
    model = features(1)  # of one tree, most rows were drawn
    found = model.fit_transform(X, Y)
    prior = (Y.sum(axis=0) + 1) / 152
    without = np.isclose(found, np.log(prior / (1 - prior))).all(axis=1)
    assert 0.5 < without.mean() < 0.8


def test_missing_features_find_their_way(table, rng):
    X, Y = table
    X[rng.random(X.shape) < 0.2] = np.nan
    model = ForestFeatures(40, random_state=0)
    told = model.fit_transform(X, Y)[:, 1] > 0
    assert not model.passthrough_
    assert (told == Y[:, 1]).mean() > 0.7
    assert ((model.transform(X) > 0) == Y).mean() > 0.8


def test_in_searches(table):
    X, Y = table
    model = make_pipeline(ForestFeatures(20, random_state=0), CTBN(C=1.0, random_state=0))
    search = GridSearchCV(model, {"forestfeatures__kind": ["random", "extra"]}, cv=2).fit(X, Y)
    best = clone(model).set_params(**search.best_params_).fit(X, Y)
    np.testing.assert_allclose(joint_of(search, X).marginals(), best.predict_proba(X))


def test_labels_without_a_straight_line_are_learned(table, rng):
    X, Y = table
    model = make_pipeline(features(100), BinaryRelevance(C=1.0)).fit(X[:100], Y[:100, :2])
    plain = BinaryRelevance(C=1.0).fit(X[:100], Y[:100, :2])
    right = [(each.predict(X[100:]) == Y[100:, :2]).mean() for each in (model, plain)]
    assert right[0] > right[1] + 0.1


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"kind": "boosted"}, "kind='boosted' must be one of"),
        ({"passthrough": "maybe"}, "passthrough='maybe' must be True, False or 'auto'"),
        ({"cv": 1}, "cv=1 must be an integer of at least 2"),
        ({"n_estimators": 10.0}, "n_estimators=10.0 must be an integer of at least 1"),
    ],
)
def test_wrong_parameters_are_named(table, options, match):
    with pytest.raises(ValueError, match=match):
        ForestFeatures(**options).fit(*table)
    with pytest.raises(ValueError, match="X has 150 rows but y has 9"):
        ForestFeatures().fit(table[0], table[1][:9])
