"""CorrelationSelector: symmetrical uncertainty and merit by hand, the search by a slow one."""

from __future__ import annotations

import itertools
from math import log, sqrt

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from colabel import BinaryRelevance
from colabel.preprocess import FeatureBins
from studies.methods import CorrelationSelector
from studies.methods.selection import FeatureUncertainty, best_subset, symmetrical_uncertainty


@pytest.mark.filterwarnings("ignore:.*distinct values:UserWarning")
@parametrize_with_checks([CorrelationSelector(), CorrelationSelector("label set")])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def entropy(*columns) -> float:
    rows = list(zip(*columns, strict=True))
    shares = [rows.count(row) / len(rows) for row in set(rows)]
    return -sum(share * log(share) for share in shares)


def uncertainty(a, b) -> float:
    both = entropy(a) + entropy(b)
    return 2 * (both - entropy(a, b)) / both if both else 0.0


def merit(features, X, y) -> float:
    k = len(features)
    with_class = [uncertainty(X[:, i], y) for i in features]
    with_each_other = [
        uncertainty(X[:, i], X[:, j]) for i, j in itertools.combinations(features, 2)
    ]
    r_cf = np.mean(with_class)
    r_ff = np.mean(with_each_other) if with_each_other else 0.0
    return k * r_cf / sqrt(k + k * (k - 1) * r_ff)


def slow_search(X, y, patience=5) -> float:
    """Search best-first with every set waiting; return the merit of the best."""
    waiting, seen = [(0.0, ())], {()}
    best, idle = 0.0, 0
    while idle < patience and waiting:
        waiting.sort(reverse=True)
        _, features = waiting.pop(0)
        idle += 1
        for j in set(range(X.shape[1])) - set(features):
            grown = tuple(sorted((*features, j)))
            if grown not in seen:
                seen.add(grown)
                waiting.append((merit(grown, X, y), grown))
        if max(waiting, default=(0.0,))[0] > best + 1e-5:
            best, idle = max(waiting)[0], 0
    return best


def random_table(seed, n=80, p=7):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 3, (n, p))
    X[:, 1] = np.where(rng.random(n) < 0.7, X[:, 0], X[:, 1])
    y = (X[:, 0] + X[:, 3] + rng.integers(0, 3, n) > 3).astype(int)
    return X, y


def features_of(X) -> FeatureUncertainty:
    columns = np.ascontiguousarray(X.T.astype(np.int32))
    return FeatureUncertainty(columns, columns.max(axis=1).astype(np.intp) + 1)


# ------------------------------------------------------------------------------ uncertainty


def test_uncertainty_by_hand():
    columns = np.array([[0, 0, 1, 1], [0, 1, 0, 1], [0, 0, 0, 0], [1, 1, 0, 0]], dtype=np.int32)
    sizes = np.array([2, 2, 1, 2])
    # itself, an independent column, a constant, its negation
    found = symmetrical_uncertainty(columns, sizes, columns[0], 2)
    np.testing.assert_allclose(found, [1.0, 0.0, 0.0, 1.0], atol=1e-12)
    # three values against two: H = log 4 * 3/4 (1.5 bits), 1 bit, together 1.5 bits; 2 * 1 / 2.5
    three = np.array([0, 0, 1, 2], dtype=np.int32)
    np.testing.assert_allclose(symmetrical_uncertainty(columns[:1], sizes[:1], three, 3), [0.8])
    constant = np.zeros(4, dtype=np.int32)
    assert symmetrical_uncertainty(columns, sizes, constant, 1).tolist() == [0.0] * 4


@pytest.mark.parametrize("seed", range(3))
def test_uncertainty_agrees_with_the_formula(seed):
    X, y = random_table(seed)
    features = features_of(X)
    to_class = symmetrical_uncertainty(features.columns, features.sizes, y.astype(np.int32), 2)
    for i in range(X.shape[1]):
        assert to_class[i] == pytest.approx(uncertainty(X[:, i], y))
        for j in range(X.shape[1]):
            expected = uncertainty(X[:, i], X[:, j])
            assert features.with_all(i)[j] == pytest.approx(expected, abs=1e-12)


# ----------------------------------------------------------------------------------- search


