"""Training data and folds."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from colabel.learn.conditional import (
    Folds,
    TrainingData,
    distinct_rows,
    given_folds,
    random_folds,
)


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


def test_sizes_and_weights():
    data = data_of(np.zeros((3, 2)), [[0, 1], [1, 1], [0, 2]])
    assert (data.n_rows, data.n_labels, data.total_weight) == (3, 2, 3.0)
    weighted = data_of(np.zeros((3, 2)), data.codes, np.array([0.5, 0.0, 2.0]))
    assert weighted.total_weight == 2.5


def test_class_frequencies_follow_laplaces_rule():
    codes = np.array([[0], [2], [2], [-1]], dtype=np.int32)
    data = TrainingData(np.zeros((4, 1)), codes, (3,))
    np.testing.assert_allclose(data.class_frequencies(0), np.array([2, 1, 3]) / 6)
    weighted = TrainingData(data.X, codes, (3,), np.array([0.5, 1.0, 2.0, 9.0]))
    np.testing.assert_allclose(weighted.class_frequencies(0), np.array([1.5, 1, 4]) / 6.5)


def test_class_frequencies_of_a_variable_never_observed_are_uniform():
    data = TrainingData(np.zeros((2, 1)), np.full((2, 1), -1, dtype=np.int32), (4,))
    np.testing.assert_allclose(data.class_frequencies(0), 0.25)


def test_folds_are_balanced_and_hold_out_every_row_once(data):
    folds = random_folds(data, 4, seed=3)
    assert folds.n_folds == 4
    assert sorted(np.bincount(folds.of_row)) == [25, 25, 25, 26]


def test_the_seed_decides(data):
    first = random_folds(data, 5, seed=1).of_row
    np.testing.assert_array_equal(first, random_folds(data, 5, seed=1).of_row)
    assert (first != random_folds(data, 5, seed=2).of_row).any()


def test_folds_do_not_follow_the_order_of_the_rows(data, rng):
    order = rng.permutation(101)
    there = random_folds(reordered(data, order), 5, seed=1).of_row
    np.testing.assert_array_equal(there, random_folds(data, 5, seed=1).of_row[order])


def test_equal_rows_share_a_fold(rng):
    X = np.repeat(rng.normal(size=(40, 2)), 3, axis=0)
    codes = np.repeat(rng.integers(0, 2, size=(40, 2)), 3, axis=0)
    of_row = random_folds(data_of(X, codes), 4, seed=0).of_row.reshape(40, 3)
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


def test_rows_that_differ_in_the_sign_of_zero_are_equal(rng):
    X = np.zeros((40, 2))
    X[:, 0] = np.repeat(np.arange(20), 2)
    X[1::2, 1] = -0.0
    of_row = random_folds(data_of(X, np.zeros((40, 1))), 5, seed=0).of_row
    np.testing.assert_array_equal(of_row[::2], of_row[1::2])


@pytest.mark.parametrize("scale", [1.0, 1e-300, 1e308])
def test_folds_survive_rounding_noise(scale, rng):
    X = rng.normal(size=(300, 4)) / 10
    X[:, 1] = rng.uniform(size=300)
    X[0, 1] = 1.0  # a column scaled to [0, 1]: its largest is 1 on one machine, 1 + 2e-16 there
    X[:, 2] = 0.0  # the mean of a standardised feature: zero here, 1e-17 there
    X[0, 2] = 1.0
    codes = rng.integers(0, 2, size=(300, 2))
    noisy = X + 1e-16 * rng.normal(size=X.shape)
    noisy[0, 1] = np.nextafter(1.0, 2.0)
    here = random_folds(data_of(scale * X, codes), 5, seed=0)
    there = random_folds(data_of(scale * noisy, codes), 5, seed=0)
    np.testing.assert_array_equal(here.of_row, there.of_row)


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


@pytest.mark.parametrize("fraction", [0.01, 0.3, 0.99])
def test_a_fraction_holds_out_one_set(data, fraction):
    folds = random_folds(data, fraction, seed=0)
    assert folds.n_folds == 1
    assert set(folds.of_row) == {-1, 0}
    assert (folds.of_row == 0).sum() == round(fraction * 101)


def test_more_folds_than_distinct_rows():
    data = data_of(np.repeat([[1.0], [2.0], [3.0]], 4, axis=0), np.zeros((12, 1)))
    folds = random_folds(data, 10, seed=0)
    assert folds.n_folds == 3
    assert sorted(np.bincount(folds.of_row)) == [4, 4, 4]


@pytest.mark.parametrize("cv", [5, 0.5])
def test_a_single_row_is_never_held_out_for_want_of_others(cv):
    folds = random_folds(data_of(np.zeros((1, 2)), [[0]]), cv, seed=0)
    assert folds.n_folds == 1
    assert folds.of_row[0] in (-1, 0)


def test_sparse_rows_share_folds_by_content_too(rng):
    X = sp.random_array((60, 5), density=0.9, random_state=rng, format="csr")
    twice = sp.vstack([X, X], format="csr")
    codes = rng.integers(0, 2, size=(60, 2))
    of_row = random_folds(data_of(twice, np.vstack([codes, codes])), 4, seed=0).of_row
    np.testing.assert_array_equal(of_row[:60], of_row[60:])


def test_storage_does_not_move_the_folds(rng):
    X = sp.random_array((60, 5), density=0.4, random_state=rng, format="csr")
    codes = rng.integers(0, 2, size=(60, 2))
    sparse = random_folds(data_of(X, codes), 4, seed=0).of_row
    dense = random_folds(data_of(X.toarray(), codes), 4, seed=0).of_row
    np.testing.assert_array_equal(sparse, dense)


def test_explicit_zeros_do_not_move_the_folds(rng):
    X = sp.random_array((60, 5), density=0.4, random_state=rng, format="csr")
    padded = X.copy()
    padded.data[::3] = 0.0
    pruned = padded.copy()
    pruned.eliminate_zeros()
    codes = rng.integers(0, 2, size=(60, 2))
    found = [random_folds(data_of(part, codes), 4, seed=0).of_row for part in (padded, pruned)]
    np.testing.assert_array_equal(*found)


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
