"""Training data and folds."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from colabel.learn.conditional import Folds, TrainingData, distinct_rows, given_folds, random_folds


def data_of(X, codes, weight=None):
    codes = np.asarray(codes, dtype=np.int32)
    sizes = tuple(int(k) for k in codes.max(axis=0) + 1)
    return TrainingData(X, codes, sizes, weight)


@pytest.fixture
def data(rng) -> TrainingData:
    return data_of(rng.normal(size=(101, 3)), rng.integers(0, 2, size=(101, 2)))


def reordered(data, order):
    weight = None if data.weight is None else data.weight[order]
    return TrainingData(data.X[order], data.codes[order], data.cardinalities, weight)


def test_sizes_weights_and_frequencies():
    data = data_of(np.zeros((3, 2)), [[0, 1], [1, 1], [0, 2]])
    assert (data.n_rows, data.n_labels, data.total_weight) == (3, 2, 3.0)
    weighted = data_of(np.zeros((3, 2)), data.codes, np.array([0.5, 0.0, 2.0]))
    assert weighted.total_weight == 2.5
    codes = np.array([[0], [2], [2], [-1]], dtype=np.int32)  # and by Laplace's rule
    for seen, weight, expected in (
        (codes, None, np.array([2, 1, 3]) / 6),
        (codes, np.array([0.5, 1.0, 2.0, 9.0]), np.array([1.5, 1, 4]) / 6.5),
        (np.full_like(codes, -1), None, np.full(3, 1 / 3)),  # never observed
    ):
        data = TrainingData(np.zeros((4, 1)), seen, (3,), weight)
        np.testing.assert_allclose(data.class_frequencies(0), expected)


@pytest.mark.parametrize(
    ("n_distinct", "copies", "cv", "counts"),
    [
        (101, 1, 4, [25, 25, 25, 26]),
        (101, 1, 0.01, [1]),
        (101, 1, 0.3, [30]),
        (101, 1, 0.99, [100]),
        (3, 4, 10, [4, 4, 4]),  # more folds than rows that differ
    ],
)
def test_folds_are_balanced_and_hold_out_every_row_at_most_once(
    rng, n_distinct, copies, cv, counts
):
    X = np.repeat(rng.normal(size=(n_distinct, 2)), copies, axis=0)
    folds = random_folds(data_of(X, np.zeros((len(X), 1))), cv, seed=3)
    assert folds.n_folds == len(counts)
    assert sorted(np.bincount(folds.of_row[folds.of_row >= 0])) == counts


@pytest.mark.parametrize("cv", [5, 0.5])
def test_a_single_row_is_one_fold_or_none(cv):
    folds = random_folds(data_of(np.zeros((1, 2)), [[0]]), cv, seed=0)
    assert folds.n_folds == 1
    assert folds.of_row[0] in (-1, 0)


def test_the_seed_decides(data):
    first = random_folds(data, 5, seed=1).of_row
    np.testing.assert_array_equal(first, random_folds(data, 5, seed=1).of_row)
    assert (first != random_folds(data, 5, seed=2).of_row).any()


def test_folds_do_not_follow_the_order_of_the_rows(data, rng):
    order = rng.permutation(101)
    there = random_folds(reordered(data, order), 5, seed=1).of_row
    np.testing.assert_array_equal(there, random_folds(data, 5, seed=1).of_row[order])


@pytest.mark.parametrize("store", [np.asarray, sp.csr_array])
def test_equal_rows_share_a_fold(rng, store):
    X = np.repeat(rng.normal(size=(40, 2)), 3, axis=0)
    codes = np.repeat(rng.integers(0, 2, size=(40, 2)), 3, axis=0)
    of_row = random_folds(data_of(store(X), codes), 4, seed=0).of_row.reshape(40, 3)
    np.testing.assert_array_equal(of_row, np.repeat(of_row[:, :1], 3, axis=1))


def test_rows_whose_features_are_equal_by_chance_are_dealt_one_by_one(rng):
    """Else a fold would leave nothing of some features but rows with other labels."""
    X = rng.integers(0, 2, size=(400, 2)).astype(float)
    data = data_of(X, np.where(rng.random((400, 2)) < 0.2, 1 - X, X))
    of_row = random_folds(data, 5, seed=0).of_row
    assert np.bincount(of_row).tolist() == [80] * 5
    for fold in range(5):
        known = np.unique(np.c_[X, data.codes][of_row != fold], axis=0)
        assert len(known) == 16
    order = rng.permutation(400)
    there = random_folds(reordered(data, order), 5, seed=0).of_row
    content = np.c_[X, data.codes, of_row], np.c_[X[order], data.codes[order], there]
    np.testing.assert_array_equal(*(rows[np.lexsort(rows.T)] for rows in content))


def test_weights_of_equal_rows_decide_who_is_who(rng):
    X, codes = np.zeros((60, 1)), rng.integers(0, 2, size=(60, 1))
    data = data_of(X, codes, rng.integers(0, 3, size=60).astype(float))
    order = rng.permutation(60)
    there = reordered(data, order)
    content = [
        np.c_[part.codes, part.weight, random_folds(part, 4, seed=0).of_row][part.weight > 0]
        for part in (data, there, reordered(data, np.flatnonzero(data.weight)))
    ]
    ordered = [rows[np.lexsort(rows.T)] for rows in content]
    np.testing.assert_array_equal(ordered[0], ordered[1])
    np.testing.assert_array_equal(ordered[0], ordered[2])  # without those of weight zero


def sparse_rows(rng):
    return sp.random_array((60, 5), density=0.4, random_state=rng, format="csr")


def with_zeros_written(X):
    padded = X.copy()
    padded.data[::3] = 0.0
    return padded


def pruned(X):
    X = with_zeros_written(X)
    X.eliminate_zeros()
    return X


def with_negative_zeros(X):
    return np.where(X.toarray() == 0, -0.0, X.toarray())


def scaled_to_one(rng):
    """Columns of which rounding decides what is largest, or whether the mean is zero."""
    X = rng.normal(size=(300, 4)) / 10
    X[:, 1] = rng.uniform(size=300)
    X[0, 1] = 1.0  # a column scaled to [0, 1]: its largest is 1 on one machine, 1 + 2e-16 there
    X[:, 2] = 0.0  # the mean of a standardised feature: zero here, 1e-17 there
    X[0, 2] = 1.0
    return X


def noisy(X):
    X = X + 1e-16 * np.random.default_rng(1).normal(size=X.shape)
    X[0, 1] = np.nextafter(1.0, 2.0)
    return X


@pytest.mark.parametrize(
    ("make", "here", "there"),
    [
        (sparse_rows, sp.csr_array, sp.csr_array.toarray),
        (sparse_rows, with_zeros_written, pruned),
        (sparse_rows, sp.csr_array.toarray, with_negative_zeros),
        (scaled_to_one, np.asarray, noisy),
        (scaled_to_one, lambda X: 1e-300 * X, lambda X: 1e-300 * noisy(X)),
        (scaled_to_one, lambda X: 1e308 * X, lambda X: 1e308 * noisy(X)),
    ],
    ids=["storage", "explicit zeros", "sign of zero", "noise", "small noise", "large noise"],
)
def test_how_numbers_are_written_does_not_move_the_folds(rng, make, here, there):
    X = make(rng)
    codes = rng.integers(0, 2, size=(X.shape[0], 2))
    found = [random_folds(data_of(own(X), codes), 5, seed=0).of_row for own in (here, there)]
    np.testing.assert_array_equal(*found)


def test_columns_of_any_size_tell_rows_apart(rng):
    X = rng.normal(size=(50, 2)) * [1e-9, 1e9]
    for column in (0, 1):
        of_row = random_folds(data_of(X[:, [column]], np.zeros((50, 1))), 50, seed=0).of_row
        assert len(np.unique(of_row)) == 50


def test_merged_rows_keep_their_order_under_rounding_noise_and_only_equal_ones_merge(rng):
    X = np.repeat(rng.normal(size=(30, 3)), 2, axis=0)
    noisy = X * (1 + 1e-15 * rng.normal(size=X.shape))
    codes = np.zeros((60, 1), dtype=np.int32)
    merged, apart = (distinct_rows(data_of(x, codes), seed=0) for x in (X, noisy))
    assert (merged.n_rows, apart.n_rows) == (30, 60)
    np.testing.assert_array_equal(merged.weight, 2.0)
    np.testing.assert_allclose(np.repeat(merged.X, 2, axis=0), apart.X)


@pytest.mark.parametrize("cv", [4, 0.3])
def test_weight_two_is_a_row_written_twice(data, cv):
    weight = 1.0 + (np.arange(101) % 2)
    heavy = TrainingData(data.X, data.codes, data.cardinalities, weight)
    twice = np.repeat(np.arange(101), weight.astype(int))
    one, two = random_folds(heavy, cv, seed=0), random_folds(reordered(data, twice), cv, seed=0)
    np.testing.assert_array_equal(one.of_row[twice], two.of_row)


@pytest.mark.parametrize("cv", [4, 0.3])
def test_rows_of_weight_zero_do_not_move_the_others(data, cv, rng):
    weight = (rng.random(101) < 0.7).astype(float)
    kept = np.flatnonzero(weight)
    padded = TrainingData(data.X, data.codes, data.cardinalities, weight)
    of_row = random_folds(padded, cv, seed=0).of_row
    alone = random_folds(reordered(data, kept), cv, seed=0).of_row
    np.testing.assert_array_equal(of_row[kept], alone)


def test_given_splits_as_indices_or_masks():
    test = np.array([1, 3])
    mask = np.isin(np.arange(5), test)
    expected = [-1, 0, -1, 0, -1]
    for split in ((np.array([0, 2, 4]), test), (~mask, mask), ([0, 2, 4], [1, 3])):
        folds = given_folds(5, [split])
        assert isinstance(folds, Folds)
        assert (folds.of_row.tolist(), folds.n_folds) == (expected, 1)


@pytest.mark.parametrize(
    ("splits", "message"),
    [
        ([([0, 1], [2, 3]), ([2, 3], [1, 0]), ([0, 1, 2], [3])], "holds out some rows twice"),
        ([([0, 1], [3])], r"Fold 0 of cv trains on 2 rows and holds out 1 of 4"),
        ([([0, 1, 2], [2, 3])], r"Fold 0 of cv"),
        ([], "no splits"),
    ],
)
def test_splits_that_cannot_be_used(splits, message):
    with pytest.raises(ValueError, match=message):
        given_folds(4, splits)
