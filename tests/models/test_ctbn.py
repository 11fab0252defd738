"""CTBN against an oracle written straight from the paper."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier
from threadpoolctl import threadpool_limits

from colabel import CTBN, BinaryRelevance
from colabel.learn.conditional import TrainingData
from colabel.models.ctbn import most_parents
from studies.datasets import make_synthetic
from tests.models.oracle import TIGHT, PaperCTBN, regression


def draw(rng, n_rows, sizes, parents, strength=2.0):
    """Draw X and codes from a tree of softmax models; children follow their parents."""
    X = rng.normal(size=(n_rows, 3))
    codes = np.empty((n_rows, len(sizes)), dtype=int)
    for i, j in parents.items():
        scores = 0.7 * X @ rng.normal(size=(3, sizes[i]))
        if j is not None:
            scores += strength * (codes[:, j, None] % sizes[i] == np.arange(sizes[i]))
        codes[:, i] = (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)
    return X, codes


def binary_data(rng, n_rows=200):
    return draw(rng, n_rows, (2, 2, 2, 2), {2: None, 0: 2, 1: 2, 3: 1})


def hold_out(n_rows):
    index = np.random.default_rng(1).permutation(n_rows)
    cut = n_rows // 3
    return [(np.sort(index[cut:]), np.sort(index[:cut]))]


def k_fold(n_rows):
    return list(KFold(3, shuffle=True, random_state=0).split(np.zeros(n_rows)))


def assert_equals_oracle(model, oracle, X):
    np.testing.assert_allclose(model.edge_scores_, oracle.weights, atol=1e-5)
    scores = model.edge_scores_
    tree_weight = sum(scores[j if j >= 0 else i, i] for i, j in enumerate(model.tree_))
    np.testing.assert_allclose(tree_weight, oracle.tree_weight, atol=1e-5)
    assert model.tree_.tolist() == oracle.tree
    joint = model.joint(X)
    for y, expected in oracle.log_joint(X).items():
        np.testing.assert_allclose(joint.log_prob(list(y)), expected, atol=1e-6)
    np.testing.assert_array_equal(model.predict(X), oracle.predict(X))


# ------------------------------------------------------------------- the paper's algorithm


@pytest.mark.parametrize("make_splits", [hold_out, k_fold])
def test_binary_labels_equal_the_paper(rng, make_splits):
    X, codes = binary_data(rng)
    splits = make_splits(200)
    oracle = PaperCTBN([regression()], splits, (2, 2, 2, 2)).fit(X, codes)
    model = CTBN(pairs="separate", C=1.0, cv=splits, **TIGHT).fit(X, codes)
    assert_equals_oracle(model, oracle, rng.normal(size=(40, 3)))
    assert (model.tree_ >= 0).sum() >= 2


def test_every_classifier_chooses_its_own_c(rng):
    X = rng.normal(size=(200, 3))
    clear = (X[:, 0] + 0.3 * rng.normal(size=200) > 0).astype(int)
    noise = rng.integers(0, 2, size=200)
    copied = np.where(rng.random(200) < 0.2, 1 - clear, clear)
    codes = np.column_stack([clear, noise, copied, 1 - noise[::-1]])
    grid, splits = [3.0, 0.001], k_fold(200)
    oracle = PaperCTBN([regression(C) for C in grid], splits, (2, 2, 2, 2)).fit(X, codes)
    assert len({id(make) for make in oracle.best.values()}) == 2
    model = CTBN(pairs="separate", C=grid, cv=splits, **TIGHT).fit(X, codes)
    assert_equals_oracle(model, oracle, X[:40])


@pytest.mark.parametrize("make_splits", [hold_out, k_fold])
def test_class_variables_equal_the_paper(rng, make_splits):
    sizes = (3, 2, 4)
    X, codes = draw(rng, 600, sizes, {0: None, 1: 0, 2: 1}, strength=1.0)
    splits = make_splits(600)
    oracle = PaperCTBN([regression()], splits, sizes).fit(X, codes)
    model = CTBN(pairs="separate", C=1.0, cv=splits, **TIGHT).fit(X, codes)
    assert_equals_oracle(model, oracle, X[:40])
    for table, size in zip(model.predict_proba(X), sizes, strict=True):
        assert table.shape == (600, size)
        np.testing.assert_allclose(table.sum(axis=1), 1.0)


@pytest.mark.parametrize(
    "estimator", [GaussianNB(), DecisionTreeClassifier(max_depth=2, random_state=0)]
)
def test_other_classifiers_equal_the_paper(rng, estimator):
    X, codes = binary_data(rng, 300)
    splits = k_fold(300)
    makers = [lambda: type(estimator)(**estimator.get_params())]
    oracle = PaperCTBN(makers, splits, (2,) * 4, floors=True).fit(X, codes)
    model = CTBN(estimator=estimator, stack=False, cv=splits).fit(X, codes)
    assert_equals_oracle(model, oracle, X[:40])
    joint = model.joint(X[:5])
    total = sum(np.exp(joint.log_prob(list(y))) for y in itertools.product((0, 1), repeat=4))
    np.testing.assert_allclose(total, 1.0)
    assert not hasattr(model, "n_iter_")


def test_arcs_may_be_tried_with_another_classifier(rng):
    X, codes = binary_data(rng, 400)
    searched = CTBN(estimator=GaussianNB(), stack=False, cv=3, random_state=0).fit(X, codes)
    model = CTBN(
        estimator=DecisionTreeClassifier(max_depth=2, random_state=0),
        search_estimator=GaussianNB(),
        stack=False,
        cv=3,
        random_state=0,
    ).fit(X, codes)
    np.testing.assert_array_equal(model.tree_, searched.tree_)
    np.testing.assert_allclose(model.edge_scores_, searched.edge_scores_)
    used = {type(own.estimator).__name__ for own in model.models_.models}
    assert used == {"DecisionTreeClassifier"}
    for alone in (CTBN(search_estimator=GaussianNB()), model.set_params(stack=True)):
        with pytest.raises(ValueError, match=r"search_estimator=.* takes the place of an"):
            alone.fit(X, codes)


def test_classifiers_that_take_missing_features(rng):
    X, codes = draw(rng, 80, (2, 2), {0: None, 1: 0})
    X[rng.random(X.shape) < 0.1] = np.nan
    estimator = HistGradientBoostingClassifier(max_iter=2, min_samples_leaf=5)
    with threadpool_limits(1):  # threads only get in each other's way here
        model = CTBN(estimator=estimator, cv=2, random_state=0, n_jobs=1).fit(X, codes)
    assert model.score(X, codes) > 0.3
    assert model.joint(X).log_prob(codes).mean() > -2 * np.log(2)
    with pytest.raises(ValueError, match="NaN"):
        CTBN(estimator=GaussianNB()).fit(X, codes)


def test_missing_labels_equal_the_oracle_without_those_rows(rng):
    X, codes = binary_data(rng, 300)
    Y = np.where(rng.random(codes.shape) < 0.3, np.nan, codes)
    splits = k_fold(300)
    observed = np.where(np.isnan(Y), -1, codes)
    oracle = PaperCTBN([regression()], splits, (2,) * 4).fit(X, observed)
    model = CTBN(pairs="separate", C=1.0, cv=splits, **TIGHT).fit(X, Y)
    assert_equals_oracle(model, oracle, X[:40])


def test_gains_are_scores_less_those_without_parent_per_row(rng):
    X, codes = binary_data(rng)
    model, other = (CTBN(C=1.0, cv=0.3, random_state=seed).fit(X, codes) for seed in (0, 1))
    gains = (model.edge_scores_ - np.diag(model.edge_scores_)) / 200
    np.testing.assert_allclose(model.edge_gains_, gains, atol=1e-12)
    assert (np.diag(model.edge_gains_) == 0).all()
    assert -60 < model.edge_scores_.max() < 0  # 60 rows held out, each about -log 2 or better
    assert (model.edge_scores_ != other.edge_scores_).any()


def test_a_splitter_equals_its_splits(rng):
    X, codes = binary_data(rng)
    for splitter, Y in ((KFold(3), codes), (StratifiedKFold(3), codes[:, 0])):
        one, two = (
            CTBN(C=(0.1, 1.0), cv=cv).fit(X, Y) for cv in (splitter, list(splitter.split(X, Y)))
        )
        np.testing.assert_array_equal(one.edge_scores_, two.edge_scores_)
        # without chance in the folds there is none in the answer
        np.testing.assert_array_equal(one.predict_proba(X), two.predict_proba(X))
    # and a vector comes back as a vector
    np.testing.assert_array_equal(one.predict(X), one.predict_proba(X).argmax(axis=1))


# ------------------------------------------------------------------------ special cases


def test_rare_parent_values_share_the_classifier_without_parent(rng):
    X = rng.normal(size=(300, 2))
    rare = np.arange(300) < 12
    Y = np.column_stack([rare, np.roll(rare, 2)]).astype(int)  # either may be the parent
    model = CTBN(C=1.0, cv=k_fold(300), min_rows=13, **TIGHT).fit(X, Y)
    assert sorted(model.tree_) in ([-1, 0], [-1, 1])
    child, parent = int(model.tree_.argmax()), int(model.tree_.max())
    common = Y[:, parent] == 0
    alone = BinaryRelevance(C=1.0, **TIGHT).fit(X, Y).predict_proba(X)[:, child]
    own = BinaryRelevance(C=1.0, **TIGHT).fit(X[common], Y[common]).predict_proba(X)[:, child]
    assert np.abs(alone - own).max() > 0.01
    joint = model.joint(X)
    for value, expected in ((0, own), (1, alone)):
        given = joint.given({parent: value}).marginals()[:, child]
        np.testing.assert_allclose(given, expected, atol=1e-7)


def test_min_rows_counts_weight(rng):
    X, codes = binary_data(rng)
    weight = np.full(200, 0.01)
    model = CTBN(C=1.0, cv=k_fold(200)).fit(X, codes, sample_weight=weight)
    assert (model.edge_gains_ == 0).all()
    assert (model.tree_ == -1).all()


@pytest.mark.parametrize("min_rows", [0, 1])
def test_the_rarest_values_may_have_classifiers_of_their_own(rng, min_rows):
    X, codes = binary_data(rng, 60)
    codes[:, 1] = 0  # value 1 has no row at all
    codes[:, 3] = np.arange(60) == 7
    model = CTBN(pairs="separate", C=1.0, min_rows=min_rows, random_state=0).fit(X, codes)
    prob = model.predict_proba(X)
    assert prob[:, 1].max() < 0.05
    assert 0.005 < prob[:, 3].mean() < 0.05  # one row of sixty
    assert -60 < model.edge_scores_.max() <= 0


def test_weight_zero_for_all_rows_of_a_parent_value(rng):
    X, codes = binary_data(rng, 60)
    weight = np.where(codes[:, 0] == 1, 0.0, 1.0)
    model = CTBN(C=1.0, min_rows=0, random_state=0).fit(X, codes, sample_weight=weight)
    assert -60 < model.edge_scores_.max() <= 0
    prob = model.predict_proba(X)
    assert ((prob > 0) & (prob < 1)).all()
    assert prob[:, 0].max() < 0.05


def test_values_absent_among_a_parents_rows_stay_unlikely(rng):
    X, codes = draw(rng, 300, (2, 3), {0: None, 1: 0})
    codes[(codes[:, 0] == 1) & (codes[:, 1] == 2), 1] = 0  # 2 never goes with 1
    model = CTBN(C=1.0, cv=3, random_state=0).fit(X, codes)
    assert model.tree_.max() >= 0
    together = model.joint(X).pair_marginals(0, 1)
    assert together[:, 1, 2].max() < 0.05


@pytest.mark.parametrize(("n_labels", "min_rows"), [(1, 10), (4, 10_000)])
def test_without_parents_it_is_binary_relevance(rng, n_labels, min_rows):
    """Of one label, or without frequent values."""
    X, codes = binary_data(rng)
    options = {"C": [0.1, 1.0], "random_state": 0, **TIGHT}
    model = CTBN(min_rows=min_rows, **options).fit(X, codes[:, :n_labels])
    assert model.tree_.tolist() == [-1] * n_labels
    alone = BinaryRelevance(**options).fit(X, codes[:, :n_labels]).predict_proba(X)
    np.testing.assert_allclose(model.predict_proba(X), alone, atol=1e-7)


def test_a_tree_beats_independent_labels_on_sd2():
    data = make_synthetic("SD2", n_rows=600, random_state=0)
    X, Y, X_test, Y_test = data.X[:400], data.Y[:400], data.X[400:], data.Y[400:]
    tree = CTBN(C=1.0, random_state=0).fit(X, Y)
    assert {frozenset((i, j)) for i, j in enumerate(tree.tree_) if j >= 0} >= {frozenset((0, 1))}
    alone = BinaryRelevance(C=1.0).fit(X, Y)
    losses = [-model.joint(X_test).log_prob(Y_test).mean() for model in (tree, alone)]
    assert losses[0] < losses[1] - 0.02
    assert tree.score(X_test, Y_test) >= alone.score(X_test, Y_test)


def test_shared_pairs_of_class_variables_are_as_good_as_separate_ones(rng):
    X, codes = draw(rng, 900, (4, 4, 3), {0: None, 1: 0, 2: 1}, strength=1.0)
    X = np.hstack([X, rng.normal(size=(900, 5))])
    losses = []
    for pairs in ("shared", "separate"):
        model = CTBN(C=[0.1, 1.0], pairs=pairs, random_state=0).fit(X[:300], codes[:300])
        losses.append(-model.joint(X[300:]).log_prob(codes[300:]).mean())
    assert losses[0] < losses[1] + 0.03


def test_few_rows_show_a_dependency_to_shared_pairs(rng):
    X = (rng.random((600, 120)) < 0.1).astype(float)
    first = rng.random(600) < 1 / (1 + np.exp(-X @ rng.normal(size=120) + 1))
    second = rng.random(600) < 1 / (1 + np.exp(-X @ rng.normal(size=120) - 3 * first + 2))
    Y = np.column_stack([first, second]).astype(int)
    shared, separate = (CTBN(pairs=p, random_state=0).fit(X, Y) for p in ("shared", "separate"))
    assert (shared.tree_ >= 0).sum() == 1
    assert shared.edge_gains_.max() > separate.edge_gains_.max()


@pytest.mark.parametrize(
    ("n_rows", "n_labels", "linear", "most"),
    [(400, 50, True, 49), (7000, 50, True, 10), (40, 170, True, 10), (40, 12, False, 10)],
)
def test_parents_are_screened_where_all_would_take_long(n_rows, n_labels, linear, most):
    codes = np.zeros((n_rows, n_labels), dtype=np.int32)
    data = TrainingData(np.zeros((n_rows, 1)), codes, (2,) * n_labels)
    assert most_parents("auto", data, linear) == most
    assert most_parents(None, data, linear) == n_labels - 1
    assert most_parents(3, data, linear) == 3
