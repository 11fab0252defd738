"""Counts in leaves, and averages over trees, against loops written out."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from colabel.learn.forest.contents import label_frequencies, tree_means
from colabel.learn.forest.forest import grow

SIZES = (2, 3, 1)
OWNER = (0, 1, 1, 1, 2)
VALUE = (1, 0, 1, 2, 0)
PRIOR = np.array([0.4, 0.2, 0.5, 0.3, 1.0])


@pytest.fixture
def counted(rng):
    X = rng.normal(size=(60, 4))
    codes = np.stack([X[:, 0] > 0, (X[:, 1] > 0) + (X[:, 2] > 0), X[:, 0] > 9], axis=1)
    codes = np.where(rng.random((60, 3)) < 0.1, -1, codes).astype(np.int32)
    weight = rng.uniform(0.5, 2.0, size=60)
    grown = grow(X, np.maximum(codes, 0), n_estimators=7, min_samples_leaf=4, random_state=1)
    return grown.forest.leaves(X), grown, codes, weight


def slow_frequency(leaf, column, leaves, codes, weight, strength, without=None):
    """(weight with the value + m prior) / (weight with a known label + m)."""
    in_leaf = (leaves == leaf).any(axis=1)
    if without is not None:
        in_leaf[without] = False
    own = codes[:, OWNER[column]]
    of_value = weight[in_leaf & (own == VALUE[column])].sum()
    of_known = weight[in_leaf & (own >= 0)].sum()
    return (of_value + strength * PRIOR[column]) / (of_known + strength)


def test_frequencies_are_those_of_the_rows_in_a_leaf(counted):
    leaves, grown, codes, weight = counted
    table, _ = frequencies(counted, codes, grown.out_of_bag)
    assert table.shape == (grown.forest.n_leaves, 5)
    for leaf in range(grown.forest.n_leaves):
        for column in range(5):
            expected = slow_frequency(leaf, column, leaves, codes, weight, 1.5)
            assert table[leaf, column] == pytest.approx(expected, rel=1e-6)
    means = tree_means(leaves, table)
    np.testing.assert_allclose(means, table[leaves].mean(axis=1), rtol=1e-6)


def frequencies(counted, codes, used, n_jobs=1, **options):
    leaves, grown, _, weight = counted
    rows = (leaves, used, codes, SIZES, weight, weight)
    return label_frequencies(grown.forest, *rows, PRIOR, 1.5, n_jobs, **options)


@pytest.mark.parametrize("bytes_at_once", [1, 4000, 1 << 26], ids=["a tree", "some", "all"])
def test_out_of_bag_means_leave_out_the_row_itself(counted, bytes_at_once):
    leaves, grown, codes, weight = counted
    used = grown.out_of_bag
    used[5] = False  # a row that all trees have seen
    table, found = frequencies(counted, codes, used, bytes_at_once=bytes_at_once)
    np.testing.assert_array_equal(table, frequencies(counted, codes, used)[0])
    np.testing.assert_allclose(found[5], PRIOR)
    for row in (0, 17, 59):
        for column in range(5):
            expected = [
                slow_frequency(leaves[row, t], column, leaves, codes, weight, 1.5, without=row)
                for t in np.flatnonzero(used[row])
            ]
            assert found[row, column] == pytest.approx(np.mean(expected))
    # nothing of the row's own labels is in its averages
    other = codes.copy()
    other[0] = (codes[0] + 1) % np.array(SIZES)
    again, threads = (
        frequencies(counted, labels, used, n_jobs, bytes_at_once=bytes_at_once)[1]
        for labels, n_jobs in ((other, 1), (codes, 2))
    )
    np.testing.assert_allclose(again[0], found[0])
    np.testing.assert_array_equal(threads, found)


def test_memory_does_not_grow_with_the_trees(rng):
    """Beside what is returned, of which the table is as long as there are leaves."""
    codes = (rng.random((500, 20)) < 0.3).astype(np.int32)
    X, ones = rng.normal(size=(500, 3)), np.ones(500)
    beside = []
    for n_trees in (20, 160):
        grown = grow(X, codes, n_estimators=n_trees, random_state=0)
        used, leaves = grown.out_of_bag, grown.forest.leaves(X)
        rows = (leaves, used, codes, (2,) * 20, ones, ones, np.full(20, 0.3), 1.0, 1, 1 << 20)
        label_frequencies(grown.forest, *rows)  # compiled, and what is cached is there
        tracemalloc.start()
        table, _ = label_frequencies(grown.forest, *rows)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        beside.append(peak - table.nbytes)
    assert beside[1] < 1.2 * beside[0]
