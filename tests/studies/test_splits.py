from __future__ import annotations

import numpy as np
import pytest

from colabel.tables import TableError
from studies.datasets import (
    first_label_folds,
    iterative_stratification,
    kfold,
    random_splits,
)


def _is_partition(folds, n_rows):
    tests = np.concatenate([test for _, test in folds])
    assert sorted(tests) == list(range(n_rows))
    for train, test in folds:
        assert sorted(np.concatenate([train, test])) == list(range(n_rows))


def test_kfold_is_a_seeded_partition():
    folds = kfold(23, n_splits=4, seed=1)
    _is_partition(folds, 23)
    again = kfold(23, n_splits=4, seed=1)
    assert all(np.array_equal(a[1], b[1]) for a, b in zip(folds, again, strict=True))
    assert not all(
        np.array_equal(a[1], b[1]) for a, b in zip(folds, kfold(23, 4, seed=2), strict=True)
    )


@pytest.mark.parametrize("n_splits", [1, 11])
def test_too_few_or_many_folds(n_splits):
    with pytest.raises(TableError, match=f"into {n_splits} folds"):
        kfold(10, n_splits)
    with pytest.raises(TableError, match=f"into {n_splits} folds"):
        iterative_stratification(np.zeros((10, 1)), n_splits)
    with pytest.raises(TableError, match=f"into {n_splits} folds"):
        first_label_folds(np.zeros((10, 1)), n_splits)


@pytest.mark.parametrize("values", [(0, 1), ("a", "b", None)])
def test_folds_stratified_on_the_first_label(values):
    rng = np.random.default_rng(3)
    Y = rng.choice(np.array(values, dtype=object), size=(83, 3))
    folds = first_label_folds(Y, n_splits=5, seed=0)
    _is_partition(folds, 83)
    for value in values:
        counts = [sum(v == value for v in Y[test, 0]) for _, test in folds]
        assert max(counts) - min(counts) <= 1
    sizes = [len(test) for _, test in folds]
    assert max(sizes) - min(sizes) <= 1
    again, other = first_label_folds(Y, 5, seed=0), first_label_folds(Y, 5, seed=1)
    assert all(np.array_equal(a[1], b[1]) for a, b in zip(folds, again, strict=True))
    assert not all(np.array_equal(a[1], b[1]) for a, b in zip(folds, other, strict=True))


def test_random_splits():
    splits = random_splits(50, train=20, test=0.2, n_splits=3, seed=0)
    assert [(len(a), len(b)) for a, b in splits] == [(20, 10)] * 3
    assert all(not set(a) & set(b) for a, b in splits)
    with pytest.raises(TableError, match="Cannot draw 60"):
        random_splits(50, train=60, test=5)


class TestIterativeStratification:
    def test_spreads_rare_labels_better_than_chance(self):
        rng = np.random.default_rng(0)
        Y = (rng.random((400, 8)) < np.linspace(0.02, 0.5, 8)).astype(int)
        folds = iterative_stratification(Y, n_splits=5, seed=0)
        _is_partition(folds, 400)
        counts = np.array([Y[test].sum(axis=0) for _, test in folds])
        assert (counts.max(axis=0) - counts.min(axis=0)).max() <= 2
        sizes = [len(test) for _, test in folds]
        assert max(sizes) - min(sizes) <= 6

    def test_same_seed_same_folds(self):
        Y = np.random.default_rng(1).integers(2, size=(60, 3))
        a, b = (iterative_stratification(Y, 3, seed=5) for _ in range(2))
        assert all(np.array_equal(s[1], t[1]) for s, t in zip(a, b, strict=True))

    def test_multi_valued_and_text(self):
        rng = np.random.default_rng(2)
        Y = np.stack([rng.choice(list("abc"), 90), rng.choice(list("xy"), 90)], axis=1)
        folds = iterative_stratification(Y, 3, seed=0)
        _is_partition(folds, 90)
        for value in "abc":
            counts = [(Y[test, 0] == value).sum() for _, test in folds]
            assert max(counts) - min(counts) <= 2

    def test_no_labels_at_all(self):
        folds = iterative_stratification(np.zeros((10, 2)), 5, seed=0)
        assert [len(test) for _, test in folds] == [2] * 5

    def test_needs_two_dimensions(self):
        with pytest.raises(TableError, match="one column a label"):
            iterative_stratification([0, 1, 1])