@pytest.mark.parametrize("seed", range(6))
def test_search_and_merit_agree_with_the_slow_version(seed):
    X, y = random_table(seed)
    features = features_of(X)
    to_class = symmetrical_uncertainty(features.columns, features.sizes, y.astype(np.int32), 2)
    chosen, found = best_subset(to_class, features, 5)
    assert found == pytest.approx(merit(sorted(chosen), X, y))
    assert found == pytest.approx(slow_search(X, y), abs=1e-4)
    every = [s for k in range(1, 8) for s in itertools.combinations(range(7), k)]
    assert found <= max(merit(s, X, y) for s in every) + 1e-9


def test_features_are_related_only_as_far_as_the_search_goes():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (300, 200))
    features = features_of(X)
    to_class = symmetrical_uncertainty(features.columns, features.sizes, features.columns[7], 2)
    chosen, found = best_subset(to_class, features, 5)
    assert chosen == {7}
    assert found == pytest.approx(1.0)
    assert len(features.rows) <= 6  # the one that is chosen, and those tried after it


def test_more_patience_is_never_worse():
    X, y = random_table(11, n=60, p=9)
    features = features_of(X)
    to_class = symmetrical_uncertainty(features.columns, features.sizes, y.astype(np.int32), 2)
    merits = [best_subset(to_class, features, patience)[1] for patience in (1, 5, 50)]
    assert merits == sorted(merits)


# -------------------------------------------------------------------------------- estimator


def test_each_label_has_its_features_and_they_are_united(rng):
    X = rng.integers(0, 2, (300, 8))
    Y = X[:, [2, 5]]
    selector = CorrelationSelector().fit(X, Y)
    assert selector.get_support(indices=True).tolist() == [2, 5]
    np.testing.assert_allclose(selector.merits_, [1.0, 1.0])
    together = CorrelationSelector("label set").fit(X, Y)
    assert together.get_support(indices=True).tolist() == [2, 5]
    assert together.merits_.shape == (1,)
    np.testing.assert_array_equal(selector.transform(X), X[:, [2, 5]])


def test_a_copy_is_left_out_and_a_constant_too(rng):
    X = rng.integers(0, 3, (200, 4))
    X[:, 1], X[:, 3] = X[:, 0], 9
    assert CorrelationSelector().fit(X, X[:, [0]]).support_.tolist() == [True, False, False, False]


def test_labels_that_say_nothing_keep_every_feature(rng):
    X = rng.integers(0, 2, (20, 3))
    with pytest.warns(UserWarning, match="No feature says anything about the labels"):
        selector = CorrelationSelector().fit(X, np.zeros((20, 2), dtype=int))
    assert selector.support_.all()
    assert selector.merits_.tolist() == [0.0, 0.0]


def test_a_constant_label_beside_another_chooses_nothing(rng):
    X = rng.integers(0, 2, (60, 3))
    selector = CorrelationSelector().fit(X, np.column_stack([X[:, 1], np.zeros(60, int)]))
    assert selector.get_support(indices=True).tolist() == [1]


def test_continuous_features_are_noticed(rng):
    X = rng.normal(size=(100, 2))
    with pytest.warns(UserWarning, match="Feature 0 has 100 distinct values"):
        CorrelationSelector().fit(X, (X > 0).astype(int))


def test_rows_with_missing_labels_are_left_out(rng):
    X = rng.integers(0, 2, (200, 4))
    Y = X[:, [0, 1]].astype(float)
    Y[:100, 0] = X[:100, 3]  # misleading, but not observed
    seen = Y.copy()
    seen[:100, 0] = np.nan
    assert CorrelationSelector().fit(X, seen).get_support(indices=True).tolist() == [0, 1]
    assert 3 in CorrelationSelector().fit(X, Y).get_support(indices=True)


def test_sparse_rows_and_pipelines(rng):
    X = rng.normal(size=(80, 5))
    Y = (X[:, [0, 3]] > 0).astype(int)
    binned = FeatureBins().fit_transform(X)
    dense = CorrelationSelector().fit(binned, Y)
    sparse = CorrelationSelector().fit(sp.csr_array(binned.astype(float)), Y)
    np.testing.assert_array_equal(dense.support_, sparse.support_)
    model = make_pipeline(FeatureBins(), CorrelationSelector(), BinaryRelevance(C=1.0)).fit(X, Y)
    assert model.predict(X).shape == Y.shape
    assert len(model[:-1].get_feature_names_out()) == dense.support_.sum()


def test_wrong_input_is_named():
    with pytest.raises(ValueError, match="target='all' is not known"):
        CorrelationSelector("all").fit([[0], [1]], [[0], [1]])
    with pytest.raises(ValueError, match="contains NaN"):
        CorrelationSelector().fit([[0], [np.nan]], [[0], [1]])
